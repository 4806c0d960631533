// @ts-check
// Two states side by side: a choice with another of its values, and the present state with one that was pinned.

import { makeControl } from "./controls.js";
import { element, write } from "./dom.js";
import { sidesOf } from "./layout.js";
import { tool } from "./tools.js";
import { Heatmap } from "./views/heatmap.js";

/** @import { Panel } from "./panel.js" */
/** @import { Choice, Ends, Tensor, Values } from "./types" */
/** @import { View } from "./views/view.js" */

const DIFFERENCE = "B − A";
/** @type {Record<string, string[]>} */
const SIDES = { heatmap: ["A", "B", DIFFERENCE], plane: ["A", "B"], clocks: ["A", "B"] }; // of these kinds each side has a view
const MODES = ["now", "pinned", "difference"];

/** A choice that is compared: A is its control, and B another value of it with a control of its own. */
export class Comparison {
  /** @param {Panel} panel @param {Choice} versus */
  constructor(panel, versus) {
    this.versus = versus;
    this.other = this.next(panel.values[versus.name]);
    this.control = makeControl({ ...versus, label: `B: ${versus.label}` }, `${panel.id}-other`, this.other, {
      move: (value) => panel.oppose(value),
    });
  }

  /** The choice after another, with which it is compared at the start. @param {number} choice */
  next(choice) {
    return (choice + 1) % this.versus.labels.length;
  }

  /** @param {number} value */
  choose(value) {
    this.other = value;
    this.control.show(value);
  }

  /** The state of the other side. @param {Values} values */
  state(values) {
    return { ...values, [this.versus.name]: this.other };
  }

  /**
   * Show both sides in a view: matrices and planes beside each other, lines and numbers together.
   * @type {(view: View, all: View[], mine: Tensor[], theirs: Tensor[], values: Values) => void}
   */
  show(view, all, mine, theirs, values) {
    const { name, labels } = this.versus;
    const names = [labels[values[name]], labels[this.other]];
    /** @type {Record<string, string>} */
    const titles = { A: names[0], B: names[1], [DIFFERENCE]: `${names[1]} − ${names[0]}` };
    view.beside = { tensors: theirs, names };
    const scale = view instanceof Heatmap && !view.spec.limits ? both(view, mine, theirs) : null;
    for (const each of sidesOf(view, all)) {
      if (each.side) write(each.head, [view.spec.title, titles[each.side]].filter(Boolean).join(": "));
      if (each.side !== DIFFERENCE) each.given = scale;
      if (each === view) continue;
      each.values = this.state(values);
      if (each.side === DIFFERENCE) Object.assign(each, { mode: "difference", pinned: mine });
      each.update(theirs);
    }
  }
}

/** The sides of a comparison for which a view of this kind has a picture each. @param {string} kind */
export const sidesFor = (kind) => SIDES[kind] ?? [""];

/** One scale for two matrices. @type {(view: Heatmap, mine: Tensor[], theirs: Tensor[]) => Ends} */
function both(view, [a], [b]) {
  const ends = [a, b].map(({ data }) => view.limits(data));
  return [Math.min(ends[0][0], ends[1][0]), Math.max(ends[0][1], ends[1][1])];
}

/** A state that is kept to compare with, the button that keeps it, and what matrices show beside it. */
export class Pin {
  /** @type {{ values: Values, tensors: Tensor[] } | null} */
  state = null;

  /** @param {Panel} panel */
  constructor(panel) {
    this.panel = panel;
    this.button = tool("Pin", () => this.put(), { "aria-pressed": "false", hidden: Boolean(panel.spec.compare) });
    this.modes = element("span", { class: "pe-modes", role: "group", "aria-label": "what the matrices show", hidden: true },
      ...MODES.map((mode) => element("button", { type: "button", class: "pe-button", onclick: () => this.compare(mode) }, mode)));
  }

  /**
   * Keep a state, or with null let it go; without values the state that is shown, or none.
   * @param {Values | null} values
   */
  async put(values = this.state ? null : this.panel.shown) {
    const { panel } = this;
    if (values && values !== panel.shown) {
      try {
        this.state = { values: { ...values }, tensors: await panel.engine.compute(values) };
      } catch (error) {
        return panel.complain(error.message ?? String(error));
      }
    } else this.state = values && panel.tensors && { values: { ...values }, tensors: panel.tensors };
    const shares = this.state && panel.shares(this.state.tensors);
    panel.views.forEach((view, i) => {
      view.pinned = shares?.[i] ?? null;
    });
    this.button.setAttribute("aria-pressed", String(Boolean(this.state)));
    this.modes.hidden = !this.state || !panel.views.some((view) => view.mode);
    this.compare(MODES[0]);
  }

  /**
   * What matrices show while a state is pinned: the present one, the pinned one, or their difference.
   * @param {string} mode
   */
  compare(mode) {
    const { views, status } = this.panel;
    MODES.forEach((name, i) => {
      this.modes.children[i].setAttribute("aria-pressed", String(name === mode));
    });
    for (const view of views) {
      if (view.mode) view.mode = mode;
      if (view.tensors) view.draw(view.tensors);
    }
    const other = mode === "difference" && views.some((view) => view.mode && String(view.tensors[0].shape) !== String(view.pinned?.[0].shape));
    write(status, other ? "The matrices differ in size, so they have no difference." : "");
    this.panel.again();
  }
}
