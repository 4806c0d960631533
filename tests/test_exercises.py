"""Exercises that readers can check: each solution passes, each usual mistake fails at the property that it breaks."""

import re

import pytest
import torch
from solutions import SOLUTIONS, WRONG

from posenc import exercises

CASES = [(name, number) for name in sorted(WRONG) for number in range(len(WRONG[name]))]


def test_every_exercise_has_a_solution_and_a_mistake() -> None:
    assert sorted(SOLUTIONS) == sorted(WRONG) == exercises.names()


@pytest.mark.parametrize("name", sorted(SOLUTIONS))
def test_the_solution_passes(name: str) -> None:
    verdict = exercises.check(name, SOLUTIONS[name])
    assert verdict, str(verdict)
    assert re.fullmatch(rf"{name}: (the property holds|all \d+ properties hold)", repr(verdict))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_mistake_fails_where_it_should(name: str, number: int) -> None:
    wrong, property_ = WRONG[name][number]
    verdict = exercises.check(name, wrong)
    assert not verdict
    assert property_ in verdict.failed, str(verdict)
    assert verdict.counter_example


@pytest.mark.parametrize("name", sorted(SOLUTIONS))
@pytest.mark.parametrize(
    "attempt",
    [lambda *args, **keywords: None, lambda *args, **keywords: "rubbish", lambda *args, **keywords: 1 / 0,
     lambda *args, **keywords: torch.tensor(torch.nan), lambda *args, **keywords: torch.zeros(3, 1, 4, 1, 5),
     lambda: torch.zeros(3)],
    ids=["none", "text", "raises", "nan", "shape", "arguments"],
)  # fmt: skip
def test_whatever_comes_back_is_a_verdict(name: str, attempt) -> None:
    verdict = exercises.check(name, attempt)
    assert not verdict
    assert verdict.counter_example
    assert "Traceback" not in str(verdict)


def test_an_unknown_name_is_said() -> None:
    with pytest.raises(ValueError, match="did you mean alibi_slopes"):
        exercises.check("alibi_slope", lambda heads: None)


def test_what_cannot_be_called_is_said() -> None:
    with pytest.raises(TypeError, match=r"pass the function itself"):
        exercises.check("alibi_slopes", torch.zeros(8))


def test_the_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    exercises.check("alibi_slopes", SOLUTIONS["alibi_slopes"])
    assert torch.equal(before, torch.get_rng_state())
