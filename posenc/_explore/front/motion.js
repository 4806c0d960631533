// @ts-check
// Controls that move by themselves: gliding to a state, and playing one control once around.

import { stepOf, steps, valueAt } from "./scale.js";

/** @import { Panel } from "./panel.js" */
/** @import { Choice, Slider, Values } from "./types" */

const GLIDE = 600; // milliseconds
const PACE = 400; // milliseconds of a step
const MOST = 48; // steps of one round

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Moves a panel's controls; `stop()` ends whatever is under way. */
export class Motion {
  frame = 0; // of a glide that goes on
  /** @type {ReturnType<typeof setInterval> | undefined} */
  clock;
  /** @type {(() => void) | null} */
  ended = null;

  /** @param {Panel} panel */
  constructor(panel) {
    this.panel = panel;
  }

  /** Move sliders to their values before the reader's eyes, and set the rest at once. @param {Values} values */
  glide(values) {
    this.stop();
    const { panel } = this;
    const sliders = panel.spec.controls.filter((control) => control.kind === "slider")
      .filter(({ name }) => name in values && values[name] !== panel.values[name]);
    const rest = Object.fromEntries(Object.entries(values).filter(([name]) => !sliders.some((slider) => slider.name === name)));
    if (!sliders.length || Object.keys(rest).length) panel.set(rest);
    if (!sliders.length) return;
    if (still() || document.hidden) return panel.set(values);
    const from = sliders.map((slider) => stepOf(slider, panel.values[slider.name]));
    const to = sliders.map((slider) => stepOf(slider, values[slider.name]));
    const begin = performance.now();
    const step = (/** @type {number} */ now) => {
      const share = Math.min(1, (now - begin) / GLIDE);
      const eased = share * share * (3 - 2 * share);
      if (share === 1) return panel.set(values); // exactly, also between two steps
      const here = sliders.map((slider, i) => [slider.name, valueAt(slider, Math.round(from[i] + (to[i] - from[i]) * eased))]);
      panel.set(Object.fromEntries(here));
      this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  /**
   * Move a control on, step by step, once around to where it began; with reduced motion a single step.
   * @type {(name: string, ended: () => void) => void}
   */
  play(name, ended) {
    this.stop();
    const control = /** @type {Slider | Choice} */ (this.panel.spec.controls.find((c) => c.name === name));
    const slider = control.kind === "slider";
    const last = slider ? steps(control) : control.labels.length - 1;
    const stride = Math.max(1, Math.ceil(last / MOST));
    const first = this.panel.values[name];
    let at = slider ? stepOf(control, first) : first;
    let left = Math.ceil((last + 1) / stride);
    const advance = () => {
      at = at + stride > last ? 0 : at + stride;
      left -= 1;
      this.panel.set({ [name]: left ? (slider ? valueAt(control, at) : at) : first });
      if (!left) this.stop();
    };
    if (still()) {
      left += 1; // a step is never the last
      return advance();
    }
    this.ended = ended;
    this.clock = setInterval(() => document.hidden || advance(), PACE);
    advance();
  }

  get playing() {
    return Boolean(this.clock);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    clearInterval(this.clock);
    this.clock = undefined;
    this.ended?.();
    this.ended = null;
  }
}
