// @ts-check
// A matrix as colours: one pixel of a canvas for each cell, stretched to its place between the axes.

import { element, pen, set, shape, textWidth, write } from "../dom.js";
import { SIZE as COLOURS, follow, isDark, mixed } from "../ground.js";
import { format, stepOf, valueAt } from "../scale.js";
import { Frame, SIZE } from "./axes.js";
import { View, extent, span, within } from "./view.js";

/** @import { Cell, Control, Ends, Picture, Point, Tensor, Told, Values, ViewSpec, Words } from "../types" */

const EVEN = 0.18; // the luminance on which black and white are equally clear
/** What is read on a colour. @param {number} colour a pixel */
const ink = (colour) =>
  [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => sum + share * (((colour >> (8 * i)) & 255) / 255) ** 2.2, 0) > EVEN ? "#000" : "#fff";
const css = (/** @type {number} */ colour) => `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
const hidden = (/** @type {number} */ v) => v === Infinity || v === -Infinity;

/** The number of the colour of a value. @type {(value: number, low: number, high: number) => number} */
const at = (value, low, high) => within(Math.floor(((value - low) / (high - low)) * COLOURS), 0, COLOURS - 1);

/** @implements {Picture} */
export class Heatmap extends View {
  /** @type {Tensor[]} what is shown: the present matrix, the pinned one or their difference */
  drawn;
  stride = 1; // indices of an axis for which a cell stands
  /** @type {string | null} which cells are hatched; null before they have been */
  masked = null;
  /** @type {string | undefined} which colours are shown: of which map, on which ground */
  shaded;
  /** @type {Uint32Array} */
  colours;
  /** @type {string[]} of the numbers on them */
  inks;
  /** @type {SVGElement | undefined} */
  picked;

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.mode = "now";
    this.cells = element("canvas");
    this.hatch = element("canvas", { class: "pe-sharp", hidden: true });
    this.numbers = element("canvas", { class: "pe-sharp", hidden: true });
    this.pane = element("div", { class: "pe-cells", "aria-hidden": "true" }, this.cells, this.hatch, this.numbers);
    this.context = pen(this.cells);
    this.stage.append(this.pane);
    this.rows = Object.assign([...spec.rows], { start: spec.origin[0] });
    this.columns = Object.assign([...spec.columns], { start: spec.origin[1] });
    this.frame = new Frame(this.stage);
    if (spec.pick.some(Boolean)) {
      this.stage.classList.add("pe-picking");
      this.picked = this.frame.over.appendChild(shape("path", { class: "pe-picked" }));
      this.adopt = (/** @type {Cell} */ place) => this.chosen(place);
    }
    this.ends = [element("span"), element("span", { class: "pe-bar" }), element("span")];
    this.swatches = spec.names.map(({ label }) => element("span", { class: "pe-named" }, label));
    this.unseen = element("span", { class: "pe-named pe-hatched", hidden: true }, spec.hatched);
    this.shade();
    this.foot.append(...this.ends, ...this.swatches, this.unseen);
    follow(this);
  }

  /** @type {(data: Float32Array) => Ends} */
  limits(data) {
    if (this.differs) {
      const [low, high] = extent(data);
      const end = Math.max(Math.abs(low), Math.abs(high)) || 1;
      return [-end, end];
    }
    if (this.given) return this.given; // one scale for several pictures
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

  /** @param {Tensor[]} tensors */
  draw(tensors) {
    this.drawn = this.choose(tensors);
    const [{ shape: [rows, columns], data }] = this.drawn;
    const [top, left] = this.spec.origin;
    const moved = this.frame.place(
      this.width,
      { low: left - 0.5, high: left + this.stride * Math.max(columns, 1) - 0.5, cells: true, words: this.columns, label: this.spec.x },
      { low: top - 0.5, high: top + this.stride * Math.max(rows, 1) - 0.5, cells: true, down: true, words: this.rows, label: this.spec.y },
      this.sized((room) => this.size(room, rows, columns)),
      this.airy,
      this.row,
    );
    if (moved || this.image?.width !== columns || this.image.height !== rows) this.fit(rows, columns);
    const [low, high] = this.limits(data);
    this.shade();
    if (this.image) this.paint(this.image, rows, columns, data, low, high);
    if (this.spec.digits !== null) this.inscribe(rows, columns, data, [low, high]);
    if (this.picked) this.outline(this.picked, rows, columns);
    this.explain(low, high);
  }

  /** What the colours stand for: the ends of their scale, or the names of a few numbers. @type {(low: number, high: number) => void} */
  explain(low, high) {
    const named = this.swatches.length > 0 && !this.differs;
    for (const part of this.ends) part.hidden = named;
    for (const part of this.swatches) part.hidden = !named;
    write(this.ends[0], format(low));
    write(this.ends[2], format(high));
    if (!named) return;
    for (const [i, { value }] of this.spec.names.entries()) this.swatches[i].style.setProperty("--pe-colour", css(this.colours[at(value, low, high)]));
  }

  /**
   * What is to be drawn: the present matrix, the pinned one, or what has been added to that.
   * @type {(tensors: Tensor[]) => Tensor[]}
   */
  choose(tensors) {
    if (!this.pinned || this.mode === "now") return tensors;
    if (this.mode === "pinned") return this.pinned;
    const [{ shape, data }] = tensors;
    const [was] = this.pinned;
    if (String(shape) !== String(was.shape)) return [{ shape, data: new Float32Array(data.length).fill(NaN) }]; // no difference
    return [{ shape, data: data.map((v, i) => (hidden(v) || hidden(was.data[i]) ? -Infinity : v - was.data[i])) }];
  }

  /** Whether it shows what has changed since a state was pinned. */
  get differs() {
    return Boolean(this.pinned) && this.mode === "difference";
  }

  /** The colours of the scale, or of differences: blue where it has become less, red where more; for the page's ground. */
  shade() {
    const [shades, ground] = [this.differs ? this.spec.differences : this.spec.shades, Number(isDark())];
    const shaded = `${this.differs} ${ground}`;
    if (shaded === this.shaded) return;
    this.shaded = shaded;
    this.colours = mixed(shades[ground]);
    this.inks = Array.from(this.colours, ink);
    this.ends[1].style.background = `linear-gradient(to right, ${shades[ground].join(",")})`;
  }

  /** The page has become dark, or light. */
  tint() {
    if (this.tensors) this.draw(this.tensors);
  }

  get square() {
    const [rows, columns] = this.drawn[0].shape;
    return rows === columns;
  }

  /**
   * As many rows as columns make a square, so that an offset is a diagonal. Few rows do not become towers.
   * @type {(room: number, rows: number, columns: number) => Point}
   */
  size(room, rows, columns) {
    const { tallest } = this;
    if (rows === columns) {
      const side = Math.min(room, tallest);
      return [side, side];
    }
    return [room, Math.round(Math.min(tallest - 50, 44 * rows, Math.max(220, room * 0.62)))];
  }

  /** @type {(rows: number, columns: number) => void} */
  fit(rows, columns) {
    const { left, top, width, height } = this.frame.plot;
    Object.assign(this.pane.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    Object.assign(this.foot.style, { paddingLeft: `${left}px`, width: `${left + width}px` });
    this.widen(columns, rows);
    const { style } = this.cells;
    [style.width, style.height] = [`${(width * this.cells.width) / (columns || 1)}px`, `${(height * this.cells.height) / (rows || 1)}px`];
    this.image = rows && columns ? this.context.createImageData(columns, rows) : null;
    this.masked = null;
  }

  /**
   * Room for the cells. The canvas only grows, and its pane shows a part of it: a browser takes long for another size.
   * @type {(columns: number, rows: number) => void}
   */
  widen(columns, rows) {
    const { cells } = this;
    const more = (/** @type {number} */ has, /** @type {number} */ needs) => (needs <= has ? has : Math.max(needs, Math.round(1.5 * has)));
    if (!this.image) [cells.width, cells.height] = [columns, rows];
    else if (columns > cells.width || rows > cells.height) [cells.width, cells.height] = [more(cells.width, columns), more(cells.height, rows)];
    else this.context.clearRect(0, 0, cells.width, cells.height);
  }

  /** @type {(image: ImageData, rows: number, columns: number, data: Float32Array, low: number, high: number) => void} */
  paint(image, rows, columns, data, low, high) {
    const cells = new Uint32Array(image.data.buffer);
    const colours = this.colours;
    /** @type {number[]} */
    const runs = []; // of cells that are infinite: row, first column, one past the last
    let start = -1;
    for (let i = 0; i < cells.length; i++) {
      const v = data[i];
      const odd = hidden(v);
      cells[i] = odd || Number.isNaN(v) ? 0 : colours[at(v, low, high)];
      if (odd && start < 0) start = i;
      if (start >= 0 && (!odd || i % columns === columns - 1)) {
        const end = odd ? i + 1 : i;
        runs.push((start / columns) | 0, start % columns, end - ((start / columns) | 0) * columns);
        start = -1;
      }
    }
    this.context.putImageData(image, 0, 0);
    const masked = runs.join();
    if (masked !== this.masked) this.stripe(runs, rows, columns);
    this.masked = masked;
  }

  /**
   * Cells without a finite number, such as those that a mask hides, are hatched: they are not zero.
   * @type {(runs: number[], rows: number, columns: number) => void}
   */
  stripe(runs, rows, columns) {
    this.unseen.hidden = !runs.length;
    this.hatch.hidden = !runs.length; // an empty canvas costs as much as a full one
    if (!runs.length) return;
    const { context: hatching, width, height, dense } = this.sharp(this.hatch);
    hatching.save();
    hatching.beginPath();
    for (let i = 0; i < runs.length; i += 3) {
      const top = Math.round((runs[i] * height) / rows);
      const left = Math.round((runs[i + 1] * width) / columns);
      hatching.rect(left, top, Math.round((runs[i + 2] * width) / columns) - left, Math.round(((runs[i] + 1) * height) / rows) - top);
    }
    hatching.clip();
    hatching.strokeStyle = "rgb(128 128 128 / 45%)";
    hatching.lineWidth = dense;
    hatching.beginPath();
    for (let at = -height; at < width; at += 7 * dense) {
      hatching.moveTo(at, height);
      hatching.lineTo(at + height, 0);
    }
    hatching.stroke();
    hatching.restore();
  }

  /**
   * A canvas over the cells, empty, with the pixels of the screen. Like that of the cells it only grows.
   * @param {HTMLCanvasElement} canvas
   */
  sharp(canvas) {
    const dense = globalThis.devicePixelRatio || 1;
    const [width, height] = [this.frame.plot.width, this.frame.plot.height].map((side) => Math.round(side * dense));
    const context = pen(canvas);
    if (width <= canvas.width && height <= canvas.height) context.clearRect(0, 0, canvas.width, canvas.height);
    else Object.assign(canvas, { width: Math.max(width, canvas.width), height: Math.max(height, canvas.height) });
    Object.assign(canvas.style, { width: `${canvas.width / dense}px`, height: `${canvas.height / dense}px` });
    return { context, width, height, dense };
  }

  /**
   * Numbers in the cells, in black or white, if all of them have room. (As texts of the SVG they would take longer.)
   * @type {(rows: number, columns: number, data: Float32Array, ends: Ends) => void}
   */
  inscribe(rows, columns, data, [low, end]) {
    const { plot, font } = this.frame;
    const [high, wide] = [plot.height / rows, plot.width / columns];
    /** @type {Map<number, string>} */
    const texts = new Map(); // of the values, which are often few
    if (high >= SIZE + 3 && wide >= SIZE) for (const v of data) if (!texts.has(v)) texts.set(v, Number.isFinite(v) ? this.figure(v, 0) : "");
    const fits = texts.size && [...texts.values()].every((text) => textWidth(text, font) + 4 <= wide);
    this.numbers.hidden = !fits;
    if (!fits) return;
    const { context, dense } = this.sharp(this.numbers);
    context.save();
    context.scale(dense, dense);
    Object.assign(context, { font, textAlign: "center" });
    const inks = Array.from(data, (v) => this.inks[at(v, low, end) || 0]);
    for (const ink of new Set(inks)) {
      context.fillStyle = ink;
      data.forEach((v, i) => {
        if (inks[i] === ink) context.fillText(texts.get(v) ?? "", wide * ((i % columns) + 0.5), high * (Math.floor(i / columns) + 0.5) + 0.36 * SIZE);
      });
    }
    context.restore();
  }

  /** The picked row and column have an outline. @type {(node: Element, rows: number, columns: number) => void} */
  outline(node, rows, columns) {
    const { left, top, width, height } = this.frame.plot;
    const [row, column] = this.spec.pick.map((name, i) => (name ? Number(this.values[name]) - this.spec.origin[i] : -1));
    const [high, wide] = [height / rows, width / columns];
    const across = row >= 0 && row < rows ? `M${left} ${top + row * high}h${width}v${high}h${-width}Z` : "";
    const along = column >= 0 && column < columns ? `M${left + column * wide} ${top}v${height}h${wide}v${-height}Z` : "";
    set(node, { d: across + along });
  }

  /**
   * The values of the controls that pick a cell: of a slider the nearest that it can have, of a choice its number.
   * @param {Cell} cell
   */
  chosen({ row, column }) {
    /** @type {Values} */
    const found = {};
    this.spec.pick.forEach((name, i) => {
      const place = [row, column][i];
      if (!name || place === undefined) return;
      const control = this.controls.find((c) => c.name === name);
      const at = place + this.spec.origin[i];
      if (control?.kind === "slider") found[name] = valueAt(control, stepOf(control, at));
      else if (control?.kind === "choice" && at >= 0 && at < control.labels.length) found[name] = at;
    });
    return found;
  }

  /** @type {Picture["locate"]} */
  locate(x, y) {
    const { left, top, width, height } = this.frame.plot;
    const [{ shape: [rows, columns] }] = this.drawn;
    const [row, column] = [Math.floor(((y - top) / height) * rows), Math.floor(((x - left) / width) * columns)];
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  }

  /** @type {(place: Required<Cell> | null, dx: number, dy: number) => Cell | null} */
  step(place, dx, dy) {
    const [{ shape: [rows, columns] }] = this.drawn;
    const { row, column } = place ?? { row: -dy, column: -dx };
    return rows && columns ? { row: within(row + dy, 0, rows - 1), column: within(column + dx, 0, columns - 1) } : null;
  }

  /** @type {(cell: Cell) => Record<string, number>} */
  named({ row, column }) {
    const { x, y, origin } = this.spec;
    return { ...(row === undefined ? {} : { [y]: row + origin[0] }), ...(column === undefined ? {} : { [x]: column + origin[1] }) };
  }

  /** A cell, a row or a column: what the names of the axes tell. @param {Record<string, number>} names */
  find(names) {
    const { x, y, origin } = this.spec;
    const [{ shape: [rows, columns] }] = this.drawn;
    const [row, column] = [names[y] - origin[0], names[x] - origin[1]];
    /** @type {Cell} */
    const found = {};
    if (Number.isInteger(row) && row >= 0 && row < rows) found.row = row;
    if (Number.isInteger(column) && column >= 0 && column < columns) found.column = column;
    return Object.keys(found).length ? found : null;
  }

  /** @type {(cell: Cell) => Told} */
  tell({ row, column }) {
    const { left, top, width, height } = this.frame.plot;
    const [{ shape: [rows, columns], data }] = this.drawn;
    const { x, y, origin } = this.spec;
    const [wide, high] = [width / columns, height / rows];
    /** @type {(name: string, words: Words, i: number, start: number) => string} */
    const part = (name, words, i, start) => `${name} ${words[i] ? `“${words[i]}” ` : ""}${words[i] ? `(${i + start})` : i + start}`;
    const title = [
      ...(row === undefined ? [] : [part(y, this.rows, row, origin[0])]),
      ...(column === undefined ? [] : [part(x, this.columns, column, origin[1])]),
    ].join(", ");
    const lines = [];
    if (row !== undefined) lines.push(`M${left} ${top + row * high}h${width}v${high}h${-width}Z`);
    if (column !== undefined) lines.push(`M${left + column * wide} ${top}v${height}h${wide}v${-height}Z`);
    const both = row !== undefined && column !== undefined;
    return {
      title,
      values: both ? [{ text: this.word(data[row * columns + column]) }] : [],
      point: [left + ((column ?? columns / 2) + 0.5) * wide, top + ((row ?? 0) + 0.5) * high],
      lines: lines.join(""),
      dots: [],
    };
  }

  /** A value as it is told. @param {number} value */
  word(value) {
    const name = this.differs ? undefined : this.spec.names.find((one) => new Float32Array([one.value])[0] === value)?.label;
    return name ?? (hidden(value) ? this.spec.hatched : format(value));
  }

  /** @param {Tensor[]} tensors */
  summary([{ shape, data }]) {
    return this.titled(`${shape[0]} rows (${this.spec.y}) by ${shape[1]} columns (${this.spec.x}), ${span(data)}`);
  }

  /** @type {View["table"]} */
  table([{ shape: [rows, columns], data }], most = { rows, columns }) {
    const [high, wide] = [Math.min(rows, most.rows), Math.min(columns, most.columns)];
    const [top, left] = this.spec.origin;
    return {
      head: [`${this.spec.y} \\ ${this.spec.x}`, ...Array.from({ length: wide }, (_, c) => this.columns[c] ?? c + left)],
      rows: Array.from({ length: high }, (_, r) => [
        this.rows[r] ?? r + top, ...Array.from(data.subarray(r * columns, r * columns + wide), (v) => (hidden(v) ? this.spec.hatched : v)),
      ]),
      size: [rows, columns],
    };
  }
}
