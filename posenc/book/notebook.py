"""Helpers for notebooks: the source of an object, named values for the prose, and the device to run on."""

import ast
import html
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

import torch

from posenc.book.source import WIDTH, shorten


def book_mode() -> bool:
    """Whether the book is being built, where objects show themselves as HTML and not as text.

    Returns:
        True if the environment variable POSENC_BOOK is 1.

    Example:
        >>> book_mode()
        False
    """
    return os.environ.get("POSENC_BOOK") == "1"


def device() -> torch.device:
    """The device to compute on: a GPU if there is one, otherwise the CPU.

    The environment variable POSENC_DEVICE overrides this choice, for example POSENC_DEVICE=cpu.

    Returns:
        A `torch.device`.

    Raises:
        ValueError: If POSENC_DEVICE names a device that torch does not know or cannot see.

    Example:
        >>> x = torch.zeros(3, device=device())
    """
    name = os.environ.get("POSENC_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
    except RuntimeError:
        raise ValueError(f"POSENC_DEVICE is {name!r}, which torch does not know: use cpu, cuda or cuda:1") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"POSENC_DEVICE is {name!r}, but torch sees no GPU here: unset it, or use cpu")
    return chosen


def glue(name: str, value: object) -> None:
    """Gives a value a name, so that the prose of the book can show it with `{glue:text}`.

    Outside the build of the book it does nothing.

    Args:
        name: The name, such as "rope-loss".
        value: The value, usually a string that is already formatted.

    Example:
        >>> glue("rope-loss", f"{1.2345:.2f}")
    """
    if book_mode():
        from myst_nb import glue as keep  # type: ignore[import-untyped]

        keep(name, value, display=False)


def named(found: Iterable[str], *told: str) -> None:
    """Holds a sentence of a page to what was computed: it names what was found, and nothing else.

    Args:
        found: The names that were computed, such as those of the schemes that open a door.
        *told: The names in the sentence, in any order.

    Raises:
        AssertionError: If they differ. The error says which names to add or to drop, and where.

    Example:
        >>> named({"shaw", "alibi"}, "alibi", "shaw")
    """
    found = set(found)
    lacking, wrong = ", ".join(sorted(found - set(told))), ", ".join(sorted(set(told) - found))
    said = [f"found, but not named: {lacking}"] if lacking else []
    said += [f"named, but not found: {wrong}"] if wrong else []
    if said:
        where = "in this call of named and in the sentence of the page that the cell belongs to"
        raise AssertionError(f"{'; '.join(said)}. If that is right, say so {where}")


class Source:
    """The source of a program, shown as text in a notebook and with colours in the book. `show` makes it.

    Attributes:
        text: The source that is shown.
        full: The full source if `text` is shorter, otherwise an empty string. The book has it in a fold.
        place: The modules where the full source is.
    """

    def __init__(self, text: str, full: str = "", place: str = "") -> None:
        self.text, self.full, self.place = text, full, place

    def __repr__(self) -> str:
        if not self.full:
            return self.text
        note = f"Shortened. The full source is in {self.place}; show(..., full=True) prints it."
        lines = textwrap.wrap(note, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
        return "\n".join([self.text, "", "", *lines])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if book_mode():
            bundle["text/html"] = _coloured(self.text)
            if self.full:
                fold = f"<summary>Full source: {html.escape(self.place)}</summary>{_coloured(self.full)}"
                bundle["text/html"] += f'<details class="pe-source">{fold}</details>'
        return bundle


def _coloured(text: str) -> str:
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

    code = highlight(text, PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<div class="highlight-python notranslate"><div class="highlight"><pre>{code}</pre></div></div>'


def show(*objects: Any, full: bool = False) -> Source:
    """Shows the source of functions and classes, short enough to read on a page.

    Checks of input are left out, docstrings are cut to their first paragraph, and lines are at most 88 characters
    long. Comments stay, and the code is still valid Python. If anything was left out, the last line names the module,
    and the book offers the full source in a fold.

    Args:
        *objects: Functions, classes or methods, also those defined in a notebook.
        full: Show the source as it stands in its file. Default: False.

    Returns:
        A `Source`, which shows itself.

    Raises:
        ValueError: If an object has no Python source, such as a number or a built-in function.

    Example:
        >>> from posenc import alibi_slopes
        >>> repr(show(alibi_slopes)).splitlines()[0]
        'def alibi_slopes('
    """
    sources = [_source(item) for item in objects]
    complete = "\n\n\n".join(sources)
    if full:
        return Source(complete)
    shorter = [shorten(source, WIDTH) for source in sources]
    text = "\n\n\n".join(source for source, _ in shorter)
    modules = dict.fromkeys(_module(item) for item, (_, cut) in zip(objects, shorter, strict=True) if cut)
    return Source(text, complete, ", ".join(modules)) if modules else Source(text)


def _module(item: Any) -> str:
    name = getattr(item, "__module__", None) or "__main__"
    return "this notebook" if name == "__main__" and "IPython" in sys.modules else name


def _source(item: Any) -> str:
    try:
        text = inspect.getsource(item)
    except (TypeError, OSError):
        text = _notebook_class(item)
    return textwrap.dedent(text).rstrip()


def _notebook_class(item: Any) -> str:
    """The source of a class of a notebook. Its module is no file, but the code of its methods names the cell."""
    for member in vars(item).values() if inspect.isclass(item) else ():
        code = getattr(inspect.unwrap(member) if callable(member) else None, "__code__", None)
        lines = linecache.getlines(code.co_filename) if code else []
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef) and node.name == item.__name__:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return "".join(lines[first - 1 : node.end_lineno])
    raise ValueError(f"{item!r} has no Python source to show: pass a function or a class, such as show(posenc.RoPE)")
