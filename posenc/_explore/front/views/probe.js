// @ts-check
// The probe: what a picture shows at one place, under the pointer, a finger or the arrow keys. It computes nothing.

import { element, pool, set, shape, write } from "../dom.js";

/** @import { Panel } from "../panel.js" */
/** @import { Picture, Place, Point, Told } from "../types" */

const HOLD = 350; // milliseconds that a finger rests before it probes; sooner it scrolls the page
/** @type {Record<string, Point>} */
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], PageUp: [10, 0], PageDown: [-10, 0] };

/**
 * A view that can be probed has `locate(x, y)`, the place at a pixel of its picture, or null; `step(place, dx, dy)`, the
 * place so far from another; `named(place)`, what its axes say there; `find(names)`, the place of which other axes speak,
 * or null; and `tell(place)`: the words, the point to mark and the lines to draw. The panel is told of every place. Where
 * a place stands for values of controls, `adopt(place)`, the key Enter sets them. The words stand beside the point, and of a
 * view with `above`, above its picture.
 */
export class Probe {
  /** @type {Place | null} */
  place = null;
  words = ""; // for those who do not see it

  /** @param {Picture} view @param {Panel} panel */
  constructor(view, panel) {
    const aim = (/** @type {Place | null} */ place) => panel.aim(view, place);
    this.view = view;
    this.cross = shape("path", { class: "pe-cross" });
    this.dots = shape("g", { class: "pe-probe-dots" });
    this.layer = shape("g", { class: "pe-probe", visibility: "hidden" }, this.cross, this.dots);
    this.chip = element("div", { class: "pe-chip", hidden: true, "aria-hidden": "true" });
    const { stage, frame } = view;
    frame.svg.append(this.layer);
    stage.append(this.chip);
    set(stage, { tabindex: 0, role: "slider", "aria-valuetext": "no place yet, arrow keys go to one", "aria-valuenow": 0 });
    const at = (/** @type {PointerEvent} */ { clientX, clientY }) => view.locate(...view.pixel(clientX, clientY));
    /** @type {number | null} */
    let held = null; // a finger
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let clock;
    const leave = () => {
      clearTimeout(clock);
      held = null;
      stage.classList.remove("pe-probing");
      if (document.activeElement !== stage) aim(null);
    };
    stage.addEventListener("pointermove", (event) => {
      if (panel.held) return;
      if (event.pointerType === "mouse" || held === event.pointerId) aim(at(event));
      else clearTimeout(clock); // the finger scrolls
    });
    stage.addEventListener("pointerdown", (event) => {
      view.probing = false;
      if (event.pointerType === "mouse" || held !== null || !event.isPrimary) return;
      clock = setTimeout(() => {
        held = event.pointerId;
        view.probing = true; // so that the click at the end chooses nothing
        stage.classList.add("pe-probing");
        aim(at(event));
      }, HOLD);
    });
    stage.addEventListener("touchmove", (event) => held !== null && event.preventDefault(), { passive: false });
    for (const kind of ["pointerleave", "pointerup", "pointercancel"]) {
      stage.addEventListener(kind, (event) => (/** @type {PointerEvent} */ (event).pointerType !== "mouse" || kind === "pointerleave") && leave());
    }
    stage.addEventListener("contextmenu", (event) => held !== null && event.preventDefault());
    stage.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return aim(null);
      if (event.key === "Enter" && this.place && view.adopt) return panel.set(view.adopt(this.place));
      const step = STEPS[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const place = view.step(this.place, ...step);
      aim(place);
      if (place) set(stage, { "aria-valuenow": Object.values(view.named(place))[0] ?? 0, "aria-valuetext": this.words });
    });
    stage.addEventListener("blur", () => aim(null));
  }

  /** Show what is at a place, or nothing. @param {Place | null} place */
  show(place) {
    this.place = place;
    const hidden = !place;
    if (hidden !== this.chip.hidden) {
      this.chip.hidden = hidden;
      set(this.layer, { visibility: hidden ? "hidden" : "visible" });
    }
    if (!place) return;
    const { title, values, point, lines, dots } = this.view.tell(place);
    this.words = [title, values.map(({ name, text }) => (name ? `${name} ${text}` : text)).join(", ")].join(": ");
    set(this.cross, { d: lines });
    pool(this.dots, dots.length, () => shape("circle", { r: 4 })).forEach((node, i) => {
      set(node, { cx: dots[i].x, cy: dots[i].y, style: `--pe-colour: ${dots[i].colour}` });
    });
    const one = values.length === 1 && !values[0].name;
    /** @type {Told["values"]} */
    const rows = [{ name: title, text: one ? values[0].text : "" }, ...(one ? [] : values)];
    pool(this.chip, rows.length, () => element("div", {}, element("span"), element("b"))).forEach((row, i) => {
      const [name, text] = row.children;
      write(name, rows[i].name ?? "");
      write(text, rows[i].text);
      row.style.setProperty("--pe-colour", rows[i].colour ?? "transparent");
    });
    // Beside the point, on the side with room, and never under the pointer.
    const { plot, width } = this.view.frame;
    if (this.view.above) {
      const { left, top, width: wide } = plot;
      return void Object.assign(this.chip.style, { right: `${Math.round(width - left - wide)}px`, top: `${Math.round(top - 2)}px`, transform: "translateY(-100%)" });
    }
    const right = point[0] < plot.left + plot.width / 2;
    Object.assign(this.chip.style, {
      left: right ? `${Math.round(point[0] + 14)}px` : "auto",
      right: right ? "auto" : `${Math.round(width - point[0] + 14)}px`,
      top: `${Math.round(Math.max(plot.top, Math.min(point[1] - 12, plot.top + plot.height - 20 * rows.length - 8)))}px`,
    });
  }
}
