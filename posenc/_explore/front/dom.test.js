// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { unpacked } from "./dom.js";

/** Bytes that nothing makes shorter. @param {number} length */
function noise(length) {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i += 65536) crypto.getRandomValues(bytes.subarray(i, i + 65536));
  return bytes;
}

test("what was compressed comes out as it was, however long", async () => {
  for (const length of [0, 1, 1000, 1_500_000]) {
    const bytes = noise(length);
    assert.deepEqual(await unpacked(new Uint8Array(gzipSync(bytes))), bytes);
  }
});

test("what was not compressed stays as it is", async () => {
  const bytes = new Uint8Array([1, 2, 3]);
  assert.equal(await unpacked(bytes), bytes);
});

test("others have their turn while much is unpacked", async () => {
  let turns = 0;
  const count = () => void (turns++, timer = setImmediate(count));
  let timer = setImmediate(count);
  await unpacked(new Uint8Array(gzipSync(noise(1_500_000))));
  clearImmediate(timer);
  assert.ok(turns >= 5, `${turns} turns`); // one for each piece but the last
});

test("what is cut off or damaged is refused", async () => {
  const packed = new Uint8Array(gzipSync(noise(1_000_000)));
  await assert.rejects(unpacked(packed.slice(0, 700_000)));
  packed.fill(7, 300_000, 400_000);
  await assert.rejects(unpacked(packed));
});
