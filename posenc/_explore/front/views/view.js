// @ts-check
// What all views share: a title, a stage to draw on, and the order of things.

import { element } from "../dom.js";
import { format, grouped } from "../scale.js";

/** @import { Panel } from "../panel.js" */
/** @import { Adopt, Control, Ends, Handle, Most, Point, Row, Table, Tensor, Values, ViewSpec } from "../types" */
/** @import { Frame } from "./axes.js" */

/** @type {(value: number, low: number, high: number) => number} */
export const within = (value, low, high) => Math.max(low, Math.min(high, value));

/**
 * The smallest and the largest of the finite numbers; 0 to 1 where there are none.
 * @type {(data: Float32Array, above?: number) => Ends}
 */
export function extent(data, above = -Infinity) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < data.length; i++) {
    const v = data[i];
    if (v < low && v > above) low = v;
    if (v > high && v !== Infinity && v > above) high = v;
  }
  return low <= high ? [low, high] : [0, 1];
}

export class View {
  noun = ""; // what one of the things is that it shows
  takes = 1; // tensors
  /** @type {Frame} of a picture with axes */
  frame;
  /** @type {Tensor[]} the present ones */
  tensors;
  /** @type {Tensor[] | null} those of the pinned state */
  pinned = null;
  /** @type {Tensor[] | null} those before the present movement */
  past = null;
  /** @type {{ tensors: Tensor[], names: string[] } | null} the other side of a comparison, and what both are called */
  beside = null;
  /** @type {Ends | null} a scale that it shares with other pictures */
  given = null;
  /** @type {string | undefined} of a matrix, what it shows while a state is pinned */
  mode;
  /** @type {Row} with those beside it */
  row = { level: 0, lines: 0 };
  wish = 0; // pixels that its plot would be high if nothing stood beside it
  /** @type {boolean | undefined} whether there is room above for a title of the vertical axis */
  airy;
  /** @type {string} the side of a comparison, where each side has a view */
  side = "";
  /** @type {View} of such views the first one */
  main = this;
  /** @type {View[] | undefined} views in this one */
  parts;
  /** @type {Handle[]} what can be taken and dragged */
  handles = [];
  /** @type {Adopt | undefined} the values of controls for which a place stands, where it does */
  adopt;
  /** @type {((parts: View[]) => void) | undefined} is told of new parts */
  connected;
  probing = false; // by a finger that rests

  room = 0; // pixels from side to side, measured when that may have changed: asking for it at each move costs a layout

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    this.spec = spec;
    this.host = host;
    this.controls = controls;
    this.widest = 820; // pixels; the panel says how much room there is
    this.tallest = 380;
    this.least = 220;
    /** @type {Values} */
    this.values = {}; // of the controls, for which the tensors were computed
    this.head = element("p", { class: "pe-view-title" }, spec.title ?? "");
    // The names of lines and the scale of colours are for the eye: the summary has them.
    this.legend = element("div", { class: "pe-swatches", "aria-hidden": "true" });
    this.stage = element("div", { class: "pe-stage", role: "img" });
    this.foot = element("div", { class: "pe-legend", "aria-hidden": "true" });
    host.append(this.head, this.legend, this.stage, this.foot); // four rows, which the views beside it share
  }

  /** The width to draw at: that of the column, within reason. */
  get width() {
    return Math.max(this.least, Math.min(this.room || 480, this.widest));
  }

  /** Whether its plot is a square. */
  get square() {
    return false;
  }

  /**
   * The size of a plot that ends where those beside it do. A square that is to be lower is narrower too.
   * @type {(size: (room: number) => Point) => (room: number) => Point}
   */
  sized(size) {
    return (room) => {
      const [wide, high] = size(room);
      this.wish = high;
      if (!this.row.level) return [wide, high];
      const side = Math.min(high, this.row.level);
      return this.square ? [side, side] : [wide, this.row.level];
    };
  }

  /** What it needs of its panel, once. @param {Panel} _panel */
  connect(_panel) {}

  /** Each kind of views draws in its own way. @param {Tensor[]} _tensors */
  draw(_tensors) {}

  /** What there is to see, in a sentence. @param {Tensor[]} _tensors @returns {string} */
  summary(_tensors) {
    return "";
  }

  /** The numbers, at most so many. @param {Tensor[]} _tensors @param {Most} [_most] @returns {Table} */
  table(_tensors, _most) {
    return { head: [], rows: [], size: [0, 0] };
  }

  /** The place in the picture, in its own pixels, of a place in the window. @type {(x: number, y: number) => Point} */
  pixel(x, y) {
    const box = this.frame.svg.getBoundingClientRect();
    const scale = this.frame.width / box.width;
    return [(x - box.left) * scale, (y - box.top) * scale];
  }

  /** @param {Tensor[]} tensors */
  update(tensors) {
    const first = !this.tensors;
    this.tensors = tensors;
    if (!this.room) this.measure();
    this.draw(tensors);
    if (first) this.describe();
  }

  measure() {
    this.room = this.stage.clientWidth;
  }

  resize() {
    this.measure();
    if (this.tensors) this.draw(this.tensors);
  }

  /** Say what there is to see; not on every frame of a movement. */
  describe() {
    this.stage.setAttribute("aria-label", this.summary(this.tensors));
  }

  /** @param {number} i */
  label(i) {
    return this.spec.labels[i] ?? `${this.noun} ${i + 1}`;
  }

  /** @param {number} i */
  colour(i) {
    return this.spec.colours[i % this.spec.colours.length];
  }

  /** A number with as many digits as the view was told. @type {(value: number, i: number) => string} */
  figure(value, i) {
    const { digits } = this.spec;
    return Number.isFinite(value) ? grouped(value, Array.isArray(digits) ? (digits[i] ?? 2) : (digits ?? 2)) : format(value);
  }

  /** @param {string} text */
  titled(text) {
    return `${this.spec.title ? `${this.spec.title}: ` : ""}${text}.`;
  }
}

/** @param {Float32Array} data */
export const span = (data) => {
  const [low, high] = extent(data);
  return `values from ${format(low)} to ${format(high)}`;
};
