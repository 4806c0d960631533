// @ts-check
// Small multiples: several matrices, or one arrow in each plane, as small pictures with one scale.

import { element } from "../dom.js";
import { Heatmap } from "./heatmap.js";
import { Plane } from "./plane.js";
import { View, extent } from "./view.js";

/** @import { Control, Ends, Tensor, ViewSpec } from "../types" */

const LEAST = 130; // pixels of a tile

export class Tiles extends View {
  /** @type {(Heatmap | Plane)[]} */
  parts = [];

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.stage.classList.add("pe-tiles");
    this.stage.setAttribute("role", "group"); // each tile is a picture
    if (spec.kind === "heatmap") this.mode = "now";
  }

  /** @param {number} count */
  begin(count) {
    const { spec } = this;
    for (const part of this.parts) part.host.remove();
    this.parts = Array.from({ length: count }, (_, i) => {
      const box = element("div", { class: `pe-tile pe-${spec.kind}` });
      this.stage.append(box);
      const title = Array.isArray(spec.tiles) ? spec.tiles[i] : (spec.labels[i] ?? `arrow ${i + 1}`);
      const own = { ...spec, tiles: [], title };
      const part = spec.kind === "heatmap"
        ? new Heatmap(own, box, this.controls)
        : new Plane({ ...own, labels: [], colours: [this.colour(i)], drag: [] }, box, this.controls);
      part.least = LEAST - 20;
      return part;
    });
    const [first] = this.parts;
    if (first instanceof Heatmap) this.foot.replaceChildren(...first.foot.childNodes);
    this.connected?.(this.parts);
  }

  measure() {
    super.measure();
    for (const part of this.parts) part.measure();
  }

  /** The tensors of one tile. @type {(tensor: Tensor, i: number) => Tensor[]} */
  part({ shape: [, ...rest], data }, i) {
    if (this.spec.kind === "plane") return [{ shape: [1, 2], data: data.subarray(2 * i, 2 * i + 2) }];
    const size = rest[0] * rest[1];
    return [{ shape: rest, data: data.subarray(i * size, (i + 1) * size) }];
  }

  /** @param {Tensor[]} tensors */
  draw([tensor]) {
    const count = tensor.shape[0];
    if (this.parts.length !== count) this.begin(count);
    this.parts.forEach((part, i) => {
      part.tallest = Math.min(this.tallest, 260);
      part.widest = this.widest;
      part.airy = Boolean(this.spec.y);
      part.values = this.values;
      part.given = this.spec.kind === "heatmap" && !this.spec.limits ? this.ends(tensor.data) : null;
      part.past = this.past?.[0].shape[0] === count ? this.part(this.past[0], i) : null;
      part.pinned = this.pinned?.[0].shape[0] === count ? this.part(this.pinned[0], i) : null;
      part.mode = this.mode;
      part.update(this.part(tensor, i));
    });
  }

  /** @type {(data: Float32Array) => Ends} */
  ends(data) {
    const [low, high] = extent(data);
    const end = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return this.spec.scale === "diverging" ? [-end, end] : [low, high > low ? high : low + 1];
  }

  /** Each tile says what it shows; of all together there is the title. */
  describe() {
    this.stage.setAttribute("aria-label", this.head.textContent || "small pictures");
    for (const part of this.parts) part.describe();
  }

  summary() {
    return this.titled(this.parts.map((part) => part.summary(part.tensors).replace(/\.$/, "")).join("; "));
  }

  /** @type {View["table"]} */
  table([tensor], most) {
    const tables = this.parts.map((part, i) => ({ ...part.table(this.part(tensor, i), most), name: part.spec.title }));
    const first = tables[0] ?? { head: [], rows: [], size: [0, 0] };
    const rows = tables.flatMap(({ name, rows: own }) => own.map(([head, ...rest]) => [`${name}, ${head}`, ...rest]));
    return { head: first.head, rows: most ? rows.slice(0, most.rows) : rows, size: [first.size[0] * tables.length, first.size[1]] };
  }
}
