// @ts-check
// Texts as bytes and back, and what a model says of a byte: pure functions, tested in Node.

/** @import { Letter } from "./types" */

/** The bytes of a text in UTF-8, at most so many; a letter at the end is not cut. @type {(text: string, most: number) => Uint8Array} */
export function encode(text, most) {
  const bytes = new TextEncoder().encode(text.slice(0, most)); // no letter has fewer bytes than units
  if (bytes.length <= most) return bytes;
  let end = most;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

/** How many bytes a letter has that begins with this one; 0 if none does. @param {number} byte */
const sizeOf = (byte) => (byte < 0x80 ? 1 : byte >= 0xc2 && byte < 0xe0 ? 2 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xf0 && byte < 0xf5 ? 4 : 0);

/** The letters of bytes; a byte that is part of none is a letter of its own, written as \xff. @type {(bytes: ArrayLike<number>) => Letter[]} */
export function letters(bytes) {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const found = [];
  for (let from = 0; from < bytes.length; ) {
    const to = from + Math.max(1, sizeOf(bytes[from]));
    let text = "";
    try {
      if (to <= bytes.length) text = strict.decode(Uint8Array.from({ length: to - from }, (_, i) => bytes[from + i]));
    } catch {}
    const control = text && text < " " && text !== "\n" && text !== "\t";
    if (text && !control) found.push({ text, from, to, odd: false });
    else found.push({ text: named(bytes[from]), from, to: from + 1, odd: true });
    from = found[found.length - 1].to;
  }
  return found;
}

/** A byte that is no letter by itself. @param {number} byte */
const named = (byte) => `\\x${byte.toString(16).padStart(2, "0")}`;

/** A byte as a reader sees it. @param {number} byte */
export function shown(byte) {
  if (byte === 10) return "↵";
  if (byte === 9) return "⇥";
  if (byte === 32) return "␣";
  return byte > 32 && byte < 127 ? String.fromCharCode(byte) : named(byte);
}

/** The likeliest bytes, and their probabilities, from bits: −log₂ p of each. @type {(bits: ArrayLike<number>, count: number) => { byte: number, p: number }[]} */
export const likeliest = (bits, count) => Array.from(bits, (b, byte) => ({ byte, p: 2 ** -b })).sort((x, y) => y.p - x.p).slice(0, count);

/**
 * A byte drawn by its probability; with temperature 0 the likeliest. `chance` is from 0 to 1.
 * @type {(bits: ArrayLike<number>, temperature: number, chance: number) => number}
 */
export function drawn(bits, temperature, chance) {
  const least = Array.from(bits).reduce((a, b) => Math.min(a, b));
  if (!temperature) return Array.from(bits).indexOf(least);
  const shares = likeliest(Array.from(bits, (b) => (b - least) / temperature), bits.length);
  let left = chance * shares.reduce((sum, { p }) => sum + p, 0);
  for (const { byte, p } of shares) {
    left -= p;
    if (left < 0) return byte;
  }
  return shares[0].byte;
}

const PRIME = 2 ** 31 - 1;

/** Numbers from 0 to 1 that look random, the same for each seed from 1 on (Park and Miller, 1988). @param {number} seed */
export function chances(seed) {
  let state = seed;
  const next = () => (state = (state * 16_807) % PRIME);
  for (let i = 0; i < 9; i++) next(); // the first ones are small
  return () => next() / PRIME;
}

/** The mean of numbers, without those that are none; NaN if there is none. @param {Iterable<number>} values */
export function mean(values) {
  let [sum, count] = [0, 0];
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    sum += value;
    count++;
  }
  return count ? sum / count : NaN;
}

/** The mean of each number and of those before it, at most so many. @type {(values: Float32Array, window: number) => Float32Array} */
export const running = (values, window) => values.map((_, i) => mean(values.subarray(Math.max(0, i + 1 - window), i + 1)));
