"""What a verdict consists of, and what decides it: a function for each test, registered under its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement
from posenc.audit.verdict import FOLLOWS, Verdict

PASS, FAILS, PROPERTY, NONE = Verdict.PASS, Verdict.FAILS, Verdict.PROPERTY, Verdict.NOT_APPLICABLE
BLIND = Verdict.BLIND


class Judgement(NamedTuple):
    """A verdict, what it means, and where to look."""

    verdict: Verdict
    cause: str = ""
    look: str = ""
    off: float | None = None
    """The size that decided, where it is not the test's own."""


Judge = Callable[[Measurement, Measures], Judgement]
JUDGES: dict[str, Judge] = {}
"""What decides a test's verdict where its number alone does not."""


def judges(*names: str) -> Callable[[Judge], Judge]:
    """Registers what decides the verdict of tests of these names."""

    def register(function: Judge) -> Judge:
        JUDGES.update(dict.fromkeys(names, function))
        return function

    return register


def follows(name: str, m: Measures) -> Judgement:
    """The verdict of a test that fails as a simpler one does."""
    judgement = JUDGES[name](m[name], m)
    if judgement.verdict != FAILS or judgement.cause.startswith(FOLLOWS):
        return Judgement(judgement.verdict, judgement.cause)
    return Judgement(FAILS, f"{FOLLOWS} `{name}`.")


def several(layers: list[int]) -> str:
    """Numbers of layers as a sentence has them, six at most."""
    numbers = ", ".join(map(str, layers[:6])) + (", …" if len(layers) > 6 else "")
    return f"layer{'s' if len(layers) > 1 else ''} {numbers}"


def number(off: float | None) -> str:
    """A size as a sentence has it."""
    return "nothing" if off is None else f"{off:.2g}"
