"""Exercises of the chapter on precision."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.exercises.attempt import Attempt, CounterExample, brief, expect

BASES = ((16, 10_000.0), (64, 500_000.0))
NEAR_ENOUGH = 1e-6


class _NoFloat64(TorchDispatchMode):
    """Refuses tensors of float64, as some devices do."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.dtype in (torch.float64, torch.complex128):
                raise TypeError("this device has no float64")
        return out


def _both(tables: Attempt, pos: Tensor, dim: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines as they were returned, or the reason why they are none."""
    with _NoFloat64():
        answer: Any = tables(pos, dim, base)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2 or not all(isinstance(t, Tensor) for t in answer):
        raise CounterExample(f"{tables.last} returns {brief(answer)}, and a cosine and a sine are asked for")
    for table in answer:
        shape = (len(pos), dim // 2)
        given = tuple(table.shape)
        expect(given == shape, f"{tables.last} has a table of shape {given}, and {shape} is asked for")
        expect(table.dtype == torch.float32, f"{tables.last} has a table of {table.dtype}")
        expect(table.isfinite().all(), f"{tables.last} has an entry that is not finite")
    return answer[0].cpu().double(), answer[1].cpu().double()


def _right(tables: Attempt, first: int, count: int = 64) -> None:
    """Compares entries at `count` positions with float64."""
    pos = torch.arange(first, first + count)
    for dim, base in BASES:
        freq = torch.tensor([math.pow(base, -2 * t / dim) for t in range(dim // 2)], dtype=torch.float64)
        angle = pos[:, None].double() * freq
        cos, sin = _both(tables, pos.clone(), dim, base)
        for name, table, exact in (("cosine", cos, angle.cos()), ("sine", sin, angle.sin())):
            error = (table - exact).abs()
            p, t = divmod(int(error.argmax()), dim // 2)
            message = f"{tables.last}: the {name} at position {first + p} in pair {t} is off by {error.max():.2g}"
            expect(error.max() <= NEAR_ENOUGH, message)


def _shapes(tables: Attempt) -> None:
    cos, sin = _both(tables, torch.arange(3), 8, 10_000.0)
    for name, value, row in (("cosine", 1.0, cos[0]), ("sine", 0.0, sin[0])):
        expect((row == value).all(), f"{tables.last}: at position 0 a {name} is {row[0].item():.3g}")


def _near(tables: Attempt) -> None:
    _right(tables, 0, 200)


def _later(tables: Attempt) -> None:
    _right(tables, 4000)


def _far(tables: Attempt) -> None:
    _right(tables, 100_000)
    _right(tables, 999_900)


def _autocast(tables: Attempt) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _right(tables, 4000)


def _untouched(tables: Attempt) -> None:
    pos = torch.arange(300, 310)
    before = pos.clone()
    cos, _ = _both(tables, pos, 16, 10_000.0)
    expect(torch.equal(pos, before), f"{tables.last} changes the positions that it was given")
    alone, _ = _both(tables, pos[7:8], 16, 10_000.0)
    expect(torch.equal(alone[0], cos[7]), f"{tables.last}: position 307 has another row here than among its neighbours")


EXERCISES = {
    "precision_tables": [
        ("without float64 there is a cosine and a sine in float32 for each position and pair", _shapes),
        ("up to position 200 no entry is off by more than a millionth", _near),
        ("nor is one at position 4000", _later),
        ("nor is one at position 100 000, or at a million", _far),
        ("nor is one if it is computed under autocast", _autocast),
        ("a row depends on its own position alone", _untouched),
    ],
}
