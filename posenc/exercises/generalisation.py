"""Exercises of the chapter on generalisation."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, expect


def _drawn(positions: Attempt, n: int = 5, longest: int = 40, times: int = 4000) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.stack([positions.whole(n, longest, generator, shape=(n,)) for _ in range(times)])


def _range(positions: Attempt) -> None:
    for n, longest in ((5, 40), (1, 3), (8, 9)):
        answer = _drawn(positions, n, longest, 200)
        for end, one in (("least", answer.min()), ("largest", answer.max())):
            expect(0 <= one < longest, f"in 200 draws, {positions.last} has {one} as its {end} position")


def _rises(positions: Attempt) -> None:
    for n, longest in ((5, 40), (8, 9)):
        for row in _drawn(positions, n, longest, 500):
            expect((row.diff() > 0).all(), f"{positions.last} returns {row.tolist()}")


def _all(positions: Attempt) -> None:
    row = _drawn(positions, 7, 7, 1)[0].tolist()
    expect(row == list(range(7)), f"{positions.last} returns {row}")


def _alike(positions: Attempt) -> None:
    often = _drawn(positions).flatten().bincount(minlength=40) / 4000
    for p, share in enumerate(often.tolist()):
        expect(abs(share - 5 / 40) < 0.03, f"in 4000 draws of {positions.last}, position {p} is in {100 * share:.1f} %")


def _by_generator(positions: Attempt) -> None:
    one, other = _drawn(positions, times=5), _drawn(positions, times=5)
    expect(torch.equal(one, other), f"{positions.last}, from generators in the same state, returns different positions")


EXERCISES = {
    "generalisation_positions": [
        ("there are n whole numbers from 0 to longest - 1", _range),
        ("they rise, and no two are the same", _rises),
        ("if n is longest, they are all that there are", _all),
        ("each position is as likely as any other", _alike),
        ("what is drawn depends on the generator alone", _by_generator),
    ],
}
