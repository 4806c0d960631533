// The panel in a built page: the graph exported from the torch function computes, with no kernel and no network.

import { Panel } from "./panel.js";
import { fromHash } from "./scale.js";

const BASE = new URL(".", document.currentScript.src);
const decode = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

function script(name) {
  return new Promise((resolve, reject) => {
    const tag = document.createElement("script");
    tag.src = new URL(name, BASE).href;
    tag.onload = resolve;
    tag.onerror = () => reject(new Error(`${name} is missing beside this page`));
    document.head.append(tag);
  });
}

/** The compressed wasm: fetched over http, from a script where the page was opened from disk. */
async function compressed(progress) {
  if (location.protocol === "file:") {
    progress(NaN);
    await script("runtime.wasm.js");
    const bytes = decode(globalThis.posencWasm);
    delete globalThis.posencWasm;
    return bytes;
  }
  const response = await fetch(new URL("runtime.wasm.gz", BASE));
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const total = Number(response.headers.get("content-length"));
  const chunks = [];
  let loaded = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    loaded += value.length;
    progress(total ? Math.min(1, loaded / total) : NaN);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** Some servers undo the compression themselves; the first two bytes tell. */
async function unpacked(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const waiting = new Set();
let runtime = null;

function load() {
  const progress = (fraction) => waiting.forEach((panel) => panel.loading(fraction));
  runtime ??= (async () => {
    const [wasm] = await Promise.all([compressed(progress).then(unpacked), script("runtime.js")]);
    return { wasm };
  })().catch((error) => {
    runtime = null; // the next move tries again
    throw new Error(`The runtime could not be loaded: ${error.message.replace(/\.$/, "")}. Reload the page, or move a control to try again.`);
  });
  return runtime;
}

let here = null;
function mainThread({ wasm }) {
  here ??= (globalThis.posencRuntime(globalThis), globalThis.posencEngine.start(wasm), globalThis.posencEngine);
  return here;
}

let there = null;
function worker({ wasm }) {
  if (there) return there;
  const source = `(${globalThis.posencRuntime})(self);
    onmessage = async ({ data: { id, wasm, call } }) => {
      if (wasm) return posencEngine.start(wasm);
      try {
        const tensors = await posencEngine.run(...call);
        postMessage({ id, tensors }, tensors.map((t) => t.data.buffer).filter((b, i, all) => all.indexOf(b) === i));
      } catch (error) {
        postMessage({ id, error: error.message });
      }
    };`;
  const made = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const calls = new Map();
  let number = 0;
  made.onmessage = ({ data: { id, tensors, error } }) => {
    const call = calls.get(id);
    calls.delete(id);
    if (error) call.reject(new Error(error));
    else call.resolve(tensors);
  };
  made.postMessage({ wasm });
  there = {
    run: (...call) =>
      new Promise((resolve, reject) => {
        calls.set(++number, { resolve, reject });
        made.postMessage({ id: number, call });
      }),
  };
  return there;
}

function engine(spec, id) {
  const sliders = spec.controls.filter((c) => c.kind === "slider");
  const discrete = spec.controls.filter((c) => c.kind !== "slider");
  const graphs = new Map();
  return {
    link: true,
    async compute(values) {
      const loaded = await load();
      const key = discrete.map((c) => Number(values[c.name])).join(",");
      if (!graphs.has(key)) graphs.set(key, decode(spec.graphs[key]));
      const inputs = sliders.map((c) => ({ name: c.name, integer: c.integer, value: values[c.name] }));
      return (spec.slow ? worker(loaded) : mainThread(loaded)).run(`${id} ${key}`, graphs.get(key), inputs);
    },
  };
}

// A link leads to one panel. Panels above it may still grow when they come alive, so the page is aimed at it again
// after each, until the reader takes over.
let target = null;
const aim = () => target?.scrollIntoView({ block: "start", behavior: "instant" });
for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  addEventListener(kind, () => (target = null), { passive: true, capture: true });
}

function open(root) {
  const spec = JSON.parse(root.querySelector(".pe-data").textContent);
  const panel = new Panel(root, spec, engine(spec, root.id));
  root.panel = panel;
  root.classList.add("pe-open");
  waiting.add(panel);
  const ready = () => {
    waiting.delete(panel);
    panel.loading(null);
  };
  const addressed = () => {
    const values = fromHash(location.hash, root.id, spec.controls);
    if (!values) return;
    target = root;
    panel.set(values);
    aim();
  };
  addEventListener("hashchange", addressed);
  root.addEventListener("pe-drawn", aim, { once: true });
  const near = new IntersectionObserver(
    ([entry]) => {
      if (!entry.isIntersecting) return;
      near.disconnect();
      panel.loading(NaN);
      load().then(ready, ready);
      panel.request();
    },
    { rootMargin: "800px" },
  );
  near.observe(root);
  addressed();
}

document.querySelectorAll("figure.pe-panel").forEach(open);
