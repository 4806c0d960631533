// @ts-check
// The small buttons of a panel: a picture each, and its name as a hint under the pointer, which is also what is read aloud.

import { element, shape } from "./dom.js";

const PICTURES = { // paths in a square of 20
  Reset: "M5.2 6.2A6.5 6.5 0 1 1 3.6 11M5.4 2.4v4h4",
  Pin: "M7.2 3h5.6M8.2 3v5l-2.4 3h8.4l-2.4-3V3M10 11v6",
  "Copy link": "M8.4 11.6a3.2 3.2 0 0 0 4.6 0l2.6-2.6a3.2 3.2 0 0 0-4.6-4.6l-1 1M11.6 8.4a3.2 3.2 0 0 0-4.6 0L4.4 11A3.2 3.2 0 0 0 9 15.6l1-1",
  "Full screen": "M3.5 7.5v-4h4M12.5 3.5h4v4M16.5 12.5v4h-4M7.5 16.5h-4v-4",
};

/** @type {(name: keyof typeof PICTURES, onclick: () => void, attributes?: Record<string, any>) => HTMLElement} */
export function tool(name, onclick, attributes = {}) {
  const picture = shape("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, shape("path", { d: PICTURES[name] }));
  return element("button", { type: "button", class: "pe-tool", title: name, onclick, ...attributes }, picture);
}
