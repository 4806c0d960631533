"""The result of one measure, and how its numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from posenc._properties.figures import picture_of, words

if TYPE_CHECKING:
    from posenc.pictures.plot import Picture

HOLDS, FAILS, NOT_APPLICABLE = "holds", "fails", "does not apply"


@dataclass(frozen=True)
class Measurement:
    """A verdict with the number that decided it, the finding in words, and how to draw it."""

    verdict: str
    value: float
    finding: str
    conditions: str
    draw: Callable[[str], Picture]


def verdict_of(holds: bool) -> str:
    return HOLDS if holds else FAILS


def not_measured(reason: str) -> Measurement:
    return Measurement(NOT_APPLICABLE, math.nan, reason, "", picture_of(words, what="Nothing was measured"))


def number(value: float | Tensor, digits: int = 2) -> str:
    rounded = f"{float(value):.{digits}g}"
    return f"{float(rounded):g}" if digits < 6 else rounded  # 100, not 1e+02


def numbers(a: float | Tensor, b: float | Tensor) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as show it."""
    for digits in range(2, 17):
        texts = number(a, digits), number(b, digits)
        if texts[0] != texts[1]:
            break
    return texts


def above(value: float) -> str:
    """Rounded up to one digit: angles of float32 at far positions are not the same on all machines."""
    unit = 10.0 ** math.floor(math.log10(value or 1.0))
    return number(math.ceil(value / unit) * unit)


def as_power(position: int) -> str:
    power = len(str(position)) - 1
    return f"10^{power}" if position == 10**power >= 1000 else str(position)


def of_kinds(known: int, of: str) -> str:
    return f"{of} are of {known} kinds" if known > 1 else f"{of} are all of one kind"


def raised(error: Exception) -> str:
    return f"raises {type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]
