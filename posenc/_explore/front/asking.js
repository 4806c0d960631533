// @ts-check
// Questions to a kernel, which answers with tensors or with something else.

/** @import { Tensor } from "./types" */
/** @typedef {{ found: any, tensors: Tensor[] }} Answer */

const SILENT = "The kernel has not answered for a minute. If it is busy, wait and try again; if it was restarted, run the cell again.";
const PATIENCE = 60_000; // milliseconds

/** How a panel asks its kernel. @param {any} model @param {string} type of its messages */
export function asking(model, type) {
  const mark = Math.random().toString(36).slice(2); // two views of one model must not take each other's answers
  /** @type {Map<string, { resolve: (answer: Answer) => void, reject: (error: Error) => void, clock: ReturnType<typeof setTimeout> }>} */
  const waiting = new Map();
  let number = 0;
  /** @type {(message: any, buffers: any[]) => void} */
  const receive = ({ id, error, found, shapes = [] }, buffers) => {
    const call = waiting.get(id);
    if (!call) return;
    waiting.delete(id);
    clearTimeout(call.clock);
    if (error) return call.reject(new Error(error));
    const tensors = buffers.map((buffer, i) => {
      const start = buffer.byteOffset ?? 0;
      return { shape: shapes[i], data: new Float32Array((buffer.buffer ?? buffer).slice(start, start + buffer.byteLength)) };
    });
    call.resolve({ found, tensors });
  };
  model.on("msg:custom", receive);
  return {
    /** @type {(message: Record<string, any>) => Promise<Answer>} */
    ask: (message) =>
      new Promise((resolve, reject) => {
        const id = `${mark}-${++number}`;
        const clock = setTimeout(() => {
          waiting.delete(id);
          reject(new Error(SILENT));
        }, PATIENCE);
        waiting.set(id, { resolve, reject, clock });
        model.send({ type, id, ...message });
      }),
    close() {
      model.off("msg:custom", receive);
      for (const { clock } of waiting.values()) clearTimeout(clock);
    },
  };
}
