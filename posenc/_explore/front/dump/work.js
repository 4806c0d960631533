// @ts-check
// What the worker of a page does: it opens a file, and names the rotation of three of its arrays.

import { arrays } from "./files.js";
import { AFTER, BEFORE, MOST, POSITIONS } from "./given.js";
import { identify } from "./identify.js";
import { Unfit } from "./numbers.js";
import { said } from "./said.js";

/** @import { Entry } from "./files.js" */
/** @import { Words } from "./said.js" */
/** @import { Answer, Opened } from "./types" */

/** @type {Map<string, Entry>} */
let held = new Map();

/** Opens a file: which arrays it has, and which of them are before, after and positions. @type {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<Opened>} */
export async function open(name, bytes) {
  held = new Map();
  const found = await arrays(name, bytes);
  if (!found.size) throw new Unfit(`${name} has no arrays: write before, after and positions into it`);
  held = found;
  const guess = (/** @type {string[]} */ names) => names.find((each) => found.has(each)) ?? "";
  return {
    arrays: [...found].map(([key, { shape, dtype }]) => ({ name: key, shape, dtype })),
    before: guess(BEFORE), after: guess(AFTER), positions: guess(POSITIONS),
  };
}

/** Names the rotation of three arrays of the file that is open. @type {(names: [string, string, string], heads: string, words: Words) => Promise<Answer>} */
export async function ask(names, heads, words) {
  const three = names.map((name) => /** @type {Entry} */ (held.get(name)));
  const counts = three.map(({ shape }) => shape.reduce((a, b) => a * b, 1));
  counts.forEach((count, k) => { // before they are read: memory
    if (count > MOST) {
      throw new Unfit(`${names[k]} has ${count.toLocaleString("en")} numbers, and a page reads ${MOST.toLocaleString("en")} at most: dump one layer, fewer heads, and some hundred positions, which are enough`);
    }
  });
  const [before, after, positions] = await Promise.all(three.map(({ read }) => read()));
  const found = identify(before, after, positions, heads || null);
  return { found, said: said(found, words) };
}
