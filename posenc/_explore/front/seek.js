// @ts-check
// Finds the values of controls that bring what is drawn under the pointer, by trying them: the function is its own inverse.

import { stepOf, steps, valueAt } from "./scale.js";

/** @import { Range, Values } from "./types" */
/** @typedef {Range & { name: string }} Named @typedef {{ values: Values, far: number }} Found */
/** @typedef {(values: Values) => number | Promise<number>} Miss */

const LEAST = 1e-3; // pixels; less is no difference
const ROUNDS = 4; // over several controls, which may depend on each other

/**
 * Values near the given ones for which `miss(values)`, a promise of a distance, is least. `over()` says that time is up:
 * then `done` is false, and a later call with the same `strides` goes on from there. Steps are doubled while the distance
 * falls, or while nothing changes at all, and halved again; where both neighbours are worse the search ends.
 * @param {Named[]} controls @param {Values} values @param {Miss} miss @param {() => boolean} over
 * @param {Map<string, number>} strides
 */
export async function seek(controls, values, miss, over = () => false, strides = new Map()) {
  let best = { values, far: await miss(values) };
  for (let round = 0; round < (controls.length > 1 ? ROUNDS : 1); round++) {
    const before = best.far;
    for (const control of controls) {
      best = await along(control, best, miss, over, strides);
      if (over()) return { ...best, done: false };
    }
    if (before - best.far < LEAST) break;
  }
  return { ...best, done: true };
}

/** @type {(control: Named, best: Found, miss: Miss, over: () => boolean, strides: Map<string, number>) => Promise<Found>} */
async function along(control, { values, far: here }, miss, over, strides) {
  const last = steps(control);
  let at = stepOf(control, values[control.name]);
  let found = values;
  const known = new Map([[at, here]]);
  /** @param {number} step */
  const far = async (step) => {
    if (step < 0 || step > last) return Infinity;
    const found = known.get(step) ?? (await miss({ ...values, [control.name]: valueAt(control, step) }));
    known.set(step, found);
    return found;
  };
  let stride = strides.get(control.name) ?? 1; // of a search that was cut short
  let growing = true;
  let way = 0; // as long as it falls in one direction, the other one is not tried
  while (stride >= 1 && !over()) {
    const up = way < 0 ? Infinity : await far(at + stride);
    const down = way > 0 ? Infinity : await far(at - stride);
    if (Math.min(up, down) < here - LEAST) {
      const turn = up <= down ? 1 : -1;
      at += turn * stride;
      here = Math.min(up, down);
      found = { ...values, [control.name]: valueAt(control, at) };
      if (!growing) continue;
      way = turn;
      stride *= 2;
    } else if (growing && !way && Math.min(up, down) <= here + LEAST && stride < last) {
      stride *= 2; // nothing changes so near
    } else {
      growing = false;
      way = 0;
      stride = Math.floor(stride / 2);
    }
  }
  strides.set(control.name, Math.max(1, stride));
  return { values: found, far: here };
}
