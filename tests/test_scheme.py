"""`make scheme`, in a copy of the tree: what it writes, and that the test of wholeness asks for all that is left."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import normalise
import pytest
import scheme
from test_plot import distinct
from test_whole import ITEMS

from posenc import SCHEMES
from tests.helpers import PAPERS, contrast

ROOT = Path(__file__).resolve().parents[1]
FILLED = {"export", "colour", "contents", "mutants", "picture"}  # what needs no words


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a scheme touches, without what was built or trained."""
    home = tmp_path_factory.mktemp("tree")
    left_out = shutil.ignore_patterns("__pycache__", "static", "weights", "*.json", ".ipynb_checkpoints")
    for folder in ("posenc", "evidence", "tests", "tools", "chapters", ".github"):
        shutil.copytree(ROOT / folder, home / folder, ignore=left_out)
    for file in ("_toc.yml", "pyproject.toml", "references.bib", "conftest.py"):
        shutil.copy(ROOT / file, home)
    return home


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/scheme.py", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60)


def state(tree: Path) -> dict[str, bytes]:
    paths = (path for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(tree)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("name", "title", "part", "said"),
    [
        ("Example", "Example", "Distance", "lower-case"),
        ("2d", "2d", "Distance", "lower-case"),
        ("class", "Class", "Distance", "lower-case"),
        ("../example", "Example", "Distance", "lower-case"),
        ("rope", "RoPE", "Distance", "posenc/schemes/rope.py is there already"),
        ("grid", "Grid", "Distance", "is there already"),
        ("order", "Order", "Distance", "order.py is there already"),
        ("example", "Example", "Nowhere", "use one of Foundations"),
        ("example", 'a "title"', "Distance", "cannot be a title"),
    ],
)
def test_what_cannot_be_is_refused(tree: Path, name: str, title: str, part: str, said: str) -> None:
    with pytest.raises(scheme.Refused, match=re.escape(said)):
        scheme.skeleton(tree, name, title, part)


def test_an_entry_that_finds_no_place_is_named(tree: Path) -> None:
    page = tree / "chapters/notation.md"
    words = page.read_text(encoding="utf-8")
    page.write_text(words.replace("## Other signs", "## Further signs"), encoding="utf-8")
    try:
        with pytest.raises(scheme.Refused, match=r"chapters/notation\.md"):
            scheme.skeleton(tree, "example", "Example", "Distance")
    finally:
        page.write_text(words, encoding="utf-8")


def test_a_refusal_is_one_line_and_writes_nothing(tree: Path) -> None:
    before = state(tree)
    done = make(tree, "rope")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert state(tree) == before


@pytest.mark.pages
def test_a_new_scheme_is_whole_when_all_skeletons_are_filled(tree: Path) -> None:
    before = state(tree)
    done = make(tree, "two_sided", "--title", "KERPLE")
    assert done.returncode == 0, done.stderr
    changed = [path for path, data in state(tree).items() if before.get(path) != data]
    assert sorted(line.split()[1] for line in done.stdout.splitlines()[: len(changed)]) == sorted(changed)
    assert normalise.is_normal(tree / "chapters/two_sided.ipynb")
    assert normalise.is_normal(tree / "chapters/claims.ipynb")
    python = [path for path in changed if path.endswith(".py")]
    for path in python:
        compile((tree / path).read_text(encoding="utf-8"), path, "exec")
    for check in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *check, "--no-cache", *python]
        assert subprocess.run(ruff, cwd=tree, capture_output=True).returncode == 0, check

    tests = [sys.executable, "-m", "pytest", "tests/test_whole.py", "-k", "two_sided", "-p", "no:cacheprovider"]
    surroundings = {**os.environ, "PYTHONPATH": str(tree)}
    told = subprocess.run(tests, cwd=tree, env=surroundings, capture_output=True, text=True, timeout=300).stdout
    failed = set(re.findall(r"^FAILED \S+\[two_sided-([a-z ]+)\]", told, re.M))
    assert failed == set(ITEMS) - FILLED, told[-3000:]


def test_free_colours_pass_the_tests_of_colours_for_three_schemes_more() -> None:
    registry = (ROOT / "posenc/schemes/registry.py").read_text(encoding="utf-8")
    colours = [found[1] for found in re.finditer(r'"(#[0-9a-f]{6})"', registry)]
    assert len(colours) == len(SCHEMES)
    for _ in range(3):
        colours.append(scheme.free_colour(registry))
        registry += f'"{colours[-1]}"'
    distinct(dict(zip(range(len(colours)), colours, strict=True)))
    assert min(contrast(found, paper) for found in colours for paper in PAPERS) >= 3


def test_where_the_book_tells_a_scheme_already_is_listed(tree: Path) -> None:
    found = scheme.told(tree, "alibi", "ALiBi")
    assert found["chapters/alibi.ipynb"] > 20 and found["chapters/glossary.md"] and "chapters/video.ipynb" not in found
    assert scheme.told(tree, "example_scheme", "Example-Scheme") == {}
