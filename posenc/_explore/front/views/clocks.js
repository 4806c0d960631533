// @ts-check
// Clocks: on each dial the arc that has been covered is inked, and a hand may go beyond it. Sines are torch's: the tips
// of the hands come with their angles, and arcs are dashes of a circle.

import { pool, set, shape, textWidth, write } from "../dom.js";
import { format } from "../scale.js";
import { Frame } from "./axes.js";
import { View, within } from "./view.js";

/** @import { Control, Held, Picture, Tensor, Told, ViewSpec } from "../types" */

export const COLUMNS = 5; // of each clock: the arc, the hand, one step, and the tip to the right and upwards
const FULL = 2 * Math.PI;
const NAMES = 34; // pixels below a dial, for two lines
const RIM = 7; // pixels around a dial, for the arc of one step
const SLACK = 1.0005; // a hand at the end of its arc is inside, up to rounding
const round = (/** @type {number} */ v) => Math.round(v * 100) / 100;

/**
 * How many dials stand in a row, and their radius, in so much room.
 * @type {(count: number, room: number, high: number) => { across: number, rows: number, radius: number }}
 */
export function ranged(count, room, high) {
  const least = room < 480 ? 78 : 104;
  const most = within(Math.floor(room / least), 1, Math.max(1, count));
  const rows = Math.ceil(count / most) || 1;
  const across = Math.ceil(count / rows) || 1; // rows of one length
  const radius = Math.min(54, room / across / 2 - RIM - 2, high / rows / 2 - (NAMES + 2 * RIM) / 2);
  return { across, rows, radius: Math.max(26, Math.floor(radius)) };
}

/**
 * What is inked, as shares of a dial: of the arc, and of what the hand has covered beyond it.
 * @type {(arc: number, hand: number) => { inside: number, beyond: number }}
 */
export function shares(arc, hand) {
  const inside = within(arc / FULL, 0, 1);
  const out = hand > arc * SLACK && inside < 1;
  return { inside, beyond: out ? Math.min(1, hand / FULL) - inside : 0 };
}

/** Turns in words: whole ones where there are many. @param {number} angle */
export function turns(angle) {
  const count = angle / FULL;
  const text = format(count < 3 ? Number(count.toPrecision(2)) : Math.round(count));
  return `${text} ${count === 1 ? "turn" : "turns"}`;
}

/** @implements {Picture} */
export class Clocks extends View {
  noun = "clock";
  count = -1;
  size = ""; // for which the dials were placed
  radius = 0;
  /** @type {[x: number, y: number][]} */
  centres = [];

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.frame = new Frame(this.stage);
    this.dials = this.frame.over.appendChild(shape("g"));
    this.names = this.frame.over.appendChild(shape("g", { class: "pe-names" }));
    this.rates = this.frame.over.appendChild(shape("g", { class: "pe-dial-rates" }));
    const node = this.frame.over.appendChild(shape("path", { class: "pe-hit pe-hit-tip" }));
    const names = spec.drag.flatMap((drag) => drag.controls);
    this.hit = node;
    this.handles = names.length ? [{
      controls: names,
      node,
      take: (/** @type {number} */ x, /** @type {number} */ y) => this.nearest(x, y),
      /** @type {(tensors: Tensor[], px: number, py: number, held: Held) => number} */
      miss: ([{ data }], px, py, { taken }) => {
        const [x, y] = this.tip(data, taken ?? 0);
        return Math.hypot(x - px, y - py);
      },
    }] : [];
  }

  /** @param {number} count */
  begin(count) {
    this.count = count;
    this.size = "";
    const ring = (/** @type {string} */ name) => shape("circle", { class: name, pathLength: 1 });
    this.dials.replaceChildren();
    pool(this.dials, count, () =>
      shape("g", { class: "pe-dial", style: `--pe-colour: ${this.colour(0)}` },
        ring("pe-dial-rim"), ring("pe-dial-inside"), ring("pe-dial-beyond"), ring("pe-dial-step"),
        shape("path", { class: "pe-ghost" }), shape("path", { class: "pe-dial-hand" })));
    pool(this.names, count, () => shape("text"));
    pool(this.rates, count, () => shape("text"));
  }

  /** The clock nearest to a place. @type {(px: number, py: number) => number} */
  nearest(px, py) {
    const far = this.centres.map(([x, y]) => Math.hypot(x - px, y - py));
    return far.indexOf(Math.min(...far));
  }

  /** Where a hand ends, in pixels. @type {(data: Float32Array, i: number) => [x: number, y: number]} */
  tip(data, i) {
    const [x, y] = this.centres[i];
    return [x + this.radius * data[COLUMNS * i + 3], y - this.radius * data[COLUMNS * i + 4]];
  }

  place() {
    const { count, width } = this;
    const size = [count, width, this.tallest].join();
    if (size === this.size) return;
    this.size = size;
    const { across, rows, radius } = ranged(count, width, this.tallest);
    const [wide, high] = [width / across, 2 * (radius + RIM) + NAMES];
    this.radius = radius;
    this.centres = Array.from({ length: count }, (_, i) => [
      round(wide * ((i % across) + 0.5)),
      round(high * Math.floor(i / across) + radius + RIM),
    ]);
    const all = rows * high;
    Object.assign(this.frame, { width, plot: { left: 0, top: 0, width, height: all } });
    set(this.frame.hole, { x: 0, y: 0, width, height: all });
    set(this.frame.svg, { viewBox: `0 0 ${width} ${all}`, width, height: all });
    const font = `600 ${this.frame.font.replace("12px", "13px")}`;
    this.centres.forEach(([x, y], i) => {
      const dial = this.dials.children[i];
      set(dial, { transform: `translate(${x} ${y})` });
      const [rim, inside, beyond, step] = dial.children;
      set(rim, { r: radius });
      for (const pie of [inside, beyond]) set(pie, { r: radius / 2, "stroke-width": radius, transform: "rotate(-90)" });
      set(step, { r: radius + 3.5 });
      const name = this.spec.labels[i] ?? "";
      const fits = textWidth(name, font) < wide - 6;
      write(this.names.children[i], fits ? name : name.replace(/^.* /, ""));
      set(this.names.children[i], { x, y: y + radius + RIM + 13 });
      set(this.rates.children[i], { x, y: y + radius + RIM + 27 });
    });
  }

  /** @param {Tensor[]} tensors */
  draw([{ shape: [count], data }]) {
    if (this.count !== count) this.begin(count);
    this.place();
    const { radius } = this;
    const kept = this.pinned ?? this.past;
    const past = kept?.[0].shape[0] === count ? kept[0].data : null;
    let hands = "";
    for (let i = 0; i < count; i++) {
      const [arc, hand, step] = data.subarray(COLUMNS * i, COLUMNS * i + 3);
      const { inside, beyond } = shares(arc, hand);
      const dial = this.dials.children[i];
      const nodes = dial.children;
      dial.classList.toggle("pe-dial-new", beyond > 0);
      set(nodes[1], { "stroke-dasharray": `${round4(inside)} 2` });
      set(nodes[2], { "stroke-dasharray": `0 ${round4(inside)} ${round4(beyond)} 2` });
      const back = ((hand - step) / FULL) * 360 - 90;
      set(nodes[3], { "stroke-dasharray": `${round4(within(step / FULL, 0, 1))} 2`, transform: `rotate(${round(back % 360)})` });
      set(nodes[4], { d: past ? `M0 0L${pointed(past, i, radius)}` : "" });
      set(nodes[5], { d: `M0 0L${pointed(data, i, radius)}` });
      write(this.rates.children[i], turns(arc));
      const [x, y] = this.centres[i];
      const [tx, ty] = this.tip(data, i);
      hands += `M${round(x + 0.35 * (tx - x))} ${round(y + 0.35 * (ty - y))}L${round(tx)} ${round(ty)}`;
    }
    set(this.hit, { d: this.handles.length ? hands : "" });
  }

  /** The clock at a place. @type {Picture["locate"]} */
  locate(px, py) {
    const index = this.nearest(px, py);
    const [x, y] = this.centres[index] ?? [Infinity, Infinity];
    return Math.hypot(x - px, y - py) < this.radius + RIM ? { index } : null;
  }

  /** @type {(place: { index: number } | null, dx: number, dy: number) => { index: number } | null} */
  step(place, dx, dy) {
    const { across } = ranged(this.count, this.width, this.tallest);
    return this.count ? { index: within(place ? place.index + dx + across * dy : 0, 0, this.count - 1) } : null;
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
    const [arc, hand] = data.subarray(COLUMNS * index, COLUMNS * index + 2);
    const values = [{ name: this.spec.x, text: turns(arc) }, { name: this.spec.y, text: turns(hand) }];
    const point = this.tip(data, index);
    return { title: this.label(index), values, point, lines: "", dots: [{ x: point[0], y: point[1], colour: this.colour(0) }] };
  }

  /** @param {Tensor[]} tensors */
  summary([{ shape: [count], data }]) {
    const out = Array.from({ length: count }, (_, i) => i).filter((i) => shares(data[COLUMNS * i], data[COLUMNS * i + 1]).beyond > 0);
    const parts = out.map((i) => `${this.label(i)}, ${this.spec.x} ${turns(data[COLUMNS * i])}, ${this.spec.y} ${turns(data[COLUMNS * i + 1])}`);
    return this.titled(`${out.length} of ${count} hands beyond their arcs${parts.length ? `: ${parts.join("; ")}` : ""}`);
  }

  /** @type {View["table"]} */
  table([{ shape: [count], data }], most = { rows: count, columns: 3 }) {
    const turned = (/** @type {number} */ i) => Array.from(data.subarray(COLUMNS * i, COLUMNS * i + 3), (angle) => angle / FULL);
    return {
      head: ["clock", `${this.spec.x}, turns`, `${this.spec.y}, turns`, "one step, turns"],
      rows: Array.from({ length: Math.min(count, most.rows) }, (_, i) => [this.label(i), ...turned(i)]),
      size: [count, 3],
    };
  }
}

/** @param {number} v */
const round4 = (v) => Math.round(v * 1e4) / 1e4;

/** @type {(data: Float32Array, i: number, radius: number) => string} */
const pointed = (data, i, radius) => `${round(radius * data[COLUMNS * i + 3])} ${round(-radius * data[COLUMNS * i + 4])}`;
