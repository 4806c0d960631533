// @ts-check
// What rotation is this? posenc.audit.identify for a dump, where no Python runs; the tests ask both about the same files.

import { dumps } from "./given.js";
import { Unfit, general, largest, mean, median, range, rounded } from "./numbers.js";
import { pairsOf } from "./pairs.js";
import { OUT_OF_PLACE, offsetOf, phasesOf, unfolded } from "./phases.js";
import { roundingOf } from "./roundings.js";
import { UNKNOWN, digits, explained, nice } from "./scalings.js";

/** @import { Dump } from "./given.js" */
/** @import { Numbers } from "./numbers.js" */
/** @import { Pairs } from "./pairs.js" */
/** @import { Phases } from "./phases.js" */
/** @import { Intervals, Scaling } from "./scalings.js" */

/**
 * A rotation that was recognised; the fields are those of Python's FoundRotation.
 * @typedef {object} Rotation
 * @property {number} dim
 * @property {string} layout
 * @property {[number, number][]} pairs
 * @property {number} rotary_dim
 * @property {number[]} frequencies
 * @property {number | null} base
 * @property {string} scaling
 * @property {number | null} factor
 * @property {number} offset
 * @property {number} direction
 * @property {number} amplitude
 * @property {string} rounding
 * @property {string} rounded
 * @property {number} residual
 * @property {number | null} trained
 * @property {number} growth
 * @property {number[]} axes
 * @property {string} heads
 * @property {string} words
 * @property {Intervals} intervals
 * @property {string[]} alternatives
 * @property {string[]} notes
 */

/** The reading of a dump that leaves least unexplained. @type {(before: Numbers, after: Numbers, positions: Numbers, heads?: string | null) => Rotation} */
export function identify(before, after, positions, heads = null) {
  /** @type {Rotation[]} */
  const found = [];
  /** @type {Error | undefined} */
  let problem;
  for (const dump of dumps(before, after, positions, heads)) {
    try {
      found.push(rotationOf(dump));
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      problem ??= error;
    }
  }
  if (!found.length) throw problem;
  found.sort((a, b) => a.residual - b.residual);
  const [first, second] = found;
  if (second && second.residual < 3 * first.residual + 1e-12 && String(first.frequencies) !== String(second.frequencies)) {
    throw new Unfit('tokens could be either axis: say heads="first" for (B, H, L, d) or heads="last" for (B, L, H, d)');
  }
  return first;
}

/** @param {Dump} dump @returns {Rotation} */
function rotationOf(dump) {
  const seen = pairsOf(dump);
  const lines = phasesOf(dump, seen);
  if (lines.step > 1 && Number.isFinite(lines.step) && seen.layout !== "other") lines.slopes = unfolded(lines);
  const found = told(dump, seen, lines);
  if (found.residual > 0.3) throw new Unfit(OUT_OF_PLACE);
  return found;
}

/** @type {(dump: Dump, seen: Pairs, lines: Phases) => Rotation} */
function told(dump, seen, lines) {
  const { d } = dump;
  /** @type {string[]} */
  const notes = [];
  const length = lines.slopes.map(Math.abs);
  const visible = length.map((x, t) => x > 3 * lines.spread[t]);
  const shown = range(length.length).filter((t) => visible[t]);
  if (!shown.length) {
    throw new Unfit("channels turn by the same angle at every position: positions are not read, or all rows have one position");
  }
  const signs = new Set(shown.map((t) => Math.sign(lines.slopes[t])));
  const direction = signs.size === 1 ? [...signs][0] : 0;
  let order = range(length.length);
  const oneAxis = new Set(shown.map((t) => lines.axis[t])).size === 1;
  if (seen.layout === "other") order.sort((a, b) => length[b] - length[a]);
  else if (oneAxis && shown.length > 1 && shown.slice(1).every((t, k) => length[t] > length[shown[k]])) {
    order = order.reverse();
    notes.push("The slowest pair comes first: published models have the fastest first");
  }
  const [size, spread] = [order.map((t) => length[t]), order.map((t) => lines.spread[t])];
  let [offset, miss] = offsetOf(lines);
  const quiet = median(shown.map((t) => lines.noise[t]));
  const far = range(dump.axes).map((a) => mean(range(dump.n).map((row) => Math.abs(dump.positions[row * dump.axes + a]))));
  const open = (/** @type {number} */ t) => 2 * (lines.spread[t] * far[lines.axis[t]] + lines.noise[t]) + 1e-12;
  if (shown.every((t) => Math.abs(lines.start[t]) <= open(t))) [offset, miss] = [0, 0]; // within what far positions leave open
  const strange = miss > Math.max(30 * quiet, 1e-3);
  if (strange) {
    notes.push("At position 0 the planes stand at angles that no single offset explains: phases of their own?");
    offset = 0;
  } else if (Math.abs(offset) <= Math.max(1e-4, 3 * Math.min(...shown.map((t) => lines.spread[t] / length[t])))) offset = 0;
  const grows = lines.growth.some((x) => x !== 0);
  let [amplitude, growth] = lengths(lines, shown, grows, quiet, notes);
  const part = scaled(d, seen, order.map((t) => seen.pairs[t]), size, spread, order.map((t) => visible[t]), amplitude, lines, order, notes);
  const { chosen, rotary, named } = part;
  const count = chosen.length;
  if (named.kind === "yarn" && named.factor) {
    const rule = 0.1 * Math.log(named.factor) + 1;
    if (Math.abs(amplitude - rule) < Math.max(quiet, 1e-6)) amplitude = rule;
  }
  const ideal = size.map((x, k) => (k >= count ? 0 : (named.ideal?.[k] ?? x)));
  const signed = Array(size.length).fill(0);
  order.forEach((t, k) => {
    signed[t] = ideal[k] * (visible[t] ? Math.sign(lines.slopes[t]) : direction || 1);
  });
  const residual = residualOf(dump, seen, lines);
  const [rounding, what] = grows || strange ? ["unknown", ""]
    : roundingOf(dump, seen.pairs, signed, lines.axis, offset, amplitude, residual);
  if (Number.isFinite(lines.step) && lines.step > 1) {
    const step = general(lines.step);
    notes.push(`Positions are ${step} apart, so angles per position are known up to 2π/${step} only`);
  }
  return {
    dim: d, layout: seen.layout, pairs: chosen, rotary_dim: rotary, frequencies: size.slice(0, count), base: named.base,
    scaling: named.kind, factor: named.factor, offset, direction, amplitude, rounding, rounded: what, residual,
    trained: named.trained, growth, axes: dump.axes > 1 ? order.map((t) => lines.axis[t]).slice(0, count) : [],
    heads: dump.heads, words: seen.words, intervals: named.intervals, alternatives: named.alternatives,
    notes: [...new Set([...notes, ...named.notes])],
  };
}

/** What rotated channels are multiplied by, and by how much that grows per position. @type {(lines: Phases, shown: number[], grows: boolean, quiet: number, notes: string[]) => [number, number]} */
function lengths(lines, shown, grows, quiet, notes) {
  const gains = shown.map((t) => lines.gain[t]);
  const amplitude = median(gains);
  let growth = 0;
  if (grows) {
    growth = lines.growth[shown[0]];
    notes.push("Lengths change with the position, plane by plane: xPos; keys have the inverse");
  } else if (largest(gains.map((gain) => Math.abs(gain - amplitude))) > 0.02 * amplitude) {
    notes.push("Planes are multiplied by different numbers: a norm or a gain lies between before and after?");
  }
  return [Math.abs(amplitude - 1) < Math.max(1e-6, quiet) ? 1 : amplitude, growth];
}

/**
 * The pairs that turn, the channels that share the frequencies, and what explains these.
 * @type {(d: number, seen: Pairs, chosen: [number, number][], size: number[], spread: number[], visible: boolean[], amplitude: number, lines: Phases, order: number[], notes: string[]) => { chosen: [number, number][], rotary: number, named: Scaling }}
 */
function scaled(d, seen, chosen, size, spread, visible, amplitude, lines, order, notes) {
  const turning = range(size.length).filter((t) => Math.abs(lines.slopes[t]) > 3 * lines.spread[t]);
  const noisy = median(turning.map((t) => lines.noise[t])) > 1e-4;
  const axis = order.map((t) => lines.axis[t]);
  const planes = chosen.length;
  /** @type {(count: number, dims: number) => Scaling} */
  const first = (count, dims) => named(size.slice(0, count), spread.slice(0, count), dims, amplitude, noisy);
  if (new Set(axis.filter((_, k) => visible[k])).size > 1) {
    return { chosen, rotary: 2 * planes, named: byAxis(size, spread, visible, axis, amplitude, noisy, notes) };
  }
  const last = visible.lastIndexOf(true) + 1;
  if (seen.layout === "other") {
    const part = sorted(size.slice(0, last), spread.slice(0, last));
    return { chosen: chosen.slice(0, last), rotary: 2 * last, named: named(...part, 2 * last, amplitude, noisy) };
  }
  if (last === planes) return { chosen, rotary: 2 * planes, named: first(planes, 2 * planes) };
  const step = last > 1 ? (size[last - 1] / size[0]) ** (1 / (last - 1)) : 0;
  const hidden = size[last - 1] * step < 5 * spread[last]; // whether the next plane could be seen to turn
  if (seen.layout === "half") {
    if (hidden) return { chosen, rotary: 2 * planes, named: first(planes, 2 * planes) };
    const found = first(last, 2 * planes);
    notes.push(`Partners are ${planes} channels apart, and ${planes - last} slower planes stand still`);
    const whole = ["none", "linear", "ntk"].includes(found.kind)
      ? { ...found, kind: "proportional", factor: found.kind === "linear" ? found.factor : 1 } : found;
    return { chosen: chosen.slice(0, last), rotary: 2 * planes, named: whole };
  }
  if (hidden) {
    /** @type {[number, Scaling][]} */
    const read = [];
    for (let w = 2 * planes; w >= 2 * last; w -= 2) if (w === 2 * planes || d % w === 0) read.push([w, first(w / 2, w)]);
    const [width, found] = read.find(([, { base }]) => base && digits(base) <= 2 && base <= 2e7) ?? read[0];
    notes.push(
      `Channels from ${chosen[last - 1][1] + 1} on may turn, too slowly to be seen between these positions: ` +
        `rotary_dim is ${2 * last} or more, and the base goes with it`,
    );
    const intervals = { ...found.intervals, rotary_dim: /** @type {[number, number]} */ ([2 * last, 2 * planes]) };
    return { chosen: chosen.slice(0, width / 2), rotary: width, named: { ...found, intervals } };
  }
  const found = first(last, 2 * last);
  if (found.base && found.kind === "none") {
    const power = planes / last;
    const whole = found.base ** power;
    if (digits(Number(whole.toExponential(5))) <= 2 && digits(found.base) > 2) {
      const [low, high] = found.intervals.base.map((edge) => edge ** power);
      const base = nice(whole, low, high);
      return { chosen: chosen.slice(0, last), rotary: 2 * planes, named: { ...found, base, kind: "proportional", intervals: { base: [low, high] } } };
    }
    notes.push(
      `The same frequencies come from p-RoPE over all ${2 * planes} channels with base ${general(whole, 6, true)}: with ` +
        "neighbours as partners the two cannot be told apart",
    );
  }
  return { chosen: chosen.slice(0, last), rotary: 2 * last, named: found };
}

/**
 * What explains frequencies that several axes share out, or of which each has its own.
 * @type {(size: number[], spread: number[], visible: boolean[], axis: number[], amplitude: number, noisy: boolean, notes: string[]) => Scaling}
 */
function byAxis(size, spread, visible, axis, amplitude, noisy, notes) {
  const whole = named(size, spread, 2 * size.length, amplitude, noisy);
  const planesOf = (/** @type {number} */ a) => range(size.length).filter((k) => axis[k] === a && visible[k]);
  if (whole.base !== null) {
    const counts = range(largest(axis) + 1).map((a) => planesOf(a).length).join(", ");
    notes.push(`One list of frequencies, shared out among the axes, as in M-RoPE: ${counts} planes`);
    return whole;
  }
  const used = [...new Set(axis.filter((_, k) => visible[k]))].sort((a, b) => a - b);
  const read = used.map((a) => {
    const mine = planesOf(a);
    return named(...sorted(mine.map((k) => size[k]), mine.map((k) => spread[k])), 2 * mine.length, amplitude, noisy);
  });
  notes.push(used.map((a, k) => {
    const { base } = read[k];
    return `axis ${a} turns ${planesOf(a).length} planes${base ? `, base ${general(base, 6, true)}` : ""}`;
  }).join("; "));
  const key = (/** @type {Scaling} */ { kind, base, factor }) => `${kind} ${base} ${factor}`;
  return read.every((one) => key(one) === key(read[0])) ? { ...read[0], ideal: null } : UNKNOWN;
}

/** @type {(size: number[], spread: number[]) => [number[], number[]]} */
function sorted(size, spread) {
  const order = range(size.length).sort((a, b) => size[b] - size[a]);
  return [order.map((k) => size[k]), order.map((k) => spread[k])];
}

/** The family of frequencies, also where they, or the angles, are rounded to 16 bits. @type {(size: number[], spread: number[], dims: number, amplitude: number, noisy: boolean) => Scaling} */
function named(size, spread, dims, amplitude, noisy) {
  const found = explained(size, spread, dims, amplitude);
  if (!["unknown", "yarn", "llama3"].includes(found.kind) || size.length < 3) return found;
  if (noisy) { // rounding of angles is no white noise, and slopes are a little off
    for (const floor of [3e-4, 1e-3, 4e-3]) {
      const coarse = explained(size, spread, dims, amplitude, floor);
      if (["none", "linear"].includes(coarse.kind)) return coarse;
      if (coarse.kind !== "unknown" && floor < 4e-3 && (coarse.factor || 0) > 1.2) return coarse;
    }
  }
  if (found.kind !== "unknown") return found;
  for (const [floor, dtype] of /** @type {[number, string][]} */ ([[6e-4, "float16"], [4.5e-3, "bfloat16"]])) {
    const coarse = explained(size, spread, dims, amplitude, floor);
    const { ideal } = coarse;
    if (!ideal) continue;
    const near = size.filter((x, k) => Math.abs(x - rounded[dtype](ideal[k])) <= 3 * spread[k] + 2e-6 * x);
    if (near.length / size.length > 0.9) return { ...coarse, notes: [...coarse.notes, `Frequencies are rounded to ${dtype}`] };
  }
  return found;
}

/** What the fitted lines leave unexplained. @type {(dump: Dump, seen: Pairs, lines: Phases) => number} */
function residualOf({ n, d, before, after, positions, axes }, { pairs }, { axis, gain, growth, slopes, start }) {
  let [off, whole] = [0, 0];
  for (let row = 0; row < n; row++) {
    for (let t = 0; t < pairs.length; t++) {
      const [i, j] = pairs[t];
      const p = positions[row * axes + axis[t]];
      const size = gain[t] * Math.exp(growth[t] * p);
      const angle = p * slopes[t] + start[t];
      const [c, s] = [size * Math.cos(angle), size * Math.sin(angle)];
      const [a, b, y, w] = [before[row * d + i], before[row * d + j], after[row * d + i], after[row * d + j]];
      off += (y - (c * a - s * b)) ** 2 + (w - (c * b + s * a)) ** 2;
      whole += y * y + w * w;
    }
  }
  return (off / Math.max(whole, 1e-30 * n * pairs.length)) ** 0.5;
}
