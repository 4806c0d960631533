import type { Rotation } from "./identify.js";
import type { Words } from "./said.js";

/** What a file holds, and which of its arrays are meant as far as their names say; "" where they don't. */
export interface Opened {
  arrays: { name: string; shape: number[]; dtype: string }[];
  before: string;
  after: string;
  positions: string;
}

/** A rotation, and the sentences about it. */
export interface Answer {
  found: Rotation;
  said: string[];
}

/** Who reads files and names rotations: a worker of the page, or a kernel. */
export interface Reader {
  open(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<Opened>;
  ask(names: [string, string, string], heads: string): Promise<Answer>;
}

export interface DumpSpec extends Words {
  title: string;
  caption: string;
  samples: { title: string; name: string; bytes: string }[];
  shown: Answer & { arrays: Opened["arrays"] };
}
