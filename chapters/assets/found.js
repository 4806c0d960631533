// @ts-check
/* A result of the search leads to a section, and the words that were found are marked in it, until Escape is pressed. The
   marks are painted over the page (CSS highlights), so that no element of it changes: panels and formulas stay as they
   are. A browser without such highlights shows the section without marks. */
"use strict";

(() => {
  const NAME = "pe-found";
  const MOST = 12; // words, and characters of one: whatever an address says
  const LONG = 60;
  const UNREAD = "script, style, svg, .math, .pe-waiting, mjx-container, .pe-stills, .headerlink, .pe-unfold, .copybtn";

  /** The words that the address asks for. */
  function asked() {
    const query = new URLSearchParams(location.search).get("highlight") ?? "";
    return query.split(/[ \t\n]+/).filter((word) => /[\p{L}\p{N}]/u.test(word) && word.length <= LONG).slice(0, MOST);
  }

  /** Finds these words, whole, in any case. */
  function pattern(/** @type {string[]} */ words) {
    const exact = words.map((word) => word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&").replace(/\u202f/g, "\\s")); // the index joins the parts of 500 000
    return new RegExp(`(?<![\\p{L}\\p{N}_])(?:${exact.join("|")})(?![\\p{L}\\p{N}_])`, "giu");
  }

  /** What the address leads to: a section, a panel, an entry of a list with its text, or the whole page. @returns {Element[]} */
  function places() {
    let id = location.hash.slice(1).split("?")[0];
    try { id = decodeURIComponent(id); } catch { /* not an address that anybody wrote */ }
    const target = id ? document.getElementById(id) : document.querySelector("article.bd-article section");
    if (!target) return [];
    return target.matches("dt") && target.nextElementSibling ? [target, target.nextElementSibling] : [target];
  }

  /** The ranges of what a pattern finds in the text of an element. */
  function ranges(/** @type {Element} */ place, /** @type {RegExp} */ wanted) {
    const found = [];
    const own = (/** @type {Element | null} */ around) => !place.matches("section") || around?.closest("section") === place;
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT, ({ parentElement: around }) =>
      own(around) && !around?.closest(UNREAD) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT); // a section in it is a result of its own
    while (walker.nextNode()) {
      const node = /** @type {Text} */ (walker.currentNode);
      for (const { index, 0: word } of node.data.matchAll(wanted)) {
        const range = new Range();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        found.push(range);
      }
    }
    return found;
  }

  /** If all that was found is behind a label, the label opens. */
  function reveal(/** @type {Range[]} */ found) {
    const closed = found.map((range) => range.startContainer.parentElement?.closest("details:not([open])"));
    if (closed.every(Boolean)) for (const each of closed) each?.setAttribute("open", "");
  }

  function mark() {
    const words = asked();
    if (!words.length || !("highlights" in CSS)) return;
    CSS.highlights.delete(NAME);
    const wanted = pattern(words), found = places().flatMap((place) => ranges(place, wanted)); // prettier-ignore
    if (!found.length) return;
    reveal(found);
    CSS.highlights.set(NAME, new Highlight(...found));
  }

  document.addEventListener("DOMContentLoaded", () => setTimeout(mark)); // after folds have been made: a range ends where its text moves
  addEventListener("hashchange", mark);
  addEventListener("keydown", ({ key }) => { if (key === "Escape" && "highlights" in CSS) CSS.highlights.delete(NAME); });
})();
