/* For a lecture hall: the page fills the screen in large type, and keys lead from panel to panel. A presenter's remote
   sends Page Down and Page Up; N and B do the same at a keyboard, and Esc ends it. Everything on the page works as ever. */
"use strict";

(() => {
  const root = document.documentElement;
  const TYPING = "input:not([type=range], [type=checkbox], [type=radio]), textarea, select, [contenteditable]";
  const button = document.createElement("button");
  const told = document.createElement("p"); // for those who don't see the screen change
  /** @type {HTMLElement[]} */
  let stops = [];
  let at = -1;
  let holding = 0;

  const presenting = () => root.dataset.present !== undefined;
  const title = figure => figure.querySelector(".pe-title")?.textContent ?? "";

  /** The panels of the page that nobody has folded away. */
  const panels = () => [...document.querySelectorAll("article figure.pe-panel")].filter(each => !each.closest("[hidden], details:not([open])"));

  function show(next) {
    if (!stops.length) return;
    at = Math.max(0, Math.min(stops.length - 1, next));
    stops[at].tabIndex = -1; // the next Tab leads to its controls
    stops[at].focus({ preventScroll: true });
    told.textContent = `Panel ${at + 1} of ${stops.length}: ${title(stops[at])}`;
    hold();
  }

  /* Formulas and pictures above may still grow: the panel is held at the top until they rest, or a hand scrolls. */
  function hold() {
    const until = performance.now() + 1500, held = ++holding;
    const step = () => {
      if (held !== holding || !presenting() || performance.now() > until) return;
      stops[at].scrollIntoView({ block: "start", behavior: "instant" });
      requestAnimationFrame(step);
    };
    step();
  }

  function begin() {
    root.dataset.present = "";
    button.setAttribute("aria-pressed", "true");
    root.requestFullscreen?.().catch(() => {}); // refused, as in some frames: then in the window
    stops = panels();
    const below = stops.findIndex(each => each.getBoundingClientRect().bottom > innerHeight / 3);
    resized();
    show(below < 0 ? stops.length - 1 : below);
  }

  /* Panels measure the column when the window says so; then what is shown has moved. */
  function resized() {
    dispatchEvent(new Event("resize"));
    if (stops[at]) hold();
  }

  function end() {
    if (!presenting()) return;
    delete root.dataset.present;
    button.setAttribute("aria-pressed", "false");
    told.textContent = "";
    if (document.fullscreenElement === root) document.exitFullscreen();
    dispatchEvent(new Event("resize"));
    stops[at]?.scrollIntoView({ block: "center" });
  }

  /* In the capture phase: a slider with the focus would take a remote's Page Down for itself. */
  function key(event) {
    if (!presenting() || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.(TYPING);
    const step = { PageDown: 1, PageUp: -1, ...(typing ? {} : { n: 1, b: -1 }) }[event.key];
    if (event.key === "Escape" && [null, root].includes(document.fullscreenElement)) end(); // not if a panel fills the screen
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    show(at + step);
  }

  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("article figure.pe-panel")) return;
    button.type = "button";
    button.className = "btn btn-sm pe-present";
    button.textContent = "Present";
    button.title = "Full screen, large type. N or Page Down: next panel. B or Page Up: the one before. Esc: end";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => (presenting() ? end() : begin()));
    document.querySelector(".article-header-buttons")?.prepend(button);
    told.className = "visually-hidden";
    told.setAttribute("role", "status");
    document.body.append(told);
    addEventListener("keydown", key, { capture: true });
    for (const hand of ["wheel", "pointerdown", "touchstart"]) addEventListener(hand, () => holding++, { passive: true });
    document.addEventListener("fullscreenchange", () => {
      if (document.fullscreenElement === root) resized();
      else if (!document.fullscreenElement) end();
    });
  });
})();
