// @ts-check
// Trained models in a built page: each is one graph, which is loaded when it is chosen.

import { desk, mayWork } from "../away.js";
import { decode, unpacked } from "../dom.js";
import { Playing } from "./panel.js";

/** @import { Loaded } from "../away.js" */
/** @import { PlaySpec, Reading } from "./types" */
/** What the page lends: the runtime, and graphs that stand apart. @typedef {{ load(): Promise<Loaded>, here(loaded: Loaded): unknown, graphsOf(spec: any, key: string): Promise<Record<string, string>> }} Lent */

/** @param {HTMLElement} root @param {Lent} lent */
export function openPlaying(root, { load, here, graphsOf }) {
  /** @type {PlaySpec} */
  const spec = JSON.parse(root.querySelector(".pe-data")?.textContent ?? "");
  /** @type {Map<string, Promise<unknown>>} */
  const given = new Map();
  const panel = new Playing(root, spec, async () => {
    const loaded = await load();
    const call = await desk(loaded, await mayWork(), here, "readings", root.id, null);
    const give = async (/** @type {string} */ model) => {
      const graphs = await graphsOf(spec, model);
      await call("give", model, { graph: await unpacked(decode(graphs[model])), shape: spec.shape });
    };
    return /** @type {Reading} */ ({
      prepare(model) {
        const giving = given.get(model) ?? give(model);
        given.set(model, giving);
        return giving.catch((error) => {
          given.delete(model); // the next move tries again
          throw error;
        });
      },
      read: (piece) => call("read", piece),
    });
  });
  /** @type {any} */ (root).learning = panel;
  root.classList.add("pe-open");
}
