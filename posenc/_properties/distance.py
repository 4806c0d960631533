"""Measures of scores as functions of position and distance."""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor

from posenc._properties.differences import change_of, clearly, most_varied, need_finite
from posenc._properties.figures import overlay, picture_of
from posenc._properties.probe import FURTHEST, Probe, repeated
from posenc._properties.result import (
    FAILS,
    HOLDS,
    Measurement,
    above,
    as_power,
    not_measured,
    number,
    numbers,
    verdict_of,
)
from posenc._properties.sizes import NOT_FINITE

FAR = 10**12  # so far that a logarithm doubles: what has grown until then is unbounded
CLOSE = 1e-3  # of the spread: what float32 angles make of positions up to 1000 stays well below it


def bounded(p: Probe) -> Measurement:
    """Scores and values do not grow without end: up to 10^12 they stay below 1.5 times what they are up to 10^6."""
    reach = [10**n for n in range(1, 7)] + [FAR]
    if p.last_position < FURTHEST and p.beyond_last != NOT_FINITE:
        reach = [n for n in reach if n < p.last_position] + [p.last_position]
    sizes: dict[int, float] = {}
    blame = ""
    for end in reach:
        drawn = torch.randint(0, end + 1, (40,), generator=torch.Generator().manual_seed(2))
        pos = torch.cat((torch.tensor([0, end]), _spaced(end, 40), drawn)).unique()
        try:
            q, k, v = p.qkv_of_repeats(p.tokens(8), pos)
            score = p.scores(q, k, pos, pos)
            value = p.values(v[:1], pos[-1:], pos)
        except Exception:
            if end == FAR:  # beyond a million nothing has to run
                break
            raise
        if p.encoding.causal_only:
            score = score.masked_fill(pos[None, :] > pos[:, None], 0.0)
        if not (score.isfinite().all() and value.isfinite().all()):
            bad = (~score.isfinite()).nonzero()[:1, 2:].flatten().tolist()
            blame = f"the score of query {pos[bad[0]]} and key {pos[bad[1]]} is" if bad else f"a value up to {end} is"
            break
        sizes[end] = max(float(score.abs().max()), float(value.abs().max()))
    what = "The largest score or value against the reach of positions"
    curves = {"largest": torch.tensor([*sizes.values()])}
    draw = picture_of(
        overlay, curves, torch.tensor(list(sizes)), x="positions up to", y="largest", log_x=True, what=what
    )
    if blame:
        return Measurement(FAILS, math.inf, f"{blame} not finite", f"positions up to {as_power(end)}", draw)
    last = before = list(sizes)[-1]
    if last >= FURTHEST:
        before = FURTHEST if last == FAR else 1000
    growth = sizes[last] / (sizes[before] or 1.0)
    if growth <= 1.5:
        where = f"its positions, 0 to {last}" if last < FURTHEST else f"positions up to {as_power(last)}"
        finding = f"no score or value exceeds {above(sizes[last])} at {where}"
    else:
        finding = (
            f"the largest score or value grows from {number(sizes[before])} at positions up to {as_power(before)} to "
            f"{number(sizes[last])} at positions up to {as_power(last)}"
        )
    conditions = f"about 80 positions up to {as_power(last)}; the growth from {as_power(before)} on, at most 1.5"
    return Measurement(verdict_of(growth <= 1.5), growth, finding, conditions, draw)


def relative(p: Probe) -> Measurement:
    """Outputs for random tokens stay the same when all positions move by the same amount."""
    n = min(32, (p.last_position + 1) // 2)
    room = p.last_position + 1 - n
    if n < 1:
        return not_measured("there is one position only")
    drawn = torch.randint(2, 1000, (2,), generator=torch.Generator().manual_seed(7)).tolist()
    shifts = sorted({min(shift, room) for shift in (1, *drawn, 1000)})
    x, pos = p.random(2, n, p.model_dim, seed=8), torch.arange(n)
    modes = [True] if p.encoding.causal_only else [True, False]
    worst, first = 0.0, ""
    for shift, causal in product(shifts, modes):
        base, moved = p.layer(x, pos, causal=causal), p.layer(x, pos + shift, causal=causal)
        need_finite(base, moved)
        change = change_of(moved, base)
        if not first and float(change.max()) > CLOSE:
            (where,) = clearly(change)
            by = number(change[where])
            first = f"moved by {shift}, the output at position {where} changes by {by} of the spread"
        worst = max(worst, float(change.max()))
    by = ", ".join(map(str, shifts))
    finding = first or f"moved by {by}, outputs change by less than {CLOSE} of the spread"
    m = min(64, (p.last_position + 1) // 2)
    starts = sorted({0, min(100, p.last_position + 1 - m), min(1000, p.last_position + 1 - m)})
    scores = [p.all_scores(p.tokens(8), torch.arange(m) + start)[:, :, -1].flip(-1) for start in starts]  # (C, H, m)
    c, h = most_varied(scores[0])
    seen = {f"positions from {start}": score[c, h] for start, score in zip(starts, scores, strict=True)}
    what = "One head's scores against distance, with the sequence at several places"
    draw = picture_of(overlay, seen, torch.arange(m), x="distance", y="score", what=what)
    conditions = f"{n} tokens moved by {by}; the largest change of the spread, at most {CLOSE}"
    return Measurement(verdict_of(not first), worst, finding, conditions, draw)


def decays(p: Probe) -> Measurement:
    """The expected score of a key that equals the query never rises with its distance, in any head.

    The expectation is over tokens of every direction, and exact: the mean over ± the unit vectors of a head.
    """
    n = min(p.length, 512)
    if n < 2:
        return not_measured("there is one position only")
    pos, score = torch.arange(n), torch.zeros(p.heads, n, dtype=p.dtype)
    pick = torch.arange(p.heads * p.head_dim) % p.model_dim  # the projection of q, k and v: channels in their order
    for c in range(p.head_dim):
        unit = (torch.arange(p.model_dim) % p.head_dim == c).to(p.dtype) * p.head_dim**0.5
        x = p.encoding.embed(repeated(torch.stack((unit, -unit)), pos), pos)
        q = x[..., pick].unflatten(-1, (p.heads, p.head_dim)).transpose(1, 2)  # (2, H, n, d)
        q, k = p.encoding.query(q, pos), p.encoding.key(q, pos)
        score += p.scores(q[:, :, -1:], k, pos[-1:], pos)[:, :, 0].sum(0) / (2 * p.head_dim)
    score = score.flip(-1)  # (H, n), by distance
    need_finite(score)
    whole = float(score.max() - score.min())
    curves = {f"head {h}": score[h] for h in range(min(p.heads, 8))}
    if float((score - score[0]).abs().max()) <= 1e-9 * float(score.abs().max()):
        curves = {"all heads": score[0]}
    what = "The expected score against distance"
    draw = picture_of(overlay, curves, torch.arange(n), x="distance", y="expected score", alike=False, what=what)
    conditions = f"distances 0 to {n - 1}, all heads; the largest rise from one to the next, of the whole range"
    if whole <= 1e-9 * float(score.abs().max()):
        return Measurement(
            FAILS, 0.0, f"the expected score is {number(score[0, 0])} at every distance", conditions, draw
        )
    rise = score.diff(dim=1) / whole  # (H, n - 1)
    largest = float(rise.max())
    if largest <= p.tolerance:
        finding = f"it falls from {number(score[:, 0].mean())} at 0 to {number(score[:, -1].mean())} at {n - 1}"
        return Measurement(
            HOLDS, max(largest, 0.0), f"{finding}, on the mean of heads, and never rises", conditions, draw
        )
    where = int((rise > p.tolerance).any(0).nonzero()[0])
    h = int((rise[:, where] > p.tolerance).nonzero()[0])
    near = max(1, n // 16)
    before, after = numbers(score[h, where], score[h, where + 1])
    finding = (
        f"in head {h} it rises from {before} at {where} to {after} at {where + 1}; on the mean of heads it is "
        f"{number(score[:, :near].mean())} below {near} and {number(score[:, n // 2 :].mean())} from {n // 2} on"
    )
    return Measurement(FAILS, largest, finding, conditions, draw)


def unlimited(p: Probe) -> Measurement:
    """It runs at positions far beyond `length`; of how good it is there, only training tells."""
    ends = _spaced(max(p.last_position, 1), 60).unique()
    scores = [
        p.all_scores(p.tokens(8), torch.stack((end - 1, end)))[:, 0, 1, 0] for end in ends if end <= p.last_position
    ]
    shown = scores[0].topk(3).indices.tolist() if scores else []  # a score below 0 may be cut off
    curves = {f"token {n + 1}": torch.stack([score[c] for score in scores]) for n, c in enumerate(shown)}
    draw = picture_of(
        overlay,
        curves,
        ends,
        x="position of the query",
        y="score",
        log_x=True,
        alike=False,
        end=p.last_position,
        what="One head's score of the key just before the query, as far as it runs",
    )
    furthest = as_power(FURTHEST)
    finding = f"position {furthest} runs; whether it is any good beyond the lengths of training, only training shows"
    if p.last_position < FURTHEST:
        finding = f"position {p.last_position + 1} {p.beyond_last}"
    conditions = f"positions 0 and p, p up to {furthest}; the largest p that runs and is finite"
    return Measurement(verdict_of(p.last_position == FURTHEST), float(p.last_position), finding, conditions, draw)


def _spaced(end: int, count: int) -> Tensor:
    """Whole numbers from 1 to `end`, evenly in their logarithms."""
    return torch.logspace(0, math.log10(max(end, 1)), count, dtype=torch.float64).round().long().clamp(max=end)
