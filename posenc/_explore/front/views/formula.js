// @ts-check
// A formula with the present numbers in it. It is set once; afterwards only digits change.

import { element, set, textWidth, write } from "../dom.js";
import { scrub } from "../scrub.js";
import { format, spread } from "../scale.js";
import { View } from "./view.js";

/** @import { Panel } from "../panel.js" */
/** @import { Control, Tensor, Touchable, Tree, ViewSpec } from "../types" */

const OWN = /^\d+$/; // a number of its own, and no control's
const MATH = "http://www.w3.org/1998/Math/MathML";

export class Formula extends View {
  noun = "number";
  font = ""; // once it is known
  fitted = false; // whether its size is that for the room

  /** @param {ViewSpec} spec @param {HTMLElement} host @param {Control[]} controls */
  constructor(spec, host, controls) {
    super(spec, host, controls);
    this.stage.removeAttribute("role"); // it is read as the formula that it is
    /** @type {{ node: Touchable, room: Element, name: string, wide: number }[]} */
    this.places = [];
    this.box = element("div", { class: "pe-formula" });
    this.stage.append(this.box);
    this.box.append(this.build(spec.tree));
  }

  /** @param {Tree} tree @returns {Element} */
  build([tag, attributes, children]) {
    const node = document.createElementNS(MATH, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name !== "xmlns" && name !== "place") node.setAttribute(name, value);
    }
    node.append(...children.map((child) => (typeof child === "string" ? child : this.build(child))));
    if (attributes.place === undefined) return node;
    const room = document.createElementNS(MATH, "mpadded"); // as wide as the widest number, so that nothing trembles
    room.append(node);
    this.places.push({ node, room, name: attributes.place, wide: 0 });
    return room;
  }

  /** Numbers of controls can be dragged. @param {Panel} panel */
  connect(panel) {
    document.fonts?.addEventListener("loadingdone", () => { // a page's mathematics comes with a font of its own
      this.fitted = false;
      if (this.tensors) this.draw(this.tensors);
    });
    for (const { node, name } of this.places) if (!OWN.test(name)) scrub(node, panel, name);
  }

  /** @param {Tensor[]} tensors */
  draw([{ data }]) {
    if (this.fitted) this.fill(data);
    else this.fit(data);
  }

  measure() {
    super.measure();
    this.fitted = false;
  }

  /** On a narrow screen the formula is smaller, down to seven tenths; what is wider still can be scrolled. @param {Float32Array} data */
  fit(data) {
    this.fitted = true;
    const at = (/** @type {number} */ share) => {
      this.box.style.setProperty("--pe-fit", share.toFixed(3));
      this.reserve();
      this.fill(data);
    };
    at(1);
    const room = this.box.clientWidth / this.box.scrollWidth;
    if (room < 1) at(Math.max(0.7, 0.98 * room));
  }

  /** @param {Float32Array} data */
  fill(data) {
    for (const place of this.places) {
      const text = OWN.test(place.name) ? this.figure(data[Number(place.name)], Number(place.name)) : format(this.values[place.name]);
      const wide = textWidth(text, this.font);
      const signed = OWN.test(place.name) ? textWidth(`\u2212${text.replace("\u2212", "")}`, this.font) : wide;
      place.wide = Math.max(place.wide, signed);
      write(place.node, text);
      set(place.room, { width: `${place.wide}px`, lspace: `${(place.wide - wide) / 2}px` });
    }
  }

  /** The room of the widest value of each control. */
  reserve() {
    const { fontSize, fontFamily } = getComputedStyle(this.places[0]?.node ?? this.box);
    this.font = `${fontSize} ${fontFamily}`;
    for (const place of this.places) {
      place.wide = 0;
      const control = this.controls.find(({ name }) => name === place.name);
      if (control?.kind === "slider") place.wide = Math.max(...spread(control).map((value) => textWidth(format(value), this.font)));
    }
  }

  describe() {}

  summary() {
    return "";
  }

  /** @type {View["table"]} */
  table([{ shape: [count], data }], most = { rows: count, columns: 1 }) {
    const rows = Array.from({ length: Math.min(count, most.rows) }, (_, i) => [`number ${i + 1}`, data[i]]);
    return { head: ["of the formula", "value"], rows, size: [count, 1] };
  }
}
