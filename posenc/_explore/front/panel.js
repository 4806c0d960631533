// The panel: controls, views, messages. What computes is an engine: the kernel's (widget.js) or the page's (page.js).

import { element } from "./dom.js";
import { format, parse, stepOf, steps, toHash, valueAt } from "./scale.js";
import { makeView } from "./views/index.js";
import { Probe } from "./views/probe.js";

/** The key of the graph for the present choices. */
export const variant = (controls, values) =>
  controls.filter(({ kind }) => kind !== "slider").map(({ name }) => Number(values[name])).join(",");

const LEAST = { plane: 260, readout: 0 }; // pixels that a view needs beside another; others need 300
const GAP = 20;
const MODES = ["now", "pinned", "difference"];
const GLIDE = 600;
const FADE = 1400; // milliseconds
let count = 0;

/**
 * An engine has `compute(values) -> Promise<tensors>`, and may have `changed(values)`, told of every move.
 * Only the newest values are ever computed: while one computation runs, later moves overwrite each other.
 */
export class Panel {
  constructor(root, spec, engine) {
    this.root = root;
    this.spec = spec;
    this.engine = engine;
    this.id = `pe-${++count}`;
    this.values = { ...spec.values };
    this.starts = { ...spec.starts };
    this.setters = {};
    this.hosts = {};
    this.running = false;
    this.wanted = null;
    this.build();
  }

  build() {
    const { spec } = this;
    this.title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    this.status = element("p", { class: "pe-status", role: "status" });
    this.progress = element("progress", { class: "pe-progress", max: 1, "aria-label": "loading the runtime", hidden: true });
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true });
    this.controls = element("div", { class: "pe-controls" }, ...spec.controls.map((c) => this.control(c)));
    const presets = spec.presets.map((preset) =>
      element("button", { type: "button", class: "pe-button pe-preset", onclick: () => this.set(preset.values) }, preset.label),
    );
    this.presets = presets;
    this.pinning = element("button", { type: "button", class: "pe-button", "aria-pressed": "false", onclick: () => this.pin() }, "Pin");
    this.modes = element("span", { class: "pe-modes", role: "group", "aria-label": "what the matrices show", hidden: true },
      ...MODES.map((mode) => element("button", { type: "button", class: "pe-button", onclick: () => this.compare(mode) }, mode)));
    this.actions = element(
      "div",
      { class: "pe-actions" },
      ...(presets.length ? [element("span", { class: "pe-presets", role: "group", "aria-label": "presets" }, ...presets)] : []),
      element("button", { type: "button", class: "pe-button", onclick: () => this.set(this.starts) }, "Reset"),
      this.pinning,
      this.modes,
    );
    if (document.fullscreenEnabled) {
      this.actions.append(element("button", { type: "button", class: "pe-button", onclick: () => this.enlarge() }, "Full screen"));
      this.resized = () => this.arranged();
      this.root.addEventListener("fullscreenchange", this.resized);
    }
    if (this.engine.link) {
      this.actions.append(element("button", { type: "button", class: "pe-button", onclick: () => this.copyLink() }, "Copy link"));
    }
    this.stages = element("div", { class: "pe-views" });
    this.views = spec.views.map((view) => {
      const host = element("div", { class: `pe-view pe-${view.kind}` });
      this.stages.append(host);
      return makeView(view, host);
    });
    this.probes = new Map();
    for (const view of this.views) if (view.frame) this.probes.set(view, new Probe(view, (from, place) => this.aim(from, place)));
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.caption = element("p", { class: "pe-caption", hidden: !spec.caption }, spec.caption);
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    this.actions.append(this.status);
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": `${this.id}-title` }, this.title, this.caption, this.controls, this.actions, this.message, this.progress, this.stages, this.spoken, this.data);
    this.root.append(this.body);
    for (const kind of ["pointerdown", "keydown"]) this.body.addEventListener(kind, () => this.stop(), { capture: true });
    this.watch = new ResizeObserver(() => {
      if (this.stages.clientWidth && this.stages.clientWidth !== this.width) this.arranged();
    });
    this.watch.observe(this.stages);
    this.mark();
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
    this.views.forEach((view) => view.resize());
  }

  /** Which views stand side by side: as many as have room, in sixty columns, whatever is left shared out. */
  arrange(width) {
    // On a phone the first picture stands above the controls, and stays in sight while one of them is held.
    const phone = matchMedia("(max-width: 560px)").matches;
    const first = this.views.find(({ spec }) => spec.kind !== "readout");
    this.body.classList.toggle("pe-phone", phone);
    const full = document.fullscreenElement === this.root;
    for (const view of this.views) {
      view.widest = full ? 1600 : 820;
      view.tallest = full ? Math.round(0.55 * innerHeight) : phone ? Math.min(330, Math.round(0.3 * innerHeight)) : 380;
    }
    if (phone && first && first.host.parentNode !== this.body) this.body.insertBefore(first.host, this.controls);
    if (!phone && first?.host.parentNode === this.body) {
      this.stages.insertBefore(first.host, this.stages.children[this.views.indexOf(first)]);
    }
    const rows = [];
    let room = 0;
    for (const view of this.views) {
      const least = LEAST[view.spec.kind] ?? 300;
      if (!rows.length || least > room || view.spec.kind === "readout") {
        rows.push([]);
        room = width + GAP;
      }
      rows.at(-1).push([view, least]);
      room = view.spec.kind === "readout" ? 0 : room - least - GAP;
    }
    for (const row of rows) {
      const all = row.reduce((sum, [, least]) => sum + least, 0) || 1;
      const airy = row.some(([view]) => view.spec.y);
      let left = 60;
      row.forEach(([view, least], i) => {
        const span = i === row.length - 1 ? left : Math.round((60 * least) / all);
        left -= span;
        view.airy = airy;
        view.host.style.setProperty("--pe-span", span);
        view.host.classList.toggle("pe-last", i === row.length - 1);
      });
    }
  }

  control(control) {
    const id = `${this.id}-${control.name}`;
    const label = element("label", { for: id }, control.label);
    if (control.unit) label.append(element("span", { class: "pe-unit" }, ` ${control.unit}`));
    if (control.kind === "tick") {
      const box = element("input", { type: "checkbox", id, onchange: () => this.set({ [control.name]: box.checked }) });
      this.setters[control.name] = (value) => (box.checked = value);
      box.checked = this.values[control.name];
      return element("div", { class: "pe-control pe-tick" }, box, label);
    }
    if (control.kind === "choice") {
      const select = element("select", { id, onchange: () => this.set({ [control.name]: Number(select.value) }) },
        ...control.labels.map((text, i) => element("option", { value: i }, text)));
      this.setters[control.name] = (value) => (select.value = String(value));
      select.value = String(this.values[control.name]);
      return element("div", { class: "pe-control" }, label, select);
    }
    const range = element("input", { type: "range", id, min: 0, max: steps(control), step: 1,
      oninput: () => this.set({ [control.name]: valueAt(control, Number(range.value)) }) });
    const field = element("input", { type: "text", inputmode: "decimal", class: "pe-field", "aria-label": `${control.label}, exact value`, spellcheck: "false", autocomplete: "off" });
    const commit = () => {
      try {
        this.complain(null);
        this.set({ [control.name]: parse(control, field.value) });
      } catch (error) {
        this.complain(error.message);
      }
      show(this.values[control.name]);
    };
    field.addEventListener("change", commit);
    field.addEventListener("keydown", (e) => e.key === "Enter" && commit()); // some hosts swallow Enter's change
    const show = (value) => {
      range.value = String(stepOf(control, value));
      range.setAttribute("aria-valuetext", format(value));
      range.style.setProperty("--pe-filled", `${(100 * Number(range.value)) / (Number(range.max) || 1)}%`);
      field.value = format(value);
    };
    this.setters[control.name] = show;
    show(this.values[control.name]);
    return (this.hosts[control.name] = element("div", { class: "pe-control pe-slider" }, label, field, range));
  }

  /** Move controls, and tell the engine unless it was the engine that moved them. */
  set(values, tell = true) {
    this.remember();
    for (const [name, value] of Object.entries(values)) {
      if (!(name in this.values)) continue;
      this.values[name] = value;
      this.setters[name](value);
    }
    if (tell) this.engine.changed?.(values);
    this.mark();
    this.request();
  }

  /** Say which preset is on, and, after a choice, which sliders do nothing in this state. */
  mark() {
    const { spec, values } = this;
    this.presets.forEach((button, i) => {
      const on = Object.entries(spec.presets[i].values).every(([name, value]) => values[name] === value);
      button.setAttribute("aria-pressed", String(on));
    });
    const key = variant(spec.controls, values);
    const used = spec.used?.[key];
    if (!used || key === this.marked) return; // in a notebook nothing is known of the function
    this.marked = key;
    for (const { name, kind } of spec.controls) {
      if (kind !== "slider") continue;
      const idle = !used.includes(name);
      const host = this.hosts[name];
      host.classList.toggle("pe-idle", idle);
      host.title = idle ? "does nothing in this state" : "";
      for (const input of host.querySelectorAll("input")) input.disabled = idle;
    }
  }

  request() {
    this.wanted = { ...this.values };
    if (!this.running) return this.next();
  }

  async next() {
    this.running = true;
    while (this.wanted) {
      const values = this.wanted;
      this.wanted = null;
      const late = setTimeout(() => this.busy(true), 120);
      try {
        const tensors = await this.engine.compute(values);
        if (!this.gone) this.show(tensors, values);
      } catch (error) {
        if (!this.gone) this.complain(error.message ?? String(error));
      } finally {
        clearTimeout(late);
        this.busy(false);
      }
    }
    this.running = false;
  }

  /** Move sliders to their values before the reader's eyes, and set the rest at once; any other move ends it. */
  glide(values) {
    this.stop();
    const sliders = this.spec.controls.filter(({ name, kind }) => kind === "slider" && name in values && values[name] !== this.values[name]);
    const rest = Object.fromEntries(Object.entries(values).filter(([name]) => !sliders.some((slider) => slider.name === name)));
    if (!sliders.length || Object.keys(rest).length) this.set(rest);
    if (!sliders.length) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) return this.set(values);
    const from = sliders.map((slider) => stepOf(slider, this.values[slider.name]));
    const to = sliders.map((slider) => stepOf(slider, values[slider.name]));
    const begin = performance.now();
    const step = (now) => {
      const share = Math.min(1, (now - begin) / GLIDE);
      const eased = share * share * (3 - 2 * share);
      if (share === 1) return this.set(values); // exactly, also between two steps
      const here = sliders.map((slider, i) => [slider.name, valueAt(slider, Math.round(from[i] + (to[i] - from[i]) * eased))]);
      this.set(Object.fromEntries(here));
      this.gliding = requestAnimationFrame(step);
    };
    this.gliding = requestAnimationFrame(step);
  }

  stop() {
    cancelAnimationFrame(this.gliding);
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
    for (const [view, probe] of this.probes) probe.show(view === from ? place : place && view.find(names));
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

  show(tensors, values) {
    let bad = 0;
    for (const { data } of tensors) for (let i = 0; i < data.length; i++) if (data[i] !== data[i]) bad++;
    this.complain(bad ? `${format(bad)} of these numbers ${bad > 1 ? "are" : "is"} not a number (NaN) and left blank.` : null);
    this.shares(tensors).forEach((share, i) => this.views[i].update(share));
    this.tensors = tensors;
    this.shown = values;
    if (this.aimed) this.again();
    this.root.classList.add("pe-live");
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: values }));
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => this.speak(), 600);
    if (this.data.open) this.tabulate();
  }

  /** One sentence for each view, said once the reader has paused. */
  speak() {
    for (const view of this.views) view.describe();
    this.spoken.textContent = this.views.map((view) => view.summary(view.tensors)).join(" ");
  }

  tabulate() {
    if (!this.data.open || !this.tensors) return;
    const most = { rows: 64, columns: 16 };
    const tables = this.views.map((view, number) => {
      const { head, rows, size: [long, wide] } = view.table(view.tensors, most);
      const cut = long > most.rows || wide > most.columns;
      const cell = (v) => (typeof v === "number" ? format(v) : String(v));
      const table = element("table", {},
        element("caption", {}, `${view.spec.title || this.spec.title}${cut ? `, the first ${rows.length} of ${format(long)} rows and ${Math.min(wide, most.columns)} of ${format(wide)} columns` : ""}`),
        element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col" }, cell(h))))),
        element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((v, i) => (i ? element("td", {}, cell(v)) : element("th", { scope: "row" }, cell(v))))))));
      return element("div", { class: "pe-scroll", tabindex: 0, role: "region", "aria-label": `numbers of picture ${number + 1}, ${this.spec.title}` }, table);
    });
    const save = element("button", { type: "button", class: "pe-button", onclick: () => this.save() }, "Download all as CSV");
    this.data.replaceChildren(this.data.firstChild, ...tables, save);
  }

  save() {
    const text = this.views.map((view) => {
      const { head, rows } = view.table(view.tensors);
      return [head, ...rows].map((row) => row.map((v) => (typeof v === "string" ? `"${v.replaceAll('"', '""')}"` : v)).join(",")).join("\n");
    });
    const link = element("a", { href: URL.createObjectURL(new Blob([text.join("\n\n")], { type: "text/csv" })), download: `${this.spec.name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  async copyLink() {
    const address = location.href.replace(/#.*$/, "") + toHash(this.root.id, this.spec.controls, this.values, this.pinned?.values);
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      this.status.textContent = "The link to this state is on the clipboard.";
    } catch {
      this.status.textContent = "The link to this state is now in the address bar.";
    }
  }

  destroy() {
    this.gone = true;
    if (this.resized) this.root.removeEventListener("fullscreenchange", this.resized);
    this.stop();
    this.watch.disconnect();
    clearTimeout(this.speaking);
    clearTimeout(this.fading);
    this.body.remove();
  }
}
