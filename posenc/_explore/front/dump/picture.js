// @ts-check
// What was found, drawn: the channels of a head with an arc for each pair, and the frequencies against those of the base.

import { shape } from "../dom.js";

/** @import { Rotation } from "./identify.js" */

const WIDTH = 360; // a column of a panel; the pictures grow with it

/** @type {(t: number, planes: number) => string} the colour of a plane: fast ones are orange, slow ones blue */
const colour = (t, planes) => `color-mix(in oklch, var(--pe-key) ${Math.round(100 * (1 - t / Math.max(planes - 1, 1)))}%, var(--pe-query))`;

/** Boxes for channels, and arcs that join those that turn together. @param {Rotation} found */
export function channels({ dim, pairs, layout, words }) {
  const step = WIDTH / dim;
  const high = (/** @type {number} */ apart) => 10 + (140 * apart) / dim;
  const base = 0.98 * high(Math.max(...pairs.map(([i, j]) => j - i))) + 6; // where the row of boxes begins
  const arcs = shape("g", { class: "pe-arcs" });
  const boxes = shape("g", { class: "pe-boxes" });
  /** @type {Map<number, number>} */
  const plane = new Map(pairs.flatMap(([i, j], t) => [[i, t], [j, t]]));
  for (let i = 0; i < dim; i++) {
    const t = plane.get(i);
    const box = shape("rect", { x: i * step + step * 0.1, y: base, width: step * 0.8, height: 14, rx: 1, class: t === undefined ? "pe-still-channel" : "" });
    if (t !== undefined) box.style.fill = colour(t, pairs.length);
    boxes.append(box);
  }
  for (const [t, [i, j]] of pairs.entries()) {
    const [from, to, top] = [(i + 0.5) * step, (j + 0.5) * step, base - 1.3 * high(j - i)];
    const arc = shape("path", { d: `M${from} ${base - 2}C${from} ${top} ${to} ${top} ${to} ${base - 2}` });
    arc.style.stroke = colour(t, pairs.length);
    arcs.append(arc);
  }
  const ends = shape("g", { class: "pe-ends" },
    shape("text", { x: 0, y: base + 28 }, "channel 0"), shape("text", { x: WIDTH, y: base + 28, "text-anchor": "end" }, String(dim - 1)));
  const said = `Channels 0 to ${dim - 1}; arcs join those that turn together: ${layout === "other" ? words : layout}.`;
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${base + 33}`, role: "img", "aria-label": said, class: "pe-channels" }, arcs, boxes, ends);
}

/** Frequencies of the planes, and a line for those that the base gives without scaling. @param {Rotation} found */
export function frequencies({ frequencies: freq, base, rotary_dim: dims, scaling }) {
  const planes = Math.max(freq.length, Math.floor(dims / 2));
  const plain = base ? Array.from({ length: planes }, (_, t) => base ** ((-2 * t) / dims)) : [];
  const logs = [...freq, ...plain].filter((f) => f > 0).map(Math.log10);
  const [high, low] = [Math.ceil(Math.max(...logs, 0)), Math.floor(Math.min(...logs))];
  const [left, top, height, right] = [42, 8, 104, 5];
  const x = (/** @type {number} */ t) => left + ((WIDTH - left - right) * t) / Math.max(planes - 1, 1);
  const y = (/** @type {number} */ f) => top + (height * (high - Math.log10(f))) / Math.max(high - low, 1);
  const every = Math.ceil((high - low) / 4);
  const rows = [];
  for (let e = high; e >= low; e -= every) {
    const at = y(10 ** e);
    const label = e === 0 ? "1" : e > -4 && e < 0 ? (10 ** e).toFixed(-e) : `10${[...String(e)].map((c) => ("-0123456789".includes(c) ? "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)] : c)).join("")}`;
    rows.push(shape("line", { class: "pe-grid", x1: left, x2: WIDTH - right, y1: at, y2: at }),
      shape("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, label));
  }
  const line = plain.length ? [shape("path", { class: "pe-plain", d: `M${plain.map((f, t) => `${x(t)} ${y(f)}`).join("L")}` })] : [];
  const dots = freq.map((f, t) => {
    const dot = shape("circle", { cx: x(t), cy: f > 0 ? y(f) : top + height, r: 2.2 });
    dot.style.fill = colour(t, freq.length);
    return dot;
  });
  const ends = [shape("text", { x: left, y: top + height + 18 }, "plane 0"), shape("text", { x: WIDTH - right, y: top + height + 18, "text-anchor": "end" }, String(planes - 1))];
  const from = freq[0].toPrecision(3);
  const to = freq[freq.length - 1].toPrecision(3);
  const said = `Frequencies of the planes in radians per position, from ${from} to ${to}${base ? `; a line for base ${base.toLocaleString("en")} without scaling${scaling === "none" ? ", on which they lie" : ""}` : ""}.`;
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${top + height + 22}`, role: "img", "aria-label": said, class: "pe-frequencies" }, ...rows, ...line, ...dots, ...ends);
}
