"""What the places of a grid do to the scores of attention, and which other places would do the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.audit.images.pictures import Layer

ROUNDING = 1e-5
"""Below it, over what scores vary, a change is rounding: many classes compute their angles in float32."""


@dataclass(frozen=True)
class Grid:
    """Scores of the first layer that knows places, in an image of one repeated patch.

    Args:
        shape: Rows and columns, (h, w).
        layer: Its number, from 0.
        kind: "added", "turned", "bias", or "none" where no layer knows places.
        scores: (H, h·w, h·w).
        codes: (h·w, H·2d), queries and keys of each place.
    """

    shape: tuple[int, int]
    layer: int
    kind: str
    scores: Tensor
    codes: Tensor

    @property
    def spread(self) -> float:
        """How far scores vary, root mean square; infinite ones are left out."""
        x = self.scores[self.scores.isfinite()]
        return float((x - x.mean()).square().mean().sqrt())


def grid_of(layers: list[Layer], shape: tuple[int, int]) -> Grid:
    """The first layer that knows places; before it, all places hold the same."""
    grid = None
    for n, layer in enumerate(layers):
        codes = torch.cat([x.transpose(0, 1).flatten(1) for x in (layer.q, layer.k)], 1)
        norms = torch.stack([x.norm(dim=-1) for x in (layer.q, layer.k)])
        size = float(codes.abs().max())
        if float((codes - codes[:1]).abs().max()) > ROUNDING * size:
            turned = float((norms - norms[..., :1]).abs().max()) < 1e-3 * float(norms.max())
            return Grid(shape, n, "turned" if turned else "added", layer.scores, codes)
        grid = Grid(shape, n, "bias", layer.scores, codes)
        seen = layer.scores.isfinite()
        first = layer.scores[:, :1, :1].expand_as(layer.scores)
        if not bool(seen.all()) or float((layer.scores - first).abs().max()) > ROUNDING * float(first.abs().max()):
            return grid
    assert grid is not None
    return Grid(shape, 0, "none", grid.scores, grid.codes)


def varies(grid: Grid, axis: int) -> bool:
    """Whether scores of one query change from key to key along an axis (0: rows, 1: columns)."""
    x = grid.scores.unflatten(2, grid.shape)
    step = x.narrow(2 + axis, 1, grid.shape[axis] - 1) - x.narrow(2 + axis, 0, grid.shape[axis] - 1)
    step = step[step.isfinite()]
    return bool(len(step)) and float(step.abs().max()) > ROUNDING * max(float(x[x.isfinite()].abs().max()), 1e-9)


def moves(grid: Grid, axis: int) -> float:
    """How far scores change where query and key both move by one along an axis, over how far scores vary."""
    h, w = grid.shape
    x = grid.scores.reshape(-1, h, w, h, w)
    one, other = (x.narrow(1 + axis, at, grid.shape[axis] - 1).narrow(3 + axis, at, grid.shape[axis] - 1)
                  for at in (0, 1))  # fmt: skip
    gap = (one - other)[one.isfinite() & other.isfinite()]
    return float(gap.abs().max()) / max(grid.spread, 1e-12) if len(gap) else 0.0


def by_distance(grid: Grid, at: Tensor) -> float:
    """How far scores are from a function of the distance, were the places at (h·w, 2); over how far they vary."""
    apart = (at[None] - at[:, None]).flatten(0, 1)
    _, group = apart.unique(dim=0, return_inverse=True)
    x = grid.scores.flatten(1)
    ok = x.isfinite().all(0)
    x, group = x[:, ok], group[ok]
    size = int(group.max()) + 1
    mean = torch.zeros(len(x), size, dtype=x.dtype).index_add(1, group, x) / torch.bincount(
        group, minlength=size
    ).clamp(min=1)
    return float((x - mean[:, group]).abs().max()) / max(grid.spread, 1e-12)


Rule = Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor, int, int]]
"""From rows, columns, h and w to the rows, columns and size of the image whose places are taken instead."""


def _raster(r: Tensor, c: Tensor, h: int, w: int) -> tuple[Tensor, Tensor, int, int]:
    p = r * w + c
    return p // h, p % h, w, h


def _columns_first(r: Tensor, c: Tensor, h: int, w: int) -> tuple[Tensor, Tensor, int, int]:
    p = r * w + c
    return p % h, p // h, h, w


RULES: dict[str, Rule] = {
    "its own places": lambda r, c, h, w: (r, c, h, w),
    "those of an image of {w} rows and {h} columns, read row by row": _raster,
    "those of the image column by column": _columns_first,
    "those of the transposed image, rows and columns exchanged": lambda r, c, h, w: (c, r, w, h),
    "those of the image upside down": lambda r, c, h, w: (h - 1 - r, c, h, w),
    "those of the image in a mirror": lambda r, c, h, w: (r, w - 1 - c, h, w),
    "those of the image turned by half a circle": lambda r, c, h, w: (h - 1 - r, w - 1 - c, h, w),
}
"""Where the places of an image may come from, in words."""


def named(rule: str, shape: tuple[int, int]) -> str:
    return rule.format(h=shape[0], w=shape[1])


def places(rule: str, shape: tuple[int, int]) -> tuple[Tensor, int, int]:
    """The places (h·w, 2) that a rule takes, and the size of the image that they are of."""
    h, w = shape
    p = torch.arange(h * w)
    r, c, rows, columns = RULES[rule](p // w, p % w, h, w)
    return torch.stack((r, c), 1), rows, columns


def blocks(shape: tuple[int, int], m: int = 2) -> dict[str, Tensor]:
    """Places (h·w, 2) of patches, by what is mistaken: those in blocks of m by m for rows, or rows for blocks."""
    h, w = shape
    order = torch.arange(h * w).reshape(h // m, m, w // m, m).transpose(1, 2).flatten()  # patches as blocks list them
    said = (
        f"places are read row by row, and patches come in blocks of {m} by {m}",
        f"places are read in blocks of {m} by {m}, and patches come row by row",
    )
    return {words: torch.stack((p // w, p % w), 1) for words, p in zip(said, (order.argsort(), order), strict=True)}


def resampled(table: Grid, grid: Grid) -> dict[str, float]:
    """By rule, the share of the codes of an image that the codes of a square one do not explain.

    A place between those of the square is read off by linear interpolation, in three conventions: corners on corners,
    half a patch from the edge, and counted from the first.
    """
    h, w = table.shape
    codes = table.codes.T.reshape(1, -1, h, w)
    wanted = grid.codes
    size = float((wanted - wanted.mean(0)).square().mean())
    left = {}
    for rule in RULES:
        at, rows, columns = places(rule, grid.shape)
        r, c = at.double().T
        forms = [(r * (h - 1) / (rows - 1), c * (w - 1) / (columns - 1)),
                 ((r + 0.5) * h / rows - 0.5, (c + 0.5) * w / columns - 0.5)]  # fmt: skip
        if rows <= h and columns <= w:
            forms.append((r, c))
        sizes = []
        for y, x in forms:
            where = torch.stack((2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1), -1)[None, None].to(codes)
            read = torch.nn.functional.grid_sample(codes, where, padding_mode="border", align_corners=True)
            sizes.append(float((read[0, :, 0].T - wanted).square().mean()) / size)
        left[rule] = min(sizes)
    return left


def beside(reference: dict[tuple[int, int], Grid], grid: Grid) -> dict[str, float]:
    """By rule, how far the scores of an image are from those of a reference at other places, over how far these vary.

    Args:
        reference: Of an image of the same size and of the transposed one, by size.
        grid: The image's.
    """
    left = {}
    for rule in RULES:
        at, rows, columns = places(rule, grid.shape)
        theirs = reference[rows, columns]
        if theirs.scores.shape != grid.scores.shape:
            continue
        p = at[:, 0] * columns + at[:, 1]
        gap = theirs.scores[:, p][:, :, p] - grid.scores
        gap = gap[gap.isfinite()]
        left[rule] = float(gap.abs().max()) / max(theirs.spread, 1e-12)
    return left
