// The search without its page: words, ranks and what is shown, on a small book.
import assert from "node:assert/strict";
import test from "node:test";

import "../chapters/assets/rank.js";

const { read, rank, stem, forms, said, sentences, sentence, marked, excerpt, forMarking } = globalThis.posencSearch;

/** A book of records: kind, page, anchor, title, above, text, more. */
const book = (records, aliases = {}) => ({
  pages: [["rope.html", "Rotary position embedding", "1"], ["decoding.html", "Decoding with a cache", "2"], ["glossary.html", "Glossary", ""]],
  ...Object.fromEntries(["kind", "page", "anchor", "title", "above", "text", "more"].map((name, i) => [name, records.map((each) => each[i])])),
  aliases,
});
const BOOK = book(
  [
    ["chapter", 0, "", "Rotary position embedding", "", "Rotate queries and keys. Scores see offsets.", ""],
    ["section", 0, "base", "How large the base has to be", "", "Llama 3 has rope_theta 500\u202f000. A larger base turns slower.", ""],
    ["symbol", 2, "frequencies", "θt", "", "frequency of pair t", ""],
    ["section", 1, "left-padding", "Left padding", "", "Texts are padded on the left. Positions count real tokens.", "padding_side"],
    ["term", 2, "term-left-padding", "left padding", "", "Filling shorter texts at their beginning.", ""],
    ["section", 1, "other", "In practice", "", "A text of the left page has padding. ".repeat(9), ""],
    ["section", 1, "sinks", "Windows and sinks", "", "The first tokens stay: attention sinks. Pass position_ids with FlexAttention.", ""],
    ["exhibit", 1, "constructor", "A constructor", "", "The object __proto__ has a constructor.", ""],
  ],
  { streamingllm: "attention sinks", nowhere: "absent words" },
);
const index = read(BOOK);
const best = (query, n = 1) => rank(index, query).results.slice(0, n).map(({ record }) => BOOK.anchor[record]);

test("a word has one stem in all forms", () => {
  for (const [a, b] of [["padding", "padded"], ["pads", "pad"], ["scaling", "scales"], ["caches", "cache"], ["biases", "bias"],
    ["frequencies", "frequency"], ["tuning", "tune"], ["parallelism", "parallel"], ["bases", "base"], ["merging", "merged"]]) // prettier-ignore
    assert.equal(stem(a), stem(b), `${a} ${b}`);
  for (const word of ["string", "bias", "loss", "this", "basis", "t5"]) assert.equal(stem(stem(word)), stem(word));
  assert.notEqual(stem("string"), "str");
});

test("names have parts, and numbers have digits alone", () => {
  assert.deepEqual(forms("position_ids").parts, ["position", "ids"]);
  assert.equal(forms("position_ids").whole, forms("positionIds").whole);
  assert.deepEqual(forms("FlexAttention").parts, ["flex", "attention"]);
  for (const written of ["500,000", "500_000.0", "500\u202f000"]) assert.equal(forms(written).whole, "500000");
  assert.equal(forms("θ").whole, forms("theta").whole);
  assert.equal(forms("T5’s").whole, "t5");
});

test("a title says more than a glossary term, and a term more than text", () => {
  assert.deepEqual(best("left padding", 3), ["left-padding", "term-left-padding", "other"]);
  assert.deepEqual(best("rotary"), [""]);
});

test("a chapter's title, a heading, a term and a sentence say less in this order", () => {
  const same = "Something else is said here.";
  const kinds = book([
    ["section", 1, "text", "Other", "", `${same} A horizon. ${same} The horizon again.`, ""],
    ["term", 2, "term", "horizon", "", same, ""],
    ["section", 1, "heading", "Horizon", "", same, ""],
    ["chapter", 1, "", "Horizon", "", same, ""],
  ]);
  const found = rank(read(kinds), "horizon").results.map(({ record }) => kinds.anchor[record]);
  assert.deepEqual(found, ["", "heading", "term", "text"]);
});

test("both words in a text beat one of them in a title", () => {
  const two = book([
    ["section", 0, "one", "Needle, needle, needle", "", "The needle of a needle.", "needle"],
    ["section", 1, "both", "Other", "", `${"A long text without them. ".repeat(8)}A needle. Then hay.`, ""],
    ...Array.from({ length: 9 }, (_, i) => ["section", 1, `${i}`, "Hay", "", "Nothing.", ""]),
  ]);
  assert.equal(two.anchor[rank(read(two), "needle hay").results[0].record], "both");
});

test("all words beat some, and a word that nobody has is told", () => {
  const found = rank(index, "base 500000 qqqqqq");
  assert.deepEqual(found.unknown, ["qqqqqq"]);
  assert.equal(BOOK.anchor[found.results[0].record], "base");
  assert.ok(found.results[0].whole);
});

test("words are found by their beginning, by aliases, by Greek letters, by parts, and with a letter wrong", () => {
  assert.deepEqual(best("rot"), [""]);
  assert.deepEqual(best("StreamingLLM"), ["sinks"]);
  assert.deepEqual(best("what does theta mean"), ["frequencies"]);
  assert.deepEqual(best("θ"), ["frequencies"]);
  assert.deepEqual(best("flex attention"), ["sinks"]);
  assert.deepEqual(best("position ids"), ["sinks"]);
  assert.deepEqual(best("padding_side"), ["left-padding"]);
  assert.deepEqual(best("embeding"), [""]);
});

test("only the last word may be a beginning, and only while it is typed", () => {
  assert.deepEqual(rank(index, "rot ").results, []);
  assert.ok(rank(index, "rot").results.length);
});

test("words such as what and the are no question of their own", () => {
  assert.deepEqual(said("What does the base mean?"), ["base"]);
  assert.deepEqual(said("the"), ["the"]);
  assert.deepEqual(said("  "), []);
});

test("whatever is typed has an answer", () => {
  for (const query of ["", " ", "__proto__", "constructor", "hasOwnProperty", "<img src=x onerror=alert(1)>", "😀", "🧭 rope",
    "\0", "\ud800", "%", "a".repeat(10_000), "rope ".repeat(2000), "(((((", ".*", "\\", "’’’", "−1", "٣", "ﬁ"]) { // prettier-ignore
    const { results, stems } = rank(index, query);
    for (const { record } of results) {
      assert.equal(marked(BOOK.text[record], stems).map(([piece]) => piece).join(""), BOOK.text[record]);
    }
  }
  assert.deepEqual(best("constructor"), ["constructor"]);
  assert.deepEqual(best("__proto__"), ["constructor"]);
});

test("the sentence with most of the query is shown, its words marked", () => {
  const { concepts, stems } = rank(index, "count tokens");
  assert.equal(sentence(BOOK.text[3], concepts), "Positions count real tokens.");
  assert.deepEqual(marked("Positions count real tokens.", stems).filter(([, found]) => found).map(([word]) => word), ["count", "tokens"]);
  assert.deepEqual(forMarking(BOOK, 3, stems), ["tokens", "count"].sort());
});

test("a sentence ends at its full stop, and not behind et al.", () => {
  assert.deepEqual(sentences("Su et al. (2024) rotate. Keys, too.\nA line"), ["Su et al. (2024) rotate.", "Keys, too.", "A line"]);
});

test("a long sentence is shown around what was found", () => {
  const long = `${"word ".repeat(100)}needle ${"word ".repeat(100)}`;
  const shown = excerpt(long, new Set(["needl"]));
  assert.ok(shown.includes("needle") && shown.length < 260 && shown.startsWith("… ") && shown.endsWith(" …"));
});

test("an empty book has no results", () => {
  assert.deepEqual(rank(read(book([])), "rope").results, []);
});
