// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";

import { OFFSET, SHIFTED, SHUFFLED, place } from "./breaks.js";
import { chances, drawn, encode, letters, likeliest, mean, running, shown } from "./bytes.js";
import { inked, mapped, profiles } from "./looks.js";

const text = (/** @type {string} */ given, most = 99) => letters(encode(given, most)).map((letter) => letter.text);

test("a text is read to a whole letter", () => {
  assert.deepEqual(text("aé😀b"), ["a", "é", "😀", "b"]);
  assert.deepEqual([1, 2, 3, 6, 7, 8].map((most) => encode("aé😀b", most).length), [1, 1, 3, 3, 7, 8]);
  assert.equal(encode("x".repeat(100_000), 2048).length, 2048);
  assert.equal(encode("😀".repeat(25_000), 2047).length, 2044);
  assert.equal(encode("", 9).length, 0);
});

test("what is no UTF-8 is shown byte by byte", () => {
  assert.deepEqual(letters([0x61, 0xff, 0xc3, 0xa9, 0xe2, 0x82, 0, 10]).map((l) => [l.text, l.from, l.to, l.odd]), [
    ["a", 0, 1, false], ["\\xff", 1, 2, true], ["é", 2, 4, false], ["\\xe2", 4, 5, true], ["\\x82", 5, 6, true], ["\\x00", 6, 7, true], ["\n", 7, 8, false],
  ]);
  assert.deepEqual(text("\ud800"), ["\ufffd"]); // half of a pair becomes the letter that stands for it
  assert.deepEqual([10, 9, 32, 65, 200].map(shown), ["↵", "⇥", "␣", "A", "\\xc8"]);
});

test("the likeliest bytes come first", () => {
  assert.deepEqual(likeliest([3, 1, 2, 3], 3), [{ byte: 1, p: 0.5 }, { byte: 2, p: 0.25 }, { byte: 0, p: 0.125 }]);
});

test("bytes are drawn as often as they are likely", () => {
  const bits = [2, Math.log2(4 / 3)];
  const chance = chances(3);
  const count = Array.from({ length: 4000 }, () => drawn(bits, 1, chance())).filter((byte) => byte === 1).length;
  assert.ok(Math.abs(count / 4000 - 0.75) < 0.03);
  assert.equal(drawn(bits, 0, 0.99), 1);
  assert.equal(drawn(bits, 0.5, 0.89), 1); // three squared, of ten
  assert.equal(drawn(bits, 0.5, 0.91), 0);
  assert.deepEqual([chances(5)(), chances(5)()][0], chances(5)());
});

test("means leave out what is none", () => {
  assert.equal(mean([1, NaN, 3]), 2);
  assert.ok(Number.isNaN(mean([NaN])));
  assert.deepEqual([...running(Float32Array.of(NaN, 2, 4, 6), 2)], [NaN, 2, 3, 5]);
});

test("broken positions are those that are said", () => {
  const all = (/** @type {number} */ broken) => Array.from({ length: 128 }, (_, i) => place(broken, i, 128));
  assert.deepEqual([all(0)[77], all(SHIFTED)[77], all(OFFSET)[63], all(OFFSET)[64], all(OFFSET)[100]], [77, 1077, 63, 0, 36]);
  const shuffled = all(SHUFFLED);
  assert.deepEqual([...shuffled].sort((a, b) => a - b), all(0));
  assert.ok(shuffled.every((at, i) => Math.floor(at / 32) === Math.floor(i / 32)));
  assert.ok(shuffled.filter((at, i) => at === i).length < 16);
});

test("weights are inked by letter, and averaged by distance", () => {
  const two = [{ from: 0, to: 2 }, { from: 2, to: 3 }, { from: 3, to: 4 }];
  assert.deepEqual(inked(Float32Array.of(0.25, 0.25, 0.5), two).map((v) => Math.round(100 * v)), [100, 100, NaN]);
  const rows = Array.from({ length: 40 }, (_, i) => Float32Array.from({ length: i + 1 }, (_, j) => i - j));
  const [x, y] = profiles([rows]);
  assert.deepEqual([...y.data], [...x.data]);
  assert.equal(x.data.length, 23);
});

test("a map has each weight, and of a long text the largest of some", () => {
  const rows = (/** @type {number} */ count) => Array.from({ length: count }, (_, i) => Float32Array.from({ length: i + 1 }, (_, j) => (j === i ? 0 : 10 ** (j - i))));
  const { map, stride } = mapped(rows(4));
  assert.deepEqual([stride, map.shape], [1, [4, 4]]);
  assert.deepEqual([...map.data].map(Math.round), [-9, -Infinity, -Infinity, -Infinity, -1, -9, -Infinity, -Infinity, -2, -1, -9, -Infinity, -3, -2, -1, -9]);
  const long = mapped(rows(511));
  assert.deepEqual([long.stride, long.map.shape], [2, [256, 256]]);
  assert.deepEqual([...long.map.data.subarray(2 * 256, 2 * 256 + 4)].map(Math.round), [-3, -1, -1, -Infinity]);
  assert.deepEqual([...long.map.data.subarray(255 * 256 + 254)].map(Math.round), [-1, -9]); // a row and a column that stand alone
});
