// @ts-check
// The panel of a dump in a built page: a worker reads, with the page's own script, which is loaded at the first file.

import { made } from "../hire.js";
import { Dumps } from "./panel.js";

/** @import { DumpSpec, Reader } from "./types" */
/** @typedef {(method: string, given: any[]) => Promise<any>} Call */

// What the worker does with a call.
const SERVE = `onmessage = async ({ data: { number, method, given } }) => {
  try {
    postMessage({ number, found: await posencDumps[method](...given) });
  } catch (error) {
    postMessage({ number, error: error.message });
  }
};`;

/** @returns {Call} */
function worker() {
  const hired = made(`(${globalThis.posencIdentify})(self); ${SERVE}`);
  /** @type {Map<number, { resolve: (found: any) => void, reject: (error: Error) => void }>} */
  const calls = new Map();
  let count = 0;
  hired.onmessage = ({ data: { number, found, error } }) => {
    const call = calls.get(number);
    calls.delete(number);
    if (error === undefined) call?.resolve(found);
    else call?.reject(new Error(error));
  };
  hired.onerror = (event) => {
    event.preventDefault();
    for (const { reject } of calls.values()) reject(new NoWorker(event.message));
    calls.clear();
  };
  return (method, given) => new Promise((resolve, reject) => {
    calls.set(++count, { resolve, reject });
    hired.postMessage({ number: count, method, given });
  });
}

class NoWorker extends Error {}

/** @type {Call} */
async function here(method, given) {
  if (!globalThis.posencDumps) globalThis.posencIdentify(globalThis);
  return /** @type {any} */ (globalThis.posencDumps)[method](...given);
}

/** @param {HTMLElement} root @param {(name: string) => Promise<unknown>} script */
export function openDumps(root, script) {
  /** @type {DumpSpec} */
  const spec = JSON.parse(root.querySelector(".pe-data")?.textContent ?? "");
  /** @type {Call | null} */
  let there = null;
  let forbidden = false; // a page's policy may forbid workers
  /** @type {Call} */
  const call = async (method, given) => {
    if (!globalThis.posencIdentify) await script("identify.js");
    if (!forbidden) {
      try {
        there ??= worker();
        return await there(method, given);
      } catch (error) {
        if (!(error instanceof NoWorker) && error.name !== "SecurityError") throw error;
        forbidden = true;
        if (method === "ask") throw new Error("The worker that read the file has ended: choose the file again.");
      }
    }
    return here(method, given);
  };
  /** @type {Reader} */
  const reader = {
    open: (name, bytes) => call("open", [name, bytes]),
    ask: (kind, names, heads) => call("ask", [kind, names, heads, { who: spec.who, names: spec.names }]),
  };
  root.dumps = new Dumps(root, spec, reader);
}
