// @ts-check
// The likeliest next bytes, each with a bar, and the one that came.

import { element } from "../dom.js";
import { likeliest, shown, surprise } from "./bytes.js";

const COUNT = 5;

/** A list of them; empty where there are no logits. @param {ArrayLike<number> | undefined} logits @param {number} came */
export function nextBytes(logits, came) {
  if (!logits) return element("ol", { class: "pe-next" });
  const best = likeliest(logits, COUNT);
  if (!best.some(({ byte }) => byte === came)) best.push({ byte: came, p: 2 ** -surprise(logits, came) });
  return element("ol", { class: "pe-next" }, ...best.map(({ byte, p }) => {
    const percent = `${p < 0.0005 ? "< 0.1" : (100 * p).toFixed(1)} %`;
    const bar = element("i", { "aria-hidden": "true" });
    bar.style.width = `${(100 * p).toFixed(1)}%`;
    return element("li", { class: byte === came ? "pe-came" : undefined }, element("code", {}, shown(byte)),
      element("span", { class: "pe-level" }, bar), element("span", {}, percent + (byte === came ? ", came" : "")));
  }));
}
