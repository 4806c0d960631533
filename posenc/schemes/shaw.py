"""Relative position representations: each offset has a vector (Shaw et al., 2018)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from posenc._attention.encoding import Encoding, Split, alike
from posenc._attention.plan import Plan
from posenc._attention.scores import check_vectors
from posenc._require import require_positions, require_size


def shaw_label(offset: Tensor, clip: int) -> Tensor:
    """Offsets below clip have a label each; clip and beyond share one on their side.

    Args:
        offset: j - i, key minus query, an integer tensor of any shape.
        clip: k, the largest distance that is distinguished, 0 or more.

    Returns:
        The labels clip(j - i, -k, k) + k, from 0 to 2k, in the shape and dtype of
        offset.

    Raises:
        ValueError: If the offsets are no integers, or clip is negative.

    Example:
        >>> shaw_label(torch.tensor([-9, -2, -1, 0, 1, 2, 9]), 2)
        tensor([0, 0, 1, 2, 3, 4, 4])

    References:
        Shaw et al. (2018), section 3.2.
    """
    _check_integers(offset, "offset")
    _check_clip(clip)
    return offset.clamp(-clip, clip) + clip


class Shaw(Encoding):
    """b_ij = q_i · a^K_ij / √d, r_ij = a^V_ij: vectors for keys and values.

    a_ij is row clip(j - i, -k, k) + k of a table with 2k+1 rows. The tensor of all
    a_ij, (Lq, Lk, d), is never built. For the keys, q meets all 2k+1 rows once, and
    each pair looks up the product that belongs to its label. For the values, the
    weights of a query are summed by label, and the sums meet the rows. So nothing is
    larger than the weights (B, H, Lq, Lk), if 2k+1 and d are at most Lq and Lk.

    In causal attention rows k+1 to 2k, the labels of the future, are never used. With
    clip=0 the key term is the same for all keys and cancels in the softmax.

    Args:
        head_dim: Channels of a head, d.
        clip: k, the largest distance that is distinguished.
        heads: Number of query heads if each has its own tables, (heads, 2k+1, d).
            Default: all heads share one table, (2k+1, d). In the paper, the base model
            has a table for each layer and head, the big model one for each layer.
        values: Whether there is a value term. It needs the weights, so the backends
            "sdpa" and "flex" of `attention` refuse it. "auto" takes a whole pass apart,
            as `shaw_fused` does, and stores no weights.
        device, dtype: Of the tables.

    Raises:
        ValueError: If head_dim or heads is not positive, or clip is negative.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> shaw, pos = Shaw(64, clip=4), torch.arange(5)
        >>> attention(q, k, v, shaw, pos).shape
        torch.Size([1, 8, 5, 64])

    References:
        Shaw et al. (2018), section 3. The tables start as in the paper's code, uniform
        as Glorot and Bengio (2010) have it.
    """

    value_table: Tensor

    def __init__(
        self,
        head_dim: int,
        clip: int = 16,
        *,
        heads: int | None = None,
        values: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(head_dim, clip, heads)
        self.head_dim, self.clip = head_dim, clip
        self.heads, self.values = heads, values
        shape: tuple[int, ...] = (2 * clip + 1, head_dim)
        shape = shape if heads is None else (heads, *shape)
        table = torch.empty(shape, device=device, dtype=dtype)
        self.key_table = nn.Parameter(table)
        value_table = nn.Parameter(torch.empty_like(table)) if values else None
        self.register_parameter("value_table", value_table)
        if not values:
            self.mix = None  # type: ignore[assignment, method-assign]
        self.reset_parameters()

    def score_bias(
        self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor
    ) -> Callable[..., Tensor]:
        _check_labels(self, "q", q, qpos, kpos)
        kpos = kpos.long()  # a difference of unsigned integers would not be negative
        by_label = self._by_label(q)
        once = alike(qpos, kpos)

        def f(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            text = b[:1] if once and b.ndim else b  # all texts have these positions
            label = shaw_label(kpos[text, j] - qpos[text, i], self.clip)
            if torch.broadcast_shapes(b.shape, h.shape, i.shape)[-1:] != (1,):
                return by_label[b, h, i, label]  # any pairs, or one, as flex asks
            row = by_label[b, h, i].squeeze(-2)  # all keys of a query: gather is faster
            return row.gather(-1, label.expand(*row.shape[:-1], -1))

        return f

    def mix(self, weights: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        _check_labels(self, "v", v, qpos, kpos)
        texts = 1 if alike(qpos, kpos) else len(qpos)
        offset = kpos.long()[:texts, None, :] - qpos[:texts, :, None]
        label = shaw_label(offset, self.clip)[:, None]  # (B or 1, 1, Lq, Lk)
        by_label = weights.new_zeros(*weights.shape[:3], 2 * self.clip + 1)
        by_label = by_label.scatter_add(-1, label.expand_as(weights), weights)
        return weights @ v + by_label @ self.value_table.to(weights.dtype)

    def split(self, q: Tensor, plan: Plan) -> Split:
        """Beyond the clip all keys of a query have one bias, and one vector."""
        _check_labels(self, "q", q, plan.qpos(q.device), plan.kpos(q.device))
        return Split(self.clip, self._by_label(q), self.value_table)

    def _by_label(self, q: Tensor) -> Tensor:
        """q_i · a^K / √d for every label: (B, H, Lq, d) -> (B, H, Lq, 2k+1)."""
        wide = torch.promote_types(q.dtype, torch.float32)
        rows = self.key_table.to(wide).mT  # (d, 2k+1), or (H, d, 2k+1)
        return q.to(wide) @ rows * q.shape[-1] ** -0.5

    def reset_parameters(self) -> None:
        """Draws the tables again: uniform, within the bound for a (2k+1, d) matrix."""
        bound = (6 / (2 * self.clip + 1 + self.head_dim)) ** 0.5
        for table in self.parameters():
            nn.init.uniform_(table, -bound, bound)

    def extra_repr(self) -> str:
        names = ("head_dim", "clip", "heads", "values")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def shaw_naive(
    q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor | None,
    qpos: Tensor, kpos: Tensor, *, causal: bool = True,
) -> Tensor:  # fmt: skip
    """The equations as they stand: each pair of positions has its x_j + a_ij.

    It makes B·H·Lq·Lk·d numbers, twice, so it is for reading and testing. The paper
    splits the product and shares (Lq, Lk, d) among heads and sequences (section 3.3).
    `Shaw` needs neither.

    Args:
        q: Queries, (B, H, Lq, d).
        k, v: Keys and values, (B, Hk, Lk, d) each, where Hk divides H.
        key_table: (2k+1, d), or (H, 2k+1, d) if heads differ.
        value_table: The same for the values, or None if there is no value term.
        qpos: Positions of the queries, (Lq,) or (B, Lq), integers.
        kpos: Positions of the keys, (Lk,) or (B, Lk), integers.
        causal: Whether a query sees only keys with kpos <= qpos.

    Returns:
        z, (B, H, Lq, d), as `attention` with `Shaw` has it.

    Raises:
        ValueError: If the shapes do not match.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)
        >>> shaw, pos = Shaw(64, clip=4), torch.arange(5)
        >>> z = shaw_naive(q, k, v, shaw.key_table, shaw.value_table, pos, pos)
        >>> torch.allclose(z, attention(q, k, v, shaw, pos), atol=1e-5)
        True

    References:
        Shaw et al. (2018), equations 3 and 4.
    """
    check_vectors(q, k, v)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    _check_tables(q, key_table, value_table)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    offset = kpos[..., None, :] - qpos[..., :, None]  # (Lq, Lk) or (B, Lq, Lk)
    label = shaw_label(offset, key_table.shape[-2] // 2)[..., None, :, :]
    head = torch.arange(q.shape[1], device=q.device)[:, None, None]

    def per_pair(x: Tensor, table: Tensor | None) -> Tensor:  # x_j + a_ij
        if table is None:
            return x[:, :, None].expand(*q.shape[:3], *x.shape[2:])
        rows = table[label] if table.ndim == 2 else table[head, label]
        return x[:, :, None] + rows  # (B, H, Lq, Lk, d)

    score = torch.einsum("bhid, bhijd -> bhij", q, per_pair(k, key_table))
    score = score * q.shape[-1] ** -0.5
    if causal:
        score = score.masked_fill((offset > 0)[..., None, :, :], -torch.inf)
    weight = score.softmax(-1)
    return torch.einsum("bhij, bhijd -> bhid", weight, per_pair(v, value_table))


def shaw_fused(
    q: Tensor, k: Tensor, v: Tensor, key_table: Tensor, value_table: Tensor | None
) -> Tensor:
    """Both terms in causal attention, through a fused kernel that keeps no weights.

    All keys at least k = clip positions back share one label. A query gives them the
    same bias and the same a^V, so plain attention serves them. The k nearer keys are
    computed in blocks. To the plain attention they are k equal keys in front of the
    others: together these have the sum of the exponentials of the near scores, and the
    weight that they get is the near keys' share of the row.

    The position of a token is its index: there is no mask, no padding and no cache. The
    cost is that of plain attention with d + 2 channels, plus that of a band of k + 64
    keys for each query. No tensor has L² numbers.

    Args:
        q: Queries, (B, H, L, d).
        k, v: Keys and values, (B, Hk, L, d) each, where Hk divides H.
        key_table: (2k+1, d), or (H, 2k+1, d), such as `Shaw.key_table`.
        value_table: The same for the values, or None if there is no value term.

    Returns:
        z, (B, H, L, d), in q's dtype, as `attention` with `Shaw` has it.

    Raises:
        ValueError: If the shapes do not match, or q, k and v are not equally long.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 50, 64)
        >>> shaw, pos = Shaw(64, clip=4), torch.arange(50)
        >>> z = shaw_fused(q, k, v, shaw.key_table, shaw.value_table)
        >>> torch.allclose(z, attention(q, k, v, shaw, pos), atol=1e-5)
        True

    References:
        Shaw et al. (2018), equations 3 and 4.
    """
    _check_whole_pass(q, k, v)
    _check_tables(q, key_table, value_table)
    dtype, wide = q.dtype, torch.promote_types(q.dtype, torch.float32)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    value_table = torch.zeros_like(key_table) if value_table is None else value_table
    q, k, v, a_k, a_v = (x.to(wide) for x in (q, k, v, key_table, value_table))
    length, dim, clip = q.shape[2], q.shape[3], key_table.shape[-2] // 2
    near, z, log = max(1, min(clip, length)), [], []
    at = torch.arange(length, device=q.device)
    for first in range(0, max(length, 1), 64):  # 64 queries, and the keys near them
        rows, band = slice(first, first + 64), slice(max(first - near, 0), first + 64)
        offset = at[band] - at[rows, None]
        label = (offset.clamp(-clip, 0) + clip).expand(*q.shape[:2], -1, -1)
        by_label = q[:, :, rows] @ a_k[..., : clip + 1, :].mT
        score = q[:, :, rows] @ k[:, :, band].mT + by_label.gather(-1, label)
        hidden = (offset > 0) | (offset <= -near)
        score = (score * dim**-0.5).masked_fill(hidden, -torch.inf)
        weight = score.softmax(-1)
        spent = torch.zeros_like(by_label).scatter_add(-1, label, weight)
        z.append(weight @ v[:, :, band] + spent @ a_v[..., : clip + 1, :])
        log.append(score.logsumexp(-1, keepdim=True))

    # The far keys, and in front of them as many keys as are near, equal to each other.
    one = (torch.cat(log, 2) - math.log(near)) * dim**0.5 - q @ a_k[..., :1, :].mT
    high = one.to(dtype).to(wide)  # and one - high is what half precision cuts off
    queries = torch.cat((q, high, one - high), -1)
    keys, values = (pad(x[:, :, : length - near], (0, 2, near, 0)) for x in (k, v))
    keys[:, :, :near, dim:] = 1.0
    values[:, :, :near, dim] = 1.0
    queries, keys, values = (x.to(dtype) for x in (queries, keys, values))
    out = scaled_dot_product_attention(
        queries, keys, values, is_causal=True, scale=dim**-0.5
    ).to(wide)
    share = out[..., [dim]]  # of the near keys
    far = out[..., :dim] + (1 - share) * a_v[..., :1, :]
    return (far + share * torch.cat(z, 2)).to(dtype)


# Checks of input


def _check_integers(value: Tensor, name: str) -> None:
    """Only a whole offset has a label."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ValueError(
            f"{name} is {value.dtype}, but only whole offsets have a label: "
            f"use integer positions, such as torch.arange(length) or pos.round().long()"
        )


def _check_clip(clip: int) -> None:
    """A clip is a distance."""
    if not torch.compiler.is_exporting() and clip < 0:
        raise ValueError(
            f"clip is {clip}, but labels run from -clip to clip: use the largest distance "
            f"that is distinguished, such as 16, or 0 for none"
        )


def _check_sizes(head_dim: int, clip: int, heads: int | None) -> None:
    """A table has a row for each label and a column for each channel of a head."""
    _check_clip(clip)
    require_size(head_dim, "head_dim", "the number of channels of a head")
    if heads is not None:
        require_size(
            heads, "heads", "the number of query heads, or None if all share one table"
        )


def _check_labels(
    encoding: Shaw, name: str, x: Tensor, qpos: Tensor, kpos: Tensor
) -> None:
    """What meets a table has its channels and heads, and positions that have labels."""
    _check_integers(qpos, "qpos")
    _check_integers(kpos, "kpos")
    if torch.compiler.is_exporting():
        return
    if x.shape[-1] != encoding.head_dim:
        remedy = f"make it with Shaw({x.shape[-1]})"
        if name == "v":
            remedy = "use values=False, or as many channels in v as in q"
        raise ValueError(
            f"Shaw was made for head_dim={encoding.head_dim} and {name} has {x.shape[-1]}: {remedy}"
        )
    if encoding.heads is not None and x.shape[1] != encoding.heads:
        raise ValueError(
            f"Shaw was made for heads={encoding.heads} and {name} has {x.shape[1]}: make it with "
            f"heads={x.shape[1]}, the query heads, or without heads if all share one table"
        )


def _check_tables(q: Tensor, key_table: Tensor, value_table: Tensor | None) -> None:
    """Tables are (2k+1, d), or (H, 2k+1, d) if heads differ."""
    heads, dim = q.shape[1], q.shape[-1]
    shapes = [
        tuple(table.shape) for table in (key_table, value_table) if table is not None
    ]
    shape = shapes[0]
    fits = (
        len(shape) > 1
        and shape[:-2] in ((), (heads,))
        and shape[-2] % 2
        and shape[-1] == dim
    )
    if not fits or shapes[-1] != shape:
        raise ValueError(
            f"the tables have shapes {' and '.join(map(str, shapes))}, and q has {heads} heads of "
            f"{dim} channels: use (2k+1, {dim}) for both, or ({heads}, 2k+1, {dim}) if heads differ"
        )


def _check_whole_pass(q: Tensor, k: Tensor, v: Tensor) -> None:
    """A token's position is its index, so queries and keys are the same tokens."""
    check_vectors(q, k, v)
    if q.shape[2] != k.shape[2] or q.shape[3] != v.shape[3]:
        raise ValueError(
            f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}: "
            f"use the same L and d in all; for a cached step, use attention with Shaw"
        )
