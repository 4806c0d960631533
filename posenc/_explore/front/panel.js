// @ts-check
// The panel: controls, views, messages. What computes is an engine: the kernel's (widget.js) or the page's (page.js).

import { Comparison, Pin, sidesFor } from "./compare.js";
import { further, makeControl } from "./controls.js";
import { element, mute, unique, write } from "./dom.js";
import { Latest } from "./latest.js";
import { arrange, even } from "./layout.js";
import { Motion, still } from "./motion.js";
import { format, toHash } from "./scale.js";
import { aimed, search, seek } from "./seek.js";
import { tabulated } from "./table.js";
import { tool } from "./tools.js";
import { grab } from "./views/grab.js";
import { makeView } from "./views/index.js";
import { Probe } from "./views/probe.js";

/** @import { Choice, Control, Engine, Held, Made, Picture, Place, Slider } from "./types" */
/** @import { Spec, Tensor, Tree, Value, Values, ViewSpec } from "./types" */
/** @import { View } from "./views/view.js" */

/** The key of the graph for the present choices. @type {(controls: Control[], values: Values) => string} */
export const variant = (controls, values) =>
  controls.filter(({ kind }) => kind !== "slider").map(({ name }) => Number(values[name])).join(",");

const FADE = 1400; // milliseconds
const REST = 200; // milliseconds without a movement
/** @type {Set<Panel>} */
const panels = new Set(); // of this page, which may share controls

/** A panel in `root`. Its engine computes, and of many values only the newest. */
export class Panel {
  // Its elements, which build() makes.
  /** @type {HTMLElement} */ body;
  /** @type {HTMLElement} */ stages;
  /** @type {HTMLElement} */ controls;
  /** @type {HTMLElement} */ more;
  /** @type {HTMLElement} */ status;
  /** @type {HTMLElement} */ message;
  /** @type {HTMLElement} */ spoken;
  /** @type {HTMLProgressElement} */ progress;
  /** @type {HTMLDetailsElement} */ data;
  /** @type {HTMLButtonElement[]} */ presets;
  /** @type {HTMLButtonElement | undefined} */ playing;
  /** @type {Record<string, Made>} */ made;
  /** @type {ResizeObserver} */ watch;
  /** @type {Set<string>} controls that a picture or a formula shows */ pictured;

  /** @type {Comparison | null} of a choice with another of its values */
  comparison = null;
  width = 0; // for which the views were arranged
  /** @type {View[]} one for each of the spec's */
  views = [];
  /** @type {View[]} with those of the other side of a comparison */
  all = [];
  /** @type {Map<Picture, Probe>} */
  probes = new Map();
  /** @type {Tensor[] | null} what is shown */
  tensors = null;
  /** @type {Values | null} of what is shown */
  shown = null;
  /** @type {{ taken: Held } | null} the search that is under way, for what was taken */
  search = null;
  /** @type {{ from: Picture, place: Place } | null} what is probed */
  aimed = null;
  seen = false; // some of it is on the screen
  /** @type {Values} what shared controls are to do here, once a reader sees it or the movement has ended */
  owed = {};
  held = false; // something in a picture
  haunted = false; // ghosts are shown
  /** @type {string | undefined} the choices for which sliders are marked that do nothing */
  marked;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the ghosts go */
  fading;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the numbers are said */
  speaking;
  /** @type {ReturnType<typeof setTimeout> | undefined} until what is owed is done */
  due;
  /** @type {IntersectionObserver} */ sight;
  /** @type {(() => void) | undefined} */
  resized;

  /** @param {Element} root @param {Spec} spec @param {Engine} engine */
  constructor(root, spec, engine) {
    this.root = root;
    this.spec = spec;
    this.engine = engine;
    this.id = unique("pe");
    this.values = { ...spec.values };
    this.starts = { ...spec.starts };
    this.motion = new Motion(this);
    this.latest = new Latest({
      compute: (/** @type {Values} */ values) => this.compute(values),
      done: ([tensors, others], values) => this.show(tensors, values, others),
      failed: (error) => this.complain(error.message ?? String(error)),
      busy: (yes) => this.busy(yes),
    });
    const versus = /** @type {Choice | undefined} */ (spec.controls.find(({ name }) => name === spec.compare));
    if (versus) this.comparison = new Comparison(this, versus);
    this.kept = new Pin(this);
    this.build();
    panels.add(this);
  }

  get running() {
    return this.latest.running;
  }

  /** The state that is kept to compare with. */
  get pinned() {
    return this.kept.state;
  }

  build() {
    const { comparison, spec } = this;
    this.title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    this.status = element("p", { class: "pe-status", role: "status" });
    this.progress = element("progress", { class: "pe-progress", max: 1, "aria-label": "loading the runtime", hidden: true });
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true });
    this.made = Object.fromEntries(spec.controls.map((control) => [control.name, this.control(control)]));
    const of = (/** @type {string[]} */ names) => names.map((name) => this.made[name].host);
    const first = spec.controls.map(({ name }) => name).filter((name) => !spec.more.includes(name));
    this.controls = element("div", { class: "pe-controls" }, ...of(first));
    if (comparison) this.controls.prepend(this.made[comparison.versus.name].host, comparison.control.host);
    this.more = element("div", { class: "pe-controls pe-more", id: `${this.id}-more`, hidden: true }, ...of(spec.more));
    this.presets = spec.presets.map((preset) =>
      element("button", { type: "button", class: "pe-button pe-preset", onclick: () => this.set(preset.values) }, preset.label));
    this.actions = element("div", { class: "pe-actions" },
      ...(spec.more.length ? [further(this.more)] : []),
      ...(spec.play ? [this.player(spec.play)] : []),
      ...(this.presets.length ? [element("span", { class: "pe-presets", role: "group", "aria-label": "presets" }, ...this.presets)] : []),
      this.kept.modes, this.status);
    this.stages = element("div", { class: "pe-views" });
    this.pictured = new Set(spec.views.flatMap(({ rule, level, pick = [], sketch = [], tree }) => [rule, level, ...pick, ...sketch.map(({ control }) => control), ...(tree ? placesOf(tree) : [])]));
    for (const view of spec.views) this.picture(view);
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.caption = element("p", { class: "pe-caption", hidden: !spec.caption }, spec.caption);
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": `${this.id}-title` },
      element("div", { class: "pe-head" }, this.title, this.tools()), this.caption, this.controls, this.actions, this.more, this.message,
      this.progress, this.stages, this.spoken, this.data);
    this.root.append(this.body);
    mute(this.root.querySelectorAll(":scope > :is(.pe-title, .pe-state, .pe-caption)"), true); // the panel has its own
    mute([this.stages, this.message, this.progress, this.more], true);
    for (const kind of ["pointerdown", "keydown"]) {
      this.body.addEventListener(kind, (event) => this.playing?.contains(/** @type {Node} */ (event.target)) || this.stop(), { capture: true });
    }
    this.watch = new ResizeObserver(() => {
      if (this.stages.clientWidth && this.stages.clientWidth !== this.width) this.arranged();
    });
    this.watch.observe(this.stages);
    this.sight = new IntersectionObserver((entries) => {
      this.seen = entries[entries.length - 1].isIntersecting;
      if (this.seen) this.settle();
    });
    this.sight.observe(this.root);
    this.mark();
  }

  tools() {
    const made = element("div", { class: "pe-tools" }, tool("Reset", () => this.reset()), this.kept.button);
    if (this.engine.link) made.append(tool("Copy link", () => this.copyLink()));
    if (document.fullscreenEnabled) {
      made.append(tool("Full screen", () => this.enlarge()));
      this.resized = () => this.arranged();
      this.root.addEventListener("fullscreenchange", this.resized);
    }
    return made;
  }

  /**
   * The views of one of the spec's, two or three where two sides are compared.
   * @param {ViewSpec} spec
   */
  picture(spec) {
    const sides = this.comparison ? sidesFor(spec.kind) : [""];
    sides.forEach((side, i) => {
      const host = element("div", { class: `pe-view pe-${spec.kind}` });
      this.stages.append(host);
      const view = makeView(spec, host, this.spec.controls);
      view.side = side;
      if (i) view.main = this.views[this.views.length - 1];
      if (!i) this.views.push(view);
      this.all.push(view);
      const connect = (/** @type {View} */ part) => {
        if (part.frame) {
          const picture = /** @type {Picture} */ (part);
          this.probes.set(picture, new Probe(picture, this));
        }
        grab(part, this);
      };
      view.connected = (parts) => {
        for (const [part] of this.probes) if (!part.stage.isConnected) this.probes.delete(part);
        parts.forEach(connect);
        for (const part of parts.slice(1)) part.stage.removeAttribute("tabindex"); // one tab stop for a view
      };
      view.connect(this);
      connect(view);
    });
  }

  /** @type {(control: Control) => Made} */
  control(control) {
    const shared = this.spec.share.includes(control.name);
    const label = control === this.comparison?.versus ? `A: ${control.label}` : control.label;
    return makeControl({ ...control, label, shared }, `${this.id}-${control.name}`, this.values[control.name], {
      move: (value) => this.set({ [control.name]: value }),
      complain: (message) => this.complain(message),
    });
  }

  /** Every control where it began, those of both sides of a comparison. */
  reset() {
    const { comparison } = this;
    if (comparison) this.oppose(comparison.next(this.starts[comparison.versus.name]));
    this.set(this.starts);
  }

  /** Choose the other side of a comparison. @param {number} value */
  oppose(value) {
    this.comparison?.choose(value);
    this.mark();
    this.request();
  }

  /** @param {string} name of the control */
  player(name) {
    const words = () => (still() ? "Step" : this.motion.playing ? "Stop" : "Play");
    const write = () => (playing.textContent = words());
    const playing = element("button", {
      type: "button", class: "pe-button pe-play",
      onclick: () => {
        if (this.motion.playing) return this.stop();
        this.motion.play(name, () => {
          write();
          for (const kind of ["pointerdown", "keydown"]) removeEventListener(kind, elsewhere, { capture: true });
        });
        if (!this.motion.playing) return;
        for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, elsewhere, { capture: true });
        write();
      },
    });
    const elsewhere = (/** @type {Event} */ event) => playing.contains(/** @type {Node} */ (event.target)) || this.stop();
    write();
    this.playing = playing;
    return playing;
  }

  /** Fill the screen, as in a lecture hall, or give it back. */
  async enlarge() {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await this.root.requestFullscreen();
    } catch {
      write(this.status, "This page may not fill the screen.");
    }
  }

  arranged() {
    this.width = this.stages.clientWidth;
    this.arrange(this.width);
    for (const view of this.all) view.resize();
    even(this.all);
  }

  /** @param {number} width */
  arrange(width) {
    arrange(this, width);
  }

  /**
   * Move controls, and tell the engine unless it was the engine that moved them. A search that is under way ends.
   * @type {(values: Values, tell?: boolean) => void}
   */
  set(values, tell = true) {
    this.search = null;
    this.move(values, tell);
  }

  /** @type {(values: Values, tell?: boolean) => void} */
  move(values, tell = true) {
    values = { ...this.owed, ...values };
    this.owed = {};
    clearTimeout(this.due);
    this.remember();
    for (const [name, value] of Object.entries(values)) {
      if (!(name in this.values)) continue;
      if (tell && value !== this.values[name] && this.spec.share.includes(name)) this.passOn(name, value);
      this.values[name] = value;
      this.made[name].show(value);
    }
    if (tell) this.engine.changed?.(values);
    this.mark();
    this.request();
  }

  /**
   * Move a shared control in the page's other panels, as far as they have this value. In a notebook the kernel does.
   * @type {(name: string, value: Value) => void}
   */
  passOn(name, value) {
    if (this.engine.changed) return;
    for (const other of panels) {
      const control = other !== this && other.spec.share.includes(name) && other.spec.controls.find((c) => c.name === name);
      if (!control || (control.kind === "slider" && !(value >= control.min && value <= control.max))) continue;
      if (control.kind === "choice" && value >= control.labels.length) continue;
      if ({ ...other.values, ...other.owed }[name] !== value) other.follow({ [name]: value });
    }
  }

  /**
   * Do what a shared control has done elsewhere; out of sight only when it has come to rest, since to draw what nobody
   * sees takes the time of what is seen.
   * @param {Values} values
   */
  follow(values) {
    if (this.seen) return this.set(values, false);
    Object.assign(this.owed, values);
    clearTimeout(this.due);
    this.due = setTimeout(() => this.settle(), REST);
  }

  settle() {
    if (Object.keys(this.owed).length) this.set({}, false);
  }

  /** Say which preset is on, and, after a choice, which sliders do nothing in this state. */
  mark() {
    const { spec, values } = this;
    this.presets.forEach((button, i) => {
      const on = Object.entries(spec.presets[i].values).every(([name, value]) => values[name] === value);
      button.setAttribute("aria-pressed", String(on));
    });
    const { used: reads = {} } = spec;
    const keys = [values, ...(this.comparison ? [this.comparison.state(values)] : [])].map((state) => variant(spec.controls, state));
    const key = keys.join(";");
    if (key === this.marked || keys.some((one) => !reads[one])) return; // a kernel tells after a result
    const used = keys.flatMap((one) => reads[one]);
    this.marked = key;
    for (const { name, kind } of spec.controls) {
      if (kind !== "slider") continue;
      const idle = !used.includes(name) && !this.pictured.has(name);
      const { host } = this.made[name];
      host.classList.toggle("pe-idle", idle);
      host.title = idle ? "does nothing in this state" : "";
      for (const input of host.querySelectorAll("input")) input.disabled = idle;
    }
  }

  request() {
    return this.latest.request({ ...this.values });
  }

  /**
   * The tensors of a state, and where two sides are compared those of the other one.
   * @type {(values: Values) => Promise<[Tensor[], Tensor[] | null]>}
   */
  async compute(values) {
    const tensors = await this.engine.compute(values);
    return [tensors, this.comparison && await this.engine.compute(this.comparison.state(values))];
  }

  /** @param {Values} values */
  glide(values) {
    this.motion.glide(values);
  }

  /** Something in a picture was taken: until it is let go nothing else is probed or moved. */
  hold() {
    this.stop();
    this.search = null;
    this.held = true;
    if (this.aimed) this.aim(this.aimed.from, null);
    this.body.classList.add("pe-holding");
  }

  release() {
    this.held = false;
    this.body.classList.remove("pe-holding");
  }

  /**
   * Bring what was taken under the pointer: the newest place only, and within each frame as far as time allows.
   * @type {(taken: Held, miss: (tensors: Tensor[]) => number, patience: number) => Promise<void>}
   */
  async seek(taken, miss, patience) {
    taken.miss = miss;
    if (this.search?.taken === taken) return;
    const mine = { taken };
    this.search = mine;
    const controls = taken.controls.map((name) => /** @type {Slider} */ (this.spec.controls.find((control) => control.name === name)));
    const same = (/** @type {Values} */ values) => Object.keys(values).every((name) => values[name] === this.shown?.[name]);
    /** @param {Values} values */
    const far = async (values) => (taken.miss ?? miss)((same(values) && this.tensors) || (await this.engine.compute(values)));
    let state = search();
    try {
      while (this.search === mine) {
        /** @type {Held["miss"]} */
        const wanted = taken.miss;
        const late = performance.now() + (this.engine.patience ?? patience);
        const { values, done } = await seek(controls, this.values, far, () => performance.now() > late, state);
        if (this.search !== mine) return; // somebody has moved the controls meanwhile, or the panel is gone
        const now = Object.fromEntries(taken.controls.map((name) => [name, values[name]]));
        if (taken.controls.some((name) => values[name] !== this.values[name])) this.move(now);
        if (done && taken.miss === wanted) break;
        if (done) state = search();
        else if (taken.miss !== wanted) aimed(state);
        await new Promise(requestAnimationFrame);
      }
    } catch (error) {
      if (this.search === mine) this.complain(error.message ?? String(error));
    }
    if (this.search === mine) this.search = null;
  }

  /** Of all tensors, those of one view. @type {(view: View, tensors: Tensor[]) => Tensor[]} */
  shareOf(view, tensors) {
    return this.shares(tensors)[this.views.indexOf(view.main)];
  }

  stop() {
    this.motion.stop();
  }

  /** Keep a state to compare with, or with null let it go. @param {Values | null} [values] the state that is shown, or none */
  pin(values) {
    return this.kept.put(values);
  }

  /** Keep what is drawn as a ghost until a while after the movement: a reader compares with it. */
  remember() {
    if (!this.tensors) return;
    if (!this.haunted) {
      this.haunted = true;
      for (const view of this.views) view.past = view.tensors;
    }
    clearTimeout(this.fading);
    this.fading = setTimeout(() => this.forget(), FADE);
  }

  forget() {
    if (this.body.matches(":active") || this.running) { // still held, or still on its way
      this.fading = setTimeout(() => this.forget(), FADE);
      return;
    }
    this.haunted = false;
    for (const view of this.views) {
      view.past = null;
      if (view.tensors) view.draw(view.tensors);
    }
  }

  /**
   * Probe a view at a place; others follow where one of their axes has the same name.
   * @type {(from: Picture, place: Place | null) => void}
   */
  aim(from, place) {
    if (!this.tensors) return;
    this.aimed = place && { from, place };
    const names = place ? from.named(place) : {};
    for (const [view, probe] of this.probes) if (view.tensors) probe.show(view === from ? place : place && view.find(names));
  }

  /** After a move the same place has other values, or is gone. */
  again() {
    if (!this.aimed) return;
    const { from, place } = this.aimed;
    this.aim(from, from.step(place, 0, 0));
  }

  /** Of these tensors, those of each view. @param {Tensor[]} tensors */
  shares(tensors) {
    let end = 0;
    return this.views.map(({ takes }) => {
      end += takes;
      return tensors.slice(end - takes, end);
    });
  }

  /** @param {boolean} yes */
  busy(yes) {
    this.body.setAttribute("aria-busy", String(yes));
    write(this.status, yes ? "computing…" : "");
  }

  /**
   * How far the runtime is, or NaN as long as that is not known, or null when it is there.
   * @param {number | null} fraction
   */
  loading(fraction) {
    this.progress.hidden = fraction === null;
    mute([this.progress], this.progress.hidden);
    if (fraction === null) return;
    if (Number.isFinite(fraction)) this.progress.value = fraction;
    else this.progress.removeAttribute("value");
  }

  /** @param {string | null} message */
  complain(message) {
    this.message.hidden = !message;
    mute([this.message], !message);
    this.root.classList.toggle("pe-told", Boolean(message));
    write(this.message, message ?? "");
  }

  /** @type {(tensors: Tensor[], values: Values, others?: Tensor[] | null) => void} */
  show(tensors, values, others = null) {
    let bad = 0;
    for (const { data } of tensors) for (let i = 0; i < data.length; i++) if (Number.isNaN(data[i])) bad++;
    this.complain(bad ? `${format(bad)} of these numbers ${bad > 1 ? "are" : "is"} not a number (NaN) and left blank.` : null);
    const [mine, theirs] = [this.shares(tensors), others && this.shares(others)];
    this.views.forEach((view, i) => {
      view.values = values;
      if (theirs) this.comparison?.show(view, this.all, mine[i], theirs[i], values);
      view.update(mine[i]);
    });
    even(this.all);
    const first = !this.tensors;
    this.tensors = tensors;
    this.shown = values;
    this.again();
    if (first) {
      this.root.classList.add("pe-live");
      mute(this.root.querySelectorAll(":scope > .pe-stills"), true);
      mute([this.stages], false);
    }
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: values }));
    clearTimeout(this.speaking);
    if (!first) this.speaking = setTimeout(() => this.speak(), 600); // what is there at first, its pictures say
    if (this.data.open) this.tabulate();
  }

  /** One sentence for each view, said once the reader has paused. */
  speak() {
    for (const view of this.all) view.describe();
    write(this.spoken, this.all.map((view) => view.summary(view.tensors)).filter(Boolean).join(" "));
  }

  tabulate() {
    if (!this.data.open || !this.tensors) return;
    tabulated(this.data, this.all, this.spec);
  }

  async copyLink() {
    const address = location.href.replace(/#.*$/, "") + toHash(this.root.id, this.spec.controls, this.values, this.linked());
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      write(this.status, "The link to this state is on the clipboard.");
    } catch {
      write(this.status, "The link to this state is now in the address bar.");
    }
  }

  /** The other state of a link: the pinned one, or that of the other side. */
  linked() {
    return this.comparison ? this.comparison.state(this.values) : this.pinned?.values;
  }

  destroy() {
    this.search = null;
    this.latest.end();
    panels.delete(this);
    if (this.resized) this.root.removeEventListener("fullscreenchange", this.resized);
    this.stop();
    this.watch.disconnect();
    this.sight.disconnect();
    clearTimeout(this.due);
    clearTimeout(this.speaking);
    clearTimeout(this.fading);
    this.body.remove();
  }
}

/** The names of what a formula shows. @type {(tree: Tree) => string[]} */
const placesOf = ([, { place }, children]) =>
  [place, ...children.flatMap((child) => (typeof child === "string" ? [] : placesOf(child)))].filter(Boolean);
