"""Each scheme is whole: source, tests, a chapter with panels and exercises, claims, results, and entries in all lists.

`test_a_scheme_is_whole[kerple-notation]` fails while the scheme has no entry in the notation, or while the entry still
has the words that `make scheme` wrote. So the failing tests of a new scheme are the list of work that is left.

NoPE is the base class, and xPos a variant of RoPE: both have their place in the chapter on what came after RoPE.
"""

import ast
import importlib
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
import pytest
from scheme import UNWRITTEN

import posenc
from posenc import ENCODINGS, SCHEMES, plot
from posenc.exercises import names as exercises
from posenc.lab import results, runs

ROOT = Path(__file__).resolve().parents[1]
HOME = {"nope": "encoding"}  # the file of a scheme that has none of its name
CHAPTER = {"nope": "deployed", "xpos": "proposed"}
CLAIMS = {"nope": "order", "xpos": "frontier-xpos"}  # where what is claimed of them is derived
UNCHANGED = {"nope": "the base class opens no door, so no deliberate mistake can be made in it"}
SCREEN = 60  # lines of code that fit one screen, docstrings and blank lines aside
KINDS = ("compute", "explain", "implement")
KEPT = {"extrapolation": "epoch", "generalisation": "cpu"}  # experiments of every scheme, and their presets


def read(path: str) -> str:
    file = ROOT / path
    assert file.is_file(), f"{path} is missing"
    return file.read_text(encoding="utf-8")


@cache
def chapter(stem: str) -> tuple[str, str]:
    """The prose and the code of a chapter."""
    notebook = nbformat.reads(read(f"chapters/{stem}.ipynb"), as_version=4)
    markdown, code = (
        "\n".join(cell.source for cell in notebook.cells if cell.cell_type == kind) for kind in ("markdown", "code")
    )
    return markdown, code


def chapters() -> list[str]:
    return sorted(path.stem for path in (ROOT / "chapters").glob("*.ipynb") if path.stem != "index")


def lines_of_code(text: str) -> int:
    """Lines that hold code: no docstrings, comments or blank lines. Parameters are one line."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        if isinstance(node, ast.FunctionDef):
            told |= set(range(node.lineno + 1, node.body[0].lineno))
    rows = enumerate(text.splitlines(), 1)
    return sum(1 for n, row in rows if row.strip() and not row.strip().startswith("#") and n not in told)


def class_of(name: str) -> type[posenc.Encoding]:
    return type(ENCODINGS[name](model_dim=16, heads=2, head_dim=8, length=8))


def public(name: str) -> list[str]:
    """The names that the scheme's file gives to `posenc`: its class and its functions."""
    if name == "nope":
        return ["NoPE"]
    module = importlib.import_module(f"posenc.schemes.{name}")
    found = [one for one, it in vars(module).items() if getattr(it, "__module__", "") == module.__name__]
    found = [one for one in found if one in posenc.__all__]
    assert class_of(name).__name__ in found, f"posenc/__init__.py does not export {class_of(name).__name__}"
    return found


def parts(text: str, pattern: str, path: str, *names: str) -> str:
    """The parts of a page that contain one of the names: sections, rows or entries, as the pattern divides them."""
    word = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))
    found = [part for part in re.split(pattern, text, flags=re.M) if word.search(part)]
    assert found, f"{path} has nothing on {' or '.join(names)}"
    return "\n".join(found)


# ---- the list --------------------------------------------------------------------------------------------------------


def interface(name: str) -> str:
    made = "NoPE" if name == "nope" else class_of(name).__name__
    text = read("chapters/api.md")
    found = re.search(rf"^\.\. (autoclass|py:data):: {made}\b", text, re.M)
    assert found is not None, f"chapters/api.md has no entry {made}"
    return parts(text, r"^(?=## )", "chapters/api.md", found[0])


def colour(name: str) -> str:
    same = [other for other, scheme in SCHEMES.items() if scheme.colour == SCHEMES[name].colour]
    assert same == [name], f"{' and '.join(same)} have the same colour in posenc/schemes/registry.py"
    assert plot.COLOURS[name] == SCHEMES[name].colour, f"posenc/pictures/plot.py gives {name} another colour"
    return SCHEMES[name].title


def exercise(name: str) -> str:
    stem = CHAPTER.get(name, name)
    assert any(one.startswith(f"{stem}_") for one in exercises()), (
        f"posenc/exercises/{stem}.py has no exercise whose name begins with {stem}_"
    )
    return read(f"posenc/exercises/{stem}.py")


def in_the_chapter(name: str) -> str:
    stem = CHAPTER.get(name, name)
    prose, code = chapter(stem)
    made = "NoPE" if name == "nope" else class_of(name).__name__
    assert re.search(rf"\b{made}\b", code), f"chapters/{stem}.ipynb never uses {made}"
    assert f"({stem})=" in prose, f"chapters/{stem}.ipynb has no label: write ({stem})= before its title"
    return prose + code


def contents(name: str) -> str:
    stem = CHAPTER.get(name, name)
    assert f"chapters/{stem}\n" in read("_toc.yml"), f"_toc.yml has no chapters/{stem}"
    return stem


def first_page(name: str) -> str:
    return parts(chapter("index")[0], "\n", "chapters/index.ipynb", f"{{doc}}`{CHAPTER.get(name, name)}`")


def cited(name: str) -> str:
    """A source that the bibliography has, at the end of the chapter or in its text."""
    prose, _ = chapter(CHAPTER.get(name, name))
    keys = {key for keys in re.findall(r"\{cite:[tp]\}`([^`]+)`", prose) for key in keys.split(",")}
    assert keys, f"chapters/{CHAPTER.get(name, name)}.ipynb cites no source: put it into references.bib"
    known = set(re.findall(r"^@\w+\{([^,]+),", read("references.bib"), re.M))
    assert keys <= known, f"references.bib has no {', '.join(sorted(keys - known))}"
    return ""


def claim(name: str) -> str:
    prose, code = chapter("claims")
    stem = CLAIMS.get(name, name)
    link = rf"\{{(ref|eq|doc)\}}`[^`]*\b{stem}\b|\]\({stem}\.ipynb\)"
    found = [part for part in prose.split("\n\n") if re.search(link, part)]
    assert found, (
        f"no claim in chapters/claims.ipynb leads to {stem}: write a row of ROWS, one of WHY, its number in SCHEME, "
        f"its label and text with a link to {stem}, and settle(number, judge(...)) in a cell"
    )
    title = SCHEMES[name].title
    return "\n".join([*found, *(line for line in code.splitlines() if title in line)])


def notation(name: str) -> str:
    return parts(read("chapters/notation.md"), r"^(?=## |\|)", "chapters/notation.md", *words(name))


def rosetta(name: str) -> str:
    return parts(read("chapters/rosetta.md"), "\n", "chapters/rosetta.md", *words(name))


def glossary(name: str) -> str:
    title = SCHEMES[name].title  # a term may go on: "learned table"; or stand in an explanation: "Shaw's"
    return parts(read("chapters/glossary.md"), "\n\n", "chapters/glossary.md", title, title.removesuffix(" bias"))


def words(name: str) -> list[str]:
    """What a table may call a scheme: its public names, and its title if that is a name and no common word."""
    title = SCHEMES[name].title
    return [*public(name), *[title] * (title != title.lower())]


def mutants(name: str) -> str:
    if name in UNCHANGED:
        pytest.skip(UNCHANGED[name])
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["mutmut"]
    listed = {"only_mutate": f"posenc/schemes/{name}.py", "pytest_add_cli_args_test_selection": f"tests/test_{name}.py"}
    for key, path in listed.items():
        assert path in settings[key], f"pyproject.toml: [tool.mutmut] {key} lacks {path}"
    return ""


def picture(name: str) -> str:
    home = HOME.get(name, name)
    drawn = re.findall(r'<text class="small"[^>]*>([^<]*)', read(".github/architecture.svg"))
    assert re.search(rf"\b{home}\b", " ".join(drawn)), f".github/architecture.svg does not name {home}"
    return ""


def trained(name: str) -> str:
    wanted = [run for kind, preset in KEPT.items() for run in runs(kind, preset)]
    plain = [run for run in wanted if run.settings.scheme == name and not run.settings.options]  # no control
    paths = [results.path_of(run) for run in plain]
    missing = [path.name for path in paths if not path.is_file()]
    assert paths and not missing, f"{len(missing)} results are missing, from {missing[:1]}: run make evidence"
    return ""


#: What a scheme has: a function from its name to the text of the place, which fails if the place is missing.
ITEMS: dict[str, Callable[[str], str]] = {
    "source": lambda name: read(f"posenc/{'_attention' if name in HOME else 'schemes'}/{HOME.get(name, name)}.py"),
    "tests": lambda name: read(f"tests/test_{HOME.get(name, name)}.py"),
    "export": lambda name: " ".join(public(name)),
    "colour": colour,
    "exercise": exercise,
    "solution": lambda name: read(f"tests/solutions/{CHAPTER.get(name, name)}.py"),
    "chapter": in_the_chapter,
    "contents": contents,
    "first page": first_page,
    "bibliography": cited,
    "api": interface,
    "notation": notation,
    "rosetta": rosetta,
    "glossary": glossary,
    "claim": claim,
    "mutants": mutants,
    "picture": picture,
    "results": trained,
}


@pytest.mark.parametrize(
    ("name", "item"), [pytest.param(name, item, id=f"{name}-{item}") for name in SCHEMES for item in ITEMS]
)
def test_a_scheme_is_whole(name: str, item: str) -> None:
    assert UNWRITTEN not in ITEMS[item](name).casefold(), (
        f"{item}: the skeleton's words, {UNWRITTEN!r}, are still there; CONTRIBUTING.md says what takes their place"
    )


# ---- what the parts are like -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", chapters())
def test_a_chapter_has_a_panel_and_exercises_of_three_kinds(stem: str) -> None:
    prose, code = chapter(stem)
    assert re.search(r"^(explore|learn|play)\(", code, re.M), f"{stem} has no panel"
    for kind in KINDS:
        assert f":class: {kind}" in prose, f"{stem} has no exercise of the kind {kind!r}"
    started = set(re.findall(r"\{exercise(?:-start)?\}[^\n]*\n:label: (\S+)", prose))
    solved = set(re.findall(r"\{solution(?:-start)?\} (\S+)", prose))
    assert started == solved, f"{stem}: exercise without solution, or the reverse: {', '.join(started ^ solved)}"
    assert len(started) >= len(KINDS), f"{stem} has {len(started)} exercises, and {len(KINDS)} kinds"


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_scheme_s_class_is_printed_and_fits_a_screen(name: str) -> None:
    _, code = chapter(CHAPTER.get(name, name))
    assert re.search(r"\bshow\(", code), f"chapters/{CHAPTER.get(name, name)}.ipynb prints no source: call show(...)"
    made = type(ENCODINGS[name](model_dim=16, heads=2, head_dim=8, length=8))
    lines = lines_of_code(textwrap.dedent(inspect.getsource(made)))
    assert lines <= SCREEN, f"{made.__name__} has {lines} lines, a screen {SCREEN}: move mathematics into functions"


def test_every_chapter_is_in_the_contents_and_on_the_first_page() -> None:
    contents = (ROOT / "_toc.yml").read_text()
    first, _ = chapter("index")
    for stem in chapters():
        assert f"chapters/{stem}\n" in contents, f"_toc.yml has no chapters/{stem}"
        assert f"{{doc}}`{stem}`" in first, f"chapters/index.ipynb has no question with {{doc}}`{stem}`"
