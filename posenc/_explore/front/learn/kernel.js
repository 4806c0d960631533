// @ts-check
// A training panel in a notebook: the kernel trains, with torch.

import { Learning } from "./panel.js";

/** @import { LearnSpec, Trainer } from "./types" */

const METHODS = /** @type {const} */ (["begin", "advance", "exam", "keep", "back"]);
const SILENT = "The kernel has not answered for a minute. If it is busy, wait and press Train again; if it was restarted, run the cell again.";
const PATIENCE = 60_000; // milliseconds

/** @param {any} model @param {HTMLElement} el */
export function renderLearning(model, el) {
  /** @type {LearnSpec} */
  const spec = structuredClone(model.get("_spec")); // shared by all views of the model: not to be changed
  const mark = Math.random().toString(36).slice(2);
  /** @type {Map<string, { resolve: (found: any) => void, reject: (error: Error) => void, clock: ReturnType<typeof setTimeout> }>} */
  const waiting = new Map();
  let number = 0;
  /** @type {(message: any, buffers: any[]) => void} */
  const receive = ({ id, error, found, shapes = [] }, buffers) => {
    const call = waiting.get(id);
    if (!call) return;
    waiting.delete(id);
    clearTimeout(call.clock);
    if (error) return call.reject(new Error(error));
    const tensors = buffers.map((buffer, i) => {
      const start = buffer.byteOffset ?? 0;
      return { shape: shapes[i], data: new Float32Array((buffer.buffer ?? buffer).slice(start, start + buffer.byteLength)) };
    });
    // JSON has no NaN, so that a loss that is none came as null.
    if (found?.losses) found.losses = found.losses.map((/** @type {(number | null)[]} */ row) => row.map((loss) => loss ?? NaN));
    call.resolve(tensors.length ? examOf(tensors) : found);
  };
  model.on("msg:custom", receive);
  /** @type {(method: string, given: any[]) => Promise<any>} */
  const call = (method, given) =>
    new Promise((resolve, reject) => {
      const id = `${mark}-${++number}`;
      const clock = setTimeout(() => {
        waiting.delete(id);
        reject(new Error(SILENT));
      }, PATIENCE);
      waiting.set(id, { resolve, reject, clock });
      model.send({ type: "learn", id, method, given });
    });
  const trainer = Object.fromEntries(METHODS.map((method) => [method, (/** @type {any[]} */ ...given) => call(method, given)]));
  el.classList.add("pe-panel", "pe-widget", "pe-learn", "pe-open");
  // JupyterLab's shortcuts would take the arrow keys from whatever has the focus.
  el.addEventListener("focusin", ({ target }) => (/** @type {HTMLElement} */ (target).dataset.lmSuppressShortcuts = "true"));
  const panel = new Learning(el, spec, async () => /** @type {Trainer} */ (/** @type {unknown} */ ({ ...trainer, end: async () => {} })));
  /** @type {any} */ (el).learning = panel;
  return () => {
    model.off("msg:custom", receive);
    for (const { clock } of waiting.values()) clearTimeout(clock);
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
