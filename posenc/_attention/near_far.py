"""Attention with a bias that is one number beyond a reach: a near band, and plain attention for all farther keys.

Both are attention of their own, over other keys. The log-sum-exp of its scores says which share of a row each gets. So
no matrix of biases exists, and far keys go through a fused kernel.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from posenc._attention.encoding import Split

BLOCK = 64  # queries that share a band of keys, at least


def near_far(
    q: Tensor, k: Tensor, v: Tensor, split: Split, causal: bool, scale: float
) -> Tensor:
    """Attention of a text to itself, with b_ij and r_ij by the offset j - i, clipped to the reach.

    Args:
        q: (B, H, L, d); a token's position is its index.
        k: (B, H, L, d).
        v: (B, H, L, d_v).
        split: The bias, and what is added to values.
        causal: Whether a query sees no key after itself.
        scale: Multiplies q · k.

    Returns:
        z, (B, H, L, d_v), in q's dtype.
    """
    dtype, width, bias, rows = q.dtype, v.shape[-1], split.bias, split.values
    q, k, v, rows = one_width(q, k, v, rows)
    grads = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, bias))
    # A kernel has no gradient of a bias, and no weights.
    fused = not (q.is_cuda or grads or rows is not None)
    near, lse = (_near_by_kernel if fused else _near)(
        q, k, v, split._replace(values=rows), causal, scale
    )
    ends = (
        (0,) if causal else (0, 2 * split.reach)
    )  # what is before the reach, and what is after it
    values = (
        [v] if rows is None else [v + rows[..., [end], :].to(v.dtype) for end in ends]
    )
    z = _Merged.apply(
        near,
        lse,
        q,
        k,
        scale,
        split.reach,
        len(ends),
        *(bias[..., end] for end in ends),
        *values,
    )
    return z[..., :width].to(dtype)


def one_width(
    q: Tensor, k: Tensor, v: Tensor, rows: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Fused kernels want as many channels in v as in q, and on a GPU a multiple of eight; zeros change no product."""
    width = max(q.shape[-1], v.shape[-1])
    width += -width % 8 if q.is_cuda else 0
    q, k, v = (
        x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1]))
        for x in (q, k, v)
    )
    return (
        q,
        k,
        v,
        rows
        if rows is None or rows.shape[-1] == width
        else pad(rows, (0, width - rows.shape[-1])),
    )


def _near(
    q: Tensor, k: Tensor, v: Tensor, split: Split, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention to keys nearer than the reach: z (B, H, L, d_v), and the log-sum-exp of each row, (B, H, L).

    Queries are taken in blocks. A block sees its own keys and those of its neighbours.
    """
    length, reach = q.shape[2], split.reach
    size = max(BLOCK, reach)
    count = -(-length // size)
    q, k, v = (_blocks(x, size, count) for x in (q, k, v))  # (B, H, n, size, …)
    k, v = (_neighbours(x, causal) for x in (k, v))  # (B, H, n, 2 or 3 sizes, …)
    wide = torch.promote_types(q.dtype, torch.float32)
    index, seen = _places(reach, causal, size, size, k.shape[3], q.device)
    bias = split.bias.to(wide)
    if bias.shape[2] == 1:
        bias = bias[..., index]  # (B or 1, H, 1, size, keys)
    else:
        by_offset = _blocks(bias, size, count)
        bias = by_offset.gather(-1, index.expand(*by_offset.shape[:3], *index.shape))
    bias = bias.masked_fill(~seen, -torch.inf)
    rows = None if split.values is None else split.values.to(wide)
    rows = rows if rows is None or rows.ndim == 2 else rows[:, None]
    vectors = q.to(wide) * scale, k.to(wide), v.to(wide)
    z, lse = _Near.apply(*vectors, bias, rows, index, length, causal)
    return z.flatten(2, 3)[:, :, :length], lse.flatten(2, 3)[:, :, :length]


class _Near(torch.autograd.Function):
    """Attention inside blocks, and its log-sum-exp: each pass of the gradient over all pairs is made once, in place.

    With weights α, dα_ij = dz_i · (v_j + r_ij), and ds_ij = α_ij (dα_ij - dz_i · z_i + dlse_i).
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        rows: Tensor | None,
        index: Tensor,
        length: int,
        causal: bool,
    ) -> tuple[Tensor, Tensor]:
        score = (q @ k.mT).add_(bias)
        _hide_outside(score, length, causal)
        weight = score.softmax(-1)
        lse = score.amax(-1) - weight.amax(-1).log()
        z = weight @ v
        if rows is not None:
            by_offset = weight.new_zeros(*weight.shape[:4], rows.shape[-2])
            by_offset.scatter_add_(-1, index.expand(weight.shape), weight)
            z += by_offset @ rows
        ctx.save_for_backward(q, k, v, rows, index, weight, z)
        ctx.shape = bias.shape
        return z, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor, dlse: Tensor) -> Any:
        q, k, v, rows, index, weight, z = ctx.saved_tensors
        change, drows = dz @ v.mT, None
        if rows is not None:
            change += (dz @ rows.mT).gather(-1, index.expand(weight.shape))
            by_offset = weight.new_zeros(*weight.shape[:4], rows.shape[-2])
            by_offset.scatter_add_(-1, index.expand(weight.shape), weight)
            drows = (by_offset.mT @ dz).sum_to_size(rows.shape)
        change -= ((dz * z).sum(-1) - dlse)[..., None]
        change *= weight  # is ds now
        return (
            change @ k,
            change.mT @ q,
            weight.mT @ dz,
            change.sum_to_size(ctx.shape),
            drows,
            None,
            None,
            None,
        )


def _hide_outside(score: Tensor, length: int, causal: bool) -> None:
    """No text has the keys before its first block, and after its last token. What fills the last block sees itself."""
    count, size = score.shape[2:4]
    score[:, :, 0, :, :size] = -torch.inf
    for n in () if causal else range(max(0, count - 2), count):
        first = n * size
        score[:, :, n, : length - first, length - first + size :] = -torch.inf


def _near_by_kernel(
    q: Tensor, k: Tensor, v: Tensor, split: Split, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """`_near` by a kernel. Blocks that see whole windows of keys share a bias, and their keys are views."""
    length, reach = q.shape[2], split.reach
    after = 0 if causal else reach
    window = reach + BLOCK + after
    count = max(0, (length - reach - after) // BLOCK)
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = split.bias.to(wide)

    def between(first: int, last: int) -> tuple[Tensor, Tensor]:
        start, stop = max(0, first - reach), min(length, last + after)
        rows = bias if bias.shape[2] == 1 else bias[:, :, first:last]
        band = _band(rows, reach, causal, last - first, first - start, stop - start)
        seen, taken = k[:, :, start:stop], v[:, :, start:stop]
        return with_lse(q[:, :, first:last], seen, taken, scale, band)

    if not count:
        z, lse = between(0, length)
        return z.to(wide), lse.to(wide)
    end = reach + count * BLOCK
    queries = _together(q[:, :, reach:end].unflatten(2, (count, BLOCK)))
    keys, values = (
        _together(x[:, :, : end + after].unfold(2, window, BLOCK).mT) for x in (k, v)
    )
    if bias.shape[2] == 1:
        band = _band(bias, reach, causal, BLOCK, reach, window)
        band = band if len(band) == 1 else band.repeat_interleave(count, 0)
    else:
        rows = bias[:, :, reach:end].unflatten(2, (count, BLOCK))
        band = _together(_band(rows, reach, causal, BLOCK, reach, window))
    found = with_lse(queries, keys, values, scale, band)
    z, lse = (x.unflatten(0, (-1, count)).movedim(1, 2).flatten(2, 3) for x in found)
    parts = [between(0, reach), (z, lse)]
    if end < length:
        parts.append(between(end, length))
    z, lse = (torch.cat(x, 2).to(wide) for x in zip(*parts, strict=True))
    return z, lse


def _together(x: Tensor) -> Tensor:
    """(B, H, n, …) -> (B n, H, …): of one text, a view."""
    return x.movedim(2, 1).flatten(0, 1)


def _band(
    bias: Tensor, reach: int, causal: bool, queries: int, ahead: int, keys: int
) -> Tensor:
    """The bias (…, queries or 1, 2 reach + 1) as (…, queries, keys): -∞ beyond the reach, and after a causal query.

    The first query is `ahead` of the first key.
    """
    index, seen = _places(reach, causal, queries, ahead, keys, bias.device)
    rows = bias.expand(*bias.shape[:-2], queries, bias.shape[-1])
    bias = rows.gather(-1, index.expand(*bias.shape[:-2], *index.shape))
    return bias.masked_fill(~seen, -torch.inf)


def _places(
    reach: int,
    causal: bool,
    queries: int,
    ahead: int,
    keys: int,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Of each query and key, the number of their offset in a bias, and whether the key is near: (queries, keys)."""
    i, j = (torch.arange(n, device=device) for n in (queries, keys))
    offset = j - ahead - i[:, None]
    seen = (offset > -reach) & ((offset <= 0) if causal else (offset < reach))
    return (offset + reach).clamp(0, 2 * reach), seen


def _blocks(x: Tensor, size: int, count: int) -> Tensor:
    """(B, H, L, …) -> (B, H, n, size, …), with zeros after the last."""
    return pad(x, (0, 0, 0, size * count - x.shape[2])).unflatten(2, (count, size))


def _neighbours(x: Tensor, causal: bool) -> Tensor:
    """Each block between the one before and, unless causal, the one after it."""
    x = pad(x, (0, 0, 0, 0, 1, 0 if causal else 1))
    if causal:
        return torch.cat((x[:, :, :-1], x[:, :, 1:]), 3)
    return torch.cat((x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]), 3)


class _Merged(torch.autograd.Function):
    """The near band and what lies beyond it, on one side or on both, each by its share of a row.

    z = Σ_p w_p z_p, where the log-sum-exp of a part's scores gives its share w_p. A fused kernel's backward pass
    gets the merged z in place of the part's own: then its ds_ij = α_ij (dz_i · v_j - dz_i · z_i) is that of the whole
    row. The gradient of a far bias has a closed form, Σ_j ds_ij = w_p dz_i · (z_p - z).
    """

    @staticmethod
    def forward(
        ctx: Any,
        near: Tensor,
        lse: Tensor,
        q: Tensor,
        k: Tensor,
        scale: float,
        reach: int,
        count: int,
        *far: Tensor,
    ) -> Tensor:
        biases, values, kept = far[:count], far[count:], []
        parts, sums = [near], [lse]
        for side in range(count):
            v = values[
                min(side, len(values) - 1)
            ]  # one for both sides, or one for each
            z, own = with_lse(
                _queries(side, reach, q),
                _keys(side, reach, k),
                _keys(side, reach, v),
                scale,
            )
            kept += [z, own]
            parts.append(_rows(side, reach, z.to(near.dtype)))
            sums.append(
                _rows(side, reach, own.to(lse.dtype), -torch.inf)
                + biases[side].to(lse.dtype)
            )
        shares = torch.stack(sums).softmax(0)  # (parts, B, H, L)
        merged = shares[0, ..., None] * near
        for share, part in zip(shares[1:], parts[1:], strict=True):
            merged = merged + share[..., None] * part
        ctx.save_for_backward(near, q, k, merged, shares, *kept, *far)
        ctx.scale, ctx.reach, ctx.count = scale, reach, count
        return merged

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        near, q, k, merged, shares, *rest = ctx.saved_tensors
        count, reach = ctx.count, ctx.reach
        biases, values = rest[2 * count : 3 * count], rest[3 * count :]
        own = shares[0, ..., None] * grads[0]
        dnear, dlse = own, (own * (near - merged)).sum(-1)
        dbiases = []
        # Of q, of k and of each kind of values, from either side.
        found: list[list[Tensor]] = [[] for _ in range(2 + len(values))]
        for side in range(count):
            z, lse = rest[2 * side : 2 * side + 2]
            own = shares[side + 1, ..., None] * grads[0]
            dbias = (own * (_rows(side, reach, z.to(own.dtype)) - merged)).sum(-1)
            dbiases.append(dbias.sum_to_size(biases[side].shape).to(biases[side].dtype))
            n = min(side, len(values) - 1)
            inputs = (
                _queries(side, reach, q),
                _keys(side, reach, k),
                _keys(side, reach, values[n]),
            )
            own, whole = (_queries(side, reach, x).to(q.dtype) for x in (own, merged))
            dq, dk, dv = lse_backward(own, *inputs, whole, lse, ctx.scale)
            found[0].append(_rows(side, reach, dq))
            found[1].append(_columns(side, reach, dk))
            found[2 + n].append(_columns(side, reach, dv))
        dq, dk, *dvalues = (sum(x[1:], x[0]).to(q.dtype) for x in found)
        return dnear, dlse, dq, dk, None, None, None, *dbiases, *dvalues


# A side is 0 for keys before the reach, or 1 for those after it. There both are turned about, so that row i of the
# queries always sees keys 0 to i.


def _queries(side: int, reach: int, x: Tensor) -> Tensor:
    """Of x (B, H, L, …), the rows that have keys beyond the reach on this side."""
    return x[:, :, reach:] if side == 0 else x[:, :, : x.shape[2] - reach].flip(2)


def _keys(side: int, reach: int, x: Tensor) -> Tensor:
    """Of x (B, H, L, …), the keys that lie beyond the reach of any query on this side."""
    return x[:, :, : x.shape[2] - reach] if side == 0 else x[:, :, reach:].flip(2)


def _rows(side: int, reach: int, x: Tensor, fill: float = 0.0) -> Tensor:
    """The reverse of `_queries`: all L rows."""
    return (
        _fill(x, (reach, 0), fill) if side == 0 else _fill(x.flip(2), (0, reach), fill)
    )


def _columns(side: int, reach: int, x: Tensor) -> Tensor:
    """The reverse of `_keys`."""
    return _fill(x, (0, reach), 0.0) if side == 0 else _fill(x.flip(2), (reach, 0), 0.0)


def _fill(x: Tensor, room: tuple[int, int], fill: float) -> Tensor:
    return pad(x, (*[0] * (2 * (x.ndim - 3)), *room), value=fill)


# ---- fused kernels that say their log-sum-exp ------------------------------------------------------------------------


def with_lse(
    q: Tensor, k: Tensor, v: Tensor, scale: float, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Causal attention of as many queries as keys, and the log-sum-exp of each row of scores, (B, H, L).

    A bias, on a CPU, takes the place of causality.
    """
    if not q.is_cuda:
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        z, lse = kernel(q, k, v, 0.0, bias is None, attn_mask=bias, scale=scale)
        return z, lse
    if q.dtype in (torch.float16, torch.bfloat16) and q.shape[-1] <= 256:
        z, lse = torch.ops.aten._scaled_dot_product_flash_attention(
            q, k, v, 0.0, True, False, scale=scale
        )[:2]
        return z, lse[..., : q.shape[2]]
    z, lse = torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, None, True, 0.0, True, scale=scale
    )[:2]
    return z, lse[..., : q.shape[2]]


def lse_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, lse: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, from that of the output, the output z itself, and the log-sum-exp of the scores."""
    aten = torch.ops.aten
    if not q.is_cuda:
        found = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, z, lse, 0.0, True, scale=scale
        )
    elif q.dtype in (torch.float16, torch.bfloat16) and q.shape[-1] <= 256:
        length, none = q.shape[2], torch.zeros((), dtype=torch.int64, device=q.device)
        found = aten._scaled_dot_product_flash_attention_backward(
            grad,
            q,
            k,
            v,
            z,
            lse.contiguous(),
            None,
            None,
            length,
            length,
            0.0,
            True,
            none,
            none,
            scale=scale,
        )
    else:
        none = torch.zeros((), dtype=torch.int64, device=q.device)
        room = (0, -lse.shape[-1] % 32)  # the kernel made it so, and wants it back
        found = aten._scaled_dot_product_efficient_attention_backward(
            grad,
            q,
            k,
            v,
            None,
            z,
            pad(lse, room),
            none,
            none,
            0.0,
            [True, True, True, False],
            True,
            scale=scale,
        )
    dq, dk, dv = found[:3]
    return dq, dk, dv
