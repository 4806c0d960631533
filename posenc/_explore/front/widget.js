// The panel in a notebook: the kernel computes, and each control is a trait.

import { Panel } from "./panel.js";

function kernel(model, controls) {
  const trait = Object.fromEntries(controls.map((c) => [c.name, c.trait]));
  const waiting = new Map();
  const mark = Math.random().toString(36).slice(2); // two views of one model must not take each other's answers
  let number = 0;
  const receive = (message, buffers) => {
    const promise = waiting.get(message?.id);
    if (!promise) return;
    waiting.delete(message.id);
    if (message.type === "error") return promise.reject(new Error(message.message));
    promise.resolve(
      buffers.map((buffer, i) => {
        const start = buffer.byteOffset ?? 0;
        const bytes = (buffer.buffer ?? buffer).slice(start, start + buffer.byteLength);
        return { shape: message.shapes[i], data: new Float32Array(bytes) };
      }),
    );
  };
  model.on("msg:custom", receive);
  return {
    trait,
    compute: (values) =>
      new Promise((resolve, reject) => {
        const id = `${mark}-${++number}`;
        waiting.set(id, { resolve, reject });
        model.send({ type: "compute", id, values });
      }),
    changed: (values) => {
      for (const [name, value] of Object.entries(values)) model.set(trait[name], value);
      model.save_changes();
    },
    close: () => model.off("msg:custom", receive),
  };
}

export default {
  render({ model, el }) {
    const spec = model.get("_spec");
    const engine = kernel(model, spec.controls);
    el.classList.add("pe-panel", "pe-widget");
    // JupyterLab's shortcuts would take the arrow keys from whatever has the focus.
    el.addEventListener("focusin", ({ target }) => (target.dataset.lmSuppressShortcuts = "true"));
    for (const { name, trait } of spec.controls) spec.values[name] = model.get(trait);
    const panel = new Panel(el, { ...spec, values: { ...spec.values } }, engine);
    for (const control of spec.controls) panel.starts[control.name] = control.start;
    const moved = () => {
      const values = {};
      for (const { name, trait } of spec.controls) {
        if (model.get(trait) !== panel.values[name]) values[name] = model.get(trait);
      }
      if (Object.keys(values).length) panel.set(values, undefined, false);
    };
    for (const { trait } of spec.controls) model.on(`change:${trait}`, moved);
    el.panel = panel;
    panel.request();
    return () => {
      for (const { trait } of spec.controls) model.off(`change:${trait}`, moved);
      engine.close();
      panel.destroy();
    };
  },
};
