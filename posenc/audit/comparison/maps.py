"""What a layer does to its queries or keys at each position: pairs that turn, and channels that pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification import pairs
from posenc.audit.identification.asked import rotation_and_lines
from posenc.audit.identification.given import Dump, coarsest
from posenc.audit.identification.rotation import FoundRotation


@dataclass(frozen=True)
class Map:
    """The map from an unrotated vector to what meets the other side, at given positions.

    Args:
        found: The rotation in words; None where nothing turns.
        pairs: (h, 2).
        slopes: (h,) with sign, in radians per position.
        offset: What is added to positions.
        gain: Of channels that turn.
        through: Of channels that pass.
        measured: (L, h) complex, what was measured at `positions`, gain included.
        positions: (L,).
        problem: Why it is no rotation, where that is so.
        own: Whether it is told from the side's own first place, and not from the other side's: then gain and offset
            are not known.
        permuted: Whether the channels before are the other side's in another order.
        order: Then where each channel of the other side is, where all heads have one order.
        mixed: Then, for each channel, its partner (d,) and what it and the partner are multiplied by, (L, d) each.
        heads: A map for each head, where there is none for all.
    """

    found: FoundRotation | None
    pairs: Tensor
    slopes: Tensor
    offset: float
    gain: float
    through: float
    measured: Tensor
    positions: Tensor
    problem: str = ""
    mixed: tuple[Tensor, Tensor, Tensor] | None = None
    own: bool = False
    permuted: bool = False
    order: tuple[int, ...] = ()
    heads: tuple[Map, ...] = ()

    @property
    def turns(self) -> bool:
        return len(self.pairs) > 0

    def exact(self) -> Tensor:
        """(L, h): the multipliers of the lines."""
        angle = (self.positions[:, None] + self.offset) * self.slopes
        return torch.polar(torch.full_like(angle, self.gain), angle)

    def apply(self, x: Tensor, measured: bool = True) -> Tensor:
        """x (…, L, d), unrotated, as it comes out; x (B, H, L, d) where there are heads."""
        if self.heads:
            return torch.stack([m.apply(x[:, h], measured) for h, m in enumerate(self.heads)], 1)
        if self.mixed is not None:
            partner, own, other = self.mixed
            return own.to(x) * x + other.to(x) * x[..., partner]
        return turned(x, self.pairs, self.measured if measured else self.exact(), self.through)

    def undone(self, y: Tensor) -> Tensor:
        """y (…, L, d) as it was before; y (B, H, L, d) where there are heads."""
        if self.heads:
            return torch.stack([m.undone(y[:, h]) for h, m in enumerate(self.heads)], 1)
        return turned(y, self.pairs, 1 / self.measured, 1 / self.through)


def turned(x: Tensor, chosen: Tensor, z: Tensor, through: float) -> Tensor:
    y = through * x
    if len(chosen):
        i, j = chosen.T.to(x.device)
        c, s = z.real.to(x), z.imag.to(x)
        a, b = x[..., i], x[..., j]
        y[..., i], y[..., j] = a * c - b * s, a * s + b * c
    return y


def map_of(before: Tensor, after: Tensor, positions: Tensor) -> Map:
    """The map of vectors (M, L, d) before and after.

    Where nothing turns there are no pairs; where what is done is no rotation, `problem` says so.
    """
    m, length, d = before.shape
    pos = positions.double()
    x, y = before.double(), after.double()
    still = float((x * y).sum() / x.square().sum().clamp(min=1e-30))
    none = torch.zeros(0, 2, dtype=torch.long)
    empty = torch.zeros(length, 0, dtype=torch.complex128)
    if float((y - still * x).abs().max()) < 3e-5 * max(abs(still), 1e-9) * float(x.abs().max()):
        return Map(None, none, torch.zeros(0, dtype=torch.float64), 0.0, still, still, empty, pos)
    dump = Dump(x.reshape(-1, d), y.reshape(-1, d), pos[None, :, None].expand(m, length, 1).reshape(-1, 1), coarsest(y))
    try:
        found, seen, lines = rotation_and_lines(dump)
    except Unfit as error:
        rates = torch.zeros(0, dtype=torch.float64)
        return Map(None, none, rates, 0.0, 1.0, 1.0, empty, pos, str(error), _mixed(x, y, dump))
    count = {pair: n for n, pair in enumerate(seen.pairs)}
    order = torch.tensor([count[pair] for pair in found.pairs])
    chosen = torch.tensor(found.pairs)
    i, j = chosen.T
    u, v = torch.complex(x[..., i], x[..., j]), torch.complex(y[..., i], y[..., j])
    z = (u.conj() * v).sum(0) / u.abs().square().sum(0).clamp(min=1e-30)
    rest = torch.ones(d, dtype=torch.bool)
    rest[chosen.flatten()] = False
    passed = (
        float((x[..., rest] * y[..., rest]).sum() / x[..., rest].square().sum())
        if bool(rest.any())
        else found.amplitude
    )
    return Map(found, chosen, lines.slopes[order], found.offset, float(lines.gain[order].median()), passed, z, pos)


def named_map(found: FoundRotation) -> Map:
    """The map of a rotation that was recognised, at positions from 0 to 32."""
    pos, rates = torch.arange(33, dtype=torch.float64), torch.tensor(found.frequencies, dtype=torch.float64)
    slopes = rates * (found.direction or 1)
    z = torch.polar(
        torch.full((33, len(rates)), found.amplitude, dtype=torch.float64), (pos[:, None] + found.offset) * slopes
    )
    return Map(found, torch.tensor(found.pairs), slopes, found.offset, found.amplitude, 1.0, z, pos)


def _mixed(x: Tensor, y: Tensor, dump: Dump) -> tuple[Tensor, Tensor, Tensor] | None:
    """What each channel and its best partner are multiplied by, place by place; None where that explains little."""
    if len(x) < 3:
        return None
    e = pairs.costs(dump)
    partner = e.masked_fill(torch.eye(len(e), dtype=torch.bool), math.inf).argmin(1)
    u = x[..., partner]
    xx, uu, xu = x.square().sum(0), u.square().sum(0), (x * u).sum(0)
    yx, yu = (y * x).sum(0), (y * u).sum(0)
    det = (xx * uu - xu.square()).clamp(min=1e-30)
    own, other = (yx * uu - yu * xu) / det, (yu * xx - yx * xu) / det
    left = float((y - own * x - other * u).square().mean() / y.square().mean().clamp(min=1e-30))
    return (partner, own, other) if left < 1e-6 else None


def with_pairs(of: Map, pairs_of: Map) -> Map:
    """The rates of one map on the pairs of another; as many planes as both have."""
    h = min(len(of.pairs), len(pairs_of.pairs))
    out = replace(of, pairs=pairs_of.pairs[:h], slopes=of.slopes[:h])
    return replace(out, measured=out.exact())


def with_rates(of: Map, rates_of: Map, base: bool = True, scaling: bool = True) -> Map:
    """The pairs of one map with the rates of another, as many planes as both have.

    Args:
        of: Whose pairs and direction stay.
        rates_of: Whose rates are taken.
        base: Whether its base is.
        scaling: Whether its scaling is; with one of the two, the other stays as it was, where bases are known.
    """
    h = min(len(of.pairs), len(rates_of.pairs))
    mine, theirs = of.slopes[:h].abs(), rates_of.slopes[:h].abs()
    plain = [_plain(of, h), _plain(rates_of, h)]
    if base != scaling and plain[0] is not None and plain[1] is not None:
        theirs = plain[1] * (mine / plain[0]) if base else plain[0] * (theirs / plain[1])
    out = replace(of, pairs=of.pairs[:h], slopes=theirs * way(of)[:h])
    return replace(out, measured=out.exact())


def _plain(m: Map, planes: int) -> Tensor | None:
    """The frequencies of its base before scaling; None where the base is not known."""
    if m.found is None or m.found.base is None:
        return None
    return m.found.base ** (-2 * torch.arange(planes, dtype=torch.float64) / m.found.rotary_dim)


def way(of: Map) -> Tensor:
    """(h,): -1 where a plane turns the other way, else 1."""
    return torch.where(of.slopes < 0, -1.0, 1.0).double()


def unturned(of: Map) -> Map:
    """The same without its rotation."""
    return replace(of, pairs=of.pairs[:0], slopes=of.slopes[:0], measured=of.measured[:, :0])
