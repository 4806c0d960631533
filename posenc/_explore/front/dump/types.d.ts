import type { Bias, Curve } from "./biases.js";
import type { Rotation } from "./identify.js";
import type { Words } from "./said.js";

/** What a dump may hold: q or k around a rotation, scores around a bias, or a bias. */
export type Kind = "rotation" | "scores" | "bias";

/** What a file holds, and which of its arrays are meant as far as their names say; "" where they don't. */
export interface Opened {
  arrays: { name: string; shape: number[]; dtype: string }[];
  kind: Kind;
  names: string[];
}

/** A rotation, or a bias with what each distance costs; and the sentences about it. */
export type Answer = { said: string[] } & ({ found: Rotation; curve?: undefined } | { found: Bias; curve: Curve });

/** Who reads files and names what they hold: a worker of the page, or a kernel. */
export interface Reader {
  open(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<Opened>;
  ask(kind: Kind, names: string[], heads: string): Promise<Answer>;
}

export interface DumpSpec extends Words {
  title: string;
  caption: string;
  samples: { title: string; name: string; bytes: string }[];
  shown: Answer & { opened: Opened };
}
