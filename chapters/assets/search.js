// @ts-check
/* The page of the search: what is typed is looked up at once, and the address has it. `rank.js` finds, and this shows:
   nothing of a query or of a text is ever read as HTML. */
"use strict";

(() => {
  const { read, rank, said, sentence, sentences, marked, excerpt, forMarking } = globalThis.posencSearch;
  const SHOWN = 30; // results
  const PAUSE = 90; // milliseconds without a key, after which a query is looked up
  const TOLD = 900; // and after which a screen reader is told how much was found
  /** What a kind is called beside its title; a chapter and a section say it themselves. @type {Record<string, string>} */
  const CALLED = { exhibit: "bug", exercise: "exercise", term: "glossary", symbol: "symbol", panel: "panel", preset: "model",
    name: "API", paper: "paper" };

  /** An element with a class and what is in it. */
  function element(/** @type {string} */ tag, /** @type {string} */ name, /** @type {(Node | string)[]} */ ...inside) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  }

  /** A text whose found words are marked. */
  function text(/** @type {string} */ whole, /** @type {Set<string>} */ stems) {
    return marked(whole, stems).map(([piece, found]) => (found ? element("mark", "", piece) : piece));
  }

  /** Where a result leads: its page marks the words that were found. */
  function address(/** @type {Book} */ book, /** @type {number} */ i, /** @type {Set<string>} */ stems) {
    const words = forMarking(book, i, stems).join(" ");
    const query = words ? `?highlight=${encodeURIComponent(words)}` : "";
    return `${book.pages[book.page[i]][0]}${query}${book.anchor[i] ? `#${book.anchor[i]}` : ""}`;
  }

  /** One result: chapter › section, and the sentence. */
  function result(/** @type {Book} */ book, /** @type {number} */ i, /** @type {Found} */ found) {
    const { stems, concepts } = found, kind = book.kind[i], [, chapter, number] = book.pages[book.page[i]];
    const link = /** @type {HTMLAnchorElement} */ (element("a", "pe-hit"));
    link.href = address(book, i, stems);
    const crumb = element("span", "pe-crumb", number ? `${number}. ` : "", ...text(chapter, kind === "chapter" ? stems : new Set()));
    const between = book.above[i] && kind !== "name" ? [element("span", "pe-between", ` › ${book.above[i]}`)] : [];
    const title = element("span", "pe-hit-title", ...text(book.title[i], stems));
    const apart = () => element("span", "pe-apart", " › ");
    link.append(...(kind === "chapter" ? [crumb] : [crumb, ...between, apart(), title]));
    if (kind === "chapter") link.classList.add("pe-whole");
    if (CALLED[kind]) link.append(" ", element("span", "pe-kind", CALLED[kind]));
    const shown = kind === "term" ? sentences(book.text[i])[0] : sentence(book.text[i], concepts); // of a term, its meaning
    const below = shown ? [element("p", "", ...text(excerpt(shown, stems), stems))] : [];
    return element("li", "", link, ...below);
  }

  /** What was found, in a sentence. */
  function told(/** @type {Found} */ found, /** @type {string} */ query) {
    const missing = found.unknown.length ? ` The book has no word like ${found.unknown.map((word) => `“${word}”`).join(", ")}.` : "";
    const { length } = found.results;
    if (!length) return `Nothing was found for “${query}”.${missing || " Try another word for it."}`;
    const some = found.results.some(({ whole }) => whole) || found.concepts.length < 2 ? "" : " None has all words.";
    return `${length === SHOWN ? `The best ${SHOWN} results` : length === 1 ? "One result" : `${length} results`}.${some}${missing}`;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const form = /** @type {HTMLFormElement} */ (document.querySelector(".bd-search-container form"));
    const input = /** @type {HTMLInputElement} */ (form.querySelector("input[name=q]"));
    const place = /** @type {HTMLElement} */ (document.querySelector("#search-results"));
    const status = /** @type {HTMLElement} */ (document.querySelector("#search-status"));
    const aloud = /** @type {HTMLElement} */ (document.querySelector("#search-aloud"));
    const hints = /** @type {HTMLElement} */ (document.querySelector(".pe-search-hints"));
    const book = /** @type {Book} */ (/** @type {any} */ (window).posencIndex);
    /** @type {Index | undefined} */
    let index;
    let typing = 0, telling = 0; // prettier-ignore

    function show() {
      const query = input.value.trim(), asked = said(query).length > 0; // prettier-ignore
      hints.hidden = asked;
      document.title = `${query ? `${query.slice(0, 60)} - ` : ""}Search - ${document.title.split(" - ").at(-1)}`;
      if (!asked) {
        place.replaceChildren();
        status.textContent = aloud.textContent = "";
        return;
      }
      index ??= read(book);
      const found = rank(index, input.value, SHOWN);
      place.replaceChildren(...(found.results.length ? [list(found)] : []));
      status.textContent = told(found, query.slice(0, 80));
      clearTimeout(telling);
      telling = setTimeout(() => { aloud.textContent = status.textContent; }, TOLD);
    }

    function list(/** @type {Found} */ found) {
      return element("ol", "pe-hits", ...found.results.map(({ record }) => result(book, record, found)));
    }

    /** The address has the query, so that a reload, a bookmark and Back show the same. */
    function keep(/** @type {"pushState" | "replaceState"} */ how) {
      const query = input.value.trim(), now = new URL(location.href); // prettier-ignore
      if ((now.searchParams.get("q") ?? "") === query) return;
      if (query) now.searchParams.set("q", query.slice(0, 2000));
      else now.searchParams.delete("q");
      try { history[how](null, "", now); } catch { /* some browsers keep none for a page from disk */ }
    }

    function restore() {
      input.value = new URLSearchParams(location.search).get("q") ?? "";
      show();
    }

    /** Move the focus among the results; before the first one stands the field. */
    function step(/** @type {number} */ by) {
      const links = /** @type {HTMLElement[]} */ ([...place.querySelectorAll("a.pe-hit")]);
      const next = links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + by;
      (next < 0 ? input : links[Math.min(next, links.length - 1)] ?? input).focus();
    }

    input.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => { show(); keep("replaceState"); }, PAUSE);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(typing);
      show();
      keep("pushState");
      step(1);
    });
    document.querySelector(".bd-search-container")?.addEventListener("keydown", (event) => {
      const { key, altKey, ctrlKey, metaKey } = /** @type {KeyboardEvent} */ (event);
      if (altKey || ctrlKey || metaKey || !["ArrowDown", "ArrowUp", "Escape"].includes(key)) return;
      if (key === "Escape" && document.activeElement === input) return;
      event.preventDefault();
      if (key === "Escape") input.focus();
      else step(key === "ArrowDown" ? 1 : -1);
    });
    addEventListener("popstate", restore);
    hints.addEventListener("click", (event) => {
      const button = event.target instanceof Element && event.target.closest("button");
      if (!button) return;
      input.value = button.textContent ?? "";
      show();
      keep("pushState");
      input.focus();
    });
    restore();
    input.focus();
  });
})();
