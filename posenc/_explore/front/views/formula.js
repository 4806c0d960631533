// A formula with the present numbers in it. It is set once; afterwards only digits change.

import { element, write } from "../dom.js";
import { scrub } from "../scrub.js";
import { format, grouped, steps, valueAt } from "../scale.js";
import { View } from "./view.js";

const MATH = "http://www.w3.org/1998/Math/MathML";
const SPACE = "\u2007"; // as wide as a digit

export class Formula extends View {
  static takes = 1;
  noun = "number";

  constructor(spec, host, controls) {
    super(spec, host);
    this.stage.setAttribute("aria-hidden", "true"); // the numbers are those of controls and of other views
    this.stage.removeAttribute("role");
    this.places = [];
    this.box = element("div", { class: "pe-formula" });
    this.stage.append(this.box);
    this.box.append(this.build(spec.tree));
    for (const place of this.places) {
      const control = controls.find(({ name }) => name === place.name);
      place.least = control ? Math.max(...spread(control).map((value) => format(value).length)) : 0;
    }
  }

  build([tag, attributes, children]) {
    const node = document.createElementNS(MATH, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name !== "xmlns" && name !== "place") node.setAttribute(name, value);
    }
    if (attributes.place !== undefined) this.places.push({ node, name: attributes.place, least: 0 });
    node.append(...children.map((child) => (typeof child === "string" ? child : this.build(child))));
    return node;
  }

  /** Numbers of controls can be dragged. */
  connect(panel) {
    for (const { node, name } of this.places) if (!/^\d+$/.test(name)) scrub(node, panel, name);
  }

  text(value, i) {
    const { digits } = this.spec;
    return Number.isFinite(value) ? grouped(value, Array.isArray(digits) ? (digits[i] ?? 2) : digits) : format(value);
  }

  draw([{ data }]) {
    for (const place of this.places) {
      const own = /^\d+$/.test(place.name);
      const text = own ? this.text(data[Number(place.name)], Number(place.name)) : format(this.values[place.name]);
      place.least = Math.max(place.least, text.length);
      write(place.node, text.padStart(place.least, SPACE));
    }
  }

  describe() {}

  summary() {
    return "";
  }

  table([{ shape: [count], data }], most = { rows: count }) {
    const rows = Array.from({ length: Math.min(count, most.rows) }, (_, i) => [`number ${i + 1}`, data[i]]);
    return { head: ["of the formula", "value"], rows, size: [count, 1] };
  }
}

function spread(control) {
  const last = steps(control);
  const stride = Math.max(1, Math.floor(last / 400));
  return Array.from({ length: Math.floor(last / stride) + 1 }, (_, i) => valueAt(control, i * stride)).concat(control.max);
}
