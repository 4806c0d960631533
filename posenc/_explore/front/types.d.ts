// The types that the front end's files share. They are for the checker alone: no bundle has any of this.

import type { Dumps } from "./dump/panel.js";
import type { Panel } from "./panel.js";
import type { Frame } from "./views/axes.js";
import type { View } from "./views/view.js";

/** The number of a slider, the index of a choice, yes or no of a tick box. */
// biome-ignore lint/suspicious/noExplicitAny: what it is hangs on the control, which no type can know
export type Value = any;

/** A state of the controls, by name. */
export type Values = Record<string, Value>;

/** The numbers are stored row by row. */
export interface Tensor {
  shape: number[];
  data: Float32Array<ArrayBuffer>;
}

export type Ends = [low: number, high: number];
export type Point = [x: number, y: number];

/** An element of HTML, SVG or MathML: it knows the events of a pointer. */
export type Touchable = GlobalEventHandlers & Element;

/** Which values a slider can have. */
export interface Range {
  min: number;
  max: number;
  step: number;
  integer: boolean;
  log: boolean;
}

interface Named {
  name: string;
  label: string;
  unit?: string;
  shared?: boolean; // with other panels of the page
}

export interface Slider extends Named, Range {
  kind: "slider";
}

export interface Choice extends Named {
  kind: "choice";
  labels: string[];
}

export interface Tick extends Named {
  kind: "tick";
}

export type Control = Slider | Choice | Tick;

/** The element of a control, and what shows a value in it. */
export interface Made {
  host: HTMLElement;
  show(value: Value): void;
}

/** An element of a formula; a string is text. The attribute `place` names the number that belongs there. */
export type Tree = [tag: string, attributes: Record<string, string>, children: (Tree | string)[]];

/** What a view shows, as explorer.py writes it. A kind of views has some of these entries, and reads no others. */
export interface ViewSpec {
  readonly kind: "clocks" | "heatmap" | "lines" | "plane" | "readout" | "formula" | "words";
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly labels: string[];
  readonly colours: string[];
  readonly limits: Ends | null;
  readonly tiles: string[] | boolean;
  readonly drag: { index: number; controls: string[] }[];
  readonly sketch: { at: number; control: string }[];
  readonly spelt: Record<string, string[]>; // words that a readout shows for numbers
  readonly digits: number | (number | null)[] | null;
  readonly scale: string;
  readonly origin: [row: number, column: number];
  readonly rows: string[];
  readonly columns: string[];
  readonly shades: [light: string[], dark: string[]]; // colours of the map at equal distances
  readonly differences: [light: string[], dark: string[]];
  readonly names: { value: number; label: string }[];
  readonly hatched: string;
  readonly pick: string[];
  readonly mark: string | string[];
  readonly log_x: boolean;
  readonly log_y: boolean;
  readonly ticks: string[];
  readonly words: string[];
  readonly rule: string;
  readonly level: string;
  readonly bands: [lower: number, upper: number][];
  readonly landmarks: { label: string; at: number }[];
  readonly limit: number;
  readonly tree: Tree;
}

/** What a panel has, as explorer.py writes it; a page adds its graphs, and which sliders each of them reads. */
export interface Spec {
  name: string;
  title: string;
  caption: string;
  play: string | null;
  compare: string | null;
  more: string[];
  share: string[];
  controls: Control[];
  views: ViewSpec[];
  presets: { label: string; values: Values }[];
  starts: Values;
  values: Values;
  graphs?: Record<string, string>;
  apart?: string; // the script that has the graphs, if they are large
  used?: Record<string, string[]>;
}

/** What computes. Only the newest values are ever computed. */
export interface Engine {
  compute(values: Values): Promise<Tensor[]>;
  changed?(values: Values): void; // is told of every move
  patience?: number; // milliseconds that a search may take before it shows what it has
  link?: boolean; // whether an address can hold a state
}

/** Pictures side by side: how high their plots are, and how many lines the longest title above an axis has; 0 is unknown. */
export interface Row {
  level: number;
  lines: number;
}

/** Words for whole numbers, from `start` on. */
export type Words = string[] & { start: number };

/** An axis goes from `low` to `high`. */
export interface Axis {
  low: number;
  high: number;
  label: string;
  log?: boolean;
  cells?: boolean; // ticks at whole numbers only
  down?: boolean; // from top to bottom
  grid?: boolean;
  words?: Words;
}

export interface Plot {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** What has been taken under the pointer. */
export interface Held {
  id: number;
  from: Point;
  controls: string[];
  taken: number | null; // which part of it
  level?: boolean; // whether it moves along the horizontal axis
  miss?: (tensors: Tensor[]) => number; // how far from the pointer these tensors would have it
}

/** What can be taken in a picture: grab.js says how it is used. */
export interface Handle {
  node: Touchable;
  controls: string[];
  index?: number; // of a line or an arrow
  either?: boolean; // whether the first direction of a drag says which of two controls is meant
  at?(x: number, y: number): Values;
  take?(x: number, y: number): number | null;
  miss?(tensors: Tensor[], x: number, y: number, held: Held): number;
}

/** A cell of a matrix; or a row or a column, if it has one of the two. */
export interface Cell {
  row?: number;
  column?: number;
}

/** A place in a picture: a point of lines, an arrow, a cell. */
export type Place = { index: number } | Cell;

/** The values of controls for which a place stands. As a method, since each kind of views has places of its own. */
export type Adopt = { adopt(place: Place): Values }["adopt"];

/** What the probe says at a place, and where it says it. */
export interface Told {
  title: string;
  values: { name?: string; text: string; colour?: string }[];
  point: Point;
  lines: string;
  dots: { x: number; y: number; colour: string }[];
}

/** A view that can be probed: probe.js says how it is used. */
export interface Picture extends View {
  frame: Frame;
  above?: boolean;
  locate(x: number, y: number): Place | null;
  step(place: Place | null, dx: number, dy: number): Place | null;
  named(place: Place): Record<string, number>;
  find(names: Record<string, number>): Place | null;
  tell(place: Place): Told;
}

/** The numbers of a view as rows, and how many rows and columns there are of all. */
export interface Table {
  head: (string | number)[];
  rows: (string | number)[][];
  size: [rows: number, columns: number];
}

export interface Most {
  rows: number;
  columns: number;
}

/** The runtime of runtime.js, in the page or in a worker. */
export interface Runtime {
  start(wasm: Uint8Array): void;
  run(...call: Call): Promise<Found>;
  prepare(key: string, graph: Uint8Array): Promise<unknown>;
}

/** Objects of panels, by the panel's id: away.js says where they live. */
export interface Desk {
  open(id: string, first: unknown): void;
  call(id: string, method: string, ...given: unknown[]): Promise<unknown>;
}

export interface Found {
  tensors: Tensor[];
  milliseconds: number;
}

export type Call = [key: string, graph: Uint8Array, inputs: { name: string; integer: boolean; value: number }[]];

declare global {
  var posencRuntime: (scope: typeof globalThis) => void;
  var posencEngine: Runtime;
  var posencDesks: Record<"trainings" | "readings", Desk>;
  var posencWasm: string | undefined;
  var posencGraphs: Record<string, Record<string, string>> | undefined;
  var posencOpenDumps: typeof import("./dump/page.js").openDumps;
  var posencIdentify: (scope: typeof globalThis) => void;
  var posencDumps: typeof import("./dump/work.js") | undefined;

  interface Element {
    panel?: Panel;
    dumps?: Dumps;
  }

  interface ElementEventMap {
    "pe-drawn": CustomEvent<Values>;
  }
}
