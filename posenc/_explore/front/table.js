// @ts-check
// The numbers of a panel as tables to read and as a file to keep.

import { element } from "./dom.js";
import { format } from "./scale.js";

/** @import { View } from "./views/view.js" */

const MOST = { rows: 64, columns: 16 };
const cell = (/** @type {string | number} */ v) => (typeof v === "number" ? format(v) : String(v));

/** Fills an element, below what it begins with: the tables, and a button that saves all numbers.
 *  @type {(data: HTMLElement, views: View[], spec: { title: string, name: string }) => void} */
export function tabulated(data, views, { title, name }) {
  const save = element("button", { type: "button", class: "pe-button", onclick: () => download(views, name) }, "Download all as CSV");
  data.replaceChildren(data.children[0], ...tables(views, title), save);
}

/** A table for each view, which a reader can scroll. @type {(views: View[], title: string) => HTMLElement[]} */
function tables(views, title) {
  return views.map((view, number) => {
    const { head, rows, size: [long, wide] } = view.table(view.tensors, MOST);
    const cut = long > MOST.rows || wide > MOST.columns;
    const part = `, the first ${rows.length} of ${format(long)} rows and ${Math.min(wide, MOST.columns)} of ${format(wide)} columns`;
    const table = element("table", {},
      element("caption", {}, `${view.head.textContent || title}${cut ? part : ""}`),
      element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col" }, cell(h))))),
      element("tbody", {}, ...rows.map((row) =>
        element("tr", {}, ...row.map((v, i) => (i ? element("td", {}, cell(v)) : element("th", { scope: "row" }, cell(v))))))));
    return element("div", { class: "pe-scroll", tabindex: 0, role: "region", "aria-label": `numbers of picture ${number + 1}, ${title}` }, table);
  });
}

/** All numbers, as a reader's file. @type {(views: View[], name: string) => void} */
function download(views, name) {
  const quoted = (/** @type {string | number} */ v) => (typeof v === "string" ? `"${v.replaceAll('"', '""')}"` : v);
  const text = views.map((view) => {
    const { head, rows } = view.table(view.tensors);
    return [head, ...rows].map((row) => row.map(quoted).join(",")).join("\n");
  });
  const link = element("a", { href: URL.createObjectURL(new Blob([text.join("\n\n")], { type: "text/csv" })), download: `${name}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
