"""Docstrings in one dialect: sections in one order, arguments by their names, sentences with a capital and a full stop.

Read from the sources, without an import. test_examples.py runs the examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Example", "References")  # in this order
ROOMS = ("_attention", "_explore", "_properties", "__init__")  # public, whatever their names begin with
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring, with what it documents."""

    name: str
    text: str
    node: ast.Module | ast.ClassDef | Function
    owner: ast.ClassDef | None
    public: bool


def docstrings(path: Path) -> Iterator[Docstring]:
    """All docstrings of a file."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def walk(node: ast.AST, name: str, owner: ast.ClassDef | None, public: bool) -> Iterator[Docstring]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | Function):
                seen = public and not child.name.startswith("_")
                inner = f"{name}.{child.name}"
                if (text := ast.get_docstring(child)) is not None:
                    yield Docstring(inner, text, child, owner, seen)
                inside = child if isinstance(child, ast.ClassDef) else None
                yield from walk(child, inner, inside, seen and inside is not None)
            else:
                yield from walk(child, name, owner, public)

    tree = ast.parse(path.read_text(encoding="utf-8"))
    if (text := ast.get_docstring(tree)) is not None:
        yield Docstring(module, text, tree, None, False)
    parts = path.relative_to(ROOT).with_suffix("").parts
    yield from walk(tree, module, None, all(part in ROOMS or not part.startswith("_") for part in parts))


DOCSTRINGS = [
    each
    for room in ("posenc", "evidence/posenc_evidence", "tools")
    for path in sorted((ROOT / room).rglob("*.py"))
    for each in docstrings(path)
]
PUBLIC = [each for each in DOCSTRINGS if each.public]


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by their names, each without its indentation; "" is what stands before the first."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):[ \t]*$", text, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """The entries `name: text` of a section; lines that are indented further belong to the entry before."""
    found: dict[str, str] = {}
    for line in section.strip("\n").splitlines():
        if match := re.fullmatch(r"    (\*{0,2}\w[\w., ]*?): (.*)", line):
            name = match[1]
            found[name] = match[2]
        elif line.strip():
            found[name] = f"{found[name]} {line.strip()}"
    return found


def parameters(each: Docstring) -> list[str]:
    """The parameters of a function, or of a class when it is called."""
    node = each.node
    if isinstance(node, ast.ClassDef):
        maker = next((n for n in node.body if isinstance(n, Function) and n.name in ("__init__", "__new__")), None)
        if maker is None:  # a dataclass, a NamedTuple, or an __init__ that is inherited
            return [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        node = maker
    assert isinstance(node, Function)
    given = node.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [arg.arg for arg in given.kwonlyargs]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return [name for name in names if name not in ("self", "cls")]


def problems(each: Docstring) -> list[str]:
    out = []
    parts = sections(each.text)
    order = [SECTIONS.index(n) for n in parts if n]
    if order != sorted(order):
        out.append(f"order {list(parts)}")
    if "``" in each.text:
        out.append("``")
    for sec in ("Args", "Raises"):
        if sec in parts:
            try:
                es = entries(parts[sec])
            except Exception:
                out.append(f"{sec} unparsable")
                continue
            for n, t in es.items():
                first = t[0]
                if first.islower() and not re.match(r"[a-z]\w*(\.|\(|_)\w", t):
                    out.append(f"{sec} {n}: lower: {t[:60]}")
                if not t.rstrip().endswith((".", ".)")):
                    out.append(f"{sec} {n}: stop: {t[-40:]}")
            if sec == "Args":
                ps = parameters(each)
                if isinstance(each.node, ast.ClassDef):
                    if not set(es) <= set(ps):
                        out.append(f"Args {list(es)} vs {ps}")
                elif list(es) != ps:
                    out.append(f"Args {list(es)} vs {ps}")
    if "Returns" in parts:
        t = " ".join(parts["Returns"].split())
        if t[0].islower():
            out.append("Returns lower " + t[:50])
        if not t.endswith((".", ".)", ":")):
            out.append("Returns stop " + t[-30:])
    head = parts[""].strip()
    if not head.split("\n\n")[0].endswith((".", "?")):
        out.append("first line stop " + head[:60])
    return out


if __name__ == "__main__":
    n = 0
    for d in DOCSTRINGS:
        for p in problems(d):
            print(d.name, "|", p)
            n += 1
    print(n, len(DOCSTRINGS), len(PUBLIC))
    miss = [d.name for d in PUBLIC if isinstance(d.node, Function) and parameters(d) and "Args" not in sections(d.text)]
    print(len(miss), "without Args")
    print("\n".join(miss) if 1 else "")
