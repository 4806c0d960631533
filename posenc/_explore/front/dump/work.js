// @ts-check
// What the worker of a page does: it opens a file, and names what some of its arrays hold.

import { bias } from "./biases.js";
import { arrays } from "./files.js";
import { MOST, meant } from "./given.js";
import { identify } from "./identify.js";
import { Unfit } from "./numbers.js";
import { said, saidBias } from "./said.js";

/** @import { Entry } from "./files.js" */
/** @import { Words } from "./said.js" */
/** @import { Answer, Kind, Opened } from "./types" */

/** @type {Map<string, Entry>} */
let held = new Map();

/** Opens a file: which arrays it has, and what their names say that it holds. @type {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<Opened>} */
export async function open(name, bytes) {
  held = new Map();
  const found = await arrays(name, bytes);
  if (!found.size) throw new Unfit(`${name} has no arrays: write before, after and positions into it`);
  held = found;
  return { arrays: [...found].map(([key, { shape, dtype }]) => ({ name: key, shape, dtype })), ...meant([...found.keys()]) };
}

/** Names what arrays of the open file hold, a rotation or a bias. @type {(kind: Kind, names: string[], heads: string, words: Words) => Promise<Answer>} */
export async function ask(kind, names, heads, words) {
  const wanted = names.map((name) => /** @type {Entry} */ (held.get(name)));
  const counts = wanted.map(({ shape }) => shape.reduce((a, b) => a * b, 1));
  counts.forEach((count, k) => { // before they are read: memory
    if (count > MOST) {
      throw new Unfit(`${names[k]} has ${count.toLocaleString("en")} numbers, and a page reads ${MOST.toLocaleString("en")} at most: dump one layer, fewer heads, and some hundred positions, which are enough`);
    }
  });
  const numbers = await Promise.all(wanted.map(({ read }) => read()));
  if (kind !== "rotation") {
    const { found, curve } = bias(numbers);
    return { found, curve, said: saidBias(found) };
  }
  const [before, after, positions] = numbers;
  const found = identify(before, after, positions, heads || null);
  return { found, said: said(found, words) };
}
