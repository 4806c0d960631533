"""What a notebook needs around the mathematics: the source of an object, and the device to run on."""

import ast
import inspect
import linecache
import os
import textwrap
from typing import Any

import torch


def book_mode() -> bool:
    """Whether the book is being built, which prefers HTML to plain text."""
    return os.environ.get("POSENC_BOOK") == "1"


def device() -> torch.device:
    """A GPU if there is one, else the CPU; the environment variable POSENC_DEVICE decides otherwise."""
    name = os.environ.get("POSENC_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
    except RuntimeError:
        raise ValueError(f"POSENC_DEVICE is {name!r}, which torch does not know: use cpu, cuda or cuda:1") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"POSENC_DEVICE is {name!r}, but torch sees no GPU here: unset it, or use cpu")
    return chosen


def glue(name: str, value: object) -> None:
    """Give a value a name that the prose can set: ``{glue:text}`` in the built book, nothing in a notebook."""
    if book_mode():
        from myst_nb import glue as keep  # type: ignore[import-untyped]

        keep(name, value, display=False)


class Source:
    """The text of a program, shown as text in a terminal or notebook and coloured in the book."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": self.text}
        if book_mode():
            from pygments import highlight  # type: ignore[import-untyped]
            from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
            from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

            code = highlight(self.text, PythonLexer(), HtmlFormatter(nowrap=True))
            bundle["text/html"] = (
                f'<div class="highlight-python notranslate"><div class="highlight"><pre>{code}</pre></div></div>'
            )
        return bundle


def show(*objects: Any) -> Source:
    """The source of functions and classes, also of those that a reader has written in a notebook.

    Raises ValueError for what has no Python source, such as a number or a built-in.
    """
    return Source("\n\n\n".join(_source(item) for item in objects))


def _source(item: Any) -> str:
    try:
        text = inspect.getsource(item)
    except (TypeError, OSError):
        text = _notebook_class(item)
    return textwrap.dedent(text).rstrip()


def _notebook_class(item: Any) -> str:
    """A class of a notebook: its module is no file, but the code of its methods knows the cell."""
    for member in vars(item).values() if inspect.isclass(item) else ():
        code = getattr(inspect.unwrap(member) if callable(member) else None, "__code__", None)
        lines = linecache.getlines(code.co_filename) if code else []
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef) and node.name == item.__name__:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return "".join(lines[first - 1 : node.end_lineno])
    raise ValueError(f"{item!r} has no Python source to show: pass a function or a class, such as show(posenc.RoPE)")
