"""The tests, each a function of a `Probe` that returns a number or an `Outcome`; `causes` says what it means."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc.audit.adapters.protocol import Refused
from posenc.audit.errors import first_line
from posenc.audit.probe import Measurement, Probe, Slow

PARTS = (
    "repeat",
    "sight",
    "precision",
    "place",
    "padding",
    "cache",
    "generation",
    "packing",
    "reference",
    "schedule",
    "bias",
)  # in the order of the report


@dataclass(frozen=True)
class Outcome:
    """A number with what the verdict may need besides."""

    off: float | None
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Check:
    """One test."""

    name: str
    question: str
    run: Callable[[Probe], float | Outcome]
    more: bool = False
    """Whether it runs only if it is asked for."""
    partner: bool = False
    """Whether it has no row in the report, and only decides what another test means."""

    @property
    def part(self) -> str:
        """The module that it is in, such as "cache"."""
        return self.run.__module__.rpartition(".")[2]


CHECKS: dict[str, Check] = {}
"""All tests by name, in the order of the report; partners are among them."""


def check(
    question: str, *, more: bool = False, partner: bool = False
) -> Callable[[Callable[[Probe], float | Outcome]], Callable[[Probe], float | Outcome]]:
    """Registers a test under its function's name.

    Args:
        question: What it asks, in words; the row's title in a report.
        more: Whether it runs only if it is asked for.
        partner: Whether it only decides what another test means, and has no row.
    """

    def register(run: Callable[[Probe], float | Outcome]) -> Callable[[Probe], float | Outcome]:
        name = run.__name__.rstrip("_")
        CHECKS[name] = Check(name, question, run, more, partner)
        return run

    return register


WORDS = re.compile(
    r"\bsupport(s|ed)?\b|\bcannot\b|not implemented|only .*\ballowed|not allowed|\bneed to call\b|\bplease\b", re.I
)
"""How a model's own sentence reads that refuses an input: torch's and Python's messages read otherwise."""


def _in_words(error: BaseException) -> bool:
    """Whether an exception is a refusal that somebody wrote, such as "only alibi allowed for custom positions"."""
    if isinstance(error, TypeError):  # Python's own say "cannot" and "unsupported"
        return "need to call" in str(error)
    return isinstance(error, ValueError | AssertionError) and bool(WORDS.search(str(error)))


def measure(name: str, probe: Probe) -> Measurement:
    """Runs one test; whatever it raises ends up in the measurement."""
    probe.seen[:] = [0.0, ""]
    try:
        outcome = CHECKS[name].run(probe)
    except Slow as slow:
        return Measurement(name, None, first_line(slow), slow=True)
    except (Refused, NotImplementedError) as refusal:
        return Measurement(name, None, first_line(refusal) or type(refusal).__name__)
    except (Exception, SystemExit) as error:  # a model may raise anything
        if _in_words(error) and name != "again":
            return Measurement(name, None, f"the model refuses it: {first_line(error)}")
        if name not in ("again", "fresh") and (why := probe.picky):
            return Measurement(name, None, why)
        return Measurement(name, None, f"{type(error).__name__}: {first_line(error)}", raised=True)
    outcome = outcome if isinstance(outcome, Outcome) else Outcome(outcome)
    return Measurement(name, outcome.off, details=outcome.details or {}, places=probe.seen[1])


for _part in PARTS:
    importlib.import_module(f"{__name__}.{_part}")
