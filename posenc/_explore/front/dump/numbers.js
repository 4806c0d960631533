// @ts-check
// What torch and Python have, and JavaScript lacks: narrow floats, their printing, medians, means.

/**
 * An array of a file: numbers in the order of C, and the dtype that they had.
 * @typedef {{ shape: number[], data: Float64Array, dtype: string }} Numbers
 */

/** What cannot be read or named; the message says what to give. */
export class Unfit extends Error {}

const SINGLE = new Float32Array(1);
const BITS = new Uint32Array(SINGLE.buffer);

/** To the nearest whole number, and to the even one of two. @param {number} x */
export function even(x) {
  const low = Math.floor(x);
  const over = x - low;
  if (over !== 0.5) return over < 0.5 ? low : low + 1;
  return low % 2 ? low + 1 : low;
}

/** @param {number} x */
function bfloat16(x) {
  SINGLE[0] = x;
  if (!Number.isFinite(SINGLE[0])) return SINGLE[0];
  BITS[0] = (BITS[0] + 0x7fff + ((BITS[0] >>> 16) & 1)) & 0xffff0000;
  return SINGLE[0];
}

/** @param {number} x */
function float16(x) {
  const single = Math.fround(x);
  if (!Number.isFinite(single) || single === 0) return single;
  if (Math.abs(single) >= 65520) return single > 0 ? Infinity : -Infinity;
  SINGLE[0] = Math.abs(single);
  const unit = 2 ** (Math.max((BITS[0] >>> 23) - 127, -14) - 10);
  return even(single / unit) * unit;
}

/** How a number is rounded to a dtype, by way of float32, as torch does. @type {Record<string, (x: number) => number>} */
export const rounded = { bfloat16, float16, float32: Math.fround, float64: (x) => x };

/** The coarsest of these dtypes that holds all numbers. @param {Numbers} numbers */
export function coarsest({ data, dtype }) {
  if (dtype === "bfloat16" || dtype === "float16") return dtype;
  for (const name of ["bfloat16", "float16", "float32"]) {
    const to = rounded[name];
    if (data.every((x) => to(x) === x)) return name;
  }
  return "float64";
}

/** The lower of two in the middle, as torch has it. @param {ArrayLike<number>} values */
export function median(values) {
  const sorted = Float64Array.from(values).sort();
  return sorted[(sorted.length - 1) >> 1];
}

/** @param {ArrayLike<number>} values */
export function sum(values) {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i];
  return total;
}
/** @type {(values: ArrayLike<number>) => number} */
export const mean = (values) => sum(values) / values.length;

/** @param {ArrayLike<number>} values */
export function largest(values) {
  let found = -Infinity;
  for (let i = 0; i < values.length; i++) if (values[i] > found) found = values[i];
  return found;
}

/** @param {ArrayLike<number>} values */
export function least(values) {
  let found = Infinity;
  for (let i = 0; i < values.length; i++) if (values[i] < found) found = values[i];
  return found;
}

/** The first of those for which `measure` is least. @type {<T>(all: T[], measure: (one: T) => number) => T} */
export function best(all, measure) {
  let [chosen] = all;
  let smallest = Infinity;
  for (const one of all) {
    const size = measure(one);
    if (size < smallest) [chosen, smallest] = [one, size];
  }
  return chosen;
}

/** 0, 1, …, n - 1. @param {number} n */
export const range = (n) => Array.from({ length: n }, (_, i) => i);

/** An angle between -π and π. @param {number} x */
export function folded(x) {
  const turn = 2 * Math.PI;
  const rest = (x + Math.PI) % turn;
  return (rest < 0 ? rest + turn : rest) - Math.PI;
}

/** Python's f"{x:.{digits}e}", whose ties go to the even digit. @type {(x: number, digits: number) => string} */
export function exponential(x, digits) {
  const near = x.toExponential(digits);
  const [whole, power] = x.toExponential(60).split("e");
  const figures = whole.replace(".", "");
  const start = figures.startsWith("-") ? 2 : 1;
  if (!/^50*$/.test(figures.slice(start + digits))) return near;
  const kept = figures.slice(0, start + digits);
  if (Number(kept.at(-1)) % 2) return near;
  const sign = start === 2 ? "-" : "";
  const bare = kept.slice(start - 1);
  return `${sign}${bare[0]}${digits ? `.${bare.slice(1)}` : ""}e${power}`;
}

/** @param {string} whole */
const grouped = (whole) => whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/**
 * Python's f"{x:.{figures}g}", with a comma after each three digits if `commas`.
 * @type {(x: number, figures?: number, commas?: boolean) => string}
 */
export function general(x, figures = 6, commas = false) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const [digits, power] = exponential(x, figures - 1).split("e");
  const exponent = Number(power);
  const trim = (/** @type {string} */ text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= figures) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${trim(digits)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const sign = digits.startsWith("-") ? "-" : "";
  const bare = digits.replace(/[-.]/g, "");
  const text = exponent < 0
    ? `0.${"0".repeat(-exponent - 1)}${bare}`
    : `${bare.slice(0, exponent + 1)}${bare.length > exponent + 1 ? `.${bare.slice(exponent + 1)}` : ""}`;
  const [whole, part] = trim(text).split(".");
  return sign + (commas ? grouped(whole) : whole) + (part ? `.${part}` : "");
}

/** A whole number as Python's f"{x:,.0f}". @param {number} x */
export const counted = (x) => (x < 0 ? "-" : "") + grouped(BigInt(even(Math.abs(x))).toString());

/** A shape as Python prints a tuple. @param {number[]} shape */
export const tuple = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
