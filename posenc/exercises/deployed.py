"""Exercises of the chapter on models that ship."""

import torch

from posenc.exercises.attempt import Attempt, close, expect

CASES = ((64, 1.0, 10_000.0), (64, 0.75, 10_000.0), (128, 0.25, 1_000_000.0), (512, 0.25, 1_000_000.0))


def _number_each(planes: Attempt) -> None:
    for head_dim, share, base in CASES:
        planes.tensor(head_dim, share, base, shape=(head_dim // 2,))


def _rotating(planes: Attempt) -> None:
    for head_dim, share, base in CASES:
        found = int((planes.tensor(head_dim, share, base) != 0).sum())
        wanted = int(share * head_dim / 2)
        expect(found == wanted, f"{found} of {head_dim // 2} planes rotate in {planes.last}, where share says {wanted}")


def _fast_ones(planes: Attempt) -> None:
    for head_dim, share, base in CASES:
        answer = planes.tensor(head_dim, share, base)
        turning = int(share * head_dim / 2)
        still = answer[turning:]
        wrong = turning + int(still.abs().argmax()) if still.any() else 0
        expect(not still.any(), f"in {planes.last} plane {wrong} of {head_dim // 2} rotates, one of the slow ones")


def _of_the_whole_head(planes: Attempt) -> None:
    for head_dim, share, base in CASES:
        few, all_of_them = (planes.tensor(head_dim, part, base) for part in (share, 1.0))
        turning = int(share * head_dim / 2)
        gap = (few - all_of_them)[:turning].abs()
        worst = int(gap.argmax())
        expect(
            close(few[:turning], all_of_them[:turning]),
            f"plane {worst} of {head_dim // 2} rotates by {few[worst]:.4g} if {share:.0%} rotate, "
            f"and by {all_of_them[worst]:.4g} if all do",
        )


def _geometric(planes: Attempt) -> None:
    for head_dim, _, base in CASES:
        answer = planes.tensor(head_dim, 1.0, base)
        ratio = base ** (-2 / head_dim)
        expect(abs(float(answer[0]) - 1) < 1e-6, f"in {planes.last} the fastest plane rotates by {answer[0]:.4g}")
        expect(
            close(answer[1:] / answer[:-1], torch.full((head_dim // 2 - 1,), ratio), atol=1e-4),
            f"in {planes.last} the second plane has {answer[1] / answer[0]:.4g} times the frequency of the first",
        )


EXERCISES = {
    "deployed_planes": [
        ("there is a finite number for each plane", _number_each),
        ("int(share * head_dim / 2) planes rotate", _rotating),
        ("the planes that stand still are the slow ones, at the end", _fast_ones),
        ("a plane that rotates does so as in a head that rotates as a whole", _of_the_whole_head),
        ("the whole head's frequencies fall from 1 by base^(-2 / head_dim) from plane to plane", _geometric),
    ],
}
