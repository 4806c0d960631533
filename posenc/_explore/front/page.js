// @ts-check
// The panel in a built page: the graph exported from the torch function computes, with no kernel and no network.

import { decode, unpacked, write } from "./dom.js";
import { hire } from "./hire.js";
import { openLearning } from "./learn/page.js";
import { Pace } from "./pace.js";
import { Panel, variant } from "./panel.js";
import { openPlaying } from "./play/page.js";
import { PIN, format, fromHash } from "./scale.js";
import { scrub } from "./scrub.js";

/** @import { Call, Engine, Runtime, Spec } from "./types" */
/** @typedef {(fraction: number | null) => void} Progress @typedef {Uint8Array<ArrayBuffer>} Bytes @typedef {{ wasm: Bytes }} Loaded */

const SCRIPT = /** @type {HTMLScriptElement} */ (document.currentScript);
const BASE = new URL(".", SCRIPT.src);

/** @param {string} name */
function script(name) {
  return new Promise((resolve, reject) => {
    const tag = document.createElement("script");
    tag.src = new URL(name, BASE).href;
    tag.onload = resolve;
    tag.onerror = () => reject(new Error(`${name} is missing beside this page`));
    document.head.append(tag);
  });
}

/**
 * The compressed wasm: fetched over http, from a script where the page was opened from disk.
 * @param {Progress} progress
 */
async function compressed(progress) {
  if (location.protocol === "file:") {
    progress(NaN);
    await script("runtime.wasm.js");
    const bytes = decode(/** @type {string} */ (globalThis.posencWasm));
    delete globalThis.posencWasm;
    return bytes;
  }
  const response = await fetch(new URL("runtime.wasm.gz", BASE));
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const total = Number(response.headers.get("content-length"));
  /** @type {Bytes[]} */
  const chunks = [];
  let loaded = 0;
  const body = /** @type {ReadableStream<Bytes>} */ (response.body);
  for (const reader = body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    loaded += value.length;
    progress(total ? Math.min(1, loaded / total) : NaN);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** @type {Set<Panel>} */
const waiting = new Set(); // panels near the reader, which show how far the loading is
/** @type {Promise<Loaded> | null} */
let runtime = null;

function load() {
  /** @type {Progress} */
  const progress = (fraction) => {
    for (const panel of waiting) panel.loading(fraction);
  };
  runtime ??= (async () => {
    const [wasm] = await Promise.all([compressed(progress).then(unpacked), script("runtime.js")]);
    progress(null);
    waiting.clear();
    return { wasm };
  })().catch((error) => {
    runtime = null; // the next move tries again
    throw new Error(`The runtime could not be loaded: ${error.message.replace(/\.$/, "")}. Reload the page, or move a control to try again.`);
  });
  return runtime;
}

/** @type {Runtime | undefined} */
let here;
/** @type {(loaded: Loaded) => Runtime} */
function mainThread({ wasm }) {
  if (!here) {
    globalThis.posencRuntime(globalThis);
    globalThis.posencEngine.start(wasm);
    here = globalThis.posencEngine;
  }
  return here;
}

let warm = false; // the page's own thread can compute at once
let warming = false;
/** Until a reader who only reads takes something in hand. @type {Promise<unknown>} */
const stirred = new Promise((resolve) => {
  for (const kind of ["pointermove", "pointerdown", "keydown"]) addEventListener(kind, resolve, { once: true, passive: true, capture: true });
});

/**
 * Make the runtime of the page's own thread once the reader stirs, while nobody waits for it. By then the worker has compiled
 * what a first run needs. A browser shares that, so the page isn't held up for half a second.
 * @type {(loaded: Loaded, key: string, graph: Uint8Array) => Promise<void>}
 */
async function prepare(loaded, key, graph) {
  if (warming) return;
  warming = true;
  await stirred;
  const soon = globalThis.requestIdleCallback ?? setTimeout; // Safari has no idle callbacks
  soon(() => void mainThread(loaded).prepare(key, graph).catch(() => {}).then(() => (warm = true)));
}

class NoWorker extends Error {}
/** @type {Runtime["run"] | null} */
let there = null;
let forbidden = false; // a page's policy may forbid workers, and a worker may run out of memory

// What the worker does with a call; memory that its tensors share is given away once.
const ANSWER = `async (...call) => {
  const found = await posencEngine.run(...call);
  return [found, [...new Set(found.tensors.map((t) => t.data.buffer))]];
}`;

/** @type {(loaded: Loaded) => Runtime["run"]} */
function worker({ wasm }) {
  there ??= hire(wasm, ANSWER, (reason = "the worker ended") => {
    there = null;
    forbidden = true;
    return new NoWorker(reason);
  });
  return there;
}

/**
 * The graphs of a panel, in base64: large ones stand in a script of their own, or each in one, and are compressed.
 * @type {(spec: { graphs?: Record<string, string>, apart?: string | Record<string, string> }, key?: string) => Promise<Record<string, string>>}
 */
async function graphsOf({ graphs = {}, apart }, key = "") {
  const name = typeof apart === "object" ? apart[key] : apart;
  if (!name) return graphs;
  if (!globalThis.posencGraphs?.[name]) await script(`graphs/${name}.js`);
  return /** @type {NonNullable<typeof globalThis.posencGraphs>} */ (globalThis.posencGraphs)[name];
}

/** @type {(spec: Spec, id: string) => Engine} */
function engine(spec, id) {
  const sliders = spec.controls.filter((c) => c.kind === "slider");
  /** @type {Map<string, { graph: Bytes, pace: Pace }>} */
  const graphs = new Map();
  /** @type {(pace: Pace, loaded: Loaded, ...call: Call) => ReturnType<Runtime["run"]>} */
  const run = async (pace, loaded, ...call) => {
    if ((pace.away || !warm) && !forbidden) {
      try {
        const found = await worker(loaded)(...call);
        void prepare(loaded, call[0], call[1]);
        return found;
      } catch (error) {
        if (!(error instanceof NoWorker) && error.name !== "SecurityError") throw error;
        forbidden = true;
      }
    }
    return mainThread(loaded).run(...call);
  };
  return {
    link: true,
    async compute(values) {
      const [loaded, own] = await Promise.all([load(), graphsOf(spec)]);
      const key = variant(spec.controls, values);
      const { graph, pace } = graphs.get(key) ?? { graph: await unpacked(decode(own[key])), pace: new Pace() };
      graphs.set(key, { graph, pace });
      const inputs = sliders.map((c) => ({ name: c.name, integer: c.integer, value: values[c.name] }));
      try {
        const { tensors, milliseconds } = await run(pace, loaded, `${id} ${key}`, graph, inputs);
        pace.note(milliseconds);
        return tensors;
      } catch (error) {
        if (!/CompileError|unsafe-eval/.test(error.message)) throw error;
        throw new Error("The policy of this site forbids WebAssembly. Its script-src has to allow 'wasm-unsafe-eval'.");
      }
    },
  };
}

// A link leads to one panel. Panels above it may still grow when they come alive, so the page is aimed at it again
// after each, until the reader takes over.
/** @type {Element | null} */
let target = null;
const aim = () => target?.scrollIntoView({ block: "start", behavior: "instant" });
for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  addEventListener(kind, () => (target = null), { passive: true, capture: true });
}

/** Of a comparison, the other side that an address names. @param {Panel} panel @param {string} hash */
function opposed(panel, hash) {
  const { compare, controls } = panel.spec;
  if (!compare) return;
  const other = fromHash(hash, panel.root.id, controls, PIN)?.[compare];
  if (other !== undefined) panel.oppose(Number(other));
}

// A link of the text sets its panel where it stands, if the reader sees it, and Back returns to the state before. Out of
// sight, the browser goes to the panel as to any other anchor.
addEventListener("click", (event) => {
  const clicked = /** @type {Element} */ (event.target);
  const link = /** @type {HTMLAnchorElement | null | undefined} */ (clicked.closest?.("a[href*='#explore-']"));
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.href.replace(/#.*/, "") !== location.href.replace(/#.*/, "")) return;
  const panel = document.getElementById(link.hash.slice(1).split("?")[0])?.panel;
  if (!panel?.tensors) return;
  const values = fromHash(link.hash, panel.root.id, panel.spec.controls);
  if (!values || !Object.keys(values).length) return;
  const { top, bottom } = panel.stages.getBoundingClientRect();
  if (Math.min(bottom, innerHeight) - Math.max(top, 0) < Math.min(120, bottom - top)) return;
  event.preventDefault();
  target = null;
  history.replaceState({ ...history.state, posenc: { id: panel.root.id, values: { ...panel.values } } }, "");
  history.pushState({ posenc: { id: panel.root.id, values: { ...panel.values, ...values } } }, "", link.hash);
  if (panel.spec.compare) opposed(panel, link.hash);
  panel.glide(values);
  write(panel.status, "The panel is set. Back returns to the state before.");
});
addEventListener("popstate", ({ state }) => {
  if (state?.posenc) document.getElementById(state.posenc.id)?.panel?.glide(state.posenc.values);
});

/** @param {Element} root */
function open(root) {
  /** @type {Spec} */
  const spec = JSON.parse(root.querySelector(".pe-data")?.textContent ?? "");
  const panel = new Panel(root, spec, engine(spec, root.id));
  root.panel = panel;
  root.classList.add("pe-open");
  const ready = () => {
    waiting.delete(panel);
    panel.loading(null);
  };
  const addressed = () => {
    const values = fromHash(location.hash, root.id, spec.controls);
    if (!values || history.state?.posenc) return; // which popstate has set already
    target = root;
    panel.set(values);
    const pinned = fromHash(location.hash, root.id, spec.controls, PIN);
    if (spec.compare) opposed(panel, location.hash);
    else if (pinned && Object.keys(pinned).length) panel.pin({ ...spec.starts, ...pinned });
    aim();
  };
  addEventListener("hashchange", addressed);
  root.addEventListener("pe-drawn", aim, { once: true });
  const near = new IntersectionObserver(
    (entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return; // a fold may open before the first is told
      near.disconnect();
      waiting.add(panel);
      panel.loading(NaN);
      load().then(ready, ready);
      panel.request();
    },
    { rootMargin: "800px" },
  );
  near.observe(root);
  addressed();
}

/**
 * A link without a value, [0.4](#explore-NAME?theta), is a number of the panel: it shows the present value and can be dragged.
 * @param {HTMLAnchorElement} link
 */
function follow(link) {
  const [id, query = ""] = link.hash.slice(1).split("?");
  const panel = document.getElementById(id)?.panel;
  const control = panel?.spec.controls.find(({ name, kind }) => name === query && kind === "slider");
  if (!panel || !control) return;
  let dragged = false;
  scrub(link, panel, control.name, () => (dragged = true));
  link.title = "drag to the left or right";
  link.addEventListener("pointerdown", () => (dragged = false), { capture: true });
  link.addEventListener("click", (event) => dragged && event.preventDefault());
  panel.root.addEventListener("pe-drawn", ({ detail }) => write(link, format(detail[control.name])));
}

function start() {
  document.querySelectorAll("figure.pe-panel:not(.pe-learn, .pe-dump)").forEach(open);
  const learning = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure.pe-learn"));
  for (const root of learning) (root.classList.contains("pe-reading") ? openPlaying : openLearning)(root, { load, here: mainThread, graphsOf });
  const dumps = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure.pe-dump"));
  if (dumps.length) script("dumps.js").then(() => { for (const root of dumps) globalThis.posencOpenDumps(root, script); }, () => {}); // else the still picture stays
  /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[href*='#explore-']")).forEach(follow);
}

// In a book the runtime is loaded while the page is still being read: after what the page is painted with, which comes
// over the same line. A panel on the first screen asks for it as soon as there is one (open).
const early = () => void load().catch(() => {});
if (SCRIPT.dataset.early) {
  if (document.readyState === "complete") early();
  else addEventListener("load", early, { once: true });
}
if (document.readyState === "loading") document.addEventListener("readystatechange", start, { once: true });
else start();
