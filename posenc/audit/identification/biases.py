"""Which bias is this: ALiBi's line, T5's steps, or the end of a window?"""

from __future__ import annotations

import bisect
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.identification.given import coarsest
from posenc.audit.identification.rotation import paragraphs, sentence
from posenc.schemes.alibi import alibi_slopes
from posenc.schemes.t5 import t5_bucket

SMALL = 1e-2  # logits: rounding that hides no bias of a model
HIDDEN = -1e4  # numbers below it hide a key, as transformers' finfo.min does
SHORT, LONG = 96, 700  # how far a function is asked: all pairs, and one query with all keys
MOST_HEADS = 64  # tried where a function does not say how many it has


@dataclass(frozen=True)
class FoundBias:
    """An additive bias or a mask that was recognised.

    Example:
        >>> from posenc import ALiBi
        >>> from posenc.audit import identify
        >>> found = identify(ALiBi(4))
        >>> found.kind, found.slopes, found.sign
        ('alibi', (0.25, 0.0625, 0.015625, 0.00390625), 1)
    """

    kind: str
    """ "alibi", "t5", "none", "distance" for another function of it, or "unknown"."""
    heads: int
    """How many heads there are."""
    slopes: tuple[float, ...] = ()
    """ALiBi's, in logits per position, without sign."""
    sign: int = 1
    """1 if near keys are favoured, -1 if far ones are."""
    symmetric: bool | None = None
    """Whether the future counts as the past; None if it is hidden."""
    buckets: int | None = None
    """How many values T5's table has; None where it is no such table."""
    reach: int | None = None
    """T5's `max_distance`, one of the values that give these steps."""
    table: tuple[tuple[float, ...], ...] = ()
    """T5's values, (buckets, H), up to a number for each head, which softmax does not see."""
    back: int | None = None
    """How many positions a query sees behind itself; None if all."""
    ahead: int | None = None
    """How many it sees ahead, 0 if causal, None if all."""
    chunk: int | None = None
    """The size of chunks that do not see one another, where there are any."""
    rule: str = ""
    """Which rule gives the slopes."""
    residual: float = 0.0
    """What stays unexplained, in logits."""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Between which values numbers lie."""
    notes: tuple[str, ...] = ()
    """What is not identifiable, and what is unusual."""

    @property
    def width(self) -> int | None:
        """How many keys a query sees at most, itself included; None if all."""
        return None if self.back is None or self.ahead is None else self.back + self.ahead + 1

    def to_dict(self) -> dict[str, Any]:
        """All fields, of plain types, for JSON.

        Returns:
            A dict by the names of the fields.
        """
        out: dict[str, Any] = {"scheme": "bias"}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = [list(each) if isinstance(each, tuple) else each for each in value]
            out[name] = {k: list(v) for k, v in value.items()} if isinstance(value, dict) else value
        return out | {"width": self.width}

    def __str__(self) -> str:
        return paragraphs(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is printed, before it is broken into lines."""
        return tuple(sentence(p) for p in (self._scheme(), self._window(), *self.notes) if p)

    def _scheme(self) -> str:
        heads = f"{self.heads} head{'s' * (self.heads > 1)}"
        said = {
            "none": "No bias: distances cost nothing.",
            "distance": f"A bias of the distance that is neither a line nor T5's steps, {heads}.",
            "unknown": f"A bias that depends on more than the distance, {heads}.",
        }.get(self.kind, "")
        if self.kind == "alibi":
            slopes = ", ".join(f"{s:.4g}" for s in self.slopes[:4]) + (", …" if self.heads > 4 else "")
            way = "near keys are favoured" if self.sign > 0 else "FAR keys are favoured: the sign is turned"
            said = f"ALiBi: {heads} with slopes {slopes} ({self.rule}); {way}."
            if self.symmetric:
                said += " The future costs as much as the past."
        if self.kind == "t5":
            sides = "both sides" if self.symmetric else "the past alone"
            low, high = self.intervals.get("reach", (self.reach or 0, self.reach or 0))
            wide = "" if low == high else f" ({low:.0f} to {high:.0f} give the same)"
            said = f"T5's bias: {self.buckets} buckets over {sides}, max_distance {self.reach}{wide}, {heads}."
        return said

    def _window(self) -> str:
        if self.chunk is not None:
            return (
                f"Chunks of {self.chunk} tokens, which do not see one another{', causal' if self.ahead == 0 else ''}."
            )
        if self.back is None and self.ahead is None:
            return "All keys are seen, before and after." if self.kind == "none" else ""
        if self.back is None:
            return (
                "Causal: all keys up to the query's own are seen."
                if self.ahead == 0
                else f"{self.ahead} keys ahead are seen, and all behind."
            )
        if self.ahead == 0:
            return f"A window of {self.back + 1} keys: the query's own and {self.back} behind."
        ahead = "all" if self.ahead is None else str(self.ahead)
        return f"A window on both sides: {self.back} keys behind and {ahead} ahead."


def bias_called(what: Any) -> FoundBias | None:
    """The bias of a function or an encoding; None if it is none."""
    made = _encoding(what) if hasattr(what, "score_bias") else _function(what)
    if made is None:
        return None
    square = made(torch.arange(SHORT), torch.arange(SHORT))
    if square is None:
        return None
    far = made(torch.tensor([LONG - 1]), torch.arange(LONG))
    early = made(torch.tensor([0]), torch.arange(LONG))
    found = _named(square, far, early)
    if found.heads == MOST_HEADS:
        found = replace(
            found, notes=(*found.notes, f"{MOST_HEADS} heads were asked: the function does not say how many there are")
        )
    return found


@dataclass(frozen=True)
class Matrix:
    """A bias in float64, with -inf where a key is hidden; the queries are the last of the keys.

    Args:
        b: (H, L, L).
        rounding: By how much a number may be off: that of scores from which it was taken, or of its own dtype.
        dtype: In which precision the numbers were.
    """

    b: Tensor
    rounding: float = 0.0
    dtype: str = ""

    def found(self) -> FoundBias:
        """What it is.

        Raises:
            Unfit: If what was added is lost in the rounding of scores.
        """
        return _named(self.b, None, None, self)

    def by_distance(self) -> tuple[Tensor, Tensor]:
        """Offsets j - i that are seen, and what they cost, (H, offsets), up to a number for each query."""
        f, off, _ = _by_offset(self.b)
        return off, f


def bias_of(value: Any) -> FoundBias:
    """The bias of a matrix (H, L, L), (L, L) or (B, H, L, L), whose texts agree.

    Raises:
        Unfit: If it is no such matrix.
    """
    return matrix_of(value).found()


def matrix_of(value: Any) -> Matrix:
    """A bias or a mask as it was dumped.

    Raises:
        Unfit: If it is no such matrix.
    """
    b = torch.as_tensor(value).detach().cpu()
    if b.is_complex():
        raise Unfit(f"the bias is {b.dtype}: use real numbers")
    if not b.is_floating_point() and b.dtype != torch.bool and bool(((b == 0) | (b == 1)).all()) and bool(b.any()):
        raise Unfit(
            f"the bias is 0 and 1 in {str(b.dtype).removeprefix('torch.')}: if it is a mask, give it as bool, True "
            f"where a key is seen"
        )
    seen = _seen(b)
    shown = seen.masked_fill(seen.isinf(), 0.0)
    return _matrix(seen, coarsest(shown), float(shown.abs().max()) if shown.numel() else 0.0, 0.0)


def matrix_between(before: Any, after: Any) -> Matrix:
    """What was added to scores: those after, less those before.

    Args:
        before: (H, Lq, Lk), (Lq, Lk) or (B, H, Lq, Lk): q·k, scaled as where the bias is added.
        after: The same with the bias, before the softmax.

    Raises:
        Unfit: If these are no scores of one text.
    """
    one, other = (torch.as_tensor(each).detach().cpu() for each in (before, after))
    if one.shape != other.shape:
        raise Unfit(f"scores before have shape {tuple(one.shape)} and after {tuple(other.shape)}: give the same, twice")
    for name, each in (("before", one), ("after", other)):
        if not each.is_floating_point():
            raise Unfit(f"scores {name} are {str(each.dtype).removeprefix('torch.')}: give those that softmax gets")
    low, high = _seen(one, "scores before"), _seen(other, "scores after")
    hidden = low.isinf() | high.isinf()
    plain = [each.masked_fill(hidden, 0.0) for each in (low, high)]
    dtype = coarsest(plain[1])
    size = max(float(each.abs().max()) if each.numel() else 0.0 for each in plain)
    return _matrix((plain[1] - plain[0]).masked_fill(hidden, float("-inf")), dtype, size, 4 * UNIT[dtype] * size)


UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""By how much rounding to a dtype changes a number, at most and relative to it."""


def _matrix(b: Tensor, dtype: torch.dtype, size: float, between: float) -> Matrix:
    """A matrix of one text, with a row for each key; `between` is how far texts may differ."""
    shape = tuple(b.shape)
    if b.ndim == 4 and len(b) >= 1:
        off = (torch.where(b.isinf(), 0.0, b) - torch.where(b[:1].isinf(), 0.0, b[:1])).abs()
        if not bool((b.isinf() == b[:1].isinf()).all()) or (b.numel() and float(off.max()) > between):
            raise Unfit(f"a bias of {len(b)} texts that differ: give that of one")
        b = b[0]
    b = b[None] if b.ndim == 2 else b
    if b.ndim != 3 or b.shape[1] < 3 or b.shape[2] < b.shape[1] or not b.shape[0]:
        raise Unfit(
            f"{shape} is no bias: use (L, L), (H, L, L) or (B, H, L, L); for a rotation "
            f"give (before, after, positions), or a function with dim=…"
        )
    if not bool(b.isfinite().any()):
        raise Unfit("all keys are hidden: dump the bias of a real text")
    if b.shape[1] != b.shape[2]:
        b = torch.nn.functional.pad(b, (0, 0, b.shape[2] - b.shape[1], 0), value=float("-inf"))
    return Matrix(b, 4 * UNIT[dtype] * size, str(dtype).removeprefix("torch."))


def _seen(b: Tensor, name: str = "the bias") -> Tensor:
    """Logits in float64, with -inf where a key is hidden."""
    if b.dtype == torch.bool:
        return torch.zeros(b.shape, dtype=torch.float64).masked_fill(~b, float("-inf"))
    b = b.double()
    if bool(b.isnan().any()):
        raise Unfit(f"{name} has NaN: a row in which all keys are hidden, or an infinity times 0")
    if bool((b == float("inf")).any()):
        raise Unfit(f"{name} has +inf: a key is hidden by -inf, or by False in a mask of bools")
    return b.masked_fill(b < HIDDEN, float("-inf"))


Made = Callable[[Tensor, Tensor], Tensor | None]


def _encoding(encoding: Any) -> Made | None:
    """An encoding of posenc, if it gives a bias."""
    heads = int(getattr(encoding, "heads", 0) or 1)

    def at(qpos: Tensor, kpos: Tensor) -> Tensor | None:
        q, k = (torch.zeros(1, heads, len(p), int(getattr(encoding, "head_dim", 0) or 8)) for p in (qpos, kpos))
        f = encoding.score_bias(q, k, qpos[None], kpos[None])
        if f is None:
            return None
        b, h = torch.zeros(1, 1, 1, dtype=torch.long), torch.arange(heads)[:, None, None]
        i, j = torch.arange(len(qpos))[None, :, None], torch.arange(len(kpos))[None, None]
        return _seen(f(b, h, i, j).broadcast_to(heads, len(qpos), len(kpos)))

    try:
        return at if at(torch.arange(2), torch.arange(2)) is not None else None
    except Exception:  # an encoding that needs more than positions has no such bias
        return None


def _function(function: Any) -> Made | None:
    """A function (q_positions, k_positions), or flex attention's with a score, b, h, q_idx and kv_idx, or a mask's."""
    try:
        count = len([p for p in inspect.signature(function).parameters.values()
                     if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])  # fmt: skip
    except (TypeError, ValueError):
        return None
    if count in (4, 5):
        return _flex(function, count)
    if count != 2:
        return None

    def at(qpos: Tensor, kpos: Tensor) -> Tensor | None:
        out = torch.as_tensor(function(qpos, kpos)).detach()
        if out.shape[-2:] != (len(qpos), len(kpos)) or out.ndim > 4:
            return None
        return _seen(out.reshape(-1, *out.shape[-2:]))

    try:  # x (3,) would come back as (3,), and never as (3, 5)
        return at if at(torch.arange(3), torch.arange(5)) is not None else None
    except Exception:  # then it is a function of vectors
        return None


def _flex(function: Any, count: int) -> Made | None:
    """Heads are counted up to 8, or up to where the function raises."""
    heads = 1

    def once(h: int, qpos: Tensor, kpos: Tensor) -> Tensor:
        q, k = qpos[:, None], kpos[None]
        b, head = torch.tensor(0), torch.tensor(h)
        out = function(torch.zeros(len(qpos), len(kpos)), b, head, q, k) if count == 5 else function(b, head, q, k)
        return torch.as_tensor(out).detach().broadcast_to(len(qpos), len(kpos))

    try:
        once(0, torch.arange(3), torch.arange(5))
        for h in range(1, MOST_HEADS):
            once(h, torch.arange(3), torch.arange(5))
            heads = h + 1
    except Exception:
        if heads == 1:
            return None

    def at(qpos: Tensor, kpos: Tensor) -> Tensor:
        rows = torch.stack([once(h, qpos, kpos) for h in range(heads)])
        same = [h for h in range(1, heads) if torch.equal(rows[h], rows[0])]
        return _seen(rows[:1] if len(same) == heads - 1 else rows)

    return at


def _named(b: Tensor, far: Tensor | None, early: Tensor | None, dumped: Matrix | None = None) -> FoundBias:
    """What a bias (H, L, L) is, with one late query and one early one over many keys, where there are such.

    Numbers of one distance that differ by no more than rounding are one number; `dumped` says how much that is.
    """
    h, n = b.shape[:2]
    open_ = b.isfinite()
    if not bool((open_ == open_[:1]).all()):
        return FoundBias("unknown", h, notes=("Heads hide different keys: name them one by one",))
    rows = open_[0].any(1)
    back, ahead, chunk, odd = _sides(open_[0][rows] if not bool(rows.all()) else open_[0], n, far, early, rows)
    notes = [odd] if odd else []
    f, off, spread = _by_offset(b)
    if far is not None and (ahead is None or ahead == 0):
        f, off = _longer(f, off, far, early)
    size = float(f[:, ~f.isnan().any(0)].abs().max()) if f.numel() else 0.0
    whole: dict[str, Any] = {"back": back, "ahead": ahead, "chunk": chunk}
    symmetric = None if ahead == 0 else True
    same, loose = 1e-4 * max(size, 1.0), 0.0
    floor = dumped.rounding if dumped is not None and spread > 0 else 0.0
    if dumped is not None and spread <= 2 * floor and (spread > same or size <= floor):
        if floor > SMALL and (size <= floor or spread > 0.1 * size):
            raise Unfit(
                f"in {dumped.dtype} the same distance differs by {spread:.2g}, and what distances cost is {size:.2g} "
                f"at most: dump scores in float32, or the bias itself"
            )
        if size <= floor:
            return FoundBias("none", h, notes=tuple(notes), residual=size, **whole)
        same, loose = spread, 2 * spread if spread <= 0.025 * size else 0.0
        notes.append(f"Rounding to {dumped.dtype} leaves numbers of one distance up to {spread:.2g} apart")
    if spread > same:
        return FoundBias(
            "unknown",
            h,
            residual=spread,
            notes=(
                *notes,
                "The same distance costs different amounts in different places: a table of positions, a distance "
                "that contents measure, or scores with q·k in them, of which those before the bias are needed as well",
            ),
            **whole,
        )
    if size < 1e-9:
        return FoundBias("none", h, notes=tuple(notes), **whole)
    line = _line(f, off, loose)
    if line is not None:
        slope, symmetric, left = line
        sign = 1 if float(slope.sum()) > 0 else -1
        if bool((slope * sign < -1e-9).any()):
            notes.append("Slopes of some heads have the other sign")
        if sign < 0:
            notes.append(
                "Far keys are favoured: in ALiBi a distance costs, and here it is rewarded. Look at the sign of j - i"
            )
        sizes = tuple(slope.abs().tolist())
        if ahead != 0 and not symmetric:
            notes.append(
                "Keys of the future are rewarded as those of the past cost: hide them, or take the distance |i - j|"
            )
        return FoundBias(
            "alibi",
            h,
            sizes,
            sign,
            None if ahead == 0 else symmetric,
            rule=_rule(slope.abs(), loose / max(int(off.abs().max()), 1)),
            residual=left,
            notes=tuple(notes),
            **whole,
        )
    t5 = _t5(f, off, ahead == 0, max(1e-6 * size, 2 * spread))
    if t5 is not None:
        return FoundBias("t5", h, notes=(*notes, *t5.pop("notes")), **t5, **whole)
    return FoundBias("distance", h, symmetric=symmetric, notes=tuple(notes), **whole)


def _sides(
    see: Tensor, n: int, far: Tensor | None, early: Tensor | None, rows: Tensor
) -> tuple[int | None, int | None, int | None, str]:
    """How far a query sees behind and ahead, None where no end is seen, and the size of chunks."""
    at = rows.nonzero()
    diff = torch.arange(see.shape[1])[None] - at
    back, ahead = int((-diff)[see].max()), int(diff[see].max())
    band = (diff >= -back) & (diff <= ahead)
    if not torch.equal(see & band, band & (diff > -(1 << 30))):
        for size in range(2, n):
            block = at // size == torch.arange(see.shape[1])[None] // size
            for causal in (True, False):
                if torch.equal(see, block & (diff <= 0) if causal else block):
                    return size - 1, 0 if causal else size - 1, size, ""
        sides = [None if back >= see.shape[1] - 1 else back, None if ahead >= n - 1 else ahead]
        return (
            sides[0],
            sides[1],
            None,
            "Which keys are hidden depends on more than the distance: padding, documents, sinks or prefixes",
        )
    ended = back < see.shape[1] - 1
    if far is not None and not ended:
        last = far[0, 0].isfinite().nonzero()
        ended, back = bool(last.min() > 0), int(far.shape[2] - 1 - last.min())
    front = ahead < n - 1
    if early is not None and not front:
        first = early[0, 0].isfinite().nonzero()
        front, ahead = bool(first.max() < early.shape[2] - 1), int(first.max())
    return back if ended else None, ahead if front else None, None, ""


def _by_offset(b: Tensor) -> tuple[Tensor, Tensor, float]:
    """The bias as a function of j - i, (H, offsets), up to a number for each query; and how far places differ."""
    h, n, m = b.shape
    own = b.diagonal(dim1=1, dim2=2)
    own = torch.where(own.isfinite(), own, torch.zeros_like(own))
    rel = b - own[..., None]
    offsets = torch.arange(-(n - 1), m)
    f = torch.full((h, len(offsets)), float("nan"), dtype=torch.float64)
    worst = 0.0
    for col, o in enumerate(offsets.tolist()):
        line = rel.diagonal(o, dim1=1, dim2=2)
        ok = line.isfinite().all(0)
        if bool(ok.any()):
            f[:, col] = line[:, ok].mean(1)
            worst = max(worst, float((line[:, ok] - f[:, col, None]).abs().max()))
    keep = ~f.isnan().any(0)
    return f[:, keep], offsets[keep], worst


def _longer(f: Tensor, off: Tensor, far: Tensor, early: Tensor | None) -> tuple[Tensor, Tensor]:
    """With the distances that one query with all keys shows."""
    parts = [(far, torch.arange(far.shape[2]) - (far.shape[2] - 1))]
    if early is not None:
        parts.append((early, torch.arange(early.shape[2])))
    for row, o in parts:
        rel = row[:, 0] - row[:, 0, (o == 0).nonzero()[0, 0]][:, None]
        fresh = rel.isfinite().all(0) & ((o < off.min()) | (o > off.max()))
        f, off = torch.cat((f, rel[:, fresh]), 1), torch.cat((off, o[fresh]))
    order = off.argsort()
    return f[:, order], off[order]


def _line(f: Tensor, off: Tensor, loose: float) -> tuple[Tensor, bool, float] | None:
    """The slopes (H,) if the bias is a line over the past, whether the future mirrors it, and the misfit.

    Args:
        f: (H, offsets).
        off: (offsets,).
        loose: By how much numbers may be off a line because they are rounded, which hides how flat a slope is.
    """
    past = off <= 0
    if int(past.sum()) < 3:
        return None
    x = off[past].double()
    slope = (f[:, past] * x).sum(1) / x.square().sum()
    scale = f.abs().max(1).values.clamp(min=max(1e-12, loose / 8e-3))
    left = ((f[:, past] - slope[:, None] * x).abs().max(1).values / scale).max()
    if float(left) > 8e-3:  # bfloat16
        return None
    future = off > 0
    if not bool(future.any()):
        return slope, False, float(left)
    y = off[future].double()
    sizes = [float(((f[:, future] - s * slope[:, None] * y).abs().max(1).values / scale).max()) for s in (-1, 1)]
    if min(sizes) > 8e-3:
        return None
    return slope, sizes[0] <= sizes[1], max(float(left), min(sizes))


def _rule(slope: Tensor, off: float) -> str:
    """Which rule gives slopes that are known up to 1 % and `off`."""
    h = len(slope)
    near = partial(torch.allclose, rtol=1e-2, atol=max(off, 1e-8))
    if near(slope, alibi_slopes(h, dtype=torch.float64)):
        return "the authors' rule"
    if near(slope, 2.0 ** (-8 * torch.arange(1, h + 1, dtype=torch.float64) / h)):
        return "the paper's rule 2^(-8h/H), which the authors' code has for powers of two only"
    ordered = alibi_slopes(h, dtype=torch.float64)
    if near(slope.sort().values, ordered.sort().values):
        return "the authors' slopes in another order of heads"
    for whole in range(h + 1, 8 * h + 1):
        more = alibi_slopes(whole, dtype=torch.float64)
        for begin in range(0, whole - h + 1, h):
            if near(slope, more[begin : begin + h]):
                return f"those of heads {begin} to {begin + h - 1} of {whole}"
    return "no rule that has a name"


MOST_REACH = 1024


def _reaches(past: list[int], ends: set[int], exact: int, buckets: int, both: bool) -> range:
    """Where the reach can lie: a bucket's begin moves out as the reach grows, and one begin is seen.

    Args:
        past: Distances.
        ends: Those at which another value begins.
        exact: Distances with a bucket each.
        buckets: How many there are.
        both: Whether over both sides.
    """
    every = range(exact + 1, MOST_REACH + 1)

    def at(distance: int, reach: int) -> int:
        return int(t5_bucket(torch.tensor([-distance]), buckets, reach, both))

    second = next((d for d in past if d > exact and d in ends), None)  # where the second bucket of several begins
    last = max(past) if second is None else second - 1
    low = bisect.bisect_left(every, True, key=lambda reach: at(last, reach) <= exact)
    high = len(every)
    if second is not None:
        high = bisect.bisect_left(every, True, key=lambda reach: at(second, reach) <= exact)
    return every[low:high]


def _t5(f: Tensor, off: Tensor, causal: bool, step: float) -> dict[str, Any] | None:
    """Buckets and reach, if the bias is constant exactly where T5's is; what differs by `step` or less is the same."""
    changes = (f[:, 1:] - f[:, :-1]).abs().max(0).values > step
    ends = set(off[1:][changes].tolist())  # the offsets at which another value begins
    past = sorted(-o for o in off.tolist() if o <= 0)
    if not past or len(ends) >= len(off) - 1:
        return None
    both = any(o > 1 for o in ends) or (not causal and 1 in ends)
    furthest = max(past)
    flat = next((d for d in range(1, furthest) if 1 - (d + 1) not in ends), 0)  # d and d + 1 share a value
    good: list[tuple[int, int]] = []
    if flat < 1:
        return None
    # With `flat` exact distances there are 2·flat buckets, or 4·flat over both sides.
    for exact in sorted({flat, flat - 1} - {0}, reverse=True):
        buckets = 4 * exact if both else 2 * exact
        if buckets < 4:
            continue
        for reach in _reaches(past, {1 - o for o in ends}, exact, buckets, both):
            b = t5_bucket(off, buckets, reach, both)
            if torch.equal(b[1:] != b[:-1], changes):
                good.append((buckets, reach))
    if not good:
        return None
    buckets = good[0][0]
    reaches = [r for n, r in good if n == buckets]
    usual = next((r for r in (128, 20, 32, 64, 256, 512, 1024) if r in reaches), reaches[0])
    b = t5_bucket(off, buckets, usual, both)
    table = torch.full((buckets, len(f)), math.nan, dtype=torch.float64)
    for n in b.unique().tolist():
        table[n] = f[:, b == n].mean(1)
    missing = int(table.isnan().any(1).sum())
    seen = table.nan_to_num(0.0)
    notes = ["Values are up to a number for each head: that of distance 0 is taken as 0, since softmax does not see it"]
    if missing - int(both):
        notes.append(f"{missing - int(both)} buckets are not reached by these distances, and are 0 in the table")
    left = float((f - seen.T.gather(1, b[None].expand(len(f), -1))).abs().max())
    return {
        "symmetric": both, "buckets": buckets, "reach": usual, "table": tuple(map(tuple, seen.tolist())),
        "residual": left, "intervals": {"reach": (float(min(reaches)), float(max(reaches)))}, "notes": notes,
    }  # fmt: skip
