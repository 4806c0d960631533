"""Does each layer do what the configuration says of it: rotate or not, by which angles, and how far it sees?

The other questions see logits, to which all layers add up. This one looks into attention that is written in torch: at
the queries of a text that repeats one token, which differ by position alone, and at which keys a score is hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused
from posenc.audit.checks import Outcome, check
from posenc.audit.comparison.attention import Attention, Seen, words
from posenc.audit.comparison.maps import map_of
from posenc.audit.probe import Probe
from posenc.configs import Reading

FAINT = 1e-4  # over the length of a query: more is a turn, and no rounding


@dataclass(frozen=True)
class Layered:
    """What the configuration says of one layer, or what was seen of it.

    Args:
        kind: As `posenc.configs` calls it, such as "full" or "sliding".
        turns: Whether queries are rotated; None where nobody knows.
        rates: By how much pairs of channels turn from one position to the next, in radians, the fastest first; empty
            where nobody knows.
        back: How many tokens back it sees; None for all, -1 where nobody knows.
        ahead: How many tokens ahead.
    """

    kind: str
    turns: bool | None
    rates: tuple[float, ...] = ()
    back: int | None = -1
    ahead: int | None = -1


def layers_of(reading: Reading) -> tuple[Layered, ...]:
    """What a configuration says of the layers that attend; nothing where it leaves one of them open."""
    out = []
    frequencies = reading.at(24).frequencies
    both = any(layer.both_sides for layer in reading.layers)
    mixed = any(layer.window for layer in reading.layers)  # where no window is read, a class may have one all the same
    for layer in reading.layers:
        if layer.kind in ("linear", "mlp"):
            continue
        if layer.kind in ("compressed", "cross"):
            return ()
        rates = tuple(frequencies.get(layer.rotation, ())) if layer.rotation is not None else ()
        turns = layer.rotation is not None if reading.rotations else None
        back = layer.back if layer.kind == "sliding" or (layer.kind == "full" and mixed) else -1
        out.append(Layered(layer.kind, turns, rates, back, back if both else -1))
    return tuple(out)


@check("each layer: does it turn, and see, as the configuration says?")
def schedule(p: Probe) -> Outcome:
    """How many layers do not."""
    if not p.layers:
        raise Refused("no configuration says what each layer does")
    seen = _seen(p)
    if len(seen) != len(p.layers):
        raise Refused(f"{len(seen)} layers were seen to attend in torch, and the configuration has {len(p.layers)}")
    wrong = []
    for n, (want, got) in enumerate(zip(p.layers, seen, strict=True)):
        for of in _unlike(want, got, p.n):
            wrong.append({"layer": n, "of": of, "wanted": want, "seen": got})
    return Outcome(float(len({each["layer"] for each in wrong})), details={"wrong": wrong, "seen": seen})


def _seen(p: Probe) -> list[Layered]:
    with Attention(p.n) as turning:
        p.alone(words(p.low, p.adapter.vocabulary, p.n).to(p.device))
    with Attention(p.n) as looking:
        p.alone(p.x)
    out = []
    for still, looked in zip(turning.layers, looking.layers, strict=False):
        turns, rates = _turn(still)
        back, ahead = _window(looked.scores)
        out.append(Layered("", turns, rates, back, ahead))
    return out


def _turn(seen: Seen) -> tuple[bool, tuple[float, ...]]:
    """Whether queries turn with their position, and how fast each pair of channels does, where that can be told."""
    q = seen.q.detach().flatten(0, 1).double().cpu()  # (B · H, L, d)
    q = q / q.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    if float((q - q[:, :1]).abs().max()) < FAINT:
        return False, ()
    found = map_of(q[:, :1].expand_as(q), q, torch.arange(q.shape[1]))
    if found.problem or found.found is None or found.found.residual > 1e-3:
        return True, ()
    return True, tuple(sorted(found.slopes.abs().tolist(), reverse=True))


def _window(scores: Tensor) -> tuple[int, int]:
    """How far back and ahead queries see; -1 for both where they see no band of keys, but some that were selected."""
    see = (scores > -math.inf).any(0).any(0).cpu()
    where = torch.arange(len(see))
    apart = where[:, None] - where[None]
    if not bool(see.any()):
        return -1, -1
    back, ahead = int(apart[see].max()), int(-apart[see].min())
    return (back, ahead) if bool((see == ((apart <= back) & (apart >= -ahead))).all()) else (-1, -1)


def _unlike(want: Layered, got: Layered, n: int) -> list[str]:
    """In what they differ: "turns", "rates", "back", "ahead"."""
    out = []
    if want.turns is not None and want.turns != got.turns:
        out.append("turns")
    elif want.rates and got.rates and _apart(want.rates, got.rates):
        out.append("rates")
    for name in ("back", "ahead"):
        wanted, there = getattr(want, name), getattr(got, name)
        far = n - 1 if wanted is None else min(wanted, n - 1)
        if -1 not in (wanted, there) and there != far:
            out.append(name)
    return out


def _apart(wanted: tuple[float, ...], seen: tuple[float, ...]) -> bool:
    """Whether pairs turn at other rates; rates that are too slow to be seen in a short text count as equal."""
    if len(wanted) < len(seen):
        return True
    pairs = zip(sorted(wanted, reverse=True), (*seen, *[0.0] * (len(wanted) - len(seen))), strict=True)
    return any(abs(a - b) > 0.02 * a + 1e-4 for a, b in pairs)
