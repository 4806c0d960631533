// @ts-check
// Finds the values of controls that bring what is drawn under the pointer, by trying them: the function is its own inverse.

import { stepOf, steps, valueAt } from "./scale.js";

/** @import { Range, Values } from "./types" */
/** @typedef {Range & { name: string }} Named @typedef {{ values: Values, far: number }} Found */
/** @typedef {(values: Values) => number | Promise<number>} Miss */
/**
 * How far a search is: in which round, at which of the controls, how far it was off when the round began, and along this
 * control by which stride, whether the stride still grows, and which way it went last.
 * @typedef {{ round: number, at: number, before: number, stride: number, growing: boolean, way: number }} Search
 */

const LEAST = 1e-3; // pixels; less is no difference
const ROUNDS = 4; // over several controls, which may depend on each other

/** A search that has not begun. @returns {Search} */
export const search = () => ({ round: 0, at: 0, before: Infinity, stride: 1, growing: true, way: 0 });

/** The same search after the place has moved: where it was, with the stride that it had. @param {Search} search */
export function aimed(search) {
  Object.assign(search, { round: 0, before: Infinity, growing: true, way: 0 });
}

/**
 * Values near the given ones for which `miss(values)`, a promise of a distance, is least. `over()` says that time is up:
 * then `done` is false, and a later call with the same `state` goes on from there. However little time there is, each call
 * takes a step. Steps are doubled while the distance falls, or while nothing changes at all, and halved again; where both
 * neighbours are worse the search ends.
 * @param {Named[]} controls @param {Values} values @param {Miss} miss @param {() => boolean} over @param {Search} state
 */
export async function seek(controls, values, miss, over = () => false, state = search()) {
  let best = { values, far: await miss(values) };
  let known = new Map();
  do {
    best = await step(controls[state.at], best, miss, state, known);
    if (state.stride >= 1) continue;
    known = new Map();
    Object.assign(state, { at: state.at + 1, stride: 1, growing: true, way: 0 });
    if (state.at < controls.length) continue;
    const better = state.before - best.far >= LEAST;
    Object.assign(state, { at: 0, round: state.round + 1, before: best.far });
    if (controls.length === 1 || state.round === ROUNDS || !better) return { ...best, done: true };
  } while (!over());
  return { ...best, done: false };
}

/**
 * One step along a control, or another stride; `known` has the distances at its steps.
 * @type {(control: Named, best: Found, miss: Miss, state: Search, known: Map<number, number>) => Promise<Found>}
 */
async function step(control, best, miss, state, known) {
  const last = steps(control);
  const at = stepOf(control, best.values[control.name]);
  known.set(at, best.far);
  const moved = (/** @type {number} */ step) => ({ ...best.values, [control.name]: valueAt(control, step) });
  /** @param {number} step */
  const far = async (step) => {
    if (step < 0 || step > last) return Infinity;
    const found = known.get(step) ?? (await miss(moved(step)));
    known.set(step, found);
    return found;
  };
  const { stride, growing, way } = state; // as long as it falls in one direction, the other one is not tried
  const up = way < 0 ? Infinity : await far(at + stride);
  const down = way > 0 ? Infinity : await far(at - stride);
  if (Math.min(up, down) < best.far - LEAST) {
    const turn = up <= down ? 1 : -1;
    if (growing) Object.assign(state, { way: turn, stride: 2 * stride });
    return { values: moved(at + turn * stride), far: Math.min(up, down) };
  }
  if (growing && !way && Math.min(up, down) <= best.far + LEAST && stride < last) state.stride = 2 * stride; // nothing changes so near
  else Object.assign(state, { growing: false, way: 0, stride: Math.floor(stride / 2) });
  return best;
}
