// Draws the tensors it is given. Nodes are made once and moved afterwards. It computes no scheme.

import { Heatmap } from "./heatmap.js";
import { Lines } from "./lines.js";
import { Plane } from "./plane.js";
import { Readout } from "./readout.js";

const KINDS = { heatmap: Heatmap, lines: Lines, plane: Plane, readout: Readout };

/** The view of a spec, drawing into `host`; `takes` says how many of the tensors are its own. */
export function makeView(spec, host) {
  const made = new KINDS[spec.kind](spec, host);
  made.takes = KINDS[spec.kind].takes;
  return made;
}
