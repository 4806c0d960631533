// @ts-check
// onnxruntime-web, once per site: the same source runs in the page, and for slow functions in a worker.

import * as ort from "onnxruntime-web/wasm";
import { trainings } from "./learn/trainer.js";
import { readings } from "./play/reader.js";

/** @import { Tensor } from "./types" */

/** @type {ort.InferenceSession.SessionOptions} */
const SETTINGS = { executionProviders: ["wasm"], graphOptimizationLevel: "disabled" }; // export.py has optimised it
const MOST = 12; // sessions that are kept; a page of many choices has more, and each holds memory
/** @type {Map<string, Promise<ort.InferenceSession>>} */
const sessions = new Map(); // by key, the one used last at the end

/**
 * The session of a key. One that failed is forgotten, so that the next move tries again; the oldest are released.
 * @type {(key: string, graph: Uint8Array) => Promise<ort.InferenceSession>}
 */
async function session(key, graph) {
  const made = sessions.get(key) ?? ort.InferenceSession.create(graph, SETTINGS);
  sessions.delete(key);
  sessions.set(key, made);
  try {
    const ready = await made;
    for (const [old, one] of [...sessions].slice(0, Math.max(0, sessions.size - MOST))) {
      sessions.delete(old);
      (await one).release();
    }
    return ready;
  } catch (error) {
    sessions.delete(key);
    throw error;
  }
}

// Two runs at once share the runtime's stack and lose their outputs, so they take turns.
/** @type {Promise<unknown>} */
let turn = Promise.resolve();
/** @type {<T>(work: () => Promise<T>) => Promise<T>} */
const inTurn = (work) => {
  const mine = turn.then(work);
  turn = mine.catch(() => {});
  return mine;
};

globalThis.posencDesks = { trainings: trainings(ort, inTurn), readings: readings(ort, inTurn) };

globalThis.posencEngine = {
  /** The wasm module, as bytes. */
  start(wasm) {
    ort.env.wasm.wasmBinary = wasm;
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.proxy = false;
    ort.env.logLevel = "error";
  },

  /** All that comes before a first run of the graph of `key`. */
  prepare: (key, graph) => inTurn(() => session(key, graph)),

  /** Run the graph of `key`, made from `graph` at its first use, and time it; inputs that the graph lacks are not fed. */
  run: (key, graph, inputs) => inTurn(async () => {
    const graphs = await session(key, graph);
    /** @type {Record<string, ort.Tensor>} */
    const feed = {};
    for (const { name, integer, value } of inputs) {
      if (!graphs.inputNames.includes(name)) continue;
      feed[name] = integer ? new ort.Tensor("int64", [BigInt(value)], []) : new ort.Tensor("float32", [value], []);
    }
    const begin = performance.now();
    const results = await graphs.run(feed);
    const tensors = graphs.outputNames.map((name) => {
      const { dims, data } = results[name];
      return /** @type {Tensor} */ ({ shape: [...dims], data });
    });
    return { tensors, milliseconds: performance.now() - begin };
  }),
};
