"""Attention with position in it: one call, and the ways in which it is computed."""

from functools import cache as memoized
from inspect import signature
from typing import Any, Literal, overload

import torch
from torch import Tensor

from posenc._attention.cache import KVCache
from posenc._attention.encoding import Encoding, opens, require_encoding
from posenc._attention.kernels import BACKENDS, Backend, auto
from posenc._attention.plan import Plan
from posenc._attention.scores import (
    check_direction,
    check_heads,
    check_kinds,
    check_mask,
    check_positions,
    check_vectors,
    planned,
)
from posenc._attention.spans import Positions
from posenc._require import kind


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[False] = ..., embedded: bool = ...,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[True], embedded: bool = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = True, mask: Tensor | None = None, scale: float | None = None, backend: Backend = "auto",
    cache: KVCache | None = None, padding_mask: Tensor | None = None, dropout: float = 0.0,
    return_weights: bool = False, embedded: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Attention with an encoding in it: takes q, k and v as they are projected, and does all the rest.

    It calls `encoding.query` and `encoding.key`, extends the cache if there is one, hides what may not be seen, and
    attends. It cannot call `encoding.embed`, which changes the input that q, k and v are projected from. So an encoding
    with that door, such as `Sinusoidal`, is refused unless `embedded=True` says that x = encoding.embed(x, pos) was
    projected.

    Args:
        q: (B, H, Lq, d), as projected.
        k: (B, Hk, Lk, d), as projected; Hk divides H.
        v: (B, Hk, Lk, d_v).
        encoding: How position enters; `NoPE()` for none.
        qpos: Positions of the queries, (Lq,) or (B, Lq), or a `Span`; or the `Plan` of the pass, which says kpos,
            causal, mask and padding_mask as well.
        kpos: Positions of k and v, (Lk,) or (B, Lk), or a `Span`. Default: those of the queries.
        causal: Whether a query sees only keys at positions up to its own.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk), the keys in the cache included.
        scale: Multiplies q · k. Default: 1/√d.
        backend: "auto" takes the fastest exact way for what is given. "dense" serves every encoding, "sdpa" and "flex"
            are torch's fused kernels.
        cache: Holds earlier keys and values; k and v are added, and its window is kept.
        padding_mask: bool (B, Lk), True for real tokens. Padding is hidden, also later, when the cache holds it.
        dropout: Share of the weights that is dropped.
        return_weights: Whether to return the weights too, (B, H, Lq, Lk), as they are before dropout. "auto" then
            takes "dense".
        embedded: True says that q, k and v come from an input that went through `encoding.embed`. It changes no number,
            and any encoding may come with it.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype, also under autocast; with `return_weights` a pair (z, weights).

    Raises:
        TypeError: If an argument is of another kind, such as the name of an encoding, or a range of positions.
        ValueError: If shapes do not match, if the backend cannot serve the encoding, if the encoding has the door
            `embed` and `embedded` is False, or if a plan was made for something else.

    Example:
        >>> import torch
        >>> from posenc import KVCache, RoPE, attention
        >>> q, k, v = torch.randn(3, 1, 8, 128, 64)  # (B, H, L, d) each
        >>> rope, pos, cache = RoPE(head_dim=64), torch.arange(128), KVCache()
        >>> z = attention(q, k, v, rope, pos)
        >>> steps = [attention(q[:, :, t : t + 1], k[:, :, t : t + 1], v[:, :, t : t + 1], rope, pos[t : t + 1],
        ...                    cache=cache) for t in range(128)]
        >>> torch.allclose(torch.cat(steps, 2), z, atol=1e-5)
        True
    """
    _check_kinds(q, k, v, encoding, cache)
    _check_embedded(encoding, embedded)
    check_heads(q, k, v)
    plan = _plan(q, k, qpos, kpos, causal, mask, padding_mask, cache)
    plan.check(q, k, v, cache)
    q = _turned(encoding, q, plan, of_keys=False)
    if cache is None or not encoding.raw_keys:
        k = _turned(encoding, k, plan, of_keys=True)
    if cache is not None:
        k, v = plan.extend(cache, k, v)
        if encoding.raw_keys:
            k = _turned(encoding, k, plan, of_keys=True, cached=True)
    return _attend(q, k, v, encoding, plan, scale, backend, dropout, return_weights)


def _plan(
    q: Tensor, k: Tensor, qpos: Positions | Plan, kpos: Positions | None, causal: bool, mask: Tensor | None,
    padding_mask: Tensor | None, cache: KVCache | None,
) -> Plan:  # fmt: skip
    """The plan that was given, or one of what was given in its place."""
    if isinstance(qpos, Plan):
        if (
            kpos is not None
            or not causal
            or mask is not None
            or padding_mask is not None
        ):
            raise ValueError(
                "a plan says where keys lie and what is hidden: leave out kpos, causal, mask and padding_mask beside it"
            )
        return qpos
    kpos = qpos if kpos is None else kpos
    for name, pos, x in (("qpos", qpos, q), ("kpos", kpos, k)):
        check_positions(pos, x, name)
    return Plan(
        qpos, kpos, causal=causal, mask=mask, padding_mask=padding_mask, cache=cache
    )


def _takes_waves(turn: Any) -> bool:
    """Whether a door that may have been replaced after its class was made still does; a compiler trusts the class."""
    return torch.compiler.is_compiling() or "waves" in _parameters(
        getattr(turn, "__func__", turn)
    )


@memoized
def _parameters(door: Any) -> frozenset[str]:
    return frozenset(signature(door).parameters)


def _turned(
    encoding: Encoding, x: Tensor, plan: Plan, *, of_keys: bool, cached: bool = False
) -> Tensor:
    """q or k as the encoding turns it, with what the plan keeps of the positions."""
    pos = plan.qpos(x.device)
    if of_keys:
        pos = plan.kpos(x.device) if cached else plan.new_kpos(x.device)
    turn = encoding.key if of_keys else encoding.query
    if not (encoding.takes_waves and _takes_waves(turn)):
        return turn(x, pos)
    turned: Tensor = turn(x, pos, waves=plan.waves(encoding, pos, x))  # type: ignore[call-arg]
    return turned


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    dropout: float = ..., return_weights: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    dropout: float = ..., return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Positions | Plan, kpos: Positions | None = None, *,
    causal: bool = True, mask: Tensor | None = None, scale: float | None = None, backend: Backend = "auto",
    dropout: float = 0.0, return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The inner half of `attention`: expects q and k that went through `encoding.query` and `encoding.key`.

    z_i = Σ_j α_ij (v_j + r_ij), with α from `attention_weights`. Most callers want `attention`, which turns q and k
    itself. With a rotary encoding, and q and k as projected, this computes what `NoPE` does. So it does with one that
    only has `embed`, which comes before the projections.

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        v: (B, Hk, Lk, d_v).
        encoding: Whose `score_bias`, `rescale` and `mix` are applied.
        qpos: (Lq,) or (B, Lq), or a `Span`; or the `Plan` of the pass, which says kpos, causal and mask as well.
        kpos: (Lk,) or (B, Lk), or a `Span`. Default: those of the queries.
        causal: Whether a query sees only keys with kpos <= qpos.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk).
        scale: Multiplies q · k. Default: 1/√d.
        backend: "dense" serves every encoding and stores the weights. "sdpa" is torch's fused kernel: a bias becomes
            further channels of q and k, or a near band and a number for all beyond it, or, on a CPU, a product of each
            block of queries with all distances, and a float mask where an encoding has none of these forms. "flex"
            takes `score_bias` and `rescale` into its kernel and stores no matrix on a GPU; gradients of learned biases
            are slow there. "auto" takes the fastest of these. While torch.export or torch.func traces, that is "dense".
            Only "dense" has second derivatives.
        dropout: Share of the weights that is dropped; not with "flex".
        return_weights: Whether to return the weights too, as they are before dropout; with "dense" only.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype, also under autocast; a query with nothing to attend to gets zeros. With
        `return_weights` a pair (z, weights), with weights (B, H, Lq, Lk).

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: If shapes do not match, if a backend cannot serve the encoding, if there are no keys, if future keys
            shall be seen by an encoding that is made for the past, or if a plan was made for something else.

    Example:
        >>> from posenc import RoPE, attend
        >>> rope, pos = RoPE(64), torch.arange(5)
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> attend(rope.query(q, pos), rope.key(k, pos), v, rope, pos).shape
        torch.Size([1, 8, 5, 64])
    """
    _check_kinds(q, k, v, encoding, None)
    check_mask(mask, q, k)
    check_vectors(q, k, v)
    plan = planned(q, k, qpos, kpos, causal=causal, mask=mask)
    return _attend(q, k, v, encoding, plan, scale, backend, dropout, return_weights)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, plan: Plan, scale: float | None, backend: Backend,
    dropout: float, return_weights: bool,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The kernel that was asked for, or that serves best."""
    check_vectors(q, k, v)
    check_direction(encoding, plan)
    if backend not in ("auto", *BACKENDS):
        raise ValueError(
            f"backend is {backend!r}: use one of 'auto', {', '.join(map(repr, BACKENDS))}"
        )
    if not 0 <= dropout < 1:
        raise ValueError(
            f"dropout is {dropout}: use the share of weights to drop, 0 or more and below 1"
        )
    if return_weights and backend not in ("auto", "dense"):
        raise ValueError(
            f'backend "{backend}" stores no weights to return: use backend="dense"'
        )
    way = BACKENDS["dense"] if return_weights else BACKENDS.get(backend, auto)
    z, weights = way(
        q,
        k,
        v,
        encoding,
        plan,
        q.shape[-1] ** -0.5 if scale is None else scale,
        dropout,
    )
    if return_weights:
        assert weights is not None  # only "dense" gets here
        return z, weights
    return z


# ---- checks of input -------------------------------------------------------------------------------------------------


def _check_kinds(q: Any, k: Any, v: Any, encoding: Any, cache: Any) -> None:
    """Arguments are what they should be: tensors, an encoding, one layer's cache."""
    require_encoding(encoding)
    check_kinds(q, k, v)
    if isinstance(cache, list | tuple):
        raise TypeError(
            f"cache is {kind(cache)} of {len(cache)}: pass one layer's KVCache, such as cache[0]"
        )


def _check_embedded(encoding: Encoding, embedded: bool) -> None:
    """Positions that enter by the input have entered: from q, k and v alone this cannot be seen."""
    if not embedded and opens(encoding, "embed"):
        name = type(encoding).__name__
        raise ValueError(
            f"{name} has the door embed, so it enters before q, k and v are projected, and they do not show whether it "
            f"has: project x = encoding.embed(x, pos) and pass embedded=True, or pass NoPE() for attention without "
            f"positions"
        )
