// Curves over one axis, as lines, steps, stems, bars or dots. Each line has its nodes, whose outline moves.

import { element, pool, set, shape } from "../dom.js";
import { format } from "../scale.js";
import { Frame, roomy } from "./axes.js";
import { View, extent, span, within } from "./view.js";

const FAR = 1e4; // pixels; what lies further out is outside of any picture
const near = (v) => Math.round(within(v, -FAR, FAR) * 10) / 10;

/** The index of the number that is nearest to a value. */
function nearest(numbers, value) {
  let index = 0;
  for (let i = 1; i < numbers.length; i++) if (Math.abs(numbers[i] - value) < Math.abs(numbers[index] - value)) index = i;
  return index;
}

/** Points joined by straight lines. A point that is no number ends a line; one alone becomes a dot. */
function polyline(xs, ys) {
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] !== ys[i]) continue;
    const first = !i || ys[i - 1] !== ys[i - 1];
    d += `${first ? "M" : "L"}${xs[i]} ${ys[i]}`;
    if (first && (i === xs.length - 1 || ys[i + 1] !== ys[i + 1])) d += "h0";
  }
  return d;
}

/** Each value holds from halfway to the point before to halfway to the next. */
function staircase(xs, ys) {
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] !== ys[i]) continue;
    const before = i ? near((xs[i - 1] + xs[i]) / 2) : xs[i];
    const after = i < xs.length - 1 ? near((xs[i] + xs[i + 1]) / 2) : xs[i];
    const first = !i || ys[i - 1] !== ys[i - 1];
    d += `${first ? `M${before} ${ys[i]}` : `V${ys[i]}`}H${after}`;
  }
  return d;
}

/** Where points lie closer than pixels: of each pixel's column the first, the lowest, the highest and the last. */
function envelope(xs, ys) {
  const thin = [[], []];
  for (let start = 0; start < xs.length; ) {
    let end = start;
    let low = start;
    let high = start;
    for (; end < xs.length && Math.abs(xs[end] - xs[start]) < 1; end++) {
      if (ys[end] < ys[low] || ys[low] !== ys[low]) low = end;
      if (ys[end] > ys[high] || ys[high] !== ys[high]) high = end;
    }
    for (const i of new Set([start, low, high, end - 1].sort((a, b) => a - b))) {
      thin[0].push(xs[i]);
      thin[1].push(ys[i]);
    }
    start = end;
  }
  return thin;
}

/** Small triangles at the edge, where a line leaves the picture and comes back. */
function beyond(xs, ys, { top, height }) {
  let d = "";
  for (const [edge, sign] of [[top, 1], [top + height, -1]]) {
    let last = -Infinity;
    for (let i = 0; i < xs.length; i++) {
      const out = (edge - ys[i]) * sign > 0.6;
      const turns = out && !((edge - ys[i - 1]) * sign > 0.6 && (edge - ys[i + 1]) * sign > 0.6);
      if (turns && xs[i] - last >= 14) {
        d += `M${xs[i] - 4} ${edge + 6 * sign}h8l-4 ${-6 * sign}Z`;
        last = xs[i];
      }
    }
  }
  return d;
}

export class Lines extends View {
  static takes = 2;
  noun = "line";

  constructor(spec, host) {
    super(spec, host);
    this.frame = new Frame(this.stage);
    this.words = Object.assign([...spec.ticks], { start: 0 });
    this.bands = this.frame.marks.appendChild(shape("g"));
    this.ghosts = this.frame.marks.appendChild(shape("g"));
    this.paths = this.frame.marks.appendChild(shape("g"));
    this.tips = this.frame.over.appendChild(shape("g")); // a dot on the limit is not cut in half
    this.edges = this.frame.over.appendChild(shape("g"));
  }

  label(i, count) {
    return this.spec.labels[i] ?? (count > 1 ? `line ${i + 1}` : this.spec.y);
  }

  mark(i) {
    const { mark } = this.spec;
    return typeof mark === "string" ? mark : (mark[i] ?? "line");
  }

  draw([x, y]) {
    const [count] = y.shape;
    if (this.count !== count) this.begin(count);
    const marks = Array.from({ length: count }, (_, i) => this.mark(i));
    this.frame.place(this.width, this.across(x.data, marks), this.along(y.data, marks), (room) => [
      room,
      Math.round(Math.max(150, Math.min(0.68 * this.tallest, room * 0.55))),
    ], this.airy);
    const { plot } = this.frame;
    const now = this.trace(x, y, marks);
    Object.assign(this, { xs: now.xs, all: now.all });
    now.outlines.forEach(([d, tips], i) => {
      set(this.paths.childNodes[i], { d });
      set(this.tips.childNodes[i], { d: tips ?? "", "stroke-width": Math.max(2, Math.min(6, 0.6 * now.pitch)) });
      set(this.edges.childNodes[i], { d: marks[i] === "bar" ? "" : beyond(now.xs, now.all[i], plot) });
    });
    this.spec.bands.forEach(([lower, upper], i) => {
      const back = polyline([...now.xs].reverse(), [...now.all[lower]].reverse()).replaceAll("M", "L");
      set(this.bands.childNodes[i], { d: `${polyline(now.xs, now.all[upper])}${back}Z` });
    });
    this.haunt(marks);
  }

  /** The outlines of tensors between the present axes, and the pixels of their points. */
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

  /** The pinned lines, or those before the present movement, dashed, between the present axes. */
  haunt(marks) {
    const [x, y] = this.pinned ?? this.past ?? [];
    const count = y?.shape[0] === this.count ? this.count : 0;
    const was = count ? this.trace(x, y, marks).outlines : [];
    pool(this.ghosts, count, (i) => this.path("pe-ghost", i)).forEach((node, i) => {
      set(node, { d: was[i][0] || was[i][1] });
    });
  }

  /** Nodes for each line, once. */
  begin(count) {
    this.count = count;
    const shown = this.spec.labels.length ? Math.min(count, 12) : 0;
    this.legend.replaceChildren(
      ...Array.from({ length: shown }, (_, i) => {
        const item = element("span", { class: `pe-swatch ${this.kind(i)}` }, this.label(i, count));
        item.style.setProperty("--pe-colour", this.colour(i));
        return item;
      }),
    );
    const { bands } = this.spec;
    pool(this.bands, bands.length, (i) => this.path("pe-band", bands[i][1]));
    for (const [group, name] of [[this.paths, "pe-line"], [this.tips, "pe-tips"], [this.edges, "pe-beyond"]]) {
      pool(group, 0); // another number of lines has other marks
      pool(group, count, (i) => this.path(name === "pe-line" ? `${name} ${this.kind(i)}` : name, i));
    }
  }

  kind(i) {
    return this.mark(i).split("+").map((part) => `pe-mark-${part}`).join(" ");
  }

  path(name, i) {
    return shape("path", { class: name, style: `--pe-colour: ${this.colour(i)}` });
  }

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

  /** The least distance between neighbours, in pixels. */
  pitch(xs) {
    let least = this.frame.plot.width;
    for (let i = 1; i < xs.length; i++) least = Math.min(least, Math.abs(xs[i] - xs[i - 1]));
    return least;
  }

  /** What a line is drawn with: its outline, and the dots at its points. */
  outline(mark, xs, ys, { base, pitch, share, index }) {
    if (mark === "step") return [staircase(xs, ys)];
    let d = mark.startsWith("line") ? polyline(...(xs.length > 2 * this.frame.plot.width ? envelope(xs, ys) : [xs, ys])) : "";
    if (mark === "line") return [d];
    let dots = "";
    const { top, height } = this.frame.plot;
    const wide = Math.max(1, Math.min(48, 0.76 * pitch)) / Math.max(1, share);
    for (let i = 0; i < xs.length; i++) {
      if (ys[i] !== ys[i]) continue;
      if (mark === "bar") d += `M${near(xs[i] + wide * (index - share / 2))} ${base}V${ys[i]}h${near(wide)}V${base}Z`;
      else if (mark === "stem") d += `M${xs[i]} ${base}V${ys[i]}`;
      if (mark !== "bar" && ys[i] >= top - 1 && ys[i] <= top + height + 1) dots += `M${xs[i]} ${ys[i]}h0`;
    }
    return [d, dots];
  }

  locate(x) {
    const { left, width } = this.frame.plot;
    if (x < left - 8 || x > left + width + 8 || !this.xs.length) return null;
    return { index: nearest(this.xs, x) };
  }

  step(place, dx, dy) {
    const last = this.xs.length - 1;
    return last < 0 ? null : { index: within((place?.index ?? (dx > 0 ? -1 : last + 1)) + (dx || -dy), 0, last) };
  }

  named({ index }) {
    return { [this.spec.x]: this.tensors[0].data[index] };
  }

  find(names) {
    const value = names[this.spec.x];
    const [{ data }] = this.tensors;
    if (value === undefined || !data.length) return null;
    const index = nearest(data, value);
    const step = data.length > 1 ? Math.abs(data[Math.max(1, index)] - data[Math.max(1, index) - 1]) : 1;
    return Math.abs(data[index] - value) <= step / 2 ? { index } : null;
  }

  tell({ index }) {
    const [x, y] = this.tensors;
    const [count, points] = y.shape;
    const { top, height } = this.frame.plot;
    const at = x.data[index];
    const word = this.words[at];
    const lines = Array.from({ length: count }, (_, i) => ({ value: y.data[i * points + index], place: this.all[i][index], i }));
    const shown = lines.filter(({ value }) => Number.isFinite(value));
    const name = (i) => (count > 1 ? this.label(i, count) : "");
    return {
      title: `${this.spec.x} ${word ? `“${word}” (${format(at)})` : format(at)}`,
      values: (shown.length ? shown : lines).map(({ value, i }) => ({ name: name(i), text: format(value), colour: count > 1 ? this.colour(i) : undefined })),
      point: [this.xs[index], shown.length ? within(Math.min(...shown.map(({ place }) => place)), top, top + height) : top + height / 2],
      lines: `M${this.xs[index]} ${top}v${height}`,
      dots: shown.filter(({ place }) => place >= top - 1 && place <= top + height + 1).map(({ place, i }) => ({ x: this.xs[index], y: place, colour: this.colour(i) })),
    };
  }

  summary([, y]) {
    const [count, points] = y.shape;
    const parts = Array.from({ length: count }, (_, i) => `${this.label(i, count)}: ${span(y.data.subarray(i * points, (i + 1) * points))}`);
    return this.titled(`${this.spec.y} against ${this.spec.x}; ${parts.join("; ")}`);
  }

  table([x, y], most = { rows: y.shape[1], columns: y.shape[0] }) {
    const [count, points] = y.shape;
    const wide = Math.min(count, most.columns);
    return {
      head: [this.spec.x, ...Array.from({ length: wide }, (_, i) => this.label(i, count))],
      rows: Array.from({ length: Math.min(points, most.rows) }, (_, p) => [x.data[p], ...Array.from({ length: wide }, (_, i) => y.data[i * points + p])]),
      size: [points, count],
    };
  }
}
