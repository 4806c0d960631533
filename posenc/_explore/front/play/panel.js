// @ts-check
// A panel in which trained models read a text: what reads is the page's graphs (page.js) or a kernel (kernel.js).

import { further, makeControl } from "../controls.js";
import { element, unique, write } from "../dom.js";
import { even } from "../layout.js";
import { format } from "../scale.js";
import { tabulated } from "../table.js";
import { tool } from "../tools.js";
import { grab } from "../views/grab.js";
import { Lines } from "../views/lines.js";
import { Probe } from "../views/probe.js";
import { LAYOUT, NOTHING, change } from "./breaks.js";
import { encode, letters, mean, running, shown } from "./bytes.js";
import { Library } from "./library.js";
import { inked, profiles } from "./looks.js";
import { Looks } from "./map.js";
import { nextBytes } from "./next.js";
import { Strip } from "./strip.js";
import { Writer } from "./writer.js";

/** @import { Made, Picture, Place, Values } from "../types" */
/** @import { Found, Letter, Model, PlaySpec, Reading, Settings } from "./types" */

const PATIENCE = 350; // milliseconds after a key, before models read
const WINDOW = 32; // bytes over which the line of losses is a mean
const FULL = 8; // bits from which on a letter is as red as can be
const SIDES = [0, 1];
/** @type {(keyof Settings)[]} */
const KNOBS = ["base", "scaling", "factor", "slope"];
const MORE = ["count", "ink", "head"];
const ATTENTION = 1; // what letters are inked by
const bits = (/** @type {number} */ value) => (Number.isNaN(value) ? "–" : value.toFixed(2));

export class Playing {
  // Its elements, which build() makes.
  /** @type {HTMLTextAreaElement} */ field;
  /** @type {HTMLElement} */ told;
  /** @type {HTMLElement} */ status;
  /** @type {HTMLElement} */ message;
  /** @type {HTMLElement} */ expected;
  /** @type {HTMLElement} */ letter;
  /** @type {Record<string, Made>} */ made;
  /** @type {Strip[]} */ strips;
  /** @type {HTMLElement} */ stages;
  /** @type {HTMLElement} */ spoken;
  /** @type {HTMLDetailsElement} */ data;
  /** @type {HTMLElement} */ body;
  /** @type {Lines} */ loss;
  /** @type {Lines} */ profile;
  /** @type {Looks[]} */ maps;
  /** @type {HTMLElement[]} */ expectations;
  /** @type {Writer} */ writer;
  /** @type {ResizeObserver} */ watch;

  wanted = 0; // the number of the last request: what an earlier one finds is not shown
  ended = false;
  /** @type {Letter[]} */
  letters = [];
  /** @type {(Found | null)[]} of both sides */
  found = [null, null];
  /** @type {(Found | null)[]} the same models as they were trained, where something is changed */
  intact = [null, null];
  picked = -1;
  held = false; // nothing here can be dragged
  arranged = ""; // how many pictures each row has
  /** @type {Map<Picture, Probe>} */
  probes = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  clock;

  /** @param {HTMLElement} root @param {PlaySpec} spec @param {() => Promise<Reading>} opening */
  constructor(root, spec, opening) {
    this.root = root;
    this.spec = spec;
    this.library = new Library(spec, opening);
    this.id = unique("pe");
    /** @type {Values} */
    this.values = { ...spec.starts };
    this.build();
    this.recorded();
  }

  build() {
    const { spec } = this;
    const title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    this.field = element("textarea", {
      class: "pe-typed", id: `${this.id}-typed`, rows: 3, spellcheck: "false", autocomplete: "off", autocapitalize: "off", oninput: () => this.typed(),
    });
    this.field.value = spec.texts[0].text;
    this.told = element("p", { class: "pe-status", role: "status" });
    this.status = element("p", { class: "pe-status", role: "status" });
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true });
    this.expected = element("div", { class: "pe-expected", role: "status" });
    this.letter = element("p", { class: "pe-letter" });
    this.made = Object.fromEntries(spec.controls.map((control) => [control.name, makeControl(control, `${this.id}-${control.name}`, this.values[control.name], {
      move: (value) => this.set({ [control.name]: value }),
      complain: (message) => this.complain(message),
    })]));
    const hosts = (/** @type {string[]} */ names) => names.map((name) => this.made[name].host);
    const row = (/** @type {string[]} */ names) => element("div", { class: "pe-controls" }, ...hosts(names));
    const more = element("div", { class: "pe-controls pe-more", id: `${this.id}-more`, hidden: true }, ...hosts(MORE));
    this.made.broken.host.classList.add("pe-wide");
    this.strips = SIDES.map((side) => new Strip(this.model(side).colour, (letter, firmly) => this.pick(letter, firmly)));
    this.stages = element("div", { class: "pe-views" });
    this.loss = this.view(new Lines(spec.views.loss, this.stage("lines"), spec.controls));
    this.profile = this.view(new Lines(spec.views.profile, this.stage("lines"), spec.controls));
    this.maps = SIDES.map(() => this.view(new Looks(spec.views.map, this.stage("heatmap"), spec.controls)));
    this.expectations = SIDES.map(() => element("div", { class: "pe-strip-host" }));
    this.writer = new Writer(this);
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    const picture = [...this.root.children].filter(({ className }) => className === "pe-stills");
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": title.id },
      element("div", { class: "pe-head" }, title, element("div", { class: "pe-tools" }, tool("Reset", () => this.reset()))),
      element("p", { class: "pe-caption", hidden: !spec.caption }, spec.caption),
      element("div", { class: "pe-typing" }, element("label", { for: this.field.id }, "Your text; it doesn’t leave this page"), this.made.text.host),
      this.field, this.told, row(["a", "b", "broken"]), this.expected, this.message,
      element("div", { class: "pe-strips" }, ...this.strips.map(({ host }) => host)), this.letter,
      element("div", { class: "pe-strips pe-foreseen" }, ...this.expectations), element("div", { class: "pe-actions" }, this.status),
      row(KNOBS), element("div", { class: "pe-actions" }, further(more)), more, ...picture, this.stages,
      row(["temperature"]), this.writer.host, this.spoken, this.data);
    this.root.append(this.body);
    this.watch = new ResizeObserver(() => this.arrange());
    this.watch.observe(this.stages);
  }

  /** Where a view stands. @param {string} kind */
  stage(kind) {
    return this.stages.appendChild(element("div", { class: `pe-view pe-${kind}` }));
  }

  /** A view that can be probed. @template {Lines | Looks} T @param {T} view */
  view(view) {
    const picture = /** @type {Picture} */ (/** @type {unknown} */ (view));
    this.probes.set(picture, new Probe(picture, /** @type {any} */ (this))); // which asks it for aim() and held
    grab(view, /** @type {any} */ (this)); // and for set() and values
    return view;
  }

  /** The model of a side, 0 or 1. @param {number} side @returns {Model} */
  model(side) {
    return this.spec.models[this.values[side ? "b" : "a"]];
  }

  /** @returns {Settings} */
  get settings() {
    const { base, scaling, factor, slope, broken } = this.values;
    return { ...this.spec.trained, base, scaling, factor, slope, ...change(broken) };
  }

  /** Whether a model is not as it was trained. @param {Model} model */
  altered({ knobs }) {
    const { settings, spec: { trained } } = this;
    const turned = knobs.some((knob) => settings[knob] !== trained[knob] && !(knob === "factor" && !settings.scaling));
    return turned || ![NOTHING, LAYOUT].includes(this.values.broken);
  }

  /** What is read: the first bytes of the text. */
  get bytes() {
    return encode(this.field.value, this.values.count);
  }

  /** What was found when the page was built, before a model is loaded. */
  recorded() {
    const { recorded } = this.spec;
    this.tell();
    if (!recorded) return this.read();
    const { bytes } = this;
    this.letters = letters(bytes);
    this.found = recorded.map((row, side) => ({
      bits: Float32Array.from(row, (v) => v ?? NaN), next: [], weights: [], read: this.library.readable(this.model(side), NOTHING, row.length),
    }));
    write(this.status, "Recorded when this page was built. Type, or turn something, and the models read it here.");
    this.root.classList.add("pe-live");
    this.draw();
  }

  /** @param {Values} values */
  set(values) {
    if ("before" in values) return this.pick(this.letters.findIndex(({ to }) => to > values.before + 1), true); // a row of a map
    if (String(Object.keys(values)) === "temperature") {
      Object.assign(this.values, values);
      this.made.temperature.show(values.temperature);
      return;
    }
    if ("text" in values) this.field.value = this.spec.texts[values.text].text;
    for (const [name, value] of Object.entries(values)) {
      this.values[name] = value;
      this.made[name]?.show(value);
    }
    this.complain(null);
    this.tell();
    this.read();
  }

  reset() {
    this.picked = -1;
    this.set({ ...this.spec.starts });
  }

  typed() {
    this.tell();
    clearTimeout(this.clock);
    this.clock = setTimeout(() => this.read(), PATIENCE);
  }

  /** What can be said before anything is read: how much of the text counts, which controls do something, what to expect. */
  tell() {
    const { bytes, values, spec } = this;
    const all = new TextEncoder().encode(this.field.value).length;
    write(this.told, all > bytes.length ? `The text has ${format(all)} bytes; the models read the first ${format(bytes.length)}.` : `${format(all)} byte${all === 1 ? "" : "s"}.`);
    for (const name of KNOBS) {
      const idle = name === "factor" && !values.scaling;
      this.made[name].host.hidden = idle || !SIDES.some((side) => this.model(side).knobs.includes(name));
    }
    const { expect } = spec.breaks[values.broken];
    const told = SIDES.map((side) => this.model(side)).filter(({ name }, i, both) => !i || name !== both[0].name);
    this.expected.hidden = values.broken === NOTHING;
    this.expected.replaceChildren(...(values.broken === NOTHING ? [] : told.map(({ title, kind }) =>
      element("p", {}, element("b", {}, `Expect of ${title}: `), expect[kind] ?? expect.other))));
    for (const [side, strip] of this.strips.entries()) {
      const { title, colour } = this.model(side);
      for (const host of [strip.host, this.expectations[side]]) host.style.setProperty("--pe-colour", colour);
      strip.text.setAttribute("aria-label", `the text as ${title} reads it; arrow keys go from letter to letter`);
      write(strip.title, title);
    }
  }

  /** Let both models read what is there now. */
  async read() {
    clearTimeout(this.clock);
    const mine = ++this.wanted;
    const { bytes } = this;
    if (bytes.length < 2) {
      this.letters = letters(bytes);
      this.found = [null, null];
      this.intact = [null, null];
      this.draw();
      write(this.status, "There’s nothing to predict: type or paste two letters at least.");
      return;
    }
    const late = setTimeout(() => write(this.status, "reading…"), 150);
    const current = () => mine === this.wanted && !this.ended;
    try {
      const read = (/** @type {number} */ side, /** @type {Settings} */ settings, /** @type {number} */ broken) =>
        this.library.read(this.model(side), bytes, settings, broken, this.values.head, current);
      /** @type {(Found | null)[]} */
      const found = [];
      for (const side of SIDES) found.push(await read(side, this.settings, this.values.broken));
      if (!current()) return;
      this.letters = letters(bytes);
      this.found = found;
      this.intact = SIDES.map((side) => (this.altered(this.model(side)) ? null : found[side]));
      this.root.classList.add("pe-live");
      this.draw();
      for (const side of SIDES) this.intact[side] ??= await read(side, this.spec.trained, NOTHING);
      if (!current()) return;
      this.draw();
      this.speak();
    } catch (error) {
      if (current()) this.complain(error.message ?? String(error));
    } finally {
      clearTimeout(late);
      if (current()) write(this.status, "");
    }
  }

  /** @param {string | null} message */
  complain(message) {
    this.message.hidden = !message;
    write(this.message, message ?? "");
  }

  /** All that the models have found. */
  draw() {
    for (const side of SIDES) this.strip(side);
    this.curves();
    this.distances();
    this.attention();
    const pictures = String(this.rows.map((row) => row.length));
    if (pictures !== this.arranged) this.arrange();
    else even(this.views);
    this.arranged = pictures;
    this.pick(this.picked, false);
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: { ...this.values } }));
    if (this.data.open) this.tabulate();
  }

  /** @param {number} side */
  strip(side) {
    const found = this.found[side];
    const model = this.model(side);
    const { length } = this.spec;
    const looks = this.values.ink === ATTENTION;
    this.strips[side].text.classList.toggle("pe-looks", looks);
    const ink = looks ? inked(found?.weights[this.before], this.letters) : this.letters.map(({ from, to }) => {
      const all = found?.bits.subarray(from, to);
      return all?.length ? all.reduce((sum, v) => sum + v, 0) / FULL : NaN;
    });
    const end = found?.read ?? this.bytes.length;
    const reason = found && end < this.bytes.length
      ? `Position ${format(this.library.place(this.values.broken, end))} has no row: the table has ${model.rows}, and ${model.title} can’t read on.` : "";
    this.strips[side].show({ letters: this.letters, ink, length, end, reason });
    write(this.strips[side].line, found ? this.means(found, this.intact[side]) : "");
  }

  /** Mean losses up to the length of training and after it; and as they were, where something is changed. @type {(found: Found, intact: Found | null) => string} */
  means(found, intact) {
    const { length } = this.spec;
    const parts = (/** @type {Found} */ { bits: all }) => [all.subarray(0, length), all.subarray(length)].map(mean).map(bits);
    const [near, far] = parts(found);
    const here = `${near} bits a byte up to ${length}, ${far} after`;
    if (!intact || intact === found) return here;
    const [was, later] = parts(intact);
    return `${here} (as trained ${was} and ${later})`;
  }

  /** The losses by position, each the mean of some bytes; as they were, where something is changed, in a lighter colour. */
  curves() {
    const lines = SIDES.flatMap((side) => {
      const [found, intact] = [this.found[side], this.intact[side]];
      const { title, colour } = this.model(side);
      const light = `color-mix(in srgb, ${colour} 45%, transparent)`;
      return [
        ...(found ? [{ found, title, colour }] : []),
        ...(found && intact && intact !== found ? [{ found: intact, title: `${title} as trained`, colour: light }] : []),
      ];
    });
    if (!lines.length) return;
    const count = this.bytes.length;
    const data = new Float32Array(lines.length * count).fill(NaN);
    for (const [i, { found }] of lines.entries()) data.set(running(found.bits, WINDOW).subarray(0, count), i * count);
    this.loss.rename(lines.map(({ title }) => title), lines.map(({ colour }) => colour));
    const x = Float32Array.from({ length: count }, (_, i) => i);
    this.loss.update([{ shape: [count], data: x }, { shape: [lines.length, count], data }]);
  }

  /** How much a head looks at what is so many bytes back. */
  distances() {
    const all = SIDES.filter((side) => (this.found[side]?.weights.length ?? 0) > 20);
    this.profile.host.hidden = !all.length;
    if (!all.length) return;
    this.profile.rename(all.map((side) => this.model(side).title), all.map((side) => this.model(side).colour));
    this.profile.update(profiles(all.map((side) => this.found[side]?.weights ?? [])));
  }

  /** Where a head looks from every byte, of both models. */
  attention() {
    const names = Array.from(this.bytes, shown);
    for (const [side, map] of this.maps.entries()) {
      const { weights } = this.found[side] ?? { weights: [] };
      map.host.hidden = weights.length < 2;
      if (map.host.hidden) continue;
      map.show(weights, names);
      const { stride } = map;
      write(map.head, `Where a query of ${this.model(side).title} looks${stride > 1 ? `, largest of ${stride} × ${stride} bytes` : ""}`);
    }
  }

  /** The byte after which the picked letter was predicted; the last one where none is picked. */
  get before() {
    const letter = this.letters[this.picked];
    return letter ? letter.from - 1 : this.bytes.length - 1;
  }

  /** Look at a letter: firmly if it was chosen, and not only passed. @type {(letter: number, firmly: boolean) => void} */
  pick(letter, firmly) {
    this.picked = letter < this.letters.length ? letter : -1;
    for (const [side, strip] of this.strips.entries()) {
      strip.choose(this.picked);
      if (this.values.ink === ATTENTION) this.strip(side);
      this.maps[side].mark(this.picked < 0 ? -1 : this.before);
    }
    const here = this.letters[this.picked];
    write(this.letter, here ? this.sentence(here) : "Point at a letter, or go there by the arrow keys.");
    for (const side of SIDES) {
      const next = here ? this.found[side]?.next[here.from - 1] : undefined;
      const head = next ? [element("p", { class: "pe-view-title" }, `What ${this.model(side).title} expected here`), nextBytes(next, this.bytes[here.from])] : [];
      this.expectations[side].replaceChildren(...head);
    }
    if (firmly && !this.found[0]?.next.length) this.read(); // what was recorded has no more than surprise
    if (firmly) {
      write(this.spoken, this.letter.textContent ?? "");
      for (const strip of this.strips) strip.reveal();
    }
  }

  /** What both models made of a letter. @param {Letter} letter */
  sentence({ text, from, to }) {
    const said = SIDES.map((side) => {
      const found = this.found[side];
      const sum = found && to <= found.read ? found.bits.subarray(from, to).reduce((all, v) => all + v, 0) : NaN;
      return `${this.model(side).title} ${Number.isNaN(sum) ? "has no prediction" : `${bits(sum)} bits`}`;
    });
    const name = [...new TextEncoder().encode(text)].length === 1 ? shown(text.charCodeAt(0)) : text;
    return `Byte ${format(from)}, “${name}”: ${said.join(", ")}.`;
  }

  arrange() {
    const width = this.stages.clientWidth;
    if (!width) return;
    const phone = matchMedia("(max-width: 560px)").matches;
    for (const row of this.rows) {
      const columns = Math.max(1, Math.min(row.length, Math.floor((width + 20) / 320)));
      const beside = row.map(() => ({ level: 0, lines: 0 }));
      row.forEach((view, i) => {
        view.host.style.setProperty("--pe-span", String(60 / columns));
        view.host.classList.toggle("pe-last", (i + 1) % columns === 0 || i === row.length - 1);
        const tallest = phone && view instanceof Lines ? 240 : 300;
        Object.assign(view, { widest: columns > 1 ? Math.floor(width / columns) - 20 : 820, least: 130, tallest, airy: true, row: beside[Math.floor(i / columns)] });
        view.resize();
      });
    }
    even(this.views);
  }

  /** The pictures that are shown, row by row. */
  get rows() {
    return [[this.loss, this.profile], this.maps].map((/** @type {(Lines | Looks)[]} */ row) => row.filter(({ host }) => !host.hidden)).filter((row) => row.length);
  }

  get views() {
    return this.rows.flat();
  }

  /** Probe a view at a place; the other model's map follows. @type {(from: Picture | null, place: Place | null) => void} */
  aim(from, place) {
    const names = from && place ? from.named(place) : {};
    for (const [view, probe] of this.probes) if (view.tensors) probe.show(view === from ? place : place && view.find(names));
  }

  /** One sentence on what was found. */
  speak() {
    write(this.spoken, SIDES.map((side) => `${this.model(side).title}: ${this.strips[side].line.textContent}.`).join(" "));
    for (const view of this.views) if (view.tensors) view.describe();
  }

  tabulate() {
    const drawn = this.views.filter(({ tensors }) => tensors);
    if (!this.data.open || !drawn.length) return;
    tabulated(this.data, drawn, this.spec);
  }

  destroy() {
    this.ended = true;
    this.writer.writing = false;
    this.watch.disconnect();
    clearTimeout(this.clock);
    this.body.remove();
  }
}
