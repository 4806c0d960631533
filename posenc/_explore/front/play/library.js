// @ts-check
// Models that read texts, piece by piece, and the last results: nothing is read twice.

import { place } from "./breaks.js";

/** @import { Found, Model, PlaySpec, Reading, Settings } from "./types" */

const PIECE = 256; // bytes: between two pieces a newer wish is heard
const MOST = 6; // results that are kept

export class Library {
  /** @type {Promise<Reading> | null} */
  reading = null;
  /** @type {Map<string, Found>} the one used last at the end */
  kept = new Map();

  /** @param {PlaySpec} spec @param {() => Promise<Reading>} opening */
  constructor(spec, opening) {
    this.spec = spec;
    this.opening = opening;
  }

  /** What reads, with a model that is ready. @param {Model} model */
  async with({ name }) {
    this.reading ??= this.opening().catch((error) => {
      this.reading = null; // the next move tries again
      throw error;
    });
    const reading = await this.reading;
    await reading.prepare(name);
    return reading;
  }

  /** The position of a byte. @type {(broken: number, index: number) => number} */
  place(broken, index) {
    return place(broken, index, this.spec.length);
  }

  /** How many bytes a model can read: a learned table may have too few rows. @type {(model: Model, broken: number, count: number) => number} */
  readable({ rows }, broken, count) {
    if (rows === null) return count;
    for (let i = 0; i < count; i++) if (this.place(broken, i) >= rows) return i;
    return count;
  }

  /** Of the settings those that change something in a model; the others are as they were trained. @type {(model: Model, settings: Settings) => Settings} */
  own({ knobs }, settings) {
    return { ...this.spec.trained, ...Object.fromEntries(knobs.map((knob) => [knob, settings[knob]])) };
  }

  /**
   * What a model makes of bytes; null if that is no longer wanted.
   * @type {(model: Model, bytes: Uint8Array, settings: Settings, broken: number, head: number, current: () => boolean) => Promise<Found | null>}
   */
  async read(model, bytes, settings, broken, head, current) {
    const own = this.own(model, settings);
    const pos = Array.from(bytes, (_, i) => this.place(broken, i));
    const key = JSON.stringify([model.name, [...bytes], pos, own, head]);
    const kept = this.kept.get(key);
    if (kept) {
      this.kept.delete(key);
      this.kept.set(key, kept);
      return kept;
    }
    const reading = await this.with(model);
    const read = this.readable(model, broken, bytes.length);
    /** @type {Found} */
    const found = { bits: new Float32Array(bytes.length).fill(NaN), next: [], weights: [], read };
    for (let from = 0; from < read; from += PIECE) {
      if (!current()) return null;
      const to = Math.min(read, from + PIECE);
      const { bits, weights } = await reading.read({
        model: model.name, slot: "read", fresh: !from, tokens: [...bytes.subarray(from, to)], pos: pos.slice(from, to), head, settings: own,
      });
      for (let i = from; i < to; i++) {
        const row = i - from;
        found.next.push(bits.data.subarray(row * bits.shape[1], (row + 1) * bits.shape[1]));
        found.weights.push(weights.data.subarray(row * weights.shape[1], row * weights.shape[1] + i + 1));
        if (i + 1 < read) found.bits[i + 1] = found.next[i][bytes[i + 1]];
      }
    }
    this.kept.set(key, found);
    for (const old of [...this.kept.keys()].slice(0, -MOST)) this.kept.delete(old);
    return found;
  }
}
