"""Exercises of the chapter on memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, expect

SIZES = [(1, 1, 1), (1, 9, 4), (3, 3, 5), (4, 8, 8), (4, 12, 8), (6, 7, 2)]


def _masks(mask: Attempt) -> Iterator[tuple[Tensor, Tensor, int]]:
    """A mask, how far each key lies behind its query, and the number of keys that are allowed."""
    for queries, keys, length in SIZES:
        visible = mask.tensor(queries, keys, length, shape=(queries, keys)).bool()
        behind = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
        yield visible, behind, length


def _shape(mask: Attempt) -> None:
    for queries, keys, length in SIZES:
        mask.tensor(queries, keys, length, shape=(queries, keys))


def _itself(mask: Attempt) -> None:
    for visible, behind, _ in _masks(mask):
        expect(visible[behind == 0].all(), f"{mask.last} hides a query from itself")


def _causal(mask: Attempt) -> None:
    for visible, behind, _ in _masks(mask):
        expect(not visible[behind < 0].any(), f"{mask.last} lets a query attend to a later key")


def _latest(mask: Attempt) -> None:
    for visible, behind, length in _masks(mask):
        wanted = ((behind >= 0) & (behind < length)).sum(-1)
        for query, (has, asked) in enumerate(zip(visible.sum(-1).tolist(), wanted.tolist(), strict=True)):
            expect(has == asked, f"{mask.last}: query {query} has {has} keys, and {asked} are asked for")
        expect(visible[(behind >= 0) & (behind < length)].all(), f"{mask.last} hides a key that is near enough")


EXERCISES = {
    "memory_same_length": [
        ("the mask has a row for each query and a column for each key", _shape),
        ("each query attends to itself", _itself),
        ("no query attends to a later key", _causal),
        ("each query has its latest keys, `length` of them if there are as many", _latest),
    ],
}
