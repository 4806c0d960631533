"""T5's relative bias: a learned number for each head and bucket of offsets (Raffel et al., 2020)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.encoding import Encoding


def t5_bucket(offset: Tensor, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> Tensor:
    """Near offsets have a bucket each; far ones share buckets that grow geometrically up to max_distance.

    offset = j - i, key minus query, of any shape -> int64 of that shape, 0 ≤ bucket < buckets. A float is
    cut to whole positions, towards the query. With n = max(i - j, 0) and half of the buckets, e, exact:
    n if n < e, else min(buckets - 1, e + ⌊ln(n/e) / ln(max_distance/e) · (buckets - e)⌋). If bidirectional,
    n = |i - j| in half of the buckets, and the other half is for j > i; its first is never used.

    The last bucket begins before max_distance: by default at 113, or at 91 if bidirectional. Computed in
    float64, whatever the model's dtype, and equal to integer arithmetic for every buckets ≤ 256 and
    max_distance ≤ 8192. Raises ValueError if buckets is odd or < 4, or max_distance ≤ e.
    Raffel et al. (2020), section 2.1.
    """
    _check.offsets(offset)
    _check.buckets(buckets, max_distance, bidirectional)
    offset = offset.to(torch.float64).nan_to_num()
    buckets = buckets // 2 if bidirectional else buckets
    distance = (offset.abs() if bidirectional else -offset).clamp(min=0).floor()
    exact = buckets // 2
    growth = (distance / exact).log()  # -∞ at 0, which has a bucket of its own
    limit = (distance.new_full((), max_distance) / exact).log()
    share = growth / limit * (buckets - exact)
    # to 2^-36, since rounding errs by up to 1e-13; no distance is nearer than 3e-10 to a bucket that it has not reached
    shared = exact + ((share * 2**36).round() / 2**36).floor()
    bucket = torch.where(distance < exact, distance, shared.clamp(max=buckets - 1))
    if bidirectional:
        bucket = torch.where(offset >= 1, bucket + buckets, bucket)
    return bucket.to(torch.int64)


class T5Bias(Encoding):
    """b_ij = table[bucket(j - i), h]: what an offset is worth to a head is learned, whatever the content.

    The table (buckets, heads) is laid out as in transformers. It starts at zero, so as NoPE; T5 draws it.
    T5's models do not divide scores by √d: pass scale=1.0 to `attend`. All layers of a stack share one
    table there (give them one T5Bias), encoder and decoder have their own, and cross-attention has none,
    although a bidirectional T5Bias serves it too. Keys stay as they are, so a cached step needs only the
    row of its query. Unless bidirectional, all keys of the future share bucket 0 with the query itself.
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> None:
        super().__init__()
        _check.head_count(heads)
        _check.buckets(buckets, max_distance, bidirectional)
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        self.causal_only = not bidirectional
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        _check.made_for(self, self.table.shape[1], q)
        reach = self.max_distance  # beyond it, every offset has the value of this one
        offset = torch.arange(-reach, reach + 1, device=q.device)
        bucket = t5_bucket(offset, self.buckets, self.max_distance, self.bidirectional)
        value = self.table[bucket].to(torch.promote_types(q.dtype, torch.float32))  # (2 · max_distance + 1, H)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            offset = (kpos[b, j] - qpos[b, i]).long().clamp(-reach, reach)
            return value[offset + reach, h]

        return f

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.table)
