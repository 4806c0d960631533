"""An index of symbols: those of the page of notation, and where each chapter first uses them in a formula."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from bs4 import Tag

from press.pages import Page, expanded, macros, soup, spaced, tex
from press.sheets import LISTS, Link, Sheet, numbered

NOTATION = "chapters/notation"
PAGE = Page("chapters/symbols", "Index of symbols", part="Back matter")
FIRST = ("symbol", "sign")  # of a table whose rows are symbols
MOST = 8  # a symbol of more chapters is everywhere
TOKEN = re.compile(r"\\(?:operatorname\*?|text\w*|math(?!cal|bb)\w+)\{[^{}]*\}|\\[A-Za-z]+|\\.|[A-Za-z]|\d+|[^\s{}]")
SPACE = {r"\,", r"\!", r"\;", r"\:", r"\quad", r"\qquad", r"\left", r"\right", r"\bigl", r"\bigr", r"\Bigl", r"\Bigr"}
DOTS = ((r"\dots",), (r"\ldots",), (r"\cdots",))
FORMULA = re.compile(r'<(?:span|div)\b[^>]*\bclass="math[^"]*"[^>]*>')
SOURCE = re.compile(r"\\[(\[](.*?)\\[)\]]", re.S)


@dataclass
class Symbol:
    """A row of a table of symbols."""

    sign: str
    """As it is written, in HTML."""
    meaning: str
    forms: list[tuple[str, ...]]
    """The tokens of its TeX, in each of its forms."""
    places: list[tuple[Page, Link]] = field(default_factory=list)


@cache
def tokens(source: str) -> tuple[str, ...]:
    r"""The TeX of a formula in pieces, without braces and spaces: ``\theta_{t}`` and ``\theta_t`` are the same.

    Example:
        >>> tokens(r"\operatorname{PE}(p_{i})")
        ('\\operatorname{PE}', '(', 'p', '_', 'i', ')')
    """
    return tuple(each for each in TOKEN.findall(expanded(source, macros())) if each not in SPACE)


def forms(source: str) -> list[tuple[str, ...]]:
    """The symbols that a formula of the first column names: what is before a relation, between commas."""
    left = re.split(r"=|\\leftarrow|\\le\b|\\ge\b|\\in\b", source)[0]
    parts, depth = [""], 0
    for sign in left:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [found for part in parts if (found := tokens(part)) and found not in DOTS]


def has(formula: tuple[str, ...], symbol: tuple[str, ...]) -> bool:
    """Whether a formula has a symbol, and not only one with a further index, as d_v is one of d."""
    size = len(symbol)
    for start in range(len(formula) - size + 1):
        if formula[start : start + size] == symbol and (
            "_" in symbol or formula[start + size : start + size + 1] != ("_",)
        ):
            return True
    return False


def symbols(body: str) -> Iterator[tuple[str, Symbol]]:
    """The rows of the tables of notation, each with its heading."""
    for table in soup(body).find_all("table"):
        head = table.find("th")
        section = table.find_parent("section")
        if not isinstance(head, Tag) or spaced(head) not in FIRST or not isinstance(section, Tag):
            continue
        title = section.find(["h1", "h2", "h3"])
        for row in table.select("tbody tr"):
            cells = row.find_all(["td", "th"])
            for away in row.select("a.pe-page"):
                away.decompose()
            for link in row.find_all("a"):
                link.unwrap()
            found = [form for formula in cells[0].select(".math") for form in forms(tex(formula))]
            if found:
                sign, meaning = (cell.decode_contents().replace("\u2060", "") for cell in cells[:2])
                yield spaced(title) if isinstance(title, Tag) else "", Symbol(sign, meaning, found)


def sheet(pages: list[Page], sheets: list[Sheet], address: Callable[[Link], str], paged: bool) -> Sheet | None:
    """The index, where the page of notation is among the pages. Formulas that it leads to are given an id.

    Args:
        pages: In the order of the book.
        sheets: One for each page.
        address: What the address of a place in the book is.
        paged: Name pages rather than chapters.
    """
    notation = next((made for made in sheets if made.name == NOTATION), None)
    if notation is None:
        return None
    listed = list(symbols(notation.body))
    for page, made in zip(pages, sheets, strict=True):
        if page.number and page.name not in LISTS:
            _find(page, made, [symbol for _, symbol in listed])
    lines, links, above = [], set(), ""
    for title, symbol in listed:
        if title != above:
            lines.append(f'<tr class="pe-group"><th colspan="3">{title}</th></tr>')
            above = title
        shown = symbol.places if len(symbol.places) <= MOST else symbol.places[:3]
        links |= {place for _, place in shown}
        where = [
            numbered(place, address, bare=True) if paged else f'<a href="{address(place)}">{page.number}</a>'
            for page, place in shown
        ]
        more = " and on" if len(shown) < len(symbol.places) else ""
        lines.append(f"<tr><td>{symbol.sign}</td><td>{symbol.meaning}</td><td>{' '.join(where)}{more}</td></tr>")
    unit, few = ("pages", "three pages are") if paged else ("chapters", "three are")
    body = (
        f'<article><section id="symbols"><h1>{PAGE.title}</h1><p>The symbols of the page of notation, with the {unit} '
        "where a formula first has their letters, chapter by chapter. A few letters have second meanings, which are "
        f"listed there. Of what more than {MOST} chapters use, {few} named.</p>"
        f'<table class="pe-symbols"><thead><tr><th>symbol</th><th>meaning</th><th>{unit}</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></section></article>"
    )
    return Sheet(PAGE.name, body, {"symbols"}, links)


def _find(page: Page, made: Sheet, wanted: list[Symbol]) -> None:
    """Where a page has symbols first."""
    left, marks = list(wanted), dict[int, tuple[int, str]]()
    for tag in FORMULA.finditer(made.body):
        source = SOURCE.search(made.body, tag.end())
        if source is None:
            continue
        formula = tokens(html.unescape(re.sub(r"<[^>]+>", "", source[1])))
        for symbol in [each for each in left if any(has(formula, form) for form in each.forms)]:
            left.remove(symbol)
            own = re.search(r'\bid="([^"]*)"', tag[0])
            anchor = own[1] if own else f"symbol-{tag.start()}"
            if not own:
                marks[tag.start()] = (tag.start() + len(tag[0]) - 1, anchor)
            symbol.places.append((page, Link(page.name, anchor)))
    for end, anchor in sorted(marks.values(), reverse=True):
        made.body = f'{made.body[:end]} id="{anchor}"{made.body[end:]}'
        made.anchors.add(anchor)
