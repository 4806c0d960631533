// @ts-check
// A sentence, once in each row, whose words are the darker the more weight they have.

import { element, write } from "../dom.js";
import { format } from "../scale.js";
import { View } from "./view.js";

/** @import { Panel } from "../panel.js" */
/** @import { Control, Tensor, ViewSpec } from "../types" */

const SAME = 0.002; // a smaller change of a weight is none
const CURVE = 0.62; // as `ink` of page.py has it: small weights are visible
const FLASH = 900; // milliseconds that a row shows that it has begun to change

export class Words extends View {
  noun = "row";
  takes = 2;
  /** @type {{ words: HTMLElement[], note: HTMLElement, row: HTMLElement, moved: boolean }[]} */
  lines = [];

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.body = element("tbody");
    this.stage.append(element("table", { class: "pe-words" }, this.body));
  }

  /** @param {Panel} panel */
  connect(panel) {
    const [name] = this.spec.pick;
    if (!name) return;
    this.body.classList.add("pe-picking");
    /** @param {PointerEvent} event */
    const take = ({ clientX, clientY }) => {
      const word = document.elementFromPoint(clientX, clientY)?.closest(".pe-word");
      const at = this.lines.map(({ words }) => words.indexOf(/** @type {HTMLElement} */ (word))).find((found) => found >= 0);
      if (at === undefined || at === panel.values[name]) return;
      panel.stop();
      panel.set({ [name]: at });
    };
    this.body.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary || event.button) return;
      if (event.pointerType === "mouse") this.body.setPointerCapture(event.pointerId);
      take(event);
    });
    this.body.addEventListener("pointermove", (event) => {
      if (this.body.hasPointerCapture(event.pointerId) && event.pointerType === "mouse") take(event);
    });
  }

  /** @param {number} count */
  begin(count) {
    this.lines = Array.from({ length: count }, (_, i) => {
      const words = this.spec.words.map((word) => element("span", { class: "pe-word" }, word));
      const note = element("td");
      const row = element("tr", {}, element("th", { scope: "row" }, this.label(i)), element("td", {}, element("div", {}, ...words)), note);
      row.style.setProperty("--pe-colour", this.colour(i));
      return { words, note, row, moved: false };
    });
    this.body.replaceChildren(...this.lines.map(({ row }) => row));
  }

  /** @param {Tensor[]} tensors */
  draw([{ shape: [count, wide], data }, { data: change }]) {
    if (this.lines.length !== count) this.begin(count);
    const picked = this.values[this.spec.pick[0]];
    const none = unmoved(change);
    this.lines.forEach((line, i) => {
      line.words.forEach((word, at) => {
        const weight = data[i * wide + at];
        word.style.setProperty("--pe-ink", `${Math.round(100 * Math.min(1, Math.max(0, weight) ** CURVE))}%`);
        word.classList.toggle("pe-picked-word", at === picked);
        word.classList.toggle("pe-ahead", weight === 0);
      });
      const moved = change[i] >= SAME;
      write(line.note, none ? "" : moved ? `± ${format(Math.max(1, Math.round(100 * change[i])))} %` : "same");
      line.note.classList.toggle("pe-moved", moved);
      if (moved && !line.moved) this.flash(line.row);
      line.moved = moved;
    });
  }

  /** A row that begins to change shows it for a moment. @param {HTMLElement} row */
  flash(row) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    row.animate([{ background: "color-mix(in srgb, var(--pe-colour) 30%, transparent)" }, { background: "transparent" }], FLASH);
  }

  /** @param {Tensor[]} tensors */
  summary([{ shape: [count, wide], data }, { data: change }]) {
    const none = unmoved(change);
    const rows = Array.from({ length: count }, (_, i) => {
      const row = data.subarray(i * wide, (i + 1) * wide);
      const most = row.indexOf(Math.max(...row));
      const moved = none ? "" : change[i] >= SAME ? `, changed by ${format(change[i])}` : ", unchanged";
      return `${this.label(i)}: most on “${this.spec.words[most]}”, ${format(row[most])}${moved}`;
    });
    return this.titled(rows.join("; "));
  }

  /** @type {View["table"]} */
  table([{ shape: [count, wide], data }, { data: change }], most = { rows: count, columns: wide }) {
    const [high, across] = [Math.min(count, most.rows), Math.min(wide, most.columns)];
    return {
      head: ["row", ...this.spec.words.slice(0, across), "change"],
      rows: Array.from({ length: high }, (_, i) => [this.label(i), ...data.subarray(i * wide, i * wide + across), change[i]]),
      size: [count, wide],
    };
  }
}

/** Whether no row has changed at all: what is left is rounding. @param {Float32Array} change */
const unmoved = (change) => change.every((v) => v < 1e-6);
