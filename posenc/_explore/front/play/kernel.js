// @ts-check
// Trained models in a notebook: the kernel reads, with torch.

import { asking } from "../asking.js";
import { Playing } from "./panel.js";

/** @import { PlaySpec, Reading } from "./types" */

/** @param {any} model @param {HTMLElement} el */
export function renderPlaying(model, el) {
  /** @type {PlaySpec} */
  const spec = structuredClone(model.get("_spec")); // shared by all views of the model: not to be changed
  const { ask, close } = asking(model, "play");
  el.classList.add("pe-panel", "pe-widget", "pe-learn", "pe-reading", "pe-open");
  const panel = new Playing(el, spec, async () => /** @type {Reading} */ ({
    prepare: async () => {},
    read: async (piece) => {
      const { tensors: [bits, weights] } = await ask({ piece });
      return { bits, weights };
    },
  }));
  /** @type {any} */ (el).learning = panel;
  return () => {
    close();
    panel.destroy();
  };
}
