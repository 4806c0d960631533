// @ts-check
// The likeliest next bytes, each with a bar, and the one that came.

import { element } from "../dom.js";
import { likeliest, shown } from "./bytes.js";

const COUNT = 5;

/** A list of them. @param {ArrayLike<number>} bits @param {number} came */
export function nextBytes(bits, came) {
  const best = likeliest(bits, COUNT);
  if (!best.some(({ byte }) => byte === came)) best.push({ byte: came, p: 2 ** -bits[came] });
  return element("ol", { class: "pe-next" }, ...best.map(({ byte, p }) => {
    const percent = `${p < 0.0005 ? "< 0.1" : (100 * p).toFixed(1)} %`;
    const bar = element("i", { "aria-hidden": "true" });
    bar.style.width = `${(100 * p).toFixed(1)}%`;
    return element("li", { class: byte === came ? "pe-came" : undefined }, element("code", {}, shown(byte)),
      element("span", { class: "pe-level" }, bar), element("span", {}, percent + (byte === came ? ", came" : "")));
  }));
}
