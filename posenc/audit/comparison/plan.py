"""Doing in the reference what the candidate does: some kinds of difference, or all of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posenc.audit.comparison.attention import Change, spread
from posenc.audit.comparison.maps import Map, unturned, with_pairs, with_rates
from posenc.audit.comparison.sides import Layer

ROTATION = frozenset({"layout", "partial", "base", "scaling", "layers", "direction", "unrotated", "rounding", "offset",
                      "axes"})  # fmt: skip


def change_of(ours: list[Layer], theirs: list[Layer], kinds: frozenset[str]) -> Change:
    """What becomes of the reference's scores if it differs from itself as the candidate does, in these kinds.

    Args:
        ours: The reference's layers at the text's positions.
        theirs: The candidate's.
        kinds: Which differences are done.
    """
    plans = [_layer(a, b, kinds) for a, b in zip(ours, theirs, strict=True)]

    def change(layer: int, q: Tensor, k: Tensor, scores: Tensor) -> Tensor:
        if layer >= len(plans) or plans[layer] is None:
            return scores
        a = ours[layer]
        mq, mk, scale, bias, cap = plans[layer]  # type: ignore[misc]
        q, k = q.to(torch.float64), k.to(torch.float64)
        if mq is not None:
            q = mq.apply(a.q.undone(q))
        if mk is not None:
            k = mk.apply(a.k.undone(k))
        product = scale * (q @ spread(k, q).mT)
        if cap:
            product = cap * torch.tanh(product / cap)
        return (product + bias).to(scores.dtype)

    return change


Plan = tuple[Map | None, Map | None, float, Tensor, float]


def _layer(a: Layer, b: Layer, kinds: frozenset[str]) -> Plan | None:
    """Maps of queries and keys (None: as they are), scale and bias; None where nothing changes."""
    mq, mk = (_map(one, other, kinds) for one, other in ((a.q, b.q), (a.k, b.k)))
    scale, bias = a.scale, a.bias
    if "amplitude" in kinds:
        scale = b.scale
        mq, mk = (_gained(m, one, other) for m, one, other in ((mq, a.q, b.q), (mk, a.k, b.k)))
    if kinds & {"window", "slopes", "buckets", "bias"}:
        bias = b.bias
    if mq is None and mk is None and scale == a.scale and bias is a.bias:
        return None
    return mq, mk, scale, bias, a.cap


def _map(a: Map, b: Map, kinds: frozenset[str]) -> Map | None:
    """The reference's map with what these kinds name from the candidate's; None where it stays."""
    if a.heads or b.heads:
        return _by_head(a, b, kinds)
    if a.problem or (b.problem and not b.mixed):
        return None
    if b.mixed:
        return replace(b, gain=a.gain) if kinds & {"layout", "direction"} else None
    mine = kinds & ROTATION
    if not mine:
        return None
    differs = _kinds(a, b)
    if differs and differs <= kinds:
        pairs = a.pairs[: len(b.pairs)] if b.permuted else b.pairs
        z = b.measured / b.gain * a.gain if len(b.pairs) else b.measured
        return replace(b, pairs=pairs, measured=z, gain=a.gain, through=a.through)
    m = a
    if a.turns and not b.turns:
        return unturned(a) if kinds & {"unrotated", "layers"} else None
    if b.turns and not a.turns:
        return replace(b, measured=b.measured / b.gain, gain=1.0, through=1.0) if "layers" in kinds else None
    if not a.turns:
        return None
    if "partial" in kinds and "partial" in differs:
        m = replace(a, pairs=b.pairs, slopes=b.slopes)
        if not kinds & {"base", "scaling", "layers"} and len(a.slopes) == len(b.slopes):
            m = replace(m, slopes=a.slopes)
        m = replace(m, measured=m.exact())
    elif "layout" in kinds and not b.permuted:
        m = with_pairs(m, b)
    if kinds & {"base", "scaling", "layers"}:
        both = "layers" in kinds
        m = with_rates(m, b, both or "base" in kinds, both or "scaling" in kinds)
    if "direction" in kinds and len(m.slopes) and float((m.slopes.sign()[:1] * b.slopes.sign()[:1]).sum()) < 0:
        m = replace(m, slopes=-m.slopes)
        m = replace(m, measured=m.exact())
    if "offset" in kinds and not b.own:
        m = replace(m, offset=b.offset)
        m = replace(m, measured=m.exact())
    return None if m is a else m


def _by_head(a: Map, b: Map, kinds: frozenset[str]) -> Map | None:
    """The same head by head."""
    if any(m.problem and not m.heads for m in (a, b)):
        return None
    many = len(a.heads or b.heads)
    ours, theirs = (m.heads or (m,) * many for m in (a, b))
    new = [_map(one, other, kinds) for one, other in zip(ours, theirs, strict=True)]
    if all(m is None for m in new):
        return None
    return replace(a, heads=tuple(m or one for m, one in zip(new, ours, strict=True)))


def _kinds(a: Map, b: Map) -> frozenset[str]:
    """Which kinds of `ROTATION` these two maps may differ in."""
    if a.turns != b.turns:
        return frozenset({"unrotated"}) if a.turns else frozenset({"layers"})
    if not a.turns or a.found is None or b.found is None:
        return frozenset()
    from posenc.audit.comparison.described import kinds_of

    return frozenset(kinds_of(a, b)) or frozenset({"rounding"})


def _gained(m: Map | None, a: Map, b: Map) -> Map | None:
    """A map with the candidate's gains; where nothing turns the gain is that of all channels."""
    if b.own or b.problem:
        return m
    m = a if m is None else m
    ratio = (b.gain if b.turns else b.through) / m.gain if m.turns else 1.0
    return replace(m, measured=m.measured * ratio, gain=m.gain * ratio, through=b.through)


def whole(ours: list[Layer], theirs: list[Layer]) -> Change:
    """What becomes of the reference's scores if its layers do all that other layers do."""

    def change(n: int, q: Tensor, k: Tensor, scores: Tensor) -> Tensor:
        if n >= len(ours) or ours[n] is theirs[n]:
            return scores
        a, b = ours[n], theirs[n]
        q, k = b.q.apply(a.q.undone(q.double())), b.k.apply(a.k.undone(k.double()))
        product = b.scale * (q @ spread(k, q).mT)
        product = b.cap * torch.tanh(product / b.cap) if b.cap else product
        return (product + b.bias).to(scores.dtype)

    return change
