// @ts-check
// A training panel in a built page: graphs train, in a worker of their own, so that other panels do not wait.

import { desk, mayWork } from "../away.js";
import { decode, unpacked } from "../dom.js";
import { Learning, Stutter } from "./panel.js";

/** @import { Loaded } from "../away.js" */
/** @import { LearnSpec } from "./types" */
/** What the page lends: the runtime, and graphs that stand apart. @typedef {{ load(): Promise<Loaded>, here(loaded: Loaded): unknown, graphsOf(spec: any): Promise<Record<string, string>> }} Lent */

const METHODS = /** @type {const} */ (["begin", "advance", "exam", "keep", "back", "end"]);

/** @param {HTMLElement} root @param {Lent} lent */
export function openLearning(root, { load, here, graphsOf }) {
  /** @type {LearnSpec} */
  const spec = JSON.parse(root.querySelector(".pe-data")?.textContent ?? "");
  const panel = new Learning(root, spec, async (agreed) => {
    const away = await mayWork();
    if (!away && !agreed) throw new Stutter("This page may have no worker, so that it would stutter while models train.");
    const [loaded, graphs] = await Promise.all([load(), graphsOf(spec)]);
    const given = await Promise.all(Object.entries(graphs).map(async ([key, graph]) => [key, await unpacked(decode(graph))]));
    const call = await desk(loaded, away, here, "trainings", root.id, Object.fromEntries(given));
    return /** @type {any} */ (Object.fromEntries(METHODS.map((method) => [method, (/** @type {any[]} */ ...given) => call(method, ...given)])));
  });
  /** @type {any} */ (root).learning = panel;
  root.classList.add("pe-open");
}
