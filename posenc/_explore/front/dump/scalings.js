// @ts-check
// Which base, and which scaling, as identification/scalings.py has it: the simplest family that has these frequencies.

import { even, exponential, general, largest, mean, range, sum } from "./numbers.js";

/** @typedef {Record<string, [number, number]>} Intervals */
/**
 * What explains a list of frequencies.
 * @typedef {object} Scaling
 * @property {string} kind
 * @property {number | null} base
 * @property {number | null} factor
 * @property {number[] | null} ideal the frequencies that it should have; null where nothing explains them
 * @property {number | null} trained
 * @property {Intervals} intervals
 * @property {string[]} alternatives
 * @property {string[]} notes
 */

const ROUND_BASES = [10_000, 500_000, 1_000_000, 100_000, 50_000, 150_000, 5_000_000, 10_000_000, 100];
const FULL_TURN = 2 * Math.PI;
const TRAINED = [...new Set(range(13).flatMap((k) => [1, 3, 5].map((n) => n * 2 ** (k + 8))))].sort((a, b) => a - b);

/** @type {(kind: string, base?: number | null, factor?: number | null, ideal?: number[] | null, more?: Partial<Scaling>) => Scaling} */
const scaling = (kind, base = null, factor = null, ideal = null, more = {}) =>
  ({ kind, base, factor, ideal, trained: null, intervals: {}, alternatives: [], notes: [], ...more });

export const UNKNOWN = scaling("unknown");

/** The number with the fewest digits in an interval around a value. @type {(value: number, low: number, high: number) => number} */
export function nice(value, low, high) {
  if (!Number.isFinite(value)) return value;
  for (let figures = 1; figures < 13; figures++) {
    const rounded = Number(exponential(value, figures - 1));
    if (low <= rounded && rounded <= high) return rounded;
  }
  return value;
}

/** How many digits a number has, without zeros at its end. @param {number} value */
export const digits = (value) => exponential(value, 12).split("e")[0].replace(/0+$/, "").replace(".", "").length;

/**
 * The simplest family that has frequencies, fastest first, with what each may be off.
 * @type {(freq: number[], spread: number[], dims: number, amplitude?: number, floor?: number) => Scaling}
 */
export function explained(freq, spread, dims, amplitude = 1, floor = 3e-7) {
  const t = range(freq.length);
  const tol = freq.map((f, k) => spread[k] / f + floor);
  const seen = tol.map((x) => x < 0.3);
  const k = t.filter((i) => seen[i]);
  const n = k.length;
  if (!n) return scaling("unknown", null, null, null, { notes: ["no plane turns by more than rounding"] });
  const [f, w] = [k.map((i) => Math.log(freq[i])), k.map((i) => tol[i])];
  const unseen = freq.length - n;
  if (n === 1) return onePlane(freq, spread, dims, tol);
  if ((n === 2 && freq.length === 2) || n > 2 || unseen) {
    const found = geometric(f, k, w, dims, t);
    if (found) return hidden(found, n, unseen);
  }
  const found = ramp(freq, t, seen, tol, dims, amplitude);
  if (found) return hidden(found, n, unseen);
  const bound = Math.exp(-largest(f.slice(1).map((x, i) => (x * dims) / (2 * k[i + 1]))));
  return scaling("unknown", null, null, null, {
    intervals: { base: [1, nice(bound, bound * (1 - 1e-4), bound * (1 + 1e-4))] },
    notes: ["each plane has a divisor of its own, as in LongRoPE: frequencies alone do not tell the base from the " +
      "divisors; if no divisor is below 1, the base is at most the end of its interval"],
  });
}

/** With what planes may hide that turn too slowly to be seen. @type {(found: Scaling, n: number, unseen: number) => Scaling} */
function hidden(found, n, unseen) {
  if (!unseen) return found;
  const note =
    `${unseen} of ${n + unseen} planes turn too little between these positions to be seen: a scaling of slow planes ` +
    "alone, as in YaRN and Llama 3, cannot be excluded; farther positions show it";
  /** @type {Intervals} */
  const open = found.kind === "none" ? { factor: [1, Infinity] } : {};
  return { ...found, intervals: { ...open, ...found.intervals }, notes: [...found.notes, note] };
}

/** @type {(freq: number[], spread: number[], dims: number, tol: number[]) => Scaling} */
function onePlane(freq, spread, dims, tol) {
  const first = freq[0];
  const error = freq[0] * tol[0];
  const slowest = freq.length > 1 ? freq[1] + spread[1] : 0;
  const factor = nice(1 / first, 1 / (first + error), 1 / Math.max(first - error, 1e-300));
  const kind = Math.abs(first - 1) <= error ? "none" : "linear";
  const low = slowest > 0 && slowest < 1 ? slowest ** (-dims / 2) : 1;
  return scaling(kind, null, kind === "none" ? 1 : factor, null, {
    intervals: { base: [low, Infinity] }, notes: ["one plane is seen to turn, and a base takes two"],
  });
}

/**
 * The weighted line f = a - c k, and what a and c may be off; through a = 0 if `origin`.
 * @type {(f: number[], k: number[], w: number[], origin?: boolean) => [number, number, number, number]}
 */
function fit(f, k, w, origin = false) {
  const g = w.map((x) => x ** -2);
  const total = (/** @type {(i: number) => number} */ of) => sum(g.map((x, i) => x * of(i)));
  const [m0, m1, m2] = [total(() => 1), total((i) => k[i]), total((i) => k[i] * k[i])];
  const [y0, y1] = [total((i) => f[i]), total((i) => k[i] * f[i])];
  if (origin) return [0, -y1 / Math.max(m2, 1e-300), 0, 2 / Math.max(m2, 1e-300) ** 0.5];
  const det = Math.max(m0 * m2 - m1 * m1, 1e-300);
  return [(m2 * y0 - m1 * y1) / det, (m1 * y0 - m0 * y1) / det, 2 * (m2 / det) ** 0.5, 2 * (m0 / det) ** 0.5];
}

/** No scaling, NTK or linear; null if frequencies are no geometric series. @type {(f: number[], k: number[], w: number[], dims: number, t: number[]) => Scaling | null} */
function geometric(f, k, w, dims, t) {
  const [, c0, , dc0] = fit(f, k, w, true);
  if (f.every((x, i) => Math.abs(x + c0 * k[i]) <= w[i] * 1.5)) return plain(c0, dc0, dims, t);
  const [a, c, da, dc] = fit(f, k, w);
  if (!f.every((x, i) => Math.abs(x - a + c * k[i]) <= w[i] * 1.5)) return null;
  const [base, interval] = baseOf(c, dc, dims);
  const factor = nice(Math.exp(-a), Math.exp(-a - da), Math.exp(-a + da));
  const notes = f.length === 2 ? ["two planes are seen: any base goes with some scaling of them, and the simplest reading is given"] : [];
  return scaling("linear", base, factor, t.map((i) => base ** ((-2 * i) / dims) / factor), {
    intervals: { base: interval, factor: [Math.exp(-a - da), Math.exp(-a + da)] }, notes,
  });
}

/** @type {(c: number, dc: number, dims: number) => [number, [number, number]]} */
function baseOf(c, dc, dims) {
  const at = (/** @type {number} */ x) => Math.exp(Math.min((x * dims) / 2, 700));
  const [low, high] = [at(c - dc), at(c + dc)];
  return [nice(at(c), low, high), [low, high]];
}

/** @type {(c: number, dc: number, dims: number, t: number[]) => Scaling} */
function plain(c, dc, dims, t) {
  const [base, interval] = baseOf(c, dc, dims);
  const planes = Math.floor(dims / 2);
  if (planes > 1 && digits(base) > 3) {
    for (const round of ROUND_BASES) {
      const [low, high] = interval.map((edge) => (edge / round) ** ((dims - 2) / dims));
      const factor = nice((low * high) ** 0.5, low, high);
      if (factor > 1.01 && low <= factor && factor <= high && Math.abs(factor * 4 - even(factor * 4)) < 1e-9 && factor <= 1024) {
        const said = general(base, 6, true);
        return scaling("ntk", round, factor, t.map((i) => round ** ((-2 * i) / dims) / factor ** (i / (planes - 1))), {
          intervals: { base: [round, interval[1]], factor: [1, high] },
          alternatives: [`none, with base ${said}`],
          notes: [`NTK-aware scaling is another base: these frequencies are those of base ${said}`],
        });
      }
    }
  }
  return scaling("none", base, 1, t.map((i) => base ** ((-2 * i) / dims)), { intervals: { base: interval } });
}

/** Fast planes stay and slow ones are divided: Llama 3 and YaRN. @type {(freq: number[], t: number[], seen: boolean[], tol: number[], dims: number, amplitude: number) => Scaling | null} */
function ramp(freq, t, seen, tol, dims, amplitude) {
  const f = freq.map(Math.log);
  const last = seen.lastIndexOf(true);
  if (seen.slice(0, last + 1).includes(false)) return null;
  let [c, dc, stay] = [0, 0, last]; // how many planes beside the first stay as they are
  for (; stay > 0; stay--) {
    [, c, , dc] = fit(f.slice(1, stay + 1), t.slice(1, stay + 1), tol.slice(1, stay + 1), true);
    if (range(stay + 1).every((i) => Math.abs(f[i] + c * t[i]) <= 1.5 * tol[i])) break;
  }
  if (!stay) {
    const slow = slowSlope(f, t, tol, last);
    if (!slow) return null;
    [c, dc] = slow;
  }
  if (stay === last || Math.abs(f[0]) > 1.5 * tol[0]) return null;
  const [base, interval] = baseOf(c, dc, dims);
  if (base < 1.01) return null;
  const p = t.map((i) => base ** ((-2 * i) / dims));
  const ratio = range(last + 1).map((i) => freq[i] / p[i]);
  const doubt = digits(base) <= 3 ? 0 : Math.log(interval[1] / interval[0]) / dims;
  const error = range(last + 1).map((i) => tol[i] + doubt * t[i]);
  if (ratio[last] > 1 + error[last] || range(last).some((i) => ratio[i + 1] - ratio[i] > 3 * (error[i + 1] + error[i]))) return null;
  let flat = 1;
  while (flat < last && Math.abs(ratio[last - flat] / ratio[last] - 1) <= 3 * (error[last - flat] + error[last])) flat++;
  const slow = range(last + 1).slice(last + 1 - flat);
  const weight = slow.map((i) => 1 / error[i] ** 2);
  const level = sum(slow.map((i, k) => ratio[i] * weight[k])) / sum(weight);
  const wrong = 3 * sum(weight) ** -0.5 + 1e-9 * level;
  const [low, high] = [1 / (level + wrong * level), 1 / Math.max(level - wrong * level, 1e-300)];
  const factor = nice(1 / level, low, high);
  if (factor < 1.05) return null;
  /** @type {Intervals} */
  const intervals = { base: interval, factor: [low, flat === 1 && last - stay > 1 ? Infinity : high] }; // the ramp may go on
  const share = ratio.map((r) => Math.min(Math.max((r - 1 / factor) / (1 - 1 / factor), -1), 2));
  const slack = error.map((e) => (3 * e) / (1 - 1 / factor) + 1e-6);
  const inner = range(last + 1).filter((i) => share[i] > slack[i] && share[i] < 1 - slack[i]);
  return namedRamp({ p, t, share, slack, inner, base, factor, dims, intervals, amplitude, stay, last });
}

/** The fall of the slow planes, where no two fast ones stay as they are. @type {(f: number[], t: number[], tol: number[], last: number) => [number, number] | null} */
function slowSlope(f, t, tol, last) {
  for (let begin = 1; begin < last - 1; begin++) {
    const part = range(last + 1).slice(begin);
    const [a, c, , dc] = fit(part.map((i) => f[i]), part.map((i) => t[i]), part.map((i) => tol[i]));
    if (part.every((i) => Math.abs(f[i] - a + c * t[i]) <= 1.5 * tol[i])) return [c, dc];
  }
  return null;
}

/** @typedef {{ p: number[], t: number[], share: number[], slack: number[], inner: number[], base: number, factor: number, dims: number, intervals: Intervals, amplitude: number, stay: number, last: number }} Ramp */

/** YaRN or Llama 3, by the form of the ramp and the length in training that it implies. @param {Ramp} ramp @returns {Scaling | null} */
function namedRamp(ramp) {
  const { t, share, slack, inner, base, factor, dims, intervals, amplitude, stay, last } = ramp;
  const p = ramp.p.slice(0, last + 1);
  /** @type {{ kind: string, trained: number, lengths: [number, number], note: string }[]} */
  const readings = [];
  for (const [kind, slow, fast] of /** @type {[string, number, number][]} */ ([["llama3", 1, 4], ["yarn", 1, 32]])) {
    const lengths = lengthsByTurns(p, share, slack, slow, fast);
    if (lengths) readings.push({ kind, trained: usualLength(...lengths), lengths, note: kind === "llama3" ? "" : "in the paper's form" });
  }
  if (!inner.length || !readings.length || amplitude !== 1) {
    const by = (/** @type {number} */ fast, /** @type {boolean} */ whole) => lengthsByIndex(base, dims, t, share, slack, fast, 1, whole);
    const fast = [32, 1].find((beta) => by(beta, true));
    const lengths = fast ? by(fast, true) : by(32, false);
    const note = !fast ? "truncate = False" : fast === 32 ? "" : `beta_fast = beta_slow = ${general(fast)}`;
    if (lengths) readings.push({ kind: "yarn", trained: usualLength(...lengths), lengths, note });
  }
  if (!inner.length) {
    /** @type {[number, number]} */
    const edge = [FULL_TURN / p[stay], FULL_TURN / p[Math.min(stay + 1, last)]];
    readings.push({ kind: "llama3", trained: usualLength(...edge), lengths: edge, note: "a step: low = high, as Llama 4 has it" });
  }
  if (!readings.length) {
    const free = freeRamp(p, t, share, inner);
    return free && scaling(free[0], base, factor, null, { intervals, notes: [free[1]] });
  }
  const odd = (/** @type {{ kind: string }} */ { kind }) => Number((kind === "yarn") !== amplitude > 1 + 1e-6);
  readings.sort((a, b) => odd(a) - odd(b)); // Llama 3's has no amplitude
  const [{ kind, trained, lengths, note }, ...others] = readings;
  const ideal = ramp.p.map((x, i) => {
    if (i > last) return x / factor;
    const level = share[i] > 1 - slack[i] ? 1 : share[i] < slack[i] ? 0 : share[i];
    return x * (level + (1 - level) / factor);
  });
  return scaling(kind, base, factor, ideal, {
    trained,
    intervals: { ...intervals, trained: lengths },
    alternatives: [...new Set(others.map((each) => each.kind + (each.note && `, ${each.note}`)))],
    notes: note ? [note] : [],
  });
}

/** A usual length within an interval, or its middle. @type {(low: number, high: number) => number} */
function usualLength(low, high) {
  const inside = TRAINED.filter((n) => low * (1 - 1e-9) <= n && n <= high * (1 + 1e-9));
  const middle = (low * high) ** 0.5;
  if (!inside.length) return even(middle);
  const key = (/** @type {number} */ n) => [n.toString(2).replaceAll("0", "").length, Math.abs(Math.log(n / middle))];
  return inside.reduce((a, b) => {
    const [x, y] = [key(a), key(b)];
    return y[0] < x[0] || (y[0] === x[0] && y[1] < x[1]) ? b : a;
  });
}

/** The lengths L at which the share is (Lθ/2π - slow) / (fast - slow), cut to 0 and 1. @type {(p: number[], share: number[], slack: number[], slow: number, fast: number) => [number, number] | null} */
function lengthsByTurns(p, share, slack, slow, fast) {
  let [low, high] = [1, 1e9];
  for (const [i, theta] of p.entries()) {
    const turns = FULL_TURN / theta;
    const [g, e] = [share[i], slack[i]];
    if (g - e > 0) low = Math.max(low, turns * (slow + (Math.min(g, 1) - e) * (fast - slow)));
    if (g + e < 1) high = Math.min(high, turns * (slow + (Math.max(g, 0) + e) * (fast - slow)));
    if (low > high * (1 + 1e-9)) return null;
  }
  return [low, high];
}

/**
 * The lengths at which YaRN's code has this ramp; among usual ones, and then finely.
 * @type {(base: number, dims: number, t: number[], share: number[], slack: number[], fast: number, slow: number, truncate: boolean) => [number, number] | null}
 */
function lengthsByIndex(base, dims, t, share, slack, fast, slow, truncate) {
  const fits = (/** @type {number} */ length) => {
    let [lo, hi] = [fast, slow].map((beta) => (dims * Math.log(length / (beta * FULL_TURN))) / (2 * Math.log(base)));
    if (truncate) [lo, hi] = [Math.floor(lo), Math.ceil(hi)];
    [lo, hi] = [Math.max(lo, 0), Math.min(hi, dims - 1)];
    if (lo === hi) hi += 0.001;
    return share.every((s, i) => Math.abs(s - (1 - Math.min(Math.max((t[i] - lo) / (hi - lo), 0), 1))) <= slack[i]);
  };
  let good = TRAINED.filter(fits);
  if (!good.length && base > 1) good = range(16 * 12).map((k) => 2 ** (8 + k / 16)).filter(fits);
  return good.length ? [good[0], good[good.length - 1]] : null;
}

/** A ramp with numbers of its own: straight over the turns, or over the index. @type {(p: number[], t: number[], share: number[], inner: number[]) => [string, string] | null} */
function freeRamp(p, t, share, inner) {
  if (inner.length < 2) return ["unknown", "fast planes stay, slow ones are divided; too few lie between to name the form"];
  for (const [kind, over] of /** @type {[string, number[]][]} */ ([["llama3", p], ["yarn", t]])) {
    const [x, y] = [inner.map((i) => over[i]), inner.map((i) => share[i])];
    const [cx, cy] = [mean(x), mean(y)];
    const slope = sum(x.map((v, i) => (v - cx) * (y[i] - cy))) / sum(x.map((v) => (v - cx) ** 2));
    if (largest(x.map((v, i) => Math.abs(y[i] - cy - slope * (v - cx)))) >= 1e-3) continue;
    const [zero, one] = [0, 1].map((v) => cx + (v - cy) / slope);
    if (kind === "yarn") return [kind, `the ramp lies between planes ${general(one, 3)} and ${general(zero, 3)}`];
    return [kind,
      `turns in training at which the ramp begins and ends are as 1 to ${general(one / zero, 3)}; at 1 the ` +
        `length in training is ${even(FULL_TURN / zero).toLocaleString("en")}`];
  }
  return null;
}
