// @ts-check
// A training panel in a built page: graphs train, in a worker of their own, so that other panels do not wait.

import { decode } from "../dom.js";
import { hire, made } from "../hire.js";
import { Learning, Stutter } from "./panel.js";

/** @import { LearnSpec, Trainer } from "./types" */
/** @typedef {{ wasm: Uint8Array }} Loaded */
/** What the page lends: the runtime, and graphs that stand apart. @typedef {{ load(): Promise<Loaded>, here(loaded: Loaded): unknown, graphsOf(spec: any): Promise<Record<string, string>> }} Lent */
/** @typedef {(id: string, method: string, ...given: any[]) => Promise<any>} Call */

const METHODS = /** @type {const} */ (["begin", "advance", "exam", "keep", "back", "end"]);
/** @type {Call | null} */
let there = null; // the worker's

// What the worker does with a call.
const ANSWER = `async (id, method, ...given) =>
  [method === "open" ? posencTrainings.open(id, ...given) : await posencTrainings.call(id, method, ...given), []]`;

/** The worker of all trainings of the page. @param {Loaded} loaded @returns {Call} */
function worker({ wasm }) {
  there ??= hire(wasm, ANSWER, (reason = "no reason given") => {
    there = null;
    return new Error(`The worker that trains has ended (${reason}). Reload the page.`);
  });
  return there;
}

/** Whether a page may have a worker: its policy may forbid one, which shows when it is made or soon after. */
const mayWork = () =>
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

/** @param {HTMLElement} root @param {Lent} lent */
export function openLearning(root, { load, here, graphsOf }) {
  /** @type {LearnSpec} */
  const spec = JSON.parse(root.querySelector(".pe-data")?.textContent ?? "");
  const panel = new Learning(root, spec, async (agreed) => {
    const away = await mayWork();
    if (!away && !agreed) throw new Stutter("This page may have no worker, so that it would stutter while models train.");
    const [loaded, graphs] = await Promise.all([load(), graphsOf(spec)]);
    if (!away) here(loaded);
    /** @type {Call} */
    const call = away ? worker(loaded) : (id, method, ...given) => globalThis.posencTrainings.call(id, /** @type {keyof Trainer} */ (method), ...given);
    const decoded = Object.fromEntries(Object.entries(graphs).map(([key, graph]) => [key, decode(graph)]));
    if (away) await call(root.id, "open", decoded);
    else globalThis.posencTrainings.open(root.id, decoded);
    return /** @type {any} */ (Object.fromEntries(METHODS.map((method) => [method, (/** @type {any[]} */ ...given) => call(root.id, method, ...given)])));
  });
  /** @type {any} */ (root).learning = panel;
  root.classList.add("pe-open");
}
