// @ts-check
// How each pair turns, as identification/phases.py has it: its angle at each position, and the line through them.

import { Unfit, best, even, folded, largest, least, mean, median, range, sum } from "./numbers.js";

/** @import { Dump } from "./given.js" */
/** @import { Pairs } from "./pairs.js" */

/**
 * Lines of angle against position, a plane each.
 * @typedef {object} Phases
 * @property {number[]} slopes radians per position, with their sign
 * @property {number[]} spread what the slope may be off, three times the standard error
 * @property {number[]} start the angle at position 0, from -π to π
 * @property {number[]} axis which axis of positions turns a plane
 * @property {number[]} gain what lengths are multiplied by
 * @property {number[]} growth by how much the logarithm of the gain grows per position: 0 but for xPos
 * @property {number[]} noise by how much angles miss their line, root mean square, at near positions
 * @property {number} step slopes are known up to 2π over this distance of positions
 */

const WINDOW = 33; // positions, close together, from which a first slope is taken

export const OUT_OF_PLACE =
  "pairs of channels turn, but not in proportion to the positions that were given: are these the positions of these " +
  "rows? Shuffled rows, padding that is not counted, and several axes of which one is given look like this";

const gcd = (/** @type {number} */ a, /** @type {number} */ b) => {
  while (b) [a, b] = [b, a % b];
  return Math.abs(a);
};
const different = (/** @type {number[]} */ sorted) => sorted.filter((x, i) => !i || x !== sorted[i - 1]);

/** Fits a line to the angles of each pair. @type {(dump: Dump, pairs: Pairs) => Phases} */
export function phasesOf(dump, pairs) {
  const { n, d, before, after, places, at } = dump;
  if (places.length < 3) {
    throw new Unfit(`there are ${places.length} different positions: give 3 or more, better 16, to tell rates from offsets`);
  }
  const h = pairs.pairs.length;
  const count = places.length;
  const [re, im, size] = [0, 0, 0].map(() => new Float64Array(count * h));
  for (let row = 0; row < n; row++) {
    const [x, to] = [row * d, at[row] * h];
    for (let t = 0; t < h; t++) {
      const [i, j] = pairs.pairs[t];
      const [a, b, c, s] = [before[x + i], before[x + j], after[x + i], after[x + j]];
      re[to + t] += a * c + b * s;
      im[to + t] += a * s - b * c;
      size[to + t] += a * a + b * b;
    }
  }
  for (let k = 0; k < count * h; k++) {
    const whole = Math.max(size[k], 1e-30);
    re[k] /= whole;
    im[k] /= whole;
  }
  checkRigid(dump, pairs, re, im);
  const { gain, growth } = gains(re, im, places, h);
  const angle = range(count).map((p) => range(h).map((t) => Math.atan2(im[p * h + t], re[p * h + t])));
  const found = range(dump.axes).map((a) => linesOf(angle, places.map((place) => place[a])));
  const axis = range(h).map((t) => best(range(found.length), (a) => found[a].noise[t]));
  /** @type {(name: "slope" | "spread" | "start" | "noise") => number[]} */
  const taken = (name) => axis.map((a, t) => found[a][name][t]);
  const noise = taken("noise");
  if (median(noise) > 0.7) throw new Unfit(OUT_OF_PLACE);
  const step = largest(found.map((each) => each.step));
  return { slopes: taken("slope"), spread: taken("spread"), start: taken("start"), axis, gain, growth, noise, step };
}

/** Each pair is multiplied by one complex number at each position. @type {(dump: Dump, pairs: Pairs, re: Float64Array, im: Float64Array) => void} */
function checkRigid({ n, d, before, after, places, at }, { pairs, words }, re, im) {
  const h = pairs.length;
  /** @type {(c: Float64Array, s: Float64Array, sign: number) => number} what is left of y - z x, or of y - z x̄ */
  const left = (c, s, sign) => {
    const [off, whole] = [new Float64Array(h), new Float64Array(h)];
    for (let row = 0; row < n; row++) {
      for (let t = 0; t < h; t++) {
        const [i, j] = pairs[t];
        const [a, b] = [before[row * d + i], sign * before[row * d + j]];
        const [y, w] = [after[row * d + i], after[row * d + j]];
        const [zc, zs] = [c[at[row] * h + t], s[at[row] * h + t]];
        off[t] += (y - (zc * a - zs * b)) ** 2 + (w - (zc * b + zs * a)) ** 2;
        whole[t] += y * y + w * w;
      }
    }
    return median(off.map((x, t) => x / Math.max(whole[t], 1e-30)));
  };
  if (left(re, im, 1) < 0.02) return;
  const [c, s, size] = [0, 0, 0].map(() => new Float64Array(places.length * h));
  for (let row = 0; row < n; row++) {
    for (let t = 0; t < h; t++) {
      const [i, j] = pairs[t];
      const [a, b, y, w] = [before[row * d + i], before[row * d + j], after[row * d + i], after[row * d + j]];
      const to = at[row] * h + t;
      c[to] += a * y - b * w;
      s[to] += a * w + b * y;
      size[to] += a * a + b * b;
    }
  }
  for (let k = 0; k < size.length; k++) {
    c[k] /= Math.max(size[k], 1e-30);
    s[k] /= Math.max(size[k], 1e-30);
  }
  if (left(c, s, -1) < 0.02) {
    throw new Unfit(
      "pairs are mirrored and not turned: (a, b) becomes (a cos + b sin, a sin - b cos). One sign is wrong: " +
        "use (a cos - b sin, a sin + b cos)",
    );
  }
  throw new Unfit(
    `this is no rotation, though channels act in pairs (${words}): the two channels of a pair are multiplied ` +
      "by cosines of different angles. Cosines are arranged for one layout and partners for the other: with " +
      "partners half a head apart use cat((angle, angle), -1), with neighbours repeat_interleave(angle, 2, -1)",
  );
}

/** The gain of each plane at position 0, and the growth of its logarithm. @type {(re: Float64Array, im: Float64Array, places: number[][], h: number) => { gain: number[], growth: number[] }} */
function gains(re, im, places, h) {
  const first = places.map(([p]) => p);
  const middle = mean(first);
  const p = first.map((x) => x - middle);
  const square = Math.max(sum(p.map((x) => x * x)), 1e-30);
  const span = largest(first) - least(first);
  const planes = range(h).map((t) => {
    const size = p.map((_, k) => (re[k * h + t] ** 2 + im[k * h + t] ** 2) ** 0.5);
    const log = size.map((x) => Math.log(Math.max(x, 1e-12)));
    const growth = sum(p.map((x, k) => x * log[k])) / square;
    const level = mean(log);
    const rms = mean(log.map((x, k) => (x - level - growth * p[k]) ** 2)) ** 0.5;
    const change = Math.abs(growth) * span;
    const steady = change < 10 * rms + 1e-9 || (change < 6e-3 && rms > 1e-5); // tables of 16 bits drift, too
    return { size: mean(size), level, growth, steady };
  });
  const all = planes.filter(({ steady }) => !steady).length / h < 0.25;
  return {
    growth: planes.map(({ growth, steady }) => (all || steady ? 0 : growth)),
    gain: planes.map(({ size, level, growth, steady }) => (all || steady ? size : Math.exp(level - growth * middle))),
  };
}

/** The lines through angles (P, h) that are known up to 2π. @type {(angle: number[][], pos: number[]) => { slope: number[], spread: number[], start: number[], noise: number[], step: number }} */
function linesOf(angle, pos) {
  const order = range(pos.length).sort((a, b) => pos[a] - pos[b]);
  const [p, a] = [order.map((k) => pos[k]), order.map((k) => angle[k])];
  const h = a[0].length;
  const places = different(p);
  if (places.length < 2) {
    const start = range(h).map((t) => mean(a.map((row) => row[t])));
    return { slope: Array(h).fill(0), spread: Array(h).fill(Infinity), start, noise: Array(h).fill(9), step: Infinity };
  }
  const gap = least(places.slice(1).map((x, k) => x - places[k]));
  const [begin, end] = densest(p, gap);
  const step = stepOf(different(p.slice(begin, end)));
  const inside = p.map((_, k) => k >= begin && k < end);
  let line = refined(a, p, inside, coarse(a.slice(begin, end), p.slice(begin, end), step));
  const quiet = line.noise;
  while (inside.includes(false)) {
    const mine = p.filter((_, k) => inside[k]);
    const centre = mean(mine);
    const { spread, slope } = line;
    const reach = least(spread.map((s, t) => 0.8 / (s + 1e-15 + 2e-16 * Math.abs(slope[t]))));
    const nearest = least(p.filter((_, k) => !inside[k]).map((x) => Math.abs(x - centre)));
    if (nearest > reach) break;
    const width = Math.max(nearest, Math.min(reach, 4 * largest(mine.map((x) => Math.abs(x - centre)))));
    p.forEach((x, k) => {
      inside[k] ||= Math.abs(x - centre) <= width;
    });
    line = refined(a, p, inside, line.slope);
  }
  return { ...line, noise: quiet, step };
}

/** Positions from which a first slope is taken: as many as follow one another with few gaps. @type {(p: number[], gap: number) => [number, number]} */
function densest(p, gap) {
  let [begin, width] = [0, 2];
  for (const count of [WINDOW, 24, 16, 12, 8, 6, 4, 3]) {
    if (count > p.length && count > 3) continue;
    width = Math.min(count, p.length) - 1;
    const spans = range(p.length - width).map((k) => p[k + width] - p[k] || Infinity);
    begin = spans.indexOf(least(spans));
    if (begin < 0) throw new Unfit(OUT_OF_PLACE);
    if (spans[begin] <= 3 * width * gap || count === 3) break;
  }
  return [begin, begin + width + 1];
}

/** The distance of which all distances are multiples, if they are whole; else the least one. @param {number[]} p */
function stepOf(p) {
  const gaps = p.slice(1).map((x, k) => x - p[k]);
  if (gaps.every((gap) => Math.abs(gap - even(gap)) < 1e-9)) return gaps.map(even).reduce(gcd, 0);
  return least(gaps);
}

/** The slopes at which angles agree best, from -π/step to π/step. @type {(a: number[][], p: number[], step: number) => number[]} */
function coarse(a, p, step) {
  const span = p[p.length - 1] - p[0];
  const count = Math.floor((8 * span) / step) + 9;
  if (count > 200_000) {
    throw new Unfit("positions are too far from one another to tell how often pairs turned between: give 8 that follow");
  }
  const h = a[0].length;
  const [c, s] = [Math.cos, Math.sin].map((f) => a.map((row) => row.map(f)));
  const slope = Array(h).fill(0);
  const most = Array(h).fill(-Infinity);
  const end = Math.PI / step;
  for (let k = 0; k < count; k++) {
    const w = 2 * k < count ? -end + ((2 * end) / (count - 1)) * k : end - ((2 * end) / (count - 1)) * (count - 1 - k);
    const [zc, zs] = [p.map((x) => Math.cos(w * x)), p.map((x) => -Math.sin(w * x))];
    for (let t = 0; t < h; t++) {
      let [re, im] = [0, 0];
      for (let i = 0; i < p.length; i++) {
        re += zc[i] * c[i][t] - zs[i] * s[i][t];
        im += zc[i] * s[i][t] + zs[i] * c[i][t];
      }
      const size = (re * re + im * im) ** 0.5;
      if (size > most[t]) [most[t], slope[t]] = [size, w];
    }
  }
  return slope;
}

/** Least squares around slopes that are nearly right. @type {(a: number[][], p: number[], inside: boolean[], slope: number[]) => { slope: number[], spread: number[], start: number[], noise: number[] }} */
function refined(a, p, inside, slope) {
  const rows = range(p.length).filter((k) => inside[k]);
  const centre = mean(rows.map((k) => p[k]));
  const x = rows.map((k) => p[k] - centre);
  const square = sum(x.map((v) => v * v));
  const edge = 1e-15 / largest(x.map((v) => Math.abs(v)));
  const free = Math.max(rows.length - 2, 1);
  const lines = slope.map((first, t) => {
    const b = rows.map((k) => a[k][t]);
    let [w, middle, change] = [first, 0, 0];
    /** @type {number[]} */
    let left = [];
    for (let turn = 0; turn < 3; turn++) {
      const rest = b.map((v, k) => v - w * x[k]);
      middle = Math.atan2(mean(rest.map(Math.sin)), mean(rest.map(Math.cos)));
      left = rest.map((v) => folded(v - middle));
      change = sum(left.map((v, k) => x[k] * v)) / square;
      w += change;
    }
    const level = mean(left);
    left = left.map((v, k) => v - change * x[k] - level);
    const squares = sum(left.map((v) => v * v));
    return {
      slope: w,
      noise: (squares / left.length) ** 0.5,
      spread: 3 * (squares / free / square) ** 0.5 + edge,
      start: folded(middle + mean(left) - w * centre),
    };
  });
  const all = (/** @type {"slope" | "spread" | "start" | "noise"} */ name) => lines.map((line) => line[name]);
  return { slope: all("slope"), spread: all("spread"), start: all("start"), noise: all("noise") };
}

/** Slopes beyond π/step: where slow planes are a geometric series, fast ones are taken to go on with it. @param {Phases} phases */
export function unfolded({ slopes: w, spread, step }) {
  const h = w.length;
  const slow = range(h).filter((t) => t >= h >> 1);
  const f = w.map((x) => Math.log(Math.max(Math.abs(x), 1e-300)));
  if (slow.length < 3 || slow.some((t) => Math.abs(w[t]) < 3 * spread[t])) return w;
  const [centre, level] = [mean(slow), mean(slow.map((t) => f[t]))];
  const fall = sum(slow.map((t) => (t - centre) * f[t])) / sum(slow.map((t) => (t - centre) ** 2));
  const line = f.map((_, t) => level + fall * (t - centre));
  if (largest(slow.map((t) => Math.abs(line[t] - f[t]))) > 1e-2) return w;
  const turn = (2 * Math.PI) / step;
  const sign = Math.sign(w[h - 1]);
  return w.map((x, t) => x + turn * even((Math.exp(line[t]) * sign - x) / turn));
}

/** What is added to positions, and by how much the starts of the planes miss it. @param {Phases} phases @returns {[number, number]} */
export function offsetOf({ slopes: w, start, noise, spread }) {
  const weight = noise.map((x) => 1 / (x + 1e-6));
  const whole = sum(weight);
  const misfit = (/** @type {number} */ o) => sum(w.map((x, t) => weight[t] * Math.abs(folded(start[t] - x * o)))) / whole;
  const guesses = [0];
  for (let k = 1; k < 65; k++) guesses.push(k, -k);
  guesses.push(0.5, -0.5);
  const seen = range(w.length).filter((t) => Math.abs(w[t]) > 10 * spread[t]);
  if (seen.length) {
    const slow = best(seen, (t) => Math.abs(w[t]));
    guesses.push(start[slow] / w[slow]);
  }
  let found = best(guesses, misfit);
  for (const width of [0.5, 0.05, 0.005]) {
    if (misfit(found) < 1e-6) break;
    const finer = best(range(41).map((k) => found + (width * (k - 20)) / 20), misfit);
    found = misfit(finer) < 0.5 * misfit(found) ? finer : found;
  }
  return [found, misfit(found)];
}
