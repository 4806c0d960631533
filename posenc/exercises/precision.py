"""Exercises of the chapter on precision."""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, CounterExample, brief, expect

BASES = ((16, 10_000.0), (64, 500_000.0))
FORMATS = (torch.bfloat16, torch.float16, torch.float32)


def _both(tables: Attempt, pos: Tensor, dim: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines as they were returned, or the reason why they are none."""
    found: Any = tables(pos, dim, base, dtype)
    if not isinstance(found, (tuple, list)) or len(found) != 2 or not all(isinstance(t, Tensor) for t in found):
        raise CounterExample(f"{tables.last} returns {brief(found)}, and a cosine and a sine are asked for")
    for table in found:
        shape = (len(pos), dim // 2)
        given = tuple(table.shape)
        expect(given == shape, f"{tables.last} has a table of shape {given}, and {shape} is asked for")
        expect(table.dtype == dtype, f"{tables.last} has a table of {table.dtype}")
        expect(table.isfinite().all(), f"{tables.last} has an entry that is not finite")
    return found[0].cpu().double(), found[1].cpu().double()


def _right(tables: Attempt, first: int, count: int = 64) -> None:
    """Compares entries at `count` positions with float64, in units of the format below 1."""
    pos = torch.arange(first, first + count)
    for dim, base in BASES:
        freq = torch.tensor([math.pow(base, -2 * t / dim) for t in range(dim // 2)], dtype=torch.float64)
        angle = pos[:, None].double() * freq
        for dtype in FORMATS:
            cos, sin = _both(tables, pos.clone(), dim, base, dtype)
            unit = torch.finfo(dtype).eps / 2
            for name, table, exact in (("cosine", cos, angle.cos()), ("sine", sin, angle.sin())):
                off = (table - exact).abs()
                p, t = divmod(int(off.argmax()), dim // 2)
                message = (
                    f"{tables.last}: the {name} at position {first + p} in pair {t} is off by {off.max():.2g}, "
                    f"and the spacing of {str(dtype)[6:]} below 1 is {unit:.2g}"
                )
                expect(off.max() <= unit, message)


def _shapes(tables: Attempt) -> None:
    for dtype in FORMATS:
        cos, sin = _both(tables, torch.arange(3), 8, 10_000.0, dtype)
        for name, value, row in (("cosine", 1.0, cos[0]), ("sine", 0.0, sin[0])):
            expect((row == value).all(), f"{tables.last}: at position 0 a {name} is {row[0].item():.3g}")


def _near(tables: Attempt) -> None:
    _right(tables, 0, 200)


def _beyond_256(tables: Attempt) -> None:
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
    cos, _ = _both(tables, pos, 16, 10_000.0, torch.bfloat16)
    expect(torch.equal(pos, before), f"{tables.last} changes the positions that it was given")
    alone, _ = _both(tables, pos[7:8], 16, 10_000.0, torch.bfloat16)
    expect(torch.equal(alone[0], cos[7]), f"{tables.last}: position 307 has another row here than among its neighbours")


EXERCISES = {
    "precision_tables": [
        ("there is a cosine and a sine for each position and pair, in the dtype that was asked for", _shapes),
        ("up to position 200, no entry is off by more than the spacing of its format below 1", _near),
        ("nor is one at position 4000", _beyond_256),
        ("nor is one at position 100 000, or at a million", _far),
        ("nor is one if it is computed under autocast", _autocast),
        ("a row depends on its own position alone", _untouched),
    ],
}
