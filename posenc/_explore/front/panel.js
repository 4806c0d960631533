// The panel: controls, views, messages. What computes is an engine: the kernel's (widget.js) or the page's (page.js).

import { format, parse, stepOf, steps, toHash, valueAt } from "./scale.js";
import { makeView } from "./views.js";

let count = 0;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

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
    this.starts = { ...spec.values };
    this.setters = {};
    this.running = false;
    this.wanted = null;
    this.frames = []; // milliseconds from an input event to its painted frame, for tests and the bench
    this.computed = 0;
    this.build();
  }

  build() {
    const { spec } = this;
    this.title = element("div", { class: "pe-title", id: `${this.id}-title` }, spec.title);
    this.status = element("p", { class: "pe-status", role: "status" });
    this.progress = element("progress", { class: "pe-progress", max: 1, "aria-label": "loading the runtime", hidden: true });
    this.message = element("p", { class: "pe-message", role: "alert", hidden: true });
    const controls = element("div", { class: "pe-controls" }, ...spec.controls.map((c) => this.control(c)));
    const presets = spec.presets.map((preset) =>
      element("button", { type: "button", class: "pe-button pe-preset", onclick: (e) => this.set(preset.values, e) }, preset.label),
    );
    this.actions = element(
      "div",
      { class: "pe-actions" },
      ...(presets.length ? [element("span", { class: "pe-presets", role: "group", "aria-label": "presets" }, ...presets)] : []),
      element("button", { type: "button", class: "pe-button", onclick: (e) => this.set(this.starts, e) }, "Reset"),
    );
    if (this.engine.link) {
      this.actions.append(element("button", { type: "button", class: "pe-button", onclick: () => this.copyLink() }, "Copy link"));
    }
    this.stages = element("div", { class: "pe-views", "data-count": spec.views.length });
    this.views = spec.views.map((view) => {
      const host = element("div", { class: `pe-view pe-${view.kind}` });
      this.stages.append(host);
      return makeView(view, host);
    });
    this.spoken = element("p", { class: "pe-spoken", "aria-live": "polite" });
    this.data = element("details", { class: "pe-table", ontoggle: () => this.tabulate() }, element("summary", {}, "Numbers"));
    this.body = element("div", { class: "pe-body", role: "group", "aria-labelledby": `${this.id}-title` }, this.title, controls, this.actions, this.message, this.progress, this.status, this.stages, this.spoken, this.data);
    this.root.append(this.body);
    this.watch = new ResizeObserver(() => {
      const width = this.stages.clientWidth;
      if (width && width !== this.width) {
        this.width = width;
        this.views.forEach((view) => view.resize());
      }
    });
    this.watch.observe(this.stages);
  }

  control(control) {
    const id = `${this.id}-${control.name}`;
    const label = element("label", { for: id }, control.label);
    if (control.kind === "tick") {
      const box = element("input", { type: "checkbox", id, onchange: (e) => this.set({ [control.name]: box.checked }, e) });
      this.setters[control.name] = (value) => (box.checked = value);
      box.checked = this.values[control.name];
      return element("div", { class: "pe-control pe-tick" }, box, label);
    }
    if (control.kind === "choice") {
      const select = element("select", { id, onchange: (e) => this.set({ [control.name]: Number(select.value) }, e) },
        ...control.labels.map((text, i) => element("option", { value: i }, text)));
      this.setters[control.name] = (value) => (select.value = String(value));
      select.value = String(this.values[control.name]);
      return element("div", { class: "pe-control" }, label, select);
    }
    const range = element("input", { type: "range", id, min: 0, max: steps(control), step: 1,
      oninput: (e) => this.set({ [control.name]: valueAt(control, Number(range.value)) }, e) });
    const field = element("input", { type: "text", inputmode: "decimal", class: "pe-field", "aria-label": `${control.label}, exact value`, spellcheck: "false", autocomplete: "off" });
    const commit = (e) => {
      try {
        this.complain(null);
        this.set({ [control.name]: parse(control, field.value) }, e);
      } catch (error) {
        this.complain(error.message);
      }
      show(this.values[control.name]);
    };
    field.addEventListener("change", commit);
    field.addEventListener("keydown", (e) => e.key === "Enter" && commit(e)); // some hosts swallow Enter's change
    const show = (value) => {
      range.value = String(stepOf(control, value));
      range.setAttribute("aria-valuetext", format(value));
      range.style.setProperty("--pe-filled", `${(100 * Number(range.value)) / (Number(range.max) || 1)}%`);
      field.value = format(value);
    };
    this.setters[control.name] = show;
    show(this.values[control.name]);
    return element("div", { class: "pe-control pe-slider" }, label, field, range);
  }

  /** Move controls; `event` is what moved them, its time counts until the frame is painted. */
  set(values, event, tell = true) {
    for (const [name, value] of Object.entries(values)) {
      if (!(name in this.values)) continue;
      this.values[name] = value;
      this.setters[name](value);
    }
    if (tell) this.engine.changed?.(values);
    this.request(event?.timeStamp);
  }

  request(since) {
    this.wanted = { values: { ...this.values }, since };
    if (!this.running) return this.next();
  }

  async next() {
    this.running = true;
    while (this.wanted) {
      const { values, since } = this.wanted;
      this.wanted = null;
      const late = setTimeout(() => this.busy(true), 120);
      try {
        const tensors = await this.engine.compute(values);
        this.computed += 1;
        this.show(tensors, values);
        if (since !== undefined) this.measure(since);
      } catch (error) {
        this.complain(error.message ?? String(error));
      } finally {
        clearTimeout(late);
        this.busy(false);
      }
    }
    this.running = false;
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
    let at = 0;
    for (const view of this.views) {
      view.update(tensors.slice(at, at + view.takes));
      at += view.takes;
    }
    this.tensors = tensors;
    this.shown = values;
    this.root.classList.add("pe-live");
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: values }));
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => this.speak(), 600);
    if (this.data.open) this.tabulate();
  }

  /** One sentence for each view, said once the reader has paused. */
  speak() {
    this.spoken.textContent = this.views.map((view) => view.summary(view.tensors)).join(" ");
  }

  tabulate() {
    if (!this.data.open || !this.tensors) return;
    const most = { rows: 64, columns: 16 };
    const tables = this.views.map((view, number) => {
      const { head, rows } = view.table(view.tensors);
      const cut = rows.length > most.rows || head.length > most.columns + 1;
      const cell = (v) => (typeof v === "number" ? format(v) : String(v));
      const table = element("table", {},
        element("caption", {}, `${view.spec.title || this.spec.title}${cut ? `, the first ${Math.min(rows.length, most.rows)} of ${format(rows.length)} rows and ${Math.min(head.length - 1, most.columns)} of ${format(head.length - 1)} columns` : ""}`),
        element("thead", {}, element("tr", {}, ...head.slice(0, most.columns + 1).map((h) => element("th", { scope: "col" }, cell(h))))),
        element("tbody", {}, ...rows.slice(0, most.rows).map((row) => element("tr", {}, ...row.slice(0, most.columns + 1).map((v, i) => (i ? element("td", {}, cell(v)) : element("th", { scope: "row" }, cell(v))))))));
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
    const address = location.href.replace(/#.*$/, "") + toHash(this.root.id, this.spec.controls, this.values);
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      this.status.textContent = "The link to this state is on the clipboard.";
    } catch {
      this.status.textContent = "The link to this state is now in the address bar.";
    }
  }

  /** Time to paint: a frame callback runs before the paint, the task it posts runs after. */
  measure(since) {
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        this.frames.push(performance.now() - since);
        if (this.frames.length > 1000) this.frames.shift();
      };
      port2.postMessage(null);
    });
  }

  destroy() {
    this.watch.disconnect();
    clearTimeout(this.speaking);
    this.body.remove();
  }
}
