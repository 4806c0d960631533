"""Attention with position in it: one call, and three backends that compute the same."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache as memoized
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad, scaled_dot_product_attention

from posenc._attention.cache import KVCache, equal, sliding_window
from posenc._attention.encoding import Encoding, alike, opens, require_encoding
from posenc._require import kind, require_broadcast, require_positions, require_tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Backend = Literal["dense", "sdpa", "flex"]
Made = TypeVar("Made")


class Masks:
    """What all layers of one forward pass share, made by the first layer: masks, and flex's block mask.

    On a GPU this saves a block mask, and a wait for the positions, in each layer but the first. Make a new one
    for each pass. Its layers have the same positions, masks, window and `causal`; a layer with others is refused.
    Their encodings, scales and backends may differ.

    Pass the same tensors to all layers, not copies: then nothing is compared but their identity. Copies are compared
    number by number, for which a GPU has to be waited for, and where numbers cannot be read, as while a compiler
    traces, a layer with a copy makes its own masks.

    Args:
        block_mask: what `flex_attention` shall use instead of a block mask made here; it says all that a query may
            see, so it goes with no other mask, and with no other backend.

    Raises:
        ValueError: when a layer comes with something else than the first one, which the message names.

    Example:
        >>> from posenc import ALiBi, Masks, attention
        >>> q, k, v, pos = *torch.randn(3, 1, 2, 5, 4), torch.arange(5)
        >>> masks = Masks()
        >>> layers = [attention(q, k, v, ALiBi(2), pos, masks=masks) for _ in range(3)]
    """

    def __init__(self, block_mask: "BlockMask | None" = None) -> None:
        self.block_mask = block_mask
        self._made: dict[str, Any] = {}
        self._first: dict[str, dict[str, Any]] = {}  # what the first layer had, for each function that asks
        self._writes: dict[str, dict[str, int]] = {}  # and how often those tensors had been written to
        self._held: tuple[object, object, Tensor] | None = None  # its cache before and after, and the positions in it

    def of(self, where: str, **values: Any) -> "Masks":
        """These masks, for a layer that has what the first one had; new ones where that cannot be known.

        Args:
            where: the function that asks; each has its own arguments.
            values: what the masks depend on.
        """
        first = self._first.get(where)
        if first is None:
            self._first[where], self._writes[where] = values, _writes(values)
            return self
        for name, value in values.items():
            same = value is first[name] or _same(first[name], value)
            if same is None:
                return Masks(self.block_mask)
            if not same:
                raise ValueError(_other(name, _difference(first[name], value)))
        before, after = self._writes[where], _writes(first)
        if before and after and before != after:
            name = next(name for name in before | after if before.get(name) != after.get(name))
            raise ValueError(_other(name, "was changed in place after the first layer"))
        return self

    def of_cache(self, cache: KVCache, before: object, kpos: Tensor) -> tuple["Masks", Tensor]:
        """The same for the positions in a layer's cache, which stood at `before`; and those in the first layer's."""
        if torch.compiler.is_compiling():  # each cache has a tensor of its own, and none can be compared
            self._held = self._held or (None, None, kpos)
            return (self if self._held[2] is kpos else Masks(self.block_mask)), kpos
        if self._held is None:
            self._held = before, cache.known, kpos
        start, end, first = self._held
        if before is not None and before is start:  # layers with the same past got the same tokens
            cache.known = end
        elif (same := _same(first, kpos)) is None:
            return Masks(self.block_mask), kpos
        elif not same:
            raise ValueError(
                f"the cache holds {kpos.shape[-1]} tokens, and not at the positions of the {first.shape[-1]} in the "
                f"first layer's cache: these masks were made for another pass, or for other layers. Make a new Masks() "
                f"for each pass, and share it among layers whose caches hold the same positions"
            )
        return self, first

    def get(self, name: str, make: Callable[[], Made]) -> Made:
        """What the first layer made under this name."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def _writes(values: dict[str, Any]) -> dict[str, int]:
    """How often tensors were written to in place, where torch counts that."""
    if torch.compiler.is_compiling():
        return {}
    return {name: x._version for name, x in values.items() if isinstance(x, Tensor) and not x.is_inference()}


def _same(first: Any, value: Any) -> bool | None:
    """Whether a layer has what the first one had; None if it cannot be known."""
    if not (isinstance(first, Tensor) and isinstance(value, Tensor)):
        return bool(type(first) is type(value) and first == value)
    if torch.compiler.is_compiling() or first.is_meta or (first.is_cuda and torch.cuda.is_current_stream_capturing()):
        return None
    try:
        return equal(first, value)
    except RuntimeError:  # under torch.func.vmap there is no one answer
        return None


def _other(name: str, difference: str) -> str:
    """What is said when a layer comes with something else than the first one."""
    return (
        f"{name} {difference}: these masks were made for another pass, or for other layers. Make a new Masks() for "
        f"each pass, and share it among layers with the same {name}"
    )


def _difference(first: Any, value: Any) -> str:
    """In words, what a layer has and what the first one had."""
    if isinstance(first, Tensor) and isinstance(value, Tensor) and first.shape == value.shape:
        return f"holds other values than the first layer's ({value.dtype} on {value.device})"
    return f"is {kind(value)}, and the first layer's was {kind(first)}"


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[False] = ..., masks: Masks | None = ..., embedded: bool = ...,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = ..., mask: Tensor | None = ..., scale: float | None = ..., backend: Backend = ...,
    cache: KVCache | None = ..., padding_mask: Tensor | None = ..., dropout: float = ...,
    return_weights: Literal[True], masks: Masks | None = ..., embedded: bool = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attention(
    q: Tensor, k: Tensor, v: Tensor, encoding: Encoding, qpos: Tensor, kpos: Tensor | None = None, *,
    causal: bool = True, mask: Tensor | None = None, scale: float | None = None, backend: Backend = "dense",
    cache: KVCache | None = None, padding_mask: Tensor | None = None, dropout: float = 0.0,
    return_weights: bool = False, masks: Masks | None = None, embedded: bool = False,
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
        embedded: True says that q, k and v come from an input that went through `encoding.embed`. It changes no number,
            and any encoding may come with it.

    Returns:
        z, (B, H, Lq, d_v), in q's dtype, also under autocast; with `return_weights` a pair (z, weights).

    Raises:
        TypeError: if an argument is of another kind, such as the name of an encoding, or a range of positions.
        ValueError: if shapes do not match, if the backend cannot serve the encoding, if the encoding has the door
            `embed` and `embedded` is False, or if `masks` were made for something else.

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
    _check_kinds(q, k, v, encoding, mask, padding_mask, cache, masks)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    _check_embedded(encoding, embedded)
    if padding_mask is not None:
        _check_padding(padding_mask, k)
    padded = padding_mask is not None or (cache is not None and cache.padded)
    window, sinks, before = (None, 0, None) if cache is None else (cache.window, cache.sinks, cache.known)
    masks = (masks or Masks()).of(
        "attention", qpos=qpos, kpos=kpos, mask=mask, padding_mask=padding_mask, causal=causal,
        window=window, sinks=sinks, padded=padded, batch=_batch(q),
    )  # fmt: skip
    if padding_mask is not None:
        signed = kpos if kpos.dtype.is_signed else kpos.long()
        kpos = masks.get("new keys", partial(signed.where, padding_mask, -1))
    if padded:
        qpos = masks.get("queries", partial(qpos.clamp, min=0))
    q = encoding.query(q, qpos)
    if cache is None:
        k = encoding.key(k, kpos.clamp(min=0) if padded else kpos)
    else:
        k, v, kpos = cache.extend(k, v, kpos, encoding, padding_mask=padding_mask)
        masks, kpos = masks.of_cache(cache, before, kpos)
    if padded or window is not None:
        mask = masks.get("mask", partial(_seen, q, qpos, kpos, mask, padded, window, sinks))
    if padded:
        kpos = masks.get("keys", partial(kpos.clamp, min=0))
    return attend(
        q, k, v, encoding, qpos, kpos, causal=causal, mask=mask, scale=scale, backend=backend, dropout=dropout,
        return_weights=return_weights, masks=masks,
    )  # type: ignore[call-overload]  # fmt: skip


def _seen(
    q: Tensor, qpos: Tensor, kpos: Tensor, mask: Tensor | None, padded: bool, window: int | None, sinks: int
) -> Tensor:
    """The mask, without what lies outside the window, and without padding, which is at position -1."""
    masks = [] if mask is None else [mask]
    if window is not None:
        masks.append(sliding_window(qpos, kpos, window, sinks))
    if padded:
        masks.append((kpos >= 0).expand(q.shape[0], -1)[:, None, None])  # (B, 1, 1, Lk)
    return reduce(and_, masks)


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
        (B, H, Lq, Lk), at least float32, also under autocast; nothing is masked.

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if shapes do not match.

    Example:
        >>> from posenc import ALiBi, attention_scores
        >>> pos = torch.arange(3)
        >>> attention_scores(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 3, 4), ALiBi(2), pos[-1:], pos)[0, :, 0]
        tensor([[-0.1250, -0.0625,  0.0000],
                [-0.0078, -0.0039,  0.0000]])
    """
    require_encoding(encoding)
    check_vectors(q, k, k)
    require_positions(qpos, q, "qpos")
    require_positions(kpos, k, "kpos")
    k = per_head(k, q)  # (B, H, Lk, d)
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with without_autocast(q):
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
        TypeError: if an argument is of another kind.
        ValueError: if shapes do not match, or if `masks` were made for something else.

    Example:
        >>> from posenc import NoPE, attention_weights
        >>> attention_weights(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), NoPE(), *2 * [torch.arange(2)])[0, 0]
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    check_mask(mask, q, k)
    check_direction(encoding, causal, mask)
    score = attention_scores(q, k, encoding, qpos, kpos, scale=scale)
    masks = (masks or Masks()).of("pairs", qpos=qpos, kpos=kpos, mask=mask, causal=causal, batch=_batch(q))
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
    itself. With a rotary encoding, and q and k as projected, this computes what `NoPE` does. So it does with one that
    only has `embed`, which comes before the projections.

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
        z, (B, H, Lq, d_v), in q's dtype, also under autocast; a query with nothing to attend to gets zeros. With
        `return_weights` a pair (z, weights), with weights (B, H, Lq, Lk).

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if shapes do not match, if a backend cannot serve the encoding, if there are no keys, if future keys
            shall be seen by an encoding that is made for the past, or if `masks` were made for something else.
    """
    _check_kinds(q, k, v, encoding, mask, None, None, masks)
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
    masks = (masks or Masks()).of("pairs", qpos=qpos, kpos=kpos, mask=mask, causal=causal, batch=_batch(q))
    _check_block_mask(masks, backend, mask)
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
    with without_autocast(q):
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
        return scaled_dot_product_attention(q, k, v, is_causal=causal, **options).to(q.dtype), None
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
    return (z if blind is None else z.masked_fill(blind, 0.0)).to(q.dtype), None


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

    block_mask = masks.block_mask
    if block_mask is None:
        block_mask = masks.get("block_mask", lambda: _block_mask(qpos, kpos, causal, mask, heads))
    scale, width = q.shape[-1] ** -0.5 if scale is None else scale, v.shape[-1]
    options = {"block_mask": block_mask, "scale": scale, "enable_gqa": heads != k.shape[1]}
    if q.is_cuda:  # the kernel takes no fewer than 16 dimensions; zeros change no product
        q, k, v = (pad(x, (0, max(0, 16 - x.shape[-1]))) for x in (q, k, v))
    with warnings.catch_warnings():  # on a CPU the kernel is not compiled, and torch warns of that
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        z = _flex_kernel(q.device.type)(q, k, v, score_mod=score_mod, **options)
    return z[..., :width].to(q.dtype), None


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


def without_autocast(q: Tensor) -> AbstractContextManager[Any]:
    """Keeps autocast from rounding the factors of a product to sixteen bits."""
    kind = q.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def _batch(q: Tensor) -> int | None:
    """The size of the batch, which is a symbol while torch.export traces."""
    return None if torch.compiler.is_exporting() else q.shape[0]


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
    require_encoding(encoding)
    if encoding.causal_only and not causal and mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )


def _check_kinds(
    q: Any, k: Any, v: Any, encoding: Any, mask: Any, padding_mask: Any, cache: Any, masks: Any
) -> None:  # fmt: skip
    """Arguments are what they should be: tensors, an encoding, one layer's cache."""
    require_encoding(encoding)
    for name, x in (("q", q), ("k", k), ("v", v)):
        require_tensor(x, name, "use (B, H, L, d); torch.as_tensor makes one of an array")
    for name, x in (("mask", mask), ("padding_mask", padding_mask)):
        if x is not None:
            require_tensor(x, name, "use a bool tensor; causality alone is causal=True")
    if isinstance(cache, list | tuple):
        raise TypeError(f"cache is {kind(cache)} of {len(cache)}: pass one layer's KVCache, such as cache[0]")
    if masks is not None and not isinstance(masks, Masks):
        raise TypeError(f"masks is {kind(masks)}: use a Masks() that layers share; where a query may attend is mask=")


def _check_embedded(encoding: Encoding, embedded: bool) -> None:
    """Positions that enter by the input have entered: from q, k and v alone this cannot be seen."""
    if not embedded and opens(encoding, "embed"):
        name = type(encoding).__name__
        raise ValueError(
            f"{name} has the door embed, so it enters before q, k and v are projected, and they do not show whether it "
            f"has: project x = encoding.embed(x, pos) and pass embedded=True, or pass NoPE() for attention without "
            f"positions"
        )


def _check_block_mask(masks: Masks, backend: str, mask: Tensor | None) -> None:
    """A block mask that was given is flex's, and says all."""
    if masks.block_mask is not None and (backend != "flex" or mask is not None):
        raise ValueError(
            f"masks has a block_mask, which takes the place of every other mask, and backend is {backend!r}, mask is "
            f'{kind(mask)}: use backend="flex" without mask, padding_mask or a window, or a Masks() without block_mask'
        )


def check_vectors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """q is (B, H, Lq, d), k (B, Hk, Lk, d) and v (B, Hk, Lk, d_v), where Hk divides H."""
    if torch.compiler.is_exporting():
        return
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            require_tensor(x, name, "use (B, H, L, d); torch.as_tensor makes one of an array")
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
    require_tensor(mask, "mask", "use a bool tensor; causality alone is causal=True")
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
