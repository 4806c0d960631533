"""A page as Markdown, for programs that read: formulas as TeX, panels and drawings in words, evidence as footnotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bs4.element import NavigableString, Tag

from press.pages import article, classes, expanded, local, quietly, spaced, tex

BLOCKS = frozenset(
    ("p", "div", "section", "ul", "ol", "dl", "table", "figure", "details", "aside", "pre", "blockquote", "h1", "h2",
     "h3", "h4", "h5", "h6", "hr", "article", "main")
)  # fmt: skip
DEEPEST = 6  # levels of headings that Markdown has
NUMBERED = re.compile(r"id\d+")  # ids that mean something to Sphinx only
SPECIAL = re.compile(r"([\\*`<\[\]])|(?<!\w)(_)|(_)(?!\w)")


def markdown(page: str, commands: Mapping[str, str | list[Any]], live: str = "") -> str:
    """A built page as Markdown.

    Args:
        page: The HTML of the page, or of its article.
        commands: The book's own commands of TeX, which are written out.
        live: The address of the page with the panels that move, such as "rope.html". Default: none.

    Example:
        >>> print(markdown("<article><h1>A</h1><p>Let <em>x</em> be.</p></article>", {}), end="")
        # A
        <BLANKLINE>
        Let *x* be.
    """
    return Writer(commands, live).page(article(page))


class Writer:
    """Turns the tree of a page into Markdown. Numbers of footnotes are those of the page."""

    def __init__(self, commands: Mapping[str, str | list[Any]], live: str = "") -> None:
        self.commands, self.live = commands, live
        self.notes: list[str] = []
        self.level = 1
        self.special: dict[str, Callable[[Tag], str]] = {
            "pe-panel": self.panel,
            "pe-notes": lambda element: "",
            "math": self.formula,
            "highlight": self.code,
            "admonition": self.box,
            "citation": self.citation,
            "pe-table": self.inside,
            "pe-words": lambda element: f"Words: {element.get('aria-label', '')}",
        }

    def page(self, tree: Tag) -> str:
        text = self.inside(tree)
        if self.notes:
            notes = "\n".join(f"[^{n}]: {note}" for n, note in enumerate(self.notes, 1))
            text += f"\n\n{notes}"
        return text.strip() + "\n"

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def inside(self, element: Tag) -> str:
        """The blocks in an element, with an empty line between them; text beside blocks is a paragraph."""
        return "\n\n".join(filter(None, (block.strip("\n") for block in self.blocks(element))))

    def blocks(self, element: Tag) -> Iterator[str]:
        waiting: list[Any] = []  # text and inline elements
        for child in element.children:
            if isinstance(child, Tag) and (child.name in BLOCKS or self.is_block(child)):
                yield self.line(waiting)
                waiting = []
                yield self.block(child)
            else:
                waiting.append(child)
        yield self.line(waiting)

    def is_block(self, element: Tag) -> bool:
        """Whether an inline element, such as a link or a span, holds blocks."""
        return any(isinstance(inner, Tag) and inner.name in BLOCKS for inner in element.descendants)

    def block(self, element: Tag) -> str:
        names = classes(element)
        for name, write in self.special.items():
            if name in names and not (name == "math" and element.name == "section"):
                return self.anchored(element, write(element))
        write = getattr(self, f"{element.name}_", self.inside)
        return self.anchored(element, write(element))

    def anchored(self, element: Tag, text: str) -> str:
        """A block that links can lead to; a heading has the anchors of its section itself."""
        anchor = str(element.get("id", ""))
        if (
            not anchor
            or not text
            or element.name == "section"
            or (NUMBERED.fullmatch(anchor) and element.name != "div")
        ):
            return text
        return f'<a id="{anchor}"></a>\n\n{text}'

    def section_(self, element: Tag) -> str:
        before, names = self.level, [str(element.get("id", ""))]
        for span in element.find_all("span", id=True, recursive=False):
            names.append(str(span["id"]))
            span.decompose()
        heading = element.find(re.compile("^h[1-6]$"), recursive=False)
        if isinstance(heading, Tag):
            self.level = int(heading.name[1])
            anchors = [name for name in names if name and not NUMBERED.fullmatch(name)]
            text = self.headed(element, f"{'#' * self.level} {self.words(heading)}", anchors)
            heading.decompose()
            text = f"{text}\n\n{self.inside(element)}"
        else:
            text = self.inside(element)
        self.level = before
        return text

    def headed(self, section: Tag, heading: str, anchors: list[str]) -> str:
        """The heading of a section, with the names that links lead to."""
        return f"{heading} {{{' '.join(f'#{name}' for name in anchors)}}}" if anchors else heading

    def heading(self, said: str, deeper: int = 1) -> str:
        return f"{'#' * min(DEEPEST, self.level + deeper)} {said}"

    def h1_(self, element: Tag) -> str:
        return f"{'#' * int(element.name[1])} {self.words(element)}"

    h2_ = h3_ = h4_ = h5_ = h6_ = h1_

    def p_(self, element: Tag) -> str:
        if "rubric" in classes(element):
            return f"**{self.words(element)}**"
        return self.words(element)

    def hr_(self, element: Tag) -> str:
        return "---"

    def blockquote_(self, element: Tag) -> str:
        return quoted(self.inside(element))

    def ul_(self, element: Tag) -> str:
        return self.items(element, lambda n: "- ")

    def ol_(self, element: Tag) -> str:
        first = int(str(element.get("start", "1")))
        return self.items(element, lambda n: f"{n + first}. ")

    def items(self, element: Tag, mark: Callable[[int], str]) -> str:
        lines = []
        for n, item in enumerate(element.find_all("li", recursive=False)):
            text = self.inside(item).replace("\n", "\n" + " " * len(mark(n)))
            lines.append(mark(n) + self.anchored(item, text).replace("></a>\n\n", "></a>"))
        return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))

    def dl_(self, element: Tag) -> str:
        parts = []
        for child in element.find_all(["dt", "dd", "div"], recursive=False):
            if child.name == "div":  # as readouts have
                parts.append(self.dl_(child))
            elif child.name == "dd":
                self.level += 1
                parts.append(self.inside(child))
                self.level -= 1
            elif "sig" in classes(child):
                said = re.sub(r"\s+", " ", child.get_text()).strip()
                parts.append(self.anchored(child, self.heading(f"`{said}`")))
            else:
                parts.append(self.anchored(child, f"**{self.words(child)}**"))
        return "\n\n".join(filter(None, parts))

    def details_(self, element: Tag) -> str:
        """A fold. What folds code of the page says nothing of its own."""
        summary = element.find("summary")
        if not isinstance(summary, Tag):
            return self.inside(element)
        said = "" if "hide" in classes(element) else self.words(summary)
        summary.decompose()
        if not said:
            return self.inside(element)
        self.level += 1
        text = f"{self.heading(said, 0)}\n\n{self.inside(element)}"
        self.level -= 1
        return text

    def box(self, element: Tag) -> str:
        """An exercise, a solution, a theorem, a claim or a note."""
        if element.name == "details":
            return self.details_(element)
        title = element.find("p", class_="admonition-title")
        said = ""
        if isinstance(title, Tag):
            said = self.words(title)
            title.decompose()
        if classes(element) & {"exercise", "solution", "theorem", "proof"}:
            self.level += 1
            text = f"{self.heading(said, 0)}\n\n{self.inside(element)}" if said else self.inside(element)
            self.level -= 1
            return text
        return quoted(f"**{said}**\n\n{self.inside(element)}" if said else self.inside(element))

    def aside_(self, element: Tag) -> str:
        return quoted(self.inside(element))

    def citation(self, element: Tag) -> str:
        for label in element.select(":scope > .label, :scope > .backrefs"):
            label.decompose()
        return self.inside(element)

    def code(self, element: Tag) -> str:
        names = " ".join(classes(element.parent) | classes(element))
        pre = element if element.name == "pre" else element.find("pre")
        source = pre.get_text().strip("\n") if isinstance(pre, Tag) else ""
        language = re.search(r"highlight-(?:i?(python)3?|(\w+))", names)
        named = (language[1] or language[2]) if language else "python"
        return fenced(source, "" if named in ("default", "none", "myst", "text") else named)

    def pre_(self, element: Tag) -> str:
        return fenced(element.get_text().strip("\n"), "")

    def formula(self, element: Tag) -> str:
        number = element.find(class_="eqno")
        tag = rf" \tag{{{spaced(number).strip('()')}}}" if isinstance(number, Tag) else ""
        return f"$$\n{self.tex(element)}{tag}\n$$"

    def tex(self, element: Tag) -> str:
        return quietly(expanded(tex(element), self.commands))

    def figure_(self, element: Tag) -> str:
        return self.inside(element)

    def table_(self, element: Tag) -> str:
        caption = element.find("caption")
        rows = [
            [self.cell(cell) for cell in row.find_all(["th", "td"], recursive=False)] for row in element.find_all("tr")
        ]
        if not rows:
            return ""
        width = max(map(len, rows))
        rows = [row + [""] * (width - len(row)) for row in rows]
        if not element.find("thead"):
            rows.insert(0, [""] * width)
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, "|" + "---|" * width)
        said = f"*{self.words(caption)}*\n\n" if isinstance(caption, Tag) else ""
        return said + "\n".join(lines)

    def cell(self, element: Tag) -> str:
        return re.sub(r"\s*\n\s*", " ", self.inside(element)).replace("|", r"\|").strip()

    # ---- panels ------------------------------------------------------------------------------------------------------

    def panel(self, element: Tag) -> str:
        """A panel in sentences: what it shows, at which settings, with which numbers, and what to do with it."""
        said = {name: element.find(class_=f"pe-{name}", recursive=False) for name in ("title", "state", "caption")}
        words = {name: self.words(part) if isinstance(part, Tag) else "" for name, part in said.items()}
        views = [view for still in element.select(".pe-still") if (view := self.view(still))]
        state = words["state"]
        if state and "pe-learn" not in classes(element):
            state = f"At {state}:"
        moves = f"[The panel that moves]({self.live}#{element.get('id', '')})." if self.live else ""
        sentences = [f"**Panel: {words['title']}.**", state, " ".join(views), words["caption"], moves]
        return quoted(" ".join(filter(None, sentences)))

    def view(self, still: Tag) -> str:
        """One picture of a panel in words, as it is before anything is moved."""
        title = still.find(class_="pe-view-title")
        name = f"{self.words(title)}: " if isinstance(title, Tag) else ""
        if (readout := still.find("dl")) is not None:
            pairs = zip(readout.find_all("dt"), readout.find_all("dd"), strict=True)
            return name + "; ".join(f"{self.words(term)} {self.words(value)}" for term, value in pairs) + "."
        if (formula := still.find("math")) is not None:
            return name + re.sub(r"\s+", " ", formula.get_text(" ")).strip() + "."
        drawn = still.find(["img", "table"])
        if isinstance(drawn, Tag):
            words = escaped(str(drawn.get("alt") or drawn.get("aria-label") or ""))
            return words if not words or words.endswith(".") else f"{words}."
        return ""

    # ---- text in a line ----------------------------------------------------------------------------------------------

    def line(self, parts: list[Any]) -> str:
        return re.sub(r"[ \t]*\n[ \t]*", "\n", "".join(map(self.inline, parts))).strip() if parts else ""

    def words(self, element: Tag) -> str:
        return re.sub(r"\s*\n\s*| {2,}", " ", self.line(list(element.children)))

    def inline(self, node: Any) -> str:
        if isinstance(node, NavigableString):
            return escaped(re.sub(r"\s+", " ", str(node))) if type(node) is NavigableString else ""
        names = classes(node)
        if "math" in names:
            return f"${self.tex(node)}$"
        if "pe-evidence" in names:
            return self.evidence(node)
        if node.name in ("code", "kbd", "samp"):
            return coded(re.sub(r"\s+", " ", node.get_text()))
        if node.name == "br":
            return " "
        if node.name == "img":
            return f"Figure: {escaped(str(node.get('alt', '')))}" if node.get("alt") else ""
        if node.name in ("input", "button", "script", "style"):
            return ""
        text = "".join(map(self.inline, node.children))
        if node.name in ("em", "i") and text.strip():
            return wrapped(text, "*")
        if node.name in ("strong", "b") and text.strip():
            return wrapped(text, "**")
        if node.name == "a":
            text = self.link(node, text)
        elif node.name == "label":
            return f"**{text.strip()}**\n\n"
        anchor = str(node.get("id", ""))
        if anchor and not text.strip() and not NUMBERED.fullmatch(anchor):
            return f'<a id="{anchor}"></a>'
        return text

    def link(self, element: Tag, text: str) -> str:
        address = str(element.get("href", ""))
        if not text.strip() or not address:
            return text
        if local(address):
            path, hash_, anchor = address.partition("#")
            if path.endswith(".html") and not path.startswith(("../_modules", "_modules")):
                path = path.removesuffix(".html") + ".md"
            if anchor.startswith(("explore-", "learn-")):
                anchor = anchor.partition("?")[0]
            address = f"{path}{hash_}{anchor}"
        return linked(text, address)

    def evidence(self, element: Tag) -> str:
        """The words of a number, with the value behind them in a footnote."""
        button, proof = element.find("button"), element.find(class_="pe-proof")
        if not isinstance(button, Tag) or not isinstance(proof, Tag):
            raise LookupError("a number with evidence has no words, or no proof")
        self.notes.append(self.words(proof))
        return f"{self.words(button)}[^{len(self.notes)}]"


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def fenced(source: str, language: str) -> str:
    """Code in a fence that none of its lines closes."""
    longest = max((len(ticks) for ticks in re.findall(r"^\s*(`{3,})", source, re.M)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{source}\n{fence}" if source.strip() else ""


def coded(text: str) -> str:
    """A name in code, in more ticks than it has itself."""
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    gap = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{gap}{text}{gap}{ticks}"


def wrapped(text: str, mark: str) -> str:
    """Emphasis around words, and not around spaces beside them."""
    inner = text.strip()
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}{mark}{inner}{mark}{after}"


def linked(text: str, address: str) -> str:
    """A link around words, and not around spaces beside them."""
    inner = text.strip()
    return text.replace(inner, f"[{inner}]({address})", 1)


def escaped(text: str) -> str:
    """Text in which nothing could be markup."""
    return SPECIAL.sub(lambda found: "\\" + found[0], text)
