// What all views share: a title, a stage to draw on, and the order of things.

import { element } from "../dom.js";
import { format } from "../scale.js";

export const within = (value, low, high) => Math.max(low, Math.min(high, value));

/** The smallest and the largest of the finite numbers; 0 to 1 where there are none. */
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
  constructor(spec, host) {
    this.spec = spec;
    this.host = host;
    this.widest = 820; // pixels; the panel says how much room there is
    this.tallest = 380;
    this.least = 220;
    this.values = {}; // of the controls, for which the tensors were computed
    this.head = element("p", { class: "pe-view-title" }, spec.title ?? "");
    this.legend = element("div", { class: "pe-swatches" });
    this.stage = element("div", { class: "pe-stage", role: "img" });
    this.foot = element("div", { class: "pe-legend" });
    host.append(this.head, this.legend, this.stage, this.foot); // four rows, which the views beside it share
  }

  /** The width to draw at: that of the column, within reason. */
  get width() {
    return Math.max(this.least, Math.min(this.stage.clientWidth || 480, this.widest));
  }

  /** The place in the picture, in its own pixels, of a place in the window. */
  pixel(x, y) {
    const box = this.frame.svg.getBoundingClientRect();
    const scale = this.frame.width / box.width;
    return [(x - box.left) * scale, (y - box.top) * scale];
  }

  update(tensors) {
    const first = !this.tensors;
    this.tensors = tensors;
    this.draw(tensors);
    if (first) this.describe();
  }

  resize() {
    if (this.tensors) this.draw(this.tensors);
  }

  /** Say what there is to see; not on every frame of a movement. */
  describe() {
    this.stage.setAttribute("aria-label", this.summary(this.tensors));
  }

  label(i) {
    return this.spec.labels[i] ?? `${this.noun} ${i + 1}`;
  }

  colour(i) {
    return this.spec.colours[i % this.spec.colours.length];
  }

  titled(text) {
    return `${this.spec.title ? this.spec.title + ": " : ""}${text}.`;
  }
}

export const span = (data) => {
  const [low, high] = extent(data);
  return `values from ${format(low)} to ${format(high)}`;
};
