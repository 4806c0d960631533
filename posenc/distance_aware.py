"""Distance-aware attention: distance multiplies what is left of a score above zero (Wu et al., 2021).

This is the distance-aware transformer. Public code by the name of DA-Transformer is the directed acyclic
transformer, which decodes in parallel and shares nothing with it but the initials.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from posenc import _check
from posenc.attention import allowed_pairs, attention_scores, batched
from posenc.encoding import Encoding, NoPE


def distance_weight(R: Tensor, w: float | Tensor, v: float | Tensor) -> Tensor:
    """A sigmoid of distance, measured by what it is at 0: R̂ = (1 + e^v) / (1 + e^(v - wR)) = σ(wR - v) / σ(-v).

    R ≥ 0, in positions; w, per position, and v broadcast against it. R̂ is 1 at R = 0, whatever w and v,
    and everywhere if w = 0. It rises to 1 + e^v if w > 0, and falls to 0 if w < 0. Computed as a difference
    of logarithms, which does not overflow; above e^40 it is cut, so that a score times it is finite.
    Wu et al. (2021), section 3.
    """
    if not isinstance(v, Tensor):
        v = torch.tensor(v, dtype=torch.promote_types(R.dtype, torch.float32), device=R.device)
    above, below = (softplus(x, threshold=40) for x in (v, v - w * R))  # ln(1 + e^x), to the last digit
    return (above - below).clamp(max=40).exp()


class DistanceAware(Encoding):
    """s_ij ← max(s_ij, 0) · R̂(|i - j|; w_h, v_h): each head prefers far keys (w > 0) or near ones (w < 0).

    Without the ReLU a negative score would turn the preference around. It leaves logits of 0 and so
    weights above 0: nothing becomes sparse. A query without a positive score attends to all keys alike
    and passes no gradient to q and k: count those with `dead_rows`. Left and right look the same, so
    order has to come from elsewhere. The start is ours: w is drawn with a deviation of 0.02, which at
    100 positions is 2 of the sigmoid's units, and v = 0. At w = 0 this is ReLU attention, and w has a
    gradient there, but v has none. No fused kernel but flex computes it.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        _check.head_count(heads)
        self.w = nn.Parameter(torch.empty(heads))
        self.v = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def rescale(self, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        wide = torch.promote_types(self.w.dtype, torch.float32)
        w, v = self.w.to(wide), self.v.to(wide)  # (H,)

        def f(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return s.relu() * distance_weight((qpos[b, i] - kpos[b, j]).abs(), w[h], v[h])

        return f

    def reset_parameters(self) -> None:
        nn.init.normal_(self.w, std=0.02)
        nn.init.zeros_(self.v)


def dead_rows(
    q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor,
    *, causal: bool = True, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Queries whose scores are all ≤ 0: the ReLU leaves nothing of them, so nothing can be learned from them.

    Arguments as for `attention_weights` -> bool (B, H, Lq); `.float().mean()` is the share. A query that
    may attend to no key at all is not counted. Raises ValueError if shapes do not match.
    """
    negative = attention_scores(q, k, NoPE(), qpos, kpos) <= 0  # (B, H, Lq, Lk)
    allowed = allowed_pairs(*batched(q, qpos, kpos), causal, mask)
    if allowed is None:
        return negative.all(-1)
    return (negative | ~allowed).all(-1) & allowed.any(-1)
