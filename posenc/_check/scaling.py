"""Rotations for longer texts, and presets by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def known(name: str, names: Sequence[str]) -> None:
    """A name that is not known is often nearly one that is."""
    if name not in names:
        near = difflib.get_close_matches(name.lower(), names, n=5, cutoff=0.5) or sorted(names)
        raise ValueError(f"there is no preset {name!r}: use {', '.join(map(repr, near))}")


def _number(value: float | Tensor) -> bool:
    """Whether a value may be read; tensors may be traced, or live on a GPU."""
    return not isinstance(value, Tensor)


def factor(value: float | Tensor) -> None:
    """A context is extended by a factor."""
    if _number(value) and not 1 <= value < float("inf"):
        raise ValueError(
            f"factor is {value}, but it says how many times longer texts become: use 1 or more, such as 8.0"
        )


def trained(value: float | Tensor, above: float = 0) -> None:
    if _number(value) and not above < value < float("inf"):
        raise ValueError(
            f"trained is {value}, but it is the length of the texts in training, more than {above}: "
            f"use a number of tokens, such as 4096"
        )


def ordered(**bounds: float | Tensor) -> None:
    """Two bounds, the lower first, in turns within the trained length."""
    (low, a), (high, b) = bounds.items()
    if (_number(a) and not 0 < a < float("inf")) or (_number(b) and not 0 < b < float("inf")):
        raise ValueError(f"{low} is {a} and {high} is {b}, but they are turns within the trained length: use positive")
    if _number(a) and _number(b) and not a < b:
        raise ValueError(
            f"{low} is {a} and {high} is {b}: use {low} < {high}, since what turns more often keeps more of its "
            f"frequency"
        )


def yarn(freq: Tensor, form: str, length: float | Tensor, beta_fast: float | Tensor, beta_slow: float | Tensor) -> None:
    """The two forms of YaRN, and what they need."""
    if form not in ("paper", "code"):
        raise ValueError(f'form is {form!r}: use "paper" (a ramp over turns) or "code" (over the index)')
    trained(length)
    if form == "paper" or not (_number(beta_fast) and beta_fast == beta_slow and 0 < beta_fast < float("inf")):
        ordered(beta_slow=beta_slow, beta_fast=beta_fast)
    if form == "code" and not torch.compiler.is_exporting() and freq.shape[-1] < 2:
        raise ValueError(
            f'freq has shape {tuple(freq.shape)}, but form="code" reads the base from two frequencies: use form="paper"'
        )


def divisors(freq: Tensor, **lists: Tensor) -> None:
    """One divisor for each frequency."""
    if torch.compiler.is_exporting():
        return
    for name, value in lists.items():
        if value.shape != freq.shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, but freq has {tuple(freq.shape)}: "
                f"use one divisor for each pair"
            )


def fraction(value: float | Tensor) -> None:
    if _number(value) and not 0 <= value <= 1:
        raise ValueError(f"fraction is {value}, but it is a share of the pairs: use a number from 0 to 1, such as 0.75")
