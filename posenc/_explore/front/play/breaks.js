// @ts-check
// Ways to break a trained model, in the order of the spec: where its bytes are said to stand, and what is changed in it.

/** @import { Settings } from "./types" */

export const [NOTHING, SHIFTED, SHUFFLED, DROPPED, OFFSET, LAYOUT] = [0, 1, 2, 3, 4, 5];
const SHIFT = 1000;
const BLOCK = 32; // bytes whose positions are shuffled among themselves, so that a short table has them all

/**
 * The position of a byte; `length` is that of training.
 * @type {(broken: number, index: number, length: number) => number}
 */
export function place(broken, index, length) {
  if (broken === SHIFTED) return index + SHIFT;
  if (broken === SHUFFLED) return index - (index % BLOCK) + ORDER[index % BLOCK];
  if (broken === OFFSET && index >= length / 2) return index - length / 2; // new tokens are counted from 0 again
  return index;
}

// Drawn once.
const ORDER = [15, 28, 9, 21, 6, 18, 26, 2, 31, 5, 19, 20, 1, 22, 27, 0, 4, 17, 11, 10, 16, 23, 13, 7, 30, 12, 3, 14, 24, 8, 25, 29];

/** What a break changes in a model. @type {(broken: number) => Partial<Settings>} */
export const change = (broken) => (broken === DROPPED ? { on: 0 } : broken === LAYOUT ? { layout: 1 } : {});
