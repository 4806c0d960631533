// @ts-check
// Whether a graph runs on the page's own thread, which answers at once, or in the worker, which leaves the page free.

const SLOW = 12; // milliseconds of a run that are too many for the page's own thread
const TIMES = 2; // slow runs one after another
const STUCK = 100; // milliseconds of a run that are too many even once
const FIRST = 500; // milliseconds of the first run that are too many: it compiles what it needs
const QUICK = 4; // milliseconds of a run that the page's own thread can spare in every frame
const CALM = 8; // quick runs one after another in the worker that bring a graph back

/** Follows the runs of one graph: slow ones send it to the worker, quick ones bring it back. */
export class Pace {
  away = false; // to the worker
  #runs = 0;
  #row = 0; // runs one after another that speak for a change

  /** Count a run. @param {number} milliseconds */
  note(milliseconds) {
    if (!this.#runs++ && milliseconds <= FIRST) return;
    const speaks = this.away ? milliseconds <= QUICK : milliseconds > SLOW;
    this.#row = speaks ? this.#row + 1 : 0;
    const enough = this.away ? this.#row >= CALM : this.#row >= TIMES || milliseconds > STUCK;
    if (!enough) return;
    this.away = !this.away;
    this.#row = 0;
  }
}
