// @ts-check
// The panels of dumps in a built page, in a script of their own: few pages have one.

import { openDumps } from "./page.js";

globalThis.posencOpenDumps = openDumps;
