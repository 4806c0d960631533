// @ts-check
// Which bias is this: ALiBi's line, T5's steps, or the end of a window? identification/biases.py for a dump.

import { Unfit, coarsest, general, largest, range, tuple } from "./numbers.js";

/** @import { Numbers } from "./numbers.js" */

/**
 * A bias that was recognised; the fields are those of Python's FoundBias.
 * @typedef {object} Bias
 * @property {"bias"} scheme
 * @property {string} kind
 * @property {number} heads
 * @property {number[]} slopes
 * @property {number} sign
 * @property {boolean | null} symmetric
 * @property {number | null} buckets
 * @property {number | null} reach
 * @property {number[][]} table
 * @property {number | null} back
 * @property {number | null} ahead
 * @property {number | null} chunk
 * @property {string} rule
 * @property {number} residual
 * @property {Record<string, [number, number]>} intervals
 * @property {string[]} notes
 * @property {number | null} width
 */
/** What each distance costs a head, up to a number for each query. @typedef {{ offsets: number[], logits: number[][] }} Curve */
/** @typedef {{ h: number, n: number, b: Float64Array, rounding: number, dtype: string }} Matrix (H, L, L), -inf where a key is hidden */

const SMALL = 1e-2; // logits: rounding that hides no bias of a model
const HIDDEN = -1e4; // numbers below it hide a key, as transformers' finfo.min does
const MOST_REACH = 1024;
/** By how much rounding to a dtype changes a number, at most and relative to it. @type {Record<string, number>} */
const UNIT = { bfloat16: 2 ** -8, float16: 2 ** -11, float32: 2 ** -24, float64: 2 ** -53 };

/** The bias of one matrix, or what was added to scores. @type {(numbers: Numbers[]) => { found: Bias, curve: Curve }} */
export function bias(numbers) {
  const matrix = numbers.length === 2 ? matrixBetween(numbers[0], numbers[1]) : matrixOf(numbers[0]);
  const curve = byOffset(matrix);
  return { found: named(matrix, curve), curve: { offsets: curve.offsets, logits: curve.logits } };
}

// ---- the matrix

/** @param {Numbers} given */
function matrixOf(given) {
  const { data, dtype, shape } = given;
  if (/complex/.test(dtype)) throw new Unfit(`the bias is torch.${dtype}: use real numbers`);
  if (/int/.test(dtype) && data.every((x) => x === 0 || x === 1) && data.some((x) => x !== 0)) {
    throw new Unfit(`the bias is 0 and 1 in ${dtype}: if it is a mask, give it as bool, True where a key is seen`);
  }
  const seen = seenOf(given, "the bias");
  const shown = seen.map((x) => (x === -Infinity ? 0 : x));
  return matrix(seen, shape, coarsest({ data: shown, dtype: "float64", shape }), largest([0, ...extremes(shown)]), 0);
}

/** What was added to scores: those after, less those before. @type {(before: Numbers, after: Numbers) => Matrix} */
function matrixBetween(before, after) {
  if (tuple(before.shape) !== tuple(after.shape)) {
    throw new Unfit(`scores before have shape ${tuple(before.shape)} and after ${tuple(after.shape)}: give the same, twice`);
  }
  for (const [name, { dtype }] of Object.entries({ before, after })) {
    if (!/^b?float/.test(dtype)) throw new Unfit(`scores ${name} are ${dtype}: give those that softmax gets`);
  }
  const [low, high] = [seenOf(before, "scores before"), seenOf(after, "scores after")];
  const hidden = low.map((x, i) => Number(x === -Infinity || high[i] === -Infinity));
  const [one, other] = [low, high].map((each) => each.map((x, i) => (hidden[i] ? 0 : x)));
  const dtype = coarsest({ data: other, dtype: "float64", shape: after.shape });
  const size = largest([0, ...extremes(one), ...extremes(other)]);
  return matrix(one.map((x, i) => (hidden[i] ? -Infinity : other[i] - x)), after.shape, dtype, size, 4 * UNIT[dtype] * size);
}

/** @param {Float64Array} data */
function extremes(data) {
  let most = 0;
  for (const x of data) most = Math.max(most, Math.abs(x));
  return [most];
}

/** Logits with -inf where a key is hidden. @type {(given: Numbers, name: string) => Float64Array} */
function seenOf({ data, dtype }, name) {
  if (dtype === "bool") return data.map((x) => (x ? 0 : -Infinity));
  if (data.some(Number.isNaN)) throw new Unfit(`${name} has NaN: a row in which all keys are hidden, or an infinity times 0`);
  if (data.some((x) => x === Infinity)) throw new Unfit(`${name} has +inf: a key is hidden by -inf, or by False in a mask of bools`);
  return data.map((x) => (x < HIDDEN ? -Infinity : x));
}

/** A matrix of one text, with a row for each key. @type {(b: Float64Array, whole: number[], dtype: string, size: number, between: number) => Matrix} */
function matrix(b, whole, dtype, size, between) {
  let shape = whole;
  if (shape.length === 4 && shape[0]) {
    const each = b.length / shape[0];
    for (let i = each; i < b.length; i++) {
      const first = b[i % each];
      if (b[i] !== first && !(Math.abs(b[i] - first) <= between)) {
        throw new Unfit(`a bias of ${shape[0]} texts that differ: give that of one`);
      }
    }
    [b, shape] = [b.subarray(0, each), shape.slice(1)];
  }
  if (shape.length === 2) shape = [1, ...shape];
  const [h, rows, n] = shape;
  if (shape.length !== 3 || rows < 3 || n < rows || !h) {
    throw new Unfit(
      `${tuple(whole)} is no bias: use (L, L), (H, L, L) or (B, H, L, L); for a rotation give (before, after, positions), ` +
        "or a function with dim=…",
    );
  }
  if (!b.some(Number.isFinite)) throw new Unfit("all keys are hidden: dump the bias of a real text");
  const square = new Float64Array(h * n * n).fill(-Infinity);
  for (let head = 0; head < h; head++) square.set(b.subarray(head * rows * n, (head + 1) * rows * n), (head * n + n - rows) * n);
  return { h, n, b: square, rounding: 4 * UNIT[dtype] * size, dtype };
}

// ---- what it is

/** @type {(matrix: Matrix, curve: Curve & { spread: number }) => Bias} */
function named({ h, n, b, rounding, dtype }, { offsets: off, logits: f, spread }) {
  /** @type {Bias} */
  const plain = {
    scheme: "bias", kind: "unknown", heads: h, slopes: [], sign: 1, symmetric: null, buckets: null, reach: null, table: [],
    back: null, ahead: null, chunk: null, rule: "", residual: 0, intervals: {}, notes: [], width: null,
  };
  const area = n * n;
  for (let i = area; i < b.length; i++) {
    if (Number.isFinite(b[i]) !== Number.isFinite(b[i % area])) return { ...plain, notes: ["Heads hide different keys: name them one by one"] };
  }
  const { back, ahead, chunk, odd } = sides(b, n);
  const notes = odd ? [odd] : [];
  const width = back === null || ahead === null ? null : back + ahead + 1;
  const whole = { ...plain, back, ahead, chunk, width };
  const size = largest([0, ...f.map((row) => largest(row.map(Math.abs)))]);
  let [same, loose] = [1e-4 * Math.max(size, 1), 0];
  const floor = spread > 0 ? rounding : 0;
  if (spread <= 2 * floor && (spread > same || size <= floor)) {
    if (floor > SMALL && (size <= floor || spread > 0.1 * size)) {
      throw new Unfit(
        `in ${dtype} the same distance differs by ${general(spread, 2)}, and what distances cost is ${general(size, 2)} at ` +
          "most: dump scores in float32, or the bias itself",
      );
    }
    if (size <= floor) return { ...whole, kind: "none", residual: size, notes };
    [same, loose] = [spread, spread <= 0.025 * size ? 2 * spread : 0];
    notes.push(`Rounding to ${dtype} leaves numbers of one distance up to ${general(spread, 2)} apart`);
  }
  if (spread > same) {
    return {
      ...whole,
      residual: spread,
      notes: [
        ...notes,
        "The same distance costs different amounts in different places: a table of positions, a distance that contents " +
          "measure, or scores with q·k in them, of which those before the bias are needed as well",
      ],
    };
  }
  if (size < 1e-9) return { ...whole, kind: "none", notes };
  const found = line(f, off, loose);
  if (found) {
    const { slope, symmetric, left } = found;
    const sign = slope.reduce((a, x) => a + x, 0) > 0 ? 1 : -1;
    if (slope.some((x) => x * sign < -1e-9)) notes.push("Slopes of some heads have the other sign");
    if (sign < 0) notes.push("Far keys are favoured: in ALiBi a distance costs, and here it is rewarded. Look at the sign of j - i");
    if (ahead !== 0 && !symmetric) notes.push("Keys of the future are rewarded as those of the past cost: hide them, or take the distance |i - j|");
    const slopes = slope.map(Math.abs);
    const rule = ruleOf(slopes, loose / Math.max(largest(off.map(Math.abs)), 1));
    return { ...whole, kind: "alibi", slopes, sign, symmetric: ahead === 0 ? null : symmetric, rule, residual: left, notes };
  }
  const steps = t5(f, off, ahead === 0, Math.max(1e-6 * size, 2 * spread));
  if (steps) return { ...whole, kind: "t5", ...steps, notes: [...notes, ...steps.notes] };
  return { ...whole, kind: "distance", symmetric: ahead === 0 ? null : true, notes };
}

/** How far a query sees behind and ahead, null where no end is seen, and the size of chunks. @type {(b: Float64Array, n: number) => { back: number | null, ahead: number | null, chunk: number | null, odd: string }} */
function sides(b, n) {
  const see = (/** @type {number} */ i, /** @type {number} */ j) => Number.isFinite(b[i * n + j]);
  const rows = range(n).filter((i) => range(n).some((j) => see(i, j)));
  let [back, ahead] = [-Infinity, -Infinity];
  for (const i of rows) {
    for (let j = 0; j < n; j++) {
      if (!see(i, j)) continue;
      back = Math.max(back, i - j);
      ahead = Math.max(ahead, j - i);
    }
  }
  const all = (/** @type {(i: number, j: number) => boolean} */ wanted) => rows.every((i) => {
    for (let j = 0; j < n; j++) if (see(i, j) !== wanted(i, j)) return false;
    return true;
  });
  const behind = back < n - 1 ? back : null;
  const before = ahead < n - 1 ? ahead : null;
  if (all((i, j) => j - i >= -back && j - i <= ahead)) return { back: behind, ahead: before, chunk: null, odd: "" };
  for (let size = 2; size < n; size++) {
    const block = (/** @type {number} */ i, /** @type {number} */ j) => Math.floor(i / size) === Math.floor(j / size);
    if (all((i, j) => block(i, j) && j <= i)) return { back: size - 1, ahead: 0, chunk: size, odd: "" };
    if (all(block)) return { back: size - 1, ahead: size - 1, chunk: size, odd: "" };
  }
  return {
    back: behind, ahead: before, chunk: null,
    odd: "Which keys are hidden depends on more than the distance: padding, documents, sinks or prefixes",
  };
}

/** The bias as a function of j - i, up to a number for each query; and how far places differ. @param {Matrix} matrix @returns {Curve & { spread: number }} */
function byOffset({ h, n, b }) {
  const offsets = [];
  /** @type {number[][]} */
  const logits = range(h).map(() => []);
  let spread = 0;
  for (let o = 1 - n; o < n; o++) {
    const open = [];
    for (let i = Math.max(0, -o); i < Math.min(n, n - o); i++) if (range(h).every((head) => Number.isFinite(b[(head * n + i) * n + i + o]))) open.push(i);
    if (!open.length) continue;
    offsets.push(o);
    for (let head = 0; head < h; head++) {
      const line = open.map((i) => {
        const own = b[(head * n + i) * n + i];
        return b[(head * n + i) * n + i + o] - (Number.isFinite(own) ? own : 0);
      });
      const middle = line.reduce((a, x) => a + x, 0) / line.length;
      logits[head].push(middle);
      for (const x of line) spread = Math.max(spread, Math.abs(x - middle));
    }
  }
  return { offsets, logits, spread };
}

/**
 * The slopes if the bias is a line over the past, whether the future mirrors it, and the misfit.
 * @type {(f: number[][], off: number[], loose: number) => { slope: number[], symmetric: boolean, left: number } | null}
 */
function line(f, off, loose) {
  const past = range(off.length).filter((k) => off[k] <= 0);
  const future = range(off.length).filter((k) => off[k] > 0);
  if (past.length < 3) return null;
  const square = past.reduce((a, k) => a + off[k] ** 2, 0);
  const slope = f.map((row) => past.reduce((a, k) => a + row[k] * off[k], 0) / square);
  const scale = f.map((row) => Math.max(largest(row.map(Math.abs)), 1e-12, loose / 8e-3));
  const misfit = (/** @type {number[]} */ where, /** @type {number} */ sign) =>
    largest(f.map((row, h) => largest(where.map((k) => Math.abs(row[k] - sign * slope[h] * off[k]))) / scale[h]));
  const left = misfit(past, 1);
  if (left > 8e-3) return null; // bfloat16
  if (!future.length) return { slope, symmetric: false, left };
  const [mirrored, straight] = [misfit(future, -1), misfit(future, 1)];
  if (Math.min(mirrored, straight) > 8e-3) return null;
  return { slope, symmetric: mirrored <= straight, left: Math.max(left, Math.min(mirrored, straight)) };
}

/** ALiBi's slopes, as the authors' code has them. @param {number} heads */
function slopes(heads) {
  const power = 2 ** Math.floor(Math.log2(heads));
  return range(heads).map((h) => 2 ** ((-8 * (h < power ? h + 1 : h - power + 0.5)) / power));
}

/** Which rule gives slopes that are known up to 1 % and `off`. @type {(slope: number[], off: number) => string} */
function ruleOf(slope, off) {
  const h = slope.length;
  const near = (/** @type {number[]} */ one, /** @type {number[]} */ other) =>
    one.every((x, k) => Math.abs(x - other[k]) <= Math.max(off, 1e-8) + 1e-2 * Math.abs(other[k]));
  if (near(slope, slopes(h))) return "the authors' rule";
  if (near(slope, range(h).map((k) => 2 ** ((-8 * (k + 1)) / h)))) return "the paper's rule 2^(-8h/H), which the authors' code has for powers of two only";
  const rising = (/** @type {number[]} */ values) => [...values].sort((a, b) => a - b);
  if (near(rising(slope), rising(slopes(h)))) return "the authors' slopes in another order of heads";
  for (let whole = h + 1; whole <= 8 * h; whole++) {
    const more = slopes(whole);
    for (let begin = 0; begin <= whole - h; begin += h) {
      if (near(slope, more.slice(begin, begin + h))) return `those of heads ${begin} to ${begin + h - 1} of ${whole}`;
    }
  }
  return "no rule that has a name";
}

/** The bucket of an offset, as posenc.t5_bucket has it. @type {(offset: number, buckets: number, reach: number, both: boolean) => number} */
function bucket(offset, buckets, reach, both) {
  const count = both ? buckets / 2 : buckets;
  const distance = both ? Math.abs(offset) : Math.max(-offset, 0);
  const exact = Math.floor(count / 2);
  // Logarithms err a little, so the share is rounded to 2^-36 before the floor.
  const share = (Math.log(distance / exact) / Math.log(reach / exact)) * (count - exact);
  const shared = exact + Math.floor(Math.round(share * 2 ** 36) / 2 ** 36);
  return (distance < exact ? distance : Math.min(shared, count - 1)) + (both && offset >= 1 ? count : 0);
}

/**
 * Buckets and reach, if the bias is constant exactly where T5's is; what differs by `step` or less is the same.
 * @type {(f: number[][], off: number[], causal: boolean, step: number) => Pick<Bias, "symmetric" | "buckets" | "reach" | "table" | "residual" | "intervals" | "notes"> | null}
 */
function t5(f, off, causal, step) {
  const changes = range(off.length - 1).map((k) => largest(f.map((row) => Math.abs(row[k + 1] - row[k]))) > step);
  const ends = new Set(off.slice(1).filter((_, k) => changes[k])); // the offsets at which another value begins
  const furthest = largest(off.filter((o) => o <= 0).map((o) => -o));
  if (furthest < 0 || ends.size >= off.length - 1) return null;
  const both = [...ends].some((o) => o > 1) || (!causal && ends.has(1));
  const flat = range(Math.max(furthest - 1, 0)).map((d) => d + 1).find((d) => !ends.has(-d)) ?? 0; // d and d + 1 share a value
  if (flat < 1) return null;
  /** @type {[number, number][]} */
  const good = [];
  for (const exact of [flat, flat - 1].filter((e) => e > 0)) {
    const buckets = both ? 4 * exact : 2 * exact;
    if (buckets < 4) continue;
    for (let reach = exact + 1; reach <= MOST_REACH; reach++) {
      const at = (/** @type {number} */ k) => bucket(off[k], buckets, reach, both);
      if (changes.every((changed, k) => (at(k) !== at(k + 1)) === changed)) good.push([buckets, reach]);
    }
  }
  if (!good.length) return null;
  const [[buckets]] = good;
  const reaches = good.filter(([count]) => count === buckets).map(([, reach]) => reach);
  const usual = [128, 20, 32, 64, 256, 512, 1024].find((reach) => reaches.includes(reach)) ?? reaches[0];
  const at = off.map((o) => bucket(o, buckets, usual, both));
  let missing = 0;
  const table = range(buckets).map((n) => {
    const mine = range(off.length).filter((k) => at[k] === n);
    if (!mine.length) missing++;
    return f.map((row) => (mine.length ? mine.reduce((a, k) => a + row[k], 0) / mine.length : 0));
  });
  const notes = ["Values are up to a number for each head: that of distance 0 is taken as 0, since softmax does not see it"];
  const unseen = missing - Number(both);
  if (unseen) notes.push(`${unseen} buckets are not reached by these distances, and are 0 in the table`);
  const residual = largest(f.map((row, h) => largest(row.map((x, k) => Math.abs(x - table[at[k]][h])))));
  return { symmetric: both, buckets, reach: usual, table, residual, intervals: { reach: [reaches[0], reaches[reaches.length - 1]] }, notes };
}
