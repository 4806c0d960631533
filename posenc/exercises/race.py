"""Exercise of the chapter on the race."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, expect


def _given() -> Tensor:
    return torch.randint(16, (6, 20), generator=torch.Generator().manual_seed(4))


def _by_hand(row: list[int]) -> list[int]:
    latest, wanted = 0, []
    for place, letter in enumerate(row):
        latest = letter if place and letter < 4 else latest
        wanted.append(latest)
    return wanted


def _tokens(latest: Attempt) -> None:
    letters = _given()
    tokens, _, _ = latest(letters.clone(), torch.tensor(20))
    expect(bool((tokens[:, 0] == 0).all()), "a text does not begin with an a, which is the number 0")
    expect(torch.equal(tokens[:, 1:], letters[:, 1:]), "letters after the first are not those that were given")


def _targets(latest: Attempt) -> None:
    tokens, targets, _ = latest(_given(), torch.tensor(20))
    for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        right = _by_hand(row)
        wrong = next((n for n, (a, b) in enumerate(zip(wanted, right, strict=True)) if a != b), None)
        if wrong is not None:
            text = "".join(chr(ord("a") + letter) for letter in row[: wrong + 1])
            said, true = (chr(ord("a") + x) for x in (wanted[wrong], right[wrong]))
            expect(False, f"after {text} your rule asks for {said}, and the latest of a to d is {true}")


def _mask(latest: Attempt) -> None:
    _, _, counted = latest(_given(), torch.tensor(20))
    expect(counted.dtype == torch.bool and counted.shape == (20,), "the mask is not (L,), bool")
    expect(bool(counted.all()), "the mask leaves letters out, though an a stands before all of them")


EXERCISES = {
    "race_latest": [
        ("a text begins with an a and is otherwise as given", _tokens),
        ("each target is the latest of a to d", _targets),
        ("every letter is counted", _mask),
    ],
}
