// onnxruntime-web, once per site: the same source runs in the page, and for slow functions in a worker.

import * as ort from "onnxruntime-web/wasm";

const sessions = new Map();

// Two runs at once share the runtime's stack and lose their outputs, so they take turns.
let turn = Promise.resolve();
const inTurn = (work) => {
  const mine = turn.then(work);
  turn = mine.catch(() => {});
  return mine;
};

globalThis.posencEngine = {
  /** The wasm module, as bytes. */
  start(wasm) {
    ort.env.wasm.wasmBinary = wasm;
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.proxy = false;
    ort.env.logLevel = "error";
  },

  /** Run the graph of `key`, made from `graph` at its first use; inputs that the graph lacks are not fed. */
  run: (key, graph, inputs) => inTurn(async () => {
    if (!sessions.has(key)) sessions.set(key, ort.InferenceSession.create(graph, { executionProviders: ["wasm"] }));
    const session = await sessions.get(key);
    const feed = {};
    for (const { name, integer, value } of inputs) {
      if (!session.inputNames.includes(name)) continue;
      feed[name] = integer ? new ort.Tensor("int64", [BigInt(value)], []) : new ort.Tensor("float32", [value], []);
    }
    const results = await session.run(feed);
    return session.outputNames.map((name) => ({ shape: [...results[name].dims], data: results[name].data }));
  }),
};
