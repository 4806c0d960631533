// @ts-check
// A training by graphs: where models start, steps, exams. It runs in a worker, or in the page where there can be none.

/** @import * as Ort from "onnxruntime-web" */
/** @import { Tensor } from "../types" */
/** @import { Exam, Plan, Progress } from "./types" */
/** @typedef {Record<string, Ort.Tensor>} Feed */

const SETTINGS = /** @type {const} */ ({ executionProviders: ["wasm"], graphOptimizationLevel: "disabled" });

/**
 * The trainings of a page, by name. `inTurn` runs one graph at a time, since two at once lose their outputs.
 * @param {typeof Ort} ort @param {<T>(work: () => Promise<T>) => Promise<T>} inTurn
 */
export function trainings(ort, inTurn) {
  /** @type {Map<string, Training>} */
  const made = new Map();
  const whole = (/** @type {number} */ value) => new ort.Tensor("int64", [BigInt(value)], []);

  class Training {
    /** @type {Map<string, Promise<Ort.InferenceSession>>} */
    sessions = new Map();
    /** @type {Ort.Tensor[]} of each scheme */
    states = [];
    done = 0;
    /** @type {{ states: Ort.Tensor[], done: number } | null} */
    kept = null;

    /** @param {Record<string, Uint8Array>} graphs */
    constructor(graphs) {
      this.graphs = graphs;
    }

    /** The outputs of a graph, in their order. @type {(key: string, inputs: Feed) => Promise<Ort.Tensor[]>} */
    async run(key, inputs) {
      const making = this.sessions.get(key) ?? ort.InferenceSession.create(this.graphs[key], SETTINGS);
      this.sessions.set(key, making);
      const session = await making;
      const feed = Object.fromEntries(session.inputNames.map((name) => [name, inputs[name]]));
      const found = await inTurn(() => session.run(feed));
      return session.outputNames.map((name) => found[name]);
    }

    /** @type {(key: string, inputs: Feed) => Promise<Feed>} */
    async read(key, inputs) {
      const [tokens, targets, share] = await this.run(key, inputs);
      return { tokens, targets, share };
    }

    /** @param {Plan} plan */
    async begin(plan) {
      this.plan = plan;
      this.done = 0;
      this.kept = null;
      this.states = [];
      for (const scheme of plan.schemes) this.states.push(...(await this.run(`${scheme} start`, { seed: whole(plan.seed) })));
    }

    /** @type {(milliseconds: number, rate: number, n: number, most: number, limit: number) => Promise<Progress>} */
    async advance(milliseconds, rate, n, most, limit) {
      const { task, seed, schemes } = /** @type {Plan} */ (this.plan);
      const late = performance.now() + milliseconds;
      /** @type {number[][]} */
      const losses = [];
      do {
        const step = whole(this.done);
        const read = await this.read(`${task} texts`, { seed: whole(seed), step, n: whole(n) });
        /** @type {number[]} */
        const row = [];
        for (const [i, scheme] of schemes.entries()) {
          const [state, loss] = await this.run(`${scheme} step`, { state: this.states[i], ...read, step, rate: new ort.Tensor("float32", [rate], []) });
          this.states[i] = state;
          row.push(Number(loss.data[0]));
        }
        this.done++;
        losses.push(row);
      } while (losses.length < most && performance.now() < late && losses[losses.length - 1].every((loss) => loss < limit));
      return { done: this.done, losses };
    }

    /** @type {(length: number, n: number) => Promise<Exam>} */
    async exam(length, n) {
      const { task, seed, schemes } = /** @type {Plan} */ (this.plan);
      const read = await this.read(`${task} exam`, { seed: whole(seed), length: whole(length), n: whole(n) });
      const found = [];
      for (const [i, scheme] of schemes.entries()) {
        found.push((await this.run(`${scheme} exam`, { state: this.states[i], ...read })).map(plain));
      }
      const [tokens, targets, share] = [read.tokens, read.targets, read.share].map(plain);
      return { tokens, targets, share, schemes: found.map(([accuracy, loss, written, heads, ...watched]) => ({ accuracy, loss, written, heads, watched })) };
    }

    /** Keep this state, or go back to the one that was kept. */
    async keep() {
      this.kept = { states: [...this.states], done: this.done };
    }

    async back() {
      if (!this.kept) return this.done;
      this.states = [...this.kept.states];
      this.done = this.kept.done;
      return this.done;
    }

    async end() {
      for (const session of this.sessions.values()) (await session).release();
      this.sessions.clear();
    }
  }

  return {
    /** @type {(id: string, graphs: Record<string, Uint8Array>) => void} */
    open: (id, graphs) => void made.set(id, new Training(graphs)),
    /** @type {(id: string, method: string, ...given: any[]) => Promise<any>} */
    call: (id, method, ...given) => /** @type {any} */ (made.get(id))[method](...given),
  };
}

/** @param {Ort.Tensor} tensor @returns {Tensor} */
export const plain = ({ dims, data }) => ({ shape: [...dims], data: data instanceof Float32Array ? /** @type {Float32Array<ArrayBuffer>} */ (data) : Float32Array.from(/** @type {BigInt64Array} */ (data), Number) });
