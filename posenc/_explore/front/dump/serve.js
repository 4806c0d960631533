// @ts-check
// The reader of dumps as a function of its global object, so that a worker can be made from its own source.

import { ask, open } from "./work.js";

globalThis.posencDumps = { open, ask };
