// @ts-check
// The panel of a dump: a reader drops a file, or takes a sample, and reads which rotation it holds.

import { decode, element, unique, write } from "../dom.js";
import { LARGEST } from "./files.js";
import { channels, frequencies } from "./picture.js";
import { number } from "./said.js";

/** @import { Rotation } from "./identify.js" */
/** @import { Answer, DumpSpec, Opened, Reader } from "./types" */
/** @typedef {"before" | "after" | "positions"} Role */

const ROLES = /** @type {const} */ (["before", "after", "positions"]);
const NAMED = { before: "q or k before", after: "the same after", positions: "positions" };
const HEADS = [["", "recognised"], ["first", "heads first: (B, H, L, d)"], ["last", "tokens first: (B, L, H, d)"]];

export class Dumps {
  /** @type {string} of the file that is open */
  file = "";
  /** @type {Opened | null} */
  opened = null;
  /** @type {Answer | null} */
  answer = null;
  turn = 0; // files are asked one after another; only the last one's answer is shown

  /** @param {HTMLElement} root @param {DumpSpec} spec @param {Reader} reader */
  constructor(root, spec, reader) {
    this.root = root;
    this.spec = spec;
    this.reader = reader;
    const heads = element("select", { id: unique("heads") }, ...HEADS.map(([value, text]) => element("option", { value }, text)));
    this.heads = heads;
    this.selects = /** @type {Record<Role, HTMLSelectElement>} */ (Object.fromEntries(ROLES.map((role) => [role, element("select", { id: unique(role) })])));
    this.chosen = element("input", { type: "file", class: "pe-spoken", accept: ".npz,.safetensors", id: unique("file"), onchange: () => this.take(this.chosen.files?.[0]) });
    this.samples = spec.samples.map((sample, i) =>
      element("button", { type: "button", class: "pe-button", "aria-pressed": String(i === 0), onclick: () => this.sample(i) }, sample.title));
    this.names = element("p", { class: "pe-held" });
    this.which = element("details", { class: "pe-which" },
      element("summary", {}, "Which array is what, and in which order"),
      element("div", { class: "pe-controls" },
        ...ROLES.map((role) => element("div", { class: "pe-control" }, element("label", { for: this.selects[role].id }, NAMED[role]), this.selects[role])),
        element("div", { class: "pe-control" }, element("label", { for: heads.id }, "order of axes"), heads)));
    for (const select of [...Object.values(this.selects), heads]) select.addEventListener("change", () => this.ask());
    this.message = element("p", { class: "pe-message", hidden: true });
    this.status = element("span", { class: "pe-status", role: "status" });
    this.found = element("div", { class: "pe-found", role: "region", "aria-label": "What the dump holds" });
    this.drop = element("div", { class: "pe-drop" },
      element("label", { class: "pe-button pe-go", for: this.chosen.id }, "Choose a dump…"), this.chosen,
      element("span", {}, "or drop a .npz or .safetensors on this panel. It is read here and sent nowhere."));
    root.append(
      element("div", { class: "pe-head" }, element("div", { class: "pe-title" }, spec.title)),
      element("p", { class: "pe-caption" }, spec.caption),
      this.drop,
      element("div", { class: "pe-actions" },
        element("div", { class: "pe-presets", role: "group", "aria-label": "sample dumps" }, element("span", {}, "Samples:"), ...this.samples), this.status),
      this.names, this.which, this.message, this.found);
    root.addEventListener("dragover", (event) => {
      event.preventDefault();
      root.classList.add("pe-over");
    });
    root.addEventListener("dragleave", (event) => {
      if (!root.contains(/** @type {Node | null} */ (event.relatedTarget))) root.classList.remove("pe-over");
    });
    root.addEventListener("drop", (event) => {
      event.preventDefault();
      root.classList.remove("pe-over");
      this.take(event.dataTransfer?.files[0]);
    });
    const [first] = spec.samples;
    if (first) this.hold(first.name, { arrays: spec.shown.arrays, before: "before", after: "after", positions: "positions" });
    if (first) this.show(spec.shown);
    root.classList.add("pe-open", "pe-live");
  }

  /** @param {number} i */
  sample(i) {
    const { name, bytes, title } = this.spec.samples[i];
    this.read(name, async () => decode(bytes), title);
    this.press(i);
  }

  /** @param {number} chosen */
  press(chosen) {
    for (const [k, button] of this.samples.entries()) button.setAttribute("aria-pressed", String(k === chosen));
  }

  /** @param {File | undefined} file */
  take(file) {
    if (!file) return;
    this.chosen.value = ""; // so that the same file, changed, can be chosen again
    this.press(-1);
    const large = file.size > LARGEST;
    this.read(file.name, async () => {
      if (large) throw new Error(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MiB, and a page reads ${LARGEST / 2 ** 20} at most: dump one layer and some hundred positions`);
      return new Uint8Array(await file.arrayBuffer());
    });
  }

  /** @type {(name: string, bytes: () => Promise<Uint8Array<ArrayBuffer>>, title?: string) => Promise<void>} */
  async read(name, bytes, title = name) {
    const turn = ++this.turn;
    write(this.status, `reading ${title} …`);
    this.heads.value = "";
    try {
      const opened = await this.reader.open(name, await bytes());
      if (turn !== this.turn) return;
      this.hold(name, opened);
    } catch (error) {
      if (turn === this.turn) this.refuse(name, error.message);
      return;
    }
    await this.ask();
  }

  /** @type {(name: string, opened: Opened) => void} */
  hold(name, opened) {
    this.file = name;
    this.opened = opened;
    write(this.names, `${name}: ${opened.arrays.map(({ name, dtype, shape }) => `${name} ${dtype} (${shape.join(", ")})`).join("; ")}`);
    for (const role of ROLES) {
      this.selects[role].replaceChildren(element("option", { value: "" }, "choose…"), ...opened.arrays.map(({ name }) => element("option", { value: name }, name)));
      this.selects[role].value = opened[role];
    }
  }

  async ask() {
    if (!this.opened) return;
    const names = /** @type {[string, string, string]} */ (ROLES.map((role) => this.selects[role].value));
    const missing = ROLES.filter((_, i) => !names[i]);
    if (missing.length) {
      const all = this.opened.arrays.map(({ name }) => name).join(", ");
      this.which.open = true;
      this.refuse(this.file, `${this.file} has ${all}, and none with a name that says ${missing.map((role) => `which is ${NAMED[role]}`).join(" and ")}: choose above`);
      this.selects[missing[0]].focus();
      return;
    }
    const turn = ++this.turn;
    write(this.status, `asking ${this.file} …`);
    try {
      const answer = await this.reader.ask(names, this.heads.value);
      if (turn === this.turn) this.show(answer);
    } catch (error) {
      if (turn !== this.turn) return;
      this.refuse(this.file, error.message);
      if (/heads="first"/.test(error.message)) {
        this.which.open = true;
        this.heads.focus();
      }
    }
  }

  /** @type {(name: string, text: string) => void} */
  refuse(name, text) {
    this.answer = null;
    write(this.status, `${name}: no rotation was named`);
    write(this.message, text.endsWith(".") ? text : `${text}.`);
    this.message.hidden = false;
    this.found.replaceChildren();
  }

  /** @param {Answer} answer */
  show(answer) {
    this.answer = answer;
    const { found, said } = answer;
    this.message.hidden = true;
    const head = `${found.layout}, base ${found.base === null ? "unknown" : number(found.base)}`;
    write(this.status, this.turn ? `${this.file} read: ${head}` : "");
    this.found.replaceChildren(
      element("div", { class: "pe-drawn" },
        element("div", {}, element("p", { class: "pe-view-title" }, "which channels turn together"), channels(found)),
        element("div", {}, element("p", { class: "pe-view-title" }, "frequencies (dashed: the base alone)"), frequencies(found))),
      element("dl", { class: "pe-fields" }, ...fields(found).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
      ...said.map((sentence) => element("p", { class: "pe-said" }, sentence)));
  }
}

/** An interval beside a number, if it is wider than what is taken for exact. @type {(found: Rotation, name: string) => string} */
function interval(found, name) {
  const between = found.intervals[name];
  if (!between) return "";
  const [low, high] = between;
  const open = high === null || high === Infinity; // JSON has no infinity
  if (!open && high / Math.max(low, 1e-300) < 1.002) return "";
  return ` (${number(round(low))} to ${open ? "any" : number(round(high))})`;
}
const round = (/** @type {number} */ x) => Number(x.toPrecision(4));

/** @param {Rotation} found @returns {[string, string][]} */
function fields(found) {
  const { layout, pairs, dim, rotary_dim: dims, base, scaling, factor, trained, offset, direction, amplitude, rounding, rounded, residual } = found;
  const unknown = "not identifiable";
  return [
    ["layout", layout],
    ["pairs that turn", `${pairs.length} of ${Math.floor(dim / 2)}`],
    ["rotary_dim", `${dims}${interval(found, "rotary_dim")}`],
    ["base", base === null ? unknown : number(base) + interval(found, "base")],
    ["scaling", scaling],
    ["factor", factor === null ? unknown : scaling === "none" ? `1${interval(found, "factor") && " in the planes seen"}` : number(factor) + interval(found, "factor")],
    ["length in training", trained ? number(trained) + interval(found, "trained") : scaling === "none" ? "–" : unknown],
    ["offset", number(round(offset))],
    ["direction", ["−1, the other way", "differs by plane", "1, the usual"][direction + 1]],
    ["amplitude", number(round(amplitude))],
    ["rounding", rounding + (rounded && ` (${rounded})`)],
    ["residual", residual.toExponential(0).replace("e-", " · 10⁻").replace(/(?<=⁻)\d+/, (n) => [...n].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]).join(""))],
  ];
}
