// @ts-check
// Models write on, byte by byte from a cache of keys and values, until they are stopped; then a full pass is compared.

import { element, write } from "../dom.js";
import { still } from "../motion.js";
import { format } from "../scale.js";
import { NOTHING, OFFSET } from "./breaks.js";
import { chances, drawn, letters } from "./bytes.js";

/** @import { Playing } from "./panel.js" */
/** @import { Model, Settings } from "./types" */
/** @typedef {{ model: Model, tokens: number[], fed: number, rows: Float32Array[], next: Float32Array, ended: string }} Writing bytes so far, how many the model has read, and the bits after each that it wrote */

const MOST = 200; // bytes that are written
const SEED = 1;
const SIDES = [0, 1];

export class Writer {
  writing = false;

  /** @param {Playing} panel */
  constructor(panel) {
    this.panel = panel;
    this.button = element("button", { type: "button", class: "pe-button pe-go", onclick: () => this.toggle() }, "Write");
    this.status = element("span", { class: "pe-status", role: "status" }, "It goes on after the letter that is picked, or after the last.");
    this.places = SIDES.map(() => {
      const title = element("p", { class: "pe-view-title" });
      const text = element("div", { class: "pe-written", role: "region", tabindex: 0 });
      const line = element("p", { class: "pe-strip-line" });
      return { title, text, line, host: element("div", { class: "pe-strip-host" }, title, text, line) };
    });
    this.results = element("div", { class: "pe-strips", hidden: true }, ...this.places.map(({ host }) => host));
    this.host = element("div", { class: "pe-writing" }, element("div", { class: "pe-actions" }, this.button, this.status), this.results);
  }

  toggle() {
    if (this.writing) this.writing = false; // the loop sees it
    else this.write();
  }

  async write() {
    const { panel } = this;
    const { bytes, settings, values: { broken, temperature } } = panel;
    const prompt = [...bytes.subarray(0, panel.letters[panel.picked]?.to ?? bytes.length)];
    if (!prompt.length) return write(this.status, "There’s nothing to go on from: type a letter at least.");
    this.writing = true;
    write(this.button, "Stop");
    this.results.hidden = false;
    const chance = chances(SEED);
    try {
      /** @type {Writing[]} */
      const both = [];
      for (const side of SIDES) both.push(await this.begin(side, prompt, settings, broken));
      for (let n = 0; n < MOST && this.writing && both.some(({ ended }) => !ended); n++) {
        write(this.status, `byte ${n + 1} of ${MOST}`);
        for (const side of SIDES) await this.step(side, both[side], settings, broken, temperature, chance());
        if (!still()) for (const side of SIDES) this.show(side, both[side], prompt.length);
      }
      write(this.status, "comparing with a full pass…");
      for (const side of SIDES) {
        this.show(side, both[side], prompt.length);
        await this.compare(side, both[side], prompt.length, settings, broken);
      }
      write(this.status, "");
    } catch (error) {
      write(this.status, error.message ?? String(error));
    } finally {
      this.writing = false;
      write(this.button, "Write");
    }
  }

  /** A model has read the prompt. @type {(side: number, prompt: number[], settings: Settings, broken: number) => Promise<Writing>} */
  async begin(side, prompt, settings, broken) {
    const model = this.panel.model(side);
    const { title, text, line, host } = this.places[side];
    write(title, `${model.title} writes`);
    text.setAttribute("aria-label", `what ${model.title} writes`);
    write(text, "");
    write(line, "");
    host.style.setProperty("--pe-colour", model.colour);
    const readable = this.panel.library.readable(model, broken, prompt.length);
    /** @type {Writing} */
    const writing = { model, tokens: [...prompt], fed: 0, rows: [], next: new Float32Array(), ended: "" };
    if (readable < prompt.length) writing.ended = this.without(model, broken, readable);
    else writing.next = await this.read(side, writing, settings, broken, prompt.length);
    return writing;
  }

  /** @type {(model: Model, broken: number, index: number) => string} */
  without({ rows }, broken, index) {
    return `Its table has ${rows} rows and none for position ${format(this.panel.library.place(broken, index))}: it can’t go on.`;
  }

  /** Read tokens that the model has not read yet, up to a number. @type {(side: number, writing: Writing, settings: Settings, broken: number, end: number) => Promise<Float32Array>} */
  async read(side, writing, settings, broken, end) {
    const { library } = this.panel;
    const reading = await library.with(writing.model);
    const tokens = writing.tokens.slice(writing.fed, end);
    const { bits } = await reading.read({
      model: writing.model.name, slot: `write ${side}`, fresh: !writing.fed, tokens, pos: tokens.map((_, i) => library.place(broken, writing.fed + i)),
      head: 0, settings: library.own(writing.model, settings),
    });
    writing.fed = end;
    return bits.data.slice(-bits.shape[1]);
  }

  /** One byte more. @type {(side: number, writing: Writing, settings: Settings, broken: number, temperature: number, chance: number) => Promise<void>} */
  async step(side, writing, settings, broken, temperature, chance) {
    if (writing.ended) return;
    writing.tokens.push(drawn(writing.next, temperature, chance));
    const { length } = writing.tokens;
    if (this.panel.library.readable(writing.model, broken, length) < length) {
      writing.ended = this.without(writing.model, broken, length - 1);
      return;
    }
    writing.next = await this.read(side, writing, settings, broken, length);
    writing.rows.push(writing.next);
  }

  /** @type {(side: number, writing: Writing, begin: number) => void} */
  show(side, { tokens }, begin) {
    write(this.places[side].text, letters(tokens.slice(begin)).map(({ text }) => text).join(""));
  }

  /**
   * The largest difference in bits between what came from the cache and one pass over the whole, with positions as
   * they should be where the cache counts wrongly.
   * @type {(side: number, writing: Writing, begin: number, settings: Settings, broken: number) => Promise<void>}
   */
  async compare(side, writing, begin, settings, broken) {
    const { panel: { library }, places } = this;
    const { model, tokens, rows } = writing;
    const right = broken === OFFSET ? NOTHING : broken;
    const all = library.readable(model, right, Math.min(writing.fed, tokens.length));
    const count = Math.min(rows.length, all - begin);
    if (count < 1) return write(places[side].line, writing.ended);
    const reading = await library.with(model);
    const { bits: { data, shape: [, wide] } } = await reading.read({
      model: model.name, slot: "full", fresh: true, tokens: tokens.slice(0, all), pos: Array.from({ length: all }, (_, i) => library.place(right, i)),
      head: 0, settings: library.own(model, settings),
    });
    let far = 0;
    for (let n = 0; n < count; n++) for (let v = 0; v < wide; v++) far = Math.max(far, Math.abs(data[(begin + n) * wide + v] - rows[n][v]));
    const number = far < 0.001 ? far.toExponential(0).replace("e-", " · 10⁻").replace(/\d+$/, (n) => [...n].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(d)]).join("")) : far.toFixed(3);
    const verdict = far < 0.001 ? "The cache gives what a full pass gives" : "The cache doesn’t give what a full pass gives";
    write(places[side].line, `${verdict}: predictions differ by ${number} bits at most. ${writing.ended}`);
  }
}
