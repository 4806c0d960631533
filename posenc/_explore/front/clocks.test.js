// @ts-check
// Where dials stand, and what is inked on them.
import assert from "node:assert/strict";
import test from "node:test";

import { ranged, shares, turns } from "./views/clocks.js";

const FULL = 2 * Math.PI;

test("dials stand in rows of one length, inside the room that they have", () => {
  for (const count of [1, 2, 5, 12, 16]) {
    for (const room of [240, 320, 390, 560, 700, 820, 1600]) {
      const { across, rows, radius } = ranged(count, room, 380);
      assert.ok(across * rows >= count && across * (rows - 1) < count, `${count} in ${room}`);
      assert.ok(2 * radius <= room / across, `${count} in ${room}: ${radius}`);
    }
  }
  assert.deepEqual(ranged(12, 700, 380), { across: 6, rows: 2, radius: 49 });
});

test("a hand leaves an arc of less than a turn, and no full dial", () => {
  assert.deepEqual(shares(FULL / 4, FULL / 8), { inside: 0.25, beyond: 0 });
  assert.deepEqual(shares(FULL / 4, FULL / 4), { inside: 0.25, beyond: 0 });
  assert.deepEqual(shares(FULL / 4, FULL / 4 + 1e-6), { inside: 0.25, beyond: 0 }); // rounding is no new phase
  assert.equal(shares(FULL / 4, FULL / 2).beyond, 0.25);
  assert.equal(shares(FULL / 4, 3.5 * FULL).beyond, 0.75); // it has been everywhere
  assert.deepEqual(shares(1.5 * FULL, 40 * FULL), { inside: 1, beyond: 0 });
});

test("turns are named", () => {
  assert.equal(turns(20.4 * FULL), "20 turns");
  assert.equal(turns(0.951 * FULL), "0.95 turns");
  assert.equal(turns(FULL), "1 turn");
});
