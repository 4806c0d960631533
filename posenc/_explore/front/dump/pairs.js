// @ts-check
// Which channels turn together, as identification/pairs.py has it: the partner of a channel is the one that explains it.

import { Unfit, even, largest, least, range } from "./numbers.js";

/** @import { Dump } from "./given.js" */

/** @typedef {{ pairs: [number, number][], layout: string, words: string }} Pairs */

const SURE = 9; // how many times better (in squares) a partner must be than the next
const PLACES = 12; // positions that are enough to find partners
/** @type {Record<string, number>} */
const EPSILON = { bfloat16: 2e-2, float16: 3e-3, float32: 3e-6 };
/** @type {Record<string, number>} */
const FLOOR = { bfloat16: 1e-4, float16: 1e-6, float32: 1e-12 };

/** Aᵀ B of two lists of rows, each (n, d). @type {(a: Float64Array, b: Float64Array, rows: number[], d: number) => Float64Array} */
function product(a, b, rows, d) {
  const out = new Float64Array(d * d);
  for (const row of rows) {
    const start = row * d;
    for (let i = 0; i < d; i++) {
      const x = a[start + i];
      for (let j = 0; j < d; j++) out[i * d + j] += x * b[start + j];
    }
  }
  return out;
}

/** (d, d): what share of channel i's energy after is left unexplained by channels i and j before. @param {Dump} dump */
function costs({ n, d, before, after, places, at }) {
  /** @type {number[][]} */
  const rows = places.map(() => []);
  for (let row = 0; row < n; row++) rows[at[row]].push(row);
  const many = range(places.length).filter((p) => rows[p].length >= 3);
  const e = new Float64Array(d * d);
  if (many.length >= 2) {
    const count = Math.min(PLACES, many.length);
    const left = new Float64Array(d * d);
    const whole = new Float64Array(d);
    for (let k = 0; k < count; k++) {
      const here = rows[many[even((k * (many.length - 1)) / (count - 1))]];
      const g = product(before, before, here, d);
      const c = product(after, before, here, d);
      const s = range(d).map((i) => here.reduce((total, row) => total + after[row * d + i] ** 2, 0));
      const size = range(d).map((i) => g[i * d + i]);
      const floor = 1e-9 * largest(size) ** 2;
      for (let i = 0; i < d; i++) {
        const own = c[i * d + i];
        for (let j = 0; j < d; j++) {
          const [gij, cij] = [g[i * d + j], c[i * d + j]];
          const det = Math.max(size[i] * size[j] - gij ** 2, floor);
          const a = (own * size[j] - cij * gij) / det;
          const b = (cij * size[i] - own * gij) / det;
          left[i * d + j] += Math.max(s[i] - a * own - b * cij, 0);
        }
        whole[i] += s[i];
      }
    }
    for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) e[i * d + j] = left[i * d + j] / Math.max(whole[i], 1e-30);
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < i; j++) e[i * d + j] = e[j * d + i] = Math.max(e[i * d + j], e[j * d + i]);
    }
    return e;
  }
  const [u, v] = [after.map((x) => x * x), before.map((x) => x * x)];
  const all = range(n);
  const [uu, uv, vv] = [product(u, u, all, d), product(u, v, all, d), product(v, v, all, d)];
  /** @type {(m: Float64Array, i: number, j: number) => number} */
  const joint = (m, i, j) => m[i * d + i] + m[j * d + j] + m[i * d + j] + m[j * d + i];
  for (let i = 0; i < d; i++) {
    for (let j = 0; j < d; j++) {
      const a = joint(uu, i, j);
      e[i * d + j] = Math.max(a - joint(uv, i, j) ** 2 / Math.max(joint(vv, i, j), 1e-30), 0) / Math.max(a, 1e-30);
    }
  }
  return e;
}

/** Whether a channel after differs from before by more than a common factor and rounding. @param {Dump} dump */
function changed({ n, d, before, after, grain }) {
  const eps = EPSILON[grain] ?? 1e-12;
  return range(d).map((i) => {
    let [xy, xx, off] = [0, 0, 0];
    for (let row = i; row < n * d; row += d) {
      xy += before[row] * after[row];
      xx += before[row] ** 2;
    }
    const m = xy / Math.max(xx, 1e-30);
    for (let row = i; row < n * d; row += d) off += (after[row] - m * before[row]) ** 2;
    return (off / n) ** 0.5 > eps * Math.max((xx / n) ** 0.5, 1e-30);
  });
}

/** The pairs of a dump. @param {Dump} dump @returns {Pairs} */
export function pairsOf(dump) {
  const { d, grain } = dump;
  const moved = changed(dump);
  if (!moved.includes(true)) {
    const far = largest(dump.after.map((y, i) => Math.abs(y - dump.before[i])));
    const same = far < 1e-3 * largest(dump.before.map((x) => Math.abs(x)));
    throw new Unfit(
      `no channel turns: after is before${same ? "" : " times a factor"}. Is this before and after ` +
        "the rotation, in a layer that rotates, at positions other than 0?",
    );
  }
  const e = costs(dump).map((cost, at) => {
    const [i, j] = [Math.floor(at / d), at % d];
    return i === j || !moved[i] || !moved[j] ? Infinity : cost;
  });
  const floor = FLOOR[grain] ?? 1e-14;
  /** @type {number[]} */
  const partner = [];
  /** @type {boolean[]} */
  const sure = [];
  for (let i = 0; i < d; i++) {
    const row = e.subarray(i * d, i * d + d);
    const best = least(row);
    const first = row.indexOf(best);
    partner.push(first);
    const rest = least(row.map((cost, j) => (j === first ? Infinity : cost)));
    sure.push(SURE * (best + floor) < rest && moved[i] && Number.isFinite(best) && best < 0.05);
  }
  /** @type {[number, number][]} */
  const found = [];
  partner.forEach((j, i) => {
    if (i < j && partner[j] === i && sure[i] && sure[j]) found.push([i, j]);
  });
  if (found.length) return pattern(found, d);
  const moving = range(d).filter((i) => moved[i]);
  if (moving.length === 2) { // a single pair has no rival
    const [i, j] = moving;
    if (e[i * d + j] < 0.05) {
      const words = "one pair: with two channels both layouts are one";
      return { pairs: [[i, j]], layout: j === i + 1 ? "interleaved" : "half", words };
    }
  }
  throw new Unfit(noneFound(dump, e));
}

/** The layout of pairs that were seen, continued to the end of its block or of the head. @type {(found: [number, number][], d: number) => Pairs} */
function pattern(found, d) {
  const apart = new Set(found.map(([i, j]) => j - i));
  if (apart.size === 1 && apart.has(1) && new Set(found.map(([i]) => i % 2)).size === 1) {
    /** @type {[number, number][]} */
    const whole = [];
    for (let i = found[0][0]; i < d - 1; i += 2) whole.push([i, i + 1]);
    return { pairs: whole, layout: "interleaved", words: "interleaved" };
  }
  if (apart.size === 1) {
    const [h] = apart;
    const start = 2 * h <= d ? Math.min(found[0][0], d - 2 * h) : found[0][0];
    if (found[found.length - 1][0] < start + h) {
      /** @type {[number, number][]} */
      const whole = [];
      for (let i = start; i < start + h; i++) if (i + h < d) whole.push([i, i + h]);
      return { pairs: whole, layout: "half", words: "half" };
    }
  }
  return { pairs: found, layout: "other", words: words(found) };
}

/** How pairs of another pattern lie. @param {[number, number][]} found */
function words(found) {
  const apart = new Set(found.map(([i, j]) => j - i));
  const sums = new Set(found.map(([i, j]) => i + j));
  if (sums.size === 1) return `mirrored: channels i and ${[...sums][0]} - i`;
  if (apart.size !== 1) return "no pattern that has a name";
  const [h] = apart;
  const has = new Set(found.map(String));
  const starts = found.map(([i]) => i).filter((i) => !has.has(`${i - h},${i}`) && !has.has(`${i - 1},${i - 1 + h}`));
  if (starts.length > 1) return `half within each of ${starts.length} blocks of ${2 * h} channels, from ${starts.join(", ")} on`;
  return `partners ${h} apart`;
}

/** Why no channel has a partner, and what to do. @type {(dump: Dump, e: Float64Array) => string} */
function noneFound({ n, d, before, after, places, at }, e) {
  if (places.length < 3 || n < 6) {
    return (
      `${n} vectors at ${places.length} different positions are too few to tell which channels turn ` +
      "together: give 8 positions or more"
    );
  }
  if (n > places.length) {
    const added = after.map((y, i) => y - before[i]);
    const last = new Int32Array(places.length);
    at.forEach((place, row) => {
      last[place] = row;
    });
    let far = 0;
    for (let row = 0; row < n; row++) {
      for (let i = 0; i < d; i++) far = Math.max(far, Math.abs(added[row * d + i] - added[last[at[row]] * d + i]));
    }
    if (far < 1e-3 * largest(added.map((x) => Math.abs(x)))) {
      return "the same is added to all vectors of a position: a table of positions, and no rotation";
    }
  }
  if (least(e) > 0.05) {
    return (
      "this is no rotation: no pair of channels explains what comes after. Give q or k directly before and " +
      "after the rotation, the same heads in the same order, without norm or projection between"
    );
  }
  return (
    "channels change, and which belong together cannot be told: a gain or a norm lies between before and after, or " +
    "rounding hides it. Give q or k directly before and after the rotation, in float32, of several heads"
  );
}
