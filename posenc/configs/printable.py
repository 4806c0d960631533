"""Text of strangers as a terminal may show it: a name in a `config.json` must not colour, move or rename anything."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The same with what cannot be seen written as an escape; new lines stay.

    Example:
        >>> print(printable("\x1b[31mred, \u202eback"))
        \x1b[31mred, \u202eback
    """
    return "".join(c if _harmless(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def in_json(text: str) -> str:
    r"""JSON in which what cannot be seen stands as \uXXXX, which means the same.

    Example:
        >>> in_json('"a\x9b1m"')
        '"a\\u009b1m"'
    """
    return "".join(c if _harmless(c) else "".join(map(r"\u{:04x}".format, _utf16(c))) for c in text)


def _harmless(c: str) -> bool:
    """Whether a character is seen, or ends a line: no control code, and no mark of direction."""
    return c == "\n" or c.isprintable()


def _utf16(c: str) -> list[int]:
    code = c.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(code[n : n + 2], "big") for n in range(0, len(code), 2)]
