"""Positions that are added to embeddings: the reference is asked at others until it gives the candidate's logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused, Unfit
from posenc.audit.comparison.described import Found
from posenc.audit.comparison.sides import Side
from posenc.audit.probe import deviation


def _later(by: int) -> Callable[[Tensor], Tensor]:
    return lambda pos: (pos + by).clamp(min=0)


CHANGES: dict[tuple[str, str], Callable[[Tensor], Tensor]] = {
    **{("offset", f"positions {n:+d}"): _later(n) for n in (1, 2, 3, 4, -1, -2)},
    ("ignored", "position 0 for all tokens"): lambda pos: 0 * pos,
    ("direction", "positions from the end"): lambda pos: pos.flip(-1),
    ("scaling", "doubled positions"): lambda pos: 2 * pos,
    ("scaling", "halved positions"): lambda pos: pos // 2,
}
"""What may have become of positions, by kind and in words."""


def told(ours: Side, near: Any, tolerance: float) -> Found | None:
    """The difference of two models whose first token knows its position; None if there is none, or it has no name."""
    if near.off <= tolerance or not ours.able_to_count():
        return None
    pos = torch.arange(near.tokens.shape[1])[None].expand(len(near.tokens), -1)
    try:
        moved = ours.logits(near.tokens, pos + 1)
        plain = ours.logits(near.tokens, pos)
    except (Unfit, Refused):
        return None
    if deviation(moved[:, :1], plain[:, :1]) <= tolerance:
        return None  # the first token sees itself alone: positions are not added
    for (kind, words), change in CHANGES.items():
        try:
            left = deviation(near.candidate, ours.logits(near.tokens, change(pos)))
        except (Unfit, Refused):
            continue
        if left <= 10 * tolerance:
            return Found(kind, "positions from 0 on", words, settled=True, left=left)
    return None
