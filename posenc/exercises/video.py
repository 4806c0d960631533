"""Exercises of the chapter on video and on text with pictures."""

import math

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, expect

Span = int | tuple[int, int, int]

SPANS: list[list[Span]] = [
    [4], [2, (1, 2, 3), 2], [(1, 5, 2), 3], [1, (1, 2, 6), 1, (1, 3, 3), 2], [2, (5, 2, 3), 2],
    [(3, 3, 3), (1, 2, 2), 1],
]  # fmt: skip


def _coordinates(positions: Attempt, spans: list[Span]) -> list[Tensor]:
    """What an attempt returns, cut into spans."""
    sizes = [span if isinstance(span, int) else math.prod(span) for span in spans]
    return list(positions.tensor(spans, shape=(sum(sizes), 3)).split(sizes))


def _text(positions: Attempt) -> None:
    for length in (1, 2, 7):
        answer = positions.tensor([length], shape=(length, 3))
        expected = torch.arange(length).double()[:, None].expand(-1, 3)
        expect(torch.equal(answer, expected), f"{positions.last} is {answer.int().tolist()}")


def _diagonal(positions: Attempt) -> None:
    for spans in SPANS:
        for span, answer in zip(spans, _coordinates(positions, spans), strict=True):
            if isinstance(span, int):
                bad = (answer != answer[:, :1]).any(-1)
                shown = answer[int(bad.int().argmax())].int().tolist()
                expect(not bad.any(), f"in {positions.last} a token of text stands at {shown}")


def _box(positions: Attempt) -> None:
    for spans in SPANS:
        for span, answer in zip(spans, _coordinates(positions, spans), strict=True):
            if not isinstance(span, int):
                expected = torch.cartesian_prod(*(torch.arange(size) for size in span)).double()
                shown = (answer - answer[0]).int().tolist()
                expect(
                    torch.equal(answer - answer[0], expected),
                    f"in {positions.last} the tokens of {span} lie, from the first of them, at {shown[:4]}, …",
                )


def _corner(positions: Attempt) -> None:
    for spans in SPANS:
        for span, answer in zip(spans, _coordinates(positions, spans), strict=True):
            expect(
                (answer[0] == answer[0, 0]).all(), f"in {positions.last} the span {span} begins at {answer[0].tolist()}"
            )


def _after(positions: Attempt) -> None:
    for spans in SPANS:
        parts = _coordinates(positions, spans)
        start = 0
        for span, answer in zip(spans, parts, strict=True):
            expect(
                int(answer[0].min()) == start,
                f"in {positions.last} the span {span} begins at {int(answer[0].min())}, and the largest coordinate "
                f"before it is {start - 1}",
            )
            start = max(start, int(answer.max()) + 1)


EXERCISES = {
    "video_positions": [
        ("text alone stands at 0, 1, 2, … on all three axes", _text),
        ("a token of text has three equal coordinates", _diagonal),
        ("an image or video is a box that is read like a page: time, row, column", _box),
        ("the first token of a span lies on the diagonal", _corner),
        ("a span begins one after the largest coordinate before it", _after),
    ],
}
