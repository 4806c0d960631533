"""Two and three dimensions: a place has coordinates, and a matrix says how fast each of them turns each pair."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.encoding import Encoding
from posenc.rope import rotate_by
from posenc.sinusoidal import frequencies, sinusoidal


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


def mrope_positions(spans: Sequence[int | Sequence[int]], *, device: torch.device | None = None) -> Tensor:
    """Text runs along the diagonal t = h = w, and an image is a box with one corner on it.

    A span is the number of tokens of a text, or the (t, h, w) of an image or video in tokens; it
    starts one after the largest coordinate so far. Returns (L, 3), whole numbers. A last span of
    text holds what will be generated; torch.nn.utils.rnn.pad_sequence makes a batch of several.
    Raises ValueError if a span is neither. Wang et al. (2024), section 2.1.
    """
    start, parts = 0, [torch.empty(0, 3, dtype=torch.long, device=device)]
    for span in spans:
        _check.span(span)
        if isinstance(span, int):
            coords, extent = torch.arange(span, device=device)[:, None].expand(-1, 3), span
        else:
            coords, extent = grid_coordinates(torch.arange(math.prod(span), device=device), span), max(span)
        parts.append(start + coords)
        start += extent
    return torch.cat(parts)  # (L, 3)


def axial_frequencies(
    head_dim: int,
    axes: int = 2,
    base: float | Tensor = 100.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """Every axis turns an equal share of the pairs, with the same frequencies: rows first, then columns.

    Returns (axes, head_dim/2), θ_t = base^(-2t · axes/head_dim) in blocks along the diagonal and 0
    elsewhere. Coordinates of images are small, hence the small base. Raises ValueError if head_dim
    is no multiple of 2 · axes. Heo et al. (2024), RoPE-Axial.
    """
    _check.shares(head_dim, axes, "head_dim")
    share = frequencies(head_dim // axes, base, dtype=dtype, device=device)
    block = torch.eye(axes, dtype=dtype, device=share.device)
    return (block[..., None] * share).flatten(1)  # (n, d/2)


def mixed_frequencies(head_dim: int, angle: Tensor, base: float | Tensor = 10.0) -> Tensor:
    """Axial frequencies of a grid that is turned, by an angle of its own for every head.

    angle (H,), in radians -> (2, H, head_dim/2). Learning begins there, with random angles. Raises
    ValueError if head_dim is no multiple of 4. Heo et al. (2024), RoPE-Mixed.
    """
    _check.head_angles(angle)
    axial = axial_frequencies(head_dim, 2, base, dtype=angle.dtype, device=angle.device)
    cos, sin = angle.cos(), angle.sin()
    turned = torch.stack((torch.stack((cos, -sin)), torch.stack((sin, cos))))  # (2, 2, H)
    return (turned[..., None] * axial[:, None]).sum(1)  # (2, H, d/2)


def mrope_frequencies(
    head_dim: int,
    sections: Sequence[int] = (16, 24, 24),
    base: float | Tensor = 1_000_000.0,
    *,
    interleaved: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """The frequencies of a text model, each given to one axis, so that text (t = h = w) turns as before.

    Axis a owns sections[a] pairs -> (n, head_dim/2), θ_t = base^(-2t/head_dim) in the owner's row and
    0 in the others. Time owns the fastest 16, then height and width 24 each (Qwen2-VL: Wang et al.,
    2024, section 2.1), or `interleaved` the axes take turns and time has what is left over (Qwen3-VL,
    sections (24, 20, 20)). Raises ValueError if the sections are not head_dim/2 in all.
    """
    _check.sections(head_dim, sections, interleaved)
    axes = len(sections)
    owner = [axis for axis, size in enumerate(sections) for _ in range(size)]
    if interleaved:
        owner = [0] * (head_dim // 2)
        for axis in range(1, axes):
            owner[axis : axes * sections[axis] : axes] = [axis] * sections[axis]
    freq = frequencies(head_dim, base, dtype=dtype, device=device)
    owns = torch.tensor(owner, device=freq.device) == torch.arange(axes, device=freq.device)[:, None]
    return owns * freq  # (n, d/2)


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


def rotate_grid(x: Tensor, coords: Tensor, freq: Tensor, *, layout: str = "interleaved") -> Tensor:
    """Turns pair t of channels by Σ_a coords_a · freq[a, t]: a score sees differences of coordinates only.

    x (..., L, d), coords (L, n) or (B, L, n), integer or float -> like x. freq (n, d/2) is in radians
    per step along each axis, 0 where an axis leaves a pair alone. freq (n, H, d/2) has frequencies
    for every head of x (..., H, L, d), or for every group of its heads. Angles have freq's precision,
    and never less than float32. Raises ValueError if shapes do not match.
    """
    _check.grid_rotation(x, coords, freq, layout)
    freq = freq.to(torch.promote_types(freq.dtype, torch.float32))
    coords = coords.to(freq.dtype)
    if coords.ndim == 3:
        coords = coords.reshape(coords.shape[0], *[1] * (x.ndim - 3), *coords.shape[1:])  # (B, 1, L, n)
    if freq.ndim == 3:
        freq = freq.repeat_interleave(x.shape[-3] // freq.shape[1], 1)[:, :, None]  # (n, H, 1, d/2)
    angle = coords.new_zeros(())
    for c, f in zip(coords.unbind(-1), freq.unbind(0), strict=True):
        angle = angle + c[..., None] * f  # autocast would compute coords @ freq in half precision
    return rotate_by(x, angle, layout=layout)


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


class GridRoPE(Grid):
    """q_i ← R(place of i) q_i, and keys likewise: a score sees how many rows and columns lie between.

    `freq`, (n, head_dim/2) or (n, H, head_dim/2) in radians per step, replaces
    axial_frequencies(head_dim, n, base); it is learned if it is an nn.Parameter.
    """

    freq: Tensor

    def __init__(
        self,
        head_dim: int,
        shape: Sequence[int] | None = None,
        base: float = 100.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        freq: Tensor | None = None,
        layout: str = "interleaved",
    ) -> None:
        super().__init__(shape, coordinates=coordinates)
        _check.layout(layout)
        self.head_dim, self.layout = head_dim, layout
        self.start: Callable[..., Tensor] | None = None
        if freq is None:
            self.start = partial(axial_frequencies, head_dim, _check.known_axes(self.axes, head_dim), base)
            freq = self.start()
        _check.grid_frequencies(freq, head_dim, self.axes)
        self._hold("freq", freq)

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return rotate_grid(q, self.locate(pos), self.freq, layout=self.layout)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return rotate_grid(k, self.locate(pos), self.freq, layout=self.layout)

    def reset_parameters(self) -> None:
        if self.start is not None:
            self.freq = self.start(device=self.freq.device)


class MRoPE(GridRoPE):
    """A text model's own frequencies, shared out to time, rows and columns: for text it stays what it was.

    `coordinates` is mostly mrope_positions of the sequence, and is assigned anew for another one.
    Qwen2-VL has these defaults and layout "half".
    """

    def __init__(
        self,
        head_dim: int = 128,
        sections: Sequence[int] = (16, 24, 24),
        base: float = 1_000_000.0,
        *,
        interleaved: bool = False,
        shape: Sequence[int] | None = None,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: str = "interleaved",
    ) -> None:
        start = partial(mrope_frequencies, head_dim, tuple(sections), base, interleaved=interleaved)
        super().__init__(head_dim, shape, coordinates=coordinates, freq=start(), layout=layout)
        self.start = start


class MixedRoPE(GridRoPE):
    """Every head learns how fast each pair turns along a row and along a column, and so in which direction.

    `heads` is the number of heads that keys have; several of a query's may share one.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        shape: Sequence[int] | None = None,
        base: float = 10.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: str = "interleaved",
    ) -> None:
        _check.head_count(heads)
        freq = nn.Parameter(mixed_frequencies(head_dim, torch.zeros(heads), base))  # (2, H, d/2)
        super().__init__(head_dim, shape, coordinates=coordinates, freq=freq, layout=layout)
        self.base = base
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Axial frequencies, turned by a random angle in each head."""
        angle = 2 * math.pi * torch.rand(self.freq.shape[1], device=self.freq.device)
        with torch.no_grad():
            self.freq.copy_(mixed_frequencies(self.head_dim, angle, self.base))
