"""Measures of separation: are positions, points of a grid and orders of tokens distinguishable?"""

from __future__ import annotations

import torch

from posenc._properties.differences import (
    change_of,
    count_kinds,
    gaps_between,
    most_varied,
    nearest,
    need_finite,
    signature,
)
from posenc._properties.figures import overlay, picture_of, square
from posenc._properties.probe import Probe
from posenc._properties.result import Measurement, not_measured, number, of_kinds, verdict_of


def unique(p: Probe) -> Measurement:
    """One query, the same token everywhere: no two keys show it the same scores and the same values."""
    n = min(p.length, 1024)
    at = p.query_index(n)
    gaps = gaps_between(signature(*p.scores_and_values(p.tokens(8), torch.arange(n), at)))
    if n < 2:
        return not_measured("there is one position only")
    alike = gaps <= 0.1 * p.tolerance
    known, middle, least = count_kinds(alike), at, 0.0
    if known == n:
        least = float(gaps[~torch.eye(n, dtype=torch.bool)].min())
        finding = f"the query at {at} tells all {n} keys apart; any two differ by {number(least)} of the spread or more"
    else:
        i, j = nearest(alike, (torch.arange(n) - at).abs())
        middle = (i + j) // 2 if abs(i - at) > 40 else at
        finding = f"the query at {at} cannot tell key {i} from key {j}; {of_kinds(known, f'its {n} keys')}"
    start = max(0, min(middle - 40, n - 81))
    window = gaps[start : start + 81, start : start + 81]
    what = "How different any two keys look to one query"
    draw = picture_of(square, window, x="key", y="key", unit="difference, of the spread", start=start, what=what)
    conditions = (
        f"keys 0 to {n - 1}, 8 tokens, alike within {0.1 * p.tolerance:.0e} of the spread; the smallest difference"
    )
    return Measurement(verdict_of(known == n), least, finding, conditions, draw)


def grid(p: Probe) -> Measurement:
    """Applied to each axis of a grid, with channels of their own and scores added, it tells all points apart."""
    n = min(16, p.length)
    at = p.query_index(n)
    tokens, pos = p.tokens(16), torch.arange(n)
    (down, down_value), (right, right_value) = (p.scores_and_values(part, pos, at) for part in (tokens[:8], tokens[8:]))
    score = down[..., :, None] + right[..., None, :]  # (8, H, n, n)
    shape = (n, n, *down_value.shape[1:])
    value = torch.cat((down_value[:, None].expand(shape), right_value[None].expand(shape)), -1)
    gaps = gaps_between(signature(score.flatten(2), value.flatten(0, 1)))
    if n < 2:
        return not_measured("there is one position only")
    alike = gaps <= 0.1 * p.tolerance
    known = count_kinds(alike)
    points = torch.cartesian_prod(pos, pos)
    seen = (score - score[..., at, at][..., None, None])[most_varied(score)]
    what = f"One head's score of each point of a grid, seen from ({at}, {at}), less that of the query's own point"
    draw = picture_of(square, seen, x="column", y="row", unit="score", scale="diverging", mark=at, what=what)
    conditions = (
        f"a grid of {n} by {n}, 8 tokens, alike within {0.1 * p.tolerance:.0e} of the spread; points told apart"
    )
    if known < n * n:
        a, b = (tuple(points[m].tolist()) for m in nearest(alike, (points - at).abs().sum(1)))
        finding = f"the query at ({at}, {at}) cannot tell {a} from {b}; {of_kinds(known, f'its {n * n} points')}"
    elif p.encoding.causal_only:
        finding = "it is made for keys behind the query, and of those before a point of a grid some lie to its right"
    else:
        finding = f"the query at ({at}, {at}) tells all {n * n} points apart"
    holds = known == n * n and not p.encoding.causal_only
    return Measurement(verdict_of(holds), float(known), finding, conditions, draw)


def ordered(p: Probe) -> Measurement:
    """Without a mask, shuffled tokens get other outputs than their old ones, shuffled."""
    n = min(16, p.length)
    if p.encoding.causal_only:
        return not_measured("it is made for keys behind the query, so a mask hides the others")
    if n < 2:
        return not_measured("there is one position only")
    x, pos = p.random(1, n, p.model_dim, seed=10), torch.arange(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(11))
    straight = p.layer(x, pos, causal=False)
    shuffled = p.layer(x[:, order], pos, causal=False)[:, :, order.argsort()]
    reversed_ = p.layer(x.flip(1), pos, causal=False).flip(2)
    need_finite(straight, shuffled, reversed_)
    change = float(change_of(shuffled, straight).max())
    if change <= p.tolerance:
        finding = f"{n} tokens in another order get the same outputs in that order"
    elif float(change_of(reversed_, straight).max()) <= p.tolerance:
        finding = f"outputs change by up to {number(change)} of the spread, but not if the order is reversed"
    else:
        finding = f"outputs change by up to {number(change)} of the spread"
    curves = {"in order": straight[0, 0, :, 0], "shuffled, and put back": shuffled[0, 0, :, 0]}
    draw = picture_of(overlay, curves, pos, x="token", y="output", what="One channel of the output, without a mask")
    conditions = f"{n} tokens, causal=False; the largest change of the spread, more than {p.tolerance}"
    return Measurement(verdict_of(change > p.tolerance), change, finding, conditions, draw)
