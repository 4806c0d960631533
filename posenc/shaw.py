"""Relative position representations: a vector for each offset, in keys and in values (Shaw et al., 2018)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from posenc import _check
from posenc._require import require_positions
from posenc.attention import check_vectors
from posenc.encoding import Encoding


def shaw_label(offset: Tensor, clip: int) -> Tensor:
    """Offsets up to clip apart have a label each, and all beyond share the last on their side.

    offset = j - i, key minus query, an integer tensor of any shape -> clip(j - i, -k, k) + k, from 0 to 2k.
    Raises ValueError if offsets are no integers, or clip is negative. Shaw et al. (2018), section 3.2.
    """
    _check.whole(offset, "offset")
    _check.clip(clip)
    return offset.clamp(-clip, clip) + clip


def shaw_naive(
    q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor | None, qpos: Tensor, kpos: Tensor,
    *, causal: bool = True,
) -> Tensor:  # fmt: skip
    """The equations as they stand: each pair of positions has a key and a value of its own, x_j + a_ij.

    q (B, H, Lq, d), k and v (B, Hk, Lk, d), tables (2k+1, d) or (H, 2k+1, d), no a^V if value_table is None,
    qpos (Lq,) or (B, Lq), kpos (Lk,) or (B, Lk) -> (B, H, Lq, d), as `attend` with `Shaw` computes it. Makes
    B·H·Lq·Lk·d numbers, twice, so it is for reading and testing; the paper splits the product, and shares
    (Lq, Lk, d) among heads and sequences (section 3.3). Shaw et al. (2018), equations 3 and 4.
    """
    check_vectors(q, k, v)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    _check.label_tables(q, key_table, value_table)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    offset = kpos[..., None, :] - qpos[..., :, None]  # (Lq, Lk) or (B, Lq, Lk)
    label = shaw_label(offset, key_table.shape[-2] // 2)[..., None, :, :]
    head = torch.arange(q.shape[1], device=q.device)[:, None, None]

    def per_pair(x: Tensor, table: Tensor | None) -> Tensor:  # x_j + a_ij
        if table is None:
            return x[:, :, None].expand(*q.shape[:3], *x.shape[2:])
        return x[:, :, None] + (table[label] if table.ndim == 2 else table[head, label])  # (B, H, Lq, Lk, d)

    score = torch.einsum("bhid, bhijd -> bhij", q, per_pair(k, key_table)) * q.shape[-1] ** -0.5
    if causal:
        score = score.masked_fill((offset > 0)[..., None, :, :], -torch.inf)
    return torch.einsum("bhij, bhijd -> bhid", score.softmax(-1), per_pair(v, value_table))


class Shaw(Encoding):
    """b_ij = q_i · a^K_ij / √d and r_ij = a^V_ij: an offset adds one vector to the key, another to the value.

    a_ij is row clip(j - i, -k, k) + k of a table (2k+1, d). The tensor of all of them, (Lq, Lk, d), is never
    made: a query meets each row once and looks up what belongs to its keys; weights are added up by label and
    then meet the rows. Nothing is larger than the weights if 2k+1 and d are at most Lq and Lk.

    All heads and sequences share one pair of tables. With `heads`, each head of q has its own, (heads, 2k+1, d),
    as in the paper's base model, whose layers have their own too. values=False leaves out the value term, since
    that needs the weights: then every backend serves the rest. clip=0 tells no offsets apart, and its key term
    cancels in the softmax. If causal, rows k+1 to 2k, the future's, are never used. Shaw et al. (2018), section 3.
    """

    value_table: Tensor

    def __init__(self, head_dim: int, clip: int = 16, *, heads: int | None = None, values: bool = True) -> None:
        super().__init__()
        _check.shaw(head_dim, clip, heads)
        self.head_dim, self.clip, self.heads = head_dim, clip, heads
        shape = (2 * clip + 1, head_dim) if heads is None else (heads, 2 * clip + 1, head_dim)
        self.key_table = nn.Parameter(torch.empty(shape))
        self.register_parameter("value_table", nn.Parameter(torch.empty(shape)) if values else None)
        if not values:
            self.mix = None  # type: ignore[assignment, method-assign]
        self.reset_parameters()

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        _check.labelled(self, "q", q, qpos, kpos)
        kpos = kpos.long()  # a difference of unsigned integers would not be negative
        wide = torch.promote_types(q.dtype, torch.float32)
        by_label = q.to(wide) @ self.key_table.to(wide).mT * q.shape[-1] ** -0.5  # (B, H, Lq, 2k+1)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            label = shaw_label(kpos[b, j] - qpos[b, i], self.clip)
            if torch.broadcast_shapes(b.shape, h.shape, i.shape)[-1:] != (1,):
                return by_label[b, h, i, label]  # one pair, which is how flex_attention asks, or any pairs
            row = by_label[b, h, i].squeeze(-2)  # all keys of each query: the same, and three times as fast
            return row.gather(-1, label.expand(*row.shape[:-1], -1))

        return f

    def mix(self, weights: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        _check.labelled(self, "v", v, qpos, kpos)
        label = shaw_label(kpos.long()[:, None, :] - qpos[:, :, None], self.clip)[:, None]  # (B, 1, Lq, Lk)
        by_label = weights.new_zeros(*weights.shape[:3], 2 * self.clip + 1)
        by_label = by_label.scatter_add(-1, label.expand_as(weights), weights)  # (B, H, Lq, 2k+1)
        return weights @ v + by_label @ self.value_table.to(weights.dtype)

    def reset_parameters(self) -> None:
        """Uniform, as Glorot and Bengio (2010) have it for a (2k+1, d) matrix, and the paper's code too."""
        bound = (6 / (2 * self.clip + 1 + self.head_dim)) ** 0.5
        for table in self.parameters():
            nn.init.uniform_(table, -bound, bound)
