"""Waves of the tokens to come: while tokens come one by one, tables for many positions are made at once."""

from typing import Any

import torch
from torch import Tensor

from posenc._attention.kept import Kept
from posenc._attention.spans import Span

AHEAD = 61
"""Positions whose waves are made at once. No head has as many channels, so none is taken for a position."""


def waves_ahead(
    kept: Kept,
    encoding: Any,
    state: tuple[Any, ...],
    at: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Any:
    """What `encoding.waves` makes of one position, from a table that is kept; None if it has another form.

    Args:
        kept: Where the table lies.
        encoding: Whose waves they are.
        state: What `encoding.waves_state` returned.
        at: The position.
        dtype: Of the waves.
        device: Where they are wanted.
    """
    start, rows = kept.get(
        "waves",
        (*state, dtype, device),
        lambda made: 0 <= at - made[0] < AHEAD,
        lambda: (at, _rows(encoding.waves(Span(at, AHEAD).tensor(device), dtype))),
    )
    return None if rows is None else rows[at - start]


def _rows(waves: Any) -> list[Any] | None:
    """The same for each position by itself; None where waves are of another form than `Encoding.waves` says."""
    if isinstance(waves, tuple):
        parts = [_rows(part) for part in waves]
        known = [part for part in parts if part is not None]
        return None if len(known) < len(parts) else list(zip(*known, strict=True))
    fits = isinstance(waves, Tensor) and waves.ndim > 1 and waves.shape[-2] == AHEAD
    return list(waves.split(1, -2)) if fits else None
