// @ts-check
// Where a head looks from every byte: a map of the logarithms of the weights, since most weights are small.

import { write } from "../dom.js";
import { decade, format, scientific } from "../scale.js";
import { Heatmap } from "../views/heatmap.js";
import { LEAST, mapped } from "./looks.js";

/** @import { Cell, Control, Tensor, Told, ViewSpec } from "../types" */
/** @import { View } from "../views/view.js" */

const FEW = 24; // bytes that have room beside an axis

/** The weights themselves. @type {(logarithms: Tensor) => Tensor} */
const weights = ({ shape: size, data }) => ({ shape: size, data: data.map((v) => (Number.isFinite(v) ? 10 ** v : v)) });

export class Looks extends Heatmap {
  /** @type {string[]} the bytes of both axes */
  letters = [];
  above = true; // what is told covers no cell

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.adopt = ({ row = 0 }) => ({ before: row * this.stride });
  }

  /** The weights of all rows, for bytes with these names. @type {(rows: Float32Array[], names: string[]) => void} */
  show(rows, names) {
    const { map, stride } = mapped(rows);
    Object.assign(this, { letters: names, stride });
    this.rows = Object.assign(rows.length > FEW ? [] : names.slice(0, rows.length), { start: 0 });
    this.columns = this.rows;
    this.update([map]);
  }

  /** Outline the row of a byte; of none where it is negative. @param {number} before */
  mark(before) {
    this.values = { before: Math.floor(before / this.stride) };
    if (!this.picked || !this.tensors) return;
    const [{ shape: [rows, columns] }] = this.tensors;
    this.outline(this.picked, rows, columns);
  }

  /** @type {Heatmap["explain"]} */
  explain(low, high) {
    super.explain(low, high);
    write(this.ends[0], `≤ ${decade(10 ** low)}`);
    write(this.ends[2], format(10 ** high));
  }

  /** @type {Heatmap["named"]} */
  named({ row = NaN, column = NaN }) {
    return { [this.spec.y]: row * this.stride, [this.spec.x]: column * this.stride };
  }

  /** @type {Heatmap["find"]} */
  find(names) {
    const { x, y } = this.spec;
    return super.find({ [y]: Math.floor(names[y] / this.stride), [x]: Math.floor(names[x] / this.stride) });
  }

  /** @type {(cell: Cell) => Told} */
  tell(cell) {
    const { letters, stride, spec: { x, y } } = this;
    const name = (/** @type {string} */ axis, /** @type {number} */ i) => {
      const all = letters.slice(i * stride, (i + 1) * stride);
      return `${axis} “${all.join("")}” (${i * stride}${all.length > 1 ? `–${i * stride + all.length - 1}` : ""})`;
    };
    const told = super.tell(cell);
    const query = cell.row === undefined ? "" : name(y, cell.row);
    const key = cell.column === undefined ? "" : name(x, cell.column);
    if (!query || !key) return { ...told, title: query || key };
    return { ...told, title: query, values: told.values.map(({ text }) => ({ name: key, text })) };
  }

  /** @type {Heatmap["word"]} */
  word(value) {
    if (!Number.isFinite(value)) return super.word(value);
    return 10 ** value > LEAST ? scientific(10 ** value) : `less than ${decade(LEAST)}`;
  }

  /** @param {Tensor[]} tensors */
  summary([map]) {
    return super.summary([weights(map)]);
  }

  /** @type {View["table"]} */
  table([map], most) {
    return super.table([weights(map)], most);
  }
}
