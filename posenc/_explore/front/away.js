// @ts-check
// Objects that compute in a worker of their own, so that panels do not wait; in the page where there can be no worker.

import { hire, made } from "./hire.js";

/** @typedef {{ wasm: Uint8Array }} Loaded */
/** @typedef {"trainings" | "readings"} Kind what runtime.js has of each */
/** A method of the object of one panel. @typedef {(method: string, ...given: any[]) => Promise<any>} Call */

/** @type {((...call: any[]) => Promise<any>) | null} */
let there = null;

// What the worker does with a call.
const ANSWER = `async (kind, id, method, ...given) =>
  [method === "open" ? posencDesks[kind].open(id, ...given) : await posencDesks[kind].call(id, method, ...given), []]`;

/** @param {Loaded} loaded */
function worker({ wasm }) {
  there ??= hire(wasm, ANSWER, (reason = "no reason given") => {
    there = null;
    return new Error(`The worker that computes for this panel has ended (${reason}). Reload the page.`);
  });
  return there;
}

/** Whether a page may have a worker: its policy may forbid one, which shows when it is made or soon after. */
export const mayWork = () =>
  new Promise((resolve) => {
    try {
      const worker = made("postMessage(1)");
      const tell = (/** @type {boolean} */ yes) => {
        worker.terminate();
        resolve(yes);
      };
      worker.onmessage = () => tell(true);
      worker.onerror = (event) => {
        event.preventDefault();
        tell(false);
      };
    } catch {
      resolve(false);
    }
  });

/**
 * Open the object of a panel, with what it begins with, in a worker or in the page; returns how its methods are called.
 * @type {(loaded: Loaded, away: boolean, here: (loaded: Loaded) => unknown, kind: Kind, id: string, first: any) => Promise<Call>}
 */
export async function desk(loaded, away, here, kind, id, first) {
  if (away) {
    const call = worker(loaded);
    await call(kind, id, "open", first);
    return (method, ...given) => call(kind, id, method, ...given);
  }
  here(loaded);
  const own = globalThis.posencDesks[kind];
  own.open(id, first);
  return (method, ...given) => own.call(id, method, ...given);
}
