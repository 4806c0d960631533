// @ts-check
// Links may hold anything: whatever an address says, controls get values that they could have, or keep theirs.
import assert from "node:assert/strict";
import test from "node:test";

import { PIN, fromHash, toHash, within } from "./scale.js";

/** @import { Choice, Control, Slider, Tick } from "./types" */

/** @type {(name: string, rest: Partial<Slider>) => Slider} */
const slider = (name, rest) => ({
  kind: "slider", name, label: name, min: 0, max: 1, step: 0.1, log: false, integer: false, ...rest,
}); // prettier-ignore

/** @type {Choice} */
const layout = { kind: "choice", name: "layout", label: "layout", labels: ["half", "interleaved"] };
/** @type {Tick} */
const causal = { kind: "tick", name: "causal", label: "causal" };
/** @type {Control[]} */
const controls = [
  slider("base", { min: 10, max: 1e6, step: 1 / 40, log: true }),
  slider("dim", { min: 8, max: 125, step: 8, integer: true }),
  slider("angle", { min: -1, max: 2 }),
  layout,
  causal,
];

const PIECES = [
  "0", "1", "17", "999", ".", ",", "-", "\u2212", "+", "e", "E9", "1e999", "NaN", "Infinity", "0x1F", "true", "false",
  "null", " ", "%20", "%", "%zz", "%00", "%F0%9F%98%80", "\u202f", "\u2009", "\u00e9", "\u{1f600}", "\ud800", "<b>",
  "<img src=x onerror=alert(1)>", "&", "=", "?", "#", ";", "base", "dim", "angle", "layout", "causal", "base=", "&dim=",
  "__proto__", "constructor", "toString", "hasOwnProperty", PIN, `${PIN}base=`, "[]", "{}", '"', "'", "\\", "\n", "\0",
]; // prettier-ignore

/** Numbers from 0 to 1, the same at every run. @param {number} seed */
function random(seed) {
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** @param {Record<string, number | boolean>} values */
function possible(values) {
  assert.equal(Object.getPrototypeOf(values), Object.prototype);
  for (const [name, value] of Object.entries(values)) {
    const control = controls.find((each) => each.name === name);
    assert.ok(control, `${name} is no control`);
    if (control.kind === "tick") assert.equal(typeof value, "boolean");
    else if (control.kind === "choice") assert.ok(Number.isInteger(value) && Number(value) in control.labels);
    else {
      assert.ok(typeof value === "number" && value >= control.min && value <= control.max, `${name} is ${value}`);
      assert.ok(!control.integer || Number.isInteger(value), `${name} is ${value}`);
    }
  }
}

test("whatever an address says, controls get values that they could have", () => {
  const next = random(1);
  /** @type {<T>(list: T[]) => T} */
  const pick = (list) => list[Math.floor(next() * list.length)];
  let read = 0;
  for (let n = 0; n < 4_000; n++) {
    const parts = Array.from({ length: 1 + Math.floor(next() * 6) }, () => {
      const number = String(next() < 0.5 ? Math.floor(200 * next()) : 3 * next() - 1);
      const odd = Array.from({ length: 1 + Math.floor(next() * 4) }, () => pick(PIECES)).join("");
      const text = next() < 0.3 ? number : next() < 0.2 ? number + odd : odd;
      return next() < 0.7 ? `${next() < 0.2 ? PIN : ""}${pick(controls).name}=${text}` : text;
    });
    const hash = `${pick(["#explore-a?", "#explore-a?", "#explore-a?", "#explore-a", "#", ""])}${parts.join("&")}`;
    for (const prefix of ["", PIN]) {
      const values = fromHash(hash, "explore-a", controls, prefix);
      if (values === null) assert.ok(!hash.startsWith("#explore-a?"));
      else possible(values);
      read += Object.keys(values ?? {}).length;
    }
  }
  assert.ok(read > 100, `only ${read} values were read: the fuzz is blunt`);
  assert.deepEqual(Object.keys(Object.prototype), []);
});

test("whatever values controls have, an address gives them back", () => {
  const next = random(2);
  for (let n = 0; n < 500; n++) {
    /** @type {() => Record<string, number | boolean>} */
    const drawn = () => ({
      base: 10 ** (1 + 5 * next()),
      dim: 8 + 8 * Math.floor(next() * 15),
      angle: next() < 0.1 ? 1e-7 * next() : 3 * next() - 1,
      layout: Math.floor(next() * 2),
      causal: next() < 0.5,
    });
    const [values, pinned] = [drawn(), drawn()];
    const hash = toHash("explore-a", controls, values, pinned);
    assert.deepEqual(fromHash(hash, "explore-a", controls), values);
    assert.deepEqual(fromHash(hash, "explore-a", controls, PIN), pinned);
  }
});

test("a link of a notebook leads into it if it is of the notebook itself or of the page of its name", () => {
  const lab = "http://localhost:8888/doc/tree/chapters/rope.ipynb";
  const page = "https://owner.github.io/book/chapters/rope.html";
  for (const address of [`${lab}#explore-a?x=1`, `${page}#explore-a?x=1`, "http://localhost:8888/files/chapters/rope.html#a"])
    assert.ok(within(address, `${lab}#before`), address);
  assert.ok(within(`${page}#explore-a`, `${lab}?reset`));
  for (const address of [page.replace("rope", "alibi"), page.replace("rope", "yarn_rope"), `${lab}?other`, "https://a.b/", "blob:x"])
    assert.ok(!within(address, lab), address);
  assert.ok(!within(`${page}#a`, `${page.replace("rope", "t5")}`));
});
