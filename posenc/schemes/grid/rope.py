"""RoPE on a grid: pairs rotate by the sum of one angle for each coordinate."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from posenc._require import require_even, require_layout
from posenc.schemes.grid._require import require_coordinates, require_equal_shares
from posenc.schemes.grid.place import Grid
from posenc.schemes.layout import Layout
from posenc.schemes.rope import rotate_by
from posenc.schemes.sinusoidal import frequencies


def axial_frequencies(
    head_dim: int,
    axes: int = 2,
    base: float | Tensor = 100.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Every axis rotates an equal share of the pairs, with the same frequencies.

    Rows have the first share, then columns.     Frequencies are θ_t = base^(-2t ·
    axes/head_dim), in blocks along the diagonal, and 0 elsewhere. Coordinates of images
    are small, hence the small base.

    Args:
        head_dim: Channels of a head, a multiple of 2 · axes.
        axes: n, the number of coordinates.
        base: b, positive. A tensor is differentiable; its value is not checked.
        dtype, device: Of the result.

    Returns:
        The frequencies, (axes, head_dim/2), in radians per step along each axis.

    Raises:
        ValueError: If head_dim is no multiple of 2 · axes, or base is not positive.

    Example:
        >>> axial_frequencies(8)
        tensor([[1.0000, 0.1000, 0.0000, 0.0000],
                [0.0000, 0.0000, 1.0000, 0.1000]])

    References:
        Heo et al. (2024), RoPE-Axial.
    """
    require_equal_shares(head_dim, axes, "head_dim")
    share = frequencies(head_dim // axes, base, dtype=dtype, device=device)
    block = torch.eye(axes, dtype=dtype, device=share.device)
    return (block[..., None] * share).flatten(1)  # (n, d/2)


def rotate_grid(
    x: Tensor,
    coords: Tensor,
    freq: Tensor,
    *,
    layout: Layout = "interleaved",
) -> Tensor:
    """Rotates pair t by Σ_a coords_a · freq[a, t]: scores see differences of places.

    Args:
        x: Vectors, (..., L, d), of even d.
        coords: Coordinates, (L, n), or (B, L, n) if the sequences of the batch differ,
            integer or float.
        freq: Radians per step along each axis, (n, d/2); 0 where an axis leaves a pair
            alone. (n, H, d/2) has frequencies for each head of x (..., H, L, d), or for
            each group of its heads.
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").

    Returns:
        The rotated vectors, with the shape and dtype of x. Angles have freq's
        precision, and at least float32.

    Raises:
        ValueError: If the shapes do not match.

    Example:
        >>> x, freq = torch.ones(1, 4), axial_frequencies(4)
        >>> rotate_grid(x, torch.tensor([[0, 1]]), freq)  # row 0, column 1
        tensor([[ 1.0000,  1.0000, -0.3012,  1.3818]])
    """
    _check_grid_rotation(x, coords, freq, layout)
    freq = freq.to(torch.promote_types(freq.dtype, torch.float32))
    coords = coords.to(freq.dtype)
    if coords.ndim == 3:  # (B, 1, L, n), since all heads share the places
        coords = coords.reshape(coords.shape[0], *[1] * (x.ndim - 3), *coords.shape[1:])
    if freq.ndim == 3:  # (n, H, 1, d/2)
        freq = freq.repeat_interleave(x.shape[-3] // freq.shape[1], 1)[:, :, None]
    angle = coords.new_zeros(())
    for c, f in zip(coords.unbind(-1), freq.unbind(0), strict=True):
        angle = angle + c[..., None] * f  # autocast would round a matrix product
    return rotate_by(x, angle, layout=layout)


class GridRoPE(Grid):
    """q_i ← R(place of i) q_i, keys likewise: scores see the rows and columns between.

    Args:
        head_dim: Channels of a head, d, a multiple of twice the number of axes.
        shape: The sizes of a grid, such as (H, W), unless coordinates are given.
        base: b of `axial_frequencies`. It is ignored if `freq` is given.
        coordinates: A table (N, n) or (B, N, n), or a function from pos to (..., L, n).
        freq: Frequencies in place of the axial ones, (n, d/2) or (n, H, d/2) in radians
            per step. An nn.Parameter is learned.
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        device, dtype: As `.to(device, dtype)` afterwards: frequencies and tables stay
            in float32 unless they are learned.

    Raises:
        ValueError: If head_dim cannot be shared out, or another argument does not fit.

    Example:
        >>> rope = GridRoPE(64, (3, 4))
        >>> rope
        GridRoPE(head_dim=64, shape=(3, 4), base=100.0, layout='interleaved')
        >>> rope.query(torch.randn(2, 8, 12, 64), torch.arange(12)).shape
        torch.Size([2, 8, 12, 64])

    References:
        Heo et al. (2024), RoPE-Axial.
    """

    freq: Tensor
    default_frequencies: Callable[..., Tensor] | None = None
    """Makes the frequencies, unless they were given."""

    def __init__(
        self,
        head_dim: int,
        shape: Sequence[int] | None = None,
        base: float = 100.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        freq: Tensor | None = None,
        layout: Layout = "interleaved",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(shape, coordinates=coordinates)
        require_layout(layout)
        self.head_dim, self.base, self.layout = head_dim, base, layout
        if freq is None:
            if self.axes is None:
                raise _unknown_axes(head_dim)
            make = partial(axial_frequencies, head_dim, self.axes, base)
            self.default_frequencies, freq = make, make(device=device)
        _check_grid_frequencies(freq, head_dim, self.axes)
        self._keep("freq", freq)
        self.to(device=device, dtype=dtype)

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        """q (B, H, L, d), pos (L,) or (B, L) -> the rotated queries, like q."""
        return rotate_grid(q, self.locate(pos), self.freq, layout=self.layout)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        """k (B, H, L, d), pos (L,) or (B, L) -> the rotated keys, like k."""
        return rotate_grid(k, self.locate(pos), self.freq, layout=self.layout)

    def reset_parameters(self) -> None:
        if self.default_frequencies is not None:
            self.freq = self.default_frequencies(device=self.freq.device)

    def extra_repr(self) -> str:
        given = self.default_frequencies is None
        freq = f"freq=<{type(self.freq).__name__}>" if given else f"base={self.base}"
        place = super().extra_repr()
        return f"head_dim={self.head_dim}, {place}, {freq}, layout={self.layout!r}"


# Checks of input


def _unknown_axes(head_dim: int) -> ValueError:
    return ValueError(
        f"coordinates is a function, so the number of axes is not known: "
        f"pass freq too, such as axial_frequencies({head_dim}, 2)"
    )


def _check_grid_frequencies(freq: Tensor, head_dim: int, axes: int | None) -> None:
    """Frequencies are one angle per step for each axis and pair of a head's channels."""
    require_even(head_dim, "head_dim")
    if (
        freq.ndim not in (2, 3)
        or freq.shape[-1] != head_dim // 2
        or axes not in (None, freq.shape[0])
    ):
        n = "n" if axes is None else axes
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but head_dim={head_dim} makes {head_dim // 2} pairs and places have "
            f"{n} coordinates: use (n, d/2) = ({n}, {head_dim // 2}), or (n, H, d/2) if heads differ"
        )


def _check_grid_rotation(x: Tensor, coords: Tensor, freq: Tensor, layout: str) -> None:
    """x (..., L, d) rotates by one angle per place and pair of channels, and per head if frequencies differ."""
    require_layout(layout)
    require_coordinates(coords)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but rotate_grid takes (..., L, d): a single vector is x[None, :]"
        )
    require_even(x.shape[-1], "x's last dimension")
    axes, pairs = coords.shape[-1], x.shape[-1] // 2
    if freq.ndim not in (2, 3) or freq.shape[-1] != pairs or freq.shape[0] != axes:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but places have {axes} coordinates and x has {x.shape[-1]} channels: "
            f"use (n, d/2) = ({axes}, {pairs}), or (n, H, d/2) if heads differ"
        )
    if freq.ndim == 3:
        has_heads = x.ndim > coords.ndim
        if not has_heads or freq.shape[1] == 0 or x.shape[-3] % freq.shape[1]:
            raise ValueError(
                f"freq has frequencies for {freq.shape[1]} heads and x has shape {tuple(x.shape)}: "
                f"use x (..., H, L, d) where H is a multiple of {freq.shape[1]}; "
                f"if keys have fewer heads than queries, freq has as many as keys"
            )
    require_coordinates(coords, x)
