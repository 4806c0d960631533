"""How each pair turns: its angle at each position, and the line through them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification.given import Dump
from posenc.audit.identification.pairs import Pairs

WINDOW = 33  # positions, close together, from which a first slope is taken


OUT_OF_PLACE = (
    "pairs of channels turn, but not in proportion to the positions that were given: are these the positions of these "
    "rows? Shuffled rows, padding that is not counted, and several axes of which one is given look like this"
)


@dataclass(frozen=True)
class Phases:
    """Lines of angle against position, a plane each.

    Args:
        slopes: (h,) radians per position, with their sign.
        spread: (h,) what the slope may be off, three times the standard error.
        start: (h,) the angle at position 0, from -π to π.
        axis: (h,) which axis of positions turns a plane.
        gain: (h,) what lengths are multiplied by.
        growth: (h,) by how much the logarithm of the gain grows per position: 0 but for xPos.
        noise: (h,) by how much angles miss their line, root mean square, at near positions.
        step: Slopes are known up to 2π over this distance of positions.
    """

    slopes: Tensor
    spread: Tensor
    start: Tensor
    axis: Tensor
    gain: Tensor
    growth: Tensor
    noise: Tensor
    step: float


def phases_of(dump: Dump, pairs: Pairs) -> Phases:
    """Fits a line to the angles of each pair.

    Raises:
        Unfit: If a pair does not turn rigidly, or positions are too few or too far apart.
    """
    places, at = dump.places
    if len(places) < 3:
        raise Unfit(
            f"there are {len(places)} different positions: give 3 or more, better 16, to tell rates from offsets"
        )
    i, j = (torch.tensor(each) for each in zip(*pairs.pairs, strict=True))
    x, y = torch.complex(dump.before[:, i], dump.before[:, j]), torch.complex(dump.after[:, i], dump.after[:, j])
    turned = _sums(x.conj() * y, at, len(places))
    size = _sums(x.abs().square(), at, len(places)).real.clamp(min=1e-30)
    z = turned / size  # (P, h)
    _check_rigid(pairs, x, y, z, at)
    gain, growth = _gains(z, places)
    angle = z.angle()
    found = [_lines(angle, places[:, a]) for a in range(places.shape[1])]
    if len(found) == 1:
        axis = torch.zeros(len(i), dtype=torch.long)
    else:
        axis = torch.stack([each[3] for each in found]).argmin(0)
    slopes, spread, start, noise = (
        torch.stack(each).gather(0, axis[None])[0] for each in zip(*(each[:4] for each in found), strict=True)
    )
    if float(noise.median()) > 0.7:
        raise Unfit(OUT_OF_PLACE)
    return Phases(slopes, spread, start, axis, gain, growth, noise, max(each[4] for each in found))


def _sums(value: Tensor, at: Tensor, places: int) -> Tensor:
    out = torch.zeros(places, value.shape[1], dtype=torch.complex128)
    return out.index_add_(0, at, value.to(torch.complex128))


def _check_rigid(pairs: Pairs, x: Tensor, y: Tensor, z: Tensor, at: Tensor) -> None:
    """Each pair is multiplied by one complex number at each position."""
    left = (y - z[at] * x).abs().square().sum(0) / y.abs().square().sum(0).clamp(min=1e-30)
    if float(left.median()) < 0.02:
        return
    turned = _sums(x * y, at, len(z)) / _sums(x.abs().square(), at, len(z)).real.clamp(min=1e-30)
    mirrored = (y - turned[at] * x.conj()).abs().square().sum(0) / y.abs().square().sum(0).clamp(min=1e-30)
    if float(mirrored.median()) < 0.02:
        raise Unfit(
            "pairs are mirrored and not turned: (a, b) becomes (a cos + b sin, a sin - b cos). One sign is wrong: "
            "use (a cos - b sin, a sin + b cos)"
        )
    raise Unfit(
        f"this is no rotation, though channels act in pairs ({pairs.words}): the two channels of a pair are multiplied "
        f"by cosines of different angles. Cosines are arranged for one layout and partners for the other: with "
        f"partners half a head apart use cat((angle, angle), -1), with neighbours repeat_interleave(angle, 2, -1)"
    )


def _gains(z: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The gain of each plane at position 0, and the growth of its logarithm."""
    log = z.abs().clamp(min=1e-12).log()
    p = places[:, :1] - places[:, :1].mean()
    growth = (p * log).sum(0) / p.square().sum().clamp(min=1e-30)
    left = log - log.mean(0) - growth * p
    span = float(places[:, 0].max() - places[:, 0].min())
    rms, change = left.square().mean(0).sqrt(), growth.abs() * span
    steady = (change < 10 * rms + 1e-9) | ((change < 6e-3) & (rms > 1e-5))  # tables of 16 bits drift, too
    if float((~steady).double().mean()) < 0.25:
        steady = torch.ones_like(steady)
    growth = torch.where(steady, torch.zeros_like(growth), growth)
    return torch.where(steady, z.abs().mean(0), (log.mean(0) - growth * places[:, 0].mean()).exp()), growth


def _lines(angle: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Slopes, spreads, starts and misfits (h,) of the lines through angles (P, h) that are known up to 2π."""
    order = pos.argsort()
    p, a = pos[order], angle[order]
    different = torch.unique(p)
    if len(different) < 2:
        h = angle.shape[1]
        return torch.zeros(h), torch.full((h,), math.inf), angle.mean(0), torch.full((h,), 9.0), math.inf
    near = _densest(p, float((different[1:] - different[:-1]).min()))
    step = _step(torch.unique(p[near]))
    slope = _coarse(a[near], p[near], step)
    inside = torch.zeros(len(p), dtype=torch.bool)
    inside[near] = True
    start, slope, noise, spread = _refined(a, p, inside, slope)
    quiet = noise
    while not bool(inside.all()):
        centre = p[inside].mean()
        reach = (0.8 / (spread + 1e-15 + 2e-16 * slope.abs())).min()
        nearest = (p - centre).abs().masked_fill(inside, float("inf")).min()
        if nearest > reach:
            break
        inside = inside | (
            (p - centre).abs() <= max(float(nearest), min(float(reach), 4 * float((p[inside] - centre).abs().max())))
        )
        start, slope, noise, spread = _refined(a, p, inside, slope)
    return slope, spread, start, quiet, step


def _densest(p: Tensor, gap: float) -> slice:
    """Positions from which a first slope is taken: as many as follow one another with few gaps.

    Two groups far apart would leave slopes open that turn by 2π between them.
    """
    for count in (WINDOW, 24, 16, 12, 8, 6, 4, 3):
        if count > len(p) and count > 3:
            continue
        width = min(count, len(p)) - 1
        spans = p[width:] - p[: len(p) - width]
        begin = int(spans.masked_fill(spans == 0, float("inf")).argmin())
        if float(spans[begin]) <= 3 * width * gap or count == 3:
            break
    return slice(begin, begin + width + 1)


def _step(p: Tensor) -> float:
    """The distance of which all distances are multiples, if they are whole; else the least one."""
    gaps = p[1:] - p[:-1]
    if bool(((gaps - gaps.round()).abs() < 1e-9).all()):
        return float(math.gcd(*[int(g) for g in gaps.round().tolist()]))
    return float(gaps.min())


def _coarse(a: Tensor, p: Tensor, step: float) -> Tensor:
    """The slopes (h,) at which angles agree best, from -π/step to π/step."""
    span = float(p[-1] - p[0])
    count = int(8 * span / step) + 9
    if count > 200_000:
        raise Unfit("positions are too far from one another to tell how often pairs turned between: give 8 that follow")
    grid = torch.linspace(-math.pi / step, math.pi / step, count, dtype=torch.float64)
    turn = torch.polar(torch.ones(count, len(p), dtype=torch.float64), -grid[:, None] * p)
    return grid[(turn @ torch.polar(torch.ones_like(a), a)).abs().argmax(0)]


def _refined(a: Tensor, p: Tensor, inside: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least squares around slopes that are nearly right: start, slope, misfit and spread."""
    q, b = p[inside], a[inside]
    centre = q.mean()
    for _ in range(3):
        turned = torch.polar(torch.ones_like(b), b - slope * (q - centre)[:, None])
        middle = turned.mean(0).angle()
        left = (turned * torch.polar(torch.ones_like(middle), -middle)).angle()
        change = ((q - centre)[:, None] * left).sum(0) / (q - centre).square().sum()
        slope = slope + change
    left = left - change * (q - centre)[:, None] - left.mean(0)
    noise = left.square().mean(0).sqrt()
    free = max(len(q) - 2, 1)
    spread = 3 * (left.square().sum(0) / free / (q - centre).square().sum()).sqrt() + 1e-15 / float(
        (q - centre).abs().max()
    )
    start = middle + left.mean(0) - slope * centre
    return torch.remainder(start + math.pi, 2 * math.pi) - math.pi, slope, noise, spread


def unfolded(p: Phases) -> Tensor:
    """Slopes (h,) beyond π/step: where slow planes are a geometric series, fast ones are taken to go on with it.

    Positions that are `step` apart show angles per position up to 2π/step only.
    """
    w, h = p.slopes, len(p.slopes)
    slow = torch.arange(h) >= h // 2
    f = w.abs().clamp(min=1e-300).log()
    t = torch.arange(h, dtype=torch.float64)
    if int(slow.sum()) < 3 or bool((w[slow].abs() < 3 * p.spread[slow]).any()):
        return w
    x = t[slow] - t[slow].mean()
    fall = (x * f[slow]).sum() / x.square().sum()
    line = f[slow].mean() + fall * (t - t[slow].mean())
    if float((line - f)[slow].abs().max()) > 1e-2:
        return w
    wanted = line.exp() * w[-1].sign()
    turn = 2 * math.pi / p.step
    return w + turn * ((wanted - w) / turn).round()


def offset_of(p: Phases) -> tuple[float, float]:
    """What is added to positions, and by how much the starts of the planes miss it (radians, weighted).

    The start of a plane is slope · offset, known up to 2π: small whole numbers are tried first, then the slow planes.
    """
    w, c = p.slopes, p.start
    weight = 1 / (p.noise + 1e-6)

    def misfit(o: float) -> float:
        off = torch.remainder(c - w * o + math.pi, 2 * math.pi) - math.pi
        return float((weight * off.abs()).sum() / weight.sum())

    seen = w.abs() > 10 * p.spread
    guesses = [0.0, *(float(s * n) for n in range(1, 65) for s in (1, -1)), 0.5, -0.5]
    if bool(seen.any()):
        slow = torch.where(seen, w.abs(), torch.full_like(w, math.inf)).argmin()
        guesses.append(float(c[slow] / w[slow]))
    best = min(guesses, key=misfit)
    for width in (0.5, 0.05, 0.005):
        if misfit(best) < 1e-6:
            break
        local = [best + width * k / 20 for k in range(-20, 21)]
        finer = min(local, key=misfit)
        best = finer if misfit(finer) < 0.5 * misfit(best) else best
    return best, misfit(best)
