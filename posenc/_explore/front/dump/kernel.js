// @ts-check
// The panel of a dump in a notebook: the kernel reads the file, with posenc.audit.identify.

import { Dumps } from "./panel.js";

/** @import { DumpSpec, Reader } from "./types" */

const SILENT = "The kernel has not answered for a minute. If it is busy, wait and choose the file again; if it was restarted, run the cell again.";
const PATIENCE = 60_000; // milliseconds

/** @param {any} model @param {HTMLElement} el */
export function renderDumps(model, el) {
  /** @type {DumpSpec} */
  const spec = structuredClone(model.get("_spec")); // shared by all views of the model: not to be changed
  const mark = Math.random().toString(36).slice(2);
  /** @type {Map<string, { resolve: (found: any) => void, reject: (error: Error) => void, clock: ReturnType<typeof setTimeout> }>} */
  const waiting = new Map();
  let count = 0;
  const receive = (/** @type {any} */ { id, error, found }) => {
    const call = waiting.get(id);
    if (!call) return;
    waiting.delete(id);
    clearTimeout(call.clock);
    if (error !== undefined) call.reject(new Error(error));
    else call.resolve(found);
  };
  model.on("msg:custom", receive);
  /** @type {(method: string, given: any[], bytes?: Uint8Array) => Promise<any>} */
  const call = (method, given, bytes) =>
    new Promise((resolve, reject) => {
      const id = `${mark}-${++count}`;
      const clock = setTimeout(() => {
        waiting.delete(id);
        reject(new Error(SILENT));
      }, PATIENCE);
      waiting.set(id, { resolve, reject, clock });
      model.send({ type: "dump", id, method, given }, undefined, bytes ? [bytes] : []);
    });
  el.classList.add("pe-panel", "pe-widget", "pe-dump");
  // JupyterLab's shortcuts would take the arrow keys from whatever has the focus.
  el.addEventListener("focusin", ({ target }) => (/** @type {HTMLElement} */ (target).dataset.lmSuppressShortcuts = "true"));
  /** @type {Reader} */
  const reader = {
    open: (name, bytes) => call("open", [name], bytes),
    ask: (kind, names, heads) => call("ask", [kind, names, heads]),
  };
  el.dumps = new Dumps(el, spec, reader);
  return () => {
    model.off("msg:custom", receive);
    for (const { clock } of waiting.values()) clearTimeout(clock);
  };
}
