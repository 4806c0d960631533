// @ts-check
// The panel of a dump: a reader drops a file, or takes a sample, and reads which rotation or bias it holds.

import { decode, element, unique, write } from "../dom.js";
import { LARGEST } from "./files.js";
import { channels, costs, frequencies, window_ } from "./picture.js";
import { number } from "./said.js";

/** @import { Bias } from "./biases.js" */
/** @import { Rotation } from "./identify.js" */
/** @import { Answer, DumpSpec, Kind, Opened, Reader } from "./types" */

/** What a dump may hold: in words, and the names of its arrays. @type {Record<Kind, [string, string[]]>} */
const KINDS = {
  rotation: ["q or k around a rotation", ["q or k before", "the same after", "positions"]],
  scores: ["scores around a bias", ["scores before", "scores after"]],
  bias: ["a bias or a mask", ["bias or mask"]],
};
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
    this.kinds = element("select", { id: unique("kind"), onchange: () => this.turnTo(/** @type {Kind} */ (this.kinds.value)) },
      ...Object.entries(KINDS).map(([value, [text]]) => element("option", { value }, text)));
    this.roles = KINDS.rotation[1].map(() => {
      const select = element("select", { id: unique("array"), onchange: () => this.ask() });
      const label = element("label", { for: select.id }, "");
      return { select, label, whole: element("div", { class: "pe-control" }, label, select) };
    });
    this.chosen = element("input", { type: "file", class: "pe-spoken", accept: ".npz,.safetensors", id: unique("file"), onchange: () => this.take(this.chosen.files?.[0]) });
    this.samples = spec.samples.map((sample, i) =>
      element("button", { type: "button", class: "pe-button", "aria-pressed": String(i === 0), onclick: () => this.sample(i) }, sample.title));
    this.names = element("p", { class: "pe-held" });
    this.order = element("div", { class: "pe-control" }, element("label", { for: heads.id }, "order of axes"), heads);
    this.which = element("details", { class: "pe-which" },
      element("summary", {}, "Which array is what, and in which order"),
      element("div", { class: "pe-controls" },
        element("div", { class: "pe-control" }, element("label", { for: this.kinds.id }, "what the file holds"), this.kinds),
        ...this.roles.map(({ whole }) => whole), this.order));
    heads.addEventListener("change", () => this.ask());
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
    if (first) this.hold(first.name, spec.shown.opened);
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
    this.arrange(opened.kind, opened.names);
  }

  /** The arrays that a kind of dump takes, to be chosen. @type {(kind: Kind, names: string[]) => void} */
  arrange(kind, names) {
    const [, words] = KINDS[kind];
    this.kinds.value = kind;
    for (const [i, { select, label, whole }] of this.roles.entries()) {
      whole.hidden = i >= words.length;
      write(label, words[i] ?? "");
      select.replaceChildren(element("option", { value: "" }, "choose…"), ...(this.opened?.arrays ?? []).map(({ name }) => element("option", { value: name }, name)));
      select.value = names[i] ?? "";
    }
    this.order.hidden = kind !== "rotation";
  }

  /** @param {Kind} kind */
  turnTo(kind) {
    const only = this.opened?.arrays.length === KINDS[kind][1].length ? this.opened.arrays.map(({ name }) => name) : [];
    this.arrange(kind, kind === this.opened?.kind ? this.opened.names : only);
    this.ask();
  }

  async ask() {
    if (!this.opened) return;
    const kind = /** @type {Kind} */ (this.kinds.value);
    const [, words] = KINDS[kind];
    const names = words.map((_, i) => this.roles[i].select.value);
    const missing = words.filter((_, i) => !names[i]);
    if (missing.length) {
      const all = this.opened.arrays.map(({ name }) => name).join(", ");
      this.which.open = true;
      this.refuse(this.file, `${this.file} has ${all}, and none with a name that says ${missing.map((word) => `which is ${word}`).join(" and ")}: choose above`);
      this.roles[words.indexOf(missing[0])].select.focus();
      return;
    }
    const turn = ++this.turn;
    write(this.status, `asking ${this.file} …`);
    try {
      const answer = await this.reader.ask(kind, names, this.heads.value);
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
    write(this.status, `${name}: nothing was named`);
    write(this.message, text.endsWith(".") ? text : `${text}.`);
    this.message.hidden = false;
    this.found.replaceChildren();
  }

  /** @param {Answer} answer */
  show(answer) {
    this.answer = answer;
    this.message.hidden = true;
    const [head, pictures, rows] = answer.curve ? ofBias(answer.found, answer.curve) : ofRotation(answer.found);
    write(this.status, this.turn ? `${this.file} read: ${head}` : "");
    this.found.replaceChildren(
      element("div", { class: "pe-drawn" }, ...pictures.map(([title, drawn]) => element("div", {}, element("p", { class: "pe-view-title" }, title), drawn))),
      element("dl", { class: "pe-fields" }, ...rows.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
      ...answer.said.map((sentence) => element("p", { class: "pe-said" }, sentence)));
  }
}

/** An answer in short, its pictures with their titles, and its fields. @typedef {[string, [string, SVGElement][], [string, string][]]} Shown */

/** @param {Rotation} found @returns {Shown} */
function ofRotation(found) {
  const head = `${found.layout}, base ${found.base === null ? "unknown" : number(found.base)}`;
  return [head, [["which channels turn together", channels(found)], ["frequencies (dashed: the base alone)", frequencies(found)]], fields(found)];
}

/** @type {(found: Bias, curve: import("./biases.js").Curve) => Shown} */
function ofBias(found, curve) {
  const { kind, heads, back, ahead, width } = found;
  const bare = width !== null ? `a window of ${width} keys` : ahead === 0 && back === null ? "a causal mask" : SCHEMES.none;
  const seen = /** @type {[string, SVGElement]} */ (["which keys a query sees (blue: its own)", window_(found)]);
  const title = `what a distance costs, in logits${heads > 1 ? " (orange: head 0)" : ""}`;
  return kind === "none" ? [bare, [seen], fieldsOfBias(found)] : [SCHEMES[kind], [[title, costs(found, curve)], seen], fieldsOfBias(found)];
}

/** @type {Record<string, string>} */
const SCHEMES = { alibi: "ALiBi", t5: "T5's bias", none: "no bias", distance: "another function of the distance", unknown: "more than the distance" };

/** @param {Bias} found @returns {[string, string][]} */
function fieldsOfBias({ kind, heads, slopes, rule, sign, symmetric, buckets, reach, back, ahead, chunk, residual, intervals }) {
  const side = (/** @type {number | null} */ keys) => (keys === null ? "all" : String(keys));
  const some = (/** @type {number[]} */ values) => values.slice(0, 4).map((x) => number(round(x))).join(", ") + (values.length > 4 ? ", …" : "");
  const [low, high] = intervals.reach ?? [0, 0];
  const alibi = [["slopes", some(slopes)], ["rule", rule], ["sign", sign > 0 ? "1, near keys are favoured" : "−1, far keys are favoured"]];
  const t5 = [["buckets", `${buckets} over ${symmetric ? "both sides" : "the past"}`], ["max_distance", `${reach}${low === high ? "" : ` (${low} to ${high})`}`]];
  const rows = [
    ["scheme", SCHEMES[kind]], ["heads", String(heads)], ...(kind === "alibi" ? alibi : kind === "t5" ? t5 : []),
    ["keys behind", side(back)], ["keys ahead", side(ahead)], ...(chunk === null ? [] : [["chunks", String(chunk)]]), ["residual", small(residual)],
  ];
  return /** @type {[string, string][]} */ (rows);
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
/** A small number as a power of ten. @param {number} x */
const small = (x) => (x === 0 || x >= 1 ? number(round(x)) : x.toExponential(0).replace("e-", " · 10⁻").replace(/(?<=⁻)\d+/, (n) => [...n].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]).join("")));

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
    ["residual", small(residual)],
  ];
}
