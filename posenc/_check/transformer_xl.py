"""Transformer-XL's distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc._check.common import base, dim, head_count

if TYPE_CHECKING:
    from posenc.transformer_xl import TransformerXL


def transformer_xl(model_dim: int, heads: int, head_dim: int, clamp: int | None, base_: float | Tensor) -> None:
    """Sinusoids have model_dim channels, and heads have head_dim."""
    dim(model_dim, "model_dim")
    head_count(heads)
    if head_dim < 1:
        raise ValueError(f"head_dim is {head_dim}: use the number of channels of a head, 1 or more")
    if clamp is not None and clamp < 0:
        raise ValueError(
            f"clamp is {clamp}, but it is a distance: use the largest that is told apart, such as 1000, or None for all"
        )
    base(base_)


def distance_queries(encoding: TransformerXL, q: Tensor) -> None:
    """Queries meet distances in each head."""
    found, made = (q.shape[1], q.shape[-1]), (encoding.heads, encoding.head_dim)
    if not torch.compiler.is_exporting() and found != made:
        raise ValueError(
            f"TransformerXL was made for heads={made[0]} and head_dim={made[1]}, and q has {found[0]} heads "
            f"of {found[1]} channels: make it with TransformerXL(model_dim, {found[0]}, {found[1]})"
        )


def clamped(clamp: int | None, qpos: Tensor, kpos: Tensor) -> None:
    """Distances are clamped by index."""
    if clamp is not None and (qpos.is_floating_point() or kpos.is_floating_point()):
        raise ValueError(
            f"qpos is {qpos.dtype} and kpos {kpos.dtype}, but with clamp={clamp} distances are looked up: "
            f"use whole positions, such as torch.arange(length), or clamp=None"
        )


def shifted(x: Tensor, keys: int) -> None:
    """Rows have a column for each distance from the last query back to the first key."""
    queries, columns = x.shape[-2:]
    if torch.compiler.is_exporting():
        return
    if not (0 < keys <= columns and queries <= columns):
        raise ValueError(
            f"x has {columns} columns for {queries} queries and {keys} keys: use one for each distance from {keys - 1} "
            f"down to 0, and at least as many as queries, or on to {1 - queries} for keys of the future"
        )
