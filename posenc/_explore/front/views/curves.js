// @ts-check
// The geometry of curves: their outlines, and where they are, in pixels.

import { within } from "./view.js";

/** @import { Plot, Point, Tensor } from "../types" */
/** @import { Frame } from "./axes.js" */
/** @typedef {ArrayLike<number>} Pixels */

export const FAR = 1e4; // pixels; what lies further out is outside of any picture
/** @param {number} v */
export const near = (v) => Math.round(within(v, -FAR, FAR) * 10) / 10;

/** The index of the number that is nearest to a value. @type {(numbers: ArrayLike<number>, value: number) => number} */
export function nearest(numbers, value) {
  let index = 0;
  for (let i = 1; i < numbers.length; i++) if (Math.abs(numbers[i] - value) < Math.abs(numbers[index] - value)) index = i;
  return index;
}

/**
 * Points joined by straight lines. A point that is no number ends a line; one alone becomes a dot.
 * @type {(xs: Pixels, ys: Pixels) => string}
 */
export function polyline(xs, ys) {
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (Number.isNaN(ys[i])) continue;
    const first = !i || Number.isNaN(ys[i - 1]);
    d += `${first ? "M" : "L"}${xs[i]} ${ys[i]}`;
    if (first && (i === xs.length - 1 || Number.isNaN(ys[i + 1]))) d += "h0";
  }
  return d;
}

/**
 * Each value holds from halfway to the point before to halfway to the next.
 * @type {(xs: Pixels, ys: Pixels) => string}
 */
export function staircase(xs, ys) {
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (Number.isNaN(ys[i])) continue;
    const before = i ? near((xs[i - 1] + xs[i]) / 2) : xs[i];
    const after = i < xs.length - 1 ? near((xs[i] + xs[i + 1]) / 2) : xs[i];
    const first = !i || Number.isNaN(ys[i - 1]);
    d += `${first ? `M${before} ${ys[i]}` : `V${ys[i]}`}H${after}`;
  }
  return d;
}

/**
 * Where points lie closer than pixels: of each pixel's column the first, the lowest, the highest and the last.
 * @type {(xs: Pixels, ys: Pixels) => [Pixels, Pixels]}
 */
export function envelope(xs, ys) {
  /** @type {[number[], number[]]} */
  const thin = [[], []];
  for (let start = 0; start < xs.length; ) {
    let end = start;
    let low = start;
    let high = start;
    for (; end < xs.length && Math.abs(xs[end] - xs[start]) < 1; end++) {
      if (ys[end] < ys[low] || Number.isNaN(ys[low])) low = end;
      if (ys[end] > ys[high] || Number.isNaN(ys[high])) high = end;
    }
    for (const i of new Set([start, low, high, end - 1].sort((a, b) => a - b))) {
      thin[0].push(xs[i]);
      thin[1].push(ys[i]);
    }
    start = end;
  }
  return thin;
}

/**
 * Small triangles at the edge, where a line leaves the picture and comes back.
 * @type {(xs: Pixels, ys: Pixels, plot: Plot) => string}
 */
export function beyond(xs, ys, { top, height }) {
  let d = "";
  for (const [edge, sign] of [[top, 1], [top + height, -1]]) {
    let last = -Infinity;
    for (let i = 0; i < xs.length; i++) {
      const out = (edge - ys[i]) * sign > 0.6;
      const turns = out && !((edge - ys[i - 1]) * sign > 0.6 && (edge - ys[i + 1]) * sign > 0.6);
      if (turns && xs[i] - last >= 14) {
        d += `M${xs[i] - 4} ${edge + 6 * sign}h8l-4 ${-6 * sign}Z`;
        last = xs[i];
      }
    }
  }
  return d;
}

/**
 * The pixels of the borders between steps, of a line of tensors.
 * @type {(frame: Frame, tensors: Tensor[], line: number) => number[]}
 */
export function borders({ x: across }, [x, y], line) {
  const points = y.shape[1];
  const found = [];
  for (let p = 1; p < points; p++) {
    const [before, here] = [y.data[line * points + p - 1], y.data[line * points + p]];
    if (before !== here) found.push((across(x.data[p]) + across(x.data[p - 1])) / 2);
  }
  return found;
}

/**
 * The pixel of the height of a line at a pixel of the axis, between its points; far away where there is no line.
 * @type {(frame: Frame, tensors: Tensor[], line: number, at: number) => number}
 */
export function heightAt(frame, [x, y], line, at) {
  const points = y.shape[1];
  /** @type {Point | null} */
  let low = null;
  /** @type {Point | null} */
  let high = null;
  for (let p = 0; p < points; p++) {
    const [px, py] = [frame.x(x.data[p]), frame.y(y.data[line * points + p])];
    if (!Number.isFinite(px + py)) continue;
    if (px <= at && (!low || px > low[0])) low = [px, py];
    if (px >= at && (!high || px < high[0])) high = [px, py];
  }
  if (!low || !high) return low?.[1] ?? high?.[1] ?? FAR;
  return high[0] > low[0] ? low[1] + ((high[1] - low[1]) * (at - low[0])) / (high[0] - low[0]) : low[1];
}
