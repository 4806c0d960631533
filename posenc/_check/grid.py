"""Places in two and three dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc._check.common import dim, layout, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def grid_shape(shape: Sequence[int]) -> None:
    """A grid has a size along every axis."""
    if len(shape) == 0 or min(shape) < 1:
        raise ValueError(f"shape is {tuple(shape)}: use the sizes of the grid, 1 or more each, such as (14, 14)")


def span(value: int | Sequence[int]) -> None:
    """A span is so many tokens of text, or a box of them."""
    text = isinstance(value, int) and value >= 0
    box = isinstance(value, tuple | list) and len(value) == 3 and all(isinstance(n, int) and n > 0 for n in value)
    if not text and not box:
        raise ValueError(
            f"a span is {value!r}: use the number of tokens of a text, or the sizes (t, h, w) of an image or video "
            f"in tokens, such as (1, 16, 16); what a tensor holds is its .tolist()"
        )


def coordinates(coords: Tensor, x: Tensor | None = None, name: str = "coords") -> None:
    """Coordinates are (L, n), or (B, L, n) if sequences of the batch differ, for each vector of x (B, ..., L, d)."""
    if coords.dtype == torch.bool or coords.is_complex():
        raise ValueError(f"{name} is {coords.dtype}, but a coordinate is an integer or a float: use coords.float()")
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


def place(shape: Sequence[int] | None, table: Tensor | Callable[..., Tensor] | None) -> None:
    """Where a position lies is said once."""
    if (shape is None) == (table is None):
        raise ValueError(
            f"{'neither' if shape is None else 'both'} shape and coordinates are given: use one, such as "
            f"shape=(14, 14), or coordinates=mrope_positions([5, (1, 4, 4), 9])"
        )
    if shape is not None:
        grid_shape(shape)
    if isinstance(table, Tensor):
        coordinates(table, name="coordinates")


def known_axes(axes: int | None, head_dim: int) -> int:
    """Frequencies need the number of axes."""
    if axes is None:
        raise ValueError(
            f"coordinates is a function, so the number of axes is not known: "
            f"pass freq too, such as axial_frequencies({head_dim}, 2)"
        )
    return axes


def looked_up(pos: Tensor, table: Tensor) -> None:
    """A position is a row of the table (N, n) or (B, N, n). Values are not read while a compiler traces."""
    positions(pos)
    if pos.is_floating_point():
        raise ValueError(f"pos is {pos.dtype}, but coordinates are looked up by index: use torch.arange(length)")
    if torch.compiler.is_exporting():
        return
    if table.ndim == 3 and pos.ndim == 2 and table.shape[0] != pos.shape[0] and 1 not in (table.shape[0], pos.shape[0]):
        raise ValueError(
            f"coordinates holds places for {table.shape[0]} sequences and pos has {pos.shape[0]}: "
            f"make coordinates ({pos.shape[0]}, N, n), or (N, n) if all share them"
        )
    if torch.compiler.is_compiling() or pos.is_meta or pos.numel() == 0:
        return
    if pos.min() < 0 or pos.max() >= table.shape[-2]:
        raise ValueError(
            f"pos goes from {int(pos.min())} to {int(pos.max())}, but coordinates holds {table.shape[-2]} places, "
            f"0 to {table.shape[-2] - 1}: make it longer, such as by a span of text in mrope_positions"
        )


def shares(value: int, axes: int, name: str) -> None:
    """A dimension that axes share has the same number of pairs for each."""
    if torch.compiler.is_exporting():
        return
    if axes < 1:
        raise ValueError(f"axes is {axes}: use the number of coordinates of a place, 1 or more")
    if value <= 0 or value % (2 * axes):
        unequal = "; mrope_frequencies gives the axes unequal shares" if name == "head_dim" else ""
        raise ValueError(
            f"{name} is {value}, but each of {axes} axes has the same share of it, in pairs of channels: "
            f"use a multiple of {2 * axes}, such as {2 * axes * max(1, -(-value // (2 * axes)))}{unequal}"
        )


def sections(head_dim: int, sizes: Sequence[int], interleaved: bool) -> None:
    """Sections share out all pairs of a head, and where they are interleaved the pairs do not run out."""
    dim(head_dim, "head_dim")
    pairs, axes = head_dim // 2, max(1, len(sizes))
    even = (pairs - (axes - 1) * (pairs // axes), *[pairs // axes] * (axes - 1))
    if sum(sizes) != pairs or min(sizes) < 0:
        raise ValueError(
            f"sections are {tuple(sizes)}, but head_dim={head_dim} has {pairs} pairs to share out: "
            f"use sizes that add up to it, such as {even}"
        )
    if interleaved and any(size and axes * (size - 1) + axis >= pairs for axis, size in enumerate(sizes) if axis):
        raise ValueError(
            f"sections are {tuple(sizes)}, but an interleaved axis other than the first gets every {axes}th of "
            f"{pairs} pairs at most: use smaller sizes after the first, such as {even}"
        )


def head_angles(angle: Tensor) -> None:
    """Every head has an angle."""
    if angle.ndim != 1 or not angle.is_floating_point():
        raise ValueError(
            f"angle has shape {tuple(angle.shape)}, {angle.dtype}: use one for each head, in radians, "
            f"such as 2 * torch.pi * torch.rand(heads)"
        )


def grid_frequencies(freq: Tensor, head_dim: int, axes: int | None) -> None:
    """Frequencies are one angle per step for each axis and pair of a head's channels."""
    dim(head_dim, "head_dim")
    if freq.ndim not in (2, 3) or freq.shape[-1] != head_dim // 2 or axes not in (None, freq.shape[0]):
        n = "n" if axes is None else axes
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but head_dim={head_dim} makes {head_dim // 2} pairs and places have "
            f"{n} coordinates: use (n, d/2) = ({n}, {head_dim // 2}), or (n, H, d/2) if heads differ"
        )


def grid_rotation(x: Tensor, coords: Tensor, freq: Tensor, name: str) -> None:
    """x (..., L, d) turns by one angle per place and pair of channels, and per head if frequencies differ."""
    layout(name)
    coordinates(coords)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but rotate_grid turns (..., L, d): a single vector is x[None, :]"
        )
    dim(x.shape[-1], "x's last dimension")
    axes, pairs = coords.shape[-1], x.shape[-1] // 2
    if freq.ndim not in (2, 3) or freq.shape[-1] != pairs or freq.shape[0] != axes:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but places have {axes} coordinates and x has {x.shape[-1]} channels: "
            f"use (n, d/2) = ({axes}, {pairs}), or (n, H, d/2) if heads differ"
        )
    if freq.ndim == 3:
        split = x.ndim > coords.ndim  # into heads
        if not split or freq.shape[1] == 0 or x.shape[-3] % freq.shape[1]:
            raise ValueError(
                f"freq has frequencies for {freq.shape[1]} heads and x has shape {tuple(x.shape)}: "
                f"use x (..., H, L, d) where H is a multiple of {freq.shape[1]}; "
                f"if keys have fewer heads than queries, freq has as many as keys"
            )
    coordinates(coords, x)
