// Draws the tensors it is given. Nodes are made once and moved afterwards. It computes no scheme.

import { Formula } from "./formula.js";
import { Heatmap } from "./heatmap.js";
import { Lines } from "./lines.js";
import { Plane } from "./plane.js";
import { Readout } from "./readout.js";
import { Tiles } from "./tiles.js";

const KINDS = { formula: Formula, heatmap: Heatmap, lines: Lines, plane: Plane, readout: Readout };

/** The view of a spec, drawing into `host`; `takes` says how many of the tensors are its own. */
export function makeView(spec, host, controls) {
  const kind = spec.tiles && spec.tiles.length !== 0 ? Tiles : KINDS[spec.kind];
  const made = new kind(spec, host, controls);
  made.takes = kind.takes;
  return made;
}
