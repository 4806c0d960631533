"""Attention with linear biases: distance costs logits, at a fixed rate per head (Press et al., 2022)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.encoding import Encoding


def alibi_slopes(
    heads: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """Each head forgets at its own rate: the slopes fall geometrically to 2^-8, m_h = 2^(-8h/heads).

    That holds if heads is a power of two. Otherwise the largest power c below it gives the first c slopes,
    and the others lie half a step from those, at 2^(-8(h - ½)/c), from the steepest on: with 12 heads, exponents
    1 to 8, then ½, 1½, 2½ and 3½. Returns (heads,), logits per position, powers taken in float64.
    Press et al. (2022), section 3, and their code.
    """
    _check.head_count(heads)
    head = torch.arange(1, heads + 1, dtype=torch.float64, device=device)
    power = head.new_full((), heads + 0.5).log2().floor().exp2()  # c; the half keeps log2 away from integers
    rank = torch.where(head <= power, head, head - power - 0.5)
    return torch.exp2(-8 * rank / power).to(dtype)  # (heads,)


def alibi(offset: Tensor, slope: float | Tensor, *, symmetric: bool = False) -> Tensor:
    """Distance i - j costs slope · (i - j) logits, and, if symmetric, distance |i - j| does.

    offset = j - i, key minus query; slope, logits per position, broadcasts against it. Unless symmetric,
    a key of the future is rewarded, so it must be hidden. Exact up to the rounding of one product, since
    positions are subtracted first; slope · j alone, as some models have it, cannot tell near keys apart
    in bfloat16. Press et al. (2022), section 3; the symmetric form is not in the paper.
    """
    distance = offset.abs() if symmetric else -offset
    return -slope * distance


class ALiBi(Encoding):
    """b_ij = -m_h (i - j): a query loses sight of far keys, in each head at another rate.

    Added to q·k/√d and not divided by √d itself. `slopes` (heads,), in logits per position, replaces
    alibi_slopes(heads); `learned` makes a parameter of them. `symmetric` takes |i - j|, for an encoder;
    without it keys of the future would be rewarded, and `attend` refuses to show them. Values and keys
    know nothing of position, so a cached step needs only the row of its query.
    Distances above 2^24 are rounded to float32.
    """

    slope: Tensor

    def __init__(
        self,
        heads: int,
        *,
        symmetric: bool = False,
        learned: bool = False,
        slopes: Tensor | None = None,
    ) -> None:
        super().__init__()
        _check.head_count(heads)
        _check.slopes(slopes, heads)
        self.heads, self.symmetric, self.causal_only = heads, symmetric, not symmetric
        self.given = slopes is not None
        slope = alibi_slopes(heads) if slopes is None else slopes
        if learned:
            self.slope = nn.Parameter(slope.clone())
        else:
            self.exact = ("slope",)
            self.register_buffer("slope", slope, persistent=False)

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        _check.made_for(self, self.heads, q)
        slope = self.slope.to(torch.promote_types(q.dtype, torch.float32))  # (H,)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return alibi(kpos[b, j] - qpos[b, i], slope[h], symmetric=self.symmetric)

        return f

    def reset_parameters(self) -> None:
        if not self.given:
            with torch.no_grad():
                self.slope.copy_(alibi_slopes(self.heads))
