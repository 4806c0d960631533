// @ts-check
// Where a head looks: from one byte, and on average by how far back.

/** @import { Tensor } from "../types" */

const FEWEST = 16; // queries of which a distance has the mean

/** The weights of a row, one for each letter, from 0 to 1 by the largest. @type {(row: Float32Array | undefined, letters: { from: number, to: number }[]) => number[]} */
export function inked(row, letters) {
  if (!row) return letters.map(() => NaN);
  const each = letters.map(({ from, to }) => row.subarray(from, to).reduce((sum, v) => sum + v, 0));
  const most = Math.max(...each) || 1;
  return each.map((v, i) => (letters[i].from < row.length ? (v / most) ** 0.62 : NaN)); // small weights are visible
}

/** The mean weight by how many bytes back a key is, from 1 on; as many distances as all of them have. @type {(all: Float32Array[][]) => Tensor[]} */
export function profiles(all) {
  const count = Math.max(2, Math.min(...all.map((rows) => rows.length - FEWEST)));
  const data = new Float32Array(all.length * (count - 1)).fill(NaN);
  for (const [line, rows] of all.entries()) {
    const sums = new Float64Array(count);
    for (const [i, row] of rows.entries()) for (let back = 1; back < count && back <= i; back++) sums[back] += row[i - back];
    for (let back = 1; back < count; back++) if (rows.length > back) data[line * (count - 1) + back - 1] = sums[back] / (rows.length - back);
  }
  return [{ shape: [count - 1], data: Float32Array.from({ length: count - 1 }, (_, i) => i + 1) }, { shape: [all.length, count - 1], data }];
}
