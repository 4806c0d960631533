"""Exercises that readers can check: each solution passes, each usual mistake fails at the property that it breaks."""

import importlib
import json
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from solutions import SOLUTIONS, WRONG

from posenc import ALiBi, Encoding, exercises
from posenc.exercises.attempt import Attempt, CounterExample, brief

CHAPTERS = Path(__file__).parents[1] / "chapters"


@cache
def verdict(name: str, number: int | None = None) -> exercises.Verdict:
    """What is said of the solution of an exercise, or of one of its usual mistakes: checked once for all tests."""
    return exercises.check(name, SOLUTIONS[name] if number is None else WRONG[name][number][0])


CASES = [(name, number) for name in sorted(WRONG) for number in range(len(WRONG[name]))]


MODULES = {
    path.stem: importlib.import_module(f"posenc.exercises.{path.stem}")
    for path in Path(exercises.__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "attempt")
}
OF_CHAPTER = {stem: list(module.EXERCISES) for stem, module in MODULES.items()}
INVARIANTS = {name: found for module in MODULES.values() for name, found in module.EXERCISES.items()}


def test_every_exercise_has_a_solution_and_a_mistake() -> None:
    for kind, made in {"SOLUTIONS": SOLUTIONS, "WRONG": WRONG}.items():
        other = set(made) ^ set(exercises.names())
        assert not other, f"{kind} of tests/solutions and EXERCISES of posenc/exercises differ in {', '.join(other)}"


@pytest.mark.parametrize("name", sorted(SOLUTIONS))
def test_the_solution_passes(name: str) -> None:
    found = verdict(name)
    assert found, str(found)
    assert re.fullmatch(rf"{name}: (the property holds|both properties hold|all \d+ properties hold)", repr(found))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_every_property_is_the_one_that_some_mistake_breaks(name: str) -> None:
    """A property that no mistake reaches may be emptied, or loosened, and nobody would notice."""
    properties = [words for words, _ in INVARIANTS[name]]
    meant = [[words for words in properties if property_ in words] for _, property_ in WRONG[name]]
    assert all(len(words) == 1 for words in meant), f"a mistake of WRONG[{name!r}] does not name one property: {meant}"
    unbroken = set(properties) - {words for (words,) in meant}
    assert not unbroken, f"no mistake of WRONG[{name!r}] in tests/solutions breaks {' or '.join(unbroken)}"


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_mistake_fails_where_it_should(name: str, number: int) -> None:
    found = verdict(name, number)
    assert not found
    assert WRONG[name][number][1] in found.failed, str(found)
    assert found.counter_example


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_verdict_fits_a_page(name: str, number: int) -> None:
    told = str(verdict(name, number))
    assert max(map(len, told.split("\n"))) <= exercises.WIDTH, told
    assert re.match(rf"{name} fails\.\nProperty: .*\nCounter-example: ", told, re.S)
    assert not re.search(r"0x[0-9a-f]{4,}", told)


@pytest.mark.parametrize("name", sorted(SOLUTIONS))
@pytest.mark.parametrize(
    "attempt",
    [
        lambda *args, **keywords: None,
        lambda *args, **keywords: "rubbish",
        lambda *args, **keywords: 1 / 0,
        lambda *args, **keywords: torch.tensor(torch.nan),
        lambda *args, **keywords: torch.zeros(3, 1, 4, 1, 5),
        lambda: torch.zeros(3),
    ],
    ids=["none", "text", "raises", "nan", "shape", "arguments"],
)
def test_whatever_comes_back_is_a_verdict(name: str, attempt) -> None:
    found = exercises.check(name, attempt)
    assert not found
    assert found.counter_example
    assert "Traceback" not in str(found)


def test_names_begin_with_their_chapter() -> None:
    for stem, names in OF_CHAPTER.items():
        assert (CHAPTERS / f"{stem}.ipynb").exists()
        assert all(name.startswith(f"{stem}_") for name in names)


@pytest.mark.parametrize("stem", sorted({path.stem for path in CHAPTERS.glob("*.ipynb")} - {"index"}))
def test_a_chapter_shows_each_of_its_exercises_refuted_and_solved(stem: str) -> None:
    notebook = json.loads((CHAPTERS / f"{stem}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    called = [name for cell in cells for name in re.findall(r'check\(\s*"(\w+)"', "".join(cell["source"]))]
    assert OF_CHAPTER[stem], f"posenc/exercises/{stem}.py has no exercise"
    other = (set(called) - {exercises.MODEL}) ^ set(OF_CHAPTER[stem])
    assert not other, f"chapters/{stem}.ipynb and posenc/exercises/{stem}.py differ in {', '.join(other)}"
    shown = str([cell["outputs"] for cell in cells])
    for name in OF_CHAPTER[stem]:
        assert f"{name} fails." in shown, f"chapters/{stem}.ipynb never shows {name} refuted, before its solution"
        assert re.search(rf"{name}: (the property holds|both properties hold|all \d+ properties hold)", shown)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("alibi_slope", "alibi_slopes"), ("bucket", "t5_bucket"), ("rope_spin", "rope_"), ("alibi", "alibi_sides or")],
)
def test_an_unknown_name_is_said(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean .*{meant}"):
        exercises.check(name, lambda heads: None)


def test_a_name_like_none_leads_to_the_list() -> None:
    with pytest.raises(ValueError, match=r"names\(\) lists all"):
        exercises.check("xyzzy", lambda heads: None)


def test_what_cannot_be_called_is_said() -> None:
    with pytest.raises(TypeError, match=r"pass the function itself"):
        exercises.check("alibi_slopes", torch.zeros(8))


def test_the_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    exercises.check("alibi_slopes", SOLUTIONS["alibi_slopes"])
    assert torch.equal(before, torch.get_rng_state())


# ---- what the reader is told ---------------------------------------------------------------------------------------


class Lopsided(Encoding):
    """An encoding with a mistake in it, of which the message has to speak."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def score_bias(self, q, k, qpos, kpos):
        def f(b, h, i, j):
            return kpos[b, j] - qpos[b, i] + torch.ones(3)

        return f


def test_an_error_inside_attention_names_the_class_and_the_method() -> None:
    found = str(exercises.check("alibi_sides", Lopsided))
    assert "attention with Lopsided(4), queries at 0 to 11 and keys at 0 to 11" in " ".join(found.split())
    assert "raises in Lopsided.score_bias.f RuntimeError" in " ".join(found.split())


def test_an_error_of_attend_itself_names_the_class() -> None:
    found = " ".join(str(exercises.check("alibi_sides", ALiBi)).split())
    assert "attention with ALiBi(4)" in found
    assert "raises ValueError: causal=False" in found


def test_what_is_no_encoding_is_said() -> None:
    found = " ".join(str(exercises.check("alibi_sides", lambda heads: torch.zeros(heads))).split())
    assert "a subclass of Encoding is asked for" in found


def test_a_method_that_is_missing_is_said() -> None:
    attempt = Attempt(lambda: Encoding())
    made = attempt.encoding()
    with pytest.raises(CounterExample, match=r"your function\(\) has no method 'turn'"):
        attempt.method(made, "turn")


def test_a_call_that_has_to_raise() -> None:
    def picky(x: int) -> int:
        if x < 0:
            raise ValueError("too small")
        return 1 // x

    attempt = Attempt(picky)
    attempt.refuses(ValueError, -1)
    with pytest.raises(CounterExample, match=r"picky\(1\) returns 1; a ValueError is asked for"):
        attempt.refuses(ValueError, 1)
    with pytest.raises(CounterExample, match=r"picky\(0\) raises ZeroDivisionError"):
        attempt.refuses(ValueError, 0)


def test_values_are_shown_briefly_and_without_addresses() -> None:
    assert brief(torch.tensor([1.0, 1 / 3])) == "tensor([1.0, 0.3333])"
    assert brief(torch.zeros(3, 4)) == "tensor<3×4>"
    assert brief([0] * 100) == "<list of 100>"
    assert brief(test_values_are_shown_briefly_and_without_addresses).startswith("test_values")
    assert brief(lambda x: x) == "<function>"
    assert brief(torch.Generator()) == "<Generator>"
    assert brief(torch.nn.Linear(1000, 1000).double()) == "Linear(in_features=1000, out_features=1000, bias=True)"
    assert brief(torch.nn.Sequential(torch.nn.ReLU())) == "<Sequential>"
