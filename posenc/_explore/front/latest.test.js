// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";

import { Latest } from "./latest.js";

/** An engine whose answers wait until they are let go, and a record of what a panel was told. */
function engine() {
  /** @type {any[]} */
  const asked = [];
  /** @type {any[]} */
  const told = [];
  const latest = new Latest({
    compute: (/** @type {number} */ values) => new Promise((resolve, reject) => asked.push({ values, resolve, reject })),
    done: (result, values) => told.push(["done", result, values]),
    failed: (error) => told.push(["failed", error.message]),
    busy: (yes) => yes && told.push(["busy"]),
  });
  return { asked, told, latest };
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("while one computation runs, only the newest wish is kept", async () => {
  const { asked, told, latest } = engine();
  const first = latest.request(1);
  for (const wish of [2, 3, 4]) latest.request(wish);
  assert.deepEqual(asked.map(({ values }) => values), [1]);
  asked[0].resolve("one");
  await turn();
  assert.deepEqual(asked.map(({ values }) => values), [1, 4]);
  assert.ok(latest.running);
  asked[1].resolve("four");
  await first;
  assert.deepEqual(told, [["done", "one", 1], ["done", "four", 4]]);
  assert.ok(!latest.running);
});

test("an error is told, and the next wish is computed", async () => {
  const { asked, told, latest } = engine();
  const first = latest.request(1);
  latest.request(2);
  asked[0].reject(new Error("no graph"));
  await turn();
  asked[1].resolve("two");
  await first;
  assert.deepEqual(told, [["failed", "no graph"], ["done", "two", 2]]);
});

test("what throws at once is an error too", async () => {
  /** @type {string[]} */
  const told = [];
  const latest = new Latest({
    compute: () => {
      throw new Error("at once");
    },
    done: () => told.push("done"), failed: (error) => told.push(error.message), busy: () => {},
  });
  await latest.request(1);
  assert.deepEqual(told, ["at once"]);
});

test("after the end no answer is taken, and nothing more is asked for", async () => {
  const { asked, told, latest } = engine();
  const first = latest.request(1);
  latest.request(2);
  latest.end();
  asked[0].resolve("late");
  await first;
  assert.deepEqual([asked.length, told], [1, []]);
});

test("a slow computation is announced, a quick one is not", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked, told, latest } = engine();
  const first = latest.request(1);
  context.mock.timers.tick(119);
  assert.deepEqual(told, []);
  context.mock.timers.tick(2);
  assert.deepEqual(told, [["busy"]]);
  asked[0].resolve("slow");
  await first;
  assert.equal(told.length, 2);
});
