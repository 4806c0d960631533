"""The measure of linearity: is a move by k a linear map?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from posenc._properties.differences import clearly, need_finite, rounding
from posenc._properties.figures import overlay, picture_of
from posenc._properties.probe import Probe, repeated
from posenc._properties.result import Measurement, not_measured, number, verdict_of

LINEAR = 2e-4  # of the spread: float32 angles leave 3e-5, and the smoothest curves that no map moves along 2e-3


def linear(p: Probe) -> Measurement:
    """What stands for position p + k is M_k times what stands for p, plus a constant, with one M_k for all p.

    For `embed` that is p_i, for `query` and `key` the turned vector (each head has its M_k, for all contents), for
    `score_bias`, `rescale` and `mix`, what a key shows to later queries of several contents, in all heads. M_k is
    fitted by least squares on half of the positions and judged on the other half.
    """
    n = min(p.last_position + 1, max(p.length, 4 * (p.model_dim + 2)), 2048)
    if n < 12:
        return not_measured(f"positions are too few, {n}, to fit a map")
    far = min(50, n // 4)
    groups = {door: x for door, x in _vectors(p, torch.arange(n)).items() if _moves(x).any()}
    if not groups:
        return not_measured("position enters no vector and no score")
    tries = [(door, *fit) for door, vectors in groups.items() for fit in _fits(vectors, (1, far))]
    sizes = [float(error.square().mean().sqrt()) for *_, error in tries]
    size = max(sizes)
    door, k, where, error = tries[sizes.index(size)]
    if size <= LINEAR:
        finding = (
            f"one map takes p to p + 1, another p to p + {far}, and each is off by less than {LINEAR} of the spread"
        )
    else:
        (first,) = clearly(error)
        start, by = int(where[first]), number(error[first])
        finding = f"no map takes p to p + {k} ({door}): the best one leads from {start} past {start + k} by {by}"
        finding += " of the spread"
    curves = {"error of the map": error.clamp(min=1e-17), "tolerance": torch.full_like(error, LINEAR)}
    what = f"The error of the best linear map at positions that it was not fitted on ({door})"
    draw = picture_of(
        overlay,
        curves,
        where,
        x=f"position p of p → p + {k}",
        y="error, of the spread",
        log_y=True,
        alike=False,
        what=what,
    )
    conditions = f"{n} positions, half of them for the fit, k = 1 and {far}; the error of the spread, at most {LINEAR}"
    return Measurement(verdict_of(size <= LINEAR), size, finding, conditions, draw)


def _vectors(p: Probe, pos: Tensor) -> dict[str, Tensor]:
    """What stands for a position at each open door, (groups, contents, positions, features): one map for a group."""
    n, doors, vectors = len(pos), p.encoding.doors, {}
    if "embed" in doors:
        x = repeated(p.tokens(2), pos)
        vectors["embed"] = (p.encoding.embed(x, pos) - x)[None]
    content = p.random(8, p.heads, 1, p.head_dim, seed=3).expand(-1, -1, n, -1)
    for door in ("query", "key"):
        if door in doors:
            vectors[door] = getattr(p.encoding, door)(content, pos).transpose(0, 1)
    if "score_bias" in doors or "rescale" in doors:
        q = p.random(p.head_dim + 2, p.heads, 1, p.head_dim, seed=4)  # enough to see all that is linear in a query
        k = p.random(1, p.heads, 1, p.head_dim, seed=5).expand(len(q), -1, n, -1)
        score = p.scores(q, k, pos[-1:], pos)  # (C, H, 1, L)
        vectors["score_bias" if "score_bias" in doors else "rescale"] = score.permute(2, 3, 0, 1).flatten(2)[None]
    if "mix" in doors:
        v = p.random(1, p.heads, 1, p.head_dim, seed=5).expand(-1, -1, n, -1)
        vectors["mix"] = p.values(v, pos[-1:], pos).flatten(1)[None, None]
    need_finite(*vectors.values())
    return vectors


def _moves(vectors: Tensor) -> Tensor:
    """How much each group varies with position, (groups,); 0 where that is no more than rounding."""
    size = (vectors - vectors.mean(2, keepdim=True)).square().mean((1, 2, 3)).sqrt()
    return size * (size > rounding(vectors))


def _fits(vectors: Tensor, steps: tuple[int, ...]) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For each step, the positions that were kept from the fit, and the error there of the worst group, of the spread.

    Least squares by the eigenvectors of x'x: those whose singular value is below 1e-6 of the largest are left out.
    """
    vectors = vectors[_moves(vectors) > 0].double()  # (groups, contents, positions, features)
    n = vectors.shape[2] - max(steps)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(6))
    fit, kept = order[: n // 2], order[n // 2 :].sort().values
    before = torch.cat((vectors, torch.ones_like(vectors[..., :1])), -1)
    x = before[:, :, fit].flatten(1, 2)
    value, basis = torch.linalg.eigh(x.mT @ x)
    inverse = torch.where(value > 1e-12 * value[:, -1:], 1 / value, 0.0)[:, None]
    for step in steps:
        M = (basis * inverse) @ (basis.mT @ (x.mT @ vectors[:, :, fit + step].flatten(1, 2)))
        error = before[:, :, kept] @ M[:, None] - vectors[:, :, kept + step]
        size = error.square().mean((1, 3)).sqrt() / _moves(vectors)[:, None]  # (groups, kept)
        yield step, kept, size[size.square().mean(1).argmax()]
