"""Sinusoidal encoding: a position is a vector of sines and cosines (Vaswani et al., 2017)."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._require import (
    require_base,
    require_embedding,
    require_even,
    require_layout,
    require_positions,
)
from posenc.schemes.layout import Layout


def frequencies(
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Angles per position fall geometrically, from 1 to almost 1/b: θ_t = b^(-2t/dim).

    Args:
        dim: Number of channels, positive and even: a pair for each frequency.
        base: b, positive. A tensor is differentiable; its value is not checked.
        dtype: Precision of the result.
        device: Where to put the result; default: where `base` is, or torch's default.

    Returns:
        θ, (dim/2,), in radians per position.

    Raises:
        ValueError: If dim is odd or not positive, or base is not positive.

    Example:
        >>> frequencies(8)
        tensor([1.0000, 0.1000, 0.0100, 0.0010])

    References:
        Vaswani et al. (2017), section 3.5.
    """
    require_even(dim)
    require_base(base)
    if isinstance(base, Tensor):
        device = device or base.device
    t = torch.arange(dim // 2, dtype=dtype, device=device)
    return base ** (-2 * t / dim)  # (dim/2,)


def sinusoidal(
    pos: Tensor,
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    layout: Layout = "interleaved",
) -> Tensor:
    """Every position is dim/2 clock hands, each slower than the one before.

    PE[p, 2t] = sin(p θ_t) and PE[p, 2t+1] = cos(p θ_t). The layout "half" has all sines
    first, then all cosines.

    Args:
        pos: Positions, (L,) or (B, L), integer or float.
        dim: Number of channels, positive and even.
        base: b of the frequencies θ_t = b^(-2t/dim).
        layout: "interleaved" or "half".

    Returns:
        PE, (L, dim) or (B, L, dim), in float32, or float64 if pos is float64.

    Raises:
        ValueError: If dim is odd or not positive, or another argument does not fit.

    Example:
        >>> sinusoidal(torch.tensor([0, 1]), 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])

    References:
        Vaswani et al. (2017), section 3.5.
    """
    require_positions(pos)
    require_layout(layout)
    dtype = torch.promote_types(pos.dtype, torch.float32)  # half would merge positions
    freq = frequencies(dim, base, dtype=dtype, device=pos.device)
    angle = pos[..., None] * freq  # (..., L, dim/2)
    wave = (angle.sin(), angle.cos())
    if layout == "half":
        return torch.cat(wave, -1)  # (..., L, dim)
    return torch.stack(wave, -1).flatten(-2)  # (..., L, dim)


class Sinusoidal(Encoding):
    """x_i ← x_i + PE(i): position is added to the input, once, before the first layer.

    The caller scales x beforehand where the model does so (Vaswani et al. multiply by
    √D).

    Args:
        model_dim: D, positive and even.
        base: b of the frequencies θ_t = b^(-2t/D).
        layout: "interleaved" or "half".
        device, dtype: Accepted as by every encoding. This one holds no tensors.

    Raises:
        ValueError: If model_dim is odd or not positive, or another argument does not
            fit.

    Example:
        >>> encoding = Sinusoidal(64)
        >>> encoding.embed(torch.zeros(2, 5, 64), torch.arange(5)).shape
        torch.Size([2, 5, 64])

    References:
        Vaswani et al. (2017), section 3.5.
    """

    def __init__(
        self,
        model_dim: int,
        base: float = 10_000.0,
        *,
        layout: Layout = "interleaved",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_even(model_dim, "model_dim")
        require_base(base)
        require_layout(layout)
        self.model_dim, self.base, self.layout = model_dim, base, layout

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), pos (L,) or (B, L) -> x + PE(pos), in x's dtype."""
        require_embedding(x, pos, self.model_dim)
        wave = sinusoidal(pos, self.model_dim, self.base, layout=self.layout)
        return (x + wave).to(x.dtype)  # the sum is rounded, not the angles

    def extra_repr(self) -> str:
        return f"model_dim={self.model_dim}, base={self.base}, layout={self.layout!r}"
