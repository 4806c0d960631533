"""Checks of input that several schemes share. Each raises ValueError, or TypeError for what is no tensor, and names the
remedy.

A check that only one scheme needs stands in that scheme's file. While `torch.export` traces, sizes may be symbols
and a comparison would freeze them, so checks of sizes are skipped then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

LAYOUTS = ("interleaved", "half")


def require_even(value: int, name: str = "dim") -> None:
    """A dimension that is split into pairs is positive and even."""
    if torch.compiler.is_exporting():
        return
    if value <= 0 or value % 2:
        raise ValueError(
            f"{name} is {value}, but channels come in pairs (sine and cosine, or the two axes of a plane): "
            f"use a positive even number, such as {max(2, value + value % 2)}"
        )


def require_base(value: float | Tensor) -> None:
    """A base is positive. The value of a tensor is not read: it may be traced, or live on a GPU."""
    if not isinstance(value, Tensor) and not value > 0:
        raise ValueError(
            f"base is {value}, but frequencies are its real powers: use a positive number, such as 10_000.0"
        )


def require_layout(value: str, name: str = "layout") -> None:
    """A layout is "interleaved" or "half"."""
    if value not in LAYOUTS:
        raise ValueError(
            f'{name} is {value!r}: use "interleaved" (pairs are channels 2t and 2t+1) or "half" (t and t + dim/2)'
        )


def require_rotary_dim(rotary_dim: int, head_dim: int) -> None:
    """The rotated channels are pairs, at the front of a head."""
    require_even(head_dim, "head_dim")
    require_even(rotary_dim, "rotary_dim")
    if rotary_dim > head_dim:
        raise ValueError(
            f"rotary_dim is {rotary_dim}, but a head has {head_dim} channels: use a smaller one, "
            f"or None to rotate all of them"
        )


def kind(value: Any) -> str:
    """What an argument is, in words: "a range", "the class RoPE", "a tensor of shape (5,)"."""
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value)
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def require_tensor(value: Any, name: str, remedy: str) -> None:
    """An argument is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is {kind(value)}, where a tensor belongs: {remedy}")


def require_positions(pos: Tensor, x: Tensor | None = None, name: str = "pos") -> None:
    """Positions are (L,), or (B, L) if sequences of the batch differ: one for each vector of x (B, ..., L, d)."""
    require_tensor(pos, name, "use torch.arange(length), or torch.tensor(list(positions))")
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


def require_embedding(x: Tensor, pos: Tensor, model_dim: int) -> None:
    """What an encoding is added to has its dimension, and as many positions as vectors."""
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != model_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for (..., L, {model_dim}): "
            f"make it with model_dim={x.shape[-1] if x.ndim else 1}"
        )
    require_positions(pos, x)


def require_heads(value: int) -> None:
    """A number of heads is at least 1."""
    require_size(value, "heads", "the number of attention heads")


def require_size(value: int, name: str, meaning: str) -> None:
    """A size is at least 1; `meaning` says in words what is counted."""
    if not torch.compiler.is_exporting() and value < 1:
        raise ValueError(f"{name} is {value}: use {meaning}, 1 or more")


def require_same_heads(encoding: nn.Module, heads: int, q: Tensor) -> None:
    """An encoding with one parameter per head meets queries with as many heads."""
    if not torch.compiler.is_exporting() and q.shape[1] != heads:
        name = type(encoding).__name__
        raise ValueError(f"{name} was made for {heads} heads and q has {q.shape[1]}: make it with {name}({q.shape[1]})")


def require_broadcast(name: str, shape: Sequence[int], full: Sequence[int], meaning: str, remedy: str) -> None:
    """A shape broadcasts to the full one; `meaning` names the axes, such as "(B, H, Lq, Lk)"."""
    if torch.compiler.is_exporting():
        return
    if len(shape) > len(full) or any(m not in (1, n) for m, n in zip(shape[::-1], full[::-1], strict=False)):
        raise ValueError(
            f"{name} has shape {tuple(shape)}, which does not broadcast to {meaning} = {tuple(full)}: {remedy}"
        )
