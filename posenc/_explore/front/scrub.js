// @ts-check
// A number that can be dragged to the left and right, in a formula or in the text: a second way to a slider.

import { stepOf, steps, valueAt } from "./scale.js";

/** @import { Panel } from "./panel.js" */
/** @import { Slider, Touchable } from "./types" */

const ROOM = 240; // pixels for the whole range of a slider, if a step gets no less than 2 and no more than 12

/**
 * Make a node a number of a panel; `moved` is told that it was dragged, so that a click that follows is none.
 * @param {Touchable} node @param {Panel} panel @param {string} name
 */
export function scrub(node, panel, name, moved = () => {}) {
  const control = /** @type {Slider} */ (panel.spec.controls.find((c) => c.name === name));
  const pace = Math.max(2, Math.min(12, ROOM / Math.max(1, steps(control))));
  /** @type {{ id: number, x: number, from: number } | null} */
  let held = null;
  node.classList.add("pe-scrub");
  node.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button || held) return;
    event.preventDefault();
    panel.stop();
    node.setPointerCapture(event.pointerId);
    held = { id: event.pointerId, x: event.clientX, from: stepOf(control, panel.values[name]) };
  });
  node.addEventListener("pointermove", (event) => {
    if (held?.id !== event.pointerId) return;
    const step = held.from + Math.round((event.clientX - held.x) / pace);
    const value = valueAt(control, Math.max(0, Math.min(steps(control), step)));
    if (value === panel.values[name]) return;
    moved();
    panel.set({ [name]: value });
  });
  for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) node.addEventListener(kind, () => (held = null));
  node.addEventListener("dragstart", (event) => event.preventDefault());
}
