/* A table that says it can be sorted, or has more than thirty rows, is sorted by a click on a column's head: once up,
   again down, and again as it was. Cells that carry their number are compared by it, others by a number in front, or as
   text. Without this script, and on paper, the order is the page's. */
"use strict";

(() => {
  const LONG = 30;

  function compare(one, other) {
    if ("value" in one.dataset && "value" in other.dataset) return one.dataset.value - other.dataset.value;
    const [first, second] = [one, other].map(cell => cell.textContent.trim());
    const [a, b] = [first, second].map(text => text.match(/^[A-Z]?(\d+(?:\.\d+)?)/));
    const letters = text => text.replace(/\d.*$/s, "");
    if (a && b && letters(first) === letters(second)) {
      const gap = Number(a[1]) - Number(b[1]);
      if (gap) return gap;
    }
    return first.localeCompare(second, "en");
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const first = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return; // nothing to press
      const button = document.createElement("button");
      button.type = "button";
      button.className = "pe-sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const next = now === "ascending" ? "descending" : now === "descending" ? null : "ascending";
        heads.forEach(each => each.removeAttribute("aria-sort"));
        if (next) head.setAttribute("aria-sort", next);
        const rows = next ? [...first].sort((a, b) => compare(a.cells[column], b.cells[column])) : first;
        if (next === "descending") rows.reverse();
        body.append(...rows);
      });
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const table of document.querySelectorAll("article table")) {
      if (!table.tHead || table.tBodies.length !== 1) continue;
      if (table.classList.contains("pe-sortable") || table.tBodies[0].rows.length > LONG) sortable(table);
    }
  });
})();
