"""T5's relative bias: a learned number for each head and bucket (Raffel et al., 2020)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc._attention.encoding import Encoding, Split, alike
from posenc._attention.plan import Plan
from posenc._require import require_heads, require_same_heads


def t5_bucket(
    offset: Tensor,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = False,
) -> Tensor:
    """Near offsets have a bucket each; far ones share buckets that grow with distance.

    With n = max(i - j, 0) and e = buckets/2, the bucket is n if n < e, and otherwise
    min(buckets - 1, e + ⌊ln(n/e) / ln(max_distance/e) · (buckets - e)⌋). If
    bidirectional, n = |i - j| has half of the buckets, and the other half is for j > i;
    its first is never used.

    The last bucket begins before max_distance: by default at 113, or at 91 if
    bidirectional. The logarithms are computed in float64, whatever the model's dtype.
    The result equals integer arithmetic for every buckets ≤ 256 and max_distance ≤
    8192.

    Args:
        offset: j - i, key minus query, of any shape. A float is cut to whole positions,
            towards the query.
        buckets: Their number, even and at least 4.
        max_distance: From here on, at the latest, all distances share the last bucket.
        bidirectional: Whether keys of the future have buckets too. Otherwise they share
            bucket 0 with the query itself.

    Returns:
        Buckets from 0 to buckets - 1, int64, in the shape of offset.

    Raises:
        ValueError: If buckets is odd or less than 4, or max_distance not greater than
            e.

    Example:
        >>> t5_bucket(torch.tensor([0, -1, -15, -16, -30, -113, -1000, 5]))
        tensor([ 0,  1, 15, 16, 20, 31, 31,  0])

    References:
        Raffel et al. (2020), section 2.1, and their code.
    """
    _check_offsets(offset)
    _check_buckets(buckets, max_distance, bidirectional)
    offset = offset.to(torch.float64).nan_to_num()
    buckets = buckets // 2 if bidirectional else buckets
    distance = (offset.abs() if bidirectional else -offset).clamp(min=0).floor()
    exact = buckets // 2
    growth = (distance / exact).log()  # -∞ at 0, which has its own bucket
    limit = (distance.new_full((), max_distance) / exact).log()
    share = growth / limit * (buckets - exact)
    # Logarithms err by up to 1e-13, so share is rounded to 2^-36 before the floor. That
    # moves no distance: none is nearer than 3e-10 to a bucket that it has not reached.
    shared = exact + ((share * 2**36).round() / 2**36).floor()
    bucket = torch.where(distance < exact, distance, shared.clamp(max=buckets - 1))
    if bidirectional:
        bucket = torch.where(offset >= 1, bucket + buckets, bucket)
    return bucket.to(torch.int64)


class T5Bias(Encoding):
    """b_ij = table[bucket(j - i), h]: what an offset is worth to a head is learned.

    T5's models do not divide scores by √d: pass scale=1.0 to `attention`. All layers of
    a stack share one table there (give them one T5Bias), encoder and decoder have
    different ones, and cross-attention has none, although a bidirectional T5Bias serves
    it too. Keys hold no position, so a cached step needs only the row of its query.

    Args:
        heads: Number of query heads, H.
        buckets: Number of buckets, even and at least 4.
        max_distance: From here on, at the latest, all distances share the last bucket.
        bidirectional: Whether keys of the future have buckets. Otherwise causal=False
            is refused.
        device, dtype: Of `table`, (buckets, H), laid out as in transformers. It starts
            at zero, so as NoPE; T5 draws it at random.

    Raises:
        ValueError: If heads is not positive, or buckets and max_distance do not fit.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> t5, pos = T5Bias(heads=8), torch.arange(5)
        >>> attention(q, k, v, t5, pos, scale=1.0).shape
        torch.Size([1, 8, 5, 64])

    References:
        Raffel et al. (2020), section 2.1.
    """

    def __init__(
        self,
        heads: int,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = False,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        require_heads(heads)
        _check_buckets(buckets, max_distance, bidirectional)
        self.heads, self.buckets, self.max_distance = heads, buckets, max_distance
        self.bidirectional = bidirectional
        self.causal_only = not bidirectional
        table = torch.empty(buckets, heads, device=device, dtype=dtype)
        self.table = nn.Parameter(table)
        self.reset_parameters()

    def score_bias(
        self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor
    ) -> Callable[..., Tensor]:
        value = self._by_offset(q)  # (2 · reach + 1, H)
        once = alike(qpos, kpos)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            b = b[:1] if once and b.ndim else b  # all texts have these positions
            reach = self.max_distance  # a module's number is a constant to a compiler
            offset = (kpos[b, j] - qpos[b, i]).long().clamp(-reach, reach)
            return value[offset + reach, h]

        return f

    def offset_bias(self, q: Tensor, offset: Tensor) -> Tensor:
        reach = self.max_distance
        return self._by_offset(q).T[:, offset.clamp(-reach, reach) + reach]  # (H, n)

    def offset_state(self) -> tuple[Any, ...]:
        return self.table, self.buckets, self.max_distance, self.bidirectional

    def split(self, q: Tensor, plan: Plan) -> Split:
        """Beyond max_distance all offsets have one value, so it needs no matrix."""
        return Split(self.max_distance, self._by_offset(q).T[None, :, None])

    def _by_offset(self, q: Tensor) -> Tensor:
        require_same_heads(self, self.heads, q)
        reach = self.max_distance  # all offsets beyond it have the value of this one
        offset = torch.arange(-reach, reach + 1, device=q.device)
        bucket = t5_bucket(offset, self.buckets, reach, self.bidirectional)
        return self.table[bucket].to(torch.promote_types(q.dtype, torch.float32))

    def reset_parameters(self) -> None:
        """Sets the table to zero."""
        nn.init.zeros_(self.table)

    def extra_repr(self) -> str:
        names = ("heads", "buckets", "max_distance", "bidirectional")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


# Checks of input


def _check_offsets(offset: Tensor) -> None:
    """An offset is a number."""
    if offset.dtype == torch.bool or offset.is_complex():
        raise ValueError(
            f"offset is {offset.dtype}, but an offset is a difference of positions: use kpos[None, :] - qpos[:, None]"
        )


def _check_buckets(buckets: int, max_distance: int, bidirectional: bool) -> None:
    """Half of the buckets hold one distance each, and the others share the rest."""
    if torch.compiler.is_exporting():
        return
    if buckets < 4 or buckets % 2:
        raise ValueError(
            f"buckets is {buckets}, but they are halved, into near and far distances and before that, "
            f"if bidirectional, into past and future: use an even number, at least 4, such as 32"
        )
    exact = buckets // 4 if bidirectional else buckets // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_distance is {max_distance}, but with {buckets} buckets distances below {exact} have "
            f"one each, and the others begin there: use max_distance={exact + 1} or more, such as "
            f"{8 * exact}, or fewer buckets"
        )
