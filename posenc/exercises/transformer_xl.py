"""Exercises of the chapter on Transformer-XL."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.exercises.attempt import Attempt, close, draw, expect, worst
from posenc.schemes.transformer_xl import TransformerXL

SIZES = [(1, 1), (1, 5), (2, 2), (2, 6), (3, 4), (5, 5), (6, 9)]


def _marked(queries: int, keys: int) -> Tensor:
    """Entry (i, c) is 1000 i + 100 + the distance that column c is for."""
    distance = keys - 1 - torch.arange(keys + queries - 1)
    return (1000.0 * torch.arange(queries)[:, None] + 100 + distance).double()


def _entries(shift: Attempt) -> Iterator[tuple[str, int, int, int, int]]:
    """A call, and for each entry of what it returns: by how much its key is before its query, and what it is for."""
    for queries, keys in SIZES:
        answer = shift.tensor(_marked(queries, keys), keys, shape=(queries, keys))
        for i in range(queries):
            for j in range(keys):
                row, distance = divmod(int(answer[i, j]), 1000)
                what = f"for query {row} and the distance {distance - 100}" if answer[i, j] else "0, and was not in x"
                message = f"{queries} queries, {keys} keys: entry ({i}, {j}) of {shift.last} is {what}"
                yield message, i, keys - queries + i - j, row, distance - 100


def _own_row(shift: Attempt) -> None:
    for message, i, distance, row, _ in _entries(shift):
        expect(row == i or distance < 0, message)


def _past(shift: Attempt) -> None:
    for message, _, distance, _, own in _entries(shift):
        expect(distance < 0 or own == distance, message)


def _future(shift: Attempt) -> None:
    for message, i, distance, row, own in _entries(shift):
        expect((row, own) == (i, distance), message)


def _shape(shift: Attempt) -> None:
    for queries, keys in SIZES:
        shift.tensor(_marked(queries, keys), keys, shape=(queries, keys))


def _inputs(d: int, D: int, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return draw(d, seed=1), draw(d, D, seed=2), draw(d, seed=3), torch.arange(n - 1, -1, -1, dtype=torch.float64)


def _one_each(step: Attempt) -> None:
    for n in (1, 7, 40):
        step.tensor(*_inputs(8, 32, n), shape=(n,))


def _sum_only(step: Attempt) -> None:
    q, weight, v, distances = _inputs(8, 32, 7)
    answer, other = step.tensor(q, weight, v, distances), step.tensor(q + v, weight, 0 * v, distances)
    expect(close(answer, other, 1e-5), f"{step.last} changes if v is added to q and taken from v")


def _as_the_door(step: Attempt) -> None:
    for d, D, n in ((8, 32, 30), (4, 12, 9)):
        q, weight, v, distances = _inputs(d, D, n)
        xl = TransformerXL(D, 1, d).double()
        for parameter, value in ((xl.weight, weight), (xl.v, v[None]), (xl.u, 0 * v[None])):
            parameter.copy_(value)
        pos = torch.arange(n)[None]
        wanted = xl.score_bias(q[None, None, None], torch.empty(0), pos[:, -1:], pos)[0, 0, 0]
        answer = step.tensor(q, weight, v, distances, shape=(n,))
        (at,) = worst(answer, wanted)
        message = f"d = {d}, D = {D}: at distance {n - 1 - at} it is {answer[at]:.3f}"
        expect(close(answer, wanted, 1e-5), f"{message}, where TransformerXL.score_bias has {wanted[at]:.3f}")


class _Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that is computed."""

    size = 0

    def __torch_dispatch__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else [out]:
            if isinstance(one, Tensor):
                self.size = max(self.size, one.numel())
        return out


def _no_table(step: Attempt) -> None:
    d, D, n = 64, 8, 500
    with _Largest() as largest:
        step(*_inputs(d, D, n))
    limit = max(n * D, d * D)
    message = f"d = {d}, D = {D} and {n} distances: a tensor of {largest.size:,} numbers is made"
    expect(largest.size <= limit, f"{message}, where {limit:,} are {n} sinusoids")


EXERCISES = {
    "transformer_xl_shift": [
        ("the result has a row for each query and a column for each key", _shape),
        ("a key that is not after the query gets a number from the query's own row", _own_row),
        ("a key that is not after the query gets the number of its distance", _past),
        ("a key that is after the query gets the number of its distance, too", _future),
    ],
    "transformer_xl_step": [
        ("there is a number for each distance", _one_each),
        ("only the sum of q and v counts", _sum_only),
        ("it is the bias of TransformerXL", _as_the_door),
        ("nothing larger than the sinusoids is made", _no_table),
    ],
}
