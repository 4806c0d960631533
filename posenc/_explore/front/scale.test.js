// @ts-check
import assert from "node:assert/strict";
import test from "node:test";

import { PIN, decade, format, fromHash, parse, scientific, stepOf, steps, toHash, valueAt } from "./scale.js";

/** @import { Choice, Slider, Tick } from "./types" */

/** @type {Slider} */
const base = { kind: "slider", name: "base", label: "base", min: 10, max: 1e6, step: 1 / 40, log: true, integer: false };
/** @type {Slider} */
const dim = { kind: "slider", name: "dim", label: "dim", min: 8, max: 125, step: 8, log: false, integer: true };
/** @type {Slider} */
const angle = { kind: "slider", name: "angle", label: "angle", min: -1, max: 2, step: 0.1, log: false, integer: false };
/** @type {Choice} */
const layout = { kind: "choice", name: "layout", label: "layout", labels: ["half", "interleaved"] };
/** @type {Tick} */
const causal = { kind: "tick", name: "causal", label: "causal" };

test("thumbs reach both ends and every step is its own value", () => {
  for (const control of [base, angle]) {
    assert.equal(valueAt(control, 0), control.min);
    assert.equal(valueAt(control, steps(control)), control.max);
  }
  assert.equal(valueAt(dim, steps(dim)), 120); // the last whole step, not the end of the range
  for (const control of [base, dim, angle]) {
    for (let step = 0; step <= steps(control); step++) {
      assert.equal(stepOf(control, valueAt(control, step)), step);
      if (step) assert.ok(valueAt(control, step) > valueAt(control, step - 1));
    }
  }
});

test("powers of ten lie on a logarithmic slider's steps", () => {
  for (const value of [100, 1000, 10_000, 100_000]) assert.equal(valueAt(base, stepOf(base, value)), value);
});

test("what a reader types is taken exactly or refused with the range", () => {
  assert.equal(parse(base, " 500,000 "), 500_000);
  assert.equal(parse(base, "5e5"), 500_000);
  assert.equal(parse(angle, "\u22120.25"), -0.25);
  assert.equal(parse(dim, "17"), 16);
  for (const text of ["", "abc", "1e999", "--1", "0x10", "NaN", "Infinity", "<b>1</b>", "1 2x", "0,5", "1,00"]) {
    assert.throws(() => parse(base, text), /no number: base goes from 10 to 1\u202f000\u202f000/);
  }
  assert.throws(() => parse(base, "9"), /9 is out of range: base goes from 10 to 1\u202f000\u202f000/);
});

test("numbers read as in a sentence", () => {
  assert.equal(format(10_000), "10\u202f000");
  assert.equal(format(0.123456), "0.1235");
  assert.equal(format(-0.5), "\u22120.5");
  assert.equal(format(1e-7), "1.00e\u22127");
  assert.equal(format(NaN), "not a number");
  assert.equal(format(-Infinity), "minus infinity");
});

test("an address holds a state and gives it back", () => {
  const controls = [base, dim, layout, causal];
  const values = { base: 12_345.5, dim: 64, layout: 1, causal: true };
  assert.deepEqual(fromHash(toHash("explore-a", controls, values), "explore-a", controls), values);
});

test("an address holds a pinned state beside the present one", () => {
  const controls = [base, dim, layout, causal];
  const values = { base: 12_345.5, dim: 64, layout: 1, causal: true };
  const pinned = { base: 100, dim: 8, layout: 0, causal: false };
  const hash = toHash("explore-a", controls, values, pinned);
  assert.deepEqual(fromHash(hash, "explore-a", controls), values);
  assert.deepEqual(fromHash(hash, "explore-a", controls, PIN), pinned);
  assert.deepEqual(fromHash(toHash("explore-a", controls, values), "explore-a", controls, PIN), {});
});

test("an address that does not fit changes nothing that it should not", () => {
  const controls = [base, dim, layout, causal];
  assert.equal(fromHash("#explore-b?base=100", "explore-a", controls), null);
  assert.equal(fromHash("#explore-ab?base=100", "explore-a", controls), null);
  assert.deepEqual(fromHash("#explore-a?base=1&dim=<i>&layout=7&causal=maybe&x=1", "explore-a", controls), {});
  assert.deepEqual(fromHash("#explore-a?layout=2", "explore-a", controls), {}); // one past the last choice
  assert.deepEqual(fromHash("#explore-a?base=100", "explore-a", controls), { base: 100 });
});

test("a logarithmic axis is labelled at powers of ten, briefly", () => {
  assert.deepEqual([0.01, 1, 1000].map(decade), ["0.01", "1", "1\u202f000"]);
  assert.deepEqual([1e-3, 1e4, 1e6, 1e-12].map(decade), ["10⁻³", "10⁴", "10⁶", "10⁻¹²"]);
  assert.deepEqual([2, 30, 0.5].map(decade), ["", "", ""]);
  assert.equal(decade(10 ** -4 * (1 + 1e-12)), "10⁻⁴"); // the axis reaches it by rounding
  assert.deepEqual([2.18e-5, -1e-12, 5e9, 0.25].map(scientific), ["2.18 · 10⁻⁵", "\u22121.00 · 10⁻¹²", "5.00 · 10⁹", "0.25"]);
});

test("a text of many digits is refused at once", () => {
  const control = { label: "n", min: 0, max: 9, step: 1, integer: true, log: false };
  for (const text of [`${"1".repeat(200_000)}x`, `0.${"1".repeat(200_000)}x`, `${"1".repeat(200_000)}`]) {
    assert.throws(() => parse(control, text), /no number|out of range/);
  }
});
