// @ts-check
// Making and changing elements; nothing that is given as text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Record<string, any>} Attributes @typedef {(Node | string)[]} Children */

const MARK = Math.random().toString(36).slice(2, 10); // a notebook loads this file anew for each panel
let count = 0;

/** An id that no other element of the page has. @param {string} kind */
export const unique = (kind) => `${kind}-${MARK}-${++count}`;

/** @type {<T extends Element>(made: T, attributes: Attributes, children: Children) => T} */
function make(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/**
 * An element of HTML; an attribute such as `onclick` is a listener.
 * @type {<T extends keyof HTMLElementTagNameMap>(tag: T, attributes?: Attributes, ...children: Children) => HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  return make(document.createElement(tag), attributes, children);
}

/**
 * An element of SVG.
 * @type {<T extends keyof SVGElementTagNameMap>(tag: T, attributes?: Attributes, ...children: Children) => SVGElementTagNameMap[T]}
 */
export function shape(tag, attributes = {}, ...children) {
  return make(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Attributes as they should be; what is so already is not touched, since a touch costs a new layout.
 * @type {(node: Element, attributes: Attributes) => void}
 */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

/**
 * A text as it should be. Its node stays: a theme may look for new nodes, and search the whole page after each.
 * @type {(node: Node, text: string) => void}
 */
export function write(node, text) {
  const { firstChild } = node;
  if (firstChild instanceof Text && firstChild === node.lastChild) {
    if (firstChild.data !== text) firstChild.data = text;
  } else if (node.textContent !== text) node.textContent = text;
}

/**
 * Nodes that a style hides, or no longer hides, from what reads the page aloud: of a section that is not laid out yet, it is
 * told of all that only a style hides.
 * @type {(nodes: Iterable<Element>, hidden: boolean) => void}
 */
export function mute(nodes, hidden) {
  for (const node of nodes) {
    if (hidden) node.setAttribute("aria-hidden", "true");
    else node.removeAttribute("aria-hidden");
  }
}

/**
 * As many children as there are items: made by `create` where some are missing, removed where there are too many.
 * @template {Element} T @param {Element} parent @param {number} count @param {(index: number) => T} create
 */
export function pool(parent, count, create) {
  while (parent.childNodes.length > count) parent.lastChild?.remove();
  while (parent.childNodes.length < count) parent.append(create(parent.childNodes.length));
  return /** @type {NodeListOf<T>} */ (parent.childNodes);
}

/**
 * Texts of SVG, each put where it belongs. Nodes that are no longer needed stay, without a text: a theme may search the
 * whole page after each new node.
 * @type {(parent: Element, texts: string[], place: (node: SVGElement, i: number) => void) => void}
 */
export function letter(parent, texts, place) {
  while (parent.childNodes.length < texts.length) parent.append(shape("text", {}, ""));
  /** @type {NodeListOf<SVGElement>} */ (parent.childNodes).forEach((node, i) => {
    write(node, texts[i] ?? "");
    if (i < texts.length) place(node, i);
  });
}

/** The bytes of a text in base64; millions of them, so that a plain loop is worth it. @param {string} base64 */
export function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/**
 * Bytes as they were before they were compressed, if they were: the first two tell. (Of what is fetched, some servers undo
 * the compression themselves.)
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
export async function unpacked(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const { readable, writable } = new DecompressionStream("gzip");
  const found = new Response(readable).arrayBuffer();
  found.catch(() => {}); // until it is waited for
  const writer = writable.getWriter();
  try {
    for (let at = 0; at < bytes.length; at += PIECE) {
      await writer.write(bytes.subarray(at, at + PIECE));
      if (at + PIECE < bytes.length) await rest();
    }
    await writer.close();
  } catch {} // what is read says the same
  return new Uint8Array(await found);
}

const PIECE = 1 << 18; // bytes that are unpacked at once: more would hold the page up

/** Lets what waits come first, such as the reader's hand; sooner than a timer would go on. */
const rest = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(null);
  });

/** @type {CanvasRenderingContext2D} */
let context;
/** @type {Map<string, number>} */
const widths = new Map();

/**
 * The width in pixels of a text in the font of an element, without a layout: `font` as in CSS, size and family.
 * @type {(text: string, font: string) => number}
 */
export function textWidth(text, font) {
  context ??= pen(document.createElement("canvas"));
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 5000) widths.clear();
    context.font = font;
    width = context.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** What draws on a canvas. @param {HTMLCanvasElement} canvas */
export const pen = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/**
 * A text in lines no wider than `most` pixels, broken at spaces.
 * @type {(text: string, most: number, font: string) => string[]}
 */
export function wrap(text, most, font) {
  /** @type {string[]} */
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && textWidth(longer, font) <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
