// @ts-check
// Where a control's thumb stands for a value, and how values are written: pure functions, tested in Node.

/** @import { Control, Range, Values } from "./types" */

export const PIN = "pin."; // before the name of a control, in an address
const PER_DECADE = 40;

/** The number of steps of a slider's thumb, from 0 at its minimum. @param {Range} control */
export function steps(control) {
  if (control.log) return Math.round(Math.log10(control.max / control.min) * PER_DECADE);
  return Math.floor((control.max - control.min) / control.step + 1e-9);
}

/**
 * The value at a thumb's step: the ends exactly, logarithmic ones to four digits, whole ones whole.
 * @type {(control: Range, step: number) => number}
 */
export function valueAt(control, step) {
  const last = steps(control);
  if (step <= 0) return control.min;
  if (control.log) {
    if (step >= last) return control.max;
    return Number((control.min * (control.max / control.min) ** (step / last)).toPrecision(4));
  }
  if (control.integer) return control.min + Math.min(step, last) * control.step;
  return step >= last && control.min + last * control.step > control.max - 1e-9 * control.step
    ? control.max
    : Number((control.min + step * control.step).toPrecision(9));
}

/** Values that a slider's thumb stands for: all, or some four hundred from end to end. @param {Range} control */
export function spread(control) {
  const last = steps(control);
  const stride = Math.max(1, Math.floor(last / 400));
  return Array.from({ length: Math.floor(last / stride) + 1 }, (_, i) => valueAt(control, i * stride)).concat(control.max);
}

/** The step nearest to a value. @type {(control: Range, value: number) => number} */
export function stepOf(control, value) {
  const last = steps(control);
  const at = control.log
    ? (Math.log(value / control.min) / Math.log(control.max / control.min)) * last
    : (value - control.min) / control.step;
  return Math.max(0, Math.min(last, Math.round(at)));
}

/**
 * The value that a reader typed, or an Error that says what is allowed.
 * @type {(control: Range & { label: string }, text: string) => number}
 */
export function parse(control, text) {
  const plain = String(text).trim().replace("\u2212", "-");
  const spaced = /^[+-]?\d{1,3}([,\u2009\u202f ]\d{3})+(\.\d*)?$/.test(plain); // 0,5 is no grouping: refuse it
  const clean = spaced ? plain.replace(/[,\u2009\u202f ]/g, "") : plain;
  const range = `${control.label} goes from ${format(control.min)} to ${format(control.max)}`;
  if (!/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(clean)) throw new Error(`“${text}” is no number: ${range}`);
  const value = Number(clean);
  if (!Number.isFinite(value)) throw new Error(`“${text}” is no number: ${range}`);
  if (value < control.min || value > control.max) throw new Error(`${format(value)} is out of range: ${range}`);
  return control.integer ? valueAt(control, stepOf(control, value)) : value;
}

/** Four significant digits, thousands grouped, as it reads in a sentence. @param {number} value */
export function format(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "not a number" : value > 0 ? "infinity" : "minus infinity";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replaceAll("-", "\u2212");
  return Number.isInteger(value) ? grouped(value, 0) : grouped(Number(value.toPrecision(4)), 0, 6);
}

/** @type {Map<string, Intl.NumberFormat>} by the least and the most decimals: to make one takes longer than to use it */
const formats = new Map();

/**
 * A number with so many decimals, as people write it: thousands apart by a narrow space, and a real minus.
 * @type {(value: number, least: number, most?: number) => string}
 */
export function grouped(value, least, most = least) {
  const key = `${least} ${most}`;
  let style = formats.get(key);
  if (!style) {
    style = new Intl.NumberFormat("en-GB", { minimumFractionDigits: least, maximumFractionDigits: most });
    formats.set(key, style);
  }
  return style.format(value).replaceAll(",", "\u202f").replace(/^-(?=[0.\u202f]*$)/, "").replace("-", "\u2212");
}

/** The label of a tick on a logarithmic axis: powers of ten, nothing between them. @param {number} value */
export function decade(value) {
  const power = Math.round(Math.log10(value));
  if (Math.abs(Math.log10(value) - power) > 1e-9) return "";
  if (power >= -2 && power <= 3) return format(10 ** power);
  return `10${raised(String(power))}`;
}

const raised = (/** @type {string} */ power) => power.replace(/./g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789-".indexOf(sign)]);

/** A value beside an axis of powers of ten, in its form: 2.18 · 10⁻⁵. @param {number} value */
export const scientific = (value) => format(value).replace(/e\+?(\D?)(\d+)$/, (_, minus, power) => ` · 10${raised((minus && "-") + power)}`);

/**
 * A state, and one that is pinned, as the end of an address, and back; what does not fit the controls is left out.
 * @type {(id: string, controls: Control[], values: Values, pinned?: Values | null) => string}
 */
export function toHash(id, controls, values, pinned = null) {
  const query = new URLSearchParams();
  for (const { name } of controls) query.set(name, String(values[name]));
  if (pinned) for (const { name } of controls) query.set(PIN + name, String(pinned[name]));
  return `#${id}?${query}`;
}

/**
 * The values of a state, or with `prefix` PIN of the pinned one; null if the address is of another panel.
 * @type {(hash: string, id: string, controls: Control[], prefix?: string) => Values | null}
 */
export function fromHash(hash, id, controls, prefix = "") {
  const start = `#${id}?`;
  if (!hash.startsWith(start)) return null;
  const query = new URLSearchParams(hash.slice(start.length));
  /** @type {Values} */
  const values = {};
  for (const control of controls) {
    const text = query.get(prefix + control.name);
    if (text === null) continue;
    if (control.kind === "tick") {
      if (text === "true" || text === "false") values[control.name] = text === "true";
    } else if (control.kind === "choice") {
      if (/^\d+$/.test(text) && Number(text) < control.labels.length) values[control.name] = Number(text);
    } else {
      try {
        values[control.name] = parse(control, text);
      } catch {
        // an address may be mistyped: the control keeps its start
      }
    }
  }
  return values;
}

/**
 * Whether an address is of a place in the document that is shown: in itself, or, of a notebook, in the page of the
 * book that has its name. A chapter's live form leads to that page, for hosts whose panels are in frames of their own.
 * @type {(address: string, shown: string) => boolean}
 */
export function within(address, shown) {
  const bare = (/** @type {string} */ url) => url.replace(/[?#].*/, "");
  if (address.replace(/#.*/, "") === shown.replace(/#.*/, "")) return true;
  const page = /([^/]+)\.html$/.exec(bare(address));
  return Boolean(page) && bare(shown).endsWith(`/${page?.[1]}.ipynb`);
}
