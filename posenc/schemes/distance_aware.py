"""Distance-aware attention: distance multiplies what is left of a score above zero (Wu et al., 2021).

This is the distance-aware transformer. Public code by the name of DA-Transformer is the directed acyclic
transformer, which decodes in parallel and shares only the initials with it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from posenc._attention.encoding import Encoding, NoPE, alike
from posenc._attention.scores import attention_scores, planned
from posenc._require import require_heads


def distance_weight(
    R: Tensor, w: float | Tensor, v: float | Tensor, above: Tensor | None = None
) -> Tensor:
    """A sigmoid of distance over its value at 0: R̂ = (1 + e^v) / (1 + e^(v - wR)).

    R̂ = σ(wR - v) / σ(-v) is 1 at R = 0, whatever w and v are, and everywhere if w = 0.
    With R it rises to 1 + e^v if w > 0, and falls to 0 if w < 0. It is computed as a
    difference of logarithms, which does not overflow, and limited to e^40, so that a
    score times R̂ is finite.

    Args:
        R: Distances |i - j| ≥ 0, in positions.
        w: Rate per position. It broadcasts against R, as v does.
        v: Shift of the sigmoid.
        above: ln(1 + e^v), if it is at hand, since it is the same for all distances.

    Returns:
        R̂, in floating point, in the shape that R, w and v broadcast to.

    Example:
        >>> distance_weight(torch.tensor([0, 1, 10]), w=-0.5, v=0.0)
        tensor([1.0000, 0.7551, 0.0134])

    References:
        Wu et al. (2021), as others report it.
    """
    if not isinstance(v, Tensor):
        wide = torch.promote_types(R.dtype, torch.float32)
        v = torch.tensor(v, dtype=wide, device=R.device)
    if above is None:
        above = softplus(v, threshold=40)  # ln(1 + e^v), to the last digit
    below = softplus(v - w * R, threshold=40)
    return (above - below).clamp(max=40).exp()


class DistanceAware(Encoding):
    """s_ij ← max(s_ij, 0) · R̂(|i - j|; w_h, v_h): heads prefer far or near keys.

    Far keys get more if w > 0, near ones if w < 0. Without the ReLU, a negative score
    would reverse the preference. The ReLU leaves logits of 0, so weights above 0:
    nothing becomes sparse. A query without a positive score attends to all keys alike
    and passes no gradient to q and k; `dead_rows` finds such queries. Left and right
    look the same, so the order of tokens has to come from elsewhere. At w = 0 this is
    ReLU attention; there w has a gradient and v has none.

    Among the fused kernels only flex computes it. A pair of tokens takes one softplus
    and one exponential there, and ln(1 + e^v) is computed once for each head.

    Args:
        heads: Number of query heads, H.
        device, dtype: Of the parameters `w` and `v`, (H,). They start at N(0, 0.02²)
            and 0. The start is this book's: at 100 positions, a deviation of 0.02 is 2
            units of the sigmoid.

    Raises:
        ValueError: If heads is not positive.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> encoding, pos = DistanceAware(heads=8), torch.arange(5)
        >>> attention(q, k, v, encoding, pos).shape
        torch.Size([1, 8, 5, 64])

    References:
        Wu et al. (2021), as others report it.
    """

    def __init__(
        self,
        heads: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_heads(heads)
        self.heads = heads
        self.w = nn.Parameter(torch.empty(heads, device=device, dtype=dtype))
        self.v = nn.Parameter(torch.empty(heads, device=device, dtype=dtype))
        self.reset_parameters()

    def rescale(self, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        wide = torch.promote_types(self.w.dtype, torch.float32)
        w, v = self.w.to(wide), self.v.to(wide)  # (H,)
        above = softplus(v, threshold=40)  # once for each head, not for each pair
        once = alike(qpos, kpos)

        def f(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            b = b[:1] if once and b.ndim else b  # all texts have these positions
            distance = (qpos[b, i] - kpos[b, j]).abs()
            return s.relu() * distance_weight(distance, w[h], v[h], above[h])

        return f

    def reset_parameters(self) -> None:
        """Draws w again, and sets v to zero."""
        nn.init.normal_(self.w, std=0.02)
        nn.init.zeros_(self.v)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


def dead_rows(
    q: Tensor,
    k: Tensor,
    qpos: Tensor,
    kpos: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
) -> Tensor:
    """Queries whose scores are all ≤ 0: the ReLU leaves nothing to learn from.

    A query that may attend to no key at all is not counted.

    Args:
        q: Queries, (B, H, Lq, d).
        k: Keys, (B, Hk, Lk, d), where Hk divides H.
        qpos: Positions of the queries, (Lq,) or (B, Lq).
        kpos: Positions of the keys, (Lk,) or (B, Lk).
        causal: Whether a query sees only keys with kpos <= qpos.
        mask: bool, True where a query may attend. It broadcasts to (B, H, Lq, Lk).

    Returns:
        bool, (B, H, Lq). Its `.float().mean()` is the share of dead rows.

    Raises:
        ValueError: If the shapes do not match.

    Example:
        >>> k = torch.tensor([[[[1.0], [-1.0]]]])
        >>> dead_rows(-k, k, torch.arange(2), torch.arange(2))
        tensor([[[ True, False]]])
    """
    plan = planned(q, k, qpos, kpos, causal=causal, mask=mask)
    score = attention_scores(q, k, NoPE(), plan)  # (B, H, Lq, Lk)
    allowed = plan.allowed()
    if allowed is None:
        return (score <= 0).all(-1)
    return ((score <= 0) | ~allowed).all(-1) & allowed.any(-1)
