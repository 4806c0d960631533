// @ts-check
// A panel in which models learn: what trains is the page's graphs (page.js) or a kernel (kernel.js).

import { makeControl } from "../controls.js";
import { element, unique, write } from "../dom.js";
import { even } from "../layout.js";
import { still } from "../motion.js";
import { format } from "../scale.js";
import { tabulated } from "../table.js";
import { tool } from "../tools.js";
import { makeView } from "../views/index.js";
import { Probe } from "../views/probe.js";
import { Race } from "./race.js";

/** @import { Control, Made, Picture, Place, Tensor, Values } from "../types" */
/** @import { Lines } from "../views/lines.js" */
/** @import { View } from "../views/view.js" */
/** @import { Exam, LearnSpec, Trainer } from "./types" */

const BUDGET = 90; // milliseconds of steps between two pictures
const STILL = 100; // steps between two pictures for a reader who wants no movement
const REST = 400; // milliseconds between two exams, which take the time of some steps
const PART = 4; // and at least so many times as long as an exam takes
const MAP = 200; // pixels that a map needs
const ROW = 3; // pictures that may stand in one row, whatever they are
const POINTS = 600; // of a line of losses

/**
 * Makes what trains, when it is first needed. `Stutter` asks the reader first.
 * @typedef {(agreed: boolean) => Promise<Trainer>} Opening
 */
export class Stutter extends Error {}

export class Learning {
  // Its elements, which build() makes.
  /** @type {HTMLButtonElement} */ go;
  /** @type {HTMLElement} */ status;
  /** @type {HTMLElement} */ words;
  /** @type {HTMLButtonElement} */ remedy;
  /** @type {HTMLElement} */ message;
  /** @type {Record<string, Made>} */ made;
  /** @type {{ box: HTMLInputElement, host: HTMLElement }[]} of the schemes */ boxes;
  /** @type {HTMLElement} */ stages;
  /** @type {HTMLElement} */ text;
  /** @type {HTMLElement} */ spoken;
  /** @type {HTMLDetailsElement} */ data;
  /** @type {HTMLElement} */ body;
  /** @type {View | null} */ falling;
  /** @type {View | null} */ accuracy;
  /** @type {(View | null)[]} what is watched, of the schemes */ watched;
  /** @type {ResizeObserver} */ watch;
  /** @type {() => void} */ shown;
  /** @type {Race | null} the small maps, where there are many schemes */ race = null;

  large = 0; // the scheme whose map is shown large, where there are many
  arranged = ""; // which pictures have been put into rows
  training = false;
  single = false; // one step is wanted
  fresh = true; // the models are to start anew
  asked = false; // an exam is wanted
  working = false;
  ended = false;
  done = 0;
  until = 0; // the step at which training pauses
  /** @type {number[][]} the loss of each scheme at each step */
  losses = [];
  /** @type {Exam | null} */
  exam = null;
  examined = { at: -Infinity, took: 0 };
  /** @type {{ done: number, rate: number } | null} the last state in which no loss had diverged */
  kept = null;
  /** @type {number | null} the rate of the last steps, which may have been moved since */
  used = null;
  /** @type {Trainer | null} */
  trainer = null;
  held = false; // nothing here can be dragged
  /** @type {View[]} */
  maps = [];
  /** @type {Map<Picture, Probe>} */
  probes = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  speaking;

  /** @param {HTMLElement} root @param {LearnSpec} spec @param {Opening} opening */
  constructor(root, spec, opening) {
    this.root = root;
    this.spec = spec;
    this.opening = opening;
    this.id = unique("pe");
    /** @type {Values} */
    this.values = { ...spec.starts };
    this.on = [...spec.on];
    this.until = spec.steps;
    this.build();
  }

  build() {
    const { spec } = this;
    const title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) => element("button", { type: "button", class: "pe-button", onclick }, text);
    this.go = button("Train", () => this.toggle());
    this.go.classList.add("pe-go");
    this.status = element("p", { class: "pe-status", role: "status" });
    this.words = element("span");
    this.remedy = button("", () => this.accept());
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true }, this.words, " ", this.remedy);
    this.made = Object.fromEntries(spec.controls.map((control) => [control.name, this.control(control)]));
    this.boxes = spec.schemes.map(({ title: name, colour }, i) => {
      const box = element("input", { type: "checkbox", id: `${this.id}-scheme-${i}`, onchange: () => this.choose(i, box.checked) });
      box.checked = this.on[i];
      const label = element("label", { for: box.id, class: "pe-swatch" }, name);
      label.style.setProperty("--pe-colour", colour);
      return { box, host: element("div", { class: "pe-control pe-tick" }, box, label) };
    });
    const alone = spec.schemes.length < 2;
    const schemes = element("div", { class: "pe-schemes", hidden: alone, role: "group", "aria-label": "encodings to train" }, ...this.boxes.map(({ host }) => host));
    const hosts = (/** @type {string[]} */ names) => names.filter((name) => this.made[name]).map((name) => this.made[name].host);
    if (spec.many) {
      this.large = spec.on.indexOf(true);
      this.race = new Race(spec, (scheme) => this.enlarge(scheme));
      if (spec.recorded) this.race.before(spec.recorded);
    }
    const small = this.race ? [this.race.host] : [];
    const length = element("div", { class: "pe-controls pe-after" }, ...hosts(["length", ...(spec.many ? ["rate"] : []), ...(spec.show.includes("maps") ? ["head"] : [])]));
    const picture = [...this.root.children].filter(({ className }) => className === "pe-stills");
    this.stages = element("div", { class: "pe-views" });
    this.falling = spec.show.includes("losses") ? this.view(spec.views.losses) : null;
    this.accuracy = spec.show.includes("accuracy") ? this.view(spec.views.accuracy) : null;
    this.watched = spec.schemes.map(({ watched }) => (watched ? this.view(watched) : null));
    this.text = element("div", { class: "pe-text", role: "region", tabindex: 0, "aria-label": "what the models write" });
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": title.id },
      element("div", { class: "pe-head" }, title, element("div", { class: "pe-tools" }, tool("Reset", () => this.reset()))),
      element("p", { class: "pe-caption", hidden: !spec.caption }, spec.caption),
      element("div", { class: "pe-controls" }, ...hosts(["task", "n", "seed", ...(spec.many ? [] : ["rate"])])),
      ...(this.race ? [] : [schemes]),
      element("div", { class: "pe-actions" }, this.go, button("Step", () => this.step()), this.status),
      this.message, ...small, ...(this.race ? [this.race.words, length] : []), ...picture, this.stages,
      ...(this.race ? [schemes] : [length]),
      this.text, this.spoken, this.data);
    this.numbered();
    this.root.append(this.body);
    write(this.status, this.root.querySelector(":scope > .pe-state")?.textContent ?? ""); // what the still picture shows
    this.watch = new ResizeObserver(() => this.arrange());
    this.watch.observe(this.stages);
    this.shown = () => {
      this.label();
      if (this.training && !document.hidden) this.work();
    };
    document.addEventListener("visibilitychange", this.shown);
  }

  /** @param {Control} control */
  control(control) {
    return makeControl(control, `${this.id}-${control.name}`, this.values[control.name], {
      move: (value) => this.set({ [control.name]: value }),
      complain: (message) => this.complain(message),
    });
  }

  /** @param {LearnSpec["views"]["map"]} spec */
  view(spec) {
    const host = element("div", { class: `pe-view pe-${spec.kind}` });
    this.stages.append(host);
    const view = makeView(spec, host, this.spec.controls);
    const probe = new Probe(/** @type {Picture} */ (view), /** @type {any} */ (this)); // which asks it for aim() and held
    this.probes.set(/** @type {Picture} */ (view), probe);
    return view;
  }

  /** The schemes that are trained. */
  get chosen() {
    return this.spec.schemes.filter((_, i) => this.on[i]);
  }

  /** @param {Values} values */
  set(values) {
    for (const [name, value] of Object.entries(values)) {
      this.values[name] = value;
      this.made[name]?.show(value);
    }
    this.complain(null);
    this.numbered();
    if ("task" in values || "seed" in values) return this.again();
    if ("head" in values) return this.draw();
    if (("length" in values || "n" in values) && this.trainer) {
      this.asked = true;
      this.work();
    }
  }

  /** Whether the task has a number n. */
  numbered() {
    if (this.made.n) this.made.n.host.hidden = !this.spec.numbered[this.values.task];
    this.made.task.host.hidden = this.spec.numbered.length < 2;
  }

  /** Show the map of a scheme large. @param {number} scheme */
  enlarge(scheme) {
    this.large = scheme;
    this.draw();
  }

  /** Train a scheme, or do not. At least one is left. @type {(i: number, yes: boolean) => void} */
  choose(i, yes) {
    this.on[i] = yes;
    if (!this.chosen.length) {
      this.on[i] = true;
      this.boxes[i].box.checked = true;
      return this.complain("One encoding at least has to be trained: tick another one first.");
    }
    this.complain(null);
    this.again();
  }

  /** Start anew, and go on training if that was under way. */
  again() {
    this.fresh = true;
    this.until = this.spec.steps;
    if (this.trainer) this.work();
  }

  reset() {
    this.training = false;
    this.on = [...this.spec.on];
    for (const [i, { box }] of this.boxes.entries()) box.checked = this.on[i];
    this.set({ ...this.spec.starts });
    this.label();
  }

  toggle() {
    this.training = !this.training;
    if (this.training && this.done >= this.until && !this.fresh) this.until += this.spec.steps;
    this.complain(null);
    this.label();
    this.work();
  }

  step() {
    this.training = false;
    this.single = true;
    this.complain(null);
    this.label();
    this.work();
  }

  label() {
    if (!this.done && !this.training && !this.trainer) return; // the words still tell what the picture shows
    write(this.go, this.training ? "Pause" : "Train");
    this.go.setAttribute("aria-pressed", String(this.training));
    const hidden = this.training && document.hidden ? ", waiting until this page is seen" : "";
    write(this.status, this.done || this.training ? `step ${format(this.done)}${hidden}` : "");
  }

  /** Do what is wanted, one thing after the other, until nothing is. @param {boolean} agreed that the page may stutter */
  async work(agreed = false) {
    if (this.working) return;
    this.working = true;
    try {
      if (!this.trainer) {
        write(this.status, "loading…");
        this.trainer = await this.opening(agreed);
      }
      while (!this.ended && (await this.next(this.trainer)));
    } catch (error) {
      this.training = false;
      this.complain(error.message ?? String(error), error instanceof Stutter ? { text: "Train all the same", act: () => this.agree() } : null);
    } finally {
      this.working = false;
      if (!this.ended) this.label();
    }
  }

  agree() {
    this.training = true;
    this.work(true);
  }

  /** The next thing that is wanted; false if nothing is. @param {Trainer} trainer */
  async next(trainer) {
    if (this.fresh) {
      this.fresh = false;
      const task = `task ${this.values.task}`;
      await trainer.begin({ task, schemes: this.chosen.map(({ name }) => name), seed: this.values.seed });
      Object.assign(this, { done: 0, losses: [], kept: null, used: null, exam: null, asked: true });
      return true;
    }
    const trains = this.training && this.done < this.until && !document.hidden;
    const now = performance.now();
    if (this.asked || (trains && !still() && now - this.examined.at > Math.max(REST, PART * this.examined.took))) {
      this.asked = false;
      this.exam = await trainer.exam(this.values.length, this.values.n ?? 0);
      this.examined = { at: performance.now(), took: performance.now() - now };
      if (!this.diverged()) {
        await trainer.keep();
        this.kept = { done: this.done, rate: this.used ?? this.values.rate };
      }
      this.draw();
      return true;
    }
    if (!trains && !this.single) {
      if (this.done >= this.until) this.training = false;
      return false;
    }
    const most = this.single ? 1 : this.until - this.done;
    this.single = false;
    const { rate } = this.values;
    this.used = rate;
    const { done, losses } = await trainer.advance(BUDGET, rate, this.values.n ?? 0, most, this.spec.limit);
    if (this.fresh) return true; // other models are wanted by now
    const rest = still() && Math.floor(done / STILL) > Math.floor(this.done / STILL); // the next picture without movement
    this.done = done;
    this.losses.push(...losses);
    if (this.diverged()) this.leave();
    this.asked = this.asked || rest || !this.training || this.done >= this.until;
    this.label();
    if (!this.asked && !still()) this.curves();
    return true;
  }

  /** The schemes whose last loss is not what a model can have that learns. */
  diverged() {
    const last = this.losses.at(-1);
    return last?.some((loss) => !(loss < this.spec.limit)) ? this.chosen.filter((_, i) => !(last[i] < this.spec.limit)) : null;
  }

  /** A loss has run away: say so, and offer the last state and rate that were good. */
  leave() {
    this.training = false;
    const names = (this.diverged() ?? []).map(({ title }) => title).join(" and ");
    const { rate } = this.values;
    const last = this.kept ?? { done: 0, rate };
    const slower = last.rate < rate ? last.rate : Math.max(this.slowest(), rate / 10);
    this.complain(`At step ${format(this.done)} the loss of ${names} has run away: a rate of ${format(rate)} is too high for it.`, {
      text: `Go back to step ${format(last.done)}, with a rate of ${format(slower)}`,
      act: () => this.restore(slower),
    });
  }

  slowest() {
    const rate = this.spec.controls.find(({ name }) => name === "rate");
    return rate?.kind === "slider" ? rate.min : 0;
  }

  /** @param {number} rate */
  async restore(rate) {
    this.set({ rate });
    this.used = rate;
    this.done = (await this.trainer?.back()) ?? 0;
    this.losses.length = this.done;
    this.asked = true;
    this.work();
  }

  accept() {
    const { act } = this;
    this.complain(null);
    act?.();
  }

  /** @type {(message: string | null, remedy?: { text: string, act: () => void } | null) => void} */
  complain(message, remedy = null) {
    this.message.hidden = !message;
    write(this.words, message ?? "");
    this.remedy.hidden = !remedy;
    write(this.remedy, remedy?.text ?? "");
    this.act = remedy?.act;
  }

  /** The losses so far, at most so many points of each: where there are more steps, means of some. */
  curves() {
    const { chosen, losses } = this;
    const every = Math.max(1, Math.ceil(losses.length / POINTS));
    const count = Math.ceil(losses.length / every);
    const mean = (/** @type {number} */ i, /** @type {number} */ point) => {
      const part = losses.slice(point * every, (point + 1) * every);
      return part.reduce((sum, row) => sum + row[i], 0) / part.length;
    };
    const x = Float32Array.from({ length: count }, (_, point) => Math.min(losses.length, (point + 1) * every));
    const y = Float32Array.from({ length: chosen.length * count }, (_, at) => mean(Math.floor(at / count), at % count));
    if (count) this.lines(this.falling, [{ shape: [count], data: x }, { shape: [chosen.length, count], data: y }]);
  }

  /** Lines of the schemes that are trained, in their colours. @type {(view: View | null, tensors: Tensor[]) => void} */
  lines(view, tensors) {
    if (!view) return;
    const { chosen } = this;
    /** @type {Lines} */ (view).rename(chosen.map(({ title }) => title), chosen.map(({ colour }) => colour));
    view.update(tensors);
    even(this.views);
  }

  /** All that the last exam has found. */
  draw() {
    if (!this.exam || this.exam.schemes.length !== this.chosen.length) return;
    this.root.classList.add("pe-live");
    this.curves();
    const { schemes, tokens, targets, share } = this.exam;
    const { chosen } = this;
    const { length } = this.values;
    const x = Float32Array.from({ length }, (_, i) => i + 1);
    const y = new Float32Array(schemes.length * length);
    for (const [i, { accuracy }] of schemes.entries()) y.set(accuracy.data.subarray(0, length), i * length);
    this.lines(this.accuracy, [{ shape: [length], data: x }, { shape: [schemes.length, length], data: y }]);
    const maps = schemes.map(({ heads }) => cut(heads, this.values.head ?? 0, length));
    if (this.race) this.raced(this.race, maps);
    else this.mapped(chosen, maps);
    for (const [i, { watched }] of schemes.entries()) this.watched[this.spec.schemes.indexOf(chosen[i])]?.update(watched);
    const pictures = `${this.on} ${this.maps.length}`;
    if (pictures !== this.arranged) this.sort();
    this.arranged = pictures;
    this.write(schemes, [tokens, targets, share].map(({ data }) => data.subarray(0, length)));
    this.aim(null, null);
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: { ...this.values } }));
    if (this.data.open) this.tabulate();
    clearTimeout(this.speaking);
    if (!this.training) this.speaking = setTimeout(() => this.speak(), 600);
  }

  /** The small maps, and the large one. @type {(race: Race, maps: Tensor[]) => void} */
  raced(race, maps) {
    const { length } = this.values;
    const chosen = this.spec.schemes.map((_, i) => i).filter((i) => this.on[i]);
    const shares = (this.exam?.schemes ?? []).map(({ accuracy: { data } }) => mean(data.subarray(0, length)));
    race.show(chosen, shares, maps);
    const large = Math.max(0, chosen.indexOf(this.large));
    race.mark(chosen[large]);
    this.mapped([this.spec.schemes[chosen[large]]], [maps[large]]);
  }

  /** A large map of each of these. @type {(schemes: LearnSpec["schemes"], tensors: Tensor[]) => void} */
  mapped(chosen, tensors) {
    while (this.maps.length > chosen.length) {
      const view = /** @type {View} */ (this.maps.pop());
      this.probes.delete(/** @type {Picture} */ (view));
      view.host.remove();
    }
    while (this.maps.length < chosen.length) this.maps.push(this.view(this.spec.views.map));
    this.maps.forEach((view, i) => {
      write(view.head, chosen.length > 1 || this.race ? `Where a query of ${chosen[i].title} looks` : "Where a query looks");
      view.update([tensors[i]]);
    });
  }

  /** What the models read and write in one text; what is wrong is marked. @type {(schemes: Exam["schemes"], text: Float32Array[]) => void} */
  write(schemes, [tokens, targets, share]) {
    const { symbols } = this.spec;
    const counted = [...share].map((part) => part > 0);
    const letters = (/** @type {Float32Array} */ data) => [...data].map((token, i) => (counted[i] ? symbols[token] : "·"));
    /** @type {(name: string, shown: string[], wrong: (i: number) => boolean, note?: string) => HTMLElement} */
    const row = (name, shown, wrong, note = "") =>
      element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, note),
        element("td", {}, ...shown.map((letter, i) => {
          const kind = `${wrong(i) ? "pe-wrong" : ""}${i === this.spec.length ? " pe-unseen" : ""}`.trim();
          return kind ? element("span", { class: kind }, letter) : letter;
        })));
    const all = counted.filter(Boolean).length;
    const rows = schemes.map(({ written }, i) => {
      const wrong = (/** @type {number} */ at) => counted[at] && written.data[at] !== targets[at];
      const right = all - counted.filter((_, at) => wrong(at)).length;
      return row(`${this.chosen[i].title} writes`, letters(written.data.subarray(0, counted.length)), wrong, `${right} of ${all} right`);
    });
    this.text.replaceChildren(element("table", {},
      element("tbody", {}, row("the text", [...tokens].map((token) => symbols[token]), () => false), row("to write", letters(targets), () => false), ...rows)));
  }

  arrange() {
    const width = this.stages.clientWidth;
    if (!width) return;
    const phone = matchMedia("(max-width: 560px)").matches;
    /** @type {(views: View[], least: number) => void} */
    const share = (views, least) => {
      const columns = Math.max(1, Math.min(views.length, 4, Math.floor((width + 20) / (least + 20))));
      const rows = views.map(() => ({ level: 0, lines: 0 }));
      views.forEach((view, i) => {
        view.host.style.setProperty("--pe-span", String(60 / columns));
        view.host.classList.toggle("pe-last", (i + 1) % columns === 0 || i === views.length - 1);
        Object.assign(view, { widest: columns > 1 ? Math.floor(width / columns) - 20 : 820, least: 130, tallest: phone ? 240 : 300, airy: true, row: rows[Math.floor(i / columns)] });
      });
    };
    const rows = this.rows();
    const all = rows.flat();
    if (all.length <= ROW) share(all, phone ? 300 : MAP);
    else for (const row of rows) share(row, row.some((view) => !this.maps.includes(view)) ? 300 : phone ? 130 : MAP);
    for (const view of all) view.resize();
    even(all);
  }

  /** Put the pictures that are shown where they belong, and hide the others. */
  sort() {
    const { views } = this;
    for (const { host } of this.probes.keys()) host.hidden = !views.some((view) => view.host === host);
    this.stages.append(...views.map(({ host }) => host));
    this.arrange();
  }

  /** The pictures that are shown, in their order: lines that follow each other share a row, and so do maps. */
  rows() {
    const watched = this.watched.filter((view, i) => view && this.on[i]);
    const kinds = { watched, losses: [this.falling], accuracy: [this.accuracy], maps: this.maps };
    /** @type {View[][]} */
    const rows = [];
    let last = "";
    for (const kind of this.spec.show) {
      const row = /** @type {View[]} */ (kinds[kind]);
      if (last && (last === "maps") === (kind === "maps")) rows[rows.length - 1].push(...row);
      else rows.push([...row]);
      last = kind;
    }
    return rows;
  }

  get views() {
    return this.rows().flat();
  }

  /** Probe a view at a place; others follow where an axis has the same name. @type {(from: Picture | null, place: Place | null) => void} */
  aim(from, place) {
    const names = from && place ? from.named(place) : {};
    for (const [view, probe] of this.probes) if (view.tensors) probe.show(view === from ? place : place && view.find(names));
  }

  /** One sentence for each picture, once training has paused. */
  speak() {
    const drawn = this.views.filter(({ tensors }) => tensors);
    for (const view of drawn) view.describe();
    write(this.spoken, drawn.slice(0, 2).map((view) => view.summary(view.tensors)).join(" "));
  }

  tabulate() {
    const drawn = this.views.filter(({ tensors }) => tensors);
    if (!this.data.open || !drawn.length) return;
    tabulated(this.data, drawn, this.spec);
  }

  destroy() {
    this.ended = true;
    this.training = false;
    document.removeEventListener("visibilitychange", this.shown);
    this.watch.disconnect();
    clearTimeout(this.speaking);
    this.trainer?.end();
    this.body.remove();
  }
}

/** The mean of what is counted; what is not is NaN. @param {Float32Array} data */
function mean(data) {
  const counted = data.filter((v) => !Number.isNaN(v));
  return counted.reduce((sum, v) => sum + v, 0) / (counted.length || 1);
}

/** Of the maps of all heads that of one, as long as the text. @type {(heads: Tensor, head: number, length: number) => Tensor} */
function cut({ shape: [, , side], data }, head, length) {
  const cells = new Float32Array(length * length);
  for (let row = 0; row < length; row++) {
    const from = (head * side + row) * side;
    cells.set(data.subarray(from, from + length), row * length);
  }
  return { shape: [length, length], data: cells };
}
