// @ts-check
// The panel in a notebook: the kernel computes, and each control is a trait.

import { write } from "./dom.js";
import { renderDumps } from "./dump/kernel.js";
import { renderLearning } from "./learn/kernel.js";
import { Panel, variant } from "./panel.js";
import { renderPlaying } from "./play/kernel.js";
import { PIN, fromHash, within } from "./scale.js";

/** @import { Control, Engine, Spec, Tensor, Values } from "./types" */
/** @typedef {Control & { trait: string }} Traited a control, and the trait of the widget that has its value */
/**
 * The widget's model, as far as it is used.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} save_changes
 * @property {(message: object) => void} send
 * @property {(event: string, react: (...told: any[]) => void) => void} on
 * @property {(event: string, react: (...told: any[]) => void) => void} off
 * @property {{ get_model?(id: string): Promise<{ comm_live?: boolean }> | undefined }} [widget_manager]
 */

const ABSENT = "No kernel has this panel yet: run its cell.";
const GONE = "The kernel is gone or was restarted. Run the cell again.";
const PATIENCE = 30_000; // milliseconds until a reader is told that the kernel does not answer

/**
 * `unknown(values)` says whether the kernel is to tell which sliders do something for these choices; then `told` is.
 * @typedef {{ retry: () => void, unknown: (values: Values) => boolean, told: (key: string, used: string[]) => void }} Asking
 */

/** @type {(model: Model, controls: Traited[], asking: Asking) => Engine & { close(): void }} */
function kernel(model, controls, { retry, unknown, told }) {
  const trait = Object.fromEntries(controls.map((c) => [c.name, c.trait]));
  /** @type {Map<string, { resolve: (tensors: Tensor[]) => void, reject: (error: Error) => void, clock: ReturnType<typeof setTimeout> }>} */
  const waiting = new Map();
  const mark = Math.random().toString(36).slice(2); // two views of one model must not take each other's answers
  let number = 0;
  const late = new Set(); // answers that were given up
  let answered = false;
  // Of a widget that was saved in the notebook, and that no kernel has made, messages are dropped without a word.
  const whole = (async () => model.widget_manager?.get_model?.(model.get("_spec").model))().catch(() => undefined);
  /** @type {(id: string, text: string) => void} */
  const fail = (id, text) => {
    const promise = waiting.get(id);
    waiting.delete(id);
    clearTimeout(promise?.clock);
    promise?.reject(new Error(text));
  };
  const lost = () => { // an event of the widgets' own: the connection to the kernel has ended or changed
    for (const id of [...waiting.keys()]) fail(id, GONE);
  };
  /** @type {(message: any, buffers: any[]) => void} */
  const receive = (message, buffers) => {
    if (message?.type === "used") return told(message.key, message.used);
    if (late.delete(message?.id)) retry();
    const promise = waiting.get(message?.id);
    if (!promise) return;
    waiting.delete(message.id);
    clearTimeout(promise.clock);
    if (message.type === "error") return promise.reject(new Error(message.message));
    answered = true;
    promise.resolve(
      buffers.map((buffer, i) => {
        const start = buffer.byteOffset ?? 0;
        const bytes = (buffer.buffer ?? buffer).slice(start, start + buffer.byteLength);
        return { shape: message.shapes[i], data: new Float32Array(bytes) };
      }),
    );
  };
  const events = { "msg:custom": receive, comm_live_update: lost };
  for (const [name, react] of Object.entries(events)) model.on(name, react);
  return {
    patience: 60, // a message to the kernel and back takes some milliseconds
    compute: async (values) => {
      if (!answered && (await whole)?.comm_live === false) throw new Error(ABSENT);
      return new Promise((resolve, reject) => {
        const id = `${mark}-${++number}`;
        const clock = setTimeout(() => {
          late.add(id);
          fail(id, "The kernel has not answered for 30 seconds. If it is busy, the panel waits; if it was restarted, run the cell again.");
        }, PATIENCE);
        waiting.set(id, { resolve, reject, clock });
        try {
          model.send({ type: "compute", id, values, ask: unknown(values) });
        } catch {
          fail(id, GONE); // the connection of this output has ended
        }
      });
    },
    changed: (values) => {
      for (const [name, value] of Object.entries(values)) model.set(trait[name], value);
      model.save_changes();
    },
    close: () => {
      for (const [name, react] of Object.entries(events)) model.off(name, react);
      for (const { clock } of waiting.values()) clearTimeout(clock);
    },
  };
}

/**
 * A link of the text sets the panel that it names, where text and panels are in one document, as in JupyterLab.
 * @type {(panel: Panel, id: string) => () => void}
 */
function follow(panel, id) {
  const follows = (/** @type {MouseEvent} */ event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a");
    if (!link?.hash || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!within(link.href, location.href)) return;
    if (link.hash.slice(1).split("?")[0] !== id) return;
    event.preventDefault(); // the address of a notebook leads to its headings
    event.stopPropagation();
    const { top, bottom } = panel.root.getBoundingClientRect();
    if (bottom < 120 || top > innerHeight - 120) panel.root.scrollIntoView({ block: "center" });
    const { compare, controls } = panel.spec;
    const values = fromHash(link.hash, id, controls) ?? {};
    const other = compare ? fromHash(link.hash, id, controls, PIN)?.[compare] : undefined;
    if (other !== undefined) panel.oppose(Number(other));
    if (!Object.keys(values).length) return;
    panel.glide(values);
    write(panel.status, "The panel is set.");
  };
  document.addEventListener("click", follows, { capture: true });
  return () => document.removeEventListener("click", follows, { capture: true });
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} widget */
  render({ model, el }) {
    const own = { learn: renderLearning, play: renderPlaying, dump: renderDumps }[/** @type {string} */ (model.get("_spec").kind)];
    if (own) {
      // JupyterLab's shortcuts would take the arrow keys from whatever has the focus.
      el.addEventListener("focusin", ({ target }) => (/** @type {HTMLElement} */ (target).dataset.lmSuppressShortcuts = "true"));
      return own(model, el);
    }
    /** @type {Spec & { id: string }} */
    const spec = model.get("_spec"); // shared by all views of the model: not to be changed
    const controls = /** @type {Traited[]} */ (spec.controls);
    /** @type {Record<string, string[]>} */
    const used = {};
    const choices = controls.some(({ kind }) => kind !== "slider");
    const engine = kernel(model, controls, {
      retry: () => panel.request(),
      unknown: (state) => choices && !used[variant(controls, state)],
      told: (key, names) => {
        used[key] = names;
        panel.mark();
      },
    });
    el.classList.add("pe-panel", "pe-widget");
    // JupyterLab's shortcuts would take the arrow keys from whatever has the focus.
    el.addEventListener("focusin", ({ target }) => (/** @type {HTMLElement} */ (target).dataset.lmSuppressShortcuts = "true"));
    const values = Object.fromEntries(controls.map(({ name, trait }) => [name, model.get(trait)]));
    const panel = new Panel(el, { ...spec, values, used }, engine);
    const moved = () => {
      /** @type {Values} */
      const values = {};
      for (const { name, trait } of controls) {
        if (model.get(trait) !== panel.values[name]) values[name] = model.get(trait);
      }
      if (Object.keys(values).length) panel.set(values, false);
    };
    for (const { trait } of controls) model.on(`change:${trait}`, moved);
    el.panel = panel;
    const close = follow(panel, spec.id);
    panel.request();
    return () => {
      close();
      for (const { trait } of controls) model.off(`change:${trait}`, moved);
      engine.close();
      panel.destroy();
    };
  },
};
