// @ts-check
// Whether a graph runs on the page's own thread, which answers at once, or in the worker, which leaves the page free.

const SLOW = 12; // milliseconds of a run that are too many for the page's own thread
const TIMES = 2; // slow runs one after another
const STUCK = 100; // milliseconds of a run that are too many even once
const QUICK = 4; // milliseconds of a run that the page's own thread can spare in every frame
const CALM = 8; // quick runs one after another in the worker that bring a graph back
const SOON = 2; // as many do after a first run that was long, since it may only have compiled

/** Follows the runs of one graph: slow ones send it to the worker, quick ones bring it back. */
export class Pace {
  away = false; // to the worker
  #first = true;
  #calm = CALM;
  #row = 0; // runs one after another that speak for a change

  /** Count a run. @param {number} milliseconds */
  note(milliseconds) {
    const first = this.#first;
    this.#first = false;
    if (first && milliseconds <= STUCK) return;
    const speaks = this.away ? milliseconds <= QUICK : milliseconds > SLOW;
    this.#row = speaks ? this.#row + 1 : 0;
    const enough = this.away ? this.#row >= this.#calm : this.#row >= TIMES || milliseconds > STUCK;
    if (!enough) return;
    this.away = !this.away;
    this.#calm = first ? SOON : CALM;
    this.#row = 0;
  }
}
