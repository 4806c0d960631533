"""Begins a new scheme: `make scheme NAME=kerple` writes every file and entry that a scheme needs, as skeletons.

Skeletons run, and each contains the words in UNWRITTEN. `pytest tests/test_whole.py -k kerple` has one test for each
file and entry, and fails until these words are gone. So the failing tests are the list of work that is left. What the
book says of the scheme already is listed, since it moves into the new chapter.

`--part` names the part of the book, in `_toc.yml`, whose last chapter the new one becomes; `--title` is the name of the
scheme in figures and tables. Nothing is written if anything is in the way.
"""

from __future__ import annotations

import argparse
import keyword
import math
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import nbformat
import normalise

from posenc.pictures.plot import ROLES

ROOT = Path(__file__).resolve().parents[1]

UNWRITTEN = "as yet unwritten"
ALIKE = 0.11  # OKLab: schemes nearer to each other look alike in a picture; there is room for four schemes more
HUES = 12.0  # degrees: a hue that is nearer to a role's looks like the role
VIVID = 0.26  # the chroma of the most vivid scheme

SOURCE = '''\
"""{title}: as yet unwritten, the idea in one line (Author et al., year)."""

import torch

from posenc._attention.encoding import Encoding
from posenc._require import require_heads


class {Class}(Encoding):
    """The formula, as yet unwritten: what it means in a few words.

    Args:
        heads: Number of heads, H.
        device, dtype: Of parameters and buffers, as yet unwritten.

    Raises:
        ValueError: If heads is not positive.

    Example:
        >>> {Class}(heads=8)
        {Class}(heads=8)

    References:
        Author et al. (year), section.
    """

    def __init__(
        self,
        heads: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_heads(heads)
        self.heads = heads

    # as yet unwritten: override the doors that the scheme opens (embed, query, key, score_bias, rescale, mix)

    def extra_repr(self) -> str:
        return f"heads={{self.heads}}"
'''

TEST = '''\
"""posenc.{name} against loops and the formula of the paper."""

import pytest

from posenc import {Class}


def test_the_formula() -> None:
    assert {Class}(4).doors, "as yet unwritten: compare the door with a loop over positions"


def test_a_number_of_heads_is_needed() -> None:
    with pytest.raises(ValueError, match="heads"):
        {Class}(0)
'''

EXERCISE = '''\
"""Exercises of the chapter on {title}."""

import torch

from posenc.exercises.attempt import Attempt, expect


def _falls(bias: Attempt) -> None:
    found = bias.tensor(torch.arange(8), shape=(8,))
    expect((found.diff() < 0).all(), f"{{bias.last}} is {{found.tolist()}}")


EXERCISES = {{
    "{name}_bias": [
        ("as yet unwritten: a property that the reader's function must have", _falls),
    ],
}}
'''

SOLUTION = """\
# as yet unwritten: the solution of each exercise, and mistakes with words of the property that each breaks
SOLUTIONS = {{"{name}_bias": lambda offset: -offset}}
WRONG = {{"{name}_bias": [(lambda offset: offset, "a property")]}}
"""

#: The cells of the chapter: Markdown as text, code as a tuple of its text and its tags.
CELLS: list[str | tuple[str, list[str]]] = [
    "({name})=\n# {title}\n\nThe question, as yet unwritten, in one plain sentence, and its answer in another.",
    (
        "import torch\n\nfrom posenc import {Class}, Lines, explore\nfrom posenc.exercises import check\n"
        "from posenc.book.notebook import show",
        [],
    ),
    (
        "def bias(rate=0.5):\n    return -rate * torch.arange(64)  # as yet unwritten\n\n\n"
        'explore(bias, Lines(x="distance", y="bias"), rate=(0.1, 2.0), name="{name}-bias")',
        ["hide-input"],
    ),
    "Drag the slider: as yet unwritten, what the reader sees happen.\n\n"
    "({name}-minute)=\n## In one minute\n\nThe formula, as yet unwritten, with each symbol named beside it. "
    "The next cell, as yet unwritten, has the function to copy, asserted equal to `{Class}`.",
    "({name}-problem)=\n## What goes wrong without it\n\nAs yet unwritten: an experiment with numbers.",
    "({name}-derivation)=\n## The derivation\n\nAs yet unwritten, with four tokens by hand.",
    "({name}-source)=\n{{.depth}}\n## The source\n\nThe file of the package, for readers who implement the scheme.",
    ("show({Class})", []),
    "({name}-practice)=\n## In practice\n\nAs yet unwritten: configuration keys, kernels, cache, precision.",
    "## In five lines\n\n1. As yet unwritten.\n\n({name}-exercises)=\n## Exercises\n\n"
    "```{{exercise-start}} A number by hand\n:label: {name}-ex-hand\n:class: compute\n```\n"
    "*Compute.* As yet unwritten.\n```{{exercise-end}}\n```\n\n"
    "```{{solution-start}} {name}-ex-hand\n:class: dropdown\n```\nAs yet unwritten.\n```{{solution-end}}\n```\n\n"
    "```{{exercise-start}} A reason\n:label: {name}-ex-reason\n:class: explain\n```\n"
    "*Explain.* As yet unwritten.\n```{{exercise-end}}\n```\n\n"
    "```{{solution-start}} {name}-ex-reason\n:class: dropdown\n```\nAs yet unwritten.\n```{{solution-end}}\n```\n\n"
    "```{{exercise-start}} A function\n:label: {name}-ex-bias\n:class: implement\n```\n"
    "*Implement.* As yet unwritten. The identity fails.",
    ('check("{name}_bias", lambda offset: offset)', []),
    "```{{exercise-end}}\n```\n\n```{{solution-start}} {name}-ex-bias\n:class: dropdown\n```\nAs yet unwritten.",
    ('check("{name}_bias", lambda offset: -offset)', []),
    "```{{solution-end}}\n```\n\n"
    "Sources: as yet unwritten. All works cited are in the [bibliography](bibliography.md).",
]


class Refused(Exception):
    """Why the scheme cannot be begun, and what to do."""


def class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def told(root: Path, name: str, title: str) -> dict[str, int]:
    """How often each page of the book speaks of the scheme already, by its title or its name."""
    word = re.compile(rf"(?<!\w)({re.escape(title)}|{re.escape(name)})(?!\w)", re.I)
    counts = {}
    for path in sorted((root / "chapters").glob("*.*")):
        if path.suffix == ".ipynb":
            cells = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4).cells
            text = "\n".join(cell.source for cell in cells)
        elif path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
        else:
            continue
        if count := len(word.findall(text)):
            counts[f"chapters/{path.name}"] = count
    return counts


def skeleton(root: Path, name: str, title: str, part: str) -> dict[Path, str]:
    """All files that are written or changed, with their new text. Raises Refused, before anything is written."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise Refused(f"{name!r} cannot name a module: use lower-case letters, digits and _, such as kerple")
    if not re.fullmatch(r"[\w .-]+", title):
        raise Refused(f"{title!r} cannot be a title: use letters, digits, spaces, dots and hyphens")
    new = {
        path: text.format(name=name, title=title, Class=class_name(name))
        for path, text in (
            (f"posenc/schemes/{name}.py", SOURCE), (f"tests/test_{name}.py", TEST),
            (f"posenc/exercises/{name}.py", EXERCISE), (f"tests/solutions/{name}.py", SOLUTION),
        )
    }  # fmt: skip
    new[f"chapters/{name}.ipynb"] = chapter(name, title)
    for path in [*new, f"posenc/schemes/{name}", f"chapters/{name}.md"]:
        if (root / path).exists():
            raise Refused(f"{path} is there already: choose another name, or remove what is left of an earlier try")
    try:
        previous = last_of((root / "_toc.yml").read_text(encoding="utf-8"), part)
        for path, edit in edits(name, title, previous).items():
            new[path] = edit((root / path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Refused(f"{error.filename} is not there: run this in a whole copy of the repository") from error
    return {root / path: text for path, text in new.items()}


def chapter(name: str, title: str) -> str:
    """The notebook, in normal form and not yet executed."""
    cells = []
    for cell in CELLS:
        text, tags = (cell, None) if isinstance(cell, str) else cell
        text = text.format(name=name, title=title, Class=class_name(name))
        if tags is None:
            cells.append(nbformat.v4.new_markdown_cell(text, id=f"{name}-{len(cells):02d}"))
        else:
            made = nbformat.v4.new_code_cell(text, id=f"{name}-{len(cells):02d}", metadata={"tags": tags})
            cells.append(made)
    return normalise.text(normalise.normalise(nbformat.v4.new_notebook(cells=cells), name))


def edits(name: str, title: str, previous: str) -> dict[str, Callable[[str], str]]:
    """What is added to each file that is there: a function from its text to its new text.

    The chapter is put behind the chapter `previous`.
    """
    made = class_name(name)
    section = f"## {title}\n\n"
    symbols = f"{section}| symbol | meaning | in code |\n|---|---|---|\n| $x$ | as yet unwritten | `{made}` |\n\n"
    interface = f"{section}As yet unwritten: the formula.\n\n```{{eval-rst}}\n.. autoclass:: {made}\n```\n\n"
    return {
        "_toc.yml": lambda text: after(
            text, rf"^ *- file: chapters/{previous}\n", f"      - file: chapters/{name}\n", "_toc.yml"
        ),
        "posenc/schemes/registry.py": lambda text: before(
            imported(text, f"from posenc.schemes.{name} import {made}\n"), r"^}\n\nENCODINGS",
registered(name, title, free_colour(text)), "posenc/schemes/registry.py",
        ),
        "posenc/__init__.py": lambda text: exported(
            housed(imported(text, f"    from posenc.schemes.{name} import {made}\n"), name, made), made
        ),
        "pyproject.toml": lambda text: mutated(text, name),
        ".github/architecture.svg": lambda text: after(
            text, r'^  <text class="small".*>alibi(?=  )', f"  {name}", ".github/architecture.svg"
        ),
        "chapters/index.ipynb": lambda text: asked(text, name, previous),
        "chapters/api.md": lambda text: before(text, r"^## Rotations for longer texts$", interface, "chapters/api.md"),
        "chapters/notation.md": lambda text: before(text, r"^## Other signs$", symbols, "chapters/notation.md"),
        "chapters/rosetta.md": lambda text: after(
            text, r"^## Relative terms in the scores\n\n(\|.*\n)+", f"| {title} | `{made}` | as yet unwritten | |\n",
            "chapters/rosetta.md",
        ),
        "chapters/glossary.md": lambda text: defined(text, title, f"{title}\n  As yet unwritten.\n\n"),
        "chapters/claims.ipynb": lambda text: claimed(text, name, title),
    }  # fmt: skip


def before(text: str, pattern: str, added: str, path: str) -> str:
    start, _ = place(text, pattern, path)
    return text[:start] + added + text[start:]


def after(text: str, pattern: str, added: str, path: str) -> str:
    _, end = place(text, pattern, path)
    return text[:end] + added + text[end:]


def place(text: str, pattern: str, path: str) -> tuple[int, int]:
    match = re.search(pattern, text, re.M)
    if match is None:
        raise Refused(f"{path} has nothing like {pattern}: update edits() in tools/scheme.py to where entries go now")
    return match.span()


def last_of(contents: str, part: str) -> str:
    """The last chapter of a part of the book."""
    parts = dict(re.findall(r"^  - caption: (.*)\n((?:    .*\n)+)", contents, re.M))
    if part not in parts:
        raise Refused(f"_toc.yml has no part {part!r}: use one of {', '.join(parts)}")
    return re.findall(r"file: chapters/(\w+)", parts[part])[-1]


def imported(text: str, line: str) -> str:
    """The line among those of its kind, in the order that ruff wants."""
    lines = text.splitlines(keepends=True)
    start = line[: line.index("from posenc.")] + "from posenc.schemes."
    same = [n for n, other in enumerate(lines) if other.startswith(start) and other < line]
    if not same:
        raise Refused("no line begins with 'from posenc.schemes.': update imported() in tools/scheme.py")
    return "".join([*lines[: same[-1] + 1], line, *lines[same[-1] + 1 :]])


def housed(text: str, name: str, made: str) -> str:
    """The module where the package finds the name when it is first used."""
    lines, line = text.splitlines(keepends=True), f'    "posenc.schemes.{name}": "{made}",\n'
    same = [n for n, other in enumerate(lines) if re.match(r' {4}"posenc\.schemes\.\w+": "', other) and other < line]
    if not same:
        raise Refused("posenc/__init__.py has no table _HOMES: update housed() in tools/scheme.py")
    return "".join([*lines[: same[-1] + 1], line, *lines[same[-1] + 1 :]])


def exported(text: str, made: str) -> str:
    """The name in __all__, sorted as ruff wants it, in lines that are filled."""
    listed = re.search(r"^__all__ = \[\n(.*?)^\]", text, re.M | re.S)
    if listed is None:
        raise Refused("posenc/__init__.py has no list __all__: update exported() in tools/scheme.py")
    names = [*re.findall(r'"(\w+)"', listed[1]), made]
    names.sort(key=lambda name: (not name.isupper() or len(name) == 1, not name[0].isupper(), name))
    words = " ".join(f'"{name}",' for name in names)
    lines = textwrap.fill(words, 118, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
    return text[: listed.start(1)] + lines + "\n" + text[listed.end(1) :]


def mutated(text: str, name: str) -> str:
    """Source and test among those that `make mutants` changes and runs."""
    text = before(text, r'^  "posenc/schemes/grid/\*\.py"', f'  "posenc/schemes/{name}.py",\n', "pyproject.toml")
    tests = re.search(r"^pytest_add_cli_args_test_selection = \[\n(?:  .*\n)*", text, re.M)
    if tests is None:
        raise Refused("pyproject.toml lists no tests for mutmut: update mutated()")
    return text[: tests.end()] + f'  "tests/test_{name}.py",\n' + text[tests.end() :]


def defined(text: str, term: str, entry: str) -> str:
    """The entry in its alphabetical place."""
    start, end = text.index(":::{glossary}\n") + len(":::{glossary}\n"), text.rindex("\n:::")
    for match in re.finditer(r"^(?=\S)(.+)$", text[start:end], re.M):
        if match[1].casefold() > term.casefold():
            return text[: start + match.start()] + entry + text[start + match.start() :]
    return text[:end] + "\n" + entry.rstrip("\n") + text[end:]


def claimed(text: str, name: str, title: str) -> str:
    """A claim about the scheme, behind the last one: a row, its reason, and the cells that test it."""
    notebook = nbformat.reads(text, as_version=4)
    table = next((cell for cell in notebook.cells if cell.source.startswith('ROWS = """')), None)
    end = next((n for n, cell in enumerate(notebook.cells) if cell.source.startswith("(claims-errata)=")), None)
    if table is None or end is None:
        raise Refused("chapters/claims.ipynb has no table ROWS, or no cell (claims-errata)=: update claimed()")
    rows, rest = table.source.split('\n"""\n', 1)
    reasons, rest = rest.split('\n"""\n', 1)
    schemes, rest = rest.split('\n"""\n', 1)
    number = f"A{1 + max(map(int, re.findall(r'^A([0-9]+) ', rows, re.M)))}"
    rows += f"\n{number} | elsewhere | As yet unwritten: what is said of {title}. | open"
    reasons += f"\n{number} | as yet unwritten: the condition, or the size of the effect, of {title}"
    schemes += f"\n{title} | {number}"
    table.source = '\n"""\n'.join([rows, reasons, schemes, rest])
    words = (
        f"(claims-{number.lower()})=\n### {number}. {title}\n\n"
        f"*Said:* as yet unwritten, by whom; the chapter is {{doc}}`{name}`.\n\n"
        f"**Open**: as yet unwritten, with a link to {{ref}}`where it is derived <{name}-derivation>`."
    )
    test = f'settle("{number}", "open")  # as yet unwritten: judge(...) of {title}'
    notebook.cells[end:end] = [
        nbformat.v4.new_markdown_cell(words, id=f"claims-{name}-text"),
        nbformat.v4.new_code_cell(test, id=f"claims-{name}-test"),
    ]
    return normalise.text(normalise.normalise(notebook, "claims"))


def asked(text: str, name: str, previous: str) -> str:
    """A row for the chapter in the table of the first page."""
    notebook = nbformat.reads(text, as_version=4)
    pattern, row = rf"^\| \{{doc\}}`{previous}` .*\n", f"| {{doc}}`{name}` | As yet unwritten: the question? |\n"
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(pattern, cell.source, re.M):
            cell.source = after(cell.source, pattern, row, "chapters/index.ipynb")
            return normalise.text(normalise.normalise(notebook, "index"))
    raise Refused(f"chapters/index.ipynb has no row for {previous}: update asked()")


def registered(name: str, title: str, colour: str) -> str:
    """The entry in SCHEMES, as ruff lays it out."""
    given = [f'"{title}"', f"lambda model_dim, heads, head_dim, length: {class_name(name)}(heads)", f'"{colour}"']
    line = f"        {', '.join(given)}\n"
    lines = line if len(line) <= 89 else "".join(f"        {part},\n" for part in given)  # 88 columns
    return f'    "{name}": Scheme(\n{lines}    ),\n'


def free_colour(registry: str) -> str:
    """The colour that differs most from those of schemes, legible on both pages, and with no role's hue."""
    taken = [to_lab(other) for other in re.findall(r'"#([0-9a-f]{6})"', registry)]
    roles = [hue(to_lab(colour.removeprefix("#"))) for pair in ROLES.values() for colour in pair]
    steps = range(0x00, 0x100, 0x08)
    candidates = (f"{r:02x}{g:02x}{b:02x}" for r in steps for g in steps for b in steps)
    best, farthest = "", ALIKE
    for one in candidates:
        if not 0.16 < luminance(one) < 0.28:  # a contrast of 3 to 1 or more with both pages
            continue
        lab = to_lab(one)
        apart = min(distance(lab, other) for other in taken)
        muted = distance((0.0, 0.0), lab[1:]) < VIVID
        free = min(abs((hue(lab) - role + 180) % 360 - 180) for role in roles) > HUES
        if muted and free and apart > farthest:
            best, farthest = one, apart
    if not best:
        raise Refused("no colour is left that differs from those of all schemes: loosen ALIKE and VIVID in this file")
    return f"#{best}"


def hue(lab: tuple[float, ...]) -> float:
    return math.degrees(math.atan2(lab[2], lab[1]))


def linear(colour: str) -> list[float]:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4))
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def luminance(colour: str) -> float:
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def to_lab(colour: str) -> tuple[float, ...]:
    """OKLab, where distances are about as large as they look (Ottosson, 2020)."""
    r, g, b = linear(colour)
    l, m, s = (
        (x * r + y * g + z * b) ** (1 / 3)
        for x, y, z in (
            (0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )  # fmt: skip
    return (
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    )


def distance(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the module and the chapter, such as kerple")
    parser.add_argument("--title", default="", help="in figures and tables; default: the name, capitalised")
    parser.add_argument("--part", default="Distance", help="of the book; default: %(default)s")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    title = arguments.title or arguments.name.replace("_", " ").capitalize()
    try:
        places = told(arguments.root, arguments.name, title)
        files = skeleton(arguments.root, arguments.name, title, arguments.part)
    except Refused as refused:
        print(f"make scheme: {refused}", file=sys.stderr)
        return 1
    for path, text in files.items():
        print("changed" if path.exists() else "written", path.relative_to(arguments.root))
        path.write_text(text, encoding="utf-8")
    if places:
        print("\nThe book tells it already, and CONTRIBUTING.md says what becomes of that:")
        print("\n".join(f"  {path}, {count} times" for path, count in places.items()))
    print(f"\nWhat is left to do: .venv/bin/python -m pytest tests/test_whole.py -k {arguments.name}-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
