"""Which channels turn together: the partner of a channel is the one that explains it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification.given import Dump

SURE = 9.0  # how many times better (in squares) a partner must be than the next
PLACES = 12  # positions that are enough to find partners


@dataclass(frozen=True)
class Pairs:
    """Channels that turn together.

    Args:
        pairs: (i, j) with i < j, in the order of planes, as far as the pattern goes: which of them turn, angles say.
        layout: "interleaved", "half" or "other".
        words: How they lie, in words.
    """

    pairs: tuple[tuple[int, int], ...]
    layout: str
    words: str


def costs(dump: Dump) -> Tensor:
    """(d, d): what share of channel i's energy after is left unexplained by channels i and j before.

    With three vectors at a position, after is regressed on both before, position by position. With fewer, the joint
    energy of a pair has to be constant, whatever the angles are.
    """
    places, at = dump.places
    count = torch.bincount(at, minlength=len(places))
    many = (count >= 3).nonzero().flatten()
    left, all_of_it = torch.zeros(()), torch.zeros(())
    if len(many) >= 2:
        chosen = many[torch.linspace(0, len(many) - 1, min(PLACES, len(many))).round().long()]
        for p in chosen.tolist():
            x, y = dump.before[at == p], dump.after[at == p]
            g, c, s = x.T @ x, y.T @ x, y.square().sum(0)
            d = g.diagonal()
            own = c.diagonal()
            det = (d[:, None] * d[None] - g.square()).clamp(min=1e-9 * float(d.max()) ** 2)
            a = (own[:, None] * d[None] - c * g) / det
            b = (c * d[:, None] - own[:, None] * g) / det
            left = left + (s[:, None] - a * own[:, None] - b * c).clamp(min=0)
            all_of_it = all_of_it + s
        e = left / all_of_it.clamp(min=1e-30)[:, None]
        return torch.maximum(e, e.T)
    u, v = dump.after.square(), dump.before.square()
    uu, uv, vv = u.T @ u, u.T @ v, v.T @ v

    def joint(m: Tensor) -> Tensor:
        return m.diagonal()[:, None] + m.diagonal()[None] + m + m.T

    a, b, c = joint(uu), joint(vv), joint(uv)
    return (a - c.square() / b.clamp(min=1e-30)).clamp(min=0) / a.clamp(min=1e-30)


def changed(dump: Dump) -> Tensor:
    """(d,): whether a channel after differs from before by more than a common factor and rounding."""
    x, y = dump.before, dump.after
    m = (x * y).sum(0) / x.square().sum(0).clamp(min=1e-30)
    eps = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 3e-6}.get(dump.grain, 1e-12)
    off = (y - m * x).square().mean(0).sqrt()
    return off > eps * x.square().mean(0).sqrt().clamp(min=1e-30)


def pairs_of(dump: Dump) -> Pairs:
    """The pairs of a dump; raises Unfit where no channel has a partner."""
    d = dump.before.shape[1]
    moved = changed(dump)
    if not bool(moved.any()):
        same = float((dump.after - dump.before).abs().max()) < 1e-3 * float(dump.before.abs().max())
        raise Unfit(
            "no channel turns: after is before" + ("" if same else " times a factor") + ". Is this before and after "
            "the rotation, in a layer that rotates, at positions other than 0?"
        )
    e = costs(dump).masked_fill(torch.eye(d, dtype=torch.bool), float("inf"))
    e = e.masked_fill(~(moved[:, None] & moved[None]), float("inf"))
    best, partner = e.min(1)
    rest = e.scatter(1, partner[:, None], float("inf")).min(1).values
    floor = {torch.bfloat16: 1e-4, torch.float16: 1e-6, torch.float32: 1e-12}.get(dump.grain, 1e-14)
    sure = (SURE * (best + floor) < rest) & moved & best.isfinite() & (best < 0.05)
    found = sorted(
        (i, j) for i, j in enumerate(partner.tolist())
        if i < j and int(partner[j]) == i and bool(sure[i]) and bool(sure[j])
    )  # fmt: skip
    if not found:
        if int(moved.sum()) == 2:  # a single pair has no rival
            i, j = moved.nonzero().flatten().tolist()
            if float(e[i, j]) < 0.05:
                return Pairs(
                    ((i, j),),
                    "interleaved" if j == i + 1 else "half",
                    "one pair: with two channels both layouts are one",
                )
        raise Unfit(_none_found(dump, e))
    return _pattern(found, d)


def _pattern(found: list[tuple[int, int]], d: int) -> Pairs:
    """The layout of pairs that were seen, continued to the end of its block or of the head."""
    apart = {j - i for i, j in found}
    if apart == {1} and len({i % 2 for i, _ in found}) == 1:
        start = found[0][0]
        whole = [(i, i + 1) for i in range(start, d - 1, 2)]
        return Pairs(tuple(whole), "interleaved", "interleaved")
    if len(apart) == 1:
        h = apart.pop()
        start = min(found[0][0], d - 2 * h) if 2 * h <= d else found[0][0]
        if found[-1][0] < start + h:
            whole = [(i, i + h) for i in range(start, start + h) if i + h < d]
            return Pairs(tuple(whole), "half", "half")
    return Pairs(tuple(found), "other", _words(found))


def _words(found: list[tuple[int, int]]) -> str:
    """How pairs of another pattern lie."""
    apart, sums = {j - i for i, j in found}, {i + j for i, j in found}
    if len(sums) == 1:
        return f"mirrored: channels i and {sums.pop()} - i"
    if len(apart) == 1:
        h = apart.pop()
        starts = [i for i, _ in found if (i - h, i) not in found and (i - 1, i - 1 + h) not in found]
        if len(starts) > 1:
            return (
                f"half within each of {len(starts)} blocks of {2 * h} channels, from {', '.join(map(str, starts))} on"
            )
        return f"partners {h} apart"
    return "no pattern that has a name"


def _none_found(dump: Dump, e: Tensor) -> str:
    """Why no channel has a partner, and what to do."""
    places, at = dump.places
    if len(places) < 3 or len(dump.before) < 6:
        return (
            f"{len(dump.before)} vectors at {len(places)} different positions are too few to tell which channels turn "
            f"together: give 8 positions or more"
        )
    added = dump.after - dump.before
    if len(dump.before) > len(places):
        first = torch.zeros(len(places), dtype=torch.long).scatter_(0, at, torch.arange(len(at)))
        if float((added - added[first[at]]).abs().max()) < 1e-3 * float(added.abs().max()):
            return "the same is added to all vectors of a position: a table of positions, and no rotation"
    if float(e.min()) > 0.05:
        return (
            "this is no rotation: no pair of channels explains what comes after. Give q or k directly before and "
            "after the rotation, the same heads in the same order, without norm or projection between"
        )
    return (
        "channels change, and which belong together cannot be told: a gain or a norm lies between before and after, or "
        "rounding hides it. Give q or k directly before and after the rotation, in float32, of several heads"
    )
