// Ranks queries on the index of a built book, for test_search.py: from a list of queries to the addresses of the best results.
import { readFileSync } from "node:fs";

import "../chapters/assets/rank.js";

const [file, count] = process.argv.slice(2);
const written = readFileSync(file, "utf8");
const book = JSON.parse(written.slice(written.indexOf("{"), written.lastIndexOf("}") + 1));
const { read, rank, words, forms } = globalThis.posencSearch;
const index = read(book);
const address = ({ record }) => `${book.pages[book.page[record]][0].replace(/^chapters\/|\.html$/g, "")}#${book.anchor[record]}`;
const found = JSON.parse(readFileSync(0, "utf8")).map((query) => rank(index, query, Number(count)).results.map(address));
const dead = Object.entries(book.aliases).flatMap(([key, means]) => means.split("|").filter((way) =>
  !words(way).every(({ word }) => index.postings.has(forms(word).whole))).map((way) => `${key}: ${way}`));
process.stdout.write(JSON.stringify({ found, dead }));
