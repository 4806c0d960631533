// @ts-check
// What was found, drawn. Of a rotation the channels of a head with an arc for each pair, and the frequencies against those
// of the base; of a bias what each distance costs.

import { shape } from "../dom.js";

/** @import { Bias, Curve } from "./biases.js" */
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

const MOST = 8; // heads that are drawn

/** What each distance costs: a line for each head. @type {(found: Bias, curve: Curve) => SVGElement} */
export function costs({ heads }, { offsets, logits }) {
  const drawn = logits.slice(0, MOST);
  const all = drawn.flat();
  let [low, high] = [Math.min(0, ...all), Math.max(0, ...all)];
  if (high - low < 1e-9) [low, high] = [-1, 1];
  const [first, last] = [offsets[0], offsets[offsets.length - 1]];
  const [left, top, height, right] = [42, 8, 124, 8];
  const x = (/** @type {number} */ o) => left + ((WIDTH - left - right) * (o - first)) / Math.max(last - first, 1);
  const y = (/** @type {number} */ z) => top + (height * (high - z)) / (high - low);
  const rows = [high, 0, low].filter((z, k, every) => k === 1 || Math.abs(y(z) - y(0)) > 14 || every.length < 2).flatMap((z) => [
    shape("line", { class: "pe-grid", x1: left, x2: WIDTH - right, y1: y(z), y2: y(z) }),
    shape("text", { x: left - 6, y: y(z) + 4, "text-anchor": "end" }, Number(z.toPrecision(2)).toString().replace("-", "−")),
  ]);
  const own = first < 0 && last > 0 ? [shape("line", { class: "pe-plain", x1: x(0), x2: x(0), y1: top, y2: top + height })] : [];
  const lines = drawn.map((row, h) => {
    const path = shape("path", { class: "pe-cost", d: `M${row.map((z, k) => `${x(offsets[k])} ${y(z)}`).join("L")}` });
    path.style.stroke = colour(h, drawn.length);
    return path;
  });
  const end = (/** @type {number} */ o) => `${o > 0 ? "+" : o < 0 ? "−" : ""}${Math.abs(o)}`;
  const labels = [
    shape("text", { x: left, y: top + height + 18 }, `j − i = ${end(first)}`),
    shape("text", { x: WIDTH - right, y: top + height + 18, "text-anchor": "end" }, end(last)),
  ];
  const some = heads > MOST ? `the first ${MOST} of ${heads} heads` : `${heads} head${heads > 1 ? "s" : ""}`;
  const said = `What each distance costs, a line for each of ${some}, from j − i = ${first} to ${last}: ${low.toPrecision(3)} to ${high.toPrecision(3)} logits.`;
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${top + height + 22}`, role: "img", "aria-label": said, class: "pe-costs" }, ...rows, ...own, ...lines, ...labels);
}

/** Which keys a query sees: one box a key, as far as an end of the window is in sight. @param {Bias} found */
export function window_({ back, ahead, chunk }) {
  const most = 24;
  const [behind, before] = [back ?? most, ahead ?? most].map((side) => Math.min(side, most));
  const [from, to] = [-Math.min(behind + 2, most + 1), Math.min(before + 2, most + 1)];
  const step = WIDTH / (to - from + 1);
  const boxes = [];
  for (let o = from; o <= to; o++) {
    const seen = o >= -(back ?? Infinity) && o <= (ahead ?? Infinity);
    const box = shape("rect", { x: (o - from) * step + step * 0.1, y: 4, width: step * 0.8, height: 14, rx: 1, class: seen ? "" : "pe-still-channel" });
    if (seen) box.style.fill = o ? "var(--pe-key)" : "var(--pe-query)";
    boxes.push(box);
  }
  const words = [back === null ? "all" : back, ahead === null ? "all" : ahead];
  const said = chunk === null ? `A query sees ${words[0]} keys behind itself and ${words[1]} ahead.` : `A query sees keys of its own chunk of ${chunk}.`;
  const ends = [shape("text", { x: 0, y: 36 }, `behind: ${words[0]}`), shape("text", { x: WIDTH, y: 36, "text-anchor": "end" }, `ahead: ${words[1]}`)];
  return shape("svg", { viewBox: `0 0 ${WIDTH} 42`, role: "img", "aria-label": said, class: "pe-window" }, ...boxes, ...ends);
}
