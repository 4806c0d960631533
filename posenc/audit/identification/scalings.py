"""Which base, and which scaling: frequencies (h,) are explained by the simplest family that has them.

Fastest first, with what each may be off. `plain` is base^(-2t/dims). None: plain. Linear: all divided by the factor.
NTK is plain with another base, so it is told only where the base is odd and another one is round. In YaRN and Llama 3
fast planes stay, slow ones are divided by the factor, and a ramp lies between: over the index in YaRN's code, over the
number of turns in its paper and in Llama 3. LongRoPE divides each plane by a number of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

ROUND_BASES = (10_000.0, 500_000.0, 1_000_000.0, 100_000.0, 50_000.0, 150_000.0, 5_000_000.0, 10_000_000.0, 100.0)
FULL_TURN = 2 * math.pi
TRAINED = tuple(sorted({n * 2**k for k in range(8, 21) for n in (1, 3, 5)}))


@dataclass(frozen=True)
class Scaling:
    """What explains a list of frequencies."""

    kind: str
    base: float | None
    factor: float | None
    ideal: Tensor | None
    """The frequencies that it should have, (h,); None where nothing explains them."""
    trained: int | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    alternatives: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def nice(value: float, low: float, high: float) -> float:
    """The number with the fewest digits in an interval around a value.

    Example:
        >>> nice(499_999.2, 499_990.0, 500_010.0), nice(3.9999, 3.99, 4.01)
        (500000.0, 4.0)
    """
    for digits in range(1, 13):
        rounded = float(f"{value:.{digits - 1}e}")
        if low <= rounded <= high:
            return rounded
    return value


def digits(value: float) -> int:
    """How many digits a number has, without zeros at its end."""
    return len(f"{value:.12e}".split("e")[0].rstrip("0").replace(".", ""))


def explained(freq: Tensor, spread: Tensor, dims: int, amplitude: float = 1.0, floor: float = 3e-7) -> Scaling:
    """The simplest family that has these frequencies.

    Args:
        freq: (h,) in radians per position, fastest first, positive.
        spread: (h,) what each may be off.
        dims: Channels that rotate: two for each plane that there is.
        amplitude: Of the rotated channels, which tells YaRN from a step.
        floor: The relative rounding of frequencies (float32's).

    Example:
        >>> freq = 500_000.0 ** -(torch.arange(32, dtype=torch.float64) / 32)
        >>> found = explained(freq / 8, 1e-9 * freq, 64)
        >>> found.kind, found.base, found.factor
        ('linear', 500000.0, 8.0)
    """
    t = torch.arange(len(freq), dtype=torch.float64)
    tol = spread / freq + floor
    seen = tol < 0.3
    if not bool(seen.any()):
        return Scaling("unknown", None, None, None, notes=("no plane turns by more than rounding",))
    n = int(seen.sum())
    f, k, w = freq[seen].log(), t[seen], tol[seen]
    unseen = len(freq) - n
    if n == 1:
        return _one_plane(freq, spread, dims, tol)
    if (n == 2 and len(freq) == 2) or n > 2 or unseen:
        found = _geometric(f, k, w, dims, t)
        if found is not None:
            return _hidden(found, n, unseen)
    found = _ramp(freq, t, seen, tol, dims, amplitude)
    if found is not None:
        return _hidden(found, n, unseen)
    bound = float(torch.exp((-f[1:] * dims / (2 * k[1:])).min())) if n > 1 else math.inf
    return Scaling(
        "unknown", None, None, None, intervals={"base": (1.0, nice(bound, bound * (1 - 1e-4), bound * (1 + 1e-4)))},
        notes=("each plane has a divisor of its own, as in LongRoPE: frequencies alone do not tell the base from the "
               "divisors; if no divisor is below 1, the base is at most the end of its interval",),
    )  # fmt: skip


def _hidden(found: Scaling, n: int, unseen: int) -> Scaling:
    """With what planes may hide that turn too slowly to be seen."""
    if not unseen:
        return found
    note = (
        f"{unseen} of {n + unseen} planes turn too little between these positions to be seen: a scaling of slow planes "
        f"alone, as in YaRN and Llama 3, cannot be excluded; farther positions show it"
    )
    intervals = dict(found.intervals)
    if found.kind == "none":
        intervals.setdefault("factor", (1.0, math.inf))
    return Scaling(found.kind, found.base, found.factor, found.ideal, found.trained, intervals, found.alternatives,
                   (*found.notes, note))  # fmt: skip


def _one_plane(freq: Tensor, spread: Tensor, dims: int, tol: Tensor) -> Scaling:
    first, error = float(freq[0]), float(freq[0] * tol[0])
    slowest = float((freq + spread)[1]) if len(freq) > 1 else 0.0
    factor = nice(1 / first, 1 / (first + error), 1 / max(first - error, 1e-300))
    kind = "none" if abs(first - 1) <= error else "linear"
    low = slowest ** (-dims / 2) if 0 < slowest < 1 else 1.0
    return Scaling(
        kind, None, 1.0 if kind == "none" else factor, None, intervals={"base": (low, math.inf)},
        notes=("one plane is seen to turn, and a base takes two",),
    )  # fmt: skip


def _fit(f: Tensor, k: Tensor, w: Tensor, through: float | None = None) -> tuple[float, float, float, float]:
    """The weighted line f = a - c k: a, c and what they may be off; through a = `through` where that is given."""
    g = w.pow(-2)
    if through is not None:
        s = float((g * k * k).sum())
        return through, float((g * k * (through - f)).sum()) / max(s, 1e-300), 0.0, 2 / math.sqrt(max(s, 1e-300))
    m0, m1, m2 = float(g.sum()), float((g * k).sum()), float((g * k * k).sum())
    y0, y1 = float((g * f).sum()), float((g * k * f).sum())
    det = max(m0 * m2 - m1 * m1, 1e-300)
    return (m2 * y0 - m1 * y1) / det, (m1 * y0 - m0 * y1) / det, 2 * math.sqrt(m2 / det), 2 * math.sqrt(m0 / det)


def _geometric(f: Tensor, k: Tensor, w: Tensor, dims: int, t: Tensor) -> Scaling | None:
    """No scaling, NTK or linear; None if frequencies are no geometric series."""
    a, c, _, dc = _fit(f, k, w, through=0.0)
    if bool(((f + c * k).abs() <= w * 1.5).all()):
        return _plain(c, dc, dims, t)
    a, c, da, dc = _fit(f, k, w)
    if not bool(((f - a + c * k).abs() <= w * 1.5).all()):
        return None
    base, interval = _base(c, dc, dims)
    factor = nice(math.exp(-a), math.exp(-a - da), math.exp(-a + da))
    intervals = {"base": interval, "factor": (math.exp(-a - da), math.exp(-a + da))}
    notes: tuple[str, ...] = ()
    if len(f) == 2:
        notes = ("two planes are seen: any base goes with some scaling of them, and the simplest reading is given",)
    return Scaling("linear", base, factor, base ** (-2 * t / dims) / factor, None, intervals, (), notes)


def _base(c: float, dc: float, dims: int) -> tuple[float, tuple[float, float]]:
    low, high = (math.exp(min((c + s * dc) * dims / 2, 700)) for s in (-1, 1))
    middle = math.exp(min(c * dims / 2, 700))
    return nice(middle, low, high), (low, high)


def _plain(c: float, dc: float, dims: int, t: Tensor) -> Scaling:
    base, interval = _base(c, dc, dims)
    planes = dims // 2
    ideal = base ** (-2 * t / dims)
    if planes > 1 and digits(base) > 3:
        for plain in ROUND_BASES:
            low, high = ((edge / plain) ** ((dims - 2) / dims) for edge in interval)
            factor = nice((low * high) ** 0.5, low, high)
            if (
                factor > 1.01
                and low <= factor <= high
                and abs(factor * 4 - round(factor * 4)) < 1e-9
                and factor <= 1024
            ):
                ideal = plain ** (-2 * t / dims) / factor ** (t / (planes - 1))
                return Scaling(
                    "ntk", plain, factor, ideal, None,
                    {"base": (plain, interval[1]), "factor": (1.0, high)}, (f"none, with base {base:,.6g}",),
                    (f"NTK-aware scaling is another base: these frequencies are those of base {base:,.6g}",),
                )  # fmt: skip
    return Scaling("none", base, 1.0, ideal, None, {"base": interval}, ())


def _ramp(freq: Tensor, t: Tensor, seen: Tensor, tol: Tensor, dims: int, amplitude: float) -> Scaling | None:
    """Fast planes stay and slow ones are divided: Llama 3 and YaRN."""
    f = freq.log()
    last = int(seen.nonzero().max())
    if not bool(seen[: last + 1].all()):
        return None
    for stay in range(last, 0, -1):  # how many planes beside the first stay as they are
        _, c, _, dc = _fit(f[1 : stay + 1], t[1 : stay + 1], tol[1 : stay + 1], through=0.0)
        if bool(((f[: stay + 1] + c * t[: stay + 1]).abs() <= 1.5 * tol[: stay + 1]).all()):
            break
    else:
        slow = _slow_slope(f, t, tol, last)
        stay = 0
        if slow is None:
            return None
        c, dc = slow
    if stay == last or abs(float(f[0])) > 1.5 * float(tol[0]):
        return None
    base, interval = _base(c, dc, dims)
    if base < 1.01:
        return None
    plain = base ** (-2 * t / dims)
    ratio = (freq / plain)[: last + 1]
    doubt = 0.0 if digits(base) <= 3 else math.log(interval[1] / interval[0]) / dims
    error = tol[: last + 1] + doubt * t[: last + 1]
    if float(ratio[-1]) > 1 + float(error[-1]) or bool((ratio[1:] - ratio[:-1] > 3 * (error[1:] + error[:-1])).any()):
        return None
    flat = 1
    while flat < last and abs(float(ratio[last - flat] / ratio[last]) - 1) <= 3 * float(
        error[last - flat] + error[last]
    ):
        flat += 1
    g = 1 / error[last + 1 - flat :].square()
    level = float((ratio[last + 1 - flat :] * g).sum() / g.sum())
    wrong = 3 * float(g.sum()) ** -0.5 + 1e-9 * level
    s_low, s_high = 1 / (level + wrong * level), 1 / max(level - wrong * level, 1e-300)
    factor = nice(1 / level, s_low, s_high)
    if factor < 1.05:
        return None
    intervals = {"base": interval, "factor": (s_low, s_high)}
    if flat == 1 and last - stay > 1:
        intervals["factor"] = (s_low, math.inf)  # the ramp may go on
    share = ((ratio - 1 / factor) / (1 - 1 / factor)).clamp(-1, 2)
    slack = 3 * error / (1 - 1 / factor) + 1e-6
    inner = ((share > slack) & (share < 1 - slack)).nonzero().flatten()
    return _named(plain, t, share, slack, inner, base, factor, dims, intervals, amplitude, stay, last)


def _slow_slope(f: Tensor, t: Tensor, tol: Tensor, last: int) -> tuple[float, float] | None:
    """The fall of the slow planes, where no two fast ones stay as they are."""
    for begin in range(1, last - 1):
        a, c, _, dc = _fit(f[begin : last + 1], t[begin : last + 1], tol[begin : last + 1])
        if bool(((f[begin : last + 1] - a + c * t[begin : last + 1]).abs() <= 1.5 * tol[begin : last + 1]).all()):
            return c, dc
    return None


def _named(
    plain: Tensor, t: Tensor, share: Tensor, slack: Tensor, inner: Tensor, base: float, factor: float, dims: int,
    intervals: dict[str, tuple[float, float]], amplitude: float, stay: int, last: int,
) -> Scaling | None:  # fmt: skip
    """YaRN or Llama 3, by the form of the ramp and the length in training that it implies."""
    p = plain[: last + 1]
    readings: list[tuple[str, int, tuple[float, float], str]] = []  # kind, length in training, its interval, a note
    for kind, slow, fast in (("llama3", 1.0, 4.0), ("yarn", 1.0, 32.0)):
        lengths = _lengths_by_turns(p, share, slack, slow, fast)
        if lengths is not None:
            trained = usual_length(*lengths)
            readings.append((kind, trained, lengths, "" if kind == "llama3" else "in the paper's form"))
    if len(inner) == 0 or not readings or amplitude != 1:
        for fast, slow in ((32.0, 1.0), (1.0, 1.0)):
            lengths = _lengths_by_index(base, dims, t, share, slack, fast, slow, True)
            if lengths is not None:
                readings.append(
                    ("yarn", usual_length(*lengths), lengths, "" if fast == 32 else f"beta_fast = beta_slow = {slow:g}")
                )
                break
        else:
            lengths = _lengths_by_index(base, dims, t, share, slack, 32.0, 1.0, False)
            if lengths is not None:
                readings.append(("yarn", usual_length(*lengths), lengths, "truncate = False"))
    if len(inner) == 0:
        edge = [FULL_TURN / float(p[stay]), FULL_TURN / float(p[min(stay + 1, last)])]
        step = ("llama3", usual_length(*edge), (edge[0], edge[1]), "a step: low = high, as Llama 4 has it")
        readings.append(step)
    if not readings:
        free = _free_ramp(p, t, share, inner)
        if free is None:
            return None
        kind, note = free
        return Scaling(kind, base, factor, None, None, intervals, (), (note,))
    readings.sort(key=lambda r: (r[0] == "yarn") != (amplitude > 1 + 1e-6))  # Llama 3's has no amplitude
    kind, trained, lengths, note = readings[0]
    others = tuple(dict.fromkeys(f"{k}{f', {n}' if n else ''}" for k, _, _, n in readings[1:]))
    level = torch.where(
        share > 1 - slack, torch.ones_like(share), torch.where(share < slack, torch.zeros_like(share), share)
    )
    ideal = plain.clone()
    ideal[: last + 1] = p * (level + (1 - level) / factor)
    ideal[last + 1 :] = plain[last + 1 :] / factor
    return Scaling(
        kind, base, factor, ideal, trained, intervals | {"trained": lengths}, others, (note,) if note else ()
    )


def usual_length(low: float, high: float) -> int:
    """A usual length within an interval, or its middle."""
    inside = [n for n in TRAINED if low * (1 - 1e-9) <= n <= high * (1 + 1e-9)]
    if not inside:
        return round((low * high) ** 0.5)
    return min(inside, key=lambda n: (bin(n).count("1"), abs(math.log(n / (low * high) ** 0.5))))


def _lengths_by_turns(p: Tensor, share: Tensor, slack: Tensor, slow: float, fast: float) -> tuple[float, float] | None:
    """The lengths L at which the share is (Lθ/2π - slow) / (fast - slow), cut to 0 and 1."""
    low, high = 1.0, 1e9
    for theta, g, e in zip(p.tolist(), share.tolist(), slack.tolist(), strict=True):
        turns = FULL_TURN / theta
        if g - e > 0:
            low = max(low, turns * (slow + (min(g, 1.0) - e) * (fast - slow)))
        if g + e < 1:
            high = min(high, turns * (slow + (max(g, 0.0) + e) * (fast - slow)))
        if low > high * (1 + 1e-9):
            return None
    return low, high


def _lengths_by_index(
    base: float, dims: int, t: Tensor, share: Tensor, slack: Tensor, fast: float, slow: float, truncate: bool
) -> tuple[float, float] | None:
    """The lengths at which YaRN's code has this ramp; among usual ones, and then finely."""
    n = len(share)

    def fits(length: float) -> bool:
        lo, hi = (dims * math.log(length / (beta * FULL_TURN)) / (2 * math.log(base)) for beta in (fast, slow))
        if truncate:
            lo, hi = math.floor(lo), math.ceil(hi)
        lo, hi = max(lo, 0), min(hi, dims - 1)
        hi += 0.001 if lo == hi else 0
        ramp = 1 - ((t[:n] - lo) / (hi - lo)).clamp(0, 1)
        return bool(((share - ramp).abs() <= slack).all())

    good = [n for n in TRAINED if fits(n)]
    if not good and base > 1:
        grid = [2 ** (8 + k / 16) for k in range(16 * 12)]
        good = [n for n in grid if fits(n)]
    return (float(min(good)), float(max(good))) if good else None


def _free_ramp(p: Tensor, t: Tensor, share: Tensor, inner: Tensor) -> tuple[str, str] | None:
    """A ramp with numbers of its own: straight over the turns, or over the index."""
    if len(inner) < 2:
        return "unknown", "fast planes stay, slow ones are divided; too few lie between to name the form"
    for kind, over in (("llama3", p), ("yarn", t[: len(p)])):
        x, y = over[inner], share[inner]
        slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
        if float((y - y.mean() - slope * (x - x.mean())).abs().max()) < 1e-3:
            zero, one = (float(x.mean() + (v - y.mean()) / slope) for v in (0.0, 1.0))
            if kind == "llama3":
                note = (
                    f"turns in training at which the ramp begins and ends are as 1 to {one / zero:.3g}; at 1 the "
                    f"length in training is {FULL_TURN / zero:,.0f}"
                )
            else:
                note = f"the ramp lies between planes {one:.3g} and {zero:.3g}"
            return kind, note
    return None
