"""Exercises of the chapter on choosing."""

import itertools
import math

from posenc.exercises.attempt import Attempt, CounterExample, expect
from posenc.schemes.sinusoidal import frequencies

CASES = list(itertools.product((128, 4096, 2**20), (4, 64, 128), (1, 2, 5), (0.25, 1.0, 3.0)))


def _slow(window: int, dim: int, base: float, turns: float) -> int:
    """How many planes make at most so many turns, rounding aside."""
    return int((window * frequencies(dim, base).double() / (2 * math.pi) <= turns * (1 + 1e-4)).sum())


def _enough(base: Attempt) -> None:
    for window, dim, planes, turns in CASES:
        if planes < dim // 2:
            answer = base.tensor(window, dim, planes, turns, shape=()).item()
            expect(answer >= 1, f"{base.last} is {answer:.4g}")
            slow = _slow(window, dim, answer, turns)
            expect(slow >= planes, f"{base.last} is {answer:.6g}, with which {slow} planes make at most {turns} turns")


def _least(base: Attempt) -> None:
    for window, dim, planes, turns in CASES:
        if planes < dim // 2:
            answer = base.tensor(window, dim, planes, turns, shape=()).item()
            smaller = max(1.0, 0.99 * answer)
            slow = _slow(window, dim, smaller, turns)
            told = f"{base.last} is {answer:.6g}, and {smaller:.6g} has {slow} such planes too"
            expect(smaller == answer or slow < planes, told)


def _short(base: Attempt) -> None:
    for dim, planes in ((64, 1), (64, 31), (4, 1), (8, 4)):
        answer = base.tensor(6, dim, planes, 1.0, shape=()).item()
        expect(abs(answer - 1) < 1e-9, f"in 6 positions no plane completes a turn, and {base.last} is {answer:.4g}")


def _refused(base: Attempt) -> None:
    for window, dim, turns in ((128, 64, 1.0), (4096, 4, 3.0)):
        base.last = f"{base.name}({window}, {dim}, {dim // 2}, {turns})"
        try:
            answer = base.function(window, dim, dim // 2, turns)
        except ValueError:
            continue
        raise CounterExample(f"{base.last} returns {answer}, though the fastest plane rotates by a radian a position")


EXERCISES = {
    "choosing_base": [
        ("with that base, enough planes are slow", _enough),
        ("no smaller base would do", _least),
        ("in a window in which no plane completes a turn, the base is 1", _short),
        ("what no base can do is refused with a ValueError", _refused),
    ],
}
