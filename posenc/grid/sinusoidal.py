"""Sinusoids of each coordinate, in a share of the channels."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from posenc import _check
from posenc.grid.place import Grid
from posenc.sinusoidal import sinusoidal


def sinusoidal_grid(
    coords: Tensor,
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    layout: str = "interleaved",
) -> Tensor:
    """Every axis has an equal share of the channels, and its coordinate is encoded there as if alone.

    The shares follow one another in the order of the coordinates, dim/n channels each, and `layout`
    orders the channels of a share: with rows first and interleaved, as DETR has it; "half" and
    columns first, coords.flip(-1), is MAE's. coords (L, n) or (B, L, n), integer or float
    -> (L, dim) or (B, L, dim), float32 (float64 if coords are). Raises ValueError if dim is no
    multiple of 2n.
    """
    _check.coordinates(coords)
    axes = coords.shape[-1]
    _check.shares(dim, axes, "dim")
    return torch.cat([sinusoidal(c, dim // axes, base, layout=layout) for c in coords.unbind(-1)], -1)  # (..., L, dim)


class GridSinusoidal(Grid):
    """x_i ← x_i + PE(place of i): the coordinates are added to the input, each in a share of the channels."""

    def __init__(
        self,
        model_dim: int,
        shape: Sequence[int] | None = None,
        base: float = 10_000.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: str = "interleaved",
    ) -> None:
        super().__init__(shape, coordinates=coordinates)
        _check.shares(model_dim, self.axes or 1, "model_dim")
        _check.base(base)
        _check.layout(layout)
        self.model_dim, self.base, self.layout = model_dim, base, layout

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), pos (L,) or (B, L) -> (B, L, D) in x's dtype."""
        _check.embedded(x, pos, self.model_dim)
        coords = self.locate(pos)
        _check.coordinates(coords, x)
        wave = sinusoidal_grid(coords, self.model_dim, self.base, layout=self.layout)
        return (x + wave).to(x.dtype)  # the sum is rounded, not the angles
