"""Bad input is refused here, with the remedy in the message.

Nothing is checked while `torch.export` traces: there a size may be a symbol, and a comparison would freeze it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from posenc.encoding import Encoding

LAYOUTS = ("interleaved", "half")


def dim(value: int, name: str = "dim") -> None:
    """A dimension that is split into pairs is positive and even."""
    if torch.compiler.is_exporting():
        return
    if value <= 0 or value % 2:
        raise ValueError(
            f"{name} is {value}, but channels come in pairs (sine and cosine, or the two axes of a plane): "
            f"use a positive even number, such as {max(2, value + value % 2)}"
        )


def base(value: float | Tensor) -> None:
    """A base is positive; a tensor's value is not read, so that it may be traced or live on a GPU."""
    if not isinstance(value, Tensor) and not value > 0:
        raise ValueError(
            f"base is {value}, but frequencies are its real powers: use a positive number, such as 10_000.0"
        )


def layout(value: str, name: str = "layout") -> None:
    if value not in LAYOUTS:
        raise ValueError(
            f'{name} is {value!r}: use "interleaved" (pairs are channels 2t and 2t+1) or "half" (t and t + dim/2)'
        )


def positions(pos: Tensor, x: Tensor | None = None, name: str = "pos") -> None:
    """Positions are (L,), or (B, L) if sequences of the batch differ, one for each vector of x (B, ..., L, d)."""
    if pos.dtype == torch.bool or pos.is_complex():
        raise ValueError(f"{name} is {pos.dtype}, but a position is an integer or a float: use torch.arange(length)")
    if pos.ndim not in (1, 2):
        raise ValueError(
            f"{name} has shape {tuple(pos.shape)}: use (L,), or (B, L) if sequences of the batch differ; "
            f"a single position is torch.tensor([p])"
        )
    if x is None or torch.compiler.is_exporting():
        return
    length, batch = x.shape[-2], x.shape[0] if x.ndim > 2 else None
    if pos.shape[-1] != length:
        raise ValueError(
            f"{name} holds {pos.shape[-1]} positions for {length} vectors: pass one position for each of them, "
            f"such as torch.arange({length})"
        )
    if pos.ndim == 2 and batch is None:
        raise ValueError(
            f"{name} has shape {tuple(pos.shape)}, but there is a single sequence: pass (L,) = ({length},)"
        )
    if pos.ndim == 2 and pos.shape[0] not in (1, batch):
        raise ValueError(
            f"{name} holds positions for {pos.shape[0]} sequences and the batch has {batch}: "
            f"pass ({batch}, L), or (L,) if all share them"
        )


def embedded(x: Tensor, pos: Tensor, model_dim: int) -> None:
    """What an encoding adds to has its dimension, and as many positions as vectors."""
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != model_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for (..., L, {model_dim}): "
            f"make it with model_dim={x.shape[-1] if x.ndim else 1}"
        )
    positions(pos, x)


def rotation(x: Tensor, pos: Tensor, freq: Tensor, name: str) -> None:
    """x (..., L, d) turns by one angle per position and pair of channels."""
    layout(name)
    positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}, but rotate turns (..., L, d): a single vector is x[None, :]")
    dim(x.shape[-1], "x's last dimension")
    if freq.ndim != 1 or 2 * freq.shape[0] != x.shape[-1]:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)} and x has {x.shape[-1]} channels: use frequencies({x.shape[-1]}); "
            f"to turn some of the channels only, pass that slice of x"
        )
    positions(pos, x)


def given_frequencies(freq: Tensor, head_dim: int) -> None:
    """Frequencies are one angle per position for each pair of a head's channels."""
    dim(head_dim, "head_dim")
    if freq.shape != (head_dim // 2,):
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but head_dim={head_dim} makes {head_dim // 2} pairs: "
            f"use shape (head_dim/2,) = ({head_dim // 2},)"
        )


def heads_of(weight: Tensor, head_dim: int) -> None:
    """The rows of a projection are those of its heads, one head after the other."""
    dim(head_dim, "head_dim")
    if weight.ndim not in (1, 2) or weight.shape[0] % head_dim:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, but its first dimension must be a multiple of {head_dim}: "
            f"pass W_q or W_k as nn.Linear holds it, (heads · head_dim, model_dim), or its bias"
        )


def attention(q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, mask: Tensor | None) -> None:
    """q (B, H, Lq, d), k (B, Hk, Lk, d), v (B, Hk, Lk, d_v), where Hk divides H, with a position for each vector."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {mask.dtype}, but it says where a query may attend: use a bool mask, such as mask == 0 "
            f"for one that is added to the scores; what is added to scores is an encoding's bias"
        )
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
    positions(qpos, q, "qpos")
    positions(kpos, k, "kpos")
    full = (*q.shape[:3], k.shape[2])
    if mask is not None and (
        mask.ndim > 4 or any(m not in (1, n) for m, n in zip(mask.shape[::-1], full[::-1], strict=False))
    ):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, which does not broadcast to (B, H, Lq, Lk) = {full}: "
            f"a mask of padded keys, (B, Lk), is mask[:, None, None, :]"
        )


def closed(encoding: Encoding, backend: str, **reasons: str) -> None:
    """A fused kernel serves only some of the doors."""
    for door, reason in reasons.items():
        if getattr(encoding, door) is not None:
            raise ValueError(f'backend "{backend}" cannot serve {door}, since {reason}: use backend="dense"')


def no_cpu_gradient(*tensors: Tensor) -> None:
    """torch's flex_attention has no backward on a CPU."""
    if torch.is_grad_enabled() and any(x.requires_grad and x.device.type == "cpu" for x in tensors):
        raise ValueError('backend "flex" has no gradients on a CPU: use backend="dense" or "sdpa", or torch.no_grad()')


def cached(k: Tensor, v: Tensor, pos: Tensor, store: list[Tensor]) -> None:
    """What extends a cache fits what is in it, and wants no gradient."""
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise ValueError(
            "KVCache overwrites its memory and so has no gradients: extend it under torch.no_grad(), "
            "or train on the whole sequence at once"
        )
    if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k and v have shapes {tuple(k.shape)} and {tuple(v.shape)}: use (B, H, L, d) and (B, H, L, d_v), "
            f"one value for each key"
        )
    positions(pos, k)
    for name, new, old in zip(("k", "v", "pos"), (k, v, pos), store, strict=False):
        axis = 2 if name != "pos" else -1
        fits = new.ndim == old.ndim and new.narrow(axis, 0, 0).shape == old.narrow(axis, 0, 0).shape
        if not fits or new.dtype != old.dtype or new.device != old.device:
            raise ValueError(
                f"{name} is {tuple(new.shape)}, {new.dtype} on {new.device}, and the cache holds {tuple(old.shape)}, "
                f"{old.dtype} on {old.device}: only the length may differ; for anything else start a new KVCache()"
            )


def window(value: int | None, sinks: int) -> None:
    """A window holds at least the token itself."""
    if value is not None and value < 1:
        raise ValueError(f"window is {value}, but a token sees itself: use 1 or more, or None for all tokens")
    if sinks < 0:
        raise ValueError(f"sinks is {sinks}: use the number of first tokens to keep, 0 for none")


def kept(index: Tensor, store: list[Tensor], length: int) -> None:
    """What a cache keeps is among what it holds."""
    if not store:
        raise ValueError("the cache is empty, so there is nothing to keep: extend it first")
    if index.dtype != torch.int64 or index.ndim not in (1, 2) or (index.ndim == 2 and len(index) != len(store[0])):
        raise ValueError(
            f"index is {tuple(index.shape)}, {index.dtype}: use whole numbers, (n,) for all sequences or "
            f"(B, n) = ({len(store[0])}, n), such as mask.nonzero()[:, 0]"
        )
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < length:
        raise ValueError(
            f"index goes from {int(index.min())} to {int(index.max())}, but the cache holds {length} tokens: "
            f"use 0 to {length - 1}, which count the tokens that are held, not their positions"
        )


def direction(encoding: Encoding, causal: bool, mask: Tensor | None) -> None:
    """An encoding made for the past is not asked about the future, unless a mask answers for that."""
    if encoding.causal_only and not causal and mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )
