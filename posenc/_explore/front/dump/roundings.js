// @ts-check
// In which precision angles, tables or values are, as identification/roundings.py has it: each is computed.

import { best, largest, mean, rounded } from "./numbers.js";

/** @import { Dump } from "./given.js" */

const COARSE = ["bfloat16", "float16"];
const ROWS = 150; // that are enough

/**
 * The precision, and what is rounded to it.
 * @param {Dump} dump
 * @param {[number, number][]} pairs
 * @param {number[]} freq of each plane with its sign: those that the rotation should have
 * @param {number[]} axis of positions
 * @param {number} offset added to positions
 * @param {number} amplitude of tables
 * @param {number} measured what the fitted lines leave unexplained
 * @returns {[string, string]}
 */
export function roundingOf(dump, pairs, freq, axis, offset, amplitude, measured) {
  const { n, d, axes } = dump;
  const h = pairs.length;
  const every = Math.max(1, Math.floor(n / ROWS));
  const rows = [];
  for (let row = 0; row < n; row += every) rows.push(row);
  const [xr, xi, yr, yi, pos] = [0, 0, 0, 0, 0].map(() => new Float64Array(rows.length * h));
  rows.forEach((row, r) => {
    for (let t = 0; t < h; t++) {
      const [i, j] = pairs[t];
      const to = r * h + t;
      xr[to] = dump.before[row * d + i];
      xi[to] = dump.before[row * d + j];
      yr[to] = dump.after[row * d + i];
      yi[to] = dump.after[row * d + j];
      pos[to] = dump.positions[row * axes + axis[t]] + offset;
    }
  });
  const same = rounded.float64;
  const scale = mean(yr.map((y, k) => y * y + yi[k] * yi[k])) ** 0.5;
  /** @type {(angle: Float64Array, table?: (x: number) => number, out?: (x: number) => number) => number} */
  const left = (angle, table = same, out = same) => {
    let total = 0;
    for (let k = 0; k < angle.length; k++) {
      const [c, s] = [table(amplitude * Math.cos(angle[k])), table(amplitude * Math.sin(angle[k]))];
      total += (yr[k] - out(xr[k] * c - xi[k] * s)) ** 2 + (yi[k] - out(xr[k] * s + xi[k] * c)) ** 2;
    }
    return (total / angle.length) ** 0.5 / scale;
  };
  const single = rounded.float32;
  /** @type {(p: (x: number) => number, f: (x: number) => number, out?: (x: number) => number) => Float64Array} */
  const angles = (p, f, out = single) => pos.map((x, k) => out(p(x) * f(freq[k % h])));
  const exact = left(angles(same, same, same));
  const near = angles(single, single);
  const plain = left(near);
  /** @type {[string, string, number][]} */
  const tried = [];
  for (const name of COARSE) {
    const to = rounded[name];
    /** @type {(what: string, angle: Float64Array, table?: (x: number) => number, out?: (x: number) => number) => void} */
    const attempt = (what, ...way) => tried.push([name, what, left(...way)]);
    const coarse = near.map(to);
    attempt("tables", near, to);
    attempt("angles", coarse);
    attempt("angles and tables", coarse, to);
    attempt("frequencies", angles(single, to));
    attempt("positions", angles(to, single));
    attempt("positions and frequencies", angles(to, to));
    attempt("positions, frequencies and angles", angles(to, to, to));
    attempt("positions, frequencies, angles and tables", angles(to, to, to), to);
    if (dump.grain === name) {
      attempt("values", near, same, to);
      attempt("tables and values", near, to, to);
      attempt("angles, tables and values", coarse, to, to);
    }
  }
  const [name, what, off] = best(tried, ([, , size]) => size);
  const base = Math.min(exact, plain);
  if (base > 2e-5 && off < 0.4 * base) return [name, what];
  if (COARSE.includes(dump.grain) && base < 6e-3) return [dump.grain, "values"]; // as it is dumped
  if (measured < 1e-12) {
    const far = largest(pos.map((x) => Math.abs(x)));
    return exact < 1e-10 * Math.max(1, far * 1e-3) ? ["float64", ""] : ["float32", "frequencies"];
  }
  const far = mean(pos.map((x) => x * x)) ** 0.5;
  if (Math.min(measured, base) < 3e-5 + 2e-7 * far || (plain < 1e-2 && plain < 0.5 * exact)) {
    return ["float32", dump.grain === "float32" ? "values" : "angles or tables"];
  }
  return ["unknown", ""];
}
