"""The built pages as trees: what every other form of the book starts from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[3]
HTML = ROOT / "_build/html"
HOME = "chapters/index"

SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
PICTURE = re.compile(r"<svg\b([^>]*)>.*?</svg>", re.S)
LISTING = re.compile(r"(<pre[^>]*>)(.*?)(</pre>)", re.S)
LABEL = re.compile(r'\baria-label="([^"]*)"')


@dataclass(frozen=True)
class Page:
    """A page and its place in the book."""

    name: str
    """As Sphinx names it, such as "chapters/rope"."""
    title: str
    number: str = ""
    """The number of a chapter; empty for pages before and after the chapters."""
    part: str = ""
    """The heading that the table of contents has above it."""

    @property
    def heading(self) -> str:
        return f"{self.number}. {self.title}" if self.number else self.title


def book(out: Path) -> list[Page]:
    """The pages in the order of the table of contents, the first page included.

    Args:
        out: The folder of the built book.

    Raises:
        FileNotFoundError: If there is no built book in it.
    """
    home = out / f"{HOME}.html"
    if not home.exists():
        raise FileNotFoundError(f"there is no built book in {out}: run make book")
    tree = soup(home.read_text(encoding="utf-8"))
    nav = tree.find("nav", class_="bd-links")
    assert isinstance(nav, Tag)
    found, part = [Page(HOME, spaced(one(tree, "h1")))], ""
    for element in nav.find_all(["p", "a"]):
        if element.name == "p":
            part = spaced(element)
        elif (link := str(element.get("href", ""))).endswith(".html"):
            numbered = re.match(r"(\d+)\.\s+(.*)", spaced(element))
            number, title = numbered.groups() if numbered else ("", spaced(element))
            found.append(Page(resolved(HOME, link).removesuffix(".html"), title, number, part))
    return found


def article(page: str) -> Tag:
    """The article of a page for reading as text: no scripts, drawings as words, code in one colour.

    Args:
        page: The HTML of a whole page, or of its article.
    """
    body = PICTURE.sub(lambda found: f'<img alt="{(LABEL.search(found[1]) or ("", ""))[1]}">', _body(page))
    return _cleaned(LISTING.sub(lambda found: found[1] + re.sub(r"<[^>]+>", "", found[2]) + found[3], body))


def drawn(page: str) -> tuple[Tag, list[str]]:
    """The article of a page for reading on paper: drawings are apart, each where it was a `pe-drawing` with its number.

    Args:
        page: The HTML of a whole page, or of its article.

    Returns:
        The article, and the drawings in their order.
    """
    drawings: list[str] = []

    def apart(found: re.Match[str]) -> str:
        drawings.append(found[0])
        return f'<pe-drawing n="{len(drawings) - 1}"></pe-drawing>'

    return _cleaned(PICTURE.sub(apart, _body(page))), drawings


def whole(tree: Tag, drawings: list[str]) -> str:
    """The HTML of an article, with its drawings."""
    return re.sub(r'<pe-drawing n="(\d+)"></pe-drawing>', lambda found: drawings[int(found[1])], str(tree))


def _body(page: str) -> str:
    begin, end = page.find("<article"), page.rfind("</article>")
    return SCRIPT.sub("", page[begin:end] if begin >= 0 else page)


def _cleaned(body: str) -> Tag:
    tree = soup(body)
    for element in tree.select("a.headerlink, a:has(> .viewcode-link), .sd-summary-state-marker, .toctree-wrapper"):
        element.decompose()
    return tree


def soup(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def one(tree: Tag, selector: str) -> Tag:
    """The first element that a selector finds.

    Raises:
        LookupError: If there is none, as when the theme has changed.
    """
    found = tree.select_one(selector)
    if found is None:
        raise LookupError(f"the page has no {selector}")
    return found


def spaced(element: Tag) -> str:
    """The text of an element in one line, without the sign of a link to itself."""
    return re.sub(r"\s+", " ", element.get_text()).strip().removesuffix("#").strip()


def classes(element: Any) -> set[str]:
    found = element.get("class") or () if isinstance(element, Tag) else ()
    return set(found.split() if isinstance(found, str) else found)


def resolved(page: str, link: str) -> str:
    """A relative address of a page as one from the top of the site."""
    parts = page.split("/")[:-1]
    for part in link.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def local(link: str) -> bool:
    """Whether an address is one of the book's own."""
    return not re.match(r"[a-z][a-z0-9+.-]*:|//", link, re.I)


# ---- formulas --------------------------------------------------------------------------------------------------------


@cache
def mathjax() -> dict[str, Any]:
    """What the pages tell MathJax, from `_config.yml`."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    found: dict[str, Any] = config["sphinx"]["config"]["mathjax3_config"]
    return found


def macros() -> dict[str, str | list[Any]]:
    """The book's own commands of TeX."""
    found: dict[str, str | list[Any]] = mathjax()["tex"]["macros"]
    return found


def tex(element: Tag) -> str:
    r"""The TeX of an element with the class "math", without its \( \) or \[ \]."""
    source = "".join(str(text) for text in element.find_all(string=True) if not _numbers(text.parent, element))
    return re.sub(r"^\s*\\[(\[]|\\[)\]]\s*$", "", source).strip()


def _numbers(inner: Tag | None, outer: Tag) -> bool:
    """Whether a text is the number of an equation."""
    while inner is not None and inner is not outer:
        if "eqno" in classes(inner):
            return True
        inner = inner.parent
    return False


def expanded(source: str, commands: Mapping[str, str | list[Any]]) -> str:
    r"""TeX in which the book's own commands are written out, so that it reads anywhere.

    Args:
        source: Such as ``\q{q_i}\T \k{k_j}``.
        commands: As MathJax takes them: a text, or a text and the number of arguments, which is 1.

    Example:
        >>> expanded(r"\q{q_i}\T x", {"q": [r"\class{tex-query}{#1}", 1], "T": r"^{\top}"})
        'q_i^{\\top} x'
    """
    command = re.compile(r"\\(" + "|".join(sorted(commands, key=len, reverse=True)) + r")(?![A-Za-z])")
    while found := command.search(source):
        meaning, end = commands[found[1]], found.end()
        if isinstance(meaning, str):
            after = " " if re.search(r"\\[A-Za-z]+$", meaning) and re.match(r"[A-Za-z]", source[end:]) else ""
            source = source[: found.start()] + meaning + after + source[end:]
            continue
        argument, end = braced(source, end)
        said = re.sub(r"^\\class\{[\w-]+\}\{(.*)\}$", r"\1", str(meaning[0]), flags=re.S).replace("#1", argument)
        source = source[: found.start()] + said + source[end:]
    return source


def braced(source: str, start: int) -> tuple[str, int]:
    """The argument of a command that ends at `start`, and where it ends itself."""
    start += len(source[start:]) - len(source[start:].lstrip())
    if source[start : start + 1] != "{":
        return source[start : start + 1], start + 1
    depth = 0
    for n, sign in enumerate(source[start:], start):
        if source[n - 1 : n] != "\\":
            depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return source[start + 1 : n], n + 1
    raise ValueError(f"a brace is not closed in {source!r}")


def quietly(source: str) -> str:
    """TeX in one line."""
    return re.sub(r"\s+", " ", source).strip()
