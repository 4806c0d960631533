"""Where a position lies: from the shape of a grid, a table or a function."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.encoding import Encoding


def grid_coordinates(pos: Tensor, shape: Sequence[int]) -> Tensor:
    """Patch p of an image W patches wide lies in row p // W and column p % W, as a page is read.

    pos (L,) or (B, L) -> (L, n) or (B, L, n), where shape has n sizes, such as (H, W) or (T, H, W).
    Nothing depends on the first of them: an index beyond the grid lies in further rows. Raises
    ValueError if a size is not positive.
    """
    _check.positions(pos)
    _check.grid_shape(shape)
    coords = []
    for size in reversed(shape[1:]):
        coords.append(pos % size)
        pos = pos // size
    return torch.stack((pos, *reversed(coords)), -1)  # (..., L, n)


class Grid(Encoding):
    """A position stays an index, which says what came before what; `locate` says where it lies.

    Where is known from a shape, such as (H, W), or from `coordinates`: a table (N, n), one for each
    sequence (B, N, n), or a function from pos to (..., L, n).
    """

    coordinates: Any

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        _check.place(shape, coordinates)
        self.shape = None if shape is None else tuple(shape)
        if isinstance(coordinates, Tensor):
            self._hold("coordinates", coordinates)
        else:
            self.coordinates = coordinates

    @property
    def axes(self) -> int | None:
        """The number of coordinates, or None if only a function knows."""
        if self.shape is not None:
            return len(self.shape)
        return None if callable(self.coordinates) else self.coordinates.shape[-1]

    def locate(self, pos: Tensor) -> Tensor:
        """pos (L,) or (B, L) -> coordinates (L, n) or (B, L, n)."""
        if self.shape is not None:
            return grid_coordinates(pos, self.shape)
        if callable(self.coordinates):
            return self.coordinates(pos)
        _check.looked_up(pos, self.coordinates)
        table, row = self.coordinates, pos.long()[..., None]
        if table.ndim != row.ndim:  # one table for the batch, or the same indices into each table
            table, row = (table[None], row) if table.ndim < row.ndim else (table, row[None])
        return table.take_along_dim(row, -2)

    def _hold(self, name: str, value: Tensor) -> None:
        """A parameter is learned; what is no parameter keeps its precision when the module is cast."""
        if isinstance(value, nn.Parameter):
            setattr(self, name, value)
            return
        precise = value.to(torch.promote_types(value.dtype, torch.float32))
        self.register_buffer(name, precise, persistent=False)
        self.exact = (*self.exact, name)
