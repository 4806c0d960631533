"""Attention with position in it: one call, and three backends that compute the same."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache as memoized
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad, scaled_dot_product_attention

from posenc._require import require_broadcast, require_positions
from posenc.cache import KVCache, sliding_window
from posenc.encoding import Encoding, alike

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Backend = Literal["dense", "sdpa", "flex"]
Made = TypeVar("Made")


class Masks:
    """What all layers of one forward pass share, made by the first layer: masks, and flex's block mask.

    On a GPU this saves a block mask, and a wait for the positions, in each layer but the first. Make a new one
    for each pass, and pass it to layers that have the same positions, mask and `causal`.

    Args:
        block_mask: what `flex_attention` shall use instead of a block mask made here.

    Example:
        >>> from posenc import ALiBi, Masks, attention
        >>> q, k, v, pos = *torch.randn(3, 1, 2, 5, 4), torch.arange(5)
        >>> masks = Masks()
        >>> layers = [attention(q, k, v, ALiBi(2), pos, masks=masks) for _ in range(3)]
    """

    def __init__(self, block_mask: "BlockMask | None" = None) -> None:
        self._made: dict[str, Any] = {} if block_mask is None else {"block_mask": block_mask}

    def get(self, name: str, make: Callable[[], Made]) -> Made:
        """What the first layer made under this name."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[False] = ..., masks: Masks | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[True], masks: Masks | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = True, mask: Tensor | None = None, scale: float | None = None, backend: Backend = "dense",
    cache: KVCache | None = None, padding_mask: Tensor | None = None, dropout: float = 0.0,
    return_weights: bool = False, masks: Masks | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Attention with an encoding in it: takes q, k and v as they are projected, and does all the rest.

    It calls `encoding.query` and `encoding.key`, extends the cache if there is one, hides what may not be seen, and
    attends. An encoding that enters by `embed` has been added to the input before.

    Args:
        q: (B, H, Lq, d), as projected.
        k: (B, Hk, Lk, d), as projected; Hk divides H.
        v: (B, Hk, Lk, d_v).
        encoding: how position enters; `NoPE()` for none.
        qpos: positions of the queries, (Lq,) or (B, Lq).
        kpos: positions of k and v, (Lk,) or (B, Lk); those of the queries unless given.
        causal: whether a query sees only keys at positions up to its own.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk), the keys in the cache included.
        scale: multiplies q · k; 1/√d unless given.
        backend: "dense" serves every encoding, "sdpa" and "flex" are torch's fused kernels.
        cache: holds earlier keys and values; k and v are added, and its window is kept.
        padding_mask: bool (B, Lk), True for real tokens. Padding is hidden, also later, when the cache holds it.
        dropout: share of the weights that is dropped.
        return_weights: whether to return the weights too, (B, H, Lq, Lk), as they are before dropout.
        masks: one `Masks()` for all layers of a pass, where speed matters.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype; with `return_weights` a pair (z, weights).

    Raises:
        ValueError: if shapes do not match, or if the backend cannot serve the encoding.

    Example:
        >>> from posenc import KVCache, RoPE, attention
        >>> q, k, v = torch.randn(3, 1, 8, 128, 64)  # (B, H, L, d) each
        >>> rope, pos, cache = RoPE(head_dim=64), torch.arange(128), KVCache()
        >>> z = attention(q, k, v, rope, pos)
        >>> steps = [attention(q[:, :, t : t + 1], k[:, :, t : t + 1], v[:, :, t : t + 1], rope, pos[t : t + 1],
        ...                    cache=cache) for t in range(128)]
        >>> torch.allclose(torch.cat(steps, 2), z, atol=1e-5)
        True
    """
    kpos = qpos if kpos is None else kpos
    masks = Masks() if masks is None else masks
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    padded = padding_mask is not None or (cache is not None and cache.padded)
    if padding_mask is not None:
        _check_padding(padding_mask, k)
        kpos = (kpos if kpos.dtype.is_signed else kpos.long()).where(padding_mask, -1)
    if padded:
        qpos = qpos.clamp(min=0)
    q = encoding.query(q, qpos)
    if cache is None:
        k = encoding.key(k, kpos.clamp(min=0) if padded else kpos)
    else:
        k, v, kpos = cache.extend(k, v, kpos, encoding, padding_mask=padding_mask)
        if cache.window is not None:
            window, sinks, at = cache.window, cache.sinks, kpos
            near = masks.get("window", lambda: sliding_window(qpos, at, window, sinks))
            mask = near if mask is None else mask & near
    if padded:
        real = (kpos >= 0).expand(q.shape[0], -1)[:, None, None]  # (B, 1, 1, Lk)
        mask = real if mask is None else mask & real
        kpos = kpos.clamp(min=0)
    return attend(
        q, k, v, encoding, qpos, kpos, causal=causal, mask=mask, scale=scale, backend=backend, dropout=dropout,
        return_weights=return_weights, masks=masks,
    )  # type: ignore[call-overload]  # fmt: skip


def attention_scores(
    q: Tensor, k: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor, *, scale: float | None = None
) -> Tensor:
    """Scores of q and k that went through `encoding.query` and `encoding.key`: ρ_ij(q_i · k_j · scale + b_ij).

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        encoding: whose `score_bias` and `rescale` are applied.
        qpos: (Lq,) or (B, Lq).
        kpos: (Lk,) or (B, Lk).
        scale: multiplies q · k; 1/√d unless given.

    Returns:
        (B, H, Lq, Lk), at least float32; nothing is masked.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> from posenc import ALiBi, attention_scores
        >>> pos = torch.arange(3)
        >>> attention_scores(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 3, 4), ALiBi(2), pos[-1:], pos)[0, :, 0]
        tensor([[-0.1250, -0.0625,  0.0000],
                [-0.0078, -0.0039,  0.0000]])
    """
    check_vectors(q, k, k)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    k = per_head(k, q)  # (B, H, Lk, d)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    score = (q.to(wide) * scale) @ k.to(wide).transpose(-2, -1)  # (B, H, Lq, Lk)
    qpos, kpos = batched(q, qpos, kpos)
    if encoding.score_bias is not None:
        score = score + pair_bias(encoding, q, k, qpos, kpos)
    if encoding.rescale is not None:
        score = encoding.rescale(qpos, kpos)(score, *pair_index(q, k))
    return score


def attention_weights(
    q: Tensor, k: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor, *, causal: bool = True,
    mask: Tensor | None = None, scale: float | None = None, masks: Masks | None = None,
) -> Tensor:  # fmt: skip
    """Weights of q and k that went through `encoding.query` and `encoding.key`: softmax_j of `attention_scores`.

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        encoding: whose `score_bias` and `rescale` are applied.
        qpos: (Lq,) or (B, Lq).
        kpos: (Lk,) or (B, Lk).
        causal: whether a query sees only keys with kpos <= qpos.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk).
        scale: multiplies q · k; 1/√d unless given.
        masks: shared by the layers of a pass.

    Returns:
        (B, H, Lq, Lk), at least float32. A row sums to 1, or to 0 where there is nothing to attend to.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> from posenc import NoPE, attention_weights
        >>> attention_weights(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), NoPE(), *2 * [torch.arange(2)])[0, 0]
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    check_mask(mask, q, k)
    check_direction(encoding, causal, mask)
    score = attention_scores(q, k, encoding, qpos, kpos, scale=scale)
    masks = Masks() if masks is None else masks
    allowed = masks.get("allowed", lambda: allowed_pairs(*batched(q, qpos, kpos), causal, mask))
    if allowed is not None:
        score = score.where(allowed, -torch.inf)
    return _softmax(score)  # zeros where a query sees no key


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor, *, causal: bool = ...,
    mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ..., dropout: float = ...,
    return_weights: Literal[False] = ..., masks: Masks | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor, *, causal: bool = ...,
    mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ..., dropout: float = ...,
    return_weights: Literal[True], masks: Masks | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor, *, causal: bool = True,
    mask: Tensor | None = None, scale: float | None = None, backend: Backend = "dense", dropout: float = 0.0,
    return_weights: bool = False, masks: Masks | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """The inner half of `attention`: expects q and k that went through `encoding.query` and `encoding.key`.

    z_i = Σ_j α_ij (v_j + r_ij), with α from `attention_weights`. Most callers want `attention`, which turns q and k
    itself. With a rotary encoding, and q and k as projected, this computes what `NoPE` does.

    Args:
        q: (B, H, Lq, d), after `encoding.query`.
        k: (B, Hk, Lk, d), after `encoding.key`; Hk divides H.
        v: (B, Hk, Lk, d_v).
        encoding: whose `score_bias`, `rescale` and `mix` are applied.
        qpos: (Lq,) or (B, Lq).
        kpos: (Lk,) or (B, Lk).
        causal: whether a query sees only keys with kpos <= qpos.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk).
        scale: multiplies q · k; 1/√d unless given.
        backend: "dense" serves every encoding and stores the weights. "sdpa" is torch's fused kernel; `score_bias`
            becomes a float mask. "flex" takes `score_bias` and `rescale` into its kernel and stores no matrix on a GPU;
            gradients of learned biases, such as T5's table, are slow there.
        dropout: share of the weights that is dropped; not with "flex".
        return_weights: whether to return the weights too, as they are before dropout; with "dense" only.
        masks: shared by the layers of a pass.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype; a query with nothing to attend to gets zeros. With `return_weights` a
        pair (z, weights), with weights (B, H, Lq, Lk).

    Raises:
        ValueError: if shapes do not match, if a backend cannot serve the encoding, if there are no keys, or if
            future keys shall be seen by an encoding that is made for the past.
    """
    check_mask(mask, q, k)
    check_vectors(q, k, v)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    check_direction(encoding, causal, mask)
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}: use one of {', '.join(map(repr, BACKENDS))}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: use the share of weights to drop, 0 or more and below 1")
    if return_weights and backend != "dense":
        raise ValueError(f'backend "{backend}" stores no weights to return: use backend="dense"')
    masks = Masks() if masks is None else masks
    z, weights = BACKENDS[backend](q, k, v, encoding, qpos, kpos, causal, mask, scale, dropout, masks)
    if return_weights:
        assert weights is not None  # only "dense" gets here
        return z, weights
    return z


def _dense(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None, dropout: float, masks: Masks,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    weights = attention_weights(q, k, encoding, qpos, kpos, causal=causal, mask=mask, scale=scale, masks=masks)
    kept = drop(weights, dropout) if dropout else weights
    v = per_head(v, q).to(weights.dtype)  # (B, H, Lk, d_v)
    z = kept @ v if encoding.mix is None else encoding.mix(kept, v, *batched(q, qpos, kpos))
    return z.to(q.dtype), weights


def _sdpa(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None, dropout: float, masks: Masks,
) -> tuple[Tensor, None]:  # fmt: skip
    _check_doors(encoding, "sdpa", rescale="it changes scores after the bias", mix="it needs the weights")
    if q.shape[2] == 0:
        return _dense(q, k, v, encoding, qpos, kpos, causal, mask, scale, dropout, masks)[0], None
    options: dict[str, Any] = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1], "dropout_p": dropout}
    plain = encoding.score_bias is None and mask is None
    if plain and (not causal or masks.get("triangle", lambda: _is_triangle(qpos, kpos))):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, **options), None
    qpos, kpos = batched(q, qpos, kpos)
    allowed = masks.get("allowed", lambda: allowed_pairs(qpos, kpos, causal, mask))
    blind = None
    if allowed is not None:
        blind = ~allowed.any(-1, keepdim=True)  # kernels differ on a query that sees no key:
        allowed = allowed | blind  # here it sees all of them, and gets zeros below
    if encoding.score_bias is not None:
        bias = pair_bias(encoding, q, per_head(k, q), qpos, kpos).to(q.dtype)
        bias = bias if allowed is None else bias.where(allowed, -torch.inf)
        allowed = bias.expand(*q.shape[:3], k.shape[2])
    with _kernels(q, k):
        z = scaled_dot_product_attention(q, k, v, attn_mask=allowed, **options)
    return z if blind is None else z.masked_fill(blind, 0.0), None


def _kernels(q: Tensor, k: Tensor) -> AbstractContextManager[Any]:
    """What torch may choose from. cuDNN plans anew for every length: in decoding, 40 ms for a step of 1 ms."""
    if not q.is_cuda or q.shape[2] == k.shape[2]:
        return nullcontext()
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _flex(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor,
    causal: bool, mask: Tensor | None, scale: float | None, dropout: float, masks: Masks,
) -> tuple[Tensor, None]:  # fmt: skip
    _check_doors(encoding, "flex", mix="it needs the weights")
    _check_no_gradient_on_cpu(q, k, v, *encoding.parameters())
    if dropout:
        raise ValueError(f'backend "flex" drops no weights, and dropout is {dropout}: use "dense" or "sdpa", or 0')
    if not torch.is_grad_enabled():
        q, k, v = q.detach(), k.detach(), v.detach()  # torch refuses what could require gradients
    if q.shape[2] == 0:
        return _dense(q, k, v, encoding, qpos, kpos, causal, mask, scale, dropout, masks)[0], None
    (batch, heads, queries), keys = q.shape[:3], k.shape[2]
    qpos, kpos = batched(q, qpos, kpos)
    bias = None if encoding.score_bias is None else encoding.score_bias(q, per_head(k, q), qpos, kpos)
    if isinstance(bias, Tensor):
        _check_bias(bias, q, k)
        bias = bias.expand(batch, heads, queries, keys)
    rescale = None if encoding.rescale is None else encoding.rescale(qpos, kpos)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if bias is not None:
            score = score + (bias[b, h, i, j] if isinstance(bias, Tensor) else bias(b, h, i, j))
        return score if rescale is None else rescale(score, b, h, i, j)

    block_mask = masks.get("block_mask", lambda: _block_mask(qpos, kpos, causal, mask, heads))
    scale, width = q.shape[-1] ** -0.5 if scale is None else scale, v.shape[-1]
    options = {"block_mask": block_mask, "scale": scale, "enable_gqa": heads != k.shape[1]}
    if q.is_cuda:  # the kernel takes no fewer than 16 dimensions; zeros change no product
        q, k, v = (pad(x, (0, max(0, 16 - x.shape[-1]))) for x in (q, k, v))
    with warnings.catch_warnings():  # on a CPU the kernel is not compiled, and torch warns of that
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        z = _flex_kernel(q.device.type)(q, k, v, score_mod=score_mod, **options)
    return z[..., :width], None


BACKENDS: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {"dense": _dense, "sdpa": _sdpa, "flex": _flex}


@memoized
def _flex_kernel(device_type: str) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    if device_type != "cuda":
        return flex_attention
    # A bias, gradients, one text or more, one query or more: each is a program of its own. After eight of them torch
    # would go on without a fused kernel, at a hundred times the time; now there may be more, and then an error.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    return torch.compile(flex_attention, fullgraph=True)


def _block_mask(qpos: Tensor, kpos: Tensor, causal: bool, mask: Tensor | None, heads: int) -> "BlockMask | None":
    """The blocks of queries and keys that flex_attention has to look at: qpos (B, Lq), kpos (B, Lk)."""
    from torch.nn.attention.flex_attention import create_block_mask

    if not causal and mask is None:
        return None
    (batch, queries), keys = qpos.shape, kpos.shape[1]
    wanted = None if mask is None else mask.expand(batch, heads, queries, keys)

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if wanted is None:
            return kpos[b, j] <= qpos[b, i]
        return wanted[b, h, i, j] & (kpos[b, j] <= qpos[b, i]) if causal else wanted[b, h, i, j]

    one_for_all = mask is None or mask.ndim < 3 or mask.shape[-3] == 1
    shape = (batch, None if one_for_all else heads, queries, keys)
    return create_block_mask(mask_mod, *shape, device=str(qpos.device))


# ---- parts that schemes and measurements share -----------------------------------------------------------------------


def per_head(x: Tensor, q: Tensor) -> Tensor:
    """Grouped heads of k or v (B, Hk, Lk, d), repeated so that each head of q has a head to itself."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def batched(q: Tensor, qpos: Tensor, kpos: Tensor) -> tuple[Tensor, Tensor]:
    """Positions as (B, Lq) and (B, Lk), without a copy if differences of them may be negative already."""
    qpos, kpos = (pos if pos.dtype.is_signed else pos.long() for pos in (qpos, kpos))
    return qpos.expand(q.shape[0], -1), kpos.expand(q.shape[0], -1)


def pair_index(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """b, h, i and j, which broadcast to (B, H, Lq, Lk)."""
    b, h, i = (torch.arange(n, device=q.device) for n in q.shape[:3])
    j = torch.arange(k.shape[2], device=q.device)
    return b[:, None, None, None], h[:, None, None], i[:, None], j


def pair_bias(encoding: Encoding, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
    """b_ij of all pairs, which broadcasts to (B, H, Lq, Lk); qpos (B, Lq), kpos (B, Lk)."""
    assert encoding.score_bias is not None
    bias = encoding.score_bias(q, k, qpos, kpos)
    bias = bias if isinstance(bias, Tensor) else torch.as_tensor(bias(*pair_index(q, k)), device=q.device)
    _check_bias(bias, q, k)
    return bias


def allowed_pairs(qpos: Tensor, kpos: Tensor, causal: bool, mask: Tensor | None) -> Tensor | None:
    """Where a query may attend, or None if it may everywhere: bool, which broadcasts to (B, H, Lq, Lk).

    Positions are qpos (B, Lq) and kpos (B, Lk).
    """
    if not causal:
        return mask
    qpos, kpos = (qpos[:1], kpos[:1]) if alike(qpos, kpos) else (qpos, kpos)
    past = (kpos[:, None, :] <= qpos[:, :, None])[:, None]  # (B or 1, 1, Lq, Lk)
    return past if mask is None else past & mask


def _softmax(score: Tensor) -> Tensor:
    """Softmax over keys. A query that sees none, by causality, the mask or a bias, gets zeros; torch has NaN there."""
    if score.numel() == 0:
        return score
    blind = score.detach().amax(-1, keepdim=True) == -torch.inf
    if _surely_none(blind):  # which saves two passes over the scores, and one tensor of their size
        return score.softmax(-1)
    return score.where(~blind, 0.0).softmax(-1) * ~blind


def _surely_none(blind: Tensor) -> bool:
    """Whether it is known at once that no query is blind: not on a GPU, which would be waited for, or to a compiler."""
    if blind.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    try:
        return not blind.any()
    except RuntimeError:  # under torch.func.vmap there is no one answer
        return False


def _is_triangle(qpos: Tensor, kpos: Tensor) -> bool:
    """Whether kpos <= qpos is the lower triangle that `is_causal` means: equal positions that rise.

    A cached step is no triangle: torch would align it to the first key, not to the last.
    """
    if torch.compiler.is_compiling() or qpos.shape != kpos.shape:
        return False
    return (qpos is kpos or torch.equal(qpos, kpos)) and bool((qpos.diff() > 0).all())


# ---- checks of input -------------------------------------------------------------------------------------------------


def check_direction(encoding: Encoding, causal: bool, mask: Tensor | None) -> None:
    """An encoding made for the past is not asked about the future, unless a mask answers for that."""
    if encoding.causal_only and not causal and mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )


def check_vectors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """q is (B, H, Lq, d), k (B, Hk, Lk, d) and v (B, Hk, Lk, d_v), where Hk divides H."""
    if torch.compiler.is_exporting():
        return
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but attention needs (B, H, L, d): a single head is {name}[:, None]"
            )
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
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {mask.dtype}, but it says where a query may attend: use a bool mask, such as mask == 0 "
            f"for one that is added to the scores; what is added to scores is an encoding's score_bias"
        )
    if q.ndim == k.ndim == 4:
        remedy = "a mask of padded keys, (B, Lk), is mask[:, None, None, :], or padding_mask of attention()"
        require_broadcast("mask", mask.shape, (*q.shape[:3], k.shape[2]), "(B, H, Lq, Lk)", remedy)


def _check_padding(padding_mask: Tensor, k: Tensor) -> None:
    """A padding mask is bool and says of each key whether it is real."""
    wanted = (k.shape[0], k.shape[2])
    if padding_mask.dtype != torch.bool or (
        not torch.compiler.is_exporting() and tuple(padding_mask.shape) not in (wanted, (1, wanted[1]))
    ):
        raise ValueError(
            f"padding_mask is {tuple(padding_mask.shape)}, {padding_mask.dtype}: use bool, (B, Lk) = {wanted}, "
            f"True for real tokens; one that says which query sees which key is mask="
        )


def _check_bias(bias: Tensor, q: Tensor, k: Tensor) -> None:
    """A bias is a number for each pair, or one for several pairs."""
    remedy = "index positions as qpos[b, i] and kpos[b, j], and parameters of heads by h"
    require_broadcast("score_bias", bias.shape, (*q.shape[:3], k.shape[2]), "(B, H, Lq, Lk)", remedy)


def _check_doors(encoding: Encoding, backend: str, **reasons: str) -> None:
    """A fused kernel serves only some of the doors."""
    for door, reason in reasons.items():
        if getattr(encoding, door) is not None:
            raise ValueError(f'backend "{backend}" cannot serve {door}, since {reason}: use backend="dense"')


def _check_no_gradient_on_cpu(*tensors: Tensor) -> None:
    """torch's flex_attention has no backward on a CPU."""
    if torch.is_grad_enabled() and any(x.requires_grad and x.device.type == "cpu" for x in tensors):
        raise ValueError('backend "flex" has no gradients on a CPU: use backend="dense" or "sdpa", or torch.no_grad()')
