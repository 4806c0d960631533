"""Attention with linear biases: distance costs logits, at a fixed rate per head (Press et al., 2022)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc._attention.encoding import Encoding, alike
from posenc._attention.plan import Plan
from posenc._require import require_heads, require_same_heads


def alibi_slopes(
    heads: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Each head forgets at its own rate: the slopes of the authors' code, as checkpoints have them.

    The paper's rule is m_h = 2^(-8h/heads) for any number of heads, and the code agrees
    if that number is a power of two. Otherwise the code takes the largest power c below
    it for the first c slopes. The others are halfway between those, at 2^(-8(h -
    ½)/c), from the steepest on: with 12 heads the exponents are 1 to 8, then ½, 1½, 2½
    and 3½. For the paper's slopes pass `ALiBi(heads, slopes=2.0 ** (-8 *
    torch.arange(1, heads + 1) / heads))`.

    Args:
        heads: Number of heads, H.
        dtype, device: Of the result. Powers are taken in float64.

    Returns:
        The slopes, (H,), in logits per position.

    Raises:
        ValueError: If heads is not positive.

    Example:
        >>> alibi_slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039])

    References:
        Press et al. (2022), section 3, for powers of two; `get_slopes` in their code for
        all others.
    """
    require_heads(heads)
    head = torch.arange(1, heads + 1, dtype=torch.float64, device=device)
    power = (
        head.new_full((), heads + 0.5).log2().floor().exp2()
    )  # c; ½ against rounding
    rank = torch.where(head <= power, head, head - power - 0.5)
    return torch.exp2(-8 * rank / power).to(dtype)  # (H,)


def alibi(offset: Tensor, slope: float | Tensor, *, symmetric: bool = False) -> Tensor:
    """A distance of n positions costs slope · n logits.

    The distance is i - j, or |i - j| if symmetric. Positions are subtracted before they
    meet the slope, so the result is exact up to the rounding of one product. Some
    models add slope · j alone; in bfloat16 that form gives near keys the same number.

    Args:
        offset: j - i, key minus query, of any shape.
        slope: Logits per position. It broadcasts against offset.
        symmetric: Whether the future costs as much as the past. Otherwise it is
            rewarded, and has to be hidden.

    Returns:
        The bias, in the shape that offset and slope broadcast to.

    Example:
        >>> alibi(torch.tensor([-2, -1, 0]), 0.5)
        tensor([-1.0000, -0.5000, -0.0000])

    References:
        Press et al. (2022), section 3. The symmetric form is not in the paper.
    """
    distance = offset.abs() if symmetric else -offset
    return -slope * distance


class ALiBi(Encoding):
    """b_ij = -m_h (i - j): a query loses sight of far keys, at a rate for each head.

    The bias is added to q·k/√d and not divided by √d itself. Keys and values hold no
    position, so a cached step needs only the row of its query. Distances above 2^24 are
    rounded to float32.

    Args:
        heads: Number of query heads, H.
        symmetric: Whether the distance is |i - j|, as for an encoder. Otherwise keys of
            the future would be rewarded, and causal=False is refused.
        learned: Whether the slopes are a parameter.
        slopes: (H,), in logits per position. Default: `alibi_slopes(heads)`, the rule of
            the authors' code.
        device, dtype: Of `slope`, (H,). Unless learned, it keeps at least float32.

    Raises:
        ValueError: If heads is not positive, or slopes has another shape.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> alibi, pos = ALiBi(heads=8), torch.arange(5)
        >>> attention(q, k, v, alibi, pos).shape
        torch.Size([1, 8, 5, 64])

    References:
        Press et al. (2022), section 3.
    """

    slope: Tensor

    def __init__(
        self,
        heads: int,
        *,
        symmetric: bool = False,
        learned: bool = False,
        slopes: Tensor | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_heads(heads)
        _check_slopes(slopes, heads)
        self.heads, self.symmetric, self.learned = heads, symmetric, learned
        self.causal_only = not symmetric
        self.given = slopes is not None
        slope = alibi_slopes(heads, device=device) if slopes is None else slopes
        if learned:
            self.slope = nn.Parameter(slope.to(device, dtype, copy=True))
        else:
            dtype = slope.dtype if dtype is None else dtype
            wide = torch.promote_types(dtype, torch.float32)
            self.exact = ("slope",)
            self.register_buffer("slope", slope.to(device, wide), persistent=False)

    def score_bias(
        self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor
    ) -> Callable[..., Tensor]:
        slope = self._slopes(q)  # (H,)
        once = alike(qpos, kpos)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            b = b[:1] if once and b.ndim else b  # all texts have these positions
            return alibi(kpos[b, j] - qpos[b, i], slope[h], symmetric=self.symmetric)

        return f

    def offset_bias(self, q: Tensor, offset: Tensor) -> Tensor:
        return alibi(offset, self._slopes(q)[:, None], symmetric=self.symmetric)

    def offset_state(self) -> tuple[Any, ...]:
        return self.slope, self.symmetric

    def widen(
        self, q: Tensor, k: Tensor, plan: Plan, scale: float
    ) -> tuple[Tensor, Tensor] | None:
        """-m (i - j) = m·j - m·i, and softmax ignores m·i: m·j is a product of channels.

        Sixteen bits hold neither a slope nor a position exactly. A slope is then a sum
        of three numbers, and a position of two or three digits to base 256, and each
        pair of them takes a channel. In float32 one channel is enough: the product is
        rounded at the size of the slope times the length.
        """
        if self.symmetric:
            return None
        slope = self._slopes(q) / scale
        pos = plan.kpos(k.device)
        back = pos - pos.amax(-1, keepdim=True)  # near keys have small numbers, about
        half = k.dtype.itemsize == 2
        digits = _digits(back, plan, k.dtype) if half else {1.0: back}
        if not digits:
            return None
        return _with_channels(q, k, slope, digits, terms=3 if half else 1)

    def _slopes(self, q: Tensor) -> Tensor:
        require_same_heads(self, self.heads, q)
        return self.slope.to(torch.promote_types(q.dtype, torch.float32))

    def reset_parameters(self) -> None:
        """Restores `alibi_slopes`; slopes that were given stay as they are."""
        if not self.given:
            with torch.no_grad():
                self.slope.copy_(alibi_slopes(self.heads))

    def extra_repr(self) -> str:
        given = f", slopes=given({self.heads},)" if self.given else ""
        kind = f"symmetric={self.symmetric}, learned={self.learned}"
        return f"heads={self.heads}, {kind}{given}"


def _with_channels(
    q: Tensor, k: Tensor, slope: Tensor, digits: dict[float, Tensor], terms: int
) -> tuple[Tensor, Tensor]:
    """q and k with the terms of the slopes (H,) beside the digits of the positions."""
    parts = []
    for _ in range(terms):  # what is left is rounded next
        parts.append(slope.to(q.dtype))
        slope = slope - parts[-1]
    room = -(q.shape[-1] + len(parts) * len(digits)) % 8  # kernels want eights
    ours = [part * base for part in parts for base in digits]  # (H,) each
    theirs = [digit for _ in parts for digit in digits.values()]  # (L,) or (B, L)
    rates = torch.stack(ours, -1)[:, None].expand(*q.shape[:3], -1)
    places = torch.stack(theirs, -1).to(k.dtype).unsqueeze(-3)
    places = places.expand(*k.shape[:3], -1)
    q = torch.cat((q, rates, q.new_zeros(*q.shape[:3], room)), -1)
    return q, torch.cat((k, places, k.new_zeros(*k.shape[:3], room)), -1)


def _digits(back: Tensor, plan: Plan, dtype: torch.dtype) -> dict[float, Tensor]:
    """Positions by the base of each digit: bfloat16 holds whole numbers up to 256."""
    if back.is_floating_point():
        return {}
    low, rest = back % 256, back.div(256, rounding_mode="floor")
    if plan.spans is not None and plan.spans[1].length <= 2**16:
        return {1.0: low, 256.0: rest}
    if dtype == torch.float16:  # 65 536 is not among its numbers
        return {}
    high = rest.div(256, rounding_mode="floor")
    return {1.0: low, 256.0: rest % 256, 65_536.0: high}


# Checks of input


def _check_slopes(slopes: Tensor | None, heads: int) -> None:
    """Each head has one slope."""
    if slopes is not None and slopes.shape != (heads,):
        raise ValueError(
            f"slopes has shape {tuple(slopes.shape)}, but there are {heads} heads: "
            f"use shape (heads,) = ({heads},), such as alibi_slopes({heads})"
        )
