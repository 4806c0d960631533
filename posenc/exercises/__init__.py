"""Checks of what readers write: `check("alibi_slopes", my_function)` says which property fails, and where.

A chapter states what a function has to do; here are invariants of it, in words that the reader sees and in code that
the reader need not see. An invariant tries the function on many arguments and raises `CounterExample` at the first that
refutes it. It never compares with a solution in its message, so that the reader learns what is wrong and not what is
right.

Exercises of a chapter are in the module of its stem: `posenc/exercises/alibi.py` has those of `chapters/alibi.ipynb`,
and each begins with the stem.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from posenc._properties.isolation import undisturbed
from posenc.audit import audit
from posenc.exercises.attempt import Attempt, CounterExample

__all__ = ["Invariant", "Verdict", "check", "names"]

MODEL = "your_model"
"""An exercise without a chapter: the audit of a model that a reader brings."""

WIDTH = 88  # of a verdict, as of code in a chapter

Invariant = tuple[str, Callable[[Any], None]]


@dataclass(frozen=True)
class Verdict:
    """What became of an attempt; shown as a sentence or two, and true if all properties hold."""

    name: str
    properties: int
    """How many there are."""
    failed: str = ""
    """The property that fails, in words."""
    counter_example: str = ""

    def __bool__(self) -> bool:
        return not self.failed

    def __repr__(self) -> str:
        if self:
            many = {1: "the property holds", 2: "both properties hold"}
            return f"{self.name}: {many.get(self.properties, f'all {self.properties} properties hold')}"
        told = (f"{self.name} fails.", f"Property: {self.failed}", f"Counter-example: {self.counter_example}")
        return "\n".join(_wrapped(line) for line in told)


def check(name: str, attempt: Callable[..., Any]) -> Verdict:
    """Checks what a reader wrote against the invariants of an exercise.

    The attempt runs on the CPU, without gradients, and the random state is left as it was. Whatever it raises or
    returns ends up in the verdict.

    Args:
        name: The exercise, as its chapter calls it; `names()` lists them. With "your_model" the attempt is a model of
            your own, and its properties are the questions of `posenc.audit.audit`.
        attempt: A function, or a class where the exercise asks for one.

    Returns:
        The first invariant that fails, with a counter-example, or that all hold. It is true if all hold.

    Raises:
        ValueError: If there is no exercise of that name.
        TypeError: If `attempt` cannot be called.

    Example:
        >>> from posenc import exercises
        >>> bool(exercises.check("alibi_slopes", lambda heads: torch.ones(heads)))
        False
    """
    known = _exercises()
    if name == MODEL:
        return _audited(attempt)
    if name not in known:
        raise ValueError(f"there is no exercise {name!r}: {_near(str(name), sorted([*known, MODEL]))}")
    if not callable(attempt):
        raise TypeError(f"{attempt!r} cannot be called: pass the function itself, as in check({name!r}, my_function)")
    invariants = known[name]
    for words, holds in invariants:
        with undisturbed():
            watched = Attempt(attempt)
            try:
                holds(watched)
            except CounterExample as example:
                return Verdict(name, len(invariants), words, str(example))
            except Exception as error:  # what a reader returns may break anything
                raised = f"{watched.last or 'what it returned'} led to {type(error).__name__}: {error}"
                return Verdict(name, len(invariants), words, raised)
    return Verdict(name, len(invariants))


def _audited(model: Any) -> Verdict:
    """The verdict of an audit, as that of an exercise: the first test that fails, what it means, and where to look."""
    report = audit(model)
    tried = [finding for finding in report if finding.verdict != "does not apply"]
    for finding in report.failures:
        size = f"The change is {finding.size} times the logits' size. " if finding.size else ""
        return Verdict(MODEL, len(tried), f"{finding.name}: {finding.question}", f"{size}{finding.meaning}")
    return Verdict(MODEL, len(tried))


def _near(name: str, known: list[str]) -> str:
    """What may have been meant: names that are spelt alike, or contain the word, or are of the same chapter."""
    near = difflib.get_close_matches(name, known, n=3)
    near += [one for one in known if len(name) > 2 and (name in one or one.partition("_")[2] in name)]
    near += [one for one in known if name.partition("_")[0] == one.partition("_")[0]]
    if near:
        return f"did you mean {' or '.join(dict.fromkeys(near))}?"
    return f"posenc.exercises.names() lists all {len(known)}"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def names() -> list[str]:
    """All exercises that can be checked."""
    return sorted(_exercises())


@cache
def _exercises() -> dict[str, list[Invariant]]:
    """What the modules of this folder have in their EXERCISES."""
    exercises: dict[str, list[Invariant]] = {}
    for module in pkgutil.iter_modules(__path__):
        exercises |= getattr(importlib.import_module(f"{__name__}.{module.name}"), "EXERCISES", {})
    return exercises
