// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace } from "./pace.js";

/** Whether a graph is in the worker after each of these runs. @param {number[]} runs */
const after = (...runs) => {
  const pace = new Pace();
  return runs.map((milliseconds) => {
    pace.note(milliseconds);
    return pace.away;
  });
};

test("two slow runs one after another send a graph to the worker, a single one does not", () => {
  assert.deepEqual(after(1, 13, 3, 13), [false, false, false, false]);
  assert.deepEqual(after(1, 13, 13), [false, false, true]);
});

test("the first run, which compiles, counts only if a reader feels it, and then quick ones soon make up for it", () => {
  assert.deepEqual(after(99, 13), [false, false]);
  assert.deepEqual(after(101, 50, 4, 4), [true, true, true, false]);
});

test("a later run that a reader feels is enough", () => {
  assert.deepEqual(after(1, 101), [false, true]);
});

test("a graph that has become quick comes back, one that is quick now and then does not", () => {
  const quick = Array(8).fill(4);
  assert.deepEqual(after(1, 101, ...quick).slice(-2), [true, false]);
  assert.equal(after(1, 101, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1).at(-1), true);
  assert.deepEqual(after(1, 101, ...quick, 13, 13).slice(-2), [false, true]); // and may leave again
});
