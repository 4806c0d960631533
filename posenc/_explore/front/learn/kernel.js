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
  /** @type {string[]} the schemes of the training under way */
  let trained = [];
  /** @type {(method: string, given: any[]) => Promise<any>} */
  const call = async (method, given) => {
    if (method === "begin") trained = given[0].schemes;
    const { found, tensors } = await ask({ method, given });
    // JSON has no NaN, so that a loss that is none came as null.
    if (found?.losses) found.losses = found.losses.map((/** @type {(number | null)[]} */ row) => row.map((loss) => loss ?? NaN));
    return tensors.length ? examOf(tensors, trained.map((name) => watched(spec, name))) : found;
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

/** How many tensors are watched of a scheme: lines have two. @type {(spec: LearnSpec, name: string) => number} */
function watched({ schemes }, name) {
  const view = schemes.find((scheme) => scheme.name === name)?.watched;
  return view ? (view.kind === "lines" ? 2 : 1) : 0;
}

/** @type {(tensors: import("../types").Tensor[], watched: number[]) => import("./types").Exam} */
function examOf([tokens, targets, share, ...rest], watched) {
  const schemes = watched.map((count) => {
    const [accuracy, loss, written, heads, ...more] = rest.splice(0, 4 + count);
    return { accuracy, loss, written, heads, watched: more };
  });
  return { tokens, targets, share, schemes };
}
