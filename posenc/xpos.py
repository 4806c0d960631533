"""xPos: rotation with a radius, so that what turns fast also fades with distance (Sun et al., 2023)."""

import math

import torch
from torch import Tensor

from posenc import _check
from posenc.rope import RoPE


def xpos_radius(
    pos: Tensor,
    dim: int,
    gamma: float | Tensor = 0.4,
    scale_base: float | Tensor = 512.0,
    centre: float | Tensor = 0,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Queries times this and keys divided by it: pair t of a score gets ζ_t^((i - j)/scale_base).

    The radius is ζ_t^((pos - centre)/scale_base) with ζ_t = (2t/dim + γ)/(1 + γ), from γ/(1 + γ) for the
    pair that turns fastest almost to 1 for the slowest. pos (L,) or (B, L) -> (L, dim/2) or (B, L, dim/2).
    Raises ValueError if dim is not positive and even, or γ or scale_base not positive.
    Sun et al. (2023), with the numbers of their code, torchscale.
    """
    _check.positions(pos)
    _check.dim(dim)
    _check.fading(gamma, scale_base)
    t = torch.arange(dim // 2, dtype=dtype, device=pos.device)
    zeta = (2 * t / dim + gamma) / (1 + gamma)  # (dim/2,)
    pos = pos.to(torch.promote_types(pos.dtype, torch.int64))  # a byte cannot go below 0
    return zeta ** ((pos - centre).to(dtype) / scale_base)[..., None]


def xpos_reach(dtype: torch.dtype, gamma: float = 0.4, scale_base: float = 512.0) -> float:
    """How many positions from the centre a radius and its inverse are still normal numbers of a dtype.

    scale_base · ln(1/tiny) / ln((1 + γ)/γ), where tiny is the least of them: with the numbers of the
    paper 3966 positions in float16, 35 694 in float32 and in bfloat16, 289 519 in float64.
    """
    _check.fading(gamma, scale_base)
    return scale_base * -math.log(torch.finfo(dtype).tiny) / math.log((1 + gamma) / gamma)


class XPos(RoPE):
    """q_i ← ζ^((i - c)/512) R_i q_i, k_j ← ζ^((c - j)/512) R_j k_j: scores turn with j - i, and fade.

    Any centre c gives the same scores. A fixed one keeps cached keys right; one that follows the current
    length, as in torchscale and packages after it, makes them wrong. Radii leave the numbers of a dtype
    beyond `xpos_reach` positions from c: ValueError on a CPU, inf and NaN on a GPU, which would have to
    wait for a look at positions. What keys of the future score grows, so they must be hidden.
    """

    causal_only = True

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        layout: str = "interleaved",
        gamma: float = 0.4,
        scale_base: float = 512.0,
        centre: float = 0,
    ) -> None:
        super().__init__(head_dim, base, layout=layout)
        _check.fading(gamma, scale_base, centre)
        self.gamma, self.scale_base, self.centre = gamma, scale_base, centre

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return self._turn(q, pos, self._radius(q, pos))

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return self._turn(k, pos, 1 / self._radius(k, pos))

    def _radius(self, x: Tensor, pos: Tensor) -> Tensor:
        _check.turned(x, pos, self.head_dim)
        _check.reach(pos, self.centre, xpos_reach(x.dtype, self.gamma, self.scale_base), x.dtype)
        wide = torch.promote_types(x.dtype, torch.float32)
        return xpos_radius(pos, self.head_dim, self.gamma, self.scale_base, self.centre, dtype=wide)
