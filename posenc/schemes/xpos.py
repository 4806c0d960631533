"""xPos: rotation with a radius, so that fast pairs fade with distance (Sun et al., 2023)."""

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from posenc._require import require_even, require_positions
from posenc.schemes.layout import Layout
from posenc.schemes.rope import RoPE


def xpos_radius(
    pos: Tensor,
    dim: int,
    gamma: float | Tensor = 0.4,
    scale_base: float | Tensor = 512.0,
    centre: float | Tensor = 0,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Queries times this, keys divided by it: pair t fades by ζ_t^((i - j)/s).

    The radius is ζ_t^((pos - centre)/s), where s is scale_base and ζ_t = (2t/dim +
    γ)/(1 + γ). The pair that turns fastest has ζ = γ/(1 + γ), the slowest almost 1.

    Args:
        pos: Positions, (L,) or (B, L).
        dim: Number of channels, positive and even.
        gamma: Γ, positive. A smaller one makes fast pairs fade sooner.
        scale_base: Positions until a pair has faded to ζ_t.
        centre: The position where all radii are 1.
        dtype: Precision of the result.

    Returns:
        The radii, (L, dim/2) or (B, L, dim/2).

    Raises:
        ValueError: If dim is odd or not positive, or γ or scale_base is not positive.

    Example:
        >>> xpos_radius(torch.tensor([0, 512]), 4)
        tensor([[1.0000, 1.0000],
                [0.2857, 0.6429]])

    References:
        Sun et al. (2023), with the numbers of their code, torchscale.
    """
    require_positions(pos)
    require_even(dim)
    _check_fading(gamma, scale_base)
    t = torch.arange(dim // 2, dtype=dtype, device=pos.device)
    zeta = (2 * t / dim + gamma) / (1 + gamma)  # (dim/2,)
    pos = pos.to(torch.promote_types(pos.dtype, torch.int64))  # bytes have no sign
    return zeta ** ((pos - centre).to(dtype) / scale_base)[..., None]


def xpos_reach(
    dtype: torch.dtype,
    gamma: float = 0.4,
    scale_base: float = 512.0,
) -> float:
    """How many positions from the centre radii are still normal numbers of a dtype.

    It is scale_base · ln(1/tiny) / ln((1 + γ)/γ), where tiny is the smallest normal
    number.

    Args:
        dtype: The dtype of queries and keys.
        gamma, scale_base: As in `xpos_radius`.

    Returns:
        A number of positions: by default 3966 in float16, 35 694 in float32 and in
        bfloat16, and 289 519 in float64.

    Raises:
        ValueError: If γ or scale_base is not positive.

    Example:
        >>> round(xpos_reach(torch.float16))
        3966
    """
    _check_fading(gamma, scale_base)
    tiny = torch.finfo(dtype).tiny
    return scale_base * -math.log(tiny) / math.log((1 + gamma) / gamma)


class XPos(RoPE):
    """q_i ← ζ^((i - c)/s) R_i q_i, k_j ← ζ^((c - j)/s) R_j k_j: scores also fade.

    Every centre c gives the same scores. A fixed centre keeps cached keys right. A
    centre that follows the current length, as in torchscale and packages after it,
    makes them wrong.

    Radii more than `xpos_reach` positions from c are no normal numbers of the dtype. On
    a CPU that is a ValueError. On a GPU the check would make the host wait, so the
    result is inf or NaN there. Scores grow for keys after the query, so these must be
    masked.

    Args:
        head_dim: Channels of a head, d, positive and even.
        base: b of the frequencies θ_t = b^(-2t/d).
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        gamma: Γ of ζ_t = (2t/d + γ)/(1 + γ), positive.
        scale_base: Positions until a pair has faded to ζ_t.
        centre: c, a position in the middle of those to come.
        device, dtype: As `.to(device, dtype)` afterwards: frequencies stay in float32.

    Raises:
        ValueError: If head_dim is not even, or another argument does not fit.

    Example:
        >>> xpos = XPos(64)
        >>> xpos.query(torch.randn(2, 8, 5, 64), torch.arange(5)).shape
        torch.Size([2, 8, 5, 64])

    References:
        Sun et al. (2023).
    """

    causal_only = True

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        layout: Layout = "interleaved",
        gamma: float = 0.4,
        scale_base: float = 512.0,
        centre: float = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(head_dim, base, layout=layout, device=device, dtype=dtype)
        _check_fading(gamma, scale_base)
        _check_centre(centre)
        self.gamma, self.scale_base, self.centre = gamma, scale_base, centre

    @classmethod
    def from_config(cls, config: object, **options: Any) -> NoReturn:
        """Refused: published configurations describe rotations without a radius."""
        raise ValueError(
            "configurations have no radii: use RoPE.from_config, or XPos(…)"
        )

    def query(self, q: Tensor, pos: Tensor, waves: Any = None) -> Tensor:
        """q (B, H, L, d), pos (L,) or (B, L) -> rotated, times the radius, like q."""
        return self._faded(q, pos, waves, of_keys=False)

    def key(self, k: Tensor, pos: Tensor, waves: Any = None) -> Tensor:
        """k (B, H, L, d), pos (L,) or (B, L) -> rotated, over the radius, like k."""
        return self._faded(k, pos, waves, of_keys=True)

    def waves(self, pos: Tensor, dtype: torch.dtype = torch.float32) -> Any:
        """The cos and sin of queries, times the radius, and those of keys, over it."""
        radius = self._radius(pos, dtype)
        radius = radius if radius.ndim < 3 else radius[:, None]
        cos, sin = super().waves(pos, dtype)
        inverse = 1 / radius
        return (radius * cos, radius * sin), (inverse * cos, inverse * sin)

    def waves_state(self) -> tuple[Any, ...] | None:
        state, shape = super().waves_state(), (self.gamma, self.scale_base, self.centre)
        return None if state is None else (*state, *shape)

    def _faded(self, x: Tensor, pos: Tensor, waves: Any, *, of_keys: bool) -> Tensor:
        require_positions(pos)
        reach = xpos_reach(x.dtype, self.gamma, self.scale_base)
        _check_within_reach(pos, self.centre, reach, x.dtype)
        if waves is not None:
            return self._rotate(x, pos, 1.0, waves[1 if of_keys else 0])
        radius = self._radius(pos, torch.promote_types(x.dtype, torch.float32))
        return self._rotate(x, pos, 1 / radius if of_keys else radius)

    def _radius(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        shape = self.gamma, self.scale_base, self.centre
        return xpos_radius(pos, self.head_dim, *shape, dtype=dtype)

    def extra_repr(self) -> str:
        own = f"gamma={self.gamma}, scale_base={self.scale_base}, centre={self.centre}"
        return f"{super().extra_repr()}, {own}"


# Checks of input


def _check_fading(gamma: float | Tensor, scale_base: float | Tensor) -> None:
    """Radii are powers of numbers between 0 and 1. The value of a tensor is not read."""
    for name, value, default in (
        ("gamma", gamma, 0.4),
        ("scale_base", scale_base, 512.0),
    ):
        if not isinstance(value, Tensor) and not 0 < value < float("inf"):
            raise ValueError(
                f"{name} is {value}, but radii are real powers: use a positive number, such as {default}"
            )


def _check_centre(centre: float) -> None:
    """A centre is a position."""
    if not abs(centre) < float("inf"):
        raise ValueError(
            f"centre is {centre}, but it is a position: use one in the middle of those to come, such as 0"
        )


def _check_within_reach(
    pos: Tensor, centre: float, limit: float, dtype: torch.dtype
) -> None:
    """Radii stay normal numbers. Positions are read only where that costs nothing."""
    if torch.compiler.is_compiling() or pos.device.type != "cpu" or pos.numel() == 0:
        return
    ends = (pos,) if pos.numel() == 1 else pos.double().aminmax()
    far = max(abs(end.item() - centre) for end in ends)
    if far > limit:
        raise ValueError(
            f"a position lies {far:g} from centre={centre}, and beyond {limit:.0f} radii leave the numbers of {dtype}: "
            f"use a centre in the middle of the positions, a larger scale_base, or a wider dtype (bfloat16 for float16)"
        )
