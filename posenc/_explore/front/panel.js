// The panel: controls, views, messages. What computes is an engine: the kernel's (widget.js) or the page's (page.js).

import { makeControl } from "./controls.js";
import { element } from "./dom.js";
import { Latest } from "./latest.js";
import { Motion, still } from "./motion.js";
import { format, toHash } from "./scale.js";
import { seek } from "./seek.js";
import { download, tables } from "./table.js";
import { tool } from "./tools.js";
import { grab } from "./views/grab.js";
import { makeView } from "./views/index.js";
import { Probe } from "./views/probe.js";

/** The key of the graph for the present choices. */
export const variant = (controls, values) =>
  controls.filter(({ kind }) => kind !== "slider").map(({ name }) => Number(values[name])).join(",");

const LEAST = { plane: 260, readout: 0, formula: 0 }; // pixels that a view needs beside another; others need 300
const BESIDE = 210; // pixels that each of the sides needs that are compared
const WIDE = ["readout", "formula"]; // have a row of their own
const GAP = 20;
const MODES = ["now", "pinned", "difference"];
const FADE = 1400; // milliseconds
const panels = new Set(); // of this page, which may share controls
let count = 0;

/**
 * An engine has `compute(values) -> Promise<tensors>`, and may have `changed(values)`, told of every move, and `patience`,
 * the milliseconds that a search may take before it shows what it has. Only the newest values are ever computed.
 */
export class Panel {
  constructor(root, spec, engine) {
    this.root = root;
    this.spec = spec;
    this.engine = engine;
    this.id = `pe-${++count}`;
    this.values = { ...spec.values };
    this.starts = { ...spec.starts };
    this.motion = new Motion(this);
    this.latest = new Latest({
      compute: (values) => this.compute(values),
      done: ([tensors, others], values) => this.show(tensors, values, others),
      failed: (error) => this.complain(error.message ?? String(error)),
      busy: (yes) => this.busy(yes),
    });
    const versus = spec.controls.find(({ name }) => name === spec.compare);
    if (versus) this.other = (this.values[versus.name] + 1) % versus.labels.length;
    this.build(versus);
    panels.add(this);
  }

  get running() {
    return this.latest.running;
  }

  build(versus) {
    const { spec } = this;
    this.title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    this.status = element("p", { class: "pe-status", role: "status" });
    this.progress = element("progress", { class: "pe-progress", max: 1, "aria-label": "loading the runtime", hidden: true });
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true });
    this.made = Object.fromEntries(spec.controls.map((control) => [control.name, this.control(control, versus)]));
    const of = (names) => names.map((name) => this.made[name].host);
    const first = spec.controls.map(({ name }) => name).filter((name) => !spec.more.includes(name));
    this.controls = element("div", { class: "pe-controls" }, ...of(first));
    if (versus) this.controls.prepend(this.made[versus.name].host, this.opposite(versus));
    this.more = element("details", { class: "pe-more", hidden: !spec.more.length },
      element("summary", {}, "More controls"), element("div", { class: "pe-controls" }, ...of(spec.more)));
    this.presets = spec.presets.map((preset) =>
      element("button", { type: "button", class: "pe-button pe-preset", onclick: () => this.set(preset.values) }, preset.label));
    this.modes = element("span", { class: "pe-modes", role: "group", "aria-label": "what the matrices show", hidden: true },
      ...MODES.map((mode) => element("button", { type: "button", class: "pe-button", onclick: () => this.compare(mode) }, mode)));
    this.actions = element("div", { class: "pe-actions" },
      ...(spec.play ? [this.player()] : []),
      ...(this.presets.length ? [element("span", { class: "pe-presets", role: "group", "aria-label": "presets" }, ...this.presets)] : []),
      this.modes, this.status);
    this.stages = element("div", { class: "pe-views" });
    this.views = [];
    this.all = []; // with those of the other side of a comparison
    this.probes = new Map();
    this.pictured = new Set(spec.views.flatMap(({ rule, level, pick = [], tree }) => [rule, level, ...pick, ...(tree ? placesOf(tree) : [])]));
    for (const view of spec.views) this.picture(view, versus);
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.caption = element("p", { class: "pe-caption", hidden: !spec.caption }, spec.caption);
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": `${this.id}-title` },
      element("div", { class: "pe-head" }, this.title, this.tools()), this.caption, this.controls, this.more, this.actions, this.message,
      this.progress, this.stages, this.spoken, this.data);
    this.root.append(this.body);
    for (const kind of ["pointerdown", "keydown"]) {
      this.body.addEventListener(kind, (event) => this.playing?.contains(event.target) || this.stop(), { capture: true });
    }
    this.watch = new ResizeObserver(() => {
      if (this.stages.clientWidth && this.stages.clientWidth !== this.width) this.arranged();
    });
    this.watch.observe(this.stages);
    this.mark();
  }

  tools() {
    this.pinning = tool("Pin", () => this.pin(), { "aria-pressed": "false", hidden: Boolean(this.spec.compare) });
    const made = element("div", { class: "pe-tools" }, tool("Reset", () => this.set(this.starts)), this.pinning);
    if (this.engine.link) made.append(tool("Copy link", () => this.copyLink()));
    if (document.fullscreenEnabled) {
      made.append(tool("Full screen", () => this.enlarge()));
      this.resized = () => this.arranged();
      this.root.addEventListener("fullscreenchange", this.resized);
    }
    return made;
  }

  /** The views of one of the spec's, two or three where two sides are compared. */
  picture(spec, versus) {
    const sides = versus && ["heatmap", "plane"].includes(spec.kind) ? (spec.kind === "heatmap" ? ["A", "B", "B − A"] : ["A", "B"]) : [""];
    sides.forEach((side, i) => {
      const host = element("div", { class: `pe-view pe-${spec.kind}` });
      this.stages.append(host);
      const view = makeView(spec, host, this.spec.controls);
      view.side = side;
      view.main = i ? this.views.at(-1) : view;
      if (!i) this.views.push(view);
      this.all.push(view);
      const connect = (part) => {
        if (part.frame) this.probes.set(part, new Probe(part, this));
        grab(part, this);
      };
      view.connected = (parts) => {
        for (const [part] of this.probes) if (!part.stage.isConnected) this.probes.delete(part);
        parts.forEach(connect);
        for (const part of parts.slice(1)) part.stage.removeAttribute("tabindex"); // one tab stop for a view
      };
      view.connect?.(this);
      connect(view);
    });
  }

  control(control, versus) {
    const shared = this.spec.share.includes(control.name);
    const label = control === versus ? `A: ${control.label}` : control.label;
    return makeControl({ ...control, label, shared }, `${this.id}-${control.name}`, this.values[control.name], {
      move: (value) => this.set({ [control.name]: value }),
      complain: (message) => this.complain(message),
    });
  }

  /** The control of the other side of a comparison. */
  opposite(versus) {
    this.against = makeControl({ ...versus, label: `B: ${versus.label}` }, `${this.id}-other`, this.other, { move: (value) => this.oppose(value) });
    return this.against.host;
  }

  oppose(value) {
    this.other = value;
    this.against.show(value);
    this.mark();
    this.request();
  }

  player() {
    const words = () => (still() ? "Step" : this.motion.playing ? "Stop" : "Play");
    const write = () => (this.playing.textContent = words());
    this.playing = element("button", {
      type: "button", class: "pe-button pe-play",
      onclick: () => {
        if (this.motion.playing) return this.stop();
        this.motion.play(this.spec.play, () => {
          write();
          for (const kind of ["pointerdown", "keydown"]) removeEventListener(kind, elsewhere, { capture: true });
        });
        if (!this.motion.playing) return;
        for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, elsewhere, { capture: true });
        write();
      },
    });
    const elsewhere = (event) => this.playing.contains(event.target) || this.stop();
    write();
    return this.playing;
  }

  /** Fill the screen, as in a lecture hall, or give it back. */
  async enlarge() {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await this.root.requestFullscreen();
    } catch {
      this.status.textContent = "This page may not fill the screen.";
    }
  }

  arranged() {
    this.width = this.stages.clientWidth;
    this.arrange(this.width);
    this.all.forEach((view) => view.resize());
  }

  /** Which views stand side by side: as many as have room, in sixty columns, whatever is left shared out. */
  arrange(width) {
    // On a phone the first picture stands above the controls, and stays in sight while one of them is held.
    const phone = matchMedia("(max-width: 560px)").matches;
    const first = this.views.find(({ spec }) => !WIDE.includes(spec.kind));
    this.body.classList.toggle("pe-phone", phone);
    const full = document.fullscreenElement === this.root;
    for (const view of this.all) {
      view.widest = full ? 1600 : 820;
      view.tallest = full ? Math.round(0.55 * innerHeight) : phone ? Math.min(330, Math.round(0.3 * innerHeight)) : 380;
    }
    if (phone && first && first.host.parentNode !== this.body) this.body.insertBefore(first.host, this.controls);
    if (!phone && first?.host.parentNode === this.body) {
      this.stages.insertBefore(first.host, this.stages.children[this.all.indexOf(first)]);
    }
    const rows = [];
    let room = 0;
    for (const view of this.all) {
      const least = view.side ? BESIDE : (LEAST[view.spec.kind] ?? 300);
      const alone = WIDE.includes(view.spec.kind);
      if (!rows.length || least > room || alone) {
        rows.push([]);
        room = width + GAP;
      }
      rows.at(-1).push([view, least]);
      room = alone ? 0 : room - least - GAP;
    }
    for (const row of rows) {
      const all = row.reduce((sum, [, least]) => sum + least, 0) || 1;
      const airy = row.some(([view]) => view.spec.y);
      const sided = row.every(([view]) => view.side); // pictures to compare are of one size
      let left = 60;
      row.forEach(([view, least], i) => {
        const span = i === row.length - 1 ? left : Math.round((60 * least) / all);
        left -= span;
        view.airy = airy;
        if (sided) Object.assign(view, { least: Math.min(220, least), widest: Math.floor(width / row.length) - GAP });
        view.host.style.setProperty("--pe-span", span);
        view.host.classList.toggle("pe-last", i === row.length - 1);
      });
    }
  }

  /** Move controls, and tell the engine unless it was the engine that moved them. */
  set(values, tell = true) {
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

  /** Move a shared control in the page's other panels, as far as they have this value. In a notebook the kernel does. */
  passOn(name, value) {
    if (this.engine.changed) return;
    for (const other of panels) {
      const control = other !== this && other.spec.share.includes(name) && other.spec.controls.find((c) => c.name === name);
      if (!control || (control.kind === "slider" && !(value >= control.min && value <= control.max))) continue;
      if (control.kind === "choice" && value >= control.labels.length) continue;
      if (other.values[name] !== value) other.set({ [name]: value }, false);
    }
  }

  /** Say which preset is on, and, after a choice, which sliders do nothing in this state. */
  mark() {
    const { spec, values } = this;
    this.presets.forEach((button, i) => {
      const on = Object.entries(spec.presets[i].values).every(([name, value]) => values[name] === value);
      button.setAttribute("aria-pressed", String(on));
    });
    const { compare } = spec;
    const keys = [values, ...(compare ? [{ ...values, [compare]: this.other }] : [])].map((state) => variant(spec.controls, state));
    const key = keys.join(";");
    if (!spec.used || key === this.marked) return; // in a notebook nothing is known of the function
    const used = keys.flatMap((one) => spec.used[one]);
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

  /** The tensors of a state, and where two sides are compared those of the other one. */
  async compute(values) {
    const tensors = await this.engine.compute(values);
    const { compare } = this.spec;
    return [tensors, compare ? await this.engine.compute({ ...values, [compare]: this.other }) : null];
  }

  glide(values) {
    this.motion.glide(values);
  }

  /** Something in a picture was taken: until it is let go nothing else is probed or moved. */
  hold() {
    this.stop();
    this.held = true;
    if (this.aimed) this.aim(this.aimed.from, null);
    this.body.classList.add("pe-holding");
  }

  release() {
    this.held = false;
    this.body.classList.remove("pe-holding");
  }

  /** Bring what was taken under the pointer: the newest place only, and within each frame as far as time allows. */
  async seek(taken, miss, patience) {
    taken.miss = miss;
    if (taken.seeking) return;
    taken.seeking = true;
    const controls = taken.controls.map((name) => this.spec.controls.find((control) => control.name === name));
    const same = (values) => this.shown && Object.keys(values).every((name) => values[name] === this.shown[name]);
    const far = async (values) => taken.miss(same(values) ? this.tensors : await this.engine.compute(values));
    const strides = new Map();
    let now = {};
    try {
      while (!this.gone) {
        const wanted = taken.miss;
        const late = performance.now() + (this.engine.patience ?? patience);
        const { values, done } = await seek(controls, { ...this.values, ...now }, far, () => performance.now() > late, strides);
        now = Object.fromEntries(taken.controls.map((name) => [name, values[name]]));
        if (taken.controls.some((name) => values[name] !== this.values[name])) this.set(now);
        if (done && taken.miss === wanted) break;
        await new Promise(requestAnimationFrame);
      }
    } catch (error) {
      this.complain(error.message ?? String(error));
    }
    taken.seeking = false;
  }

  /** Of all tensors, those of one view. */
  shareOf(view, tensors) {
    return this.shares(tensors)[this.views.indexOf(view.main ?? view)];
  }

  stop() {
    this.motion.stop();
  }

  /** Keep a state to compare with, or with null let it go; without values the state that is shown, or none. */
  async pin(values = this.pinned ? null : this.shown) {
    if (values && values !== this.shown) {
      try {
        this.pinned = { values: { ...values }, tensors: await this.engine.compute(values) };
      } catch (error) {
        return this.complain(error.message ?? String(error));
      }
    } else this.pinned = values && { values: { ...values }, tensors: this.tensors };
    const shares = this.pinned && this.shares(this.pinned.tensors);
    this.views.forEach((view, i) => (view.pinned = shares?.[i] ?? null));
    this.pinning.setAttribute("aria-pressed", String(Boolean(this.pinned)));
    this.modes.hidden = !this.pinned || !this.views.some((view) => "mode" in view);
    this.compare(MODES[0]);
  }

  /** What matrices show while a state is pinned: the present one, the pinned one, or their difference. */
  compare(mode) {
    MODES.forEach((name, i) => this.modes.children[i].setAttribute("aria-pressed", String(name === mode)));
    for (const view of this.views) {
      if ("mode" in view) view.mode = mode;
      if (view.tensors) view.draw(view.tensors);
    }
    const other = mode === "difference" && this.views.some((view) => view.mode && String(view.tensors[0].shape) !== String(view.pinned[0].shape));
    this.status.textContent = other ? "The matrices have other sizes, so they have no difference." : "";
    if (this.aimed) this.again();
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

  /** Probe a view at a place; others follow where one of their axes has the same name. */
  aim(from, place) {
    if (!this.tensors) return;
    this.aimed = place && { from, place };
    const names = place ? from.named(place) : {};
    for (const [view, probe] of this.probes) if (view.tensors) probe.show(view === from ? place : place && view.find(names));
  }

  /** After a move the same place has other values, or is gone. */
  again() {
    const { from, place } = this.aimed;
    this.aim(from, from.step(place, 0, 0));
  }

  /** Of these tensors, those of each view. */
  shares(tensors) {
    let at = 0;
    return this.views.map((view) => tensors.slice(at, (at += view.takes)));
  }

  busy(yes) {
    this.body.setAttribute("aria-busy", String(yes));
    this.status.textContent = yes ? "computing…" : "";
  }

  loading(fraction) {
    this.progress.hidden = fraction === null;
    if (fraction === null) return;
    if (Number.isFinite(fraction)) this.progress.value = fraction;
    else this.progress.removeAttribute("value");
  }

  complain(message) {
    this.message.hidden = !message;
    this.message.textContent = message ?? "";
  }

  show(tensors, values, others = null) {
    let bad = 0;
    for (const { data } of tensors) for (let i = 0; i < data.length; i++) if (data[i] !== data[i]) bad++;
    this.complain(bad ? `${format(bad)} of these numbers ${bad > 1 ? "are" : "is"} not a number (NaN) and left blank.` : null);
    const [mine, theirs] = [this.shares(tensors), others && this.shares(others)];
    this.views.forEach((view, i) => {
      view.values = values;
      if (theirs) this.sides(view, mine[i], theirs[i], values);
      view.update(mine[i]);
    });
    this.tensors = tensors;
    this.shown = values;
    if (this.aimed) this.again();
    this.root.classList.add("pe-live");
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: values }));
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => this.speak(), 600);
    if (this.data.open) this.tabulate();
  }

  /** Show both sides of a comparison: matrices and planes beside each other, lines and numbers together. */
  sides(view, mine, theirs, values) {
    const { compare, controls } = this.spec;
    const { labels } = controls.find(({ name }) => name === compare);
    const names = [labels[values[compare]], labels[this.other]];
    const titles = { A: names[0], B: names[1], "B − A": `${names[1]} − ${names[0]}` };
    view.beside = { tensors: theirs, names };
    const matrix = view.spec.kind === "heatmap" && !view.parts;
    const scale = matrix && !view.spec.limits ? both(view, mine, theirs) : null;
    for (const each of this.all.filter(({ main }) => main === view)) {
      if (each.side) each.head.textContent = [view.spec.title, titles[each.side]].filter(Boolean).join(": ");
      if (each.side !== "B − A") each.given = scale;
      if (each === view) continue;
      each.values = { ...values, [compare]: this.other };
      if (each.side === "B − A") Object.assign(each, { mode: "difference", pinned: mine });
      each.update(theirs);
    }
  }

  /** One sentence for each view, said once the reader has paused. */
  speak() {
    for (const view of this.all) view.describe();
    this.spoken.textContent = this.all.map((view) => view.summary(view.tensors)).filter(Boolean).join(" ");
  }

  tabulate() {
    if (!this.data.open || !this.tensors) return;
    const save = element("button", { type: "button", class: "pe-button", onclick: () => download(this.all, this.spec.name) }, "Download all as CSV");
    this.data.replaceChildren(this.data.firstChild, ...tables(this.all, this.spec.title), save);
  }

  async copyLink() {
    const address = location.href.replace(/#.*$/, "") + toHash(this.root.id, this.spec.controls, this.values, this.kept());
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      this.status.textContent = "The link to this state is on the clipboard.";
    } catch {
      this.status.textContent = "The link to this state is now in the address bar.";
    }
  }

  /** The other state of a link: the pinned one, or that of the other side. */
  kept() {
    const { compare } = this.spec;
    return compare ? { ...this.values, [compare]: this.other } : this.pinned?.values;
  }

  destroy() {
    this.gone = true;
    this.latest.end();
    panels.delete(this);
    if (this.resized) this.root.removeEventListener("fullscreenchange", this.resized);
    this.stop();
    this.watch.disconnect();
    clearTimeout(this.speaking);
    clearTimeout(this.fading);
    this.body.remove();
  }
}

/** The names of what a formula shows. */
const placesOf = ([, { place }, children]) => [place, ...children.filter(Array.isArray).flatMap(placesOf)].filter(Boolean);

/** One scale for two matrices. */
function both(view, [a], [b]) {
  const ends = [a, b].map(({ data }) => view.limits(data));
  return [Math.min(ends[0][0], ends[1][0]), Math.max(ends[0][1], ends[1][1])];
}
