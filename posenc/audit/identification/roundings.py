"""In which precision angles, tables or values are: each possibility is computed, and the one that fits is named."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.audit.identification.given import Dump

COARSE = (torch.bfloat16, torch.float16)
ROWS = 150  # that are enough
Turned = Callable[[Tensor, Tensor], Tensor]


def _to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).double()


def rounding_of(
    dump: Dump, pairs: tuple[tuple[int, int], ...], freq: Tensor, axis: Tensor, offset: float, amplitude: float,
    measured: float,
) -> tuple[str, str]:  # fmt: skip
    """The precision, and what is rounded to it.

    Args:
        dump: What is explained.
        pairs: The planes.
        freq: (h,) with their sign: those that the rotation should have.
        axis: (h,) of positions.
        offset: Added to positions.
        amplitude: Of tables.
        measured: What the fitted lines leave unexplained.
    """
    i, j = (torch.tensor(each) for each in zip(*pairs, strict=True))
    some = slice(None, None, max(1, len(dump.before) // ROWS))
    x = torch.complex(dump.before[some, i], dump.before[some, j])
    y = torch.complex(dump.after[some, i], dump.after[some, j])
    pos = dump.positions[some][:, axis] + offset
    scale = float(y.abs().square().mean().sqrt())

    def left(angle: Tensor, table: torch.dtype | None = None, out: torch.dtype | None = None) -> float:
        c, s = amplitude * angle.cos(), amplitude * angle.sin()
        if table is not None:
            c, s = _to(c, table), _to(s, table)
        z = x * torch.complex(c, s)
        if out is not None:
            z = torch.complex(_to(z.real, out), _to(z.imag, out))
        return float((y - z).abs().square().mean().sqrt()) / scale

    exact, single = pos * freq, _to(_to(pos, torch.float32) * _to(freq, torch.float32), torch.float32)
    plain = {"float64": left(exact), "float32": left(single)}
    tried: dict[tuple[str, str], float] = {}
    for dtype in COARSE:
        name = str(dtype).removeprefix("torch.")
        ways = {
            "tables": left(single, table=dtype),
            "angles": left(_to(single, dtype)),
            "angles and tables": left(_to(single, dtype), table=dtype),
            "frequencies": left(_to(_to(pos, torch.float32) * _to(freq, dtype), torch.float32)),
            "positions": left(_to(_to(pos, dtype) * _to(freq, torch.float32), torch.float32)),
            "positions and frequencies": left(_to(_to(pos, dtype) * _to(freq, dtype), torch.float32)),
            "positions, frequencies and angles": left(_to(_to(pos, dtype) * _to(freq, dtype), dtype)),
            "positions, frequencies, angles and tables": left(
                _to(_to(pos, dtype) * _to(freq, dtype), dtype), table=dtype
            ),
        }
        if dump.grain == dtype:
            ways |= {"values": left(single, out=dtype), "tables and values": left(single, dtype, dtype),
                     "angles, tables and values": left(_to(single, dtype), dtype, dtype)}  # fmt: skip
        tried |= {(name, what): size for what, size in ways.items()}
    best = min(tried, key=lambda key: tried[key])
    base = min(plain.values())
    if base > 2e-5 and tried[best] < 0.4 * base:
        return best
    if dump.grain in COARSE and base < 6e-3:  # as it is dumped
        return str(dump.grain).removeprefix("torch."), "values"
    if measured < 1e-12:
        exactly = plain["float64"] < 1e-10 * max(1.0, float(pos.abs().max()) * 1e-3)
        return ("float64", "") if exactly else ("float32", "frequencies")
    far = float(pos.square().mean().sqrt())
    if min(measured, base) < 3e-5 + 2e-7 * far or (
        plain["float32"] < 1e-2 and plain["float32"] < 0.5 * plain["float64"]
    ):
        return "float32", "values" if dump.grain == torch.float32 else "angles or tables"
    return "unknown", ""
