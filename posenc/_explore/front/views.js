// Draws the tensors it is given, with Observable Plot's axes. It computes no scheme.

import * as Plot from "@observablehq/plot";
import { decade, format } from "./scale.js";

const STYLE = { background: "transparent", color: "currentColor", fontFamily: "inherit", fontSize: "12px", overflow: "visible" };
const MARGIN = { marginTop: 10, marginRight: 14, marginBottom: 38, marginLeft: 52 };

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function extent(data) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < data.length; i++) {
    const v = data[i];
    if (v < low && v !== -Infinity) low = v;
    if (v > high && v !== Infinity) high = v;
  }
  return low <= high ? [low, high] : [0, 1];
}

function integerTicks(low, high, most) {
  const span = Math.max(1, high - low);
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= most) ?? power * 10);
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) ticks.push(t);
  return ticks;
}

const scale = (log) => (log ? { type: "log", tickFormat: decade } : { type: "linear" });
const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

class View {
  constructor(spec, host) {
    this.spec = spec;
    this.host = host;
    if (spec.title) host.append(element("p", "pe-view-title", spec.title));
    this.stage = element("div", "pe-stage");
    this.stage.setAttribute("role", "img");
    host.append(this.stage);
    this.key = null;
  }

  /** The width to draw at: that of the column, within reason. */
  get width() {
    return Math.max(220, Math.min(this.host.clientWidth || 480, 820));
  }

  update(tensors) {
    this.tensors = tensors;
    this.draw(tensors);
    this.stage.setAttribute("aria-label", this.summary(tensors));
  }

  resize() {
    this.key = null;
    if (this.tensors) this.draw(this.tensors);
  }

  frame(plot) {
    plot.setAttribute("aria-hidden", "true");
    plot.querySelector("style").remove(); // style.css has these rules: a new sheet at each move would restyle all of the page
    return plot;
  }
}

class Heatmap extends View {
  static takes = 1;

  constructor(spec, host) {
    super(spec, host);
    const table = bytes(spec.table);
    this.colours = new Uint32Array(256);
    for (let i = 0; i < 256; i++) {
      this.colours[i] = (255 << 24) | (table[3 * i + 2] << 16) | (table[3 * i + 1] << 8) | table[3 * i];
    }
    this.css = (i) => `rgb(${table[3 * i]},${table[3 * i + 1]},${table[3 * i + 2]})`;
    this.canvas = element("canvas", "pe-cells");
    this.canvas.setAttribute("aria-hidden", "true");
    this.legend = element("div", "pe-legend");
    host.append(this.legend);
  }

  limits(data) {
    if (this.spec.limits) return this.spec.limits;
    if (this.spec.scale === "cyclic") return [0, 2 * Math.PI];
    const [low, high] = extent(data);
    if (this.spec.scale === "diverging") {
      const end = Math.max(Math.abs(low), Math.abs(high)) || 1;
      return [-end, end];
    }
    if (this.spec.scale === "discrete") return [low - 0.5, Math.max(high, low + 1) + 0.5];
    return high > low ? [low, high] : [low, low + 1];
  }

  draw([{ shape, data }]) {
    const [rows, columns] = shape;
    const width = this.width;
    const key = `${rows}×${columns}@${width}`;
    if (key !== this.key) this.axes(rows, columns, width, key);
    const [low, high] = this.limits(data);
    if (rows && columns) this.paint(rows, columns, data, low, high);
    this.bar(low, high);
  }

  axes(rows, columns, width, key) {
    this.key = key;
    const [top, left] = this.spec.origin;
    const height = Math.round(Math.max(220, Math.min(380, width * 0.58)));
    const plot = Plot.plot({
      ...MARGIN,
      width,
      height,
      style: STYLE,
      x: { domain: [left - 0.5, left + columns - 0.5], label: this.spec.x, ticks: integerTicks(left, left + columns - 1, Math.min(8, width / 60)), tickFormat: "d", labelArrow: "none", labelAnchor: "center" },
      y: { domain: [top + rows - 0.5, top - 0.5], label: this.spec.y, ticks: integerTicks(top, top + rows - 1, 7), tickFormat: "d", labelArrow: "none", labelAnchor: "center" },
      marks: [],
    });
    Object.assign(this.canvas.style, {
      left: `${MARGIN.marginLeft}px`,
      top: `${MARGIN.marginTop}px`,
      width: `${width - MARGIN.marginLeft - MARGIN.marginRight}px`,
      height: `${height - MARGIN.marginTop - MARGIN.marginBottom}px`,
    });
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.context = this.canvas.getContext("2d");
    this.image = rows && columns ? this.context.createImageData(columns, rows) : null;
    this.stage.replaceChildren(this.canvas, this.frame(plot));
  }

  paint(rows, columns, data, low, high) {
    const cells = new Uint32Array(this.image.data.buffer);
    const scale = 255.999 / (high - low);
    const colours = this.colours;
    for (let i = 0; i < cells.length; i++) {
      const at = (data[i] - low) * scale;
      cells[i] = at !== at || at === Infinity || at === -Infinity ? 0 : colours[at < 0 ? 0 : at > 255 ? 255 : at | 0];
    }
    this.context.putImageData(this.image, 0, 0);
  }

  bar(low, high) {
    const key = `${format(low)} ${format(high)}`;
    if (key === this.barKey) return;
    this.barKey = key;
    this.legend.replaceChildren(element("span", "", format(low)), element("span", "pe-bar"), element("span", "", format(high)));
    const stops = Array.from({ length: 17 }, (_, i) => this.css(Math.min(255, i * 16)));
    this.legend.children[1].style.background = `linear-gradient(to right, ${stops.join(",")})`;
  }

  summary([{ shape, data }]) {
    const [low, high] = extent(data);
    return `${this.spec.title ? this.spec.title + ": " : ""}${shape[0]} rows (${this.spec.y}) by ${shape[1]} columns (${this.spec.x}), values from ${format(low)} to ${format(high)}.`;
  }

  table([{ shape: [rows, columns], data }]) {
    return {
      head: [`${this.spec.y} \\ ${this.spec.x}`, ...Array.from({ length: columns }, (_, c) => c + this.spec.origin[1])],
      rows: Array.from({ length: rows }, (_, r) => [r + this.spec.origin[0], ...data.subarray(r * columns, (r + 1) * columns)]),
    };
  }
}

class Lines extends View {
  static takes = 2;

  constructor(spec, host) {
    super(spec, host);
    this.legend = element("div", "pe-swatches");
    host.insertBefore(this.legend, this.stage);
  }

  label(i, count) {
    return this.spec.labels[i] ?? (count > 1 ? `line ${i + 1}` : this.spec.y);
  }

  draw([x, y]) {
    const [count, points] = y.shape;
    const width = this.width;
    if (this.key !== count) {
      this.key = count;
      const shown = this.spec.labels.length ? Math.min(count, 12) : 0;
      this.legend.replaceChildren(
        ...Array.from({ length: shown }, (_, i) => {
          const item = element("span", "pe-swatch", this.label(i, count));
          item.style.setProperty("--pe-colour", this.spec.colours[i % this.spec.colours.length]);
          return item;
        }),
      );
    }
    const positive = this.spec.log_y ? (v) => (v > 0 ? v : NaN) : (v) => (Number.isFinite(v) ? v : NaN);
    const indices = { length: points };
    const marks = Array.from({ length: count }, (_, i) => {
      const row = y.data.subarray(i * points, (i + 1) * points);
      const options = { x: x.data, y: Array.from(row, positive), stroke: this.spec.colours[i % this.spec.colours.length] };
      return points === 1 ? Plot.dot(indices, options) : Plot.line(indices, { ...options, strokeWidth: 1.8 });
    });
    const plot = Plot.plot({
      ...MARGIN,
      width,
      height: Math.round(Math.max(190, Math.min(300, width * 0.42))),
      style: STYLE,
      x: { label: this.spec.x, ...scale(this.spec.log_x), labelArrow: "none", labelAnchor: "center", ticks: Math.max(3, Math.min(8, width / 70)) },
      y: { label: this.spec.y, ...scale(this.spec.log_y), domain: this.spec.limits ?? undefined, labelArrow: "none", labelAnchor: "center", grid: true, nice: !this.spec.limits, clamp: Boolean(this.spec.limits) },
      marks,
    });
    this.stage.replaceChildren(this.frame(plot));
  }

  resize() {
    if (this.tensors) this.draw(this.tensors);
  }

  summary([, y]) {
    const [count, points] = y.shape;
    const parts = Array.from({ length: count }, (_, i) => {
      const [low, high] = extent(y.data.subarray(i * points, (i + 1) * points));
      return `${this.label(i, count)}: values from ${format(low)} to ${format(high)}`;
    });
    return `${this.spec.title ? this.spec.title + ": " : ""}${this.spec.y} against ${this.spec.x}; ${parts.join("; ")}.`;
  }

  table([x, y]) {
    const [count, points] = y.shape;
    return {
      head: [this.spec.x, ...Array.from({ length: count }, (_, i) => this.label(i, count))],
      rows: Array.from({ length: points }, (_, p) => [x.data[p], ...Array.from({ length: count }, (_, i) => y.data[i * points + p])]),
    };
  }
}

const CIRCLE = Array.from({ length: 121 }, (_, i) => [Math.cos((i * Math.PI) / 60), Math.sin((i * Math.PI) / 60)]);

class Plane extends View {
  static takes = 1;

  label(i) {
    return this.spec.labels[i] ?? `arrow ${i + 1}`;
  }

  draw([{ shape, data }]) {
    const side = Math.min(this.width, 380);
    const end = this.spec.limit;
    const tips = Array.from({ length: shape[0] }, (_, i) => ({ x: data[2 * i], y: data[2 * i + 1], i }));
    const colour = ({ i }) => this.spec.colours[i % this.spec.colours.length];
    const beyond = (axis) => (tip) => tip[axis] * (1 + (0.05 * end) / (Math.hypot(tip.x, tip.y) || 1));
    const finite = tips.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
    const plot = Plot.plot({
      ...MARGIN,
      width: side,
      height: side - MARGIN.marginLeft - MARGIN.marginRight + MARGIN.marginTop + MARGIN.marginBottom,
      style: STYLE,
      x: { domain: [-end, end], label: this.spec.x || null, ticks: 5, grid: true, labelArrow: "none", labelAnchor: "center" },
      y: { domain: [-end, end], label: this.spec.y || null, ticks: 5, grid: true, labelArrow: "none", labelAnchor: "center" },
      marks: [
        Plot.line(CIRCLE, { strokeOpacity: 0.35, strokeWidth: 1 }),
        Plot.arrow(finite, { x1: 0, y1: 0, x2: "x", y2: "y", stroke: colour, strokeWidth: 2.2, headLength: 9, insetEnd: 0 }),
        ...["start", "end"].map((textAnchor) =>
          Plot.text(
            finite.filter(({ x }) => (x >= 0) === (textAnchor === "start")),
            { x: beyond("x"), y: beyond("y"), text: ({ i }) => this.spec.labels[i] ?? "", fontSize: 13, fontWeight: 600, textAnchor },
          ),
        ),
      ],
    });
    this.stage.replaceChildren(this.frame(plot));
  }

  summary([{ shape, data }]) {
    const parts = Array.from({ length: shape[0] }, (_, i) => `${this.label(i)} (${data[2 * i].toFixed(2)}, ${data[2 * i + 1].toFixed(2)})`);
    return `${this.spec.title ? this.spec.title + ": " : ""}${parts.join("; ")}.`;
  }

  table([{ shape, data }]) {
    return {
      head: ["arrow", this.spec.x || "x", this.spec.y || "y"],
      rows: Array.from({ length: shape[0] }, (_, i) => [this.label(i), data[2 * i], data[2 * i + 1]]),
    };
  }
}

class Readout extends View {
  static takes = 1;

  constructor(spec, host) {
    super(spec, host);
    this.stage.removeAttribute("role");
    this.list = element("dl", "pe-readout");
    this.stage.append(this.list);
  }

  label(i) {
    return this.spec.labels[i] ?? `value ${i + 1}`;
  }

  update(tensors) {
    this.tensors = tensors;
    this.draw(tensors);
  }

  text(value) {
    return Number.isFinite(value) ? value.toLocaleString("en-GB", { minimumFractionDigits: this.spec.digits, maximumFractionDigits: this.spec.digits }).replace("-", "\u2212") : format(value);
  }

  draw([{ shape, data }]) {
    if (this.key !== shape[0]) {
      this.key = shape[0];
      this.list.replaceChildren(
        ...Array.from({ length: shape[0] }, (_, i) => {
          const pair = element("div");
          pair.append(element("dt", "", this.label(i)), element("dd"));
          return pair;
        }),
      );
    }
    [...this.list.children].forEach((pair, i) => (pair.lastChild.textContent = this.text(data[i])));
  }

  summary([{ shape, data }]) {
    return `${Array.from({ length: shape[0] }, (_, i) => `${this.label(i)} ${this.text(data[i])}`).join("; ")}.`;
  }

  table([{ shape, data }]) {
    return { head: ["name", "value"], rows: Array.from({ length: shape[0] }, (_, i) => [this.label(i), data[i]]) };
  }
}

const KINDS = { heatmap: Heatmap, lines: Lines, plane: Plane, readout: Readout };

/** The view of a spec, drawing into `host`; `takes` says how many of the tensors are its own. */
export function makeView(spec, host) {
  const made = new KINDS[spec.kind](spec, host);
  made.takes = KINDS[spec.kind].takes;
  return made;
}
