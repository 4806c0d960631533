"""The book as one PDF: Chromium prints each page, and the prints are joined, with links, bookmarks and page numbers.

Chromium writes a destination for each place that a link of the same page leads to. So a sheet links to all places that
any sheet leads to, and links between sheets, which have an address that nobody has, become links inside the book.
"""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from press.cover import code
from press.pages import Page, mathjax
from press.sheets import BARE, PAGED, Link, Sheet, headings

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pypdf import PdfReader, PdfWriter

HERE = Path(__file__).parent
NOWHERE = "https://book.invalid/"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]  # fmt: skip
PATIENCE = 600_000  # milliseconds for the formulas of one page, on a slow machine
SET = (
    "() => window.MathJax?.startup?.promise ? MathJax.startup.promise.then(() => document.fonts.ready).then(() => true)"
    " : false"
)
#: MathJax hides its letters from screen readers, and a print tells them nothing else of a formula: Chromium gives
#: alternative texts to pictures alone. So its TeX is beside it, in white and too small to see: it is read aloud, found
#: and copied.
SAY = r"""() => {
  for (const item of window.MathJax?.startup?.document?.math ?? []) {
    const tex = item.math.replace(/\\[qkvp](?![A-Za-z])\s*/g, "").replace(/\\class\{[\w-]+\}/g, "");
    const said = document.createElement("span");
    said.className = "pe-said";
    said.textContent = tex.replace(/\s+/g, " ").trim();
    item.typesetRoot.before(said);
  }
}"""
#: Pictures are cut to what they show. Tables and formulas that are wider than the page are set smaller, step by step.
FIT = """() => {
  for (const picture of document.querySelectorAll(".pe-still > svg")) {
    const whole = picture.viewBox.baseVal, own = picture.getBBox(), still = picture.parentElement;
    const left = Math.max(own.x - 2, 0), width = Math.min(own.x + own.width + 2, whole.width) - left;
    if (width > 0.8 * whole.width || !still.style.width) continue;
    still.style.width = `${parseFloat(still.style.width) * width / whole.width}pt`;
    picture.setAttribute("viewBox", `${left} 0 ${width} ${whole.height}`);
  }
  for (const table of document.querySelectorAll("table")) {
    const room = table.parentElement.clientWidth + 1;
    for (let step = 1; table.offsetWidth > room && step < 5; step++) table.dataset.fit = step;
  }
  for (const formula of document.querySelectorAll("div.math mjx-container")) {
    const line = formula.parentElement, own = formula.querySelector("mjx-math");
    const number = line.querySelector(".eqno");
    const room = line.clientWidth - (number ? number.offsetWidth + 8 : 0);
    if (own && own.scrollWidth > room) formula.style.fontSize = `${Math.max(0.6, room / own.scrollWidth) * 100}%`;
  }
}"""
COLUMN = 605  # pixels: what @page leaves of the width of A4
FOOT = 34.0  # points from the lower edge
SMALL = 6.6  # points, the numbers of pages behind references
MARGINS = 70.9  # points: 25 mm, as in paper.css


Address = Callable[[Link], str]


class CannotPrint(Exception):
    """What is missing, and how to get it."""


def address(place: Link) -> str:
    """The address of a place in the book, until the prints are joined."""
    return f"{NOWHERE}{place.page}#{place.anchor}"


# ---- printing --------------------------------------------------------------------------------------------------------


def sheet_html(made: Sheet, targets: Iterable[str], out: Path, title: str) -> str:
    """A sheet as a file that Chromium prints.

    Args:
        made: The sheet.
        targets: The ids that any sheet of the book leads to.
        out: The folder of the built book, whose styles and MathJax are used.
        title: Of the page.
    """
    body = made.body.replace(f'href="{NOWHERE}{made.name}#', 'href="#').replace('href="#"', 'href="#top"')
    links = "".join(f'<a href="#{html.escape(target)}">.</a>' for target in sorted({"top", *targets}))
    options = {"enableMenu": False, "processHtmlClass": "math", "ignoreHtmlClass": ".*"}
    settings = mathjax() | {"options": options}
    static = (out / "_static").resolve().as_uri()
    return (
        '<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f'<title>{html.escape(title)}</title><link rel="stylesheet" href="{static}/pygments.css">{fonts(out)}'
        f'<link rel="stylesheet" href="{(HERE / "paper.css").resolve().as_uri()}">'
        f"<script>window.MathJax = {json.dumps(settings)};</script>"
        f'<script src="{static}/mathjax/startup.js"></script></head>'
        f'<body id="top"><div class="pe-targets" aria-hidden="true">{links}</div><main>{body}</main></body></html>'
    )


def fonts(out: Path) -> str:
    """The letters of the site, so that the print is the same on any machine."""
    style = out / "_static/book.css"
    rules = re.findall(r"@font-face \{.*?\}", style.read_text(encoding="utf-8")) if style.exists() else []
    base = (out / "_static/fonts").resolve().as_uri()
    return f"<style>{''.join(rules).replace('fonts/', f'{base}/')}</style>"


def chromium() -> str | None:
    """Chromium's path: the environment variable CHROMIUM, or the system's; None leaves it to playwright."""
    return next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]), None)


def print_all(files: list[Path]) -> None:
    """Print HTML files beside themselves, as PDF with its structure.

    Raises:
        CannotPrint: If playwright or a browser is missing.
    """
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        raise CannotPrint("playwright is missing: pip install 'posenc[paper]'") from error
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        except Error as error:
            raise CannotPrint("there is no Chromium: make chromium, or set CHROMIUM to its path") from error
        print_with(browser, files)
        browser.close()


def print_with(browser: Browser, files: list[Path]) -> None:
    """Print HTML files with a browser that runs."""
    for number, file in enumerate(files, 1):
        page = browser.new_page(viewport={"width": COLUMN, "height": 930})
        page.set_default_timeout(PATIENCE)
        page.goto(file.as_uri(), wait_until="load")
        page.emulate_media(media="print")
        if "window.MathJax" in file.read_text(encoding="utf-8"):
            page.wait_for_function(SET)
            page.evaluate(SAY)
        page.evaluate(FIT)
        page.pdf(path=file.with_suffix(".pdf"), prefer_css_page_size=True, print_background=True, tagged=True)
        page.close()
        print(f"\r{number} of {len(files)} printed: {file.stem:24}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


# ---- joining ---------------------------------------------------------------------------------------------------------


@dataclass
class Printed:
    """The print of one page, and where its places are: on which of its own pages, how high."""

    page: Page
    reader: PdfReader
    places: dict[str, tuple[int, float]] = field(default_factory=dict)
    first: int = 0
    """The number of its first page, counted from 1."""

    def __post_init__(self) -> None:
        for name, found in self.reader.named_destinations.items():
            number = self.reader.get_destination_page_number(found)
            if number is not None:
                self.places[name.lstrip("/")] = (number, float(found.top or 0.0))


def number(prints: list[Printed]) -> None:
    """Number the pages of all prints, one after the other."""
    first = 1
    for printed in prints:
        printed.first = first
        first += len(printed.reader.pages)


def contents(
    out: Path, title: str, prints: list[Printed], sections: dict[str, list[tuple[int, str, str]]], about: str
) -> str:
    """The title page and the contents, as HTML."""
    name, _, sub = title.partition(": ")
    lines, part = [], ""
    for printed in prints:
        page = printed.page
        if page.part != part:
            part = page.part
            lines.append(f'<p class="pe-part">{html.escape(part)}</p>')
        lines.append(_line("pe-chapter", page.heading, Link(page.name, ""), printed.first))
        for level, words, anchor in sections[page.name]:
            if level == 2 and anchor in printed.places:
                lines.append(
                    _line("pe-section", words, Link(page.name, anchor), printed.first + printed.places[anchor][0])
                )
    style = (HERE / "paper.css").resolve().as_uri()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'{fonts(out)}<link rel="stylesheet" href="{style}"></head><body><div class="pe-cover">'
        f'<h1>{html.escape(name)}</h1><p class="pe-sub">{html.escape(sub)}</p>'
        f'<img alt="" src="data:image/png;base64,{base64.b64encode(code()).decode()}">'
        f'<p class="pe-made">{about}</p></div><h1 class="pe-contents-title">Contents</h1>'
        f'<div class="pe-contents">{"".join(lines)}</div></body></html>'
    )


def _line(kind: str, words: str, place: Link, page: int) -> str:
    target = html.escape(address(place))
    return f'<div class="{kind}"><a href="{target}"><span>{html.escape(words)}</span> <span>{page}</span></a></div>'


def join(
    front: PdfReader, prints: list[Printed], sections: dict[str, list[tuple[int, str, str]]], title: str, author: str
) -> PdfWriter:
    """The whole book.

    Args:
        front: The title page and the contents.
        prints: The pages of the book, numbered.
        sections: Headings of each page.
        title: Of the book.
        author: Of the book.
    """
    from pypdf import PdfWriter
    from pypdf.constants import PageLabelStyle
    from pypdf.generic import ArrayObject, BooleanObject, DictionaryObject, NameObject, TextStringObject

    writer, begins = PdfWriter(), len(front.pages)
    for reader in [front, *(printed.reader for printed in prints)]:
        writer.append(reader, import_outline=False)
    root = writer.root_object
    for name in ("/Dests", "/Names", "/StructTreeRoot"):
        root.pop(NameObject(name), None)
    places = {
        (printed.page.name, anchor): (begins + printed.first - 1 + at, top)
        for printed in prints
        for anchor, (at, top) in printed.places.items()
    }
    places |= {(printed.page.name, ""): (begins + printed.first - 1, 842.0) for printed in prints}
    owners = [""] * begins + [printed.page.name for printed in prints for _ in printed.reader.pages]
    drawn: dict[int, list[bytes]] = defaultdict(list)
    for n, (page, owner) in enumerate(zip(writer.pages, owners, strict=True)):
        for link in _links(page):
            target, sign = _target(link, owner)
            if (found := places.get(target)) is not None:
                link.pop("/A", None)
                link[NameObject("/Dest")] = _destination(writer, *found)
                if sign is not None:
                    left, low = (float(link["/Rect"][side]) for side in (0, 1))
                    drawn[n].append(_text(left, f"{sign}{found[0] - begins + 1}", low, SMALL))
            elif NOWHERE in str(link.get("/A", "")):
                link.pop("/A")  # a place without a box of its own, which no reader could see
    _structure(writer, [front, *(printed.reader for printed in prints)])
    _feet(writer, begins, prints, owners, title.partition(":")[0], drawn)
    _outline(writer, begins, prints, sections)
    writer.set_page_label(page_index_from=0, page_index_to=begins - 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    writer.set_page_label(page_index_from=begins, page_index_to=len(writer.pages) - 1, style=PageLabelStyle.DECIMAL)
    root[NameObject("/Lang")] = TextStringObject("en")
    root[NameObject("/PageMode")] = NameObject("/UseOutlines")
    root[NameObject("/ViewerPreferences")] = DictionaryObject({NameObject("/DisplayDocTitle"): BooleanObject(True)})
    root[NameObject("/OpenAction")] = ArrayObject([writer.pages[0].indirect_reference, NameObject("/Fit")])
    writer.metadata = None
    writer.add_metadata({"/Title": title, "/Author": author, "/Producer": "Chromium, pypdf"})
    writer.compress_identical_objects(remove_unreferenced=True)
    return writer


def _links(page: Any) -> Iterator[Any]:
    for annotation in page.get("/Annots", ()) or ():
        found = annotation.get_object()
        if found.get("/Subtype") == "/Link":
            yield found


def _target(link: Any, owner: str) -> tuple[tuple[str, str], str | None]:
    """The page and the id that a link leads to; nothing for one that leads out of the book.

    Also what is to be written before the number of the page, where the link is room for it.
    """
    action = link.get("/A")
    uri = str(action.get_object().get("/URI", "")) if action is not None else ""
    if uri.startswith(NOWHERE):
        page, _, anchor = uri.removeprefix(NOWHERE).partition("#")
        sign = "p. " if anchor.endswith(PAGED) else "" if anchor.endswith(BARE) else None
        return (page, anchor.removesuffix(PAGED).removesuffix(BARE)), sign
    named = link.get("/Dest") or (action.get_object().get("/D") if action is not None else None)
    return (owner, str(named).lstrip("/")) if isinstance(named, str) else ("", ""), None


def _destination(writer: PdfWriter, page: int, top: float) -> Any:
    from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

    reference = writer.pages[page].indirect_reference
    return ArrayObject([reference, NameObject("/XYZ"), FloatObject(0), FloatObject(top), NullObject()])


def _outline(
    writer: PdfWriter, begins: int, prints: list[Printed], sections: dict[str, list[tuple[int, str, str]]]
) -> None:
    from pypdf.generic import Fit

    part, above = "", None
    for printed in prints:
        page, start = printed.page, begins + printed.first - 1
        if page.part != part:
            part = page.part
            above = writer.add_outline_item(title=part, page_number=start, is_open=True)
        chapter = writer.add_outline_item(title=page.heading, page_number=start, parent=above, is_open=False)
        for level, words, anchor in sections[page.name]:
            if level == 2 and anchor in printed.places:
                at, top = printed.places[anchor]
                writer.add_outline_item(
                    title=words, page_number=start + at, parent=chapter, fit=Fit.xyz(left=0, top=top)
                )


def _feet(
    writer: PdfWriter,
    begins: int,
    prints: list[Printed],
    owners: list[str],
    title: str,
    drawn: dict[int, list[bytes]],
) -> None:
    """The title of the chapter and the number of the page, below each page of the book; and what else it is given."""
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, StreamObject

    font = writer._add_object(DictionaryObject({
        NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Helvetica"), NameObject("/Encoding"): NameObject("/WinAnsiEncoding"),
    }))  # fmt: skip

    def stream(content: bytes) -> Any:
        made = StreamObject()
        made.set_data(content)
        return writer._add_object(made)

    saved, heads = stream(b"q\n"), {printed.page.name: printed.page.heading for printed in prints}
    for n, page in enumerate(writer.pages):
        if n < begins:
            continue
        shown, width = str(n - begins + 1), float(page.mediabox.width)
        right = width - MARGINS - 4.45 * len(shown)  # a digit of Helvetica is 0.556 wide
        foot = b"".join(drawn[n]) + _text(MARGINS, heads[owners[n]] or title) + _text(right, shown)
        held = page["/Contents"].get_object()
        parts = list(held) if isinstance(held, ArrayObject) else [page.raw_get("/Contents")]
        page[NameObject("/Contents")] = ArrayObject([saved, *parts, stream(b"\nQ\n/Artifact BMC\n" + foot + b"EMC\n")])
        resources: Any = page["/Resources"].get_object()
        fonts = resources.setdefault(NameObject("/Font"), DictionaryObject()).get_object()
        fonts[NameObject("/PeFoot")] = font


def _text(x: float, words: str, y: float = FOOT, size: float = 8.0) -> bytes:
    escaped = re.sub(rb"([\\()])", rb"\\\1", words.encode("cp1252", "replace"))
    return b"BT /PeFoot %.1f Tf 0.4 g %.2f %.2f Td (%s) Tj ET\n" % (size, x, y, escaped)


# ---- the structure that screen readers use ---------------------------------------------------------------------------


def _structure(writer: PdfWriter, readers: list[PdfReader]) -> None:
    """Join the trees of structure: one root, whose children are the roots of the prints."""
    from pypdf.generic import ArrayObject, BooleanObject, DictionaryObject, NameObject, NumberObject

    kids, numbers, offset = ArrayObject(), ArrayObject(), 0
    root = DictionaryObject({NameObject("/Type"): NameObject("/StructTreeRoot")})
    reference = writer._add_object(root)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    pages = iter(writer.pages)
    try:
        for reader in readers:
            catalogue: Any = reader.trailer["/Root"]
            held = catalogue.get("/StructTreeRoot")
            own = [next(pages) for _ in reader.pages]
            if held is None:
                continue
            tree = held.get_object()
            owners = dict(_numbers(tree["/ParentTree"].get_object()))
            source: Any
            for page, source in zip(own, reader.pages, strict=True):
                if "/StructParents" in source:  # which pypdf leaves behind
                    page[NameObject("/StructParents")] = NumberObject(int(source["/StructParents"]) + offset)
                for annotation in page.get("/Annots", ()) or ():
                    _shift(annotation.get_object(), "/StructParent", offset)
            top = tree["/K"]
            for child in top if isinstance(top, ArrayObject) else [tree.raw_get("/K")]:
                cloned = child.get_object().clone(writer)
                cloned[NameObject("/P")] = reference
                kids.append(cloned.indirect_reference)
            for key, value in sorted(owners.items()):
                numbers.append(NumberObject(key + offset))
                numbers.append(value.clone(writer))
            offset += max(owners, default=-1) + 1
    finally:
        sys.setrecursionlimit(limit)
    root[NameObject("/K")] = kids
    root[NameObject("/ParentTree")] = writer._add_object(DictionaryObject({NameObject("/Nums"): numbers}))
    root[NameObject("/ParentTreeNextKey")] = NumberObject(offset)
    writer.root_object[NameObject("/StructTreeRoot")] = reference
    writer.root_object[NameObject("/MarkInfo")] = DictionaryObject({NameObject("/Marked"): BooleanObject(True)})


def _numbers(tree: Any) -> Iterator[tuple[int, Any]]:
    """The entries of a number tree."""
    listed = tree.get("/Nums", ())
    for n in range(0, len(listed), 2):
        yield int(listed[n]), listed[n + 1] if not hasattr(listed, "raw_get") else listed.raw_get(n + 1)
    for kid in tree.get("/Kids", ()):
        yield from _numbers(kid.get_object())


def _shift(holder: Any, name: str, by: int) -> None:
    from pypdf.generic import NameObject, NumberObject

    if name in holder:
        holder[NameObject(name)] = NumberObject(int(holder[name]) + by)


# ---- the whole -------------------------------------------------------------------------------------------------------


def make(
    out: Path, pages: list[Page], sheets: list[Sheet], target: Path, work: Path, *, title: str, author: str, about: str
) -> None:
    """Print, join and write the book.

    Args:
        out: The folder of the built book.
        pages: In the order of the book.
        sheets: One for each page.
        target: The file to write.
        work: A folder for what is printed.
        title: Of the book.
        author: Of the book.
        about: What the title page says below, as HTML.

    Raises:
        CannotPrint: If something that prints is missing.
    """
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise CannotPrint("pypdf is missing: pip install 'posenc[paper]'") from error
    work.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, set[str]] = defaultdict(set)
    sections = {made.name: headings(made.body) for made in sheets}
    for made in sheets:
        for link in made.links:
            wanted[link.page].add(link.anchor)
        wanted[made.name] |= {anchor for _, _, anchor in sections[made.name]}
    files = []
    for page, made in zip(pages, sheets, strict=True):
        files.append(work / f"{page.name.rpartition('/')[2]}.html")
        files[-1].write_text(sheet_html(made, wanted[made.name] - {""}, out, page.heading), encoding="utf-8")
    print_all(files)
    prints = [Printed(page, PdfReader(file.with_suffix(".pdf"))) for page, file in zip(pages, files, strict=True)]
    number(prints)
    front = work / "front-matter.html"
    front.write_text(contents(out, title, prints, sections, about), encoding="utf-8")
    print_all([front])
    writer = join(PdfReader(front.with_suffix(".pdf")), prints, sections, title, author)
    held = io.BytesIO()  # a file would be written to in a million small pieces
    writer.write(held)
    target.write_bytes(held.getvalue())
