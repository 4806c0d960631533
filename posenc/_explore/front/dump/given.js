// @ts-check
// What is to be identified: three arrays become rows of vectors before and after, as identification/given.py has it.

import { Unfit, coarsest, tuple } from "./numbers.js";

/** @import { Numbers } from "./numbers.js" */
/** @import { Kind } from "./types" */

/**
 * Vectors before and after, a row each.
 * @typedef {object} Dump
 * @property {number} n rows
 * @property {number} d channels
 * @property {Float64Array} before (n, d)
 * @property {Float64Array} after (n, d)
 * @property {Float64Array} positions (n, axes)
 * @property {number} axes of positions
 * @property {string} grain the coarsest dtype that holds all numbers after
 * @property {string} heads "first" or "last"; "" if there is no axis of heads
 * @property {number[][]} places different positions, in order
 * @property {Int32Array} at for each row the number of its position
 */

export const MOST = 4_000_000; // numbers of an array: a page shall answer within seconds
const BEFORE = ["before", "q_before", "k_before", "x", "input", "q_in", "q_pre", "unrotated"];
const AFTER = ["after", "q_after", "k_after", "y", "output", "q_out", "q_post", "rotated"];
const POSITIONS = ["positions", "position_ids", "pos", "input_pos"];
/** What a dump may hold, and which arrays that takes, by the names that they may have. @type {Record<Kind, string[][]>} */
export const KINDS = {
  rotation: [BEFORE, AFTER, POSITIONS],
  scores: [["scores_before", "logits_before"], ["scores_after", "logits_after"]],
  bias: [["bias", "attn_bias", "attention_bias", "position_bias", "alibi", "attn_mask", "attention_mask", "mask"]],
};

/** What a dump holds by the names of its arrays, and which array is which; "" for one not found. @type {(names: string[]) => { kind: Kind, names: string[] }} */
export function meant(names) {
  const found = /** @type {[Kind, string[]][]} */ (Object.entries(KINDS).map(([kind, roles]) =>
    [kind, roles.map((known) => known.find((name) => names.includes(name)) ?? "")]));
  const [rotation, scores] = found;
  const whole = found.find(([, roles]) => roles.every(Boolean));
  if (whole) return { kind: whole[0], names: whole[1] };
  if (names.length === 1 && ![...rotation[1], ...scores[1]].some(Boolean)) return { kind: "bias", names }; // one array alone is no rotation
  const [kind, roles] = scores[1].some(Boolean) ? scores : rotation;
  return { kind, names: roles };
}

/** @type {Record<number, [number, string][]>} by the number of axes, which may count tokens, and where heads are then */
const AXES = { 2: [[0, ""]], 3: [[1, "first"], [0, "last"]], 4: [[2, "first"], [1, "last"]] };

/**
 * The ways to read three arrays: one, or two where the axis of tokens could be either.
 * @type {(before: Numbers, after: Numbers, positions: Numbers, heads?: string | null) => Dump[]}
 */
export function dumps(before, after, positions, heads = null) {
  for (const [name, { dtype }] of Object.entries({ before, after, positions })) {
    if (/complex|bool/.test(dtype)) throw new Unfit(`${name} is torch.${dtype}: use real numbers; view_as_real and flatten a complex dump`);
  }
  if (tuple(before.shape) !== tuple(after.shape)) {
    throw new Unfit(`before has shape ${tuple(before.shape)} and after ${tuple(after.shape)}: give the same vectors, twice`);
  }
  const { shape } = before;
  if (shape.length < 2 || shape.length > 4) throw new Unfit(`before has shape ${tuple(shape)}: use (L, d), (B, H, L, d) or (B, L, H, d)`);
  if (before.data.length > MOST) {
    throw new Unfit(
      `before has ${before.data.length.toLocaleString("en")} numbers, and a page reads ${MOST.toLocaleString("en")} at most: ` +
        "dump one layer, fewer heads, and some hundred positions, which are enough",
    );
  }
  for (const [name, each] of Object.entries({ before, after, positions })) checkFinite(name, each);
  if (!before.data.some((x) => x !== 0)) throw new Unfit("before is zero everywhere, so nothing can be seen to turn: dump q or k of a real text");
  if (!after.data.some((x) => x !== 0)) throw new Unfit("after is zero everywhere: dump what the rotation returns, before any mask or cache");
  const grain = coarsest(after);
  const d = /** @type {number} */ (shape.at(-1));
  const found = [];
  for (const [axis, word] of AXES[shape.length]) {
    if (heads && word && heads !== word) continue;
    const rows = rowsOf(positions, shape, axis);
    if (!rows) continue;
    const n = before.data.length / d;
    const [x, y] = [before, after].map(({ data }) => tokensLast(data, shape, axis));
    found.push({ n, d, before: x, after: y, ...rows, grain, heads: word, ...placesOf(rows.positions, rows.axes) });
  }
  if (!found.length) {
    throw new Unfit(
      `positions have shape ${tuple(positions.shape)}, and no axis of ${tuple(shape)} fits them: use (L,), or (B, L) ` +
        "if texts differ, or (A, B, L) for A axes",
    );
  }
  return found;
}

/** Rows with the axis of tokens moved to the end. @type {(data: Float64Array, shape: number[], axis: number) => Float64Array} */
function tokensLast(data, shape, axis) {
  const last = shape.length - 2;
  if (axis === last) return data;
  const d = shape[last + 1];
  const [tokens, heads] = [shape[axis], shape[last]];
  const texts = data.length / (tokens * heads * d);
  const out = new Float64Array(data.length);
  for (let b = 0, to = 0; b < texts; b++) {
    for (let h = 0; h < heads; h++) {
      for (let t = 0; t < tokens; t++, to += d) {
        const from = ((b * tokens + t) * heads + h) * d;
        out.set(data.subarray(from, from + d), to);
      }
    }
  }
  return out;
}

/** @type {(positions: Numbers, shape: number[], axis: number) => { positions: Float64Array, axes: number } | null} */
function rowsOf({ shape: pos, data }, shape, axis) {
  const tokens = shape[axis];
  const lead = shape.slice(0, -1).filter((_, a) => a !== axis);
  const all = lead.reduce((a, b) => a * b, 1);
  const each = lead.length ? all / lead[0] : 1; // rows of other axes for each of the first
  let axes = 1;
  /** @type {(b: number, t: number, a: number) => number} */
  let at;
  if (pos.length === 1 && pos[0] === tokens) at = (_, t) => data[t];
  else if (pos.length === 2 && pos[1] === tokens && lead.length && (pos[0] === 1 || pos[0] === lead[0])) {
    at = (b, t) => data[(pos[0] === 1 ? 0 : b) * tokens + t];
  } else if (pos.length === 2 && pos[0] === tokens && pos[1] <= 4) {
    axes = pos[1];
    at = (_, t, a) => data[t * axes + a];
  } else if (pos.length === 2 && pos[1] === tokens && pos[0] >= 1 && pos[0] <= 4) {
    axes = pos[0];
    at = (_, t, a) => data[a * tokens + t];
  } else if (pos.length === 3 && pos[2] === tokens && lead.length && (pos[1] === 1 || pos[1] === lead[0])) {
    axes = pos[0];
    at = (b, t, a) => data[(a * pos[1] + (pos[1] === 1 ? 0 : b)) * tokens + t];
  } else return null;
  const positions = new Float64Array(all * tokens * axes);
  let to = 0;
  for (let row = 0; row < all; row++) {
    for (let t = 0; t < tokens; t++) for (let a = 0; a < axes; a++) positions[to++] = at(Math.floor(row / each), t, a);
  }
  return { positions, axes };
}

/** @type {(positions: Float64Array, axes: number) => { places: number[][], at: Int32Array }} */
function placesOf(positions, axes) {
  /** @type {Map<string, number[]>} */
  const seen = new Map();
  const keys = [];
  for (let i = 0; i < positions.length; i += axes) {
    const place = Array.from(positions.subarray(i, i + axes), (x) => x + 0); // no negative zero
    const key = place.join();
    keys.push(key);
    seen.set(key, place);
  }
  const order = (/** @type {number[]} */ a, /** @type {number[]} */ b) => {
    const first = a.findIndex((x, i) => x !== b[i]);
    return first < 0 ? 0 : a[first] - b[first];
  };
  const sorted = [...seen].sort(([, a], [, b]) => order(a, b));
  const number = new Map(sorted.map(([key], i) => [key, i]));
  return { places: sorted.map(([, place]) => place), at: Int32Array.from(keys, (key) => /** @type {number} */ (number.get(key))) };
}

/** @type {(name: string, numbers: Numbers) => void} */
function checkFinite(name, { data, shape }) {
  let bad = 0;
  let first = -1;
  for (let i = 0; i < data.length; i++) {
    if (Number.isFinite(data[i])) continue;
    if (!bad++) first = i;
  }
  if (!bad) return;
  const where = shape.map((_, axis) => {
    const step = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
    return Math.floor(first / step) % shape[axis];
  });
  throw new Unfit(`${name} has ${bad} numbers that are not finite, the first at ${tuple(where)}: leave padded rows out, and dump in float32`);
}
