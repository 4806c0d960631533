// Asks the page's own reader about the files of a folder: node dump_ask.js FOLDER, which holds words.json.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ask, open } from "../posenc/_explore/front/dump/work.js";

const [folder] = process.argv.slice(2);
const words = JSON.parse(readFileSync(join(folder, "words.json"), "utf8"));
const plain = (_, value) => (value === Infinity || Number.isNaN(value) ? null : value);
const answers = {};
for (const name of readdirSync(folder).filter((each) => each !== "words.json")) {
  const [, heads] = /\.(first|last)\./.exec(name) ?? ["", ""];
  try {
    const { kind, names, arrays } = await open(name, new Uint8Array(readFileSync(join(folder, name))));
    answers[name] = { arrays };
    answers[name] = { arrays, ...(await ask(kind, names, heads, words)) };
  } catch (error) {
    answers[name] = { ...answers[name], error: error.message, kind: error.constructor.name };
  }
}
console.log(JSON.stringify(answers, plain));
