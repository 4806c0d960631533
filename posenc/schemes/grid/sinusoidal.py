"""Sinusoids of each coordinate, in a share of the channels."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from posenc._require import require_base, require_embedding, require_layout
from posenc.schemes.grid._require import require_coordinates, require_equal_shares
from posenc.schemes.grid.place import Grid
from posenc.schemes.layout import Layout
from posenc.schemes.sinusoidal import sinusoidal


def sinusoidal_grid(
    coords: Tensor,
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    layout: Layout = "interleaved",
) -> Tensor:
    """Every axis has an equal share of the channels, for sinusoids of its coordinate.

    The shares follow one another in the order of the coordinates, dim/n channels each,
    and `layout` orders the channels within a share. Interleaved with rows first it is
    DETR's; "half" with columns first, coords.flip(-1), is MAE's.

    Args:
        coords: Coordinates, (L, n) or (B, L, n), integer or float.
        dim: Number of channels, a multiple of 2n.
        base: b of the frequencies of each share.
        layout: "interleaved" or "half".

    Returns:
        PE, (L, dim) or (B, L, dim), in float32, or float64 if coords are float64.

    Raises:
        ValueError: If dim is no multiple of 2n, or the coordinates have another shape.

    Example:
        >>> sinusoidal_grid(torch.tensor([[0, 1]]), 4)  # row 0, column 1
        tensor([[0.0000, 1.0000, 0.8415, 0.5403]])
    """
    require_coordinates(coords)
    share = dim // coords.shape[-1]
    require_equal_shares(dim, coords.shape[-1], "dim")
    waves = [sinusoidal(c, share, base, layout=layout) for c in coords.unbind(-1)]
    return torch.cat(waves, -1)  # (..., L, dim)


class GridSinusoidal(Grid):
    """x_i ← x_i + PE(place of i): each coordinate is added in a share of the channels.

    Args:
        model_dim: D, a multiple of twice the number of axes.
        shape: The sizes of a grid, such as (H, W), unless coordinates are given.
        base: b of the frequencies of each share.
        coordinates: A table (N, n) or (B, N, n), or a function from pos to (..., L, n).
        layout: "interleaved" or "half", within each share.
        device, dtype: As `.to(device, dtype)` afterwards: a table that is not learned
            keeps at least float32.

    Raises:
        ValueError: If model_dim cannot be shared out, or another argument does not fit.

    Example:
        >>> encoding = GridSinusoidal(64, (3, 4))
        >>> encoding.embed(torch.zeros(2, 12, 64), torch.arange(12)).shape
        torch.Size([2, 12, 64])
    """

    def __init__(
        self,
        model_dim: int,
        shape: Sequence[int] | None = None,
        base: float = 10_000.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: Layout = "interleaved",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(shape, coordinates=coordinates, device=device, dtype=dtype)
        require_equal_shares(model_dim, self.axes or 1, "model_dim")
        require_base(base)
        require_layout(layout)
        self.model_dim, self.base, self.layout = model_dim, base, layout

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), pos (L,) or (B, L) -> x + PE(place of pos), in x's dtype."""
        require_embedding(x, pos, self.model_dim)
        coords = self.locate(pos)
        require_coordinates(coords, x)
        wave = sinusoidal_grid(coords, self.model_dim, self.base, layout=self.layout)
        return (x + wave).to(x.dtype)  # the sum is rounded, not the angles

    def extra_repr(self) -> str:
        of_place, layout = super().extra_repr(), f"layout={self.layout!r}"
        return f"model_dim={self.model_dim}, {of_place}, base={self.base}, {layout}"
