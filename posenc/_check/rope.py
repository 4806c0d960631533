"""Rotations, and the radii of XPos."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc._check.common import dim, layout, positions


def rotary(head_dim: int, turned_dim: int, attention_factor: float) -> None:
    """The channels that turn are pairs, at the front of a head."""
    dim(head_dim, "head_dim")
    dim(turned_dim, "rotary_dim")
    if turned_dim > head_dim:
        raise ValueError(
            f"rotary_dim is {turned_dim}, but a head has {head_dim} channels: use a smaller one, "
            f"or None to turn all of them"
        )
    if not 0 < attention_factor < float("inf"):
        raise ValueError(
            f"attention_factor is {attention_factor}, but it multiplies queries and keys: use a positive number, "
            f"such as 1.0, or yarn_attention_factor(16)"
        )


def given_frequencies(freq: Tensor, turned_dim: int) -> None:
    """Frequencies are one angle per position for each pair of the channels that turn."""
    if freq.shape != (turned_dim // 2,):
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but {turned_dim} channels turn, in {turned_dim // 2} pairs: "
            f"use shape (rotary_dim/2,) = ({turned_dim // 2},), where rotary_dim is head_dim unless given"
        )


def heads_of(weight: Tensor, head_dim: int) -> None:
    """The rows of a projection are those of its heads, one head after the other."""
    dim(head_dim, "head_dim")
    if weight.ndim not in (1, 2) or weight.shape[0] % head_dim:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, but its first dimension must be a multiple of {head_dim}: "
            f"pass W_q or W_k as nn.Linear holds it, (heads · head_dim, model_dim), or its bias"
        )


def turned(x: Tensor, pos: Tensor, head_dim: int) -> None:
    """What a rotary encoding turns has its head's channels, and as many positions as vectors."""
    positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != head_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for heads (..., L, {head_dim}): "
            f"make it with head_dim={x.shape[-1] if x.ndim else 1}; to turn some of the channels only, use rotary_dim"
        )
    positions(pos, x)


def rotation(x: Tensor, pos: Tensor, freq: Tensor, name: str, scale: float | Tensor) -> None:
    """x (..., L, d) turns by one angle per position and pair of channels."""
    layout(name)
    positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}, but rotate turns (..., L, d): a single vector is x[None, :]")
    dim(x.shape[-1], "x's last dimension")
    if freq.ndim not in (1, 2) or 2 * freq.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)} and x has {x.shape[-1]} channels: use frequencies({x.shape[-1]}), "
            f"or (B, d/2) if sequences of the batch differ; to turn some of the channels only, pass that slice of x"
        )
    positions(pos, x)
    if freq.ndim == 2 and (x.ndim == 2 or freq.shape[0] not in (1, x.shape[0])):
        raise ValueError(
            f"freq holds frequencies for {freq.shape[0]} sequences and "
            f"{f'the batch has {x.shape[0]}' if x.ndim > 2 else 'there is a single sequence'}: "
            f"pass one set for each of them, or (d/2,) = ({x.shape[-1] // 2},) if all share it"
        )
    full = (*(x.shape[:1] if x.ndim > 2 else ()), x.shape[-2], x.shape[-1] // 2)  # (L, d/2) or (B, L, d/2)
    if isinstance(scale, Tensor) and (
        scale.ndim > len(full) or any(m not in (1, n) for m, n in zip(scale.shape[::-1], full[::-1], strict=False))
    ):
        raise ValueError(
            f"scale has shape {tuple(scale.shape)}, but there is an angle for each of {full}: "
            f"use a number, or that shape"
        )


def fading(gamma: float | Tensor, scale_base: float | Tensor, centre: float = 0) -> None:
    """Radii are powers of numbers between 0 and 1; the value of a tensor is not read."""
    for name, value, default in (("gamma", gamma, 0.4), ("scale_base", scale_base, 512.0)):
        if not isinstance(value, Tensor) and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value}, but radii are real powers: use a positive number, such as {default}")
    if not abs(centre) < float("inf"):
        raise ValueError(f"centre is {centre}, but it is a position: use one in the middle of those to come, such as 0")


def reach(pos: Tensor, centre: float, limit: float, dtype: torch.dtype) -> None:
    """Radii stay normal numbers; positions are looked at where that costs nothing."""
    if torch.compiler.is_compiling() or pos.device.type != "cpu" or pos.numel() == 0:
        return
    far = (pos.double() - centre).abs().max().item()
    if far > limit:
        raise ValueError(
            f"a position lies {far:g} from centre={centre}, and beyond {limit:.0f} radii leave the numbers of {dtype}: "
            f"use a centre in the middle of the positions, a larger scale_base, or a wider dtype (bfloat16 for float16)"
        )
