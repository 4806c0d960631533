/* A number of the text opens its proof: under a pointer, with the focus, or by a tap, which keeps it open. Without this
   script, and on paper, the words have a raised number, and the notes stand at the end of the page. */
"use strict";

(() => {
  const GAP = 6; // pixels between the words and their proof
  const LINGER = 200; // milliseconds in which a pointer may cross the gap
  document.documentElement.classList.add("pe-scripted");

  /** @param {HTMLElement} proof @param {HTMLElement} words */
  function place(proof, words) {
    const lines = words.getClientRects(), first = lines[0], last = lines[lines.length - 1];
    const { width, height } = proof.getBoundingClientRect();
    const left = Math.max(GAP, Math.min(last.left, document.documentElement.clientWidth - width - GAP));
    const above = last.bottom + GAP + height > innerHeight && first.top - GAP - height > 0;
    proof.style.left = `${left}px`;
    proof.style.top = `${above ? first.top - GAP - height : last.bottom + GAP}px`;
  }

  /** @param {HTMLElement} number */
  function wire(number) {
    const words = /** @type {HTMLButtonElement} */ (number.querySelector("button"));
    const proof = /** @type {HTMLElement} */ (number.querySelector(".pe-proof"));
    if (!("showPopover" in proof)) return;
    let kept = false, waiting = 0;
    const shown = () => proof.matches(":popover-open");
    const show = () => {
      clearTimeout(waiting);
      if (shown()) return;
      for (const other of document.querySelectorAll(".pe-proof:popover-open")) other.dispatchEvent(new Event("pe-close"));
      proof.showPopover();
      place(proof, words);
      words.setAttribute("aria-expanded", "true");
    };
    const hide = () => {
      clearTimeout(waiting);
      kept = false;
      if (!shown()) return;
      proof.hidePopover();
      words.setAttribute("aria-expanded", "false");
    };
    const leave = () => { if (!kept) waiting = setTimeout(hide, LINGER); };
    for (const part of [words, proof]) {
      part.addEventListener("pointerenter", event => { if (event.pointerType === "mouse") show(); });
      part.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") leave(); });
    }
    words.addEventListener("focus", () => { if (words.matches(":focus-visible")) show(); });
    number.addEventListener("focusout", event => { if (!number.contains(event.relatedTarget)) hide(); });
    words.addEventListener("click", () => {
      if (kept) return hide();
      show();
      kept = true;
    });
    number.addEventListener("keydown", event => {
      if (event.key !== "Escape" || !shown()) return;
      event.stopPropagation();
      hide();
    });
    proof.addEventListener("pe-close", hide);
  }

  addEventListener("DOMContentLoaded", () => {
    for (const number of document.querySelectorAll(".pe-evidence")) wire(number);
    const close = () => {
      for (const proof of document.querySelectorAll(".pe-proof:popover-open")) proof.dispatchEvent(new Event("pe-close"));
    };
    addEventListener("scroll", close, { passive: true });
    addEventListener("resize", close);
    document.addEventListener("click", event => { if (!event.target.closest(".pe-evidence")) close(); });
  });
})();
