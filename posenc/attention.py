"""Attention with position in it: three backends that compute the same."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posenc import _check
from posenc.encoding import Encoding


def attention_weights(
    q: Tensor, k: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    *, causal: bool = True, mask: Tensor | None = None, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """How much each query attends to each key: softmax_j(ρ(q_i · k_j · scale + b_ij)).

    q (B, H, Lq, d) and k (B, Hk, Lk, d) have been through `encoding.query` and `encoding.key`, and Hk
    divides H; qpos is (Lq,) or (B, Lq), kpos (Lk,) or (B, Lk). With `causal`, a query sees the keys with
    kpos <= qpos. `mask` is bool, True where a query may attend, and broadcasts to (B, H, Lq, Lk).
    `scale` is 1/√d unless given. Returns (B, H, Lq, Lk), float32 for half precision; a row sums to 1,
    or to 0 where there is nothing to attend to. Raises ValueError if shapes do not match.
    """
    _check.attention(q, k, k, qpos, kpos, mask)
    _check.direction(encoding, causal, mask)
    k = _per_head(k, q)  # (B, H, Lk, d)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    score = q.to(wide) @ k.to(wide).transpose(-2, -1) * scale  # (B, H, Lq, Lk)
    qpos, kpos = _batched(q, qpos, kpos)
    index = _index(q, k)
    if encoding.score_bias is not None:
        score = score + _bias(encoding, q, k, qpos, kpos)
    if encoding.rescale is not None:
        score = encoding.rescale(qpos, kpos)(score, *index)
    allowed = _allowed(qpos, kpos, causal, mask)
    if allowed is not None:
        score = score.masked_fill(~allowed, -torch.inf)
    hidden = score == -torch.inf  # by causality, the mask or a bias
    score = score.masked_fill(hidden, torch.finfo(score.dtype).min)  # a row of -inf would be NaN
    return score.softmax(-1).masked_fill(hidden, 0.0)


def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    *, causal: bool = True, mask: Tensor | None = None, scale: float | None = None,
    backend: str = "dense",
) -> Tensor:  # fmt: skip
    """z_i = Σ_j α_ij (v_j + r_ij), with α from `attention_weights`; v is (B, Hk, Lk, d_v).

    Returns (B, H, Lq, d_v) in q's dtype; a query with nothing to attend to gets zeros. Backends agree:
    "dense" serves every encoding and stores the weights, (B, H, Lq, Lk); "sdpa" is torch's fused
    kernel, and `score_bias` becomes a float mask; "flex" takes `score_bias` and `rescale` into its kernel and, on a
    GPU, stores no matrix. Raises ValueError if a backend cannot serve the encoding, if there are no keys,
    or if keys of the future are to be seen by an encoding that is made for the past.
    """
    _check.attention(q, k, v, qpos, kpos, mask)
    _check.direction(encoding, causal, mask)
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}: use one of {', '.join(map(repr, BACKENDS))}")
    return BACKENDS[backend](q, k, v, encoding, qpos, kpos, causal, mask, scale)


def _dense(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None,
) -> Tensor:  # fmt: skip
    weights = attention_weights(q, k, encoding, qpos, kpos, causal=causal, mask=mask, scale=scale)
    v = _per_head(v, q).to(weights.dtype)  # (B, H, Lk, d_v)
    if encoding.mix is None:
        return (weights @ v).to(q.dtype)
    return encoding.mix(weights, v, *_batched(q, qpos, kpos)).to(q.dtype)


def _sdpa(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None,
) -> Tensor:  # fmt: skip
    _check.closed(encoding, "sdpa", rescale="it changes scores after the bias", mix="it needs the weights")
    if q.shape[2] == 0:
        return _dense(q, k, v, encoding, qpos, kpos, causal, mask, scale)
    options: dict[str, Any] = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
    if encoding.score_bias is None and mask is None and (not causal or _triangular(qpos, kpos)):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, **options)
    qpos, kpos = _batched(q, qpos, kpos)
    allowed = _allowed(qpos, kpos, causal, mask)
    blind = None
    if allowed is not None:
        blind = ~allowed.any(-1, keepdim=True)  # kernels differ on a query that sees no key:
        allowed = allowed | blind  # it sees all of them here, and gets zeros below
    if encoding.score_bias is not None:
        bias = _bias(encoding, q, _per_head(k, q), qpos, kpos).to(q.dtype).expand(*q.shape[:3], k.shape[2])
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    z = scaled_dot_product_attention(q, k, v, attn_mask=allowed, **options)
    return z if blind is None else z.masked_fill(blind, 0.0)


def _flex(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None,
) -> Tensor:  # fmt: skip
    _check.closed(encoding, "flex", mix="it needs the weights")
    _check.no_cpu_gradient(q, k, v, *encoding.parameters())
    if not torch.is_grad_enabled():
        q, k, v = q.detach(), k.detach(), v.detach()  # torch refuses what could require gradients
    if q.shape[2] == 0:
        return _dense(q, k, v, encoding, qpos, kpos, causal, mask, scale)
    from torch.nn.attention.flex_attention import create_block_mask

    (batch, heads, queries), keys = q.shape[:3], k.shape[2]
    qpos, kpos = _batched(q, qpos, kpos)
    bias = None if encoding.score_bias is None else encoding.score_bias(q, _per_head(k, q), qpos, kpos)
    if isinstance(bias, Tensor):
        bias = _check.matrix(bias, q, k).expand(batch, heads, queries, keys)
    rescale = None if encoding.rescale is None else encoding.rescale(qpos, kpos)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if bias is not None:
            score = score + (bias[b, h, i, j] if isinstance(bias, Tensor) else bias(b, h, i, j))
        return score if rescale is None else rescale(score, b, h, i, j)

    block_mask = None
    if causal or mask is not None:
        wanted = None if mask is None else mask.expand(batch, heads, queries, keys)

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if wanted is None:
                return kpos[b, j] <= qpos[b, i]
            return wanted[b, h, i, j] & (kpos[b, j] <= qpos[b, i]) if causal else wanted[b, h, i, j]

        one_for_all = mask is None or mask.ndim < 3 or mask.shape[-3] == 1
        shape = (batch, None if one_for_all else heads, queries, keys)
        block_mask = create_block_mask(mask_mod, *shape, device=str(q.device))
    options = {"block_mask": block_mask, "scale": scale, "enable_gqa": heads != k.shape[1]}
    with warnings.catch_warnings():  # on a CPU the kernel is not compiled, and torch warns of that
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        return _flex_kernel(q.device.type)(q, k, v, score_mod=score_mod, **options)


BACKENDS: dict[str, Callable[..., Tensor]] = {"dense": _dense, "sdpa": _sdpa, "flex": _flex}


@cache
def _flex_kernel(device_type: str) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention) if device_type == "cuda" else flex_attention


def _per_head(x: Tensor, q: Tensor) -> Tensor:
    """Grouped heads of k or v (B, Hk, Lk, d), repeated so that each head of q has its own."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def _batched(q: Tensor, qpos: Tensor, kpos: Tensor) -> tuple[Tensor, Tensor]:
    """Positions as (B, Lq) and (B, Lk), without a copy."""
    return qpos.expand(q.shape[0], -1), kpos.expand(q.shape[0], -1)


def _bias(encoding: Encoding, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
    """b_ij for all pairs, which broadcasts to (B, H, Lq, Lk)."""
    assert encoding.score_bias is not None
    bias = encoding.score_bias(q, k, qpos, kpos)
    bias = bias if isinstance(bias, Tensor) else torch.as_tensor(bias(*_index(q, k)), device=q.device)
    return _check.matrix(bias, q, k)


def _index(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """b, h, i and j, which broadcast to (B, H, Lq, Lk)."""
    b, h, i = (torch.arange(n, device=q.device) for n in q.shape[:3])
    j = torch.arange(k.shape[2], device=q.device)
    return b[:, None, None, None], h[:, None, None], i[:, None], j


def _allowed(qpos: Tensor, kpos: Tensor, causal: bool, mask: Tensor | None) -> Tensor | None:
    """Where a query may attend, or None if it may everywhere."""
    if not causal:
        return mask
    past = (kpos[:, None, :] <= qpos[:, :, None])[:, None]  # (B, 1, Lq, Lk)
    return past if mask is None else past & mask


def _triangular(qpos: Tensor, kpos: Tensor) -> bool:
    """Whether kpos <= qpos is the lower triangle that `is_causal` means: equal positions, and they rise.

    It is not in a cached step, where torch would align the triangle to the first key, not to the last.
    """
    if torch.compiler.is_compiling() or qpos.shape != kpos.shape:
        return False
    return (qpos is kpos or torch.equal(qpos, kpos)) and bool((qpos.diff() > 0).all())
