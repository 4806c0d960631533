"""RoPE-Mixed: every head learns its own directions."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from posenc._require import require_heads
from posenc.schemes.grid.rope import GridRoPE, axial_frequencies
from posenc.schemes.layout import Layout


def mixed_frequencies(
    head_dim: int,
    angle: Tensor,
    base: float | Tensor = 10.0,
) -> Tensor:
    """Axial frequencies of a grid that each head turns by an angle.

    Learning begins with them, at random angles.

    Args:
        head_dim: Channels of a head, a multiple of 4.
        angle: Radians, (H,), in floating point.
        base: b of `axial_frequencies`.

    Returns:
        The frequencies, (2, H, head_dim/2), in radians per step, with angle's dtype and
        device.

    Raises:
        ValueError: If head_dim is no multiple of 4, or angle has another shape.

    Example:
        >>> mixed_frequencies(4, torch.tensor([0.0, torch.pi / 4]))[:, 1]
        tensor([[ 0.7071, -0.7071],
                [ 0.7071,  0.7071]])

    References:
        Heo et al. (2024), RoPE-Mixed.
    """
    _check_angles(angle)
    axial = axial_frequencies(head_dim, 2, base, dtype=angle.dtype, device=angle.device)
    cos, sin = angle.cos(), angle.sin()
    rows = torch.stack((cos, -sin)), torch.stack((sin, cos))
    turned = torch.stack(rows)  # (2, 2, H)
    return (turned[..., None] * axial[:, None]).sum(1)  # (2, H, d/2)


class MixedRoPE(GridRoPE):
    """Every head learns how fast each pair rotates along rows and along columns.

    Args:
        head_dim: Channels of a head, d, a multiple of 4.
        heads: Number of heads of the keys. Several heads of the queries may share one.
        shape: The sizes (H, W) of a grid, unless coordinates are given.
        base: b of the frequencies at initialisation.
        coordinates: A table (N, 2) or (B, N, 2), or a function from pos to (..., L, 2).
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        device, dtype: Of the learned frequencies.

    Raises:
        ValueError: If head_dim is no multiple of 4, or another argument does not fit.

    Example:
        >>> rope = MixedRoPE(64, 8, (3, 4))
        >>> rope.freq.shape
        torch.Size([2, 8, 32])

    References:
        Heo et al. (2024), RoPE-Mixed.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        shape: Sequence[int] | None = None,
        base: float = 10.0,
        *,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: Layout = "interleaved",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        require_heads(heads)
        axial = mixed_frequencies(head_dim, torch.zeros(heads, device=device), base)
        super().__init__(
            head_dim,
            shape,
            base,
            coordinates=coordinates,
            layout=layout,
            freq=nn.Parameter(axial),  # (2, H, d/2)
            device=device,
            dtype=dtype,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Axial frequencies, turned by a random angle in each head."""
        angle = 2 * math.pi * torch.rand(self.freq.shape[1], device=self.freq.device)
        with torch.no_grad():
            self.freq.copy_(mixed_frequencies(self.head_dim, angle, self.base))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, heads={self.freq.shape[1]}, base={self.base}"


def _check_angles(angle: Tensor) -> None:
    """Every head has an angle."""
    if angle.ndim != 1 or not angle.is_floating_point():
        raise ValueError(
            f"angle has shape {tuple(angle.shape)}, {angle.dtype}: use one for each head, in radians, "
            f"such as 2 * torch.pi * torch.rand(heads)"
        )
