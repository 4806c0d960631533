"""Exercises of the chapter on images."""

import itertools

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, draw, expect

DIMS = (4, 8, 16)


def _places(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _matrix(turn: Attempt, dim: int, row: float, column: float) -> Tensor:
    """What a place does to each unit vector."""
    return turn.tensor(torch.eye(dim, dtype=torch.float64), _places((row, column)).expand(dim, 2), shape=(dim, dim))


def _lengths(turn: Attempt) -> None:
    for dim in DIMS:
        x, coords = draw(12, dim), draw(12, 2, seed=1).mul(9).round()
        answer = turn.tensor(x, coords, shape=(12, dim))
        worst = int((answer.norm(dim=-1) - x.norm(dim=-1)).abs().argmax())
        expect(
            close(answer.norm(dim=-1), x.norm(dim=-1)),
            f"at {coords[worst].tolist()} a length {x[worst].norm():.3f} becomes {answer[worst].norm():.3f}",
        )


def _relative(turn: Attempt) -> None:
    for dim, (down, right) in itertools.product(DIMS, ((1.0, 0.0), (0.0, 1.0), (3.0, -2.0))):
        q, k, coords = draw(9, dim), draw(9, dim, seed=1), draw(9, 2, seed=2).mul(9).round()
        move = _places((down, right))
        before, after = (turn.tensor(q, c) @ turn.tensor(k, c).T for c in (coords, coords + move))
        expect(close(before, after), f"all places moved by ({down:g}, {right:g}), d = {dim}: scores change")


def _apart(turn: Attempt) -> None:
    near = list(itertools.product(range(-5, 6), repeat=2))
    for dim in DIMS:
        start = _matrix(turn, dim, 0, 0)
        for row, column in near:
            if (row, column) != (0, 0):
                answer = _matrix(turn, dim, row, column)
                expect(not close(answer, start), f"a step of ({row}, {column}) rotates nothing, d = {dim}")


def _halves(turn: Attempt) -> None:
    for dim in DIMS:
        ends = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
        moved = [(_matrix(turn, dim, *end) - torch.eye(dim)).abs().amax(1) > 1e-9 for end in ends.tolist()]
        for name, by in zip(("down", "right"), moved, strict=True):
            expect(int(by.sum()) == dim // 2, f"d = {dim}: a move {name} rotates {int(by.sum())} channels")
        expect(not (moved[0] & moved[1]).any(), f"d = {dim}: a channel is rotated by moves down and by moves right")


def _ladder(turn: Attempt) -> None:
    for dim, (name, row, column) in itertools.product(DIMS, (("down", 1, 0), ("right", 0, 1))):
        matrix = _matrix(turn, dim, row, column)
        angles = torch.linalg.eigvals(matrix).angle().abs().sort(descending=True).values[: dim // 2 : 2]
        expected = 100.0 ** (-4 * torch.arange(dim // 4, dtype=torch.float64) / dim)
        shown = ", ".join(f"{angle:.4f}" for angle in angles.tolist())
        expect(close(angles, expected), f"d = {dim}: one step {name} rotates its pairs by {shown}")


EXERCISES = {
    "grid_axial": [
        ("lengths do not change", _lengths),
        ("moving all places alike changes no score", _relative),
        ("every step but none at all rotates something", _apart),
        ("moves down rotate one half of the channels, moves right the other", _halves),
        ("one step, down or right, rotates its pairs by 100^(-4t/d)", _ladder),
    ],
}
