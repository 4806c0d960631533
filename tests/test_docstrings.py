"""Docstrings in one dialect: sections in one order, arguments by their names, sentences with a capital and a full stop.

They are read from the sources, without an import, and what a name that people import needs is asked of those in
`__all__`. test_examples.py runs the examples.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Example", "References")  # in this order
ROOMS = ("_attention", "_explore", "_properties", "__init__")  # public, whatever their names begin with
DOORS = ("embed", "query", "key", "score_bias", "rescale", "mix", "from_config", "widen", "split", "waves")
ROOMS_WITH_NAMES = (
    "posenc",
    "posenc.audit",
    "posenc.book",
    "posenc.configs",
    "posenc.exercises",
    "posenc.lab",
    "posenc.pictures",
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring, with what it documents."""

    name: str
    text: str
    node: ast.Module | ast.ClassDef | Function
    owner: ast.ClassDef | None
    public: bool
    path: Path


def docstrings(path: Path) -> Iterator[Docstring]:
    """All docstrings of a file."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def walk(node: ast.AST, name: str, owner: ast.ClassDef | None, public: bool) -> Iterator[Docstring]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | Function):
                seen = public and not child.name.startswith("_")
                inner = f"{name}.{child.name}"
                if (text := ast.get_docstring(child)) is not None:
                    yield Docstring(inner, text, child, owner, seen, path)
                inside = child if isinstance(child, ast.ClassDef) else None
                yield from walk(child, inner, inside, seen and inside is not None)
            else:
                yield from walk(child, name, owner, public)

    tree = ast.parse(path.read_text(encoding="utf-8"))
    if (text := ast.get_docstring(tree)) is not None:
        yield Docstring(module, text, tree, None, False, path)
    parts = path.relative_to(ROOT).with_suffix("").parts
    yield from walk(tree, module, None, all(part in ROOMS or not part.startswith("_") for part in parts))


DOCSTRINGS = [
    each
    for room in ("posenc", "evidence/posenc_evidence", "tools")
    for path in sorted((ROOT / room).rglob("*.py"))
    for each in docstrings(path)
]


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by their names, each without its indentation; "" is what stands before the first."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):[ \t]*$", text, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """The entries `name: text` of a section; lines that are indented further belong to the entry before."""
    out: dict[str, str] = {}
    for line in section.strip("\n").splitlines():
        if match := re.fullmatch(r"    (\*{0,2}\w[\w., ]*?): (.*)", line):
            name = match[1]
            out[name] = match[2]
        elif line.strip():
            out[name] = f"{out[name]} {line.strip()}"
    return out


def fields(node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """The annotated names of a class: of a dataclass, its fields."""
    return {n.target.id: n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def parameters(each: Docstring) -> list[str]:
    """The parameters of a function, or of a class when it is called."""
    node = each.node
    if isinstance(node, ast.ClassDef):
        maker = next((n for n in node.body if isinstance(n, Function) and n.name in ("__init__", "__new__")), None)
        if maker is None:  # a dataclass, a NamedTuple, or an __init__ that is inherited
            return [field for field in fields(node) if "ClassVar" not in ast.unparse(fields(node)[field].annotation)]
        node = maker
    assert isinstance(node, Function)
    given = node.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [arg.arg for arg in given.kwonlyargs]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    method = each.owner is not None or isinstance(each.node, ast.ClassDef)
    return [name for name in names if not (method and name in ("self", "cls"))]


def documented(each: Docstring) -> list[str]:
    """The parameters that `Args` names, or the fields of a class that have docstrings of their own."""
    names = [name.strip() for entry in entries(sections(each.text).get("Args", "")) for name in entry.split(",")]
    if isinstance(each.node, ast.ClassDef):
        known = {id(field): name for name, field in fields(each.node).items() if name in parameters(each)}
        for field, below in itertools.pairwise(each.node.body):
            if id(field) in known and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                names.append(known[id(field)])
    return [name.lstrip("*") for name in names]


def faults(each: Docstring) -> Iterator[str]:
    """What is not in the dialect."""
    parts = sections(each.text)
    order = [SECTIONS.index(name) for name in parts if name]
    if order != sorted(order):
        yield f"the sections are {', '.join(filter(None, parts))}: put them into the order {', '.join(SECTIONS)}"
    if "``" in each.text:
        yield "it has double backticks: use single ones"
    idea = parts[""].strip().split("\n\n")[0]
    if not re.search(r"[.?:…]$", idea):
        yield f"its idea does not end with a full stop: {idea[-40:]!r}"
    said = {
        f"{part} {name}": text for part in ("Args", "Raises") for name, text in entries(parts.get(part, "")).items()
    }
    if "Returns" in parts:
        said["Returns"] = " ".join(parts["Returns"].split())
    for where, text in said.items():
        if re.match(r"(?:a(?= )|[a-z]{2,})(?![\w.(`])(?! \()", text) and not re.match("(int64|bool)[ ,]", text):
            yield f"{where} begins with a small letter: {text[:40]!r}"
        if not re.search(r"\.\)?$", text):
            yield f"{where} does not end with a full stop: {text[-40:]!r}"
        if re.search(r"\((None|True|False|\d[\d.e-]*)\)\.$| unless given[.;]", text):
            yield f"{where} says its default in another way: write Default: 32."
    if "Args" in parts:
        names, wanted = documented(each), [name.lstrip("*") for name in parameters(each)]
        if isinstance(each.node, ast.ClassDef):
            names, wanted = sorted(names), sorted(wanted)
        if names != wanted:
            yield f"Args names {', '.join(names)}, but it takes {', '.join(wanted)}"


def lacking(each: Docstring) -> Iterator[str]:
    """Sections that a name in `__all__`, or a public method of one, needs and has not."""
    parts, node = sections(each.text), each.node
    bases = [ast.unparse(base) for base in getattr(node, "bases", [])]
    if "Protocol" not in bases and {name.lstrip("*") for name in parameters(each)} - set(documented(each)):
        yield "Args"
    if isinstance(node, ast.ClassDef):
        if "Example" not in parts and not any(base.endswith(("Error", "Exception")) for base in bases):
            yield "Example"
        return
    assert isinstance(node, Function)
    returns = "None" if node.returns is None else ast.unparse(node.returns)
    if returns not in ("None", "Self") and "Returns" not in parts:
        yield "Returns"
    if any(isinstance(inner, ast.Raise) for inner in ast.walk(node)) and "Raises" not in parts:
        yield "Raises"
    if each.owner is None and "Example" not in parts:
        yield "Example"


def inherited(each: Docstring) -> bool:
    """Whether a method is one of the six doors, which `Encoding` documents, or takes no arguments and is a value."""
    names = [getattr(mark, "id", getattr(mark, "attr", "")) for mark in getattr(each.node, "decorator_list", [])]
    return each.node.name in DOORS or bool({"property", "cached_property"} & set(names))  # type: ignore[union-attr]


def exported() -> set[str]:
    """Names of classes and functions in `__all__` of the rooms, with the modules that they are from."""
    names = set()
    for room in ROOMS_WITH_NAMES:
        module = importlib.import_module(room)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                names.add(f"{value.__module__}.{value.__qualname__}")
    return names


@pytest.mark.parametrize(
    "path", sorted({each.path for each in DOCSTRINGS}), ids=lambda path: str(path.relative_to(ROOT))
)
def test_docstrings_are_in_one_dialect(path: Path) -> None:
    wrong = [f"{each.name}: {fault}" for each in DOCSTRINGS if each.path == path for fault in faults(each)]
    assert not wrong, "\n".join(wrong)


def test_what_people_import_has_its_arguments_results_errors_and_an_example() -> None:
    known = exported()
    wrong = []
    for each in DOCSTRINGS:
        method = each.owner is not None and each.public and each.name.rpartition(".")[0] in known
        if (each.name in known or (method and not inherited(each))) and (missing := list(lacking(each))):
            wrong.append(f"{each.name} has no {', '.join(missing)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Adds.\n\nArgs:\n    a: The first.\n    b: The other.", ""),
        ("Adds", "full stop"),
        ("Adds ``a``.", "double backticks"),
        ("Adds.\n\nArgs:\n    a: The first.", "Args names a, but it takes a, b"),
        ("Adds.\n\nArgs:\n    a: the first.\n    b: The other.", "small letter"),
        ("Adds.\n\nArgs:\n    a: The first.\n    b: The other", "full stop"),
        ("Adds.\n\nArgs:\n    a: The first.\n    b: The other (2).", "Default"),
        ("Adds.\n\nReturns:\n    the sum.", "small letter"),
        ("Adds.\n\nExample:\n    >>> 1\n    1\n\nReturns:\n    The sum.", "order"),
    ],
)
def test_another_dialect_is_noticed(text: str, words: str) -> None:
    node = ast.parse("def add(a: int, b: int = 2) -> int: return a + b").body[0]
    assert isinstance(node, ast.FunctionDef)
    told = list(faults(Docstring("add", text, node, None, True, ROOT)))
    assert len(told) == bool(words) and all(words in fault for fault in told), told


def test_a_section_that_is_missing_is_noticed() -> None:
    node = ast.parse("def add(a: int) -> int:\n    raise ValueError").body[0]
    assert isinstance(node, ast.FunctionDef)
    each = Docstring("add", "Adds.", node, None, True, ROOT)
    assert list(lacking(each)) == ["Args", "Returns", "Raises", "Example"]
