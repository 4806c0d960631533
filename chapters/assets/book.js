/* Small repairs to the theme, each said where it is made. */
"use strict";

/* Before the first paint: a new reader gets the system's choice of light or dark, without a flash of the other. */
const root = document.documentElement;
root.dataset.mode ||= "auto";
root.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, repair) => document.querySelectorAll(selector).forEach(repair);
  /* Buttons get a name that says what they do; where there is text, the text is the name. */
  all(".primary-toggle", button => button.setAttribute("aria-label", "Show or hide the list of chapters"));
  all(".secondary-toggle", button => button.setAttribute("aria-label", "Show or hide the contents of this page"));
  all(".search-button-field", button => button.removeAttribute("aria-label"));
  all(".toggle-button", button => button.setAttribute("aria-label", `Show or hide: ${button.parentElement.textContent.trim()}`));
  /* The title of the book is the banner of its pages; roles that ARIA has dropped go. */
  all(".navbar-brand", brand => brand.parentElement.setAttribute("role", "banner"));
  all(".citation, .citation-list", entry => entry.removeAttribute("role"));
});

/* Formulas of a long page take seconds. A panel on its first screen comes before them, if it comes soon. */
const settings = window.MathJax?.config ?? window.MathJax;
function firstPanel() {
  const panel = document.querySelector("figure.pe-panel");
  if (!panel || panel.classList.contains("pe-live") || panel.getBoundingClientRect().top > innerHeight) return Promise.resolve();
  return new Promise(done => { panel.addEventListener("pe-drawn", done, { once: true }); setTimeout(done, 3000); });
}
/* What takes long is done bit by bit, with room for the reader's hand in between: half a second at once is felt. */
const BIT = 20; // milliseconds
const rest = () => new Promise(rested => setTimeout(rested));
async function typesetAll() {
  const formulas = [...document.querySelectorAll(".math")];
  for (let first = 0, few = 2; first < formulas.length;) {
    const start = performance.now(), some = formulas.slice(first, first += few);
    await MathJax.typesetPromise(some);
    few = Math.max(1, Math.min(16, 2 * few, Math.round(few * BIT / (performance.now() - start))));
    await rest();
  }
}
/* As TeX a formula is wider than it will be: until all are set, those at the top keep the room that they will take. */
const settled = () => root.classList.remove("pe-setting");
if (settings) {
  root.classList.add("pe-setting");
  settings.startup ??= {};
  settings.startup.pageReady = () => firstPanel().then(typesetAll).finally(settled);
  addEventListener("error", ({ target }) => { if (target.src?.includes("/mathjax/")) settled(); }, { capture: true });
}

/* Paper is light. */
addEventListener("beforeprint", () => {
  root.dataset.screen = root.dataset.theme;
  root.dataset.theme = "light";
  document.querySelectorAll("details.sd-dropdown:not([open])").forEach(answer => { answer.open = true; answer.dataset.shut = ""; });
});
addEventListener("afterprint", () => {
  root.dataset.theme = root.dataset.screen;
  document.querySelectorAll("details[data-shut]").forEach(answer => { answer.open = false; delete answer.dataset.shut; });
});

/* What is wider than its column scrolls; only then it is a stop for the Tab key. To measure what isn't shown yet, a
   browser lays it out. */
const scrollers = "div.highlight pre, div.cell_output pre, div.cell_output > .output, div.pe-table, div.pst-scrollable-table-container, div.math, mjx-container[display]";
let reached = 0;
async function reach() {
  const boxes = [...document.querySelectorAll(scrollers)], turn = ++reached;
  for (let first = 0, next = 0; first < boxes.length; first = next) {
    const start = performance.now(), wide = [];
    do wide.push(boxes[next].scrollWidth > boxes[next].clientWidth + 1);
    while (++next < boxes.length && performance.now() - start < BIT);
    wide.forEach((is, i) => { // after some are measured: each change would cost the next one a layout
      const box = boxes[first + i];
      if (is) box.tabIndex = 0;
      else if (box.tabIndex === 0) box.removeAttribute("tabindex");
    });
    await rest();
    if (turn !== reached) return; // the page has changed, and a later turn measures anew
  }
}
addEventListener("load", () => {
  setTimeout(reach, 0);
  window.MathJax?.startup?.promise?.then(reach); // formulas come later
});
addEventListener("resize", reach);
