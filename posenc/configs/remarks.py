"""What a reader says of a configuration: a sentence, and what would put the file right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from posenc.configs.printable import printable

Path = tuple[str, ...]
"""The names on the way to a field, from the top of the file."""

Patch = Mapping[str, Any]
"""A JSON merge patch (RFC 7396): fields to write, by name; null takes a field away."""

UNKNOWN = "?"
"""Stands in a patch for a value that only those know who made the model."""


class Remark(str):
    """A sentence about a configuration, with its remedies.

    Args:
        name: Which sentence it is, such as "two-bases".
        text: The sentence.
        remedies: JSON merge patches for the file. Where there are several, they are alternatives: each of them puts the
            file right, and which one is meant is for its author to say. A value "?" is to be filled in.

    Example:
        >>> remark = Remark("no-factor", "factor is missing: add it.", patch(("rope_scaling", "factor")))
        >>> str(remark), remark.remedies
        ('factor is missing: add it.', ({'rope_scaling': {'factor': '?'}},))
    """

    name: str
    remedies: tuple[Patch, ...]

    def __new__(cls, name: str, text: str = "", *remedies: Patch) -> Self:
        self = super().__new__(cls, text)
        self.name, self.remedies = name, remedies
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.name, str(self), *self.remedies)


class Unreadable(ValueError):
    """A field about positions is not what it should be; `remedies` are those of a `Remark`.

    Args:
        name: Which sentence it is, such as "no-number".
        text: The sentence.
        remedies: JSON merge patches for the file, as those of a `Remark`.
    """

    def __init__(self, name: str, text: str, *remedies: Patch) -> None:
        super().__init__(text)
        self.name, self.remedies = name, remedies

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, str(self), *self.remedies)


def patch(where: Sequence[str], value: Any = UNKNOWN) -> Patch:
    """The patch that writes one field, or the list that an entry such as "[3]" is in.

    Example:
        >>> patch(("rope_scaling", "factor"), 4.0)
        {'rope_scaling': {'factor': 4.0}}
    """
    part = next((n for n, name in enumerate(where) if name.startswith("[")), None)
    if part is not None:  # a patch replaces a list as a whole
        where, value = where[:part], UNKNOWN
    for name in reversed(where):
        value = {name: value}
    return value


def merged(*patches: Patch) -> dict[str, Any]:
    """Patches for different fields as one.

    Example:
        >>> merged({"a": {"b": 1}}, {"a": {"c": 2}})
        {'a': {'b': 1, 'c': 2}}
    """
    out: dict[str, Any] = {}
    for each in patches:
        for name, value in each.items():
            inner = isinstance(value, Mapping) and isinstance(out.get(name), Mapping)
            out[name] = merged(out[name], value) if inner else value
    return out


def apply(config: Mapping[str, Any], remedy: Patch) -> dict[str, Any]:
    """A configuration with a remedy applied; the one that is given stays as it is.

    Args:
        config: The contents of config.json.
        remedy: One of a remark's `remedies`.

    Returns:
        A new dict.

    Example:
        >>> apply({"rope_theta": "1e4", "alibi": None}, {"rope_theta": 1e4, "alibi": None})
        {'rope_theta': 10000.0}

    References:
        RFC 7396, JSON Merge Patch.
    """
    out = dict(config)
    for name, value in remedy.items():
        if value is None:
            out.pop(name, None)
        elif isinstance(value, Mapping):
            inner = out.get(name)
            out[name] = apply(inner if isinstance(inner, Mapping) else {}, value)
        else:
            out[name] = value
    return out


def dotted(where: Sequence[str]) -> str:
    """The name of a field for a message.

    Example:
        >>> dotted(("text_config", "layer_types", "[3]"))
        'text_config.layer_types[3]'
    """
    return plain(".".join(where).replace(".[", "["))


def plain(text: object, most: int = 200) -> str:
    """Text that is harmless in a terminal: what is not printable is written as its escape, and the rest is cut.

    Example:
        >>> print(plain("llama\\x1b[31m\\u202e"))
        llama\\x1b[31m\\u202e
    """
    whole = str(text)
    return printable(whole if len(whole) <= most else whole[: most - 1] + "…").replace("\n", "\\n")


def shown(value: object, most: int = 80) -> str:
    """A value for a message, short and printable, whatever it is.

    Example:
        >>> shown("a"), shown([1, 2]), shown(10**400)
        ("'a'", '[1, 2]', 'an int of 401 digits')
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**most:
        return f"an int of {_digits(value)} digits"
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[: most - 1] + "…")
    if isinstance(value, Mapping | list | tuple | set | frozenset) and len(value) > 8:
        return f"a {type(value).__name__} of {len(value)} entries"
    try:
        return plain(repr(value), most)
    except (RecursionError, ValueError):  # nested deeply, or with numbers of thousands of digits
        return f"a {type(value).__name__}"


def _digits(value: int) -> int:
    """How many decimal digits a large number has; Python refuses to write numbers of more than 4300."""
    value = abs(value)
    count = int(value.bit_length() * 0.30102999566398114)
    return count + (10**count <= value)
