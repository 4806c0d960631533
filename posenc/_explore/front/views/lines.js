// @ts-check
// Curves over one axis, as lines, steps, stems, bars or dots. Each line has its nodes, whose outline moves.

import { element, pool, set, shape, textWidth } from "../dom.js";
import { format, stepOf, valueAt, scientific } from "../scale.js";
import { Frame, roomy } from "./axes.js";
import { FAR, beyond, borders, envelope, heightAt, near, nearest, polyline, staircase } from "./curves.js";
import { View, extent, span, within } from "./view.js";

/** @import { Axis, Control, Handle, Held, Picture, Slider, Tensor, Told, Values, ViewSpec } from "../types" */
/** @import { Pixels } from "./curves.js" */
/** @typedef {{ index: number }} Place of all lines, on the horizontal axis */
/** @typedef {Handle & { name: string, axis: "x" | "y", line: Element, grip: Element, group: Element }} Bar */
/** @typedef {{ xs: Float64Array, all: Float64Array[], pitch: number, outlines: string[][] }} Traces in pixels */

/** @implements {Picture} */
export class Lines extends View {
  noun = "line";
  takes = 2;
  count = -1;
  names = ""; // of both sides, as they were drawn
  /** @type {Tensor[]} what is shown: with the other side of a comparison, if both are one line */
  drawn;
  /** @type {string[] | null | undefined} the names of both sides, where they are drawn together */
  both;
  /** @type {Float64Array} the pixels of the points on the horizontal axis */
  xs;
  /** @type {Float64Array[]} and on the vertical one, of each line */
  all;

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.frame = new Frame(this.stage);
    this.words = Object.assign([...spec.ticks], { start: 0 });
    this.bands = this.frame.marks.appendChild(shape("g"));
    this.ghosts = this.frame.marks.appendChild(shape("g"));
    this.paths = this.frame.marks.appendChild(shape("g"));
    this.tips = this.frame.over.appendChild(shape("g")); // a dot on the limit is not cut in half
    this.edges = this.frame.over.appendChild(shape("g"));
    this.landmarks = spec.landmarks.map(({ label }) => ({
      line: this.frame.over.appendChild(shape("path", { class: "pe-landmark" })),
      name: this.frame.over.appendChild(shape("text", { class: "pe-landmark-name" }, label)),
    }));
    this.curves = spec.drag.map((drag) => this.curve(drag));
    this.bars = [
      ...(spec.rule ? [this.bar(spec.rule, "x")] : []),
      ...(spec.level ? [this.bar(spec.level, "y")] : []),
    ];
    this.handles = [...this.curves, ...this.bars];
    if (spec.rule) {
      this.stage.classList.add("pe-picking");
      this.adopt = (/** @type {Place} */ { index }) => this.nearby(spec.rule, this.tensors[0].data[index]);
    }
  }

  /**
   * A line that can be dragged: it follows the pointer, or, of a step, the border that was taken.
   * @param {ViewSpec["drag"][0]} drag
   */
  curve({ index, controls }) {
    const { frame } = this;
    const node = frame.over.appendChild(shape("path", { class: "pe-hit pe-hit-line" }));
    const pair = controls.length > 1; // for movements along the axes
    const stepped = this.mark(index) === "step";
    return {
      index, controls, node, either: true,
      take: (/** @type {number} */ x) => (stepped ? this.border(index, x) : null),
      /** @type {(tensors: Tensor[], x: number, y: number, held: Held) => number} */
      miss: (tensors, x, y, { taken, level, from }) => {
        if (taken !== null && (level || !pair)) return Math.abs((borders(frame, tensors, index).at(taken) ?? FAR) - x);
        return Math.abs(heightAt(frame, tensors, index, pair && !level ? from[0] : x) - y);
      },
    };
  }

  /**
   * The border nearest to a place, counted from the end that is nearer; null if the line has none.
   * @type {(line: number, x: number) => number | null}
   */
  border(line, x) {
    const all = borders(this.frame, this.tensors, line);
    const index = nearest(all, x);
    return all.length ? (index < all.length / 2 ? index : index - all.length) : null;
  }

  /**
   * A rule across the picture at the value of a control, with a grip at the axis.
   * @type {(name: string, axis: "x" | "y") => Bar}
   */
  bar(name, axis) {
    const group = this.frame.over.appendChild(shape("g", { class: `pe-rule pe-rule-${axis}` }));
    const line = group.appendChild(shape("path", { class: "pe-rule-line" }));
    const grip = group.appendChild(shape("circle", { r: 6 }));
    const node = group.appendChild(shape("path", { class: `pe-hit pe-hit-${axis}` }));
    const scale = axis === "x" ? "scaleX" : "scaleY";
    /** @type {(x: number, y: number) => Values} */
    const at = (x, y) => this.nearby(name, this.frame[scale].invert(axis === "x" ? x : y));
    return { name, axis, line, grip, node, group, controls: [name], at };
  }

  /** The value of a slider that is nearest to a number. @type {(name: string, value: number) => Values} */
  nearby(name, value) {
    const control = /** @type {Slider} */ (this.controls.find((c) => c.name === name));
    return { [name]: valueAt(control, stepOf(control, control.log ? Math.max(control.min, value) : value)) };
  }

  /**
   * Two sides of a comparison with one line each on the same points become two lines.
   * @type {(tensors: Tensor[]) => Tensor[] | null}
   */
  joined([x, y]) {
    const { beside } = this;
    if (!beside || y.shape[0] !== 1) return null;
    const [bx, by] = beside.tensors;
    if (by.shape[0] !== 1 || x.data.length !== bx.data.length || x.data.some((v, i) => v !== bx.data[i])) return null;
    const data = new Float32Array(2 * y.data.length);
    data.set(y.data);
    data.set(by.data, y.data.length);
    return [x, { shape: [2, y.shape[1]], data }];
  }

  /** @type {(i: number, count?: number) => string} */
  label(i, count = 1) {
    if (this.both) return this.both[i];
    return this.spec.labels[i] ?? (count > 1 ? `line ${i + 1}` : this.spec.y);
  }

  /** @param {number} i */
  mark(i) {
    const { mark } = this.spec;
    return typeof mark === "string" ? mark : (mark[i] ?? "line");
  }

  /** Other lines from now on. @type {(names: string[], colours: string[]) => void} */
  rename(names, colours) {
    if (String(this.spec.labels) === String(names)) return;
    Object.assign(this.spec, { labels: names, colours });
    this.count = -1; // so that its lines are made anew
  }

  /** @param {Tensor[]} tensors */
  draw(tensors) {
    const joined = this.joined(tensors);
    this.drawn = joined ?? tensors;
    this.both = joined && this.beside?.names;
    const [x, y] = this.drawn;
    const [count] = y.shape;
    const names = this.both?.join() ?? "";
    if (names !== this.names) this.count = -1; // other words in the legend
    this.names = names;
    if (this.count !== count) this.begin(count);
    const marks = Array.from({ length: count }, (_, i) => this.mark(i));
    const size = this.sized((room) => [room, Math.round(Math.max(150, Math.min(0.68 * this.tallest, room * 0.55)))]);
    this.frame.place(this.width, this.across(x.data, marks), this.along(y.data, marks), size, this.airy, this.row);
    const { plot } = this.frame;
    const now = this.trace(x, y, marks);
    Object.assign(this, { xs: now.xs, all: now.all });
    now.outlines.forEach(([d, tips], i) => {
      set(this.paths.children[i], { d });
      set(this.tips.children[i], { d: tips ?? "", "stroke-width": Math.max(2, Math.min(6, 0.6 * now.pitch)) });
      set(this.edges.children[i], { d: marks[i] === "bar" ? "" : beyond(now.xs, now.all[i], plot) });
    });
    this.spec.bands.forEach(([lower, upper], i) => {
      const back = polyline([...now.xs].reverse(), [...now.all[lower]].reverse()).replaceAll("M", "L");
      set(this.bands.children[i], { d: `${polyline(now.xs, now.all[upper])}${back}Z` });
    });
    this.haunt(marks);
    this.mount(now);
  }

  /** Fixed marks, rules, and what can be dragged. @param {Traces} traces */
  mount({ xs, all }) {
    const { left, top, width, height } = this.frame.plot;
    /** @type {[from: number, to: number, row: number][]} */
    const taken = [];
    this.landmarks.forEach(({ line, name }, i) => {
      const x = near(this.frame.x(this.spec.landmarks[i].at));
      const seen = x >= left - 1 && x <= left + width + 1;
      set(line, { d: seen ? `M${x} ${top}v${height}` : "" });
      const wide = textWidth(this.spec.landmarks[i].label, this.frame.font);
      const from = x + 4 + wide <= left + width ? x + 4 : x - 4 - wide;
      let row = 0;
      while (taken.some(([a, b, other]) => other === row && from < b + 6 && a < from + wide + 6)) row++;
      taken.push([from, from + wide, row]);
      set(name, { x: near(from), y: top + 11 + 15 * row, visibility: seen ? "visible" : "hidden" });
    });
    for (const { index, node } of this.curves) {
      const ys = all[index];
      set(node, { d: ys ? (this.mark(index) === "step" ? staircase(xs, ys) : polyline(xs, ys)) : "" });
    }
    for (const handle of this.bars) {
      const level = handle.axis === "x";
      const at = near(this.frame[handle.axis](this.values[handle.name]));
      const [low, high] = level ? [left, left + width] : [top, top + height];
      set(handle.group, { visibility: at >= low - 1 && at <= high + 1 ? "visible" : "hidden" });
      if (!Number.isFinite(at)) continue;
      const d = level ? `M${at} ${top}v${height}` : `M${left} ${at}h${width}`;
      set(handle.line, { d });
      set(handle.node, { d });
      set(handle.grip, level ? { cx: at, cy: top + height } : { cx: left, cy: at });
    }
  }

  /**
   * The outlines of tensors between the present axes, and the pixels of their points.
   * @type {(x: Tensor, y: Tensor, marks: string[]) => Traces}
   */
  trace(x, y, marks) {
    const [count, points] = y.shape;
    const { plot } = this.frame;
    const { spec } = this;
    const xs = Float64Array.from(x.data, (v) => near(this.frame.x(v)));
    const ground = near(this.frame.y(spec.log_y ? this.frame.scaleY.domain()[0] : 0));
    const base = within(ground, plot.top, plot.top + plot.height);
    const pitch = this.pitch(xs);
    const bars = marks.filter((mark) => mark === "bar").length;
    const all = [];
    const outlines = [];
    let bar = 0;
    for (let i = 0; i < count; i++) {
      const ys = new Float64Array(points);
      for (let p = 0; p < points; p++) {
        const v = y.data[i * points + p];
        ys[p] = Number.isFinite(v) && (!spec.log_y || v > 0) ? near(this.frame.y(v)) : NaN;
      }
      all.push(ys);
      const mark = points === 1 && marks[i] === "line" ? "dot" : marks[i];
      outlines.push(this.outline(mark, xs, ys, { base, pitch, share: bars, index: mark === "bar" ? bar++ : 0 }));
    }
    return { xs, all, pitch, outlines };
  }

  /**
   * The pinned lines, or those before the present movement, dashed, between the present axes.
   * @param {string[]} marks
   */
  haunt(marks) {
    const kept = this.pinned ?? this.past ?? (this.both ? null : this.beside?.tensors);
    const was = kept?.[1].shape[0] === this.count ? this.trace(kept[0], kept[1], marks).outlines : [];
    pool(this.ghosts, was.length, (i) => this.path("pe-ghost", i)).forEach((node, i) => {
      set(node, { d: was[i][0] || was[i][1] });
    });
  }

  /** Nodes for each line, once. @param {number} count */
  begin(count) {
    this.count = count;
    const shown = this.spec.labels.length || this.both ? Math.min(count, 12) : 0;
    this.legend.replaceChildren(
      ...Array.from({ length: shown }, (_, i) => {
        const item = element("span", { class: `pe-swatch ${this.kind(i)}` }, this.label(i, count));
        item.style.setProperty("--pe-colour", this.colour(i));
        return item;
      }),
    );
    const { bands } = this.spec;
    pool(this.bands, bands.length, (i) => this.path("pe-band", bands[i][1]));
    for (const group of [this.paths, this.tips, this.edges]) group.replaceChildren(); // another number of lines has other marks
    pool(this.paths, count, (i) => this.path(`pe-line ${this.kind(i)}`, i));
    pool(this.tips, count, (i) => this.path("pe-tips", i));
    pool(this.edges, count, (i) => this.path("pe-beyond", i));
  }

  /** @param {number} i */
  kind(i) {
    return this.mark(i).split("+").map((part) => `pe-mark-${part}`).join(" ");
  }

  /** @type {(name: string, i: number) => SVGElement} */
  path(name, i) {
    return shape("path", { class: name, style: `--pe-colour: ${this.colour(i)}` });
  }

  /** @type {(data: Float32Array, marks: string[]) => Axis} */
  across(data, marks) {
    const { spec } = this;
    let [low, high] = extent(data, spec.log_x ? 0 : -Infinity);
    if (!(low < high)) [low, high] = spec.log_x ? [low / 2, low * 2] : [low - 0.5, low + 0.5];
    else if (!spec.log_x && marks.includes("bar")) {
      const half = (high - low) / Math.max(1, data.length - 1) / 2;
      [low, high] = [low - half, high + half];
    }
    return { low, high, log: spec.log_x, words: this.words, label: spec.x };
  }

  /** @type {(data: Float32Array, marks: string[]) => Axis} */
  along(data, marks) {
    const { spec } = this;
    let ends = spec.limits;
    if (!ends) {
      let [low, high] = extent(data, spec.log_y ? 0 : -Infinity);
      if (!spec.log_y && marks.some((mark) => mark === "bar" || mark === "stem")) [low, high] = [Math.min(0, low), Math.max(0, high)];
      ends = spec.log_y && !(low > 0) ? [0.1, 1] : roomy(low, high, spec.log_y);
    }
    return { low: ends[0], high: ends[1], log: spec.log_y, label: spec.y, grid: true };
  }

  /** The least distance between neighbours, in pixels. @param {Float64Array} xs */
  pitch(xs) {
    let least = this.frame.plot.width;
    for (let i = 1; i < xs.length; i++) least = Math.min(least, Math.abs(xs[i] - xs[i - 1]));
    return least;
  }

  /**
   * What a line is drawn with: its outline, and the dots at its points. Bars stand on `base`, beside those of other lines.
   * @type {(mark: string, xs: Pixels, ys: Pixels, room: { base: number, pitch: number, share: number, index: number }) => string[]}
   */
  outline(mark, xs, ys, { base, pitch, share, index }) {
    if (mark === "step") return [staircase(xs, ys)];
    let d = "";
    if (mark.startsWith("line")) d = xs.length > 2 * this.frame.plot.width ? polyline(...envelope(xs, ys)) : polyline(xs, ys);
    if (mark === "line") return [d];
    let dots = "";
    const { top, height } = this.frame.plot;
    const wide = Math.max(1, Math.min(48, 0.76 * pitch)) / Math.max(1, share);
    for (let i = 0; i < xs.length; i++) {
      if (Number.isNaN(ys[i])) continue;
      if (mark === "bar") d += `M${near(xs[i] + wide * (index - share / 2))} ${base}V${ys[i]}h${near(wide)}V${base}Z`;
      else if (mark === "stem") d += `M${xs[i]} ${base}V${ys[i]}`;
      if (mark !== "bar" && ys[i] >= top - 1 && ys[i] <= top + height + 1) dots += `M${xs[i]} ${ys[i]}h0`;
    }
    return [d, dots];
  }

  /** @type {(x: number) => Place | null} */
  locate(x) {
    const { left, width } = this.frame.plot;
    if (x < left - 8 || x > left + width + 8 || !this.xs.length) return null;
    return { index: nearest(this.xs, x) };
  }

  /** @type {(place: Place | null, dx: number, dy: number) => Place | null} */
  step(place, dx, dy) {
    const last = this.xs.length - 1;
    return last < 0 ? null : { index: within((place?.index ?? (dx > 0 ? -1 : last + 1)) + (dx || -dy), 0, last) };
  }

  /** @param {Place} place */
  named({ index }) {
    return { [this.spec.x]: this.tensors[0].data[index] };
  }

  /** @param {Record<string, number>} names */
  find(names) {
    const value = names[this.spec.x];
    const [{ data }] = this.tensors;
    if (value === undefined || !data.length) return null;
    const index = nearest(data, value);
    const step = data.length > 1 ? Math.abs(data[Math.max(1, index)] - data[Math.max(1, index) - 1]) : 1;
    return Math.abs(data[index] - value) <= step / 2 ? { index } : null;
  }

  /** @type {(place: Place) => Told} */
  tell({ index }) {
    const [x, y] = this.drawn;
    const [count, points] = y.shape;
    const { top, height } = this.frame.plot;
    const at = x.data[index];
    const word = this.words[at];
    const lines = Array.from({ length: count }, (_, i) => ({ value: y.data[i * points + index], place: this.all[i][index], i }));
    const shown = lines.filter(({ value }) => Number.isFinite(value));
    const name = (/** @type {number} */ i) => (count > 1 ? this.label(i, count) : "");
    const said = this.spec.log_y ? scientific : format; // as its axis
    return {
      title: `${this.spec.x} ${word ? `“${word}” (${format(at)})` : format(at)}`,
      values: (shown.length ? shown : lines).map(({ value, i }) => ({ name: name(i), text: said(value), colour: count > 1 ? this.colour(i) : undefined })),
      point: [this.xs[index], shown.length ? within(Math.min(...shown.map(({ place }) => place)), top, top + height) : top + height / 2],
      lines: `M${this.xs[index]} ${top}v${height}`,
      dots: shown.filter(({ place }) => place >= top - 1 && place <= top + height + 1).map(({ place, i }) => ({ x: this.xs[index], y: place, colour: this.colour(i) })),
    };
  }

  /** @param {Tensor[]} tensors */
  summary([, y]) {
    const [count, points] = y.shape;
    const parts = Array.from({ length: count }, (_, i) => `${this.label(i, count)}: ${span(y.data.subarray(i * points, (i + 1) * points))}`);
    return this.titled(`${this.spec.y} against ${this.spec.x}; ${parts.join("; ")}`);
  }

  /** @type {View["table"]} */
  table([x, y], most = { rows: y.shape[1], columns: y.shape[0] }) {
    const [count, points] = y.shape;
    const wide = Math.min(count, most.columns);
    return {
      head: [this.spec.x || "place", ...Array.from({ length: wide }, (_, i) => this.label(i, count))],
      rows: Array.from({ length: Math.min(points, most.rows) }, (_, p) => [x.data[p], ...Array.from({ length: wide }, (_, i) => y.data[i * points + p])]),
      size: [points, count],
    };
  }
}
