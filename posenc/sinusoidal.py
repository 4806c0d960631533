"""Sinusoidal encoding: every position is a vector of sines and cosines (Vaswani et al., 2017)."""

import torch
from torch import Tensor

from posenc import _check
from posenc.encoding import Encoding


def frequencies(
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """Angles per position fall geometrically, from 1 to almost 1/base: θ_t = base^(-2t/dim).

    Returns (dim/2,), in radians per position. A tensor as `base` is differentiable.
    """
    _check.dim(dim)
    _check.base(base)
    if isinstance(base, Tensor):
        device = device or base.device
    t = torch.arange(dim // 2, dtype=dtype, device=device)
    return base ** (-2 * t / dim)  # (dim/2,)


def sinusoidal(
    pos: Tensor,
    dim: int,
    base: float | Tensor = 10_000.0,
    *,
    layout: str = "interleaved",
) -> Tensor:
    """Every position a vector of dim/2 clock hands, each turning more slowly than the one before.

    PE[p, 2t] = sin(p θ_t) and PE[p, 2t+1] = cos(p θ_t); layout "half" has all sines, then all cosines.
    pos (L,) or (B, L), integer or float -> (L, dim) or (B, L, dim), float32 (float64 if pos is).
    Raises ValueError if dim is not positive and even, or base not positive.
    Vaswani et al. (2017), section 3.5.
    """
    _check.positions(pos)
    _check.layout(layout)
    dtype = torch.promote_types(pos.dtype, torch.float32)  # half precision would merge positions
    freq = frequencies(dim, base, dtype=dtype, device=pos.device)
    angle = pos[..., None] * freq  # (..., L, dim/2)
    wave = (angle.sin(), angle.cos())
    if layout == "half":
        return torch.cat(wave, -1)  # (..., L, dim)
    return torch.stack(wave, -1).flatten(-2)  # (..., L, dim)


class Sinusoidal(Encoding):
    """x_i ← x_i + PE(i): position is added to the input, once, before the first layer.

    The caller scales x beforehand where the model does so (Vaswani et al. multiply by √D).
    """

    def __init__(
        self,
        model_dim: int,
        base: float = 10_000.0,
        *,
        layout: str = "interleaved",
    ) -> None:
        super().__init__()
        _check.dim(model_dim, "model_dim")
        _check.base(base)
        _check.layout(layout)
        self.model_dim, self.base, self.layout = model_dim, base, layout

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x (B, L, D), pos (L,) or (B, L) -> (B, L, D) in x's dtype."""
        _check.embedded(x, pos, self.model_dim)
        wave = sinusoidal(pos, self.model_dim, self.base, layout=self.layout)
        return (x + wave).to(x.dtype)  # the sum is rounded, not the angles
