// @ts-check
// Where a head looks: from one byte, and on average by how far back.

/** @import { Tensor } from "../types" */

const FEWEST = 16; // queries of which a distance has the mean
const MOST = 256; // cells from side to side of a map: each has a pixel at least
export const LEAST = 1e-9; // smaller weights are told as less

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

/**
 * The logarithms, to base 10, of the weights from each byte to each, (N, N). A later byte is hidden. Of a long text a cell
 * stands for some bytes by as many, and has the largest of their weights; how many is told too.
 * @type {(rows: Float32Array[]) => { map: Tensor, stride: number }}
 */
export function mapped(rows) {
  const stride = Math.max(1, Math.ceil(rows.length / MOST));
  const count = Math.ceil(rows.length / stride);
  const data = new Float32Array(count * count).fill(-Infinity);
  for (const [query, row] of rows.entries()) {
    const start = Math.floor(query / stride) * count;
    for (let key = 0; key <= query; key++) {
      const cell = start + Math.floor(key / stride);
      data[cell] = Math.max(data[cell], row[key]);
    }
  }
  return { map: { shape: [count, count], data: data.map((v) => (v < 0 ? v : Math.log10(Math.max(LEAST, v)))) }, stride };
}
