"""A page set for reading without scripts: folds are open, panels are pictures, evidence stands in notes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bs4 import Tag

from press.pages import classes, drawn, local, resolved, soup, spaced, whole

#: Elements that an evidence note or a panel's link follows.
HOLDERS = ("p", "ul", "ol", "dl", "table", "blockquote", "h1", "h2", "h3", "h4")


@dataclass(frozen=True)
class Link:
    """Where a link of a page leads."""

    page: str
    """The page of the book, such as "chapters/rope"."""
    anchor: str
    """The id there; empty for its beginning."""


@dataclass
class Sheet:
    """A page without scripts, and what others have to know of it."""

    name: str
    body: str
    anchors: set[str]
    """The ids that links can lead to."""
    links: set[Link]
    """The places in the book that it leads to."""


def sheet(
    name: str, page: str, known: set[str], *, address: Callable[[Link], str], live: str = "", notes: str = ""
) -> Sheet:
    """A built page, set for reading without scripts.

    Args:
        name: Of the page, such as "chapters/rope".
        page: Its HTML.
        known: The names of all pages that are set. Links to others lead to the live book, if there is one.
        address: What the address of a place in the book is, in the form that is made.
        live: The address of the book on the web, with a slash at its end. Default: it is not known.
        notes: Attributes of a note, as EPUB wants them. Default: none.
    """
    tree, drawings = drawn(page)
    made = Setter(name, tree, known, address, live, notes)
    made.set()
    body = whole(tree, drawings)
    return Sheet(name, body, {str(each["id"]) for each in tree.find_all(id=True)}, made.links)


class Setter:
    """Changes the tree of a page, one kind of thing after the other."""

    def __init__(
        self, name: str, tree: Tag, known: set[str], address: Callable[[Link], str], live: str, notes: str
    ) -> None:
        self.name, self.tree, self.known, self.address, self.live, self.notes = name, tree, known, address, live, notes
        self.links: set[Link] = set()

    def set(self) -> None:
        self.code()
        self.folds()
        self.panels()
        self.evidence()
        self.anchors()
        self.redirect()

    def new(self, html: str) -> Tag:
        made = soup(html).find()
        assert isinstance(made, Tag)
        return made

    def code(self) -> None:
        """Folded code is named and left on the page: it draws what is seen, or checks what is said."""
        for fold in self.tree.select("div.cell details.hide"):
            lines = len("".join(pre.get_text() for pre in fold.find_all("pre")).strip().splitlines())
            cell = fold.find_parent("div", class_="cell")
            fold.replace_with(self.new(f'<p class="pe-code">Code on the page, {lines} lines.</p>') if lines else "")
            if isinstance(cell, Tag):
                cell["class"] = " ".join([*sorted(classes(cell)), "pe-folded"])

    def folds(self) -> None:
        for fold in self.tree.find_all("details"):
            fold.name = "div"
            fold["class"] = "pe-open"
            summary = fold.find("summary")
            if isinstance(summary, Tag):
                summary.name = "p"
                summary["class"] = "pe-open-title"
        for section in self.tree.select("section.depth, section.practice"):
            section["class"] = " ".join([*sorted(classes(section)), "pe-unfolded"])

    def panels(self) -> None:
        """A panel is its picture, with a link to the one that moves where the book is on the web."""
        for panel in self.tree.select("figure.pe-panel"):
            if self.live:
                target = f"{self.live}{self.name}.html#{panel['id']}"
                panel.append(self.new(f'<p class="pe-live"><a href="{target}">Move it on the page</a></p>'))
        for table in self.tree.select(".pe-table"):
            for attribute in ("style", "tabindex"):
                del table[attribute]

    def evidence(self) -> None:
        """Words with a raised number; the note follows the paragraph, in small letters."""
        for aside in self.tree.select("aside.pe-notes"):
            aside.decompose()
        for number, element in enumerate(self.tree.select("span.pe-evidence"), 1):
            words, proof = element.find("button"), element.find(class_="pe-proof")
            if not isinstance(words, Tag) or not isinstance(proof, Tag):
                raise LookupError(f"a number with evidence on {self.name} has no words, or no proof")
            kind = ' epub:type="noteref" role="doc-noteref"' if self.notes else ""
            mark = self.new(f'<sup class="pe-mark"><a id="ref-{number}" href="#note-{number}"{kind}>{number}</a></sup>')
            note = self.new(
                f'<aside class="pe-note" id="note-{number}"{self.notes}>'
                f'<p><a href="#ref-{number}">{number}</a> </p></aside>'
            )
            line = note.find("p")
            assert isinstance(line, Tag)
            line.extend([child.extract() for child in list(proof.contents)])
            words.name, words.attrs = "span", {}
            words.extract()
            holder = self.holder(element)
            element.replace_with(words, mark)
            last = holder
            while isinstance(after := last.find_next_sibling(), Tag) and "pe-note" in classes(after):
                last = after
            last.insert_after(note)

    def holder(self, element: Tag) -> Tag:
        """The outermost paragraph, list or table around an element, inside its section or box."""
        found = element
        for parent in element.parents:
            if parent.name in HOLDERS:
                found = parent
            if parent.name in ("section", "article") or "admonition" in classes(parent):
                break
        return found

    def anchors(self) -> None:
        """Ids are unique, and are names that XML allows."""
        seen: set[str] = set()
        for element in self.tree.find_all(id=True):
            anchor = safe(str(element["id"]))
            if anchor in seen:
                del element["id"]
            else:
                element["id"] = anchor
                seen.add(anchor)

    def redirect(self) -> None:
        """Links lead to places of the same book; what it does not have is on the web, or no link."""
        for link in self.tree.find_all("a", href=True):
            href = str(link["href"])
            if not local(href):
                continue
            path, _, anchor = href.partition("#")
            page = resolved(self.name, path).removesuffix(".html") if path else self.name
            anchor = anchor.partition("?")[0]
            if page in self.known:
                place = Link(page, safe(anchor) if anchor else "")
                self.links.add(place)
                link["href"] = self.address(place)
            elif self.live:
                link["href"] = self.live + resolved(self.name, href)
            else:
                link.unwrap()


def safe(anchor: str) -> str:
    """An id that XML takes: those of solutions have the slash of their page."""
    anchor = re.sub(r"[^\w.-]", "-", anchor)
    return anchor if re.match(r"[A-Za-z_]", anchor) else f"x-{anchor}"


def headings(body: str, deepest: int = 2) -> list[tuple[int, str, str]]:
    """The headings of a sheet: level, text and the id of their section."""
    found = []
    tree = soup(re.sub(r"<svg\b.*?</svg>", "", body, flags=re.S))
    for heading in tree.find_all([f"h{level}" for level in range(1, deepest + 1)]):
        section = heading.find_parent("section")
        if isinstance(section, Tag) and section.get("id"):
            found.append((int(heading.name[1]), spaced(heading), str(section["id"])))
    return found
