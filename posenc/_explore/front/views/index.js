// @ts-check
// Draws the tensors it is given. Nodes are made once and moved afterwards. It computes no scheme.

import { Clocks } from "./clocks.js";
import { Formula } from "./formula.js";
import { Heatmap } from "./heatmap.js";
import { Lines } from "./lines.js";
import { Plane } from "./plane.js";
import { Readout } from "./readout.js";
import { Sketch } from "./sketch.js";
import { Tiles } from "./tiles.js";
import { Words } from "./words.js";

/** @import { Control, ViewSpec } from "../types" */
/** @import { View } from "./view.js" */

const KINDS = { clocks: Clocks, formula: Formula, heatmap: Heatmap, lines: Lines, plane: Plane, readout: Readout, words: Words };

/** The view of a spec, drawing into `host`. @type {(spec: ViewSpec, host: HTMLElement, controls: Control[]) => View} */
export function makeView(spec, host, controls) {
  const tiled = Array.isArray(spec.tiles) ? spec.tiles.length : spec.tiles;
  const kind = tiled ? Tiles : spec.sketch?.length ? Sketch : KINDS[spec.kind];
  return new kind(spec, host, controls);
}
