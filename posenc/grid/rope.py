"""Rotations by the sum of what each coordinate turns: RoPE on a grid, axis by axis."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from posenc import _check
from posenc.grid.place import Grid
from posenc.rope import rotate_by
from posenc.sinusoidal import frequencies


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
