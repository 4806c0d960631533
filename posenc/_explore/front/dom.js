// Making and changing elements; nothing that is given as text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function make(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** An element of HTML; an attribute such as `onclick` is a listener. */
export function element(tag, attributes = {}, ...children) {
  return make(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function shape(tag, attributes = {}, ...children) {
  return make(document.createElementNS(SVG, tag), attributes, children);
}

/** Attributes as they should be; what is so already is not touched, since a touch costs a new layout. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** As many children as there are items: made by `create` where some are missing, removed where there are too many. */
export function pool(parent, count, create) {
  while (parent.childNodes.length > count) parent.lastChild.remove();
  while (parent.childNodes.length < count) parent.append(create(parent.childNodes.length));
  return parent.childNodes;
}

let context = null;
const widths = new Map();

/** The width in pixels of a text in the font of an element, without a layout: `font` as in CSS, size and family. */
export function textWidth(text, font) {
  context ??= document.createElement("canvas").getContext("2d");
  const key = `${font}\n${text}`;
  if (!widths.has(key)) {
    if (widths.size > 5000) widths.clear();
    context.font = font;
    widths.set(key, context.measureText(text).width);
  }
  return widths.get(key);
}

/** A text in lines no wider than `most` pixels, broken at spaces. */
export function wrap(text, most, font) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && textWidth(longer, font) <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
