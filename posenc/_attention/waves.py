"""Waves of the tokens to come: while tokens come one by one, tables for many positions are made at once."""

from typing import Any

import torch
from torch import Tensor

from posenc._attention.kept import Kept
from posenc._attention.spans import Span

AHEAD = 61
"""Positions whose waves are made at once. No head has as many channels, so none is taken for a position."""


def waves_ahead(
    kept: Kept, encoding: Any, at: int, dtype: torch.dtype, device: torch.device
) -> Any:
    """What `encoding.waves` makes of one position, from a table that is kept; None if it has another form.

    Args:
        kept: Where the table lies.
        encoding: Whose `waves_state` is not None.
        at: The position.
        dtype: Of the waves.
        device: Where they are wanted.
    """
    block, waves = kept.get(
        "waves",
        (*encoding.waves_state(), dtype, device),
        lambda made: made[0].start <= at < made[0].end,
        lambda: _from(encoding, at, dtype, device),
    )
    return _at(at - block.start, waves)


def _from(
    encoding: Any, start: int, dtype: torch.dtype, device: torch.device
) -> tuple[Span, Any]:
    block = Span(start, AHEAD)
    return block, encoding.waves(block.tensor(device), dtype)


def _at(index: int, waves: Any) -> Any:
    """One position of a table for `AHEAD` of them; None where it is of another form than `Encoding.waves` says."""
    if isinstance(waves, tuple):
        parts = tuple(_at(index, part) for part in waves)
        return None if any(part is None for part in parts) else parts
    fits = isinstance(waves, Tensor) and waves.ndim > 1 and waves.shape[-2] == AHEAD
    return waves.narrow(-2, index, 1) if fits else None
