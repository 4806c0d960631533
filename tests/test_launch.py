"""The live form of the notebooks, which launch buttons open: from small pages, and all that the build has written."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import normalise
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from normalise import CHAPTERS, COLAB_CELL, MATHS_CELL
from PIL import Image

from tests.browser import HTML, extension

launch = extension("launch")
from press import live, pictures  # noqa: E402

SITE = "https://owner.github.io/book/"
SVG = (
    '<svg role="img" aria-label="{words}" width="72pt" height="36pt" viewBox="0 0 72 36">'
    '<path d="M0 0L72 0L72 36L0 36z" style="fill: {fill}" /></svg>'
)
PAGE = """<article><section id="a"><span id="first"></span><h1>1. A</h1>
<p>See <a href="rope.html#rope-base">its base</a>, <a href="#formula">(1.1)</a>,
<a href="glossary.html#term-slope">slopes</a> and <a href="#explore-one?m=0.5">a steep head</a>.</p>
<div class="cell tag_hide-input docutils container"><div class="cell_input"><pre>explore(f)</pre></div>
<div class="cell_output"><div class="output text_html"><figure class="pe-panel" id="explore-one">
<figcaption class="pe-title">One</figcaption><p class="pe-state">m 1</p><div class="pe-stills">
<div class="pe-still">SVG</div></div><p class="pe-caption">Drag it.</p></figure></div></div></div>
<p>It costs <span class="pe-evidence"><button><span>a tenth</span></button><sup>1</sup><span class="pe-proof">0.104
(0.061 to 0.147), "three" models. See <a href="cost.html#cost-measured">where it is measured</a>.</span></span>.</p>
<details class="sd-dropdown"><summary><span>Why <span class="math">\\(\\q{q}\\)</span> &lt; 1</span></summary>
<p>Because.</p></details>
<section class="depth" id="deep"><h2>Deep</h2><p>What it is.</p><p>More.</p>
<div class="cell docutils container"><div class="cell_input"><pre>1 + 1</pre></div>
<div class="cell_output"><div class="output text_plain"><div class="highlight"><pre>2</pre></div></div>
<div class="output text_html"><table><thead><tr><th>a</th></tr></thead>
<tbody><tr><td>|b|</td></tr></tbody></table></div>
</div></div></section>
<section id="exercises"><h2>Exercises</h2>
<div class="exercise admonition" id="ex"><p class="admonition-title">Exercise 1</p><p>Do it.</p></div>
<div class="solution dropdown admonition" id="sol">
<p class="admonition-title">Solution to<a href="#ex"> Exercise 1</a></p>
<p>So.</p><div class="cell docutils container"><div class="cell_input"><pre>print(3)</pre></div>
<div class="cell_output"><div class="output stream"><pre>3
</pre></div></div></div></div>
<p>Sources: none.</p></section>
<aside class="pe-notes"><p>Notes</p></aside></section></article>
""".replace("SVG", SVG.format(words="a line", fill="currentColor"))


def source() -> NotebookNode:
    cells = [
        new_code_cell(COLAB_CELL, metadata={"tags": ["remove-cell"]}),
        new_markdown_cell(MATHS_CELL, metadata={"tags": ["remove-cell"]}),
        new_markdown_cell("(first)=\n# A\n\nSee {ref}`its base <rope-base>`."),
        new_code_cell("explore(f)", metadata={"tags": ["hide-input"]}),
        new_markdown_cell("{.depth}\n## Deep"),
        new_code_cell("1 + 1"),
        new_code_cell("secret = 3", metadata={"tags": ["remove-cell"]}),
        new_code_cell("print(3)"),
    ]
    notebook = new_notebook(cells=cells, metadata=normalise.METADATA)
    for n, cell in enumerate(notebook.cells):
        cell.id = f"cell-{n}"
    return notebook


@pytest.fixture(scope="module")
def made() -> NotebookNode:
    commands = {"q": [r"\class{tex-query}{#1}", 1]}
    return live.notebook("chapters/a", PAGE, source(), [3, 5, 7], commands=commands, site=SITE)


def words(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def test_the_title_comes_first_and_then_all_code_in_its_order(made: NotebookNode) -> None:
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells[:3]] == ["markdown", "code", "code"]
    assert made.cells[0].source.splitlines()[2] == "# 1. A"
    assert f"[the page]({SITE}chapters/a.html)" in made.cells[0].source
    assert code(made) == code(source())
    assert [cell.execution_count for cell in made.cells if cell.cell_type == "code"] == [1, 2, 3, 4, 5]
    hidden = [cell.metadata.get("jupyter", {}).get("source_hidden", False) for cell in made.cells if "outputs" in cell]
    assert hidden == [True, True, False, True, False]


def test_links_lead_to_the_pages_or_stay_in_the_notebook(made: NotebookNode) -> None:
    first = words(made)[0]
    assert f"[its base]({SITE}chapters/rope.html#rope-base), [(1.1)](#formula)" in first
    assert f"slopes and [a steep head]({SITE}chapters/a.html#explore-one?m=0.5)" in first
    assert '<a id="a"></a><a id="first"></a>' in first


def test_a_number_has_its_evidence_at_hand_and_at_the_end(made: NotebookNode) -> None:
    proof = "0.104 (0.061 to 0.147), &quot;three&quot; models"
    assert f'<abbr title="{proof}">a tenth</abbr><sup>1</sup>.' in words(made)[1]
    assert words(made)[-2].endswith(f"## {live.EVIDENCE}")
    assert words(made)[-1].startswith("1. 0.104")
    assert f"[where it is measured]({SITE}chapters/cost.html#cost-measured)" in words(made)[-1]


def test_folds_fold_where_a_host_can(made: NotebookNode) -> None:
    text = "\n\n".join(words(made))
    colour = r"$\textcolor{royalblue}{q}$"
    assert f"<details>\n<summary>Why {colour} &lt; 1</summary>\n\nBecause.\n\n</details>" in text
    folded = [cell for cell in made.cells if cell.metadata.get("jp-MarkdownHeadingCollapsed")]
    titles = [re.findall(r"^#+ (.*)", cell.source, re.M) for cell in folded]
    assert titles == [["Deep"], ["Solution to [Exercise 1](#ex)"], [live.EVIDENCE]]
    assert folded[0].source.endswith("## Deep\n\nWhat it is.")  # which stays, as on the page
    assert made.metadata.colab.collapsed_sections == [cell.id for cell in folded] == [c.metadata.id for c in folded]
    assert "### Sources\n\nSources: none." in words(made)  # beside the last solution, and not in its fold


def test_outputs_are_what_the_page_shows(made: NotebookNode) -> None:
    panel, plain, printed = (cell.outputs for cell in made.cells if cell.get("outputs"))
    assert panel[0].data["text/markdown"].startswith("> **Panel: One.** At m 1: Drag it.")
    assert panel[1].data["text/plain"] == "a line"
    assert plain[0].data == {"text/plain": "2"}
    assert plain[1].data["text/markdown"] == "| a |\n|---|\n| \\|b\\| |"
    assert printed[0].text == "3\n"
    assert not any(
        "image/png" in output.get("data", {}) for cell in live.light(made).cells for output in cell.get("outputs", [])
    )


def test_cells_that_are_not_those_of_the_notebook_are_refused() -> None:
    for indices in ([3, 5], [5, 3, 7]):
        with pytest.raises(LookupError, match="chapters/a shows 3 cells of code"):
            live.notebook("chapters/a", PAGE, source(), indices, commands={}, site=SITE)


def test_a_drawing_needs_no_page_for_its_colours() -> None:
    fills = "currentColor", "var(--pe-query, #0068a3)"
    drawn = pictures.png([pictures.Shot(SVG.format(words=fill, fill=fill)) for fill in fills])
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    half, middle = image.width // 4, image.height // 2
    assert image.getpixel((half, middle)) == (0x1F, 0x23, 0x28)
    assert image.getpixel((3 * half, middle)) == (0x00, 0x68, 0xA3)
    assert image.getpixel((image.width // 2, middle)) == (255, 255, 255)
    with pytest.raises(ValueError, match="no drawing"):
        pictures.png([])


def test_launch_buttons_open_the_branch_of_the_live_form() -> None:
    hub, colab = "https://mybinder.org/v2", "https://colab.research.google.com/github/o/main/blob"
    for url, wanted in (
        (f"{hub}/gh/o/main/main?urlpath=lab/main", f"{hub}/gh/o/main/live?urlpath=lab/main"),
        (f"{hub}/gl/o%2Fmain/main?urlpath=lab/main", f"{hub}/gl/o%2Fmain/live?urlpath=lab/main"),
        (f"{colab}/main/chapters/a.ipynb", f"{colab}/live/chapters/a.ipynb"),
    ):
        assert launch.at(url, "main", "live") == wanted


# ---- what the build has written --------------------------------------------------------------------------------------

STEMS = sorted(path.stem for path in CHAPTERS.glob("*.ipynb"))
#: What the book's Markdown has, and Markdown does not.
SYNTAX = {
    "a role": r"\{[a-z][a-z:]*\}`",
    "a directive": r"^[ >]*(?::{3,}|`{3,}\s*\{)",
    "a target": r"^[ >]*\([\w-]+\)=",
    "attributes": r"^[ >]*\{[.#][^}]*\}\s*$|^#.*\{[.#][^}]*\}",
    "an option": r"^[ >]*:[a-z-]+: ",
    "a label of an equation": r"^[ >]*\$\$ *\(",
    "a command of the book": r"\\(?:q|k|v|p|T|R|C|e|i|softmax|diag|class)(?![A-Za-z])",
    "a mark": r"[\ue000-\uf8ff]",
}
CODE = re.compile(r"^(`{3,})(?!\s*\{)[^`\n]*\n.*?^\1|(?<![`}])(`{1,2})(?!`)[^`]+?\2(?!`)", re.S | re.M)
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^)]*\)")


def complaints(text: str) -> Iterator[str]:
    """What of a piece of Markdown would be shown as it is written."""
    bare = CODE.sub("code", text)
    for name, pattern in SYNTAX.items():
        if found := re.search(pattern, bare, re.M):
            yield f"{name}: {bare[max(0, found.start() - 30) : found.end() + 30]!r}"


def texts(notebook: NotebookNode) -> Iterator[str]:
    yield from words(notebook)
    for cell in notebook.cells:
        yield from (
            each.data["text/markdown"] for each in cell.get("outputs", []) if "text/markdown" in each.get("data", {})
        )


@pytest.mark.parametrize(
    "text",
    ["{glue:text}`a`", ":::{dropdown} A", "> ```{exercise} A", "(a-b)=\n# A", "{.depth}\n## A", "# A {#a}",
     ":class: dropdown", "$$\nx\n$$ (eq)", r"$\q{x}$", live.mark("head")],
)  # fmt: skip
def test_what_is_left_of_the_books_markdown_is_seen(text: str) -> None:
    assert list(complaints(text))


@pytest.mark.parametrize("text", ["`{ref}` is a role", "```python\n{x: 1}\n```", "(a) One, $f(x)=1$.", "[a](#b)"])
def test_plain_markdown_is_left_alone(text: str) -> None:
    assert not list(complaints(text))


@pytest.fixture(scope="module")
def built(book: Path) -> Path:
    """The folder of the live notebooks, beside the built book."""
    return book.parent / "live/chapters"


@pytest.mark.parametrize("stem", STEMS)
def test_a_chapter_reads_well_live(built: Path, stem: str) -> None:
    notebook = nbformat.read(built / f"{stem}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert code(notebook) == code(nbformat.read(CHAPTERS / f"{stem}.ipynb", as_version=4))
    assert not [each for text in texts(notebook) for each in complaints(text)]
    anchors = {name for text in words(notebook) for name in re.findall(r'<a id="([^"]*)"></a>', text)}
    for text in texts(notebook):
        for address in LINK.findall(CODE.sub("", text)):
            if address.startswith("#"):
                assert address[1:] in anchors, f"{stem} has no place {address}"
            elif not re.match(r"(?:https?|mailto):", address):
                path = re.sub(r"[?#].*", "", address)
                assert (HTML / "_sources/chapters" / path).is_file(), f"{stem}: {address} leads nowhere"
    pictures_ = [
        o.data["image/png"] for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})
    ]
    for picture in pictures_:
        assert base64.b64decode(picture).startswith(b"\x89PNG")
    offered = nbformat.read(HTML / f"_sources/chapters/{stem}.ipynb", as_version=4)
    assert [cell.source for cell in offered.cells] == [cell.source for cell in notebook.cells]
    assert (built / f"{stem}.ipynb").stat().st_size < 800_000


def test_there_are_no_others_and_panels_have_pictures(built: Path) -> None:
    assert sorted(path.stem for path in built.glob("*.ipynb")) == STEMS
    shown = sum(path.read_text(encoding="utf-8").count('"image/png"') for path in built.glob("*.ipynb"))
    panels = sum(path.read_text(encoding="utf-8").count("**Panel: ") for path in built.glob("*.ipynb"))
    assert panels > len(STEMS) and shown > panels / 2


@pytest.mark.parametrize("stem", ["refresher", pytest.param("index", marks=pytest.mark.pages)])
def test_a_live_notebook_runs(built: Path, stem: str) -> None:
    notebook = nbformat.read(built / f"{stem}.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(CHAPTERS)}}
    ).execute()
