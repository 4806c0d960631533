"""A page set for reading without scripts: folds are open, panels are numbered pictures, evidence stands in notes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bs4 import Tag
from bs4.element import NavigableString

from press.pages import Page, classes, drawn, local, resolved, soup, spaced, whole

#: Elements that an evidence note or a panel's link follows.
HOLDERS = ("p", "ul", "ol", "dl", "table", "blockquote", "h1", "h2", "h3", "h4")
#: What a reference with the number of its page is given once in.
PLACES = ("p", "li", "td", "th", "dd", "dt", "figcaption")
#: Pages in the order of the alphabet, or so long that a page's number says little: a reference to them has none.
LISTS = ("chapters/bibliography", "chapters/glossary", "chapters/api", "chapters/api_audit")
#: What an address ends with that is room for the number of its page.
PAGED, BARE = "!p", "!n"
LABEL = re.compile(r'\baria-label="([^"]*)"')
WIDTH = re.compile(r'\bviewBox="0 0 ([\d.]+) ')


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
    page: Page,
    text: str,
    known: set[str],
    *,
    address: Callable[[Link], str],
    live: str = "",
    notes: str = "",
    paged: bool = False,
) -> Sheet:
    """A built page, set for reading without scripts.

    Args:
        page: The page.
        text: Its HTML.
        known: The names of all pages that are set. Links to others lead to the live book, if there is one.
        address: What the address of a place in the book is, in the form that is made.
        live: The address of the book on the web, with a slash at its end. Default: it is not known.
        notes: Attributes of a note, as EPUB wants them. Default: none.
        paged: Leave room for the number of the page behind a reference to another chapter.
    """
    tree, drawings = drawn(text)
    made = Setter(page, tree, drawings, known, address, live, notes, paged)
    made.set()
    body = whole(tree, drawings)
    return Sheet(page.name, body, {str(each["id"]) for each in tree.find_all(id=True)}, made.links)


class Setter:
    """Changes the tree of a page, one kind of thing after the other."""

    def __init__(
        self,
        page: Page,
        tree: Tag,
        drawings: list[str],
        known: set[str],
        address: Callable[[Link], str],
        live: str,
        notes: str,
        paged: bool,
    ) -> None:
        self.name, self.number, self.tree, self.drawings = page.name, page.number, tree, drawings
        self.known, self.address, self.live, self.notes, self.paged = known, address, live, notes, paged
        self.links: set[Link] = set()

    def set(self) -> None:
        self.code()
        self.folds()
        self.panels()
        self.figures()
        self.names()
        self.evidence()
        self.anchors()
        self.redirect()

    def new(self, html: str) -> Tag:
        made = soup(html).find()
        assert isinstance(made, Tag)
        return made

    def code(self) -> None:
        """Folded code is left on the page: it draws what is seen, or checks what is said. So is a source told twice."""
        for fold in self.tree.select("div.cell details.hide"):
            fold.decompose()
        for fold in self.tree.select("details.pe-source"):
            where = spaced(fold.summary).rpartition(": ")[2] if fold.summary else ""
            fold.replace_with(self.new(f'<p class="pe-code">Shortened: {where} has the docstrings and the checks.</p>'))
        for cell in self.tree.select("div.cell"):
            if not cell.get_text(strip=True) and not cell.find(["img", "pe-drawing"]):
                cell.decompose()

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

    def figures(self) -> None:
        """Panels and pictures are numbered together; the caption of a picture is what a screen reader says of it."""
        for number, figure in enumerate(self.tree.select("figure.pe-panel, div.pe-figure"), 1):
            named = f"Figure {self.number}.{number}" if self.number else f"Figure {number}"
            views = figure.find_all("pe-drawing")
            if figure.name == "div":
                figure.name = "figure"
                said = "".join(
                    found[1] for each in views if (found := LABEL.search(self.drawings[int(str(each["n"]))]))
                )
                figure.append(self.new(f'<figcaption><b class="pe-fig">{named}.</b> {said}</figcaption>'))
                continue
            if isinstance(title := figure.find("figcaption"), Tag):
                title.insert(0, self.new(f'<span class="pe-fig">{named}. </span>'))
            widths = [float(found[1]) for each in views if (found := WIDTH.search(self.drawings[int(str(each["n"]))]))]
            share = 0.78 if len(views) == 1 else 0.58 if min(widths, default=999) < 300 else 0.66
            if len(widths) > 1 and min(widths) > 300:
                figure["class"] = "pe-panel pe-tall"
            for each, width in zip(views, widths, strict=False):
                if "pe-still" in classes(each.parent) and isinstance(
                    each.parent, Tag
                ):  # letters of one size, whatever stands beside them
                    each.parent["style"] = f"width: {width * share:.0f}pt"

    def names(self) -> None:
        """A long name in a table may break behind its signs, so that its column leaves room for others."""
        for text in [
            text for text in self.tree.find_all(string=re.compile(r"\S{20,}")) if text.find_parent(["td", "th"])
        ]:
            if text.find_parent(class_="math"):
                continue
            first, *others = re.split(r"(?<=[/._:=,(\[])(?=\w)", str(text))
            parts: list[Tag | NavigableString] = [NavigableString(first)]
            for other in others:
                parts += [self.new("<wbr/>"), NavigableString(other)]
            text.replace_with(*parts)

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
        told: set[tuple[int, str]] = set()
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
                holder = next((parent for parent in link.parents if parent.name in PLACES), link)
                if self.paged and page not in (self.name, *LISTS) and (id(holder), page) not in told:
                    told.add((id(holder), page))
                    link.insert_after("\u2060", self.new(numbered(place, self.address)))
            elif self.live:
                link["href"] = self.live + resolved(self.name, href)
            else:
                link.unwrap()


def numbered(place: Link, address: Callable[[Link], str], bare: bool = False) -> str:
    """Room for the number of the page where a place is, once that is known. Bare: without a "p." before it."""
    kind = "pe-page pe-bare" if bare else "pe-page"
    return f'<a class="{kind}" aria-hidden="true" href="{address(place)}{BARE if bare else PAGED}"></a>'


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
