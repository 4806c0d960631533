// @ts-check
// What can be grabbed in a picture: a second way to controls that are in the tab order already, so it adds no tab stop.

/** @import { Panel } from "../panel.js" */
/** @import { Held, Picture } from "../types" */
/** @import { View } from "./view.js" */

const FIRM = 6; // pixels after which a drag has a direction
const PATIENCE = 4; // milliseconds of a frame for the search

/**
 * A view's handles have a `node`, under which the pointer takes them; `controls`, names; and either `at(x, y)`, the values
 * that a place in the picture stands for, or `miss(tensors, x, y, taken)`, how far from the pointer the thing is drawn
 * with these tensors, in pixels. `take(x, y)` says which part of the thing was taken, if it has parts.
 * @type {(view: View, panel: Panel) => void}
 */
export function grab(view, panel) {
  for (const handle of view.handles) {
    /** @type {Held | null} */
    let held = null;
    let moved = false;
    const { node } = handle;
    node.classList.add("pe-handle");
    const place = (/** @type {PointerEvent} */ { clientX, clientY }) => view.pixel(clientX, clientY);
    const end = () => {
      if (!held) return;
      held = null; // the search goes on until it has reached the last place
      panel.release();
    };
    node.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary || event.button || held || panel.held) return; // a second finger does nothing
      event.preventDefault();
      event.stopPropagation(); // the probe waits for fingers that rest
      node.setPointerCapture(event.pointerId);
      const [x, y] = place(event);
      moved = false;
      held = { id: event.pointerId, from: [x, y], controls: handle.controls, taken: handle.take?.(x, y) ?? null };
      panel.hold();
    });
    node.addEventListener("pointermove", (event) => {
      if (!held || event.pointerId !== held.id) return;
      moved = true;
      const [x, y] = place(event);
      if (handle.at) return panel.set(handle.at(x, y));
      if (handle.either && held.controls.length > 1) { // the first direction says which of two controls is meant
        const [dx, dy] = [Math.abs(x - held.from[0]), Math.abs(y - held.from[1])];
        if (Math.max(dx, dy) < FIRM) return;
        held.level = dx > dy;
        held.controls = [held.controls[held.level ? 0 : 1]];
      }
      const mine = held;
      panel.seek(mine, (tensors) => handle.miss?.(panel.shareOf(view, tensors), x, y, mine) ?? 0, PATIENCE);
    });
    node.addEventListener("click", (event) => moved && event.stopPropagation()); // the end of a drag chooses nothing
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) node.addEventListener(kind, end);
  }
  const { adopt } = view;
  if (!adopt) return;
  // A click on the picture chooses the place; with the button down the choice follows the mouse.
  const choose = (/** @type {MouseEvent} */ event) => {
    if (panel.held || view.probing) return;
    const spot = /** @type {Picture} */ (view).locate(...view.pixel(event.clientX, event.clientY));
    const values = spot && adopt(spot);
    if (values && Object.entries(values).some(([name, value]) => panel.values[name] !== value)) panel.set(values);
  };
  view.stage.addEventListener("click", choose);
  view.stage.addEventListener("pointermove", (event) => event.pointerType === "mouse" && event.buttons === 1 && choose(event));
}
