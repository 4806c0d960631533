// @ts-check
// A worker that computes: calls by number, their answers, and an end.

/** @param {string} source */
export const made = (source) => new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));

/**
 * A worker with the runtime in it, and how it is called.
 * @param {Uint8Array} wasm
 * @param {string} answer the source of a function that takes a call, and returns what it found and the buffers to give away
 * @param {(reason?: string) => Error} ended called when the worker ends; what it returns is the answer of calls under way
 * @returns {(...call: any[]) => Promise<any>}
 */
export function hire(wasm, answer, ended) {
  const worker = made(`(${globalThis.posencRuntime})(self);
    const answer = ${answer};
    onmessage = async ({ data: { number, wasm, call } }) => {
      if (wasm) return posencEngine.start(wasm);
      try {
        const [found, given] = await answer(...call);
        postMessage({ number, found }, given);
      } catch (error) {
        postMessage({ number, error: error.message });
      }
    };`);
  /** @type {Map<number, { resolve: (found: any) => void, reject: (error: Error) => void }>} */
  const calls = new Map();
  let count = 0;
  worker.onmessage = ({ data: { number, found, error } }) => {
    const call = calls.get(number);
    calls.delete(number);
    if (error) call?.reject(new Error(error));
    else call?.resolve(found);
  };
  const end = (/** @type {Event & { message?: string }} */ event) => {
    event.preventDefault();
    worker.terminate();
    const error = ended(event.message);
    for (const call of calls.values()) call.reject(error);
    calls.clear();
  };
  worker.onerror = end;
  worker.onmessageerror = end;
  worker.postMessage({ wasm });
  return (...call) =>
    new Promise((resolve, reject) => {
      calls.set(++count, { resolve, reject });
      worker.postMessage({ number: count, call });
    });
}
