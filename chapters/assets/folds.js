/* Sections marked {.depth} or {.practice} are folded: their heading and first paragraph stay, the rest opens by its
   button, by a link into it, and by the browser's search. One button at the top of the page opens all, and is
   remembered. Without this script, and on paper, everything is open. Formulas of a fold are set when it opens: they are
   a quarter of a chapter's elements, and the panels of the page come alive sooner without them. */
"use strict";

(() => {
  const KINDS = { depth: "Depth", practice: "Practice" };
  const KEY = "posenc-folds";
  const WORDS = 150; // a minute
  const LINES = 12; // of code a minute
  /** @type {{ button: HTMLButtonElement, body: HTMLElement }[]} */
  const folds = [];

  /* From disk some browsers keep nothing; then the button works for the page. */
  function remembered() {
    try { return localStorage.getItem(KEY) === "open"; } catch { return false; }
  }
  function remember(open) {
    try { localStorage.setItem(KEY, open ? "open" : "folded"); } catch { /* not kept */ }
  }

  /* Until the page is read, style alone hides what will be folded: so nothing moves when this comes to it. */
  if (!remembered()) document.documentElement.classList.add("pe-folding");

  function set(fold, open) {
    fold.button.setAttribute("aria-expanded", String(open));
    if (open) fold.body.removeAttribute("hidden");
    else fold.body.setAttribute("hidden", "until-found");
    if (open) formulas(".pe-fold[hidden]");
  }

  /* MathJax sets what has the class "math". In a fold it is taken away until somebody opens the fold. */
  const WAITING = "pe-waiting";
  let settled = false; // whether MathJax has set the open page
  function formulas(within) {
    const ready = [...document.querySelectorAll(`.${WAITING}`)].filter(each => !each.closest(within));
    ready.forEach(each => each.classList.replace(WAITING, "math"));
    if (settled) typeset(ready);
  }
  function typeset(elements) {
    if (!elements.length) return;
    try { MathJax.typeset(elements); } catch { MathJax.typesetPromise(elements); } // which can wait for what it has to load
    reach();
  }
  function settle() {
    window.MathJax?.startup?.promise?.then(() => {
      settled = true;
      typeset([...document.querySelectorAll(".pe-fold .math:not(:has(mjx-container))")]); // opened meanwhile
    });
  }

  function minutes(body) {
    const code = [...body.querySelectorAll("div.cell:not(.tag_hide-input, .tag_hide-cell) .cell_input pre")];
    const lines = code.reduce((sum, pre) => sum + pre.textContent.trim().split("\n").length, 0);
    const words = [...body.querySelectorAll("p, li, td")].filter(each => !each.closest("figure, .solution, .cell_input"))
      .reduce((sum, each) => sum + (each.textContent.match(/[A-Za-z]{2,}/g) ?? []).length, 0);
    return Math.max(1, Math.round(words / WORDS + lines / LINES));
  }

  function fold(section) {
    const children = [...section.children];
    const heading = children.find(each => /^H[1-6]$/.test(each.tagName));
    if (!heading) return;
    const first = children[children.indexOf(heading) + 1], lead = first?.tagName === "P" ? first : heading;
    const body = document.createElement("div");
    body.className = "pe-fold";
    body.id = `${section.id}-fold`;
    body.append(...children.slice(children.indexOf(lead) + 1));
    body.querySelectorAll(".math:not(:has(mjx-container))").forEach(each => each.classList.replace("math", WAITING));
    const kind = section.classList.contains("practice") ? KINDS.practice : KINDS.depth;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pe-unfold";
    const name = document.createElement("span");
    name.textContent = kind;
    const long = document.createElement("span");
    long.textContent = `${minutes(body)} min`;
    button.append(name, long);
    heading.id ||= `${section.id}-heading`;
    button.setAttribute("aria-describedby", heading.id);
    button.setAttribute("aria-controls", body.id);
    lead.after(button, body);
    const made = { button, body };
    folds.push(made);
    set(made, remembered());
    button.addEventListener("click", () => { set(made, button.getAttribute("aria-expanded") !== "true"); told(); });
    body.addEventListener("beforematch", () => { set(made, true); told(); });
  }

  /* The button for all. */
  const all = document.createElement("button");
  const everyOpen = () => folds.every(each => !each.body.hasAttribute("hidden"));
  function told() {
    all.textContent = everyOpen() ? "Fold depth" : "Unfold all";
    all.title = everyOpen() ? "Fold the sections of depth and practice, on all pages" : "Open what is folded, on all pages";
  }
  function control() {
    all.type = "button";
    all.className = "btn btn-sm pe-unfold-all";
    all.addEventListener("click", () => {
      const open = !everyOpen();
      folds.forEach(each => set(each, open));
      remember(open);
      told();
    });
    document.querySelector(".article-header-buttons")?.prepend(all);
    told();
  }

  /** Open what hides the element of this address. Returns it, or null where there is none. */
  function reveal(hash) {
    let id = hash.slice(1).split("?")[0];
    try { id = decodeURIComponent(id); } catch { /* not an address that anybody wrote */ }
    const target = document.getElementById(id) ?? document.getElementsByName(id)[0] ?? null;
    let opened = false;
    for (const each of folds) {
      const section = each.body.parentElement, label = target?.parentElement === section && target?.matches("span[id]");
      if (target && (each.body.contains(target) || section === target || label) && each.body.hasAttribute("hidden")) {
        set(each, true);
        opened = true;
      }
    }
    if (opened) told();
    return { target, opened };
  }

  /* A link into what the page no longer has leads to its top, with a word. */
  function arrive() {
    document.querySelector(".pe-gone")?.remove();
    if (location.hash.length < 2) return;
    const { target, opened } = reveal(location.hash);
    if (opened) target.scrollIntoView();
    if (target || location.hash.startsWith("#explore-") || location.hash.startsWith("#:~:")) return;
    const word = document.createElement("p");
    word.className = "pe-gone";
    word.setAttribute("role", "status");
    word.textContent = "The section that your link names is no longer on this page. Its contents and the search lead on.";
    document.querySelector(".bd-article h1")?.after(word);
    scrollTo(0, 0);
  }

  document.addEventListener("DOMContentLoaded", () => {
    /* The innermost first, so that the minutes of an outer fold count what is in it. */
    [...document.querySelectorAll("section.depth, section.practice")].reverse().forEach(fold);
    document.documentElement.classList.remove("pe-folding");
    if (folds.length) control();
    arrive();
  });
  addEventListener("load", settle);
  matchMedia("print").addEventListener("change", event => { if (event.matches) formulas("html:not(*)"); });
  addEventListener("hashchange", arrive);
  /* Before anybody else acts on the click: a panel that a link sets has to be in sight. */
  document.addEventListener("click", event => {
    const link = event.target instanceof Element && event.target.closest("a[href^='#']");
    if (link && link.hash.length > 1) reveal(link.hash);
  }, true);
})();
