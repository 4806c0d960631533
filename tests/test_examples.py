"""The examples run: those in docstrings as doctests, and the Python of README and CONTRIBUTING.

They are found in the sources, without an import, so that a worker imports only what it runs. test_api.py has the Python
of the interface's page, and the cells of notebooks are tests by themselves.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
#: What `make quick` leaves out, by the module whose examples they are.
LONGER = {"posenc._explore": "export", "posenc.lab": "train", "posenc.audit.adapters.hf": "models"}
#: What the examples of a module need beside the package's own requirements.
NEEDS = {"posenc.audit.adapters.hf": "transformers"}


def docstrings(source: str, module: str) -> Iterator[tuple[str, str, int]]:
    """The name, text and line of every docstring that has an example: of a module, its classes and its functions."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str, int]]:
        if isinstance(node, kinds) and ">>> " in (text := ast.get_docstring(node, clean=False) or ""):
            yield name, text, node.body[0].lineno - 1
        for child in ast.iter_child_nodes(node):
            if isinstance(child, kinds):
                yield from walk(child, f"{name}.{child.name}")

    if ">>> " in source:
        yield from walk(ast.parse(source), module)


SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "posenc").rglob("*.py"))}
EXAMPLES = []  # a case for each docstring
for path, source in SOURCES.items():
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    marks = [getattr(pytest.mark, mark) for start, mark in LONGER.items() if module.startswith(start)]
    EXAMPLES += [
        pytest.param(module, text, line, path, id=name, marks=marks) for name, text, line in docstrings(source, module)
    ]


def run(text: str, name: str, path: Path, line: int, names: dict[str, object]) -> None:
    """Runs an example, and fails with what it printed and what it should have."""
    test = doctest.DocTestParser().get_doctest(text, names, name, str(path), line)
    said: list[str] = []
    if doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed:
        pytest.fail("".join(said), pytrace=False)


@pytest.mark.parametrize(("module", "text", "line", "path"), EXAMPLES)
def test_the_example_runs(
    module: str, text: str, line: int, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start, needed in NEEDS.items():
        if module.startswith(start):
            pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)  # what an example writes is no part of the repository
    run(text, module, path, line, dict(vars(importlib.import_module(module))))


def test_no_example_stands_where_nobody_looks() -> None:
    for path, source in SOURCES.items():
        found = sum(text.count(">>> ") for _, text, _, at in (case.values for case in EXAMPLES) if at == path)
        assert found == len(re.findall(r"^\s*>>> ", source, re.M)), path


@pytest.mark.parametrize(
    "broken",
    [">>> 1 + 1\n3\n", ">>> 1 / 0\n", ">>> no_such_name\n0\n", ">>> import warnings\n>>> warnings.warn('old')\n"],
)
def test_an_example_that_is_wrong_fails(broken: str, tmp_path: Path) -> None:
    source = f'def found():\n    """Finds.\n\n    Example:\n{textwrap.indent(broken, " " * 8)}    """\n'
    ((name, text, line),) = docstrings(source, "mine")
    with pytest.raises(pytest.fail.Exception, match=r'mine\.py", line [56], in mine\.found\nFailed example'):
        run(text, name, tmp_path / "mine.py", line, {})


def blocks(name: str) -> list[str]:
    """The Python in a Markdown file."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S)


def test_the_readme_s_python_runs() -> None:
    from _posenc_pytest import posenc_audit
    from posenc import Transformer

    model = Transformer(256, layers=1, model_dim=16, heads=2)
    names = {"model": model, "my_model": lambda: model}  # the reader's
    for block in blocks("README.md"):
        exec(compile(block, "README.md", "exec"), names)  # each goes on from the last
    names["test_positions"](posenc_audit.__wrapped__())


def test_the_panel_of_contributing_is_one() -> None:
    from posenc import Lines, explore

    names = {"explore": explore, "Lines": Lines, "function": lambda rate: -rate * torch.arange(5)}
    (block,) = blocks("CONTRIBUTING.md")
    exec(compile(block, "CONTRIBUTING.md", "exec"), names)
