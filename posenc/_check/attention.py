"""What attention is computed from, and which backend may compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc._check.common import positions

if TYPE_CHECKING:
    from posenc.encoding import Encoding


def attention(q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, mask: Tensor | None) -> None:
    """q (B, H, Lq, d), k (B, Hk, Lk, d), v (B, Hk, Lk, d_v), where Hk divides H, with a position for each vector."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {mask.dtype}, but it says where a query may attend: use a bool mask, such as mask == 0 "
            f"for one that is added to the scores; what is added to scores is an encoding's score_bias"
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


def direction(encoding: Encoding, causal: bool, mask: Tensor | None) -> None:
    """An encoding made for the past is not asked about the future, unless a mask answers for that."""
    if encoding.causal_only and not causal and mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )


def matrix(bias: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A number for each pair, or one for several."""
    full = (*q.shape[:3], k.shape[2])
    if not torch.compiler.is_exporting() and (
        bias.ndim > 4 or any(m not in (1, n) for m, n in zip(bias.shape[::-1], full[::-1], strict=False))
    ):
        raise ValueError(
            f"the bias has shape {tuple(bias.shape)}, which does not broadcast to (B, H, Lq, Lk) = {full}: "
            f"index positions as qpos[b, i] and kpos[b, j], and parameters of heads by h"
        )
    return bias


def closed(encoding: Encoding, backend: str, **reasons: str) -> None:
    """A fused kernel serves only some of the doors."""
    for door, reason in reasons.items():
        if getattr(encoding, door) is not None:
            raise ValueError(f'backend "{backend}" cannot serve {door}, since {reason}: use backend="dense"')


def no_cpu_gradient(*tensors: Tensor) -> None:
    """torch's flex_attention has no backward on a CPU."""
    if torch.is_grad_enabled() and any(x.requires_grad and x.device.type == "cpu" for x in tensors):
        raise ValueError('backend "flex" has no gradients on a CPU: use backend="dense" or "sdpa", or torch.no_grad()')
