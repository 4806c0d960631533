"""The book in other forms: Markdown, the index for machines, and claims as data, from small pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import browser

browser.extension("stamp")  # which puts chapters/_ext where modules are found
from press import claims, machines, markdown, pages  # noqa: E402

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


CLAIMS = """<article><p><strong>Notes</strong></p><table><thead><tr><th>no.</th><th>what is said</th>
<th>verdict</th></tr></thead><tbody><tr><td><a href="#claims-2">2</a></td><td>It extends.</td><td><em>{verdict}</em>: it
rises, +0.11 (+0.09 to +0.14) nats at 16 L</td></tr><tr><td><a href="#claims-3">3a</a></td><td>It turns.</td>
<td><em>holds</em></td></tr></tbody></table><div class="cell_input"><pre>LIMIT = 0.03
def serves(name):
    "Whether it costs little."
    return rise(name)
RULES = {{"2": serves("x")}}</pre></div><div class="cell_input">
<pre>settle("3a", judge(error &lt; 1e-6))</pre></div></article>"""


def test_claims_are_read_off_their_page() -> None:
    found = claims.claims(CLAIMS.format(verdict="does not hold"))
    first, second = found["claims"]
    assert found["constants"] == {"LIMIT": 0.03}
    assert (first["source"], first["verdict"], first["anchor"]) == ("Notes", "does not hold", "claims-2")
    assert first["intervals"] == [{"estimate": 0.11, "low": 0.09, "high": 0.14, "unit": "nats"}]
    assert first["rule"]["by"] == "training" and first["rule"]["expression"] == "serves('x')"
    assert first["rule"]["code"].startswith("def serves")
    assert second["rule"] == {"by": "running", "expression": "judge(error < 1e-06)", "code": ""}


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
