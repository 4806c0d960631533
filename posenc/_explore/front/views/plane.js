// @ts-check
// Arrows from the origin of a plane, with the unit circle.

import { pool, set, shape, textWidth, write } from "../dom.js";
import { grouped } from "../scale.js";
import { Frame, SIZE } from "./axes.js";
import { View } from "./view.js";

/** @import { Control, Picture, Point, Tensor, Told, ViewSpec } from "../types" */

const HEAD = [11, 4.5]; // length and half-width of an arrow's head, in pixels
const TURNS = [[1, 0], [0.83, 0.56], [0.83, -0.56], [0.27, 0.96], [0.27, -0.96], [-0.59, 0.81], [-0.59, -0.81], [-1, 0]]; // where a name may go
const round = (/** @type {number} */ v) => Math.round(v * 10) / 10;

/** @implements {Picture} */
export class Plane extends View {
  noun = "arrow";
  count = -1;

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.frame = new Frame(this.stage);
    this.circle = this.frame.marks.appendChild(shape("circle", { class: "pe-circle" }));
    this.ghosts = this.frame.marks.appendChild(shape("g"));
    this.arrows = this.frame.marks.appendChild(shape("g"));
    this.names = this.frame.over.appendChild(shape("g", { class: "pe-names" }));
    this.handles = spec.drag.map(({ index, controls: names }) => ({
      index,
      controls: names,
      node: this.frame.over.appendChild(shape("path", { class: "pe-hit pe-hit-tip" })),
      /** @type {(tensors: Tensor[], px: number, py: number) => number} */
      miss: ([{ data }], px, py) => Math.hypot(this.frame.x(data[2 * index]) - px, this.frame.y(data[2 * index + 1]) - py),
    }));
  }

  get width() {
    return Math.min(super.width, this.tallest);
  }

  get square() {
    return true;
  }

  /** @param {Tensor[]} tensors */
  draw([{ shape: [count], data }]) {
    const end = this.spec.limit;
    const axis = { low: -end, high: end, grid: true };
    this.frame.place(this.width, { ...axis, label: this.spec.x }, { ...axis, label: this.spec.y }, this.sized((room) => [room, room]), this.airy, this.row);
    const { x, y } = this.frame;
    const [cx, cy] = [x(0), y(0)];
    set(this.circle, { cx: round(cx), cy: round(cy), r: round(x(1) - cx) });
    if (this.count !== count) {
      this.count = count;
      this.arrows.replaceChildren();
      pool(this.arrows, count, (i) => shape("path", { class: "pe-arrow", style: `--pe-colour: ${this.colour(i)}` }));
      pool(this.names, count, () => shape("text"));
    }
    /** @type {Point[]} */
    const tips = Array.from({ length: count }, (_, i) => [x(data[2 * i]), y(data[2 * i + 1])]);
    const kept = this.pinned ?? this.past;
    const past = kept?.[0].shape[0] === count ? kept[0].data : [];
    pool(this.ghosts, past.length / 2, (i) => shape("path", { class: "pe-ghost", style: `--pe-colour: ${this.colour(i)}` })).forEach((node, i) => {
      const [tx, ty] = [x(past[2 * i]), y(past[2 * i + 1])];
      set(node, { d: Number.isFinite(tx + ty) ? arrow(cx, cy, tx, ty) : "" });
    });
    for (const { index, node } of this.handles) {
      const [tx, ty] = tips[index] ?? [NaN, NaN];
      const middle = [cx + 0.6 * (tx - cx), cy + 0.6 * (ty - cy)]; // the outer part of the arrow can be taken
      set(node, { d: Number.isFinite(tx + ty) ? `M${round(middle[0])} ${round(middle[1])}L${round(tx)} ${round(ty)}` : "" });
    }
    /** @type {number[][]} */
    const taken = [];
    tips.forEach(([tx, ty], i) => {
      const finite = Number.isFinite(tx) && Number.isFinite(ty);
      set(this.arrows.children[i], { d: finite ? arrow(cx, cy, tx, ty) : "" });
      this.name(this.names.children[i], finite ? (this.spec.labels[i] ?? "") : "", [tx, ty], [cx, cy], taken);
    });
  }

  /**
   * A name goes where it is free: beyond its arrow's tip, then beside it, always inside of the plane.
   * @type {(node: Element, text: string, tip: Point, origin: Point, taken: number[][]) => void}
   */
  name(node, text, [tx, ty], [cx, cy], taken) {
    write(node, text);
    if (!text) return;
    const wide = textWidth(text, `600 ${this.frame.font.replace(`${SIZE}px`, "13px")}`);
    const { left, top, width, height } = this.frame.plot;
    const length = Math.hypot(tx - cx, ty - cy) || 1;
    const [ux, uy] = [(tx - cx) / length, (ty - cy) / length];
    for (const far of [6, 16, 28, 42]) {
      for (const [c, s] of TURNS) {
        const [dx, dy] = [ux * c - uy * s, ux * s + uy * c];
        const [mx, my] = [tx + dx * (far + wide / 2), ty + dy * (far + 8)];
        const box = [mx - wide / 2, my - 8, mx + wide / 2, my + 8];
        const inside = box[0] >= left + 1 && box[2] <= left + width && box[1] >= top + 1 && box[3] <= top + height;
        if (!inside || taken.some((b) => box[0] < b[2] + 2 && b[0] < box[2] + 2 && box[1] < b[3] && b[1] < box[3])) continue;
        taken.push(box);
        return set(node, { x: round(mx), y: round(my + 4.5), visibility: "visible" });
      }
    }
    set(node, { visibility: "hidden" });
  }

  /** The arrow whose tip is near. @type {Picture["locate"]} */
  locate(px, py) {
    const [{ shape: [count], data }] = this.tensors;
    let best = { index: -1, far: 28 };
    for (let index = 0; index < count; index++) {
      const far = Math.hypot(this.frame.x(data[2 * index]) - px, this.frame.y(data[2 * index + 1]) - py);
      if (far < best.far) best = { index, far };
    }
    return best.index < 0 ? null : { index: best.index };
  }

  /** @type {(place: { index: number } | null, dx: number, dy: number) => { index: number } | null} */
  step(place, dx, dy) {
    const [{ shape: [count] }] = this.tensors;
    const next = (place?.index ?? -1) + ((dx || -dy) > 0 ? 1 : -1);
    return count ? { index: (next + count) % count } : null;
  }

  named() {
    return {};
  }

  find() {
    return null;
  }

  /** @type {(place: { index: number }) => Told} */
  tell({ index }) {
    const [{ data }] = this.tensors;
    const [x, y] = [data[2 * index], data[2 * index + 1]];
    /** @type {Point} */
    const point = [this.frame.x(x), this.frame.y(y)];
    const values = [{ name: "tip", text: `(${grouped(x, 2)}, ${grouped(y, 2)})` }, { name: "length", text: grouped(Math.hypot(x, y), 2) }];
    return { title: this.label(index), values, point, lines: "", dots: [{ x: point[0], y: point[1], colour: this.colour(index) }] };
  }

  /** @param {Tensor[]} tensors */
  summary([{ shape: [count], data }]) {
    const parts = Array.from({ length: count }, (_, i) => `${this.label(i)} (${data[2 * i].toFixed(2)}, ${data[2 * i + 1].toFixed(2)})`);
    return this.titled(parts.join("; "));
  }

  /** @type {View["table"]} */
  table([{ shape: [count], data }], most = { rows: count, columns: 2 }) {
    return {
      head: ["arrow", this.spec.x || "x", this.spec.y || "y"],
      rows: Array.from({ length: Math.min(count, most.rows) }, (_, i) => [this.label(i), data[2 * i], data[2 * i + 1]]),
      size: [count, 2],
    };
  }
}

/** @type {(x0: number, y0: number, x1: number, y1: number) => string} */
function arrow(x0, y0, x1, y1) {
  const length = Math.hypot(x1 - x0, y1 - y0);
  if (length < 0.5) return `M${round(x0)} ${round(y0)}h0`;
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  const [long, half] = HEAD.map((v) => v * Math.min(1, length / HEAD[0]));
  const [bx, by] = [x1 - ux * long, y1 - uy * long];
  const wing = (/** @type {number} */ sign) => `${round(bx - sign * uy * half)} ${round(by + sign * ux * half)}`;
  return `M${round(x0)} ${round(y0)}L${round(bx)} ${round(by)}M${round(x1)} ${round(y1)}L${wing(1)}L${wing(-1)}Z`;
}
