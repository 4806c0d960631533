"""The book in other forms: Markdown, the index for machines, and claims as data, from small pages."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import extension

if TYPE_CHECKING:
    from playwright.sync_api import Browser

extension("stamp")  # which puts chapters/_ext where modules are found
from press import claims, epub, exercises, forms, machines, markdown, pages, pdf, sheets, symbols  # noqa: E402

COMMANDS = {
    "q": [r"\class{tex-query}{#1}", 1],
    "T": r"^{\top}",
    "R": r"\mathbb{R}",
    "softmax": r"\operatorname{softmax}",
}


def md(body: str, live: str = "") -> str:
    return markdown.markdown(f"<article>{body}</article>", COMMANDS, live)


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"\q{q_i}\T x", r"q_i^{\top} x"),
        (r"\q{\q{a}_{b}}", "a_{b}"),
        (r"\q q", "q"),
        (r"\R^n", r"\mathbb{R}^n"),
        (r"\Re x \quad \qquad", r"\Re x \quad \qquad"),  # longer names are left alone
        (r"\softmax(\q{x})", r"\operatorname{softmax}(x)"),
    ],
)
def test_the_commands_of_the_book_are_written_out(tex: str, expected: str) -> None:
    assert pages.expanded(tex, COMMANDS) == expected


def test_an_open_brace_is_refused() -> None:
    with pytest.raises(ValueError, match="not closed"):
        pages.expanded(r"\q{a", COMMANDS)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<p>Let <span class="math">\\(\\q{x} &lt; 1\\)</span> be.</p>', "Let $x < 1$ be."),
        ("<p>a*b and <em>so</em> <strong>on </strong>here</p>", "a\\*b and *so* **on** here"),
        ('<p><a href="rope.html#rope-cache">there</a>, <a href="https://a.org/x.html">away</a></p>',
         "[there](rope.md#rope-cache), [away](https://a.org/x.html)"),
        ('<p><a href="#explore-one?m=2">set it</a></p>', "[set it](#explore-one)"),
        ("<p><code>a`b</code></p>", "``a`b``"),
        ("<ul><li><p>one</p></li><li><p>two</p><p>more</p></li></ul>", "- one\n- two\n\n  more"),
        ("<table><thead><tr><th>a</th><th>b|c</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
         "| a | b\\|c |\n|---|---|\n| 1 | 2 |"),
        ('<div class="highlight-python"><div class="highlight"><pre><span>x</span> = 1\n\n\ny = 2\n</pre></div></div>',
         "```python\nx = 1\n\n\ny = 2\n```"),
        ('<div class="pe-figure"><svg role="img" aria-label="A line that falls."><g/></svg></div>',
         "Figure: A line that falls."),
        ('<div class="math" id="equation-a"><span class="eqno">(3.1)<a class="headerlink">#</a></span>\\[\nx\\]</div>',
         '<a id="equation-a"></a>\n\n$$\nx \\tag{3.1}\n$$'),
    ],
)  # fmt: skip
def test_pieces_of_a_page_as_markdown(html: str, expected: str) -> None:
    assert md(html) == expected + "\n"


def test_sections_and_folds_are_headings() -> None:
    page = (
        '<section id="top"><span id="label"></span><h1>Top<a class="headerlink" href="#top">#</a></h1><p>a</p>'
        '<section id="in"><h2>In</h2><details class="sd-dropdown"><summary><span>The proof</span></summary><p>b</p>'
        '</details><div class="exercise admonition" id="ex"><p class="admonition-title">Exercise 1</p><p>c</p></div>'
        "</section></section>"
    )
    said = md(page).split("\n\n")
    assert said == [
        "# Top {#top #label}",
        "a",
        "## In {#in}",
        "### The proof",
        "b",
        '<a id="ex"></a>',
        "### Exercise 1",
        "c\n",
    ]


def test_a_number_has_its_evidence_in_a_footnote() -> None:
    number = (
        '<p>It costs <span class="pe-evidence"><button><span>a fifth</span></button><sup>1</sup>'
        '<span class="pe-proof">0.21 (0.18 to 0.24), 3 seeds.</span></span> more.</p>'
        '<aside class="pe-notes"><p>Evidence</p></aside>'
    )
    assert md(number) == "It costs a fifth[^1] more.\n\n[^1]: 0.21 (0.18 to 0.24), 3 seeds.\n"
    with pytest.raises(LookupError, match="no proof"):
        md('<span class="pe-evidence"><button>x</button></span>')


def test_a_panel_is_told_in_words_with_its_numbers() -> None:
    panel = (
        '<figure class="pe-panel" id="explore-a"><figcaption class="pe-title">One head</figcaption>'
        '<p class="pe-state">slope 0.5</p><div class="pe-stills"><div class="pe-still"><svg aria-label="y against x">'
        '</svg></div><div class="pe-still"><dl class="pe-readout"><div><dt>largest</dt><dd>0.9</dd></div></dl></div>'
        "</div>"
        '<p class="pe-caption">Drag it.</p><script class="pe-data">{"a": "</p>"}</script></figure>'
    )
    assert md(panel, "x.html") == (
        '<a id="explore-a"></a>\n\n> **Panel: One head.** At slope 0.5: y against x. largest 0.9. Drag it. '
        "[The panel that moves](x.html#explore-a).\n"
    )


def test_what_a_page_is_about_ends_with_a_sentence() -> None:
    text = "# A\n\n> **Panel.**\n\n" + "[One](a.md#b) thing[^1]. " + "Word " * 60
    assert machines.about(text) == "One thing."
    assert machines.about("# A") == ""


def test_the_index_has_all_pages_under_their_parts() -> None:
    book = [pages.Page(pages.HOME, "Book"), pages.Page("chapters/a", "A", "1", "First"), pages.Page("chapters/b", "B")]
    said = {pages.HOME: "What it is.", "chapters/a": "Of a."}
    text = machines.index("Book", book, said, "https://x.org/")
    assert text.startswith("# Book\n\n> What it is.\n")
    assert "## First\n\n- [1. A](https://x.org/chapters/a.md): Of a.\n" in text
    assert "- [B](https://x.org/chapters/b.md)\n" in text
    assert "(https://x.org/SKILL.md)" in text


CLAIMS = """<article><table><thead><tr><th>no.</th><th>scheme</th><th>what is said</th><th>said in</th>
<th>decided by</th><th>verdict</th></tr></thead><tbody><tr><td><a href="#claims-2">2</a></td><td>RoPE</td>
<td>It extends.</td><td>Notes</td><td>training</td><td>✗ <em>{verdict}</em>: it
rises, +0.11 (+0.09 to +0.14) nats at 16 L</td></tr><tr><td><a href="#claims-3">3a</a></td><td>any</td>
<td>It turns.</td><td>Notes</td><td>a run</td><td>✓ <em>holds</em></td></tr></tbody></table>
<div class="cell_input"><pre>LIMIT = 0.03
def serves(name):
    "Whether it costs little."
    return rise(name)
RULES = {{"2": serves("x")}}</pre></div><div class="cell_input">
<pre>settle("3a", judge(error &lt; 1e-6))</pre></div></article>"""


def test_claims_are_read_off_their_page() -> None:
    found = claims.claims(CLAIMS.format(verdict="does not hold"))
    first, second = found["claims"]
    assert found["constants"] == {"LIMIT": 0.03}
    assert (first["scheme"], first["source"], first["verdict"]) == ("RoPE", "Notes", "does not hold")
    assert first["anchor"] == "claims-2" and first["reason"].startswith("it rises")
    assert first["intervals"] == [{"estimate": 0.11, "low": 0.09, "high": 0.14, "unit": "nats"}]
    assert first["rule"]["by"] == "training" and first["rule"]["expression"] == "serves('x')"
    assert first["rule"]["code"].startswith("def serves")
    assert second["rule"] == {"by": "running", "expression": "judge(error < 1e-06)", "code": ""}


def test_claims_that_fail_have_a_table_of_their_own() -> None:
    heads = "".join(f"<th>{head}</th>" for head in claims.FAILED)
    cells = "".join(f"<td>{cell}</td>" for cell in ('<a href="#claims-4">4</a>', "T5", "It caches.", "Notes", "a row"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    (found,) = claims.claims(f"<article>{table}</article>")["claims"]
    assert (found["verdict"], found["reason"], found["source"]) == ("does not hold", "a row", "Notes")


def test_a_page_of_claims_without_verdicts_is_refused() -> None:
    with pytest.raises(LookupError, match="no table"):
        claims.claims("<article><p>Nothing.</p></article>")
    with pytest.raises(LookupError, match="no verdict that is one of"):
        claims.claims(CLAIMS.format(verdict="maybe"))


def test_findings_and_census_are_written(tmp_path: Path) -> None:
    machines.evidence(tmp_path)
    found: dict[str, Any] = json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))
    assert found["libraries"] and all(row["code"] and row["cause"] for row in found["libraries"])
    assert {row["name"] for row in found["transformers"]["findings"]} >= {"dbrx_base"}
    assert json.loads((tmp_path / "census.json").read_text(encoding="utf-8"))["questions"]


# ---- for paper and e-readers -----------------------------------------------------------------------------------------

FIRST = """<article><section id="one"><h1>1. One</h1><p>It costs <span class="pe-evidence"><button><span>a fifth</span>
</button><sup>1</sup><span class="pe-proof">0.21 (0.18 to 0.24).</span></span>, see <a href="b.html#there">two</a> and
<a href="c.html">none</a>.</p><details class="sd-dropdown"><summary><span>Why</span>
<span class="sd-summary-state-marker"><svg><path d="chevron"/></svg></span></summary><p>Because.</p>
</details><div class="cell"><div class="cell_output">
<figure class="pe-panel" id="explore-a"><figcaption class="pe-title">P</figcaption><div class="pe-stills">
<svg viewBox="0 0 9 9"><path d="panel"/></svg></div></figure></div><details class="hide above-input">
<summary>code</summary><div class="cell_input"><pre>a = 1
b = 2</pre></div></details></div><aside class="pe-notes">notes</aside></section></article>"""
SECOND = """<article><section id="two"><h1>2. Two</h1><section id="there"><h2>There</h2><p>Let
<span class="math">\\(\\q{x} &lt; 1\\)</span> &amp; <img src="data:," alt="a"> <br> be; <a href="a.html">back</a>.</p>
<div class="exercise admonition" id="ex"><p class="admonition-title">Exercise</p><p>Try.</p></div>
<div class="solution admonition" id="chapters/b-solution-0"><p>Done.</p></div></section></section></article>"""
TWO = [pages.Page("chapters/a", "One", "1", "Part"), pages.Page("chapters/b", "Two", "2", "Part")]


def set_two(address: Any, notes: str = "", live: str = "") -> list[sheets.Sheet]:
    known = {page.name for page in TWO}
    texts = zip(TWO, (FIRST, SECOND), strict=True)
    paged = address is pdf.address
    return [sheets.sheet(p, text, known, address=address, notes=notes, live=live, paged=paged) for p, text in texts]


def test_a_sheet_has_open_folds_pictures_and_notes_and_no_dead_field() -> None:
    first, second = set_two(epub.address, live="https://x.org/")
    assert "Because." in first.body and not re.search("<details|<summary|<button|pe-proof|notes", first.body)
    assert "a = 1" not in first.body
    panel = first.body[first.body.index("<figure") : first.body.index("</figure>")]
    assert 'd="panel"' in panel and "viewBox" in panel and "chevron" not in first.body  # each drawing in its own place
    assert 'href="https://x.org/chapters/a.html#explore-a"' in panel
    paragraph, note = first.body.index("a fifth"), first.body.index("0.21 (0.18")
    assert paragraph < note < first.body.index("Because.")
    assert 'href="b.xhtml#there"' in first.body and 'href="https://x.org/chapters/c.html"' in first.body
    assert {"there", "two", "ex", "chapters-b-solution-0"} <= second.anchors
    assert sheets.headings(second.body) == [(1, "2. Two", "two"), (2, "There", "there")]


def test_figures_are_numbered_and_a_picture_has_what_it_shows_as_its_caption() -> None:
    page = (
        '<article><div class="pe-figure"><svg aria-label="A line &lt; 1." viewBox="0 0 9 9"></svg></div>'
        '<figure class="pe-panel"><figcaption class="pe-title">P</figcaption></figure></article>'
    )
    numbered = sheets.sheet(pages.Page("chapters/a", "A", "7"), page, {"chapters/a"}, address=epub.address).body
    assert '<b class="pe-fig">Figure 7.1.</b> A line &lt; 1.</figcaption></figure>' in numbered
    assert '<span class="pe-fig">Figure 7.2. </span>P' in numbered


def test_a_reference_to_another_chapter_has_room_for_the_number_of_its_page() -> None:
    first, second = (made.body for made in set_two(pdf.address))
    assert 'href="https://book.invalid/chapters/b#there!p"' in first and "#note-1!p" not in first
    assert second.count("!p") == 1
    text = FIRST.replace("<p>It costs", '<p><a href="b.html#there">again</a> It costs')
    again = sheets.sheet(TWO[0], text, {"chapters/a", "chapters/b"}, address=pdf.address, paged=True)
    assert again.body.count("!p") == 1  # once in a paragraph


@pytest.mark.parametrize(
    ("formula", "found"),
    [("d/2", True), (r"\frac{d}{2}", True), ("d_v + e", False), (r"\operatorname{diag} x", False), (r"\q{d}^2", True)],
)
def test_a_symbol_is_found_in_formulas_and_not_in_words_or_under_an_index(formula: str, found: bool) -> None:
    assert symbols.has(symbols.tokens(formula), symbols.tokens("d")) == found


def test_a_row_of_notation_may_name_several_symbols() -> None:
    found = symbols.forms(r"\k{k_j}, y_1, \dots, f(a, b) = W_k x_j")
    assert found == [symbols.tokens(each) for each in ("k_j", "y_1", "f(a, b)")]


def test_the_index_of_symbols_leads_to_their_first_formula_in_each_chapter() -> None:
    notation = (
        '<article><section id="notation"><h2>Sizes</h2><table><thead><tr><th>symbol</th><th>meaning</th></tr></thead>'
        '<tbody><tr><td><span class="math">\\(x, y\\)</span></td><td>any</td></tr></tbody></table></section></article>'
    )
    three = [*TWO, pages.Page("chapters/notation", "Notation")]
    made = [*set_two(epub.address), sheets.Sheet("chapters/notation", notation, set(), set())]
    index = symbols.sheet(three, made, epub.address, paged=False)
    assert index is not None and len(index.links) == 1
    (place,) = index.links
    assert place.page == "chapters/b" and f'id="{place.anchor}"' in made[1].body and ">2</a></td>" in index.body
    assert symbols.sheet(TWO, made[:2], epub.address, paged=False) is None


def test_the_first_page_leads_to_the_forms_that_are_there(tmp_path: Path) -> None:
    page = tmp_path / "chapters/index.html"
    page.parent.mkdir()
    page.write_text('<p>Get it. <span class="pe-forms"></span></p>')
    forms.offer(tmp_path)
    assert "href" not in page.read_text()
    (tmp_path / "positional-encodings.epub").write_bytes(bytes(3_300_000))
    forms.offer(tmp_path)
    forms.offer(tmp_path)
    assert page.read_text().count('<a href="../positional-encodings.epub">EPUB</a> (3.3 MB)') == 1
    (tmp_path / "positional-encodings.epub").unlink()
    forms.offer(tmp_path)
    assert "href" not in page.read_text()


def test_without_an_address_on_the_web_a_sheet_leads_only_into_the_book() -> None:
    first, _ = set_two(epub.address)
    assert set(re.findall('href="([^"]*)"', first.body)) == {"a.xhtml#note-1", "a.xhtml#ref-1", "b.xhtml#there"}


def test_an_epub_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "book.epub"
    epub.make(TWO, set_two(epub.address, epub.NOTE), target, title="Book: a", author="A & B", about="Now.", colours="")
    with zipfile.ZipFile(target) as archive:
        assert archive.namelist()[0] == "mimetype" and archive.infolist()[0].compress_type == zipfile.ZIP_STORED
        assert archive.read("book/cover.png").startswith(b"\x89PNG")
        names = [name for name in archive.namelist() if name.startswith("book/") and not name.endswith(".png")]
        files = {name: archive.read(name).decode() for name in names}
    assert not list(epub.faults({**files, "book/cover.png": ""}))
    assert 'class="tex-query"' in files["book/b.xhtml"] and "<mo>&lt;</mo>" in files["book/b.xhtml"]
    assert 'epub:type="noteref"' in files["book/a.xhtml"] and 'epub:type="footnote"' in files["book/a.xhtml"]
    assert 'alttext="x &lt; 1"' in files["book/b.xhtml"] and "cover.png" in files["book/cover.xhtml"]
    assert 'properties="mathml"' in files["book/package.opf"] and 'href="b.xhtml#there"' in files["book/nav.xhtml"]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<p>a", "book/a.xhtml: "),
        ('<p id="x"/><p id="x"/>', "the id x is there twice"),
        ('<a href="b.xhtml#z"/>', "leads to b.xhtml#z, which is not there"),
    ],
)
def test_what_is_wrong_in_an_epub_is_named(page: str, fault: str) -> None:
    files = {"book/a.xhtml": epub.xhtml("A", page), "book/b.xhtml": epub.xhtml("B", "<p/>")}
    files["book/package.opf"] = '<package xmlns="http://www.idpf.org/2007/opf"><item href="b.xhtml"/></package>'
    found = list(epub.faults(files))
    assert any(fault in each for each in found) and "book/a.xhtml is not in the manifest" in found


def test_a_formula_with_a_mistake_is_refused() -> None:
    with pytest.raises(epub.CannotConvert, match="does not understand"):
        epub.mathml([(r"\frac{1", False)])


def test_a_sheet_of_exercises_has_solutions_only_if_asked_for() -> None:
    _, second = set_two(pdf.address)
    without, with_ = (exercises.of_chapter(TWO[1], second, solved) for solved in (False, True))
    assert "Try." in without and "Done." not in without and "Done." in with_
    page = '<div class="exercise">Try.</div><div class="cell">def f</div><div class="solution">Done.</div>'
    begun, ended = ("".join(exercises.of_body(page, solved)) for solved in (False, True))
    assert "def f" in begun and "Done." not in begun and "def f" in ended and "Done." in ended
    assert not exercises.of_chapter(TWO[0], set_two(pdf.address)[0], True)


def test_prints_are_joined_with_links_bookmarks_numbers_and_structure(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: pip install 'posenc[paper]'")
    monkeypatch.setattr(pdf, "print_all", lambda files: pdf.print_with(browser, files))
    monkeypatch.setattr(pdf, "SET", "() => true")  # the test has no MathJax
    target = tmp_path / "book.pdf"
    pdf.make(tmp_path, TWO, set_two(pdf.address), target, tmp_path / "work", title="Book: a", author="A", about="Now.")
    reader = pypdf.PdfReader(target)
    assert len(reader.pages) == 4  # title, contents, two chapters
    assert "p. 2" in reader.pages[2].extract_text() and "p. 1" in reader.pages[3].extract_text()
    links = [a.get_object() for page in reader.pages for a in page.get("/Annots", ())]
    places = [reader.get_page_number(link["/Dest"][0].get_object()) for link in links]
    assert sorted(set(places)) == [2, 3] and not any("/A" in link for link in links)
    part, (chapter, _, (section,)) = reader.outline[0], reader.outline[1][:3]
    assert (part.title, chapter.title, section.title) == ("Part", "1. One", "There")
    assert reader.page_labels == ["i", "ii", "1", "2"]
    assert "1. One" in reader.pages[2].extract_text() and reader.pages[3].extract_text().rstrip().endswith("2")
    root = reader.trailer["/Root"]
    assert root["/Lang"] == "en" and root["/MarkInfo"]["/Marked"] and len(root["/StructTreeRoot"]["/K"]) == 3
    keys = [page["/StructParents"] for page in reader.pages[2:]]  # a title page has no structure of its own
    assert len(set(keys)) == len(keys) and set(keys) <= set(root["/StructTreeRoot"]["/ParentTree"]["/Nums"][::2])


# ---- the built book --------------------------------------------------------------------------------------------------


def test_every_page_is_there_as_markdown_and_its_links_lead_somewhere(book: Path) -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (book / "chapters").glob("*.md")}
    assert set(texts) == {page.name.removeprefix("chapters/") for page in pages.book(book)}
    anchors = {
        name: {*re.findall(r'<a id="([^"]+)"></a>', text), *re.findall(r"[{ ]#([^\s}]+)(?=[ }])", text)}
        for name, text in texts.items()
    }
    dead = []
    for name, text in texts.items():
        plain = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.S | re.M)
        for page, anchor in re.findall(r"\]\(([\w/.-]*?)(?:\.md)?(?:#([^)\s]*))?\)", plain):
            if page.endswith(".html") or (page and "/" in page):
                continue
            target = page or name
            if target not in texts or (anchor and anchor not in anchors[target]):
                dead.append(f"{name}: {page}#{anchor}")
    assert not dead


def test_nothing_of_a_page_is_lost_in_markdown(book: Path) -> None:
    for page in pages.book(book):
        html = (book / f"{page.name}.html").read_text(encoding="utf-8")
        text = (book / f"{page.name}.md").read_text(encoding="utf-8")
        assert text.startswith("# ") and f'href="{page.name.rpartition("/")[2]}.md"' in html
        assert text.count("**Panel: ") == len(re.findall(r'<figure class="pe-panel[" ]', html))
        assert len(re.findall(r"^\[\^\d+\]: .*\d", text, re.M)) == html.count('class="pe-evidence"')
        assert text.count("\n$$\n") == 2 * len(re.findall(r'<div class="math ', html))
        assert not re.search(
            r"\\\(|\\\[[^\]]*\n|class=|\\[qkv]\{", re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.S | re.M)
        )


def test_the_top_of_the_site_has_the_index_and_the_data(book: Path) -> None:
    index = (book / "llms.txt").read_text(encoding="utf-8")
    for address in re.findall(r"\]\(([^)]+)\)", index):
        assert (book / re.sub(r"^https?://[^/]+/([^/]+/)?(?=chapters/|\w+\.\w+$)", "", address)).exists(), address
    found = json.loads((book / "claims.json").read_text(encoding="utf-8"))["claims"]
    page = (book / "chapters/claims.html").read_text(encoding="utf-8")
    trained = [row for row in found if row["rule"]["by"] == "training"]
    assert len(found) > 70 and len(trained) > 10
    assert all(row["rule"]["expression"] and f'id="{row["anchor"]}"' in page for row in found)
    assert sum(bool(row["intervals"]) for row in trained) >= 10
