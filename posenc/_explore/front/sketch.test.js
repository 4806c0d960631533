// @ts-check
// A pointer that is moved across sets every grip that it passes, however fast it goes.
import assert from "node:assert/strict";
import test from "node:test";

import { passed } from "./views/sketch.js";

const PLACES = [0, 10, 20, 40];

test("a slow pointer sets the nearest grip", () => {
  assert.deepEqual(passed(PLACES, [9, 5], [9, 7]), [{ index: 1, height: 7 }]);
  assert.deepEqual(passed(PLACES, [12, 5], [13, 7]), [{ index: 1, height: 7 }]);
});

test("a fast one sets all between, each at the height that it had there", () => {
  const heights = passed(PLACES, [-1, 0], [41, 42]);
  assert.deepEqual(heights.map(({ index }) => index), [0, 1, 2, 3]);
  assert.deepEqual(heights.map(({ height }) => height), [1, 11, 21, 41]);
  assert.deepEqual(passed(PLACES, [41, 0], [19, 22]).map(({ index }) => index), [2, 3]);
});

test("beyond the last grip it is that one's", () => {
  assert.deepEqual(passed(PLACES, [50, 1], [60, 3]), [{ index: 3, height: 3 }]);
});
