// @ts-check
// A few numbers with their names.

import { element, write } from "../dom.js";
import { format } from "../scale.js";
import { View } from "./view.js";

/** @import { Control, Tensor, ViewSpec } from "../types" */

export class Readout extends View {
  noun = "value";
  count = -1;

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.stage.removeAttribute("role");
    this.list = element("dl", { class: "pe-readout" });
    this.stage.append(this.list);
  }

  /** A number, or the word that it stands for. @type {(value: number, i: number) => string} */
  figure(value, i) {
    const { spelt, digits } = this.spec;
    const plain = Array.isArray(digits) && digits[i] === null; // as many digits as are significant
    return spelt?.[i]?.[Math.round(value)] ?? (plain ? format(value) : super.figure(value, i));
  }

  describe() {} // its numbers are words already

  /** @param {Tensor[]} tensors */
  draw([{ shape: [count], data }]) {
    if (this.count !== count) {
      this.count = count;
      this.list.replaceChildren(
        ...Array.from({ length: count }, (_, i) => element("div", {}, element("dt", {}, this.label(i)), element("dd"))),
      );
    }
    [...this.list.querySelectorAll("dd")].forEach((number, i) => {
      write(number, this.words(data, i));
    });
  }

  /**
   * The number, after the pinned one or before that of the other side.
   * @type {(data: Float32Array, i: number) => string}
   */
  words(data, i) {
    const other = this.beside?.tensors[0].data[i];
    if (other !== undefined) return `${this.figure(data[i], i)} / ${this.figure(other, i)}`;
    return (this.pinned ? `${this.figure(this.pinned[0].data[i], i)} → ` : "") + this.figure(data[i], i);
  }

  /** @param {Tensor[]} tensors */
  summary([{ shape: [count], data }]) {
    const was = (/** @type {number} */ i) => (this.pinned ? `pinned ${this.figure(this.pinned[0].data[i], i)}, now ` : "");
    return `${Array.from({ length: count }, (_, i) => `${this.label(i)} ${was(i)}${this.figure(data[i], i)}`).join("; ")}.`;
  }

  /** @type {View["table"]} */
  table([{ shape: [count], data }], most = { rows: count, columns: 1 }) {
    return {
      head: ["name", "value"],
      rows: Array.from({ length: Math.min(count, most.rows) }, (_, i) => [this.label(i), this.spec.spelt?.[i] ? this.figure(data[i], i) : data[i]]),
      size: [count, 1],
    };
  }
}
