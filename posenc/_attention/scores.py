"""Scores and weights of all pairs, and what kernels and schemes share with them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding, require_encoding
from posenc._attention.masks import check_mask_kind
from posenc._attention.pairs import bias_of_pairs, pair_index
from posenc._attention.plan import Plan
from posenc._attention.spans import Positions, Span, readable
from posenc._require import require_broadcast, require_positions, require_tensor


def attention_scores(
    q: Tensor, k: Tensor, encoding: Encoding, qpos: Positions | Plan,
    kpos: Positions | None = None, *, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Scores of q and k that went through `encoding.query` and `encoding.key`: ρ_ij(q_i · k_j · scale + b_ij).

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        encoding: Whose `score_bias` and `rescale` are applied.
        qpos: (Lq,) or (B, Lq), or a `Span`; or a `Plan` for both.
        kpos: (Lk,) or (B, Lk), or a `Span`. Default: the queries'.
        scale: Multiplies q · k. Default: 1/√d.

    Returns:
        (B, H, Lq, Lk), at least float32, also under autocast; nothing is masked.

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: If shapes do not match.

    Example:
        >>> from posenc import ALiBi, attention_scores
        >>> pos = torch.arange(3)
        >>> attention_scores(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 3, 4), ALiBi(2), pos[-1:], pos)[0, :, 0]
        tensor([[-0.1250, -0.0625,  0.0000],
                [-0.0078, -0.0039,  0.0000]])
    """
    require_encoding(encoding)
    check_vectors(q, k, k)
    plan = planned(q, k, qpos, kpos)
    k = per_head(k, q)  # (B, H, Lk, d)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with without_autocast(q):
        score = (q.to(wide) * scale) @ k.to(wide).transpose(-2, -1)  # (B, H, Lq, Lk)
    qpos, kpos = rows(q, plan)
    if encoding.score_bias is not None:
        score = score + pair_bias(encoding, q, k, qpos, kpos)
    if encoding.rescale is not None:
        score = encoding.rescale(qpos, kpos)(score, *pair_index(q, k))
    return score


def attention_weights(
    q: Tensor, k: Tensor, encoding: Encoding, qpos: Positions | Plan,
    kpos: Positions | None = None, *, causal: bool = True,
    mask: Tensor | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Weights of q and k that went through `encoding.query` and `encoding.key`: softmax_j of `attention_scores`.

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        encoding: Whose `score_bias` and `rescale` are applied.
        qpos: (Lq,) or (B, Lq), or a `Span`; or a `Plan`, which says the mask and causality as well.
        kpos: (Lk,) or (B, Lk), or a `Span`. Default: the queries'.
        causal: Whether a query sees only keys with kpos <= qpos.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk).
        scale: Multiplies q · k. Default: 1/√d.

    Returns:
        (B, H, Lq, Lk), at least float32. A row sums to 1, or to 0 where there is nothing to attend to.

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: If shapes do not match, or if a plan was made for something else.

    Example:
        >>> from posenc import NoPE, attention_weights
        >>> attention_weights(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), NoPE(), *2 * [torch.arange(2)])[0, 0]
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    require_encoding(encoding)
    check_vectors(q, k, k)
    plan = planned(q, k, qpos, kpos, causal=causal, mask=mask)
    check_direction(encoding, plan)
    score = attention_scores(q, k, encoding, plan, scale=scale)
    allowed = plan.allowed(q.device)
    if allowed is not None:
        score = score.where(allowed, -torch.inf)
    return _softmax(score)  # zeros where a query sees no key


# ---- parts that schemes and kernels share ----------------------------------------------------------------------------


def planned(
    q: Tensor, k: Tensor, qpos: Positions | Plan, kpos: Positions | None = None, *, causal: bool = True,
    mask: Tensor | None = None,
) -> Plan:  # fmt: skip
    """The plan that was given, which has to fit; or one of what was given in its place."""
    if isinstance(qpos, Plan):
        if kpos is not None or not causal or mask is not None:
            raise ValueError(
                "a plan says where keys lie and what is hidden: leave out kpos, causal and mask beside it"
            )
        qpos.check(q, k, k, whole=True)
        return qpos
    kpos = qpos if kpos is None else kpos
    check_mask(mask, q, k)
    for name, pos, x in (("qpos", qpos, q), ("kpos", kpos, k)):
        check_positions(pos, x, name)
    return Plan(qpos, kpos, causal=causal, mask=mask)


def check_positions(pos: Any, x: Tensor, name: str) -> None:
    """One position for each vector."""
    if not isinstance(pos, Span):
        require_positions(pos, x, name)
    elif not torch.compiler.is_exporting() and pos.length != x.shape[-2]:
        raise ValueError(
            f"{name} holds {pos.length} positions for {x.shape[-2]} vectors: pass one position for each of them, "
            f"such as Span({pos.start}, {x.shape[-2]})"
        )


def rows(q: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Positions as the doors of attention get them, (B, Lq) and (B, Lk)."""
    return batched(q, plan.qpos(q.device), plan.kpos(q.device))


def without_autocast(q: Tensor) -> AbstractContextManager[Any]:
    """Keeps autocast from rounding the factors of a product to sixteen bits."""
    kind = q.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def per_head(x: Tensor, q: Tensor) -> Tensor:
    """Grouped heads of k or v (B, Hk, Lk, d), repeated so that each head of q has a head to itself."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def batched(q: Tensor, qpos: Tensor, kpos: Tensor) -> tuple[Tensor, Tensor]:
    """Positions as (B, Lq) and (B, Lk), without a copy if differences of them may be negative already."""
    qpos, kpos = (pos if pos.dtype.is_signed else pos.long() for pos in (qpos, kpos))
    return qpos.expand(q.shape[0], -1), kpos.expand(q.shape[0], -1)


def pair_bias(
    encoding: Encoding, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor
) -> Tensor:
    """b_ij of all pairs, which broadcasts to (B, H, Lq, Lk); qpos (B, Lq), kpos (B, Lk)."""
    bias = bias_of_pairs(encoding, q, k, qpos, kpos)
    check_bias(bias, q, k)
    return bias


def _softmax(score: Tensor) -> Tensor:
    """Softmax over keys. A query that sees none, by causality, the mask or a bias, gets zeros; torch has NaN there."""
    if score.numel() == 0:
        return score
    blind = score.detach().amax(-1, keepdim=True) == -torch.inf
    if _surely_none(
        blind
    ):  # which saves two passes over the scores, and one tensor of their size
        return score.softmax(-1)
    return score.where(~blind, 0.0).softmax(-1) * ~blind


def _surely_none(blind: Tensor) -> bool:
    """Whether it is known at once that no query is blind: not on a GPU, which would be waited for, or to a compiler."""
    if blind.device.type != "cpu" or not readable(blind):
        return False
    try:
        return not blind.any()
    except RuntimeError:  # under torch.func.vmap there is no one answer
        return False


# ---- checks of input -------------------------------------------------------------------------------------------------


def check_kinds(q: Any, k: Any, v: Any) -> None:
    """What attends is tensors."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        require_tensor(
            x, name, "use (B, H, L, d); torch.as_tensor makes one of an array"
        )
        if x.is_nested:
            raise ValueError(
                f"{name} is a nested tensor, which attention does not serve: put the texts behind one another in one "
                f"row, (1, H, L, d), and pass Plan.packed(lengths), or pad them and pass padding_mask"
            )


def check_direction(encoding: Encoding, plan: Plan) -> None:
    """An encoding made for the past is not asked about the future, unless a mask answers for that."""
    require_encoding(encoding)
    if encoding.causal_only and not plan.causal and plan.mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Vectors are sorted by text, head and position."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but attention needs (B, H, L, d): a single head is {name}[:, None]"
            )


def check_vectors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """q is (B, H, Lq, d), k (B, Hk, Lk, d) and v (B, Hk, Lk, d_v), where Hk divides H."""
    if torch.compiler.is_exporting():
        return
    check_kinds(q, k, v)
    check_heads(q, k, v)
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(
            f"q, k and v have batches of {q.shape[0]}, {k.shape[0]} and {v.shape[0]}: expand them to one size"
        )
    if k.shape[1] != v.shape[1] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"q, k and v have {q.shape[1]}, {k.shape[1]} and {v.shape[1]} heads: use as many in k as in v, "
            f"and a number that divides the heads of q"
        )
    if q.shape[3] != k.shape[3] or k.shape[2] != v.shape[2]:
        raise ValueError(
            f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}: "
            f"use the same d in q and k, and one value for each key"
        )
    if k.shape[2] == 0 and q.shape[2] > 0:
        raise ValueError(
            f"there are {q.shape[2]} queries and an empty sequence of keys, so nothing to attend to: when decoding, "
            f"extend the cache with the new tokens' keys before attending"
        )


def check_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> None:
    """A mask is bool and broadcasts to (B, H, Lq, Lk)."""
    if mask is None:
        return
    check_mask_kind("mask", mask)
    if q.ndim == k.ndim == 4:
        remedy = "a mask of padded keys, (B, Lk), is mask[:, None, None, :], or padding_mask of attention()"
        require_broadcast(
            "mask", mask.shape, (*q.shape[:3], k.shape[2]), "(B, H, Lq, Lk)", remedy
        )


def check_bias(bias: Tensor, q: Tensor, k: Tensor) -> None:
    """A bias is a number for each pair, or one for several pairs."""
    remedy = (
        "index positions as qpos[b, i] and kpos[b, j], and parameters of heads by h"
    )
    require_broadcast(
        "score_bias", bias.shape, (*q.shape[:3], k.shape[2]), "(B, H, Lq, Lk)", remedy
    )
