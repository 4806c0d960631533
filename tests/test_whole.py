"""Each scheme is whole: source, tests, a chapter with panels and exercises, and claims, all under one stem.

NoPE is the base class, and xPos a variant of RoPE: both have their place in the chapter on what came after RoPE.
"""

import ast
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path

import nbformat
import pytest

from posenc import ENCODINGS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = {"nope": "encoding"}
CHAPTER = {"nope": "frontier", "xpos": "frontier"}
CLAIMS = {"nope": "order", "xpos": "frontier-xpos"}  # where what is claimed of them is derived
SCREEN = 60  # lines of code that fit one screen, docstrings and blank lines aside
KINDS = ("compute", "explain", "implement")


@cache
def chapter(stem: str) -> tuple[str, str]:
    """The prose and the code of a chapter."""
    notebook = nbformat.read(ROOT / f"chapters/{stem}.ipynb", as_version=4)
    markdown, code = (
        "\n".join(cell.source for cell in notebook.cells if cell.cell_type == kind) for kind in ("markdown", "code")
    )
    return markdown, code


def chapters() -> list[str]:
    return sorted(path.stem for path in (ROOT / "chapters").glob("*.ipynb"))


def lines_of_code(text: str) -> int:
    """Lines that hold code: no docstrings, comments or blank lines."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    rows = enumerate(text.splitlines(), 1)
    return sum(1 for n, row in rows if row.strip() and not row.strip().startswith("#") and n not in told)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_scheme_has_a_source_and_tests(name: str) -> None:
    stem = SOURCE.get(name, name)
    assert (ROOT / f"posenc/{stem}.py").is_file()
    assert (ROOT / f"tests/test_{stem}.py").is_file()


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_scheme_has_a_chapter_that_names_and_runs_it(name: str) -> None:
    stem = CHAPTER.get(name, name)
    prose, code = chapter(stem)
    made = type(ENCODINGS[name](model_dim=16, heads=2, head_dim=8, length=8)).__name__
    made = "NoPE" if made == "Encoding" else made
    assert re.search(rf"\b{made}\(|\b{made}\b", code), f"{stem} never uses {made}"
    assert f"({stem})=" in prose


@pytest.mark.parametrize("stem", chapters())
def test_a_chapter_has_a_panel_and_exercises_of_three_kinds(stem: str) -> None:
    prose, code = chapter(stem)
    assert re.search(r"^explore\(", code, re.M), f"{stem} has no panel"
    for kind in KINDS:
        assert f":class: {kind}" in prose, f"{stem} has no exercise of the kind {kind!r}"
    started = set(re.findall(r"\{exercise(?:-start)?\}[^\n]*\n:label: (\S+)", prose))
    solved = set(re.findall(r"\{solution(?:-start)?\} (\S+)", prose))
    assert started == solved
    assert len(started) >= len(KINDS)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_scheme_s_class_is_printed_and_fits_a_screen(name: str) -> None:
    _, code = chapter(CHAPTER.get(name, name))
    assert re.search(r"\bshow\(", code)
    made = type(ENCODINGS[name](model_dim=16, heads=2, head_dim=8, length=8))
    assert lines_of_code(textwrap.dedent(inspect.getsource(made))) <= SCREEN


@pytest.mark.parametrize("name", ENCODINGS)
def test_claims_are_made_about_a_scheme(name: str) -> None:
    prose, _ = chapter("claims")
    stem = CLAIMS.get(name, name)
    assert re.search(rf"\{{(ref|eq|doc)\}}`[^`]*\b{stem}\b|\]\({stem}\.ipynb\)", prose), f"no claim leads to {stem}"


def test_every_chapter_is_in_the_contents_and_on_the_first_page() -> None:
    contents = (ROOT / "_toc.yml").read_text()
    first = (ROOT / "chapters/index.md").read_text()
    for stem in chapters():
        assert f"chapters/{stem}\n" in contents
        assert f"{{doc}}`{stem}`" in first
