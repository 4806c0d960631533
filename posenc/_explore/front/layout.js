// @ts-check
// Where a panel's views stand: as many side by side as have room, and how large each of them may be.

/** @import { View } from "./views/view.js" */

/**
 * What is arranged: views in stages, and around these a body that has the controls as well.
 * @typedef {{ root: Element, body: HTMLElement, controls: HTMLElement, stages: HTMLElement, views: View[], all: View[] }} Parts
 */
/** @typedef {[view: View, least: number][]} Row views with the pixels that each needs */

/** @type {Record<string, number>} */
const LEAST = { plane: 260, clocks: 560, readout: 0, formula: 0, words: 0 }; // pixels that a view needs beside another; others need 300
const BESIDE = 210; // pixels that each of the sides needs that are compared
const WIDE = ["readout", "formula", "words"]; // have a row of their own
const GAP = 20;
const BELOW = 130; // pixels for titles and scales below a picture
const COLUMNS = 60;

/**
 * Arrange a panel's views in this many pixels: rows of sixty columns, and whatever is left is shared out.
 * @type {(parts: Parts, width: number) => void}
 */
export function arrange(parts, width) {
  const phone = matchMedia("(max-width: 560px)").matches;
  placeFirst(parts, phone);
  bound(parts, phone);
  const fit = Math.max(1, Math.floor((width + GAP) / (BESIDE + GAP))); // sides of a comparison in a row
  for (const row of rowsOf(parts.all, width, fit)) share(row, parts.all, width, fit);
}

/**
 * Let the plots of each row begin and end at the same heights, once all of them have been drawn: a square can't become
 * higher without becoming wider than its column, so where there is one, the smallest decides, otherwise the highest.
 * @param {View[]} views
 */
export function even(views) {
  const framed = views.filter((view) => view.frame && view.tensors);
  for (const row of new Set(framed.map((view) => view.row))) {
    const all = framed.filter((view) => view.row === row);
    const squares = all.filter((view) => view.square).map((view) => view.wish);
    const level = squares.length ? Math.min(...squares) : Math.max(...all.map((view) => view.wish));
    const lines = Math.max(...all.map((view) => view.frame.lines));
    if (all.length < 2 || (level === row.level && lines === row.lines)) continue;
    Object.assign(row, { level, lines });
    for (const view of all) view.draw(view.tensors);
  }
}

/** All views of a comparison that a view is one of. @type {(view: View, all: View[]) => View[]} */
export const sidesOf = (view, all) => all.filter(({ main }) => main === view.main);

/**
 * On a phone the first picture stands above the controls, and stays in sight while one of them is held.
 * @type {(parts: Parts, phone: boolean) => void}
 */
function placeFirst({ body, controls, stages, views, all }, phone) {
  body.classList.toggle("pe-phone", phone);
  const first = views.find(({ spec }) => !WIDE.includes(spec.kind));
  if (!first) return;
  if (phone && first.host.parentNode !== body) body.insertBefore(first.host, controls);
  if (!phone && first.host.parentNode === body) stages.insertBefore(first.host, stages.children[all.indexOf(first)]);
}

/** How large a view may become. @type {(parts: Parts, phone: boolean) => void} */
function bound({ root, stages, all }, phone) {
  const full = document.fullscreenElement === root;
  // A panel at the top of a page fits into the first screen.
  const above = stages.getBoundingClientRect().top + scrollY;
  const high = above < 0.75 * innerHeight ? Math.max(200, Math.min(380, innerHeight - above - BELOW)) : 380;
  for (const view of all) {
    view.widest = full ? 1600 : 820;
    view.tallest = full ? Math.round(0.55 * innerHeight) : phone ? Math.min(330, Math.round(0.3 * innerHeight)) : high;
  }
}

/** Which views stand in one row. @type {(all: View[], width: number, fit: number) => Row[]} */
function rowsOf(all, width, fit) {
  /** @type {Row[]} */
  const rows = [];
  let room = 0;
  for (const view of all) {
    const least = view.side ? BESIDE : (LEAST[view.spec.kind] ?? 300);
    const alone = WIDE.includes(view.spec.kind) || Boolean(view.parts); // small multiples take what width there is
    const sides = view.side && view === view.main ? sidesOf(view, all).length : 1; // begin where all of them have room
    const needed = Math.min(sides, fit) * (least + GAP) - GAP;
    if (!rows.length || needed > room || alone) {
      rows.push([]);
      room = width + GAP;
    }
    rows[rows.length - 1].push([view, least]);
    room = alone ? 0 : room - least - GAP;
  }
  return rows;
}

/** The columns of a row, shared out by what each view needs. @type {(row: Row, all: View[], width: number, fit: number) => void} */
function share(row, all, width, fit) {
  const needed = row.reduce((sum, [, least]) => sum + least, 0) || 1;
  const airy = row.some(([view]) => view.spec.y);
  const sided = row.every(([view]) => view.side);
  let left = COLUMNS;
  const together = { level: 0, lines: 0 };
  row.forEach(([view, least], i) => {
    const span = i === row.length - 1 ? left : Math.round((COLUMNS * least) / needed);
    left -= span;
    Object.assign(view, { airy, row: together });
    if (view.side) { // pictures to compare are of one size
      const part = sided ? 1 / Math.min(sidesOf(view, all).length, fit) : Math.floor((COLUMNS * least) / needed) / COLUMNS;
      Object.assign(view, { least: 150, widest: Math.floor(width * part) - GAP });
    }
    view.host.style.setProperty("--pe-span", String(span));
    view.host.classList.toggle("pe-last", i === row.length - 1);
  });
}
