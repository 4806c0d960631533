/* A table with more than thirty rows is sorted by a click on a column's head: once up, again down, and again as it was.
   Numbers in front of a cell count as numbers. Without this script, and on paper, the order is the page's. */
"use strict";

(() => {
  const LONG = 30;

  function compare(one, other) {
    const [a, b] = [one, other].map(text => text.match(/^[A-Z]?(\d+(?:\.\d+)?)/));
    const letters = text => text.replace(/\d.*$/s, "");
    if (a && b && letters(one) === letters(other)) {
      const gap = Number(a[1]) - Number(b[1]);
      if (gap) return gap;
    }
    return one.localeCompare(other, "en");
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const first = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim() || head.querySelector("button")) return; // nothing to press, or it sorts already
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
        const text = row => row.cells[column].textContent.trim();
        const rows = next ? [...first].sort((a, b) => compare(text(a), text(b))) : first;
        if (next === "descending") rows.reverse();
        body.append(...rows);
      });
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const table of document.querySelectorAll("article table")) {
      if (table.tHead && table.tBodies.length === 1 && table.tBodies[0].rows.length > LONG) sortable(table);
    }
  });
})();
