// @ts-check
// Trained models that read, by their graphs. It runs in a worker, or in the page where there can be none.

import { plain } from "../learn/trainer.js";

/** @import * as Ort from "onnxruntime-web" */
/** @import { Answer, Piece } from "./types" */
/** @typedef {{ past: Ort.Tensor, places: Ort.Tensor }} State keys and values of all tokens so far, and their positions */
/** What a model begins with: the graph, and how large its keys and values are. @typedef {{ graph: Uint8Array, shape: number[] }} Given */

const SETTINGS = /** @type {const} */ ({ executionProviders: ["wasm"], graphOptimizationLevel: "disabled" });
const WHOLE = ["scaling", "layout"]; // settings that are integers

/**
 * The readings of a page, by panel. `inTurn` runs one graph at a time.
 * @param {typeof Ort} ort @param {<T>(work: () => Promise<T>) => Promise<T>} inTurn
 */
export function readings(ort, inTurn) {
  /** @type {Map<string, Reading>} */
  const made = new Map();
  const whole = (/** @type {number[]} */ values, shape = [values.length]) => new ort.Tensor("int64", values.map(BigInt), shape);

  class Reading {
    /** @type {Map<string, { session: Promise<Ort.InferenceSession>, shape: number[] }>} */
    models = new Map();
    /** @type {Map<string, State>} by slot */
    states = new Map();

    /** A model has come. @type {(name: string, given: Given) => Promise<void>} */
    async give(name, { graph, shape }) {
      const session = ort.InferenceSession.create(graph, SETTINGS);
      this.models.set(name, { session, shape });
      await session;
    }

    /** @type {(piece: Piece) => Promise<Answer>} */
    async read({ model, slot, fresh, tokens, pos, head, settings }) {
      const { session: making, shape } = /** @type {NonNullable<ReturnType<typeof this.models.get>>} */ (this.models.get(model));
      const session = await making;
      const held = fresh ? undefined : this.states.get(slot);
      const { past, places } = held ?? { past: new ort.Tensor("float32", new Float32Array(0), shape), places: whole([]) };
      /** @type {Record<string, Ort.Tensor>} */
      const all = { tokens: whole(tokens), pos: whole(pos), past, places, head: whole([head], []) };
      for (const [name, value] of Object.entries(settings)) {
        all[name] = WHOLE.includes(name) ? whole([value], []) : new ort.Tensor("float32", [value], []);
      }
      const feed = Object.fromEntries(session.inputNames.map((name) => [name, all[name]]));
      const found = await inTurn(() => session.run(feed));
      const [bits, weights, after, where] = session.outputNames.map((name) => found[name]);
      this.states.set(slot, { past: after, places: where });
      return { bits: plain(bits), weights: plain(weights) };
    }
  }

  return {
    /** @type {(id: string) => void} */
    open: (id) => void made.set(id, new Reading()),
    /** @type {(id: string, method: string, ...given: any[]) => Promise<any>} */
    call: (id, method, ...given) => /** @type {any} */ (made.get(id))[method](...given),
  };
}
