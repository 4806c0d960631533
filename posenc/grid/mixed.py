"""RoPE-Mixed: every head learns its own directions."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.grid.rope import GridRoPE, axial_frequencies


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
