"""How far apart two outputs are, or two keys in the eyes of a query, in units of the spread."""

from __future__ import annotations

import torch
from torch import Tensor


def spread(x: Tensor) -> float:
    """The root mean square about the mean, or 1 where there is no more than rounding."""
    spread = float((x - x.mean()).square().mean().sqrt())
    return spread if spread > rounding(x) else 1.0


def rounding(x: Tensor) -> float:
    return 1e3 * torch.finfo(x.dtype).eps * float(x.abs().max())


def change_of(actual: Tensor, expected: Tensor) -> Tensor:
    """By how much outputs differ, in units of the spread: (B, H, L, d) -> (L,), the largest of a position."""
    change = (actual - expected).abs() / spread(expected)
    return change.amax((0, 1, 3))


def clearly(change: Tensor) -> list[int]:
    """The first index with a change of half the largest or more: an example that rounding does not move."""
    where: list[int] = (change >= 0.5 * change.max()).nonzero()[0].tolist()
    return where


def most_varied(score: Tensor) -> tuple[int, int]:
    """The first content and head, of a score (C, H, ...), whose picture shows something."""
    c, h = clearly(score.flatten(2).std(-1, correction=0).nan_to_num())
    return c, h


class NotFinite(ArithmeticError):
    pass


def need_finite(*tensors: Tensor) -> None:
    if not all(x.isfinite().all() for x in tensors):
        raise NotFinite("there are numbers that are not finite")


def signature(score: Tensor, value: Tensor) -> Tensor:
    """All that a key shows, (keys, features): its scores (..., keys) and values (keys, ...), about their means."""
    need_finite(score, value)
    parts = []
    for part in (score.reshape(-1, score.shape[-1]).T, value.reshape(value.shape[0], -1)):
        about = part - part.mean(0)
        size = about.square().mean().sqrt()
        parts.append(about / size if size > rounding(part) else torch.zeros_like(part))
    return torch.cat(parts, 1)


def gaps_between(signature: Tensor) -> Tensor:
    """How far apart any two keys are, (keys, keys): the largest difference of a feature."""
    return torch.cdist(signature, signature, p=torch.inf)


def count_kinds(alike: Tensor) -> int:
    """Into how many kinds the keys fall: those that are like no key before them."""
    return int((~alike.tril(-1).any(1)).sum())


def nearest(alike: Tensor, distance: Tensor) -> tuple[int, int]:
    """The pair of look-alikes that is nearest to the query, given each key's distance from it."""
    i, j = alike.triu(1).nonzero().T
    order = torch.maximum(distance[i], distance[j]) * len(distance) + (j - i)  # nearest first, then closest together
    return int(i[order.argmin()]), int(j[order.argmin()])
