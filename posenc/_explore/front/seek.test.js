// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";

import { aimed, search, seek } from "./seek.js";

/** @import { Range, Values } from "./types" */
/** @typedef {Range & { name: string, kind: string }} Named */

/** @type {(name: string, min: number, max: number) => Named} */
const whole = (name, min, max) => ({ name, kind: "slider", min, max, step: 1, integer: true, log: false });
/** @type {(name: string, min: number, max: number) => Named} */
const real = (name, min, max) => ({ name, kind: "slider", min, max, step: (max - min) / 200, integer: false, log: false });

/** @param {(values: Values) => number} miss */
function counted(miss) {
  const all = async (/** @type {Values} */ values) => {
    all.runs += 1;
    return miss(values);
  };
  all.runs = 0;
  return all;
}

test("finds the step nearest to a place, in few runs", async () => {
  const miss = counted(({ n }) => Math.abs(7 * n - 350));
  const found = await seek([whole("n", 0, 1000)], { n: 3, other: 1 }, miss);
  assert.deepEqual([found.values, found.done], [{ n: 50, other: 1 }, true]);
  assert.ok(miss.runs < 30, `${miss.runs} runs`);
});

test("goes on from a plateau, where near steps change nothing", async () => {
  const miss = (/** @type {Values} */ { n }) => Math.abs(100 * Math.floor(n / 16) - 400);
  const { values } = await seek([whole("n", 0, 255)], { n: 3 }, miss);
  assert.equal(Math.floor(values.n / 16), 4);
});

test("stays where both neighbours are worse, although it is better far away", async () => {
  const miss = (/** @type {Values} */ { angle }) => 100 * Math.abs(Math.sin(angle / 2 - 0.25)); // the same after a whole turn
  const { values } = await seek([real("angle", -20, 20)], { angle: 0.2 }, miss);
  assert.ok(Math.abs(values.angle - 0.5) < 0.2, String(values.angle));
});

test("two controls that depend on each other", async () => {
  const miss = (/** @type {Values} */ { angle, length }) => 100 * Math.hypot(length * Math.cos(angle) - 0.4, length * Math.sin(angle) - 0.9);
  const { values } = await seek([real("angle", 0, 6), real("length", 0, 2)], { angle: 3, length: 1 }, miss);
  assert.ok(miss(values) < 2, JSON.stringify(values));
});

test("stops when time is up, keeps what it has, and goes on from there", async () => {
  const aim = counted(({ n }) => Math.abs(n - 700));
  /** @type {Values} */
  let values = { n: 0 };
  let calls = 0;
  const state = search();
  for (let done = false; !done; calls += 1) {
    const until = aim.runs + 4;
    const before = Math.abs(values.n - 700);
    ({ values, done } = await seek([whole("n", 0, 1000)], values, aim, () => aim.runs >= until, state));
    assert.ok(Math.abs(values.n - 700) <= before);
    assert.ok(calls < 40);
  }
  assert.equal(values.n, 700);
  assert.ok(calls > 1);
});

test("the ends of a slider, and one that changes nothing", async () => {
  const beyond = await seek([whole("n", 0, 9)], { n: 4 }, ({ n }) => 50 - n);
  assert.equal(beyond.values.n, 9);
  const dead = await seek([whole("n", 0, 9)], { n: 4 }, () => 13);
  assert.deepEqual([dead.values.n, dead.done], [4, true]);
});

const late = () => true; // each computation takes longer than there is time

test("however little time a call has, the search goes on and ends", async () => {
  /** @type {[Named[], Values, (values: Values) => number, Values | null][]} */
  const cases = [
    [[whole("n", 0, 1000)], { n: 0 }, ({ n }) => Math.abs(n - 700), { n: 700 }],
    [[whole("n", 0, 255)], { n: 3 }, ({ n }) => Math.abs(100 * Math.floor(n / 16) - 400), null],
    [[whole("n", 0, 1000)], { n: 4 }, () => 13, { n: 4 }],
    [[whole("a", 0, 90), whole("b", 0, 90)], { a: 3, b: 80 }, ({ a, b }) => Math.hypot(a - 40, b - 20), { a: 40, b: 20 }],
  ];
  for (const [controls, from, miss, wanted] of cases) {
    const state = search();
    let found = { values: from, far: Infinity, done: false };
    let calls = 0;
    for (; !found.done; calls += 1) {
      const before = found.far;
      found = await seek(controls, found.values, miss, late, state);
      assert.ok(found.far <= before);
      assert.ok(calls < 100, JSON.stringify([found, state]));
    }
    if (wanted) assert.deepEqual(found.values, wanted);
    else assert.equal(Math.floor(found.values.n / 16), 4);
  }
});

test("a place that moves is followed with the stride of the search so far, and reached", async () => {
  const controls = [whole("a", 0, 1000), whole("b", 0, 1000)];
  const state = search();
  let found = { values: /** @type {Values} */ ({ a: 0, b: 0 }), far: 0, done: false };
  for (let place = 10; place <= 400; place += 10) {
    found = await seek(controls, found.values, ({ a, b }) => Math.abs(a - place) + Math.abs(b - place), late, state);
    aimed(state);
  }
  const miss = (/** @type {Values} */ { a, b }) => Math.abs(a - 400) + Math.abs(b - 400);
  let calls = 0;
  for (; !found.done; calls += 1) {
    found = await seek(controls, found.values, miss, late, state);
    assert.ok(calls < 100);
  }
  assert.deepEqual(found.values, { a: 400, b: 400 });
});
