"""What extends a cache, and what stays in it."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc._check.common import positions


def window(value: int | None, sinks: int) -> None:
    """A window holds at least the token itself."""
    if value is not None and value < 1:
        raise ValueError(f"window is {value}, but a token sees itself: use 1 or more, or None for all tokens")
    if sinks < 0:
        raise ValueError(f"sinks is {sinks}: use the number of first tokens to keep, 0 for none")


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
