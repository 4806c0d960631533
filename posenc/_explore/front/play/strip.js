// @ts-check
// A text whose letters are inked, each by a number; the place up to which texts of training went is marked.

import { element, pool, write } from "../dom.js";

/** @import { Letter } from "./types" */
/** What a strip shows: how dark each letter is, from 0 to 1 or NaN, and the byte where the reading ends, with the reason. @typedef {{ letters: Letter[], ink: number[], length: number, end: number, reason: string }} Shown */

const WHITE = /** @type {Record<string, string>} */ ({ "\n": "↵\n", "\t": "⇥\t" });

export class Strip {
  /** @type {Letter[]} */
  letters = [];
  picked = -1;

  /** @param {string} colour @param {(letter: number, firmly: boolean) => void} pick is told of the letter under a pointer, or that was chosen */
  constructor(colour, pick) {
    this.title = element("p", { class: "pe-view-title" });
    this.line = element("p", { class: "pe-strip-line" });
    this.text = element("div", { class: "pe-strip", tabindex: 0, role: "group", "aria-roledescription": "text, letter by letter" });
    this.before = this.text.appendChild(element("span"));
    this.mark = this.text.appendChild(element("span", { class: "pe-strip-mark", "aria-hidden": "true" })); // which stands within a word; the line above tells the length
    this.after = this.text.appendChild(element("span"));
    this.stop = this.text.appendChild(element("span", { class: "pe-strip-stop" }));
    this.host = element("div", { class: "pe-strip-host" }, this.title, this.line, this.text);
    this.host.style.setProperty("--pe-colour", colour);
    const at = (/** @type {Event} */ { target, type }) => {
      const { i } = /** @type {HTMLElement} */ (target).dataset;
      if (i) pick(Number(i), type === "click");
    };
    this.text.addEventListener("pointermove", (event) => event.pointerType === "mouse" && at(event));
    this.text.addEventListener("click", at);
    this.text.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -20, ArrowDown: 20 }[event.key];
      if (!step || !this.letters.length) return;
      event.preventDefault();
      pick(Math.max(0, Math.min(this.letters.length - 1, this.picked + step)), true);
    });
  }

  /** @type {(i: number) => HTMLElement | undefined} the node of a letter */
  node(i) {
    const count = this.before.childNodes.length;
    return /** @type {HTMLElement | undefined} */ (i < count ? this.before.childNodes[i] : this.after.childNodes[i - count]);
  }

  /** @param {Shown} shown */
  show({ letters, ink, length, end, reason }) {
    this.letters = letters;
    const readable = letters.findIndex(({ to }) => to > end);
    const count = readable < 0 ? letters.length : readable;
    const first = letters.findIndex(({ from }) => from >= length);
    const border = first < 0 || first > count ? count : first;
    const span = () => element("span", {}, "");
    pool(this.before, border, span);
    pool(this.after, count - border, span);
    for (let i = 0; i < count; i++) {
      const node = /** @type {HTMLElement} */ (this.node(i));
      const { text, odd } = letters[i];
      write(node, WHITE[text] ?? text);
      node.className = odd ? "pe-odd" : "";
      node.dataset.i = String(i);
      node.style.setProperty("--pe-ink", Number.isNaN(ink[i]) ? "0%" : `${Math.round(100 * Math.min(1, Math.max(0, ink[i])))}%`);
    }
    write(this.mark, first < 0 || first > count ? "" : `trained up to here, ${length} bytes`);
    this.mark.hidden = !this.mark.textContent;
    write(this.stop, reason);
    this.stop.hidden = !reason;
    this.node(this.picked)?.classList.add("pe-picked-word");
  }

  /** Mark the letter that is picked. @param {number} i */
  choose(i) {
    this.node(this.picked)?.classList.remove("pe-picked-word");
    this.picked = i;
    this.node(i)?.classList.add("pe-picked-word");
  }

  /** Bring the picked letter into sight, within the strip. */
  reveal() {
    const node = this.node(this.picked);
    if (!node) return;
    const { offsetTop } = node;
    const { scrollTop, clientHeight } = this.text;
    if (offsetTop < scrollTop || offsetTop > scrollTop + clientHeight - 24) this.text.scrollTop = offsetTop - clientHeight / 2;
  }
}
