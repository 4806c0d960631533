// @ts-check
// Many models side by side: a small map of each, in its colour, with the share that it writes right.

import { decode, element, pen, set, write } from "../dom.js";

/** @import { Tensor } from "../types" */
/** @import { LearnSpec } from "./types" */

/** @typedef {{ host: HTMLButtonElement, share: HTMLElement, cells: HTMLCanvasElement, level: HTMLElement, colour: number[] }} Racer */

const GOOD = 0.9; // the share from which on a model is said to have the rule
const CURVE = 0.7; // makes small weights visible
const percent = (/** @type {number} */ share) => `${Math.floor(100 * share + 1e-6)} %`; // 100 % is all of them

export class Race {
  /** @type {Racer[]} of the schemes of the panel */
  racers;

  /** @param {LearnSpec} spec @param {(scheme: number) => void} enlarge */
  constructor(spec, enlarge) {
    this.spec = spec;
    this.racers = spec.schemes.map(({ title, colour }, i) => {
      const share = element("b", {}, "–");
      const cells = element("canvas", { width: 1, height: 1, "aria-hidden": "true" });
      const level = element("i");
      const host = element("button", { type: "button", class: "pe-racer", "aria-pressed": "false", onclick: () => enlarge(i) },
        element("span", {}, element("span", {}, title), share), cells, element("span", { class: "pe-level", "aria-hidden": "true" }, level));
      host.style.setProperty("--pe-colour", colour);
      const rgb = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
      return { host, share, cells, level, colour: rgb };
    });
    this.words = element("p", { class: "pe-held" });
    this.host = element("div", { class: "pe-race", role: "group", "aria-label": "where each model looks, and its share of right letters" },
      ...this.racers.map(({ host }) => host));
  }

  /** What a page shows before a training: maps in bytes, and shares. @param {{ shares: number[], maps: string }} recorded */
  before({ shares, maps }) {
    const bytes = decode(maps);
    const side = this.spec.starts.length; // letters of the text
    const size = side * side;
    const chosen = this.spec.schemes.map((_, i) => i).filter((i) => this.spec.on[i]);
    this.show(chosen, shares, shares.map((_, i) => ({ shape: [side, side], data: Float32Array.from(bytes.subarray(i * size, (i + 1) * size), (v) => v / 255) })));
  }

  /** @type {(chosen: number[], shares: number[], maps: Tensor[]) => void} the numbers of the schemes, and what is known of each */
  show(chosen, shares, maps) {
    for (const [i, { host }] of this.racers.entries()) host.hidden = !chosen.includes(i);
    chosen.forEach((scheme, i) => {
      const racer = this.racers[scheme];
      write(racer.share, percent(shares[i]));
      racer.host.classList.toggle("pe-has", shares[i] >= GOOD);
      racer.level.style.width = `${100 * shares[i]}%`;
      paint(racer, maps[i]);
    });
    const held = shares.filter((share) => share >= GOOD).length;
    write(this.words, `${held} of ${shares.length} write nine letters in ten right, or more`);
  }

  /** @param {number} large the scheme whose map is also shown large */
  mark(large) {
    for (const [i, { host }] of this.racers.entries()) set(host, { "aria-pressed": String(i === large) });
  }
}

/** @type {(racer: Racer, map: Tensor) => void} */
function paint({ cells, colour }, { shape: [rows, columns], data }) {
  if (cells.width !== columns || cells.height !== rows) Object.assign(cells, { width: columns, height: rows });
  const context = pen(cells);
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < data.length; i++) image.data.set([...colour, 255 * data[i] ** CURVE], 4 * i);
  context.putImageData(image, 0, 0);
}
