"""Where a position lies: from the shape of a grid, a table or a function."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from posenc._attention.encoding import Encoding
from posenc._require import require_positions
from posenc.schemes.grid._require import require_coordinates


def grid_coordinates(pos: Tensor, shape: Sequence[int]) -> Tensor:
    """Patch p of an image W patches wide lies in row p // W and column p % W.

    Args:
        pos: Positions, (L,) or (B, L).
        shape: The n sizes of the grid, such as (H, W) or (T, H, W). The first one is
            not used: an index beyond the grid lies in further rows.

    Returns:
        Coordinates, (L, n) or (B, L, n), in the dtype of pos.

    Raises:
        ValueError: If a size is not positive.

    Example:
        >>> grid_coordinates(torch.arange(6), (2, 3)).tolist()
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    require_positions(pos)
    _check_sizes(shape)
    coords = []
    for size in reversed(shape[1:]):
        coords.append(pos % size)
        pos = pos // size
    return torch.stack((pos, *reversed(coords)), -1)  # (..., L, n)


class Grid(Encoding):
    """A position stays an index, an order in time; `locate` says where it lies.

    Args:
        shape: The sizes of a grid, such as (H, W), unless coordinates are given.
        coordinates: A table, (N, n), or (B, N, n) with one table for each sequence, or
            a function from pos to coordinates (..., L, n). A table that is an
            nn.Parameter is learned.
        device, dtype: As `.to(device, dtype)` afterwards: a table that is not learned
            keeps at least float32.

    Raises:
        ValueError: If neither or both of shape and coordinates are given.
    """

    coordinates: Tensor | Callable[[Tensor], Tensor] | None

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_one_place(shape, coordinates)
        self.shape = None if shape is None else tuple(shape)
        if isinstance(coordinates, Tensor):
            self._keep("coordinates", coordinates)
        else:
            self.coordinates = coordinates
        self.to(device=device, dtype=dtype)

    @property
    def axes(self) -> int | None:
        """The number of coordinates, or None if only a function knows."""
        if self.shape is not None:
            return len(self.shape)
        table = self.coordinates
        return table.shape[-1] if isinstance(table, Tensor) else None

    def locate(self, pos: Tensor) -> Tensor:
        """pos (L,) or (B, L) -> coordinates (L, n) or (B, L, n)."""
        if self.shape is not None:
            return grid_coordinates(pos, self.shape)
        table = self.coordinates
        if not isinstance(table, Tensor):
            assert table is not None
            return table(pos)
        _check_rows(pos, table)
        row = pos.long()[..., None]
        if table.ndim < row.ndim:  # one table for the batch
            table = table[None]
        elif table.ndim > row.ndim:  # the same rows of each table
            row = row[None]
        return table.take_along_dim(row, -2)

    def extra_repr(self) -> str:
        if self.shape is not None:
            return f"shape={self.shape}"
        table = self.coordinates
        kind = type(table).__name__ if isinstance(table, Tensor) else "function"
        return f"coordinates=<{kind}>"

    def _keep(self, name: str, value: Tensor) -> None:
        """A parameter is learned. Another tensor is a buffer that is never cast."""
        if isinstance(value, nn.Parameter):
            setattr(self, name, value)
            return
        precise = value.to(torch.promote_types(value.dtype, torch.float32))
        self.register_buffer(name, precise, persistent=False)
        self.exact = (*self.exact, name)


# Checks of input


def _check_sizes(shape: Sequence[int]) -> None:
    """A grid has a size along every axis."""
    if len(shape) == 0 or min(shape) < 1:
        raise ValueError(
            f"shape is {tuple(shape)}: use the sizes of the grid, 1 or more each, such as (14, 14)"
        )


def _check_one_place(
    shape: Sequence[int] | None, table: Tensor | Callable[[Tensor], Tensor] | None
) -> None:
    """The places are given once, by a shape or by coordinates."""
    if (shape is None) == (table is None):
        raise ValueError(
            f"{'neither' if shape is None else 'both'} shape and coordinates are given: use one, such as "
            f"shape=(14, 14), or coordinates=mrope_positions([5, (1, 4, 4), 9])"
        )
    if shape is not None:
        _check_sizes(shape)
    if isinstance(table, Tensor):
        require_coordinates(table, name="coordinates")


def _check_rows(pos: Tensor, table: Tensor) -> None:
    """A position is a row of the table (N, n) or (B, N, n). Values are not read while a compiler traces."""
    require_positions(pos)
    if pos.is_floating_point():
        raise ValueError(
            f"pos is {pos.dtype}, but coordinates are looked up by index: use torch.arange(length)"
        )
    if torch.compiler.is_exporting():
        return
    if (
        table.ndim == 3
        and pos.ndim == 2
        and table.shape[0] != pos.shape[0]
        and 1 not in (table.shape[0], pos.shape[0])
    ):
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
