// @ts-check
// Only the newest values are ever computed: while one computation runs, later wishes overwrite each other.

const PATIENCE = 120; // milliseconds after which a reader is told that something is being computed

/**
 * `compute(values)` gives a promise; `done(result, values)`, `failed(error)` and `busy(yes)` are told what became of it.
 * @template V, R
 */
export class Latest {
  running = false;
  ended = false;
  /** @type {V | null} */
  wanted = null;

  /**
   * @param {object} panel
   * @param {(values: V) => Promise<R>} panel.compute
   * @param {(result: R, values: V) => void} panel.done
   * @param {(error: Error) => void} panel.failed
   * @param {(yes: boolean) => void} panel.busy
   */
  constructor({ compute, done, failed, busy }) {
    this.compute = compute;
    this.done = done;
    this.failed = failed;
    this.busy = busy;
  }

  /**
   * Ask for the result of these values; the promise of the first wish ends when there is no wish left.
   * @param {V} values
   */
  request(values) {
    this.wanted = values;
    return this.running ? undefined : this.work();
  }

  async work() {
    this.running = true;
    while (this.wanted && !this.ended) {
      const values = this.wanted;
      this.wanted = null;
      const late = setTimeout(() => this.busy(true), PATIENCE);
      try {
        const result = await this.compute(values);
        if (!this.ended) this.done(result, values);
      } catch (error) {
        if (!this.ended) this.failed(error);
      } finally {
        clearTimeout(late);
        if (!this.ended) this.busy(false);
      }
    }
    this.running = false;
  }

  /** Take no more answers. */
  end() {
    this.ended = true;
  }
}
