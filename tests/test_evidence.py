"""Numbers that carry their proof: the role, what opens, and what paper has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from posenc.book.numbers import MIME, Evidence, evidence
from posenc.lab.intervals import Interval
from tests.browser import Opened

ROOT = Path(__file__).resolve().parents[1]
CONF = f"""
import sys
sys.path[:0] = [{str(ROOT / "chapters/_ext")!r}]
extensions = ["myst_nb", "evidence"]
nb_execution_mode = "off"
html_static_path = [{str(ROOT / "chapters/assets")!r}]
html_css_files = ["book.css"]
html_js_files = ["evidence.js"]
"""
KEPT = {
    "rise": Evidence("a tenth of a nat", "+0.104 (+0.061 to +0.147)", "three models each, 64 texts", "losses"),
    "runs": Evidence("a third", "6 of 18 runs"),
}
TEXT = """\
# Page

The loss rises by {evidence}`rise`, in {evidence}`runs` of the runs.

(losses)=
## Losses

A section.
"""
Open = Callable[..., Opened]
OPEN = "document.querySelectorAll('.pe-proof:popover-open').length"


def output(name: str, held: Evidence) -> NotebookNode:
    """What a cell leaves that keeps the number, as myst-nb's glue writes it."""
    prefix = "application/papermill.record/"
    data = {prefix + kind: value for kind, value in held._repr_mimebundle_().items()}
    return new_output("display_data", data, metadata={"scrapbook": {"name": name, "mime_prefix": prefix}})


def build(folder: Path, text: str = TEXT) -> subprocess.CompletedProcess[str]:
    (folder / "source").mkdir()
    (folder / "source/conf.py").write_text(CONF, encoding="utf-8")
    cell = new_code_cell("", outputs=[output(name, held) for name, held in KEPT.items()])
    nbformat.write(new_notebook(cells=[cell, new_markdown_cell(text)]), folder / "source/index.ipynb")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", "source", "html"]
    return subprocess.run(command, cwd=folder, env=dict(os.environ),
                          capture_output=True, text=True, timeout=120)  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder / "html/index.html"


def test_the_sentence_has_the_words_and_their_proof(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert re.search(r"<button[^>]*>\s*<span>a tenth of a nat</span></button><sup[^>]*>1</sup>", html)
    (proof,) = re.findall(r'<span class="pe-proof" id="evidence-1"[^>]*>(.*?)</span></span>', html)
    assert proof.startswith("+0.104 (+0.061 to +0.147), three models each, 64 texts. See ")
    assert re.search(r'<a class="reference internal" href="#losses">.*?where it is measured', proof)
    assert ">6 of 18 runs." in html


def test_the_notes_of_paper_say_the_same(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    (notes,) = re.findall(r'<aside class="pe-notes".*?</aside>', html, re.S)
    lines = re.findall(r"<li>(.*?)</li>", notes, re.S)
    assert len(lines) == 2 and "+0.104 (+0.061 to +0.147)" in lines[0] and 'href="#losses"' in lines[0]
    assert "6 of 18 runs." in lines[1]


def test_a_number_that_no_cell_keeps_fails_the_build(tmp_path: Path) -> None:
    done = build(tmp_path, "# Page\n\nIt rises by {evidence}`fall`.\n")
    assert done.returncode and "no cell of this page keeps the number fall" in done.stderr


@pytest.mark.parametrize(("words", "exact"), [("", "1"), ("a third", " ")])
def test_both_halves_must_say_something(words: str, exact: str) -> None:
    with pytest.raises(ValueError, match="both must say something"):
        evidence("name", words, exact)


def test_a_bundle_has_the_words_for_text_and_all_for_the_page() -> None:
    held = Evidence("a third", format(Interval(0.3, 0.2, 0.4), ""), "ten runs", "table")._repr_mimebundle_()
    assert held["text/plain"] == "a third"
    assert held[MIME] == {"words": "a third", "exact": "0.30 (0.20 to 0.40)", "about": "ten runs", "link": "table"}


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_pointer_focus_tap_and_escape(page: Path, open_page: Open) -> None:
    opened = open_page(page.as_uri(), viewport={"width": 360, "height": 640})
    of = opened.page
    words = of.get_by_role("button", name="a tenth of a nat")
    words.hover()
    of.wait_for_function(f"{OPEN} === 1")
    box = of.locator("#evidence-1").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
    of.locator("#evidence-1").hover()  # the pointer may go there
    of.wait_for_timeout(300)
    assert of.evaluate(OPEN) == 1
    of.mouse.move(0, 600)
    of.wait_for_function(f"{OPEN} === 0")
    words.click()  # stays until another is opened, or Escape
    of.mouse.move(0, 600)
    of.wait_for_timeout(300)
    assert of.evaluate(OPEN) == 1 and words.get_attribute("aria-expanded") == "true"
    of.keyboard.press("Escape")
    assert of.evaluate(OPEN) == 0 and words.get_attribute("aria-expanded") == "false"
    words.click()
    of.get_by_role("button", name="a third").press("Enter")
    assert of.evaluate(OPEN) == 1 and of.locator("#evidence-2").is_visible()
    of.keyboard.press("Escape")
    of.keyboard.press("Shift+Tab")  # back, past the link that was in its proof, to the words before
    of.keyboard.press("Tab")
    assert of.evaluate(OPEN) == 1
    assert not of.locator(".pe-notes").is_visible() and not opened.problems


@pytest.mark.browser
def test_paper_and_a_page_without_scripts_have_the_notes(page: Path, open_page: Open) -> None:
    opened = open_page(page.as_uri())
    opened.page.emulate_media(media="print")
    assert opened.page.locator(".pe-notes").is_visible() and opened.page.locator("sup").first.is_visible()
    plain = open_page(page.as_uri(), java_script_enabled=False)
    assert plain.page.locator(".pe-notes").is_visible() and plain.page.locator("sup").first.is_visible()
