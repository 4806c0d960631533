// @ts-check
// The elements of controls, each with a function that shows a value in it.

import { element, mute } from "./dom.js";
import { format, parse, spread, stepOf, steps, valueAt } from "./scale.js";

/** @import { Choice, Control, Made, Slider, Value } from "./types" */
/** @typedef {(value: Value) => void} Move @typedef {(message: string | null) => void} Complain */

/**
 * The element of a control and `show(value)`; `move(value)` is called with what a reader chose.
 * @type {(control: Control, id: string, value: Value, told: { move: Move, complain?: Complain }) => Made}
 */
export function makeControl(control, id, value, { move, complain = () => {} }) {
  const label = element("label", { for: id }, control.label);
  if (control.unit) label.append(element("span", { class: "pe-unit" }, ` ${control.unit}`));
  if (control.shared) label.append(element("span", { class: "pe-shared", title: "moves in all panels of this page that have it", "aria-hidden": "true" }, " ⚭"));
  const made =
    control.kind === "tick" ? tick(id, label, move)
    : control.kind === "choice" ? choice(control, id, label, move)
    : slider(control, id, label, move, complain);
  made.show(value);
  return made;
}

/** The button that unfolds further controls. @param {HTMLElement} more their row, which has an id */
export function further(more) {
  const button = element("button", {
    type: "button", class: "pe-button pe-further", "aria-expanded": "false", "aria-controls": more.id,
    onclick: () => {
      more.hidden = !more.hidden;
      mute([more], more.hidden);
      button.setAttribute("aria-expanded", String(!more.hidden));
    },
  }, "More controls");
  return button;
}

/** @type {(id: string, label: HTMLElement, move: Move) => Made} */
function tick(id, label, move) {
  const box = element("input", { type: "checkbox", id, onchange: () => move(box.checked) });
  return { host: element("div", { class: "pe-control pe-tick" }, box, label), show: (value) => (box.checked = value) };
}

/** @type {(control: Choice, id: string, label: HTMLElement, move: Move) => Made} */
function choice(control, id, label, move) {
  const options = control.labels.map((text, i) => element("option", { value: i }, text));
  const select = element("select", { id, onchange: () => move(Number(select.value)) }, ...options);
  return { host: element("div", { class: "pe-control" }, label, select), show: (value) => (select.value = String(value)) };
}

/** @type {(control: Slider, id: string, label: HTMLElement, move: Move, complain: Complain) => Made} */
function slider(control, id, label, move, complain) {
  const range = element("input", { type: "range", id, min: 0, max: steps(control), step: 1, oninput: () => move(valueAt(control, Number(range.value))) });
  const field = element("input", {
    type: "text", inputmode: "decimal", class: "pe-field", "aria-label": `${control.label}, exact value`, spellcheck: "false", autocomplete: "off",
  });
  const longest = Math.max(...spread(control).map((one) => format(one).length));
  field.style.setProperty("--pe-wide", `${longest}ch`);
  let shown = control.min;
  const show = (/** @type {number} */ value) => {
    shown = value;
    range.value = String(stepOf(control, value));
    range.setAttribute("aria-valuetext", format(value));
    range.style.setProperty("--pe-filled", `${(100 * Number(range.value)) / (Number(range.max) || 1)}%`);
    field.value = format(value);
  };
  const commit = () => {
    try {
      complain(null);
      move(parse(control, field.value));
    } catch (error) {
      complain(error.message);
    }
    show(shown);
  };
  field.addEventListener("change", commit);
  field.addEventListener("keydown", (event) => event.key === "Enter" && commit()); // some hosts swallow Enter's change
  return { host: element("div", { class: "pe-control pe-slider" }, label, field, range), show };
}
