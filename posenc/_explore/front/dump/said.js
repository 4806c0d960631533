// @ts-check
// A rotation or a bias in sentences, as FoundRotation and FoundBias print themselves in Python.

import { counted, general } from "./numbers.js";

/** @import { Bias } from "./biases.js" */
/** @import { Rotation } from "./identify.js" */

/** Who has a layout, and who calls it what; names of scalings. @typedef {{ who: Record<string, [string, string]>, names: Record<string, string> }} Words */

/** @type {(found: Rotation, words: Words) => string[]} */
export function said(found, words) {
  return sentences([channels(found, words), rates(found, words), rest(found), ...found.notes]);
}

/** @type {(found: Bias) => string[]} */
export const saidBias = (found) => sentences([scheme(found), reach(found), ...found.notes]);

/** @param {string[]} parts */
function sentences(parts) {
  return parts.filter(Boolean).map((part) => part[0].toUpperCase() + part.slice(1) + (/[.?]$/.test(part) ? "" : "."));
}

/** @type {(found: Rotation, words: Words) => string} */
function channels({ pairs, dim, layout, words }, { who }) {
  const pair = (/** @type {number[]} */ [i, j]) => `(${i}, ${j})`;
  const some = pairs.slice(0, 3).map(pair).join(", ") + (pairs.length > 3 ? `, … ${pair(pairs[pairs.length - 1])}` : "");
  const turning = 2 * pairs.length;
  const still = dim - turning;
  const counts = still ? ` ${turning} of ${dim} channels turn, ${still} pass.` : ` All ${dim} channels turn.`;
  if (layout === "other" || pairs.length === 1) return `Channels ${some} turn together: ${words}.${counts}`;
  const [has, wrong] = who[layout];
  return `Channels ${some} turn together: "${layout}" (${has}). Names differ: ${wrong}.${counts}`;
}

/** @type {(found: Rotation, words: Words) => string} */
function rates(found, { names }) {
  const { base, scaling, factor, intervals, trained, alternatives, pairs, rotary_dim: dims, frequencies } = found;
  let first = base === null ? "Base unknown" : `Base ${number(base)}`;
  if (base !== null && intervals.base) first += between(intervals.base);
  let text = scaling === "none" ? "no scaling"
    : scaling === "proportional"
      ? `p-RoPE (proportional): ${pairs.length} of ${Math.floor(dims / 2)} planes turn, with the frequencies of a whole head`
      : scaling === "unknown" ? "a scaling that has no name here" : `${names[scaling] ?? scaling} scaling`;
  if (factor !== null && !["none", "unknown"].includes(scaling) && factor !== 1) {
    text += `, factor ${number(factor)}${between(intervals.factor)}`;
  } else if (scaling === "none" && (intervals.factor ?? [1, 1])[1] === Infinity) text += " in the planes that are seen";
  if (trained) text += `, length in training ${counted(trained)}${between(intervals.trained)}`;
  if (alternatives.length) text += ` (or ${alternatives.join("; or ")}: the frequencies are the same)`;
  const ends = `from ${general(frequencies[0], 4)} to ${general(frequencies[frequencies.length - 1], 4)} radians per position`;
  return `${first}, ${text}; ${dims} channels share the frequencies, ${ends}.`;
}

/** @type {(found: Rotation) => string} */
function rest(found) {
  const { direction, offset, amplitude, rounding, rounded, residual } = found;
  const parts = [];
  if (direction === -1) parts.push("They turn the other way than in published models: a sine has another sign");
  if (direction === 0) parts.push("Some planes turn one way and some the other");
  if (offset) parts.push(`Positions are counted from ${general(offset)}: ${offset > 0 ? "+" : ""}${general(offset)} is added`);
  if (Math.abs(amplitude - 1) > 1e-4) parts.push(`Rotated channels are multiplied by ${general(amplitude, 5)}${rule(found)}`);
  const place = rounded && ` (${rounded})`;
  parts.push(`Rounding: ${rounding}${place}; ${general(residual, 1)} of the vectors stays unexplained`);
  return `${parts.join(". ")}.`;
}

/** What the amplitude is, where a rule gives it. @param {Rotation} found */
function rule({ scaling, factor, amplitude }) {
  if (scaling === "yarn" && factor && Math.abs(amplitude - (0.1 * Math.log(factor) + 1)) < 2e-3) return ", YaRN's 0.1 ln s + 1";
  return scaling === "longrope" ? ", as LongRoPE does" : "";
}

/** @param {Bias} found */
function scheme({ kind, heads, slopes, rule, sign, symmetric, buckets, reach, intervals }) {
  const many = `${heads} head${heads > 1 ? "s" : ""}`;
  if (kind === "none") return "No bias: distances cost nothing.";
  if (kind === "distance") return `A bias of the distance that is neither a line nor T5's steps, ${many}.`;
  if (kind === "unknown") return `A bias that depends on more than the distance, ${many}.`;
  if (kind === "alibi") {
    const some = slopes.slice(0, 4).map((slope) => general(slope, 4)).join(", ") + (heads > 4 ? ", …" : "");
    const way = sign > 0 ? "near keys are favoured" : "FAR keys are favoured: the sign is turned";
    return `ALiBi: ${many} with slopes ${some} (${rule}); ${way}.${symmetric ? " The future costs as much as the past." : ""}`;
  }
  const [low, high] = intervals.reach;
  const wide = low === high ? "" : ` (${low} to ${high} give the same)`;
  return `T5's bias: ${buckets} buckets over ${symmetric ? "both sides" : "the past alone"}, max_distance ${reach}${wide}, ${many}.`;
}

/** Which keys a query sees. @param {Bias} found */
function reach({ chunk, back, ahead, kind }) {
  if (chunk !== null) return `Chunks of ${chunk} tokens, which do not see one another${ahead === 0 ? ", causal" : ""}.`;
  if (back === null && ahead === null) return kind === "none" ? "All keys are seen, before and after." : "";
  if (back === null) return ahead === 0 ? "Causal: all keys up to the query's own are seen." : `${ahead} keys ahead are seen, and all behind.`;
  if (ahead === 0) return `A window of ${back + 1} keys: the query's own and ${back} behind.`;
  return `A window on both sides: ${back} keys behind and ${ahead ?? "all"} ahead.`;
}

/** @param {number} value */
export const number = (value) => (Number.isInteger(value) && Math.abs(value) < 1e15 ? counted(value) : general(value, 7, true));

/** An interval in words, if it is wider than what a reader would take for exact. @param {[number, number]} [interval] */
function between(interval) {
  if (!interval || interval[1] / Math.max(interval[0], 1e-300) < 1.002) return "";
  const end = interval[1] === Infinity ? "any larger number" : general(interval[1], 6, true);
  return ` (from ${general(interval[0], 6, true)} to ${end})`;
}
