// @ts-check
// A training panel in a notebook: the kernel trains, with torch.

import { asking } from "../asking.js";
import { Learning } from "./panel.js";

/** @import { LearnSpec, Trainer } from "./types" */

const METHODS = /** @type {const} */ (["begin", "advance", "exam", "keep", "back"]);

/** @param {any} model @param {HTMLElement} el */
export function renderLearning(model, el) {
  /** @type {LearnSpec} */
  const spec = structuredClone(model.get("_spec")); // shared by all views of the model: not to be changed
  const { ask, close } = asking(model, "learn");
  /** @type {(method: string, given: any[]) => Promise<any>} */
  const call = async (method, given) => {
    const { found, tensors } = await ask({ method, given });
    // JSON has no NaN, so that a loss that is none came as null.
    if (found?.losses) found.losses = found.losses.map((/** @type {(number | null)[]} */ row) => row.map((loss) => loss ?? NaN));
    return tensors.length ? examOf(tensors) : found;
  };
  const trainer = Object.fromEntries(METHODS.map((method) => [method, (/** @type {any[]} */ ...given) => call(method, given)]));
  el.classList.add("pe-panel", "pe-widget", "pe-learn", "pe-open");
  const panel = new Learning(el, spec, async () => /** @type {Trainer} */ (/** @type {unknown} */ ({ ...trainer, end: async () => {} })));
  /** @type {any} */ (el).learning = panel;
  return () => {
    close();
    panel.destroy();
  };
}

/** @param {import("../types").Tensor[]} tensors */
function examOf([tokens, targets, share, ...rest]) {
  const schemes = [];
  for (let i = 0; i < rest.length; i += 4) {
    const [accuracy, loss, written, heads] = rest.slice(i, i + 4);
    schemes.push({ accuracy, loss, written, heads });
  }
  return { tokens, targets, share, schemes };
}
