"""Bias and score of all pairs, for whoever calls torch's own kernels: what `Encoding.bias` and `score_mod` return."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from posenc._attention.plan import Plan
from posenc._attention.spans import Positions


def whole_bias(
    encoding: Any,
    qpos: Positions,
    kpos: Positions | None,
    q: Tensor | None,
    k: Tensor | None,
    dtype: torch.dtype | None,
) -> Tensor:
    """b_ij of all pairs, as `Encoding.bias` says."""
    q, k, qpos, kpos, given = _stand_ins(encoding, qpos, kpos, q, k)
    if encoding.score_bias is None:
        raise ValueError(
            f"{type(encoding).__name__} adds nothing to scores: it enters by {', '.join(encoding.doors) or 'no door'}"
        )
    found = bias_of_pairs(encoding, q, k, qpos, kpos)
    if not given and bool(found.isnan().any()):
        raise ValueError(_content(encoding))
    found = found.to(dtype or (q.dtype if given else torch.float32))
    return found.expand(
        *torch.broadcast_shapes(found.shape, (1, *q.shape[1:3], k.shape[2]))
    )


def whole_score_mod(
    encoding: Any,
    qpos: Positions,
    kpos: Positions | None,
    q: Tensor | None,
    k: Tensor | None,
) -> Callable[..., Tensor]:
    """What flex_attention does with each score, as `Encoding.score_mod` says."""
    q, k, qpos, kpos, given = _stand_ins(encoding, qpos, kpos, q, k)
    bias = (
        None if encoding.score_bias is None else encoding.score_bias(q, k, qpos, kpos)
    )
    if isinstance(bias, Tensor):
        bias = bias.expand(*q.shape[:3], k.shape[2])
    rescale = None if encoding.rescale is None else encoding.rescale(qpos, kpos)
    if not given and bias is not None and min(q.shape[2], k.shape[2]) > 0:
        zero = torch.zeros((), dtype=torch.int64, device=q.device)
        first = (
            bias[0, 0, 0, 0]
            if isinstance(bias, Tensor)
            else bias(zero, zero, zero, zero)
        )
        if bool(torch.as_tensor(first).isnan()):
            raise ValueError(_content(encoding))
    inner = score_function(bias, rescale)
    if given or len(qpos) > 1:
        return inner
    return lambda score, b, h, i, j: inner(
        score, 0 * b, h, i, j
    )  # one row of positions, whatever the batch


def bias_of_pairs(
    encoding: Any, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor
) -> Tensor:
    """What `score_bias` returns, as a tensor that broadcasts to (B, H, Lq, Lk)."""
    bias = encoding.score_bias(q, k, qpos, kpos)
    if isinstance(bias, Tensor):
        return bias
    return torch.as_tensor(bias(*pair_index(q, k)), device=q.device)


def score_function(bias: Any, rescale: Any) -> Callable[..., Tensor]:
    """What flex_attention does with each score."""

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if bias is not None:
            score = score + (
                bias[b, h, i, j] if isinstance(bias, Tensor) else bias(b, h, i, j)
            )
        return score if rescale is None else rescale(score, b, h, i, j)

    return score_mod


def pair_index(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """b, h, i and j, which broadcast to (B, H, Lq, Lk)."""
    b, h, i = (torch.arange(n, device=q.device) for n in q.shape[:3])
    j = torch.arange(k.shape[2], device=q.device)
    return b[:, None, None, None], h[:, None, None], i[:, None], j


def _stand_ins(
    encoding: Any,
    qpos: Positions,
    kpos: Positions | None,
    q: Tensor | None,
    k: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, bool]:
    """Queries, keys and positions as the doors get them. What was not given is NaN, so that its use is noticed."""
    plan = Plan(qpos, kpos)
    given = q is not None
    state = [*encoding.parameters(), *encoding.buffers()]
    device = q.device if q is not None else state[0].device if state else None
    places = [
        pos if pos.dtype.is_signed else pos.long()
        for pos in (plan.qpos(device), plan.kpos(device))
    ]
    batch = max(pos.shape[0] if pos.ndim == 2 else 1 for pos in places)
    if q is None:
        shape = (
            batch,
            getattr(encoding, "heads", None) or 1,
            places[0].shape[-1],
            getattr(encoding, "head_dim", None) or 1,
        )
        wide = reduce(torch.promote_types, (x.dtype for x in state), torch.float32)
        q = torch.full(shape, torch.nan, dtype=wide, device=device)
    if k is None:
        keys = places[1].shape[-1]
        k = (
            q
            if q.shape[2] == keys
            else q.new_full((*q.shape[:2], keys, q.shape[3]), torch.nan)
        )
    return (
        q,
        k,
        places[0].expand(q.shape[0], -1),
        places[1].expand(q.shape[0], -1),
        given,
    )


def _content(encoding: Any) -> str:
    return (
        f"the bias of {type(encoding).__name__} depends on queries: pass q=encoding.query(q, pos), and k= if there are "
        f"other keys"
    )
