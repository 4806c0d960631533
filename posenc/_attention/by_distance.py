"""Attention with a bias that is the product of a query and a key of the distance, in blocks of queries.

All queries of a block meet all distances in one product, with a column for each distance, from the largest down. The
same memory, read in rows that are one number shorter, has a column for each key: this is the relative shift. So no bias
is looked up, and nothing is larger than a block of queries times all keys. Columns for distances below zero hold -∞,
and the block is causal.

To torch's derivatives and its compiler this is one operation. A compiler would otherwise unroll the blocks.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from posenc._attention.near_far import one_width, with_lse

BLOCK = 128  # queries; their scores with some thousand keys fit into a core's own cache


def by_distance(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query: Tensor,
    keys: Tensor,
    ahead: int,
    causal: bool,
    scale: float,
) -> Tensor:
    """Attention with b_ij = query_i · key of the distance i - j, for positions that follow one another.

    Args:
        q: (B, H, Lq, d).
        k: (B, H, Lk, d).
        v: (B, H, Lk, d_v).
        query: (B, H, Lq, c), in float32 or wider, as keys are.
        keys: (H, n, c). Row t is for the distance ahead + Lq - 1 - t. They go down to the least distance of any pair,
            or to 0 if causal.
        ahead: How far the first query lies behind the first key. With causality each query sees a key.
        causal: Whether a query sees no key after itself.
        scale: Multiplies q · k.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype.
    """
    dtype, width = q.dtype, v.shape[-1]
    q, k, v, _ = one_width(q, k, v, None)
    found = torch.ops.posenc.by_distance(q, k, v, query, keys, ahead, causal, scale)
    z: Tensor = found[0]
    return z[..., :width].to(dtype)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query: Tensor,
    keys: Tensor,
    ahead: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """z, (B, H, Lq, d), and the log-sum-exp of each row of scores, (B, H, Lq)."""
    z, lse = torch.empty_like(q), query.new_empty(q.shape[:3])
    room = _room(query, keys)
    for part in _parts(q):
        qs, ks, vs, met, zs, sums = (x[part] for x in (q, k, v, query, z, lse))
        met, distances = met[0], keys[part[1]]
        for rows, seen, columns in _blocks(q, k, keys, ahead, causal):
            bias = _bias(room, met[:, rows], distances, seen, columns)
            zs[:, :, rows], sums[:, :, rows] = with_lse(
                qs[:, :, rows], ks[:, :, seen], vs[:, :, seen], scale, bias[None]
            )
    return z, lse


def _backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query: Tensor,
    keys: Tensor,
    z: Tensor,
    lse: Tensor,
    ahead: int,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v, query and keys. Weights are computed again, block by block.

    With ds_ij = α_ij (dz_i · v_j - dz_i · z_i), shifted back, the gradients of a bias are products like those of q · k.
    """
    wide, inputs = query.dtype, (q, k, v, query, keys)
    found = [torch.zeros_like(x, dtype=wide) for x in inputs]
    room, back = _room(query, keys), _room(query, keys)
    for part in _parts(q):
        dq, dk, dv, dquery = (x[part][0] for x in found[:4])
        dkeys, distances = found[4][part[1]], keys[part[1]]
        inputs_here = (q, k, v, query, grad, z, lse[..., None])
        qs, ks, vs, met, dz, zs, sums = (x[part][0].to(wide) for x in inputs_here)
        qs, whole = qs * scale, (dz * zs).sum(-1, keepdim=True)
        for rows, seen, columns in _blocks(q, k, keys, ahead, causal):
            q_, k_, dz_, met_ = qs[:, rows], ks[:, seen], dz[:, rows], met[:, rows]
            weight = _bias(room, met_, distances, seen, columns)
            weight.baddbmm_(q_, k_.mT).sub_(sums[:, rows]).exp_()
            dv[:, seen].baddbmm_(weight.mT, dz_)
            by_column = back[: len(q_), : q_.shape[1], columns].zero_()
            ds = _by_key(back, weight.shape, columns)
            ds.baddbmm_(dz_, vs[:, seen].mT, beta=0)
            ds.sub_(whole[:, rows]).mul_(weight)
            dq[:, rows].baddbmm_(ds, k_, beta=0, alpha=scale)
            dk[:, seen].baddbmm_(ds.mT, q_)
            dquery[:, rows].baddbmm_(by_column, distances[:, columns], beta=0)
            dkeys[:, columns].baddbmm_(by_column.mT, met_)
    dq, dk, dv, dquery, dkeys = (
        x.to(of.dtype) for x, of in zip(found, inputs, strict=True)
    )
    return dq, dk, dv, dquery, dkeys


def _parts(q: Tensor) -> Iterator[tuple[slice, slice]]:
    """One text and as many heads as there are threads, so that each has a block in its own cache."""
    heads = _threads()
    for text in range(q.shape[0]):
        for head in range(0, q.shape[1], heads):
            yield slice(text, text + 1), slice(head, head + heads)


def _threads() -> int:
    return max(1, torch.get_num_threads())


def _blocks(
    q: Tensor, k: Tensor, keys: Tensor, ahead: int, causal: bool
) -> Iterator[tuple[slice, slice, slice]]:
    """Queries of a block, the keys that they may see, and the rows of `keys` for their distances."""
    queries = q.shape[2]
    for first in range(0, queries, BLOCK):
        last = min(first + BLOCK, queries)
        seen = min(k.shape[2], ahead + last) if causal else k.shape[2]
        end = min(keys.shape[1], queries - 1 - first + seen)
        yield slice(first, last), slice(seen), slice(queries - last, end)


def _room(query: Tensor, keys: Tensor) -> Tensor:
    """For the products of a block with all distances, and as many columns again as it has queries."""
    heads, size = min(query.shape[1], _threads()), min(BLOCK, query.shape[2])
    return query.new_empty(heads, size, keys.shape[1] + size)


def _bias(
    room: Tensor, query: Tensor, keys: Tensor, seen: slice, columns: slice
) -> Tensor:
    """The bias of a block, (H, block, Lk), a view of the room. What causality hides is -∞."""
    (heads, size), count = query.shape[:2], keys.shape[1]
    room[:, :, count:] = -torch.inf
    room[:heads, :size, columns].baddbmm_(query, keys[:, columns].mT, beta=0)
    return _by_key(room, (heads, size, seen.stop), columns)


def _by_key(room: Tensor, shape: tuple[int, ...], columns: slice) -> Tensor:
    """The relative shift: the last query's first key has the first column, and that of the query before it the next."""
    first = columns.start + shape[1] - 1
    return room.as_strided(shape, (room.stride(0), room.shape[2] - 1, 1), first)


# ---- one operation for torch -----------------------------------------------------------------------------------------

# Not torch.library.custom_op, whose first call imports torch's compiler, for a second or more.
_library = torch.library.Library("posenc", "DEF")
_library.define(
    "by_distance(Tensor q, Tensor k, Tensor v, Tensor query, Tensor keys, SymInt ahead, bool causal, float scale)"
    " -> (Tensor, Tensor)"
)
_library.define(
    "by_distance_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor query, Tensor keys, Tensor z, Tensor lse,"
    " SymInt ahead, bool causal, float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.impl("by_distance", _forward, "CPU")
_library.impl("by_distance_backward", _backward, "CPU")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:5], *output)
    ctx.rest = inputs[5:]


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    found = torch.ops.posenc.by_distance_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return *found, None, None, None


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        'a second derivative was asked for, and this form of attention has only the first: use backend="dense"'
    )


for _name, _backward_of, _kept in (
    ("by_distance", _gradients, _keep),
    ("by_distance_backward", _refuse, None),
):
    torch.library.register_autograd(
        f"posenc::{_name}", _backward_of, setup_context=_kept, lib=_library
    )
torch.library.register_fake(
    "posenc::by_distance",
    lambda q, k, v, query, *rest: (torch.empty_like(q), query.new_empty(q.shape[:3])),
    lib=_library,
)
torch.library.register_fake(
    "posenc::by_distance_backward",
    lambda grad, *inputs: tuple(torch.empty_like(x) for x in inputs[:5]),
    lib=_library,
)
