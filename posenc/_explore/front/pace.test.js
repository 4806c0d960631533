// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace } from "./pace.js";

/** @param {number[]} runs */
const after = (...runs) => {
  const pace = new Pace();
  return runs.map((milliseconds) => {
    pace.note(milliseconds);
    return pace.away;
  });
};

test("two slow runs one after another send a graph to the worker, one that compiles does not", () => {
  assert.deepEqual(after(50, 3, 50, 3), [false, false, false, false]);
  assert.deepEqual(after(13, 13), [false, true]);
});

test("a run that the reader feels is enough", () => {
  assert.deepEqual(after(101), [true]);
});

test("a graph that has become quick comes back, one that is quick now and then does not", () => {
  const quick = Array(8).fill(4);
  assert.deepEqual(after(101, ...quick).slice(-2), [true, false]);
  assert.equal(after(101, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1).at(-1), true);
  assert.deepEqual(after(101, ...quick, 13, 13).slice(-2), [false, true]); // and may leave again
});
