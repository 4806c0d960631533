"""Text of strangers as a terminal may show it: a name in a `config.json` must not colour, move or rename anything."""

from __future__ import annotations

import unicodedata

UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode that act and are not seen: control codes, marks of direction, ends of lines."""


def printable(text: str) -> str:
    r"""The same with what cannot be seen written as an escape; new lines stay.

    Example:
        >>> print(printable("\x1b[31mred, \u202eback"))
        \x1b[31mred, \u202eback
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(_escape(c) if c != "\n" and unicodedata.category(c) in UNSEEN else c for c in text)


def in_json(text: str) -> str:
    r"""JSON in which what cannot be seen stands as \uXXXX, which means the same.

    Example:
        >>> in_json('"a\x9b1m"')
        '"a\\u009b1m"'
    """
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in UNSEEN else "".join(map(r"\u{:04x}".format, _utf16(c)))
        for c in text
    )


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")


def _utf16(c: str) -> list[int]:
    code = c.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(code[n : n + 2], "big") for n in range(0, len(code), 2)]
