"""The ways in which attention is computed. All are exact, and they agree up to rounding."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache as memoized
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad, scaled_dot_product_attention

from posenc._attention.by_distance import by_distance
from posenc._attention.encoding import Encoding
from posenc._attention.kept import in_transform
from posenc._attention.near_far import near_far, with_lse
from posenc._attention.offsets import offset_matrix
from posenc._attention.pairs import score_function
from posenc._attention.plan import Plan
from posenc._attention.scores import (
    attention_weights,
    check_bias,
    pair_bias,
    per_head,
    rows,
    without_autocast,
)

Backend = Literal["auto", "dense", "sdpa", "flex"]

FEW = 64  # queries below which a matrix of biases costs less than keys with further channels
SMALL = 2**16  # pairs of a head below which a matrix of biases costs nothing


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Encoding,
    plan: Plan,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Every door, with all weights in memory."""
    _check_no_block_mask(plan, "dense")
    weights = attention_weights(q, k, encoding, plan, scale=scale)
    kept = drop(weights, dropout) if dropout else weights
    v = per_head(v, q).to(weights.dtype)  # (B, H, Lk, d_v)
    with without_autocast(q):
        z = kept @ v if encoding.mix is None else encoding.mix(kept, v, *rows(q, plan))
    return z.to(q.dtype), weights


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Encoding,
    plan: Plan,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """torch's fused kernel. A bias enters as channels of q and k, by distance, as near and far, or as a mask."""
    _check_doors(
        encoding,
        "sdpa",
        rescale="it changes scores after the bias",
        mix="it needs the weights",
    )
    _check_no_block_mask(plan, "sdpa")
    if q.shape[2] == 0:
        return dense(q, k, v, encoding, plan, scale, dropout)
    if (z := _without_matrix(q, k, v, encoding, plan, scale, dropout)) is not None:
        return z, None
    return _fused(
        q,
        k,
        v,
        plan,
        scale,
        dropout,
        _bias(q, k, encoding, plan),
    ), None


def _without_matrix(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Encoding,
    plan: Plan,
    scale: float,
    dropout: float,
) -> Tensor | None:
    """The same where there is no bias, or where it needs no matrix and the matrix would cost more."""
    if encoding.score_bias is None:
        return _fused(q, k, v, plan, scale, dropout)
    if _matrix_pays(q, k):
        return None
    if not dropout and (z := _by_distance(q, k, v, encoding, plan, scale)) is not None:
        return z
    with without_autocast(q):
        wide = encoding.widen(q, k, plan, scale)
    if wide is not None and _wide_pays(q, wide[0]):
        return _fused(*wide, v, plan, scale, dropout)
    return None if dropout else _near_far(q, k, v, encoding, plan, scale)


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Plan,
    scale: float,
    dropout: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Plain attention by the pattern of the plan, or with a mask where it has none, or where there is a bias."""
    width = v.shape[-1]
    if width < q.shape[-1]:  # fused kernels want as many channels in v
        v = pad(v, (0, q.shape[-1] - width))
    options: dict[str, Any] = {
        "scale": scale,
        "enable_gqa": q.shape[1] != k.shape[1],
        "dropout_p": dropout,
    }
    blind = None
    if bias is None and plan.pattern in ("all", "triangle"):
        z = scaled_dot_product_attention(
            q, k, v, is_causal=plan.pattern == "triangle", **options
        )
    elif bias is None and plan.pattern == "lower right" and q.is_cuda:
        z = scaled_dot_product_attention(
            q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]), **options
        )
    elif (
        bias is None and plan.pattern == "lower right" and _chunk_pays(q, k, v, dropout)
    ):
        z = _chunk(q, per_head(k, q), per_head(v, q), scale)
    else:
        allowed, blind = plan.open(q.device)
        if bias is not None:
            bias = bias.to(
                q.dtype if q.is_cuda else torch.promote_types(q.dtype, torch.float32)
            )
            bias = bias if allowed is None else bias.where(allowed, -torch.inf)
            allowed = bias.expand(*q.shape[:3], k.shape[2])
        with _kernels(q, k):
            z = scaled_dot_product_attention(q, k, v, attn_mask=allowed, **options)
    return (z if blind is None else z.masked_fill(blind, 0.0))[..., :width].to(q.dtype)


def _chunk_pays(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> bool:
    """Whether `_chunk` serves: on a CPU, where torch would make a mask of all pairs, and without gradients."""
    grads = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    plain = not (grads or dropout or torch.compiler.is_compiling() or in_transform(q))
    return plain and q.dtype.itemsize >= 4 and q.shape[2] >= FEW


def _chunk(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The last tokens of a text, which see all before them and, of their own, the triangle: two calls without a mask.

    The log-sum-exp of the scores of both says which share of a row each gets.
    """
    past, kernel = (
        k.shape[2] - q.shape[2],
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu,
    )
    far, far_lse = kernel(q, k[:, :, :past], v[:, :, :past], 0.0, False, scale=scale)
    own, own_lse = with_lse(q, k[:, :, past:], v[:, :, past:], scale)
    return own.lerp(far, (far_lse - own_lse).sigmoid().to(q.dtype)[..., None])


def _by_distance(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, plan: Plan, scale: float
) -> Tensor | None:
    """Products with all distances, block by block: on a CPU, where queries and keys are spans."""
    if q.device.type != "cpu" or plan.spans is None or in_transform(q):
        return None
    queries, keys = plan.spans
    least = queries.start - keys.end + 1
    least = max(least, 0) if plan.causal else least
    distance = torch.arange(queries.end - 1 - keys.start, least - 1, -1)
    with without_autocast(q):
        terms = encoding.by_distance(q, distance)
    if terms is None:
        return None
    k, v, ahead = per_head(k, q), per_head(v, q), queries.start - keys.start
    return by_distance(q, k, v, *terms, ahead, plan.causal, scale)


def _near_far(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, plan: Plan, scale: float
) -> Tensor | None:
    """A near band and one number for all beyond, where positions are one span and long enough for that to pay."""
    if (
        plan.spans is None
        or plan.pattern == "lower right"
        or plan.spans[0] != plan.spans[1]
        or in_transform(q)
    ):
        return None
    with without_autocast(q):
        split = encoding.split(q, plan)
        if split is None or q.shape[2] < 4 * split.reach or split.reach < 1:
            return None
        return near_far(q, per_head(k, q), per_head(v, q), split, plan.causal, scale)


def _bias(q: Tensor, k: Tensor, encoding: Encoding, plan: Plan) -> Tensor:
    """b_ij of all pairs, from a number for each offset where that is possible."""
    bias = offset_matrix(encoding, q, plan)
    if bias is None:
        return pair_bias(encoding, q, per_head(k, q), *rows(q, plan))
    check_bias(bias, q, k)
    return bias


def _matrix_pays(q: Tensor, k: Tensor) -> bool:
    """Whether a matrix of biases costs less than any way around it."""
    return q.shape[2] < FEW or q.shape[2] * k.shape[2] < SMALL


def _wide_pays(q: Tensor, wide: Tensor) -> bool:
    """Whether further channels cost less than a matrix of biases: on a CPU, if they are not too many."""
    return q.is_cuda or wide.shape[-1] <= 2 * q.shape[-1]


def _kernels(q: Tensor, k: Tensor) -> AbstractContextManager[Any]:
    """What torch may choose from. cuDNN plans anew for every length: in decoding, 40 ms for a step of 1 ms."""
    if not q.is_cuda or q.shape[2] == k.shape[2]:
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Encoding,
    plan: Plan,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """torch's flex_attention, which takes bias and rescaling into its kernel."""
    _check_doors(encoding, "flex", mix="it needs the weights")
    _check_no_gradient_on_cpu(q, k, v, *encoding.parameters())
    if dropout:
        raise ValueError(
            f'backend "flex" drops no weights, and dropout is {dropout}: use "dense" or "sdpa", or 0'
        )
    if not torch.is_grad_enabled():
        q, k, v = (
            q.detach(),
            k.detach(),
            v.detach(),
        )  # torch refuses what could require gradients
    if q.shape[2] == 0:
        return dense(q, k, v, encoding, plan, scale, dropout)
    (batch, heads, queries), keys = q.shape[:3], k.shape[2]
    qpos, kpos = rows(q, plan)
    bias = (
        None
        if encoding.score_bias is None
        else encoding.score_bias(q, per_head(k, q), qpos, kpos)
    )
    if isinstance(bias, Tensor):
        check_bias(bias, q, k)
        bias = bias.expand(batch, heads, queries, keys)
    rescale = None if encoding.rescale is None else encoding.rescale(qpos, kpos)
    score_mod = score_function(bias, rescale)

    width, blocks = v.shape[-1], plan.blocks(batch, heads, q.device)
    options: dict[str, Any] = {
        "block_mask": blocks,
        "scale": scale,
        "enable_gqa": heads != k.shape[1],
    }
    if bias is not None or rescale is not None:
        options["score_mod"] = score_mod
    if (
        q.is_cuda
    ):  # the kernel takes no fewer than 16 dimensions; zeros change no product
        q, k, v = (pad(x, (0, max(0, 16 - x.shape[-1]))) for x in (q, k, v))
    with (
        warnings.catch_warnings()
    ):  # on a CPU the kernel is not compiled, and torch warns of that
        warnings.filterwarnings(
            "ignore", message="flex_attention called without torch.compile"
        )
        z = _flex_kernel(q.device.type)(q, k, v, **options)
    return z[..., :width].to(q.dtype), None


def auto(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Encoding,
    plan: Plan,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor | None]:
    """The fastest of them, and of what schemes say they are, for what is given.

    Few queries, or few pairs, take a matrix of biases, which then costs least. For more, Transformer-XL takes blocks of
    queries on a CPU: a score costs 2d multiplications there, in wide vectors d + D, and a CPU is bound by those. On a
    GPU it takes wide vectors, one call of a fused kernel whatever the positions; blocks have not been timed there.
    """
    if plan.block_mask is not None:
        return flex(q, k, v, encoding, plan, scale, dropout)
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined]
    portable = torch.compiler.is_exporting() or tracing or in_transform(q)
    if portable or q.shape[2] == 0:
        return dense(q, k, v, encoding, plan, scale, dropout)
    if encoding.mix is not None:
        plain = not dropout and encoding.rescale is None and not _matrix_pays(q, k)
        far = _near_far(q, k, v, encoding, plan, scale) if plain else None
        return (
            dense(q, k, v, encoding, plan, scale, dropout)
            if far is None
            else (far, None)
        )
    if encoding.rescale is not None:
        way = flex if q.is_cuda and not dropout and not _matrix_pays(q, k) else dense
        return way(q, k, v, encoding, plan, scale, dropout)
    if (z := _without_matrix(q, k, v, encoding, plan, scale, dropout)) is not None:
        return z, None
    learned = torch.is_grad_enabled() and any(
        x.requires_grad for x in encoding.parameters()
    )
    small = q.shape[2] >= FEW and q.shape[2] * k.shape[2] < SMALL
    # No fused kernel has the gradient of a matrix of biases, so torch would fall back to one that stores everything.
    return (dense if learned or small else sdpa)(
        q, k, v, encoding, plan, scale, dropout
    )


BACKENDS: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
    "dense": dense,
    "sdpa": sdpa,
    "flex": flex,
}
"""The kernels by name. "auto" picks among them."""


@memoized
def _flex_kernel(device_type: str) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    if device_type != "cuda":
        return flex_attention
    # A bias, gradients, one text or more, one query or more: each is a program of its own. After eight of them torch
    # would go on without a fused kernel, at a hundred times the time; now there may be more, and then an error.
    torch._dynamo.config.recompile_limit = max(
        torch._dynamo.config.recompile_limit, 256
    )
    return torch.compile(flex_attention, fullgraph=True)


def _check_doors(encoding: Encoding, backend: str, **reasons: str) -> None:
    """A fused kernel serves only some of the doors."""
    for door, reason in reasons.items():
        if getattr(encoding, door) is not None:
            raise ValueError(
                f'backend "{backend}" cannot serve {door}, since {reason}: use backend="dense"'
            )


def _check_no_gradient_on_cpu(*tensors: Tensor) -> None:
    """torch's flex_attention has no backward on a CPU."""
    if torch.is_grad_enabled() and any(
        x.requires_grad and x.device.type == "cpu" for x in tensors
    ):
        raise ValueError(
            'backend "flex" has no gradients on a CPU: use backend="dense" or "sdpa", or torch.no_grad()'
        )


def _check_no_block_mask(plan: Plan, backend: str) -> None:
    """A block mask that was given is flex's, and says all."""
    if plan.block_mask is not None:
        raise ValueError(
            f"the plan has a block_mask, which takes the place of every other mask, and backend is {backend!r}: "
            f'use backend="flex" without mask, padding_mask or a window, or a Plan without block_mask'
        )
