"""The book's own search: a Sphinx extension that writes ``_static/search-index.js``, which works from disk.

- The index has one record for each section, exercise, glossary term, symbol, exhibit, panel, preset, API entry and
  paper. Its text is what a reader sees, without code, contents lists and TeX; ``assets/rank.js`` ranks it.
- ``search-aliases.json`` has words that readers type and the book doesn't use.
- Sphinx's own index, its scripts and its page make room.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from evidence import Notes, Number, Proof

HERE = Path(__file__).resolve().parent
ALIASES = HERE / "search-aliases.json"
INDEX = "_static/search-index.js"
REPLACED = ("_static/searchtools.js", "_static/language_data.js", "_static/sphinx_highlight.js", "searchindex.js")
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()

#: Pages of which some sections or rows are results of a kind of their own.
MUSEUM, NOTATION = "chapters/bugs", "chapters/notation"


class Record(NamedTuple):
    """What one result is made of."""

    kind: str
    """A kind of result: chapter, section, exhibit, exercise, term, symbol, panel, preset, name or paper."""
    anchor: str
    """Where a click lands: the part of the address after ``#``. Empty: the top of the page."""
    title: str
    above: str
    """The heading of the section that this one is part of. Empty: the chapter."""
    text: str
    """Sentences as a reader sees them, one paragraph a line."""
    more: str
    """Words that find it and are not shown: names in its code, and the last words of a very long section."""


# ---- formulas as plain signs -----------------------------------------------------------------------------------------

GREEK = dict(
    alpha="α", beta="β", gamma="γ", delta="δ", epsilon="ε", varepsilon="ε", zeta="ζ", eta="η", theta="θ", vartheta="θ",
    iota="ι", kappa="κ", lambda_="λ", mu="μ", nu="ν", xi="ξ", pi="π", rho="ρ", sigma="σ", tau="τ", phi="φ", varphi="φ",
    chi="χ", psi="ψ", omega="ω", Gamma="Γ", Delta="Δ", Theta="Θ", Lambda="Λ", Sigma="Σ", Phi="Φ", Psi="Ψ", Omega="Ω",
)  # fmt: skip
SIGNS = {
    **{name.rstrip("_"): letter for name, letter in GREEK.items()}, "cdot": "·", "times": "×", "le": "≤", "leq": "≤",
    "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "to": "→", "rightarrow": "→", "leftarrow": "←",
    "mapsto": "↦", "in": "∈", "infty": "∞", "pm": "±", "sum": "Σ", "prod": "Π", "sqrt": "√", "ell": "ℓ", "dots": "…",
    "ldots": "…", "cdots": "…", "top": "ᵀ", "T": "ᵀ", "R": "ℝ", "C": "ℂ",
    "i": "i", "e": "e", "Re": "Re", "Im": "Im", "log": "log",
    "ln": "ln", "exp": "exp", "sin": "sin", "cos": "cos", "tan": "tan", "max": "max", "min": "min",
    "softmax": "softmax", "diag": "diag", "quad": " ", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈",
    "rceil": "⌉", "lvert": "|", "rvert": "|",
    "mid": "|", "propto": "∝", "bmod": " mod ", "langle": "⟨", "rangle": "⟩", "sim": "~", "otimes": "⊗", "odot": "⊙",
}  # fmt: skip
NAKED = re.compile(
    r"\\(?:q|k|v|p|mathrm|mathbf|mathbb|mathcal|mathsf|text|textbf|operatorname\*?|boldsymbol|bar|hat|tilde|underbrace)(?![A-Za-z])"
    r"|\\(?:[Bb]ig+[lr]?|left|right|displaystyle)(?![A-Za-z])|\\[,;:!>]"
)
#: Arguments in braces, from the inside: what is left when the braces go.
ARGUMENTS = (
    (re.compile(r"\\sqrt\s*\{([^{}]*)\}"), r"√\1"),
    (re.compile(r"([_^])\{([^{}]*)\}"), r"\1\2"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
)
RELATIONS = frozenset("≤≥≠≈→←↦∈∝~")
LONGEST = 60  # characters of a formula that still reads as words do


def sign(found: re.Match[str]) -> str:
    """A command as a sign; a command that has none stays."""
    said = SIGNS.get(found[1], found[0])
    return f" {said} " if said in RELATIONS else said


def plain(tex: str) -> str:
    """A formula in plain signs, as ``θt = b^-2t/n`` would be typed; nothing where it is not simple enough."""
    if "\\begin" in tex or "&" in tex:
        return ""
    said, before = NAKED.sub("", tex), ""
    while said != before:
        before = said
        for pattern, flat in ARGUMENTS:
            said = pattern.sub(flat, said)
    said = re.sub(r"\\([A-Za-z]+)(?:\s+(?=[A-Za-z0-9\\]))?", sign, said)
    said = re.sub(r"\s+", " ", re.sub(r"[{}]|\\[ %&#_|]?(?![A-Za-z])", "", said.replace("_", ""))).strip()
    return "" if "\\" in said or len(said) > LONGEST else said


# ---- the text of a doctree -------------------------------------------------------------------------------------------

UNREAD = (
    nodes.comment, nodes.target, nodes.image, nodes.system_message, nodes.substitution_definition, nodes.pending,
    addnodes.toctree, addnodes.index, addnodes.only, Proof, Notes,
)  # fmt: skip
APART = (addnodes.glossary, addnodes.desc, nodes.citation)  # results of their own, as titled sections and exercises are
LINES = (nodes.paragraph, nodes.caption, nodes.term, nodes.rubric, nodes.title, nodes.line, nodes.attribution)


def apart(node: nodes.Node) -> bool:
    """Whether a part of a section is a result of its own."""
    if isinstance(node, nodes.section):
        return any(isinstance(child, nodes.title) for child in node.children)
    return isinstance(node, APART) or (isinstance(node, nodes.Element) and node.get("type") in ("exercise", "solution"))


def unread(node: nodes.Node) -> bool:
    """Whether a reader takes no sentence from it: code, contents, what scripts see only."""
    classes = node.get("classes", ()) if isinstance(node, nodes.Element) else ()
    contents = isinstance(node, nodes.topic) and "contents" in classes
    return isinstance(node, (*UNREAD, nodes.literal_block)) or contents or "toctree-wrapper" in classes


def words(node: nodes.Node) -> str:
    """The text of one line, its formulas in plain signs."""
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.math):
        return plain(node.astext()) or "…"
    if isinstance(node, Number):
        return words(node.children[0])
    if unread(node) or isinstance(node, nodes.raw):
        return ""
    return "".join(map(words, node.children))


def lines(node: nodes.Node) -> Iterator[str]:
    """The lines of a part of a page: a paragraph, a caption, a row of a table; not those of results of their own."""
    if unread(node) or apart(node):
        return
    if isinstance(node, nodes.math_block):
        yield plain(node.astext())
    elif isinstance(node, nodes.raw):
        if 'class="pe-panel' not in node.astext():
            yield from rows(node.astext())
    elif isinstance(node, nodes.row):
        cells = (" ".join(filter(None, lines(entry))) for entry in node.findall(nodes.entry))
        yield " · ".join(filter(None, cells))
    elif isinstance(node, LINES):
        yield words(node)
    else:
        for child in node.children:
            yield from lines(child)


NAMING = 2  # cells that say what a row of a table from a cell is about; numbers and verdicts follow


class Rows(HTMLParser):
    """The rows of the tables that cells leave, those cells that have words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th") or (self.inside and tag != "tr")
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def rows(page: str) -> Iterator[str]:
    """A table's rows as lines; a row of numbers alone says nothing to a search."""
    if "<table" in page:
        for row in Rows(page).rows:
            yield " · ".join([cell.strip() for cell in row if re.search(r"[A-Za-z]{2}", cell)][:NAMING])


THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d.,]*\d)")


def text(*parts: nodes.Node) -> str:
    """The lines of several parts, without the empty ones, each once; 500 000 has a space that keeps it one word."""
    found = (re.sub(r"\s+", " ", line).strip() for part in parts for line in lines(part))
    kept = dict.fromkeys(line for line in found if re.search(r"\w", line))
    return THOUSANDS.sub(lambda number: number[0].replace(" ", "\u202f"), "\n".join(kept))


def code(node: nodes.Element) -> Iterator[str]:
    """The code of a section, not that of sections in it."""
    for child in node.children:
        if isinstance(child, nodes.literal_block):
            yield child.astext()
        elif isinstance(child, nodes.Element) and not apart(child):
            yield from code(child)


def shortened(said: str) -> tuple[str, str]:
    """What of a section is shown, and the words of the rest: rows without three words, a very long text's end."""
    rows = [line for line in said.split("\n") if not any(map(TELLING.search, line.split(" · ")))]
    first = "\n".join(line for line in said.split("\n") if line not in set(rows))
    cut = len(first) if len(first) <= SHOWN else max(first.rfind(end, 0, SHOWN) + 1 for end in (". ", "\n")) or SHOWN
    first, rest = first[:cut].strip(), " ".join([*rows, first[cut:]])
    known = set(WORD.findall(first.lower()))
    return first, " ".join(dict.fromkeys(word for word in WORD.findall(rest) if word.lower() not in known))


def identifiers(sources: Iterable[str]) -> str:
    """Names such as ``position_ids`` or ``RotaryEmbedding`` in code, no imports: a reader may have one in hand."""
    found = dict[str, None]()
    for source in sources:
        source = re.sub(r"^\s*(?:from|import)\b.*$", "", source, flags=re.M)
        found |= dict.fromkeys(re.findall(r"\b[A-Za-z]\w*_\w+|\b[A-Z]+[a-z]+[A-Z]\w+", source))
    return " ".join(name for name in found if name not in EVERYWHERE)


# ---- the records of a page -------------------------------------------------------------------------------------------

SHOWN = 2000  # characters of a section, one in ten is longer
WORD = re.compile(r"\w[\w.-]*\w")
TELLING = re.compile(r"\w+\W+\w+\W+\w+")  # a cell of three words
#: Names that most cells have.
EVERYWHERE = frozenset(
    ("manual_seed", "no_grad", "requires_grad_", "set_num_threads", "masked_fill", "zero_grad", "log_x", "log_y",
     "draw_on", "by_hand", "rel_tol", "abs_tol", "ones_like", "zeros_like", "expand_as", "repeat_interleave",
     "RoPE", "NoPE", "ALiBi", "YaRN")
)  # fmt: skip
PANEL = re.compile(r'class="pe-panel[^"]*" id="([^"]+)">.*?class="pe-data">(.*?)</script>', re.S)
EXHIBIT = re.compile(r'\bhang\(\s*\d+,\s*"([^"]+)"')


def above(node: nodes.Node) -> nodes.Element | None:
    """The section that a node is part of."""
    parent = node.parent
    while parent is not None and not isinstance(parent, nodes.section):
        parent = parent.parent
    return parent


def heading(section: nodes.Element | None) -> str:
    """The title of a section below a chapter; that of a chapter goes without saying."""
    if section is None or above(section) is None:
        return ""
    return "".join(words(title) for title in section.children if isinstance(title, nodes.title)).strip()


def sections(page: str, tree: nodes.document) -> Iterator[Record]:
    """The chapter and its sections; numbered ones of the museum are exhibits."""
    for section in filter(apart, tree.findall(nodes.section)):
        title = "".join(words(child) for child in section.children if isinstance(child, nodes.title)).strip()
        kind = "section" if above(section) is not None else "chapter"
        if page == MUSEUM and re.match(r"\d+\. ", title):
            kind = "exhibit"
        elsewhere = (nodes.title, nodes.table) if page == NOTATION else (nodes.title,)
        said = text(*(child for child in section.children if not isinstance(child, elsewhere)))
        sources = list(code(section))
        if kind == "exhibit":
            called = filter(None, map(EXHIBIT.search, sources))
            said = "\n".join([*(found[1][0].upper() + found[1][1:] + "." for found in called), said])
        anchor = "" if kind == "chapter" else section["ids"][0]
        said, rest = shortened(said)
        more = " ".join(filter(None, [identifiers(sources), rest]))
        yield Record(kind, anchor, title, heading(above(section)), said, more)


def exercises(page: str, tree: nodes.document) -> Iterator[Record]:
    """The exercises of a page; words of a solution find its exercise, and are not shown."""
    solutions = {node["target_label"]: node for node in tree.findall(nodes.Element) if node.get("type") == "solution"}
    for node in tree.findall(nodes.Element):
        if node.get("type") == "exercise" and node["ids"]:
            title = "".join(words(child) for child in node.children if isinstance(child, nodes.title))
            solved = solutions.get(node.get("label"))
            rest = text(*(inner for inner in solved.children if not isinstance(inner, nodes.title))) if solved else ""
            said = text(*(child for child in node.children if not isinstance(child, nodes.title)))
            known = set(WORD.findall(said.lower()))
            more = [
                *identifiers(code(node)).split(),
                *WORD.findall(rest),
                *(identifiers(code(solved)).split() if solved else ()),
            ]
            new = dict.fromkeys(word for word in more if word.lower() not in known)
            title = re.sub(r"^\s*\((.*)\)\s*$", r"\1", re.sub(r"\s+", " ", title))
            yield Record("exercise", node["ids"][0], title or "Exercise", heading(above(node)), said, " ".join(new))


def terms(page: str, tree: nodes.document) -> Iterator[Record]:
    """The entries of a glossary."""
    for glossary in tree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            named = [child for child in item.children if isinstance(child, nodes.term)]
            meaning = text(*(child for child in item.children if not isinstance(child, nodes.term)))
            yield Record("term", named[0]["ids"][0], ", ".join(map(words, named)), "", meaning, "")


def symbols(page: str, tree: nodes.document) -> Iterator[Record]:
    """The rows of the tables of notation: a symbol, and what it stands for."""
    if page == NOTATION:
        for row in (row for body in tree.findall(nodes.tbody) for row in body.findall(nodes.row)):
            first, *rest = [text(entry) for entry in row.findall(nodes.entry)]
            section = above(row)
            if first and section is not None:
                yield Record("symbol", section["ids"][0], first, heading(section), " · ".join(filter(None, rest)), "")


def panels(page: str, tree: nodes.document) -> Iterator[Record]:
    """The panels of a page, and the published models that one of them offers."""
    for raw in tree.findall(nodes.raw):
        for anchor, data in PANEL.findall(raw.astext()):
            panel = json.loads(unescape(data) if data.startswith("&") else data)
            title, caption = panel.get("title") or "", panel.get("caption") or ""
            said = "\n".join(filter(None, [caption, " · ".join(each["label"] for each in panel["controls"])]))
            yield Record("panel", anchor, title, heading(above(raw)), said, "")
            for control in panel["controls"]:
                for number, label in enumerate(control.get("labels", ())):
                    if about := published().get(label):
                        yield Record("preset", f"{anchor}?{control['name']}={number}", label, title, about, "")


def published() -> dict[str, str]:
    """What is told of each published model by its name."""
    from posenc.schemes.presets import PRESETS

    told = {}
    for name, preset in PRESETS.items():
        config = preset.config
        scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
        keys = ("rope_theta", "head_dim", "rotary_dim", "partial_rotary_factor")
        parts = [f"{key} {config[key]}" for key in keys if config.get(key)]
        parts += [f"{key} {value}" for key, value in scaling.items() if isinstance(value, (int, float, str))]
        told[name] = " · ".join(dict.fromkeys(filter(None, ["A published rotary model", preset.note, *parts])))
    return told


def names(page: str, tree: nodes.document) -> Iterator[Record]:
    """What the page of the API describes: functions, classes, methods and attributes, with the names of arguments."""
    for described in tree.findall(addnodes.desc):
        signature, *content = described.children
        if isinstance(signature, addnodes.desc_signature) and signature["ids"]:
            idea = next((said for part in content if (said := text(*part.children))), "").partition("\n")[0]
            arguments = (each for each in described.findall(nodes.strong) if isinstance(each.parent, nodes.paragraph))
            name = signature["ids"][0]
            yield Record("name", name, name, "", idea, " ".join(dict.fromkeys(each.astext() for each in arguments)))


def papers(page: str, tree: nodes.document) -> Iterator[Record]:
    """The entries of the bibliography, as they are set: authors, title, and where it appeared, the address left out."""
    for entry in tree.findall(nodes.citation):
        said = text(*(child for child in entry.children if not isinstance(child, nodes.label)))
        authors, _, rest = re.sub(r" URL: \S+", "", said).partition(". ")
        named, _, place = rest.partition(". ")
        yield Record("paper", entry["ids"][0], named or said, "", f"{authors}. {place}", "")


def records(page: str, tree: nodes.document) -> list[Record]:
    """All results that a page has."""
    return [
        record for find in (sections, exercises, terms, symbols, panels, names, papers) for record in find(page, tree)
    ]


# ---- the build -------------------------------------------------------------------------------------------------------


class Kept:
    """The records of pages that are not built again, in the folder of doctrees."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "search.json"
        self.pages: dict[str, list[Any]] = {}
        if self.file.exists():
            held = json.loads(self.file.read_text(encoding="utf-8"))
            self.pages = held["pages"] if held["version"] == VERSION else {}

    def save(self) -> None:
        held = {"version": VERSION, "pages": self.pages}
        self.file.write_text(json.dumps(held, ensure_ascii=False), encoding="utf-8")


def begin(app: Sphinx) -> None:
    """Take over from Sphinx's search, which indexes pages, not sections, and wants all words at once."""
    if app.builder.format == "html":
        app.builder.search = False  # type: ignore[attr-defined]
        app.book_search = Kept(Path(app.doctreedir))  # type: ignore[attr-defined]


def read(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Keep the records of a page that is being written."""
    if app.builder.format == "html":
        app.book_search.pages[page] = records(page, tree)  # type: ignore[attr-defined]


def page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of the search."""
    if app.builder.format == "html":
        yield "search", {"title": "Search"}, "search.html"


def unmarked(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Found words are marked by ``found.js``; Sphinx's script for it would change the page under the panels."""
    if "script_files" in context:
        named = ((script, str(getattr(script, "filename", script))) for script in context["script_files"])
        context["script_files"] = [script for script, name in named if "sphinx_highlight" not in name]


COLUMNS = ("kind", "page", "anchor", "title", "above", "text", "more")  # like beside like: it compresses better


def index(kept: dict[str, list[Any]], titles: dict[str, tuple[str, str]], suffix: str = ".html") -> dict[str, Any]:
    """What the script has: pages, the columns of all records, whose page is a number, and aliases."""
    pages = [name for name in titles if name in kept]
    found = [(kind, number, *rest) for number, name in enumerate(pages) for kind, *rest in kept[name]]
    columns = zip(*found, strict=True) if found else ((),) * len(COLUMNS)
    return {
        "pages": [[f"{name}{suffix}", *titles[name]] for name in pages],
        **dict(zip(COLUMNS, map(list, columns), strict=True)),
        "aliases": json.loads(ALIASES.read_text(encoding="utf-8")),
    }


def title(app: Sphinx, page: str) -> tuple[str, str]:
    """A page's title, and its number among the chapters."""
    numbers = app.env.toc_secnumbers.get(page, {}).get("", ())
    return words(app.env.titles[page]).strip(), ".".join(map(str, numbers))


def script(made: dict[str, Any]) -> str:
    """The index as a script: a page from disk may load one, but may not fetch data."""
    return f"window.posencIndex = {json.dumps(made, ensure_ascii=False, separators=(',', ':'))};\n"


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write the index, and take away what it replaces."""
    if exception is not None or app.builder.format != "html":
        return
    kept: Kept = app.book_search  # type: ignore[attr-defined]
    for name in sorted(app.env.found_docs - set(kept.pages)):  # written by a build that did not keep them
        kept.pages[name] = records(name, app.env.get_and_resolve_doctree(name, app.builder))
    kept.pages = {name: found for name, found in sorted(kept.pages.items()) if name in app.env.found_docs}
    kept.save()
    ordered = [name for name in order(app) if name in kept.pages]
    made = index(kept.pages, {name: title(app, name) for name in ordered})
    (Path(app.outdir) / INDEX).write_text(script(made), encoding="utf-8")
    for name in REPLACED:
        (Path(app.outdir) / name).unlink(missing_ok=True)


def order(app: Sphinx) -> list[str]:
    """The pages as the table of contents has them: of two results that are as good, the earlier one comes first."""
    found = [app.config.root_doc]
    for name in found:
        found += [child for child in app.env.toctree_includes.get(name, ()) if child not in found]
    return [*found, *sorted(app.env.found_docs - set(found))]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", begin)
    app.connect("doctree-resolved", read, priority=900)
    app.connect("html-collect-pages", page)
    app.connect("html-page-context", unmarked, priority=900)
    app.connect("build-finished", finish, priority=200)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
