// @ts-check
// Whether the page around is light or dark, and the colours of maps on its ground.

/** @type {Set<{ tint(): void }>} what has colours of its own to change */
const tinted = new Set();
/** @type {boolean | undefined} */
let known;
let printing = false; // on white paper

/** The style sheet knows, for every place that a panel may stand in. */
export const isDark = () => (known ??= !printing && getComputedStyle(document.body).getPropertyValue("--pe-dark").trim() === "100%");

/** Have colours changed when the page is. @param {{ tint(): void }} view */
export function follow(view) {
  if (!tinted.size) watch(); // not before: a script may run while the page has no body yet
  tinted.add(view);
}

function changed() {
  const was = known;
  known = undefined;
  if (isDark() !== was) for (const view of tinted) view.tint();
}

function watch() {
  const observer = new MutationObserver(changed);
  for (const node of [document.documentElement, document.body]) observer.observe(node, { attributes: true, attributeFilter: ["class", "data-theme", "theme", "data-jp-theme-light"] });
  for (const query of ["print", "(forced-colors: active)", "(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", changed);
  for (const event of ["beforeprint", "afterprint"]) {
    addEventListener(event, () => {
      printing = event === "beforeprint";
      changed();
    });
  }
}

export const SIZE = 255; // colours of a map
const bytes = (/** @type {string} */ colour) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));

/**
 * The colours of a map as pixels of a canvas, mixed from stops at equal distances.
 * @type {(stops: string[]) => Uint32Array}
 */
export function mixed(stops) {
  const given = stops.map(bytes);
  return Uint32Array.from({ length: SIZE }, (_, i) => {
    const at = Math.min(given.length - 2, Math.floor((i * (given.length - 1)) / (SIZE - 1)));
    const rest = (i * (given.length - 1)) / (SIZE - 1) - at;
    const [red, green, blue] = given[at].map((from, channel) => Math.round(from + (given[at + 1][channel] - from) * rest));
    return (255 << 24) | (blue << 16) | (green << 8) | red;
  });
}
