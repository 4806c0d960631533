// @ts-check
// Lines of which one is drawn by hand: each grip is a slider, and a pointer that is moved across sets those it passes.

import { pool, set, shape } from "../dom.js";
import { Lines } from "./lines.js";

/** @import { Control, Handle, Values, ViewSpec } from "../types" */
/** @import { Traces } from "./lines.js" */

/**
 * The grips that a pointer passes on its way, and how high it is there; at its end it is at the nearest one.
 * @type {(places: number[], from: number[], to: number[]) => { index: number, height: number }[]}
 */
export function passed(places, [x0, y0], [x1, y1]) {
  const [left, right] = [Math.min(x0, x1), Math.max(x0, x1)];
  const on = places.flatMap((x, index) =>
    x >= left && x <= right && x0 !== x1 ? [{ index, height: y0 + ((x - x0) / (x1 - x0)) * (y1 - y0) }] : []);
  const far = places.map((x) => Math.abs(x - x1));
  const nearest = far.indexOf(Math.min(...far));
  return on.some(({ index }) => index === nearest) ? on : [...on, { index: nearest, height: y1 }];
}

export class Sketch extends Lines {
  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    const names = spec.sketch.map(({ control }) => control);
    const paper = shape("path", { class: "pe-hit pe-hit-paper" });
    this.frame.over.prepend(paper); // below all that can be taken
    this.paper = paper;
    this.grips = this.frame.over.appendChild(shape("g", { class: "pe-grips" }));
    const dots = pool(this.grips, names.length, () => shape("circle", { r: 6, style: `--pe-colour: ${this.colour(Math.max(0, spec.labels.length - 1))}` }));
    this.dots = /** @type {SVGElement[]} */ ([...dots]);
    /** @type {[x: number, y: number]} */
    let last = [0, 0];
    /** @type {Handle} */
    const drawn = {
      node: paper, controls: names,
      take: (x, y) => {
        last = [x, y];
        return null;
      },
      at: (x, y) => {
        const places = spec.sketch.map(({ at }) => this.frame.x(at));
        const found = passed(places, last, [x, y]).map(({ index, height }) => this.held(names[index], height));
        last = [x, y];
        return Object.assign({}, ...found);
      },
    };
    this.ends = names.map((control) => {
      const node = this.frame.over.appendChild(shape("path", { class: "pe-hit pe-hit-y" }));
      return { node, controls: [control], at: (/** @type {number} */ _, /** @type {number} */ y) => this.held(control, y) };
    });
    /** @type {Handle[]} */ (this.handles).push(drawn, ...this.ends);
  }

  /** What a grip's control is at a height of the picture. @type {(control: string, y: number) => Values} */
  held(control, y) {
    return this.nearby(control, this.frame.scaleY.invert(y));
  }

  /** @param {Traces} traces */
  mount(traces) {
    super.mount(traces);
    const { left, top, width, height } = this.frame.plot;
    set(this.paper, { d: `M${left} ${top}h${width}v${height}h${-width}z` });
    this.spec.sketch.forEach(({ at, control }, i) => {
      const [x, y] = [this.frame.x(at), this.frame.y(this.values[control])].map((v) => Math.round(v * 10) / 10);
      set(this.dots[i], { cx: x, cy: y });
      set(this.ends[i].node, { d: `M${x} ${y}h0` });
    });
  }
}
