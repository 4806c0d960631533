"""Checks of input that several encodings of grids share. Each raises ValueError and names the remedy."""

from __future__ import annotations

import torch
from torch import Tensor


def require_coordinates(
    coords: Tensor, x: Tensor | None = None, name: str = "coords"
) -> None:
    """Coordinates are (L, n), or (B, L, n) if sequences of the batch differ, for each vector of x (B, ..., L, d)."""
    if coords.dtype == torch.bool or coords.is_complex():
        raise ValueError(
            f"{name} is {coords.dtype}, but a coordinate is an integer or a float: use coords.float()"
        )
    if coords.ndim not in (2, 3) or coords.shape[-1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(coords.shape)}: use (L, n), or (B, L, n) if sequences of the batch differ, "
            f"with n coordinates of each place, such as grid_coordinates(torch.arange(12), (3, 4))"
        )
    if x is None or torch.compiler.is_exporting():
        return
    length, batch = x.shape[-2], x.shape[0] if x.ndim > 2 else None
    if coords.shape[-2] != length:
        raise ValueError(
            f"{name} holds {coords.shape[-2]} places for {length} vectors: pass one place for each of them, "
            f"(L, n) = ({length}, {coords.shape[-1]})"
        )
    if coords.ndim == 3 and batch is None:
        raise ValueError(
            f"{name} has shape {tuple(coords.shape)}, but there is a single sequence: "
            f"pass (L, n) = ({length}, {coords.shape[-1]})"
        )
    if coords.ndim == 3 and coords.shape[0] not in (1, batch):
        raise ValueError(
            f"{name} holds places for {coords.shape[0]} sequences and the batch has {batch}: "
            f"pass ({batch}, L, n), or (L, n) if all share them"
        )


def require_equal_shares(dim: int, axes: int, name: str) -> None:
    """A dimension is divided into equal shares, one for each axis, of whole pairs."""
    if torch.compiler.is_exporting():
        return
    if axes < 1:
        raise ValueError(
            f"axes is {axes}: use the number of coordinates of a place, 1 or more"
        )
    if dim <= 0 or dim % (2 * axes):
        unequal = (
            "; mrope_frequencies gives the axes unequal shares"
            if name == "head_dim"
            else ""
        )
        raise ValueError(
            f"{name} is {dim}, but each of {axes} axes has the same share of it, in pairs of channels: "
            f"use a multiple of {2 * axes}, such as {2 * axes * max(1, -(-dim // (2 * axes)))}{unequal}"
        )
