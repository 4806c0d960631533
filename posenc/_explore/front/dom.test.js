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

test("much is unpacked in pieces, and others have their turn in between", async (context) => {
  let turns = 0;
  let timer = setImmediate(count);
  function count() {
    turns++;
    timer = setImmediate(count);
  }
  /** @type {[number, number][]} */
  const written = []; // how much, and in which turn
  const Whole = DecompressionStream;
  class Watched {
    /** @param {"gzip"} kind */
    constructor(kind) {
      const inner = new Whole(kind);
      const writer = inner.writable.getWriter();
      this.readable = inner.readable;
      this.writable = new WritableStream({
        write(piece) {
          written.push([piece.length, turns]);
          return writer.write(piece);
        },
        close: () => writer.close(),
      });
    }
  }
  globalThis.DecompressionStream = /** @type {any} */ (Watched);
  context.after(() => {
    globalThis.DecompressionStream = Whole;
  });
  await unpacked(new Uint8Array(gzipSync(noise(1_500_000))));
  clearImmediate(timer);
  assert.equal(written.length, 6);
  assert.ok(written.every(([bytes, turn], n) => bytes <= 1 << 18 && (n === 0 || turn > written[n - 1][1])), String(written));
});

test("what is cut off or damaged is refused", async () => {
  const packed = new Uint8Array(gzipSync(noise(1_000_000)));
  await assert.rejects(unpacked(packed.slice(0, 700_000)));
  packed.fill(7, 300_000, 400_000);
  await assert.rejects(unpacked(packed));
});
