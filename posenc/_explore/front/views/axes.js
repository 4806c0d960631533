// @ts-check
// The frame of a picture: two axes and their titles. It is made once; afterwards its ticks and labels move.

import { scaleLinear, scaleLog } from "d3-scale";

import { letter, set, shape, textWidth, unique, wrap } from "../dom.js";
import { decade, format, grouped } from "../scale.js";

/** @import { ScaleLinear, ScaleLogarithmic } from "d3-scale" */
/** @import { Axis, Ends, Plot, Point, Row } from "../types" */
/** @typedef {ScaleLinear<number, number> | ScaleLogarithmic<number, number>} Scale */
/** @typedef {{ at: number, text: string }} Tick @typedef {Tick & { place: number, wide: number }} Placed */

export const SIZE = 12; // pixels of the text
const LINE = 15; // from line to line
const ROWS = 3; // of words below an axis
const RIGHT = 14;
const MOST = { x: 9, y: 7 }; // ticks

/**
 * The numbers at which ticks may stand, the fullest list first, with their texts.
 * @type {(axis: Axis, scale: Scale, most: number) => Generator<Tick[]>}
 */
function* tickings({ low, high, log, cells, words }, scale, most) {
  if (words?.length) {
    const named = words.map((text, i) => ({ at: words.start + i, text })).filter(({ at }) => at >= low && at <= high);
    for (let step = 1; step < named.length; step++) yield named.filter((_, i) => i % step === 0);
    return yield named.slice(0, 1);
  }
  if (cells) {
    const first = Math.ceil(low) + 0; // not minus zero
    for (let power = 1; ; power *= 10) {
      for (const step of [power, 2 * power, 5 * power]) {
        const from = Math.ceil(first / step) * step + 0;
        const count = Math.floor((high - from) / step) + 1;
        if (count <= most) yield Array.from({ length: count }, (_, i) => ({ at: from + i * step, text: format(from + i * step) }));
        if (count <= 1) return;
      }
    }
  }
  if (log) {
    const [bottom, top] = [Math.log10(low) - 1e-9, Math.log10(high) + 1e-9];
    const powers = (/** @type {number} */ step) => {
      const ticks = [];
      for (let p = Math.ceil(bottom / step) * step; p <= top; p += step) ticks.push(p);
      return ticks;
    };
    if (powers(1).length < 4) {
      for (const steps of [[1, 2, 5], [1, 3]]) {
        const ticks = powers(1).concat(Math.floor(bottom)).sort((a, b) => a - b)
          .flatMap((p) => steps.map((s) => s * 10 ** p)).filter((t) => t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9));
        if (ticks.length < 2 || ticks.length > most) continue;
        yield ticks.map((at) => ({ at, text: format(Number(at.toPrecision(6))) }));
      }
    }
    if (powers(1).length > 1) {
      for (let step = 1; step < 400; step++) {
        const ticks = powers(step);
        if (ticks.length < 2) break;
        if (ticks.length <= most) yield ticks.map((p) => ({ at: 10 ** p, text: decade(10 ** p) }));
      }
      const ends = powers(1);
      yield [ends[0]].map((p) => ({ at: 10 ** p, text: decade(10 ** p) }));
      return;
    }
  }
  const line = log ? scaleLinear([low, high], scale.range()) : scale;
  for (let count = most; count > 0; count--) {
    const ticks = line.ticks(count);
    if (ticks.length > most) continue;
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : Math.abs(ticks[0]) || 1;
    const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
    const largest = Math.max(...ticks.map(Math.abs));
    const tiny = step < 1e-8 || largest >= 1e9;
    const figures = Math.max(0, Math.ceil(Math.log10(largest / step) - 1e-9));
    const small = (/** @type {number} */ at) => at.toExponential(figures).replaceAll("-", "\u2212").replace("e+", "e");
    yield ticks.map((at) => ({ at, text: tiny && at ? small(at) : grouped(at, digits) }));
  }
}

/**
 * The ends of an axis over data: round numbers, never equal.
 * @type {(low: number, high: number, log?: boolean, count?: number) => Ends}
 */
export function roomy(low, high, log, count = 6) {
  if (log) {
    if (high / low < 1.001) return [low / 2, high * 2];
    return high / low > 10 ? /** @type {Ends} */ (scaleLog([low, high], [0, 1]).nice().domain()) : [low, high];
  }
  if (high - low <= 1e-4 * Math.max(Math.abs(low), Math.abs(high))) {
    const half = Math.abs(low) / 2 || 1;
    [low, high] = [low - half, high + half];
  }
  return /** @type {Ends} */ (scaleLinear([low, high], [0, 1]).nice(count).domain());
}

/**
 * A function from numbers to pixels; the scales of d3 do more, and cost more, for each point.
 * @type {(scale: Scale, log?: boolean) => (value: number) => number}
 */
function mapping(scale, log) {
  const [low, high] = scale.domain().map(log ? Math.log : Number);
  const [from, to] = scale.range();
  const slope = (to - from) / (high - low);
  return log ? (v) => from + (Math.log(v) - low) * slope : (v) => from + (v - low) * slope;
}

/** @type {(axis: Axis, range: Point) => Scale} */
const scaled = ({ low, high, log }, range) => (log ? scaleLog([low, high], range) : scaleLinear([low, high], range));

/**
 * How long the tick of a label is: down to its row, unless it would go through a label above.
 * @type {(all: Placed[], i: number, rows: number) => number}
 */
function leader(all, i, rows) {
  const row = i % rows;
  const free = [i - 2, i - 1, i + 1, i + 2].every((j) => !all[j] || j % rows >= row || Math.abs(all[j].place - all[i].place) > all[j].wide / 2 + 2);
  return row && free ? 4 + LINE * row : 4;
}

export class Frame {
  key = ""; // of what the axes were placed for
  width = 0;
  /** @type {Plot} what the axes enclose */
  plot;
  /** @type {Scale} */
  scaleX;
  /** @type {Scale} */
  scaleY;
  /** @type {(value: number) => number} */
  x;
  /** @type {(value: number) => number} */
  y;
  lines = 0; // of the title above the vertical axis
  /** @type {string | null} the font's family, as long as it is known */
  family = null;

  /** @param {HTMLElement} stage */
  constructor(stage) {
    const clip = unique("pe-clip");
    this.stage = stage;
    this.grid = shape("path", { class: "pe-grid" });
    this.marks = shape("g", { "clip-path": `url(#${clip})` });
    this.over = shape("g");
    this.ticks = shape("path", { class: "pe-ticks" });
    this.labels = { x: shape("g", { "text-anchor": "middle" }), y: shape("g", { "text-anchor": "end" }) };
    this.titles = { x: shape("g", { "text-anchor": "middle", class: "pe-axis-title" }), y: shape("g", { class: "pe-axis-title" }) };
    this.hole = shape("rect");
    this.svg = shape("svg", { "aria-hidden": "true" },
      shape("clipPath", { id: clip }, this.hole), this.grid, this.marks, this.ticks, this.labels.x, this.labels.y, this.titles.x, this.titles.y, this.over);
    stage.append(this.svg);
    this.left = 0;
  }

  get font() {
    this.family ??= getComputedStyle(this.stage).fontFamily;
    return `${SIZE}px ${this.family}`;
  }

  /**
   * Put the axes where they belong. `size` gives the width and height of the plot for the room that it has; `airy` leaves
   * room for a title of the vertical axis, as many lines of it as the pictures of its row have.
   * @type {(width: number, x: Axis, y: Axis, size: (room: number) => Point, airy?: boolean, row?: Row) => boolean}
   */
  place(width, x, y, size, airy = true, row = { level: 0, lines: 0 }) {
    const key = [width, x.low, x.high, x.log, x.label, y.low, y.high, y.log, y.label, airy, row.level, row.lines, x.words, y.words].join("|");
    if (key === this.key) return false;
    this.key = key;
    if (width !== this.width) {
      this.width = width;
      this.left = 0;
      this.family = null;
    }
    const font = this.font;
    const title = { x: x.label ? wrap(x.label, width, font) : [], y: y.label ? wrap(y.label, width, font) : [] };
    this.lines = title.y.length;
    const top = 8 + (airy ? 4 + LINE * Math.max(1, this.lines, row.lines) : 0); // a view beside it may have a title
    /** @type {Placed[]} */
    let ticks = [];
    /** @type {Placed[]} */
    let across = [];
    let rows = 1; // of labels below the axis, which words take by turns
    const inside = (/** @type {Placed} */ { place, wide }) => Math.max(wide / 2, Math.min(width - wide / 2, place));
    /** @type {(a: Placed, b: Placed) => boolean} */
    const level = (a, b) => inside(b) - inside(a) >= (a.wide + b.wide) / 2 + 8;
    for (let round = 0; round < 4; round++) {
      const [wide, along] = size(width - this.left - RIGHT);
      this.plot = { left: this.left, top, width: wide, height: along };
      this.scaleY = scaled(y, y.down ? [top, top + along] : [top + along, top]);
      this.y = mapping(this.scaleY, y.log);
      const apart = SIZE + (y.words?.length ? 2 : 5);
      ticks = this.choose(y, this.scaleY, this.y, "y", (all) => all.every(({ place }, i) => !i || Math.abs(all[i - 1].place - place) >= apart));
      this.scaleX = scaled(x, [this.left, this.left + wide]);
      this.x = mapping(this.scaleX, x.log);
      across = this.choose(x, this.scaleX, this.x, "x", (all) => {
        for (rows = 1; rows <= (x.words?.length ? ROWS : 1); rows++) if (all.every((tick, i) => i < rows || level(all[i - rows], tick))) return true;
        return false;
      });
      const needed = Math.ceil(Math.max(14, ...ticks.map(({ wide }) => wide))) + 8;
      if (needed <= this.left) break;
      this.left = needed; // it only grows, so that the picture does not tremble while labels change
    }
    const { left, height } = this.plot;
    const bottom = top + height;
    rows = Math.min(rows, across.length);
    const deep = 16 + LINE * (rows - 1);
    const high = bottom + 4 + deep + LINE * title.x.length + 4;
    set(this.svg, { viewBox: `0 0 ${width} ${high}`, width, height: high });
    set(this.hole, { x: left - 1, y: top - 1.5, width: this.plot.width + 2, height: height + 3 });
    const horizontal = y.grid ? ticks.map(({ place }) => `M${left} ${place}h${this.plot.width}`).join("") : "";
    const vertical = x.grid ? across.map(({ place }) => `M${place} ${top}v${height}`).join("") : "";
    set(this.grid, { d: horizontal + vertical });
    const marks = ticks.map(({ place }) => `M${left - 4} ${place}h4`).join("") + across.map((tick, i) => `M${tick.place} ${bottom}v${leader(across, i, rows)}`).join("");
    set(this.ticks, { d: marks });
    const text = (/** @type {Placed} */ tick) => tick.text;
    letter(this.labels.y, ticks.map(text), (node, i) => set(node, { x: left - 7, y: ticks[i].place + SIZE * 0.35 }));
    letter(this.labels.x, across.map(text), (node, i) => {
      set(node, { x: inside(across[i]), y: bottom + SIZE + 5 + LINE * (i % rows) });
    });
    letter(this.titles.y, title.y, (node, i) => set(node, { x: 0, y: SIZE + LINE * i }));
    letter(this.titles.x, title.x, (node, i) => {
      const half = textWidth(title.x[i], font) / 2;
      set(node, { x: Math.max(half, Math.min(width - half, left + this.plot.width / 2)), y: bottom + 4 + deep + LINE * i + SIZE });
    });
    return true;
  }

  /**
   * The fullest list of ticks whose labels do not come near each other.
   * @param {Axis} axis @param {Scale} scale @param {(value: number) => number} map @param {"x" | "y"} name
   * @param {(all: Placed[]) => boolean} fit
   */
  choose(axis, scale, map, name, fit) {
    const { font } = this;
    /** @type {Placed[]} */
    let last = [];
    for (const ticks of tickings(axis, scale, MOST[name])) {
      last = ticks.map(({ at, text }) => ({ at, text, place: Math.round(map(at) * 10) / 10, wide: textWidth(text, font) }));
      if (fit(last)) return last;
    }
    return last.slice(0, 1);
  }
}
