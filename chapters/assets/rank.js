// @ts-check
/* The search without its page: words, the index that is made of the book's records, and their order for a query. It knows
   no document, so that Node tests it. A word matches in any form (scale, scales, scaling), a name as a whole and by its
   parts (position_ids), a Greek letter by its name. Results that have all words come before those that have some. */
"use strict";

/**
 * @typedef {"chapter" | "section" | "exhibit" | "exercise" | "term" | "symbol" | "panel" | "preset" | "name" | "paper"} Kind
 * @typedef {{ pages: [string, string, string][], kind: Kind[], page: number[], anchor: string[], title: string[],
 *   above: string[], text: string[], more: string[], aliases: Record<string, string> }} Book What the build writes.
 * @typedef {{ ids: number[], weights: number[] }} Posting The records that have a stem, and how much it says of each.
 * @typedef {{ key: string[], means: string[][] }} Alias Stems that a reader types, and those that say it in the book.
 * @typedef {{ book: Book, postings: Map<string, Posting>, stems: string[], aliases: Alias[],
 *   sets: Map<number, Set<string>[]> }} Index `sets` has the stems of titles and sentences that were looked at.
 * @typedef {{ stems: string[], weight: number }} Way All stems of a way must be there.
 * @typedef {{ word: string, ways: Way[], idf: number }} Concept One word of a query, and the ways to say it.
 * @typedef {{ record: number, score: number, whole: boolean }} Result
 * @typedef {{ results: Result[], stems: Set<string>, concepts: Concept[], unknown: string[] }} Found
 */

globalThis.posencSearch = (() => {
  const LONGEST = 300; // characters of a query that are read
  const MOST = 12; // words of a query
  const WORD = /[\p{L}\p{N}\p{M}_]+(?:(?:[.,'’\-–]|(?<=\d)\u202f(?=\d))[\p{L}\p{N}\p{M}_]+)*/gu;
  const GREEK = new Map(Object.entries({
    α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "epsilon", ζ: "zeta", η: "eta", θ: "theta", ι: "iota", κ: "kappa",
    λ: "lambda", μ: "mu", ν: "nu", ξ: "xi", π: "pi", ρ: "rho", σ: "sigma", ς: "sigma", τ: "tau", φ: "phi", χ: "chi",
    ψ: "psi", ω: "omega",
  }));
  const IDLE = new Set(("a about again all am an and any are as at be been but by can could do does doing explain find for " +
    "from get give gives good got had has have he her here his how i if in into is it its just like make mean meaning means me " +
    "much my need of on or our out please set should so some than that the their them then there these they this to today too " +
    "up use used using versus vs was we work works were what when where which who whose why will with would you your").split(" "));

  /* ---- words ------------------------------------------------------------------------------------------------------- */

  /** A word without its endings: a plural, -ing, -ed. Light, so that what is shown as found looks like the query. */
  function stem(/** @type {string} */ word) {
    if (word.length < 4 || /\d/.test(word)) return word;
    let short = word;
    if (/ies$/.test(short) && short.length > 4) short = `${short.slice(0, -3)}y`;
    else if (/(?:[sxz]|ch|sh)es$/.test(short)) short = short.slice(0, -2);
    else if (/[^suia]s$/.test(short) && !/is$/.test(short)) short = short.slice(0, -1);
    const cut = short.replace(/(?:ing|ed)$|(?<=.{6})ism$/, "");
    if (cut !== short && cut.length > 2 && /[aeiouy]/.test(cut)) short = cut;
    short = short.replace(/([bcdfgklmnprtz])\1$/, "$1");
    return short.length > 3 ? short.replace(/e$/, "") : short;
  }

  /** Letters without accents and cases, Greek ones by their names. */
  function plain(/** @type {string} */ word) {
    const bare = word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    return bare.replace(/[α-ως]/g, (letter) => ` ${GREEK.get(letter) ?? letter} `).trim();
  }

  /** A number as digits: 500,000, 500 000 and 500_000.0 are 500000. Empty for other words. */
  function digits(/** @type {string} */ word) {
    return /^\d[\d.,_\u202f]*$/.test(word) ? word.replace(/[,_\u202f](?=\d{3})/g, "").replace(/\.0*$/, "") : "";
  }

  /** The parts of a name: position_ids, fine-tune, FlexAttention, Qwen3. */
  function parts(/** @type {string} */ word) {
    const apart = word
      .replace(/['’]s$/, "")
      .replace(/(\p{Ll}{2})(\p{Lu}\p{L}{2})/gu, "$1 $2")
      .replace(/(\p{L}{3})(\d)/gu, "$1 $2");
    return plain(apart).split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  }

  /** @type {Map<string, { whole: string, parts: string[] }>} */
  const known = new Map();
  /** A word's stems: of the whole, and of its parts where it has some. */
  function forms(/** @type {string} */ word) {
    const before = known.get(word);
    if (before) return before;
    const number = digits(word);
    const pieces = number ? [number] : parts(word);
    const made = { whole: stem(pieces.join("")), parts: pieces.length > 1 ? pieces.map(stem) : [] };
    known.set(word, made);
    return made;
  }

  /** The words of a text with their places. @returns {{ word: string, start: number }[]} */
  function words(/** @type {string} */ text) {
    return [...text.matchAll(WORD)].map((found) => ({ word: found[0], start: found.index }));
  }

  /** All stems of a text. */
  function stems(/** @type {string} */ text) {
    const found = [];
    for (const word of text.match(WORD) ?? []) {
      const { whole, parts } = forms(word);
      found.push(whole);
      if (parts.length) found.push(...parts);
    }
    return found;
  }

  /* ---- the index --------------------------------------------------------------------------------------------------- */

  /** How much a word in a title says, by kind: title, heading, glossary term, and then the rest. @type {Record<Kind, number>} */
  const TITLE = { chapter: 9, section: 6, exhibit: 6, exercise: 4, term: 5, symbol: 5, preset: 5, panel: 4, name: 4, paper: 3 };
  /** How welcome a kind is beside a section that says as much. @type {Partial<Record<Kind, number>>} */
  const WELCOME = { chapter: 1.25, exercise: 0.6, symbol: 0.8, preset: 0.75, panel: 0.85, name: 0.7, paper: 0.45 };
  /** Other fields. `b` is how much a long field is discounted for its length. */
  const FIELDS = { title: { b: 0.4 }, above: { b: 0.3, weight: 1.5 }, page: { b: 0.3, weight: 1.5 }, first: { b: 0.3, weight: 1 },
    text: { b: 0.65, weight: 1 }, more: { b: 0.5, weight: 0.6 } };
  const K = 1.3; // a word that is there again says less each time

  /** The first sentence of a text. */
  const first = (/** @type {string} */ text) => sentences(text.slice(0, 400))[0] ?? "";

  /** The fields of a record. @returns {Record<keyof typeof FIELDS, string>} */
  function fields(/** @type {Book} */ book, /** @type {number} */ i) {
    const page = book.kind[i] === "chapter" ? "" : book.pages[book.page[i]][1];
    return { title: book.title[i], above: book.above[i], page, first: first(book.text[i]), text: book.text[i], more: book.more[i] };
  }

  /** Reads all records: BM25F, which adds up the fields of a record before it weighs how often a word is there. @returns {Index} */
  function read(/** @type {Book} */ book) {
    const names = /** @type {(keyof typeof FIELDS)[]} */ (Object.keys(FIELDS));
    const split = book.kind.map((_, i) => {
      const all = fields(book, i);
      return names.map((name) => stems(all[name]));
    });
    const mean = names.map((_, f) => split.reduce((sum, record) => sum + record[f].length, 0) / (split.length || 1) || 1);
    /** @type {Map<string, Posting>} */
    const postings = new Map();
    split.forEach((record, i) => {
      /** @type {Map<string, number>} */
      const sums = new Map();
      record.forEach((list, f) => {
        const field = FIELDS[names[f]];
        const weight = "weight" in field ? field.weight : TITLE[book.kind[i]];
        const share = weight / (1 - field.b + (field.b * list.length) / mean[f]);
        for (const each of list) sums.set(each, (sums.get(each) ?? 0) + share);
      });
      for (const [each, sum] of sums) {
        let posting = postings.get(each);
        if (!posting) postings.set(each, (posting = { ids: [], weights: [] }));
        posting.ids.push(i);
        posting.weights.push(sum / (K + sum));
      }
    });
    const aliases = Object.entries(book.aliases).map(([key, means]) => ({
      key: words(key).map(({ word }) => forms(word).whole),
      means: means.split("|").map((way) => words(way).map(({ word }) => forms(word).whole)),
    }));
    return { book, postings, stems: [...postings.keys()].sort(), aliases, sets: new Map() };
  }

  /* ---- a query ----------------------------------------------------------------------------------------------------- */

  /** How rare a stem is. */
  function rarity(/** @type {Index} */ index, /** @type {string} */ each) {
    const there = index.postings.get(each)?.ids.length ?? 0;
    return Math.log(1 + (index.book.kind.length - there + 0.5) / (there + 0.5));
  }

  /** Stems that begin as a word does that is still being typed; those that more records have come first. */
  function completions(/** @type {Index} */ index, /** @type {string} */ start) {
    let low = 0, high = index.stems.length; // prettier-ignore
    while (low < high) {
      const middle = (low + high) >> 1;
      if (index.stems[middle] < start) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (; low < index.stems.length && index.stems[low].startsWith(start); low++) found.push(index.stems[low]);
    const size = (/** @type {string} */ each) => index.postings.get(each)?.ids.length ?? 0;
    return found.sort((a, b) => size(b) - size(a)).slice(0, 30);
  }

  /** Whether two words differ in one letter: one too many, one too few, another one, or two that changed places. */
  function near(/** @type {string} */ a, /** @type {string} */ b) {
    if (Math.abs(a.length - b.length) > 1) return false;
    let start = 0, end = 0; // prettier-ignore
    const least = Math.min(a.length, b.length);
    while (start < least && a[start] === b[start]) start++;
    while (end < least - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    const left = a.slice(start, a.length - end), right = b.slice(start, b.length - end); // prettier-ignore
    return Math.max(left.length, right.length) <= 1 || (left.length === 2 && left === [...right].reverse().join(""));
  }

  /** The ways to say a word of a query: its stem, its parts together, what it may become, or what is spelled almost so. */
  function ways(/** @type {Index} */ index, /** @type {string} */ word, /** @type {boolean} */ typing) {
    const { whole, parts } = forms(word);
    /** @type {Way[]} */
    const found = index.postings.has(whole) ? [{ stems: [whole], weight: 1 }] : [];
    if (parts.length && parts.every((part) => index.postings.has(part))) found.push({ stems: parts, weight: 0.9 });
    const start = plain(word).replace(/[^\p{L}\p{N}]/gu, "");
    if (typing && start.length > 1) {
      const weight = found.length ? 0.35 : 0.6;
      found.push(...completions(index, start).filter((each) => each !== whole).map((each) => ({ stems: [each], weight })));
    }
    if (!found.length && whole.length > 4) {
      found.push(...index.stems.filter((each) => near(whole, each)).map((each) => ({ stems: [each], weight: 0.5 })));
    }
    return found;
  }

  /** The words of a query that say something; all of them if none does. */
  function said(/** @type {string} */ query) {
    const all = words(query.slice(0, LONGEST)).map(({ word }) => word);
    const telling = all.filter((word) => !IDLE.has(word.toLowerCase()) && plain(word));
    return [...new Set(telling.length ? telling : all)].slice(0, MOST);
  }

  /** Adds what aliases say to the words that they are made of. */
  function explained(/** @type {Index} */ index, /** @type {Concept[]} */ concepts) {
    const typed = concepts.map(({ word }) => forms(word).whole);
    for (const { key, means } of index.aliases) {
      for (let at = 0; at + key.length <= typed.length; at++) {
        if (!key.every((each, k) => each === typed[at + k])) continue;
        const there = means.filter((way) => way.every((each) => index.postings.has(each)));
        for (let k = 0; k < key.length; k++) concepts[at + k].ways.push(...there.map((stems) => ({ stems, weight: 0.8 })));
      }
    }
  }

  /** A query's concepts, and the words that the book doesn't have. */
  function concepts(/** @type {Index} */ index, /** @type {string} */ query) {
    const list = said(query), open = /[\p{L}\p{N}_]$/u.test(query.slice(0, LONGEST)); // prettier-ignore
    const made = list.map((word, i) => ({ word, ways: ways(index, word, open && i === list.length - 1), idf: 0 }));
    explained(index, made);
    for (const each of made) {
      each.idf = Math.max(0, ...each.ways.map((way) => Math.min(...way.stems.map((one) => rarity(index, one)))));
    }
    return { known: made.filter((each) => each.ways.length), unknown: made.filter((each) => !each.ways.length).map(({ word }) => word) };
  }

  /** What a concept says of each record that has it. */
  function weigh(/** @type {Index} */ index, /** @type {Concept} */ concept) {
    /** @type {Map<number, number>} */
    const best = new Map();
    for (const { stems, weight } of concept.ways) {
      /** @type {Map<number, number>} */
      let sums = new Map();
      stems.forEach((each, n) => {
        const { ids, weights } = /** @type {Posting} */ (index.postings.get(each)), idf = rarity(index, each); // prettier-ignore
        /** @type {Map<number, number>} */
        const next = new Map();
        ids.forEach((id, i) => {
          const before = n ? sums.get(id) : 0;
          if (before !== undefined) next.set(id, before + (weight * idf * weights[i]) / Math.sqrt(stems.length));
        });
        sums = next;
      });
      for (const [id, sum] of sums) if (sum > (best.get(id) ?? 0)) best.set(id, sum);
    }
    return best;
  }

  /** The share of a query that a text has, by the rarity of its words. */
  function share(/** @type {Concept[]} */ concepts, /** @type {Set<string>} */ there) {
    let sum = 0, all = 0; // prettier-ignore
    for (const { ways, idf } of concepts) {
      all += idf;
      if (ways.some((way) => way.stems.every((each) => there.has(each)))) sum += idf;
    }
    return all ? sum / all : 0;
  }

  const ALL = 100; // a factor that no record without one of the words makes up for
  const LOOKED = 120; // of the best records, whose titles and sentences are looked at again
  const MANY = 3; // results of one page, after which others get a turn

  /** The records that answer a query, best first. @returns {Found} */
  function rank(/** @type {Index} */ index, /** @type {string} */ query, limit = 40) {
    const { known: list, unknown } = concepts(index, query);
    const all = list.reduce((sum, { idf }) => sum + idf, 0);
    /** @type {Map<number, { score: number, idf: number }>} */
    const sums = new Map();
    for (const concept of list) {
      for (const [id, weight] of weigh(index, concept)) {
        const sum = sums.get(id) ?? { score: 0, idf: 0 };
        sums.set(id, { score: sum.score + weight, idf: sum.idf + concept.idf });
      }
    }
    const covered = [...sums].map(([record, { score, idf }]) => {
      const whole = idf > all - 1e-9;
      return { record, whole, score: score * (whole ? ALL : (idf / all) ** 2) };
    });
    covered.sort((a, b) => b.score - a.score || a.record - b.record);
    const looked = covered.slice(0, LOOKED).map((each) => ({ ...each, score: each.score * nearness(index, each.record, list) }));
    looked.sort((a, b) => b.score - a.score || a.record - b.record);
    const stems = new Set(list.flatMap(({ ways }) => ways.flatMap((way) => way.stems.filter((each) => each.length > 1 || way.stems.length < 2))));
    return { results: mixed(index.book, looked).slice(0, limit), stems, concepts: list, unknown };
  }

  /** A factor for words that stand together: in the title, in one sentence. */
  function nearness(/** @type {Index} */ index, /** @type {number} */ record, /** @type {Concept[]} */ concepts) {
    const { book, sets } = index;
    let there = sets.get(record);
    if (!there) {
      there = [book.title[record], ...sentences(book.text[record])].map((each) => new Set(stems(each)));
      sets.set(record, there);
    }
    const [title, ...rest] = there.map((each) => share(concepts, each));
    return (WELCOME[book.kind[record]] ?? 1) * (1 + 0.7 * title + 0.5 * Math.max(0, ...rest));
  }

  /** After a few results of one page, others of it wait a little. @returns {Result[]} */
  function mixed(/** @type {Book} */ book, /** @type {Result[]} */ results) {
    /** @type {Map<number, number>} */
    const seen = new Map();
    const turned = results.map((each) => {
      const before = seen.get(book.page[each.record]) ?? 0;
      seen.set(book.page[each.record], before + 1);
      return { ...each, score: each.score * 0.9 ** Math.max(0, before + 1 - MANY) };
    });
    return turned.sort((a, b) => b.score - a.score || a.record - b.record);
  }

  /* ---- what is shown ----------------------------------------------------------------------------------------------- */

  /** The sentences of a text. */
  function sentences(/** @type {string} */ text) {
    return text.split(/\n|(?<=(?<!\bal|\be\.g|\bi\.e)[.!?:][)”’"]?) (?=[\p{Lu}\p{N}(“"])/u).filter(Boolean);
  }

  /** The first of the sentences that have most of the query. */
  function sentence(/** @type {string} */ text, /** @type {Concept[]} */ concepts) {
    let best = "", most = -1; // prettier-ignore
    for (const each of sentences(text)) {
      const has = share(concepts, new Set(stems(each)));
      if (has > most + 1e-9) [best, most] = [each, has];
    }
    return best;
  }

  /** A text in pieces, those that were looked for marked. @returns {[string, boolean][]} */
  function marked(/** @type {string} */ text, /** @type {Set<string>} */ wanted) {
    /** @type {[string, boolean][]} */
    const pieces = [];
    let at = 0;
    for (const { word, start } of words(text)) {
      const { whole, parts } = forms(word);
      if (!wanted.has(whole) && !parts.some((part) => wanted.has(part))) continue;
      if (start > at) pieces.push([text.slice(at, start), false]);
      pieces.push([word, true]);
      at = start + word.length;
    }
    if (at < text.length) pieces.push([text.slice(at), false]);
    return pieces;
  }

  const WIDE = 240; // characters of a sentence that are shown

  /** A long sentence around the first word that was looked for. */
  function excerpt(/** @type {string} */ text, /** @type {Set<string>} */ wanted) {
    if (text.length <= WIDE) return text;
    const [[before, found]] = marked(text, wanted);
    const start = found ? 0 : text.lastIndexOf(" ", Math.max(0, Math.min(before.length - WIDE / 3, text.length - WIDE))) + 1;
    const end = start + WIDE < text.length ? text.lastIndexOf(" ", start + WIDE) : text.length;
    return `${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
  }

  /** The words of a record that were found, as they stand there: the page of the result marks them. */
  function forMarking(/** @type {Book} */ book, /** @type {number} */ record, /** @type {Set<string>} */ wanted) {
    const text = `${book.title[record]} ${book.text[record]} ${book.more[record]}`;
    const found = marked(text, wanted).flatMap(([piece, hit]) => (hit ? [piece.toLowerCase()] : []));
    const own = found.flatMap((piece) => (/[a-z_]\.[a-z_]/.test(piece) ? [piece, piece.slice(piece.lastIndexOf(".") + 1)] : [piece]));
    return [...new Set(own)].slice(0, 12); // of posenc.RoPE, a page may have set the last part apart
  }

  return { read, rank, stem, words, forms, sentences, sentence, marked, excerpt, forMarking, said };
})();
