"""What an encoding is like, found by measuring it: any encoding, a reader's own too, and nothing is typed in advance.

A copy of the encoding is put into one layer of attention with random projections, on the CPU and in float64 where
that is possible. All random numbers come from generators of their own, so a report is the same each time.

Whatever an encoding does, a query at i finds two things in a key at j: a score s_ij (what the softmax is taken of)
and a value z_ij (the output if the query attended to this key alone). Most properties are statements about these
two. "Of the spread" means: divided by the root mean square of what is compared, about its mean.
"""

from __future__ import annotations

import copy
import html
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc import _check
from posenc.attention import BACKENDS, _batched, _index, attend
from posenc.cache import KVCache
from posenc.encoding import Encoding
from posenc.source import book_mode

if TYPE_CHECKING:
    from posenc.plot import Picture

HOLDS, FAILS, NOT_APPLICABLE = "holds", "fails", "does not apply"
TRIED = 1_000_000  # the furthest position that has to be served
FAR = 10**12  # so far that a logarithm doubles: what has grown until then is unbounded
NOT_FINITE = "gives numbers that are not finite"
LINEAR = 2e-4  # of the spread: float32 angles leave 3e-5, and the smoothest curves that no map moves along 2e-3
CLOSE = 1e-3  # of the spread: what float32 angles make of positions up to 1000 stays well below it


@dataclass(frozen=True)
class Property:
    """One wish and what was found: `holds`, `fails` or `does not apply`, with the number that decided."""

    name: str
    wish: str
    verdict: str
    value: float
    """The measured number; `conditions` says of what."""
    finding: str
    """One sentence with the numbers; where the wish fails, the counter-example."""
    conditions: str
    """What was compared, on how many tokens, within which tolerance."""
    definition: str
    _draw: Callable[[str], Picture] = field(repr=False, compare=False)

    @property
    def counter_example(self) -> str:
        """The finding if the wish fails, else nothing."""
        return self.finding if self.verdict == FAILS else ""

    def __bool__(self) -> bool:
        return self.verdict == HOLDS

    def __repr__(self) -> str:
        return f"{self.name}: {self.verdict}; {self.finding}"

    def figure(self) -> Picture:
        """The measurement as a picture; matplotlib is imported now and not before."""
        return self._draw(self.finding)


class Report:
    """The properties of one encoding, in the order of `WISHES`; `report["unique"]` is one of them."""

    def __init__(self, name: str, facts: dict[str, str], note: str, properties: dict[str, Property]) -> None:
        self.name, self.facts, self.note, self._properties = name, facts, note, properties

    def __getitem__(self, name: str) -> Property:
        _check.one_of(name, self._properties, "property")
        return self._properties[name]

    def __iter__(self) -> Iterator[Property]:
        return iter(self._properties.values())

    def __len__(self) -> int:
        return len(self._properties)

    def __repr__(self) -> str:
        lines = [f"{self.name}: " + "; ".join(f"{name} {value}" for name, value in self.facts.items())]
        lines += textwrap.wrap(self.note, 110)
        for found in self:
            head = f"{found.name:<13}  {found.verdict:<14}  "
            lines += textwrap.wrap(found.finding, 110, initial_indent=head, subsequent_indent=" " * len(head))
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if book_mode():
            rows = [[found.name, found.wish, found.verdict, found.finding] for found in self]
            facts = "; ".join(f"{name} {value}" for name, value in self.facts.items())
            head = ["property", "wish", "verdict", "what was found"]
            bundle["text/html"] = _table(f"{self.name}, measured", head, rows, f"{facts}. {self.note}")
        return bundle


class Comparison:
    """Reports of several encodings side by side; `comparison["rope"]` is one of them."""

    def __init__(self, reports: dict[str, Report]) -> None:
        self.reports = reports

    def __getitem__(self, name: str) -> Report:
        _check.one_of(name, self.reports, "encoding")
        return self.reports[name]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports.values())

    def __len__(self) -> int:
        return len(self.reports)

    def rows(self) -> list[list[str]]:
        """A row for each property, whose name comes first, with a verdict for each encoding."""
        rows = [[wish, *(report[wish].verdict for report in self)] for wish in WISHES]
        return rows + [[fact, *(report.facts[fact] for report in self)] for fact in ("doors", "parameters")]

    def __repr__(self) -> str:
        short = {HOLDS: "yes", FAILS: "no", NOT_APPLICABLE: "–"}
        lines = [["", *self.reports], *([short.get(cell, cell) for cell in row] for row in self.rows())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if book_mode():
            caption = "Which wishes each encoding meets, measured"
            bundle["text/html"] = _table(caption, ["property", *self.reports], self.rows())
        return bundle


def properties(
    encoding: Encoding,
    *,
    model_dim: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    length: int | None = None,
    name: str | None = None,
) -> Report:
    """Measures an encoding, a reader's own too, against the wishes that people have of one.

    Sizes are read from attributes of these names, and where there are none, usual ones are tried. `length` is
    the number of positions that it is measured on, 512 unless it says otherwise. The encoding itself, its mode
    and all random number generators stay as they are. Where its parameters are all zero and position so has no
    effect, the copy gets random ones, and the report's note says so.

    Raises ValueError if it cannot be run with any of the sizes, and TypeError if it is no Encoding.
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"{encoding!r} is no Encoding: pass an instance, such as properties(RoPE(64))")
    given = {"model_dim": model_dim, "heads": heads, "head_dim": head_dim, "length": length}
    with _undisturbed():
        probe = _fitted(encoding, given)
        note = f"Measured on a copy in {str(probe.dtype).removeprefix('torch.')}, with {probe.sizes()}."
        if probe.randomised:
            names = ", ".join(probe.randomised)
            note += f" All zero, and hence random here, so that position has an effect: {names}."
        found = {}
        for key, (wish, measure) in WISHES.items():
            found[key] = _measured(key, wish, measure, probe.fresh())
    facts = {
        "doors": ", ".join(encoding.doors) or "none",
        "parameters": str(sum(parameter.numel() for parameter in encoding.parameters())),
        "bytes": str(sum(t.numel() * t.element_size() for t in (*encoding.parameters(), *encoding.buffers()))),
        "positions": f"0 to {_place(probe.last)}" + (" and on" if probe.last == TRIED else ""),
        "backends": ", ".join(name for name, out in probe.outputs.items() if isinstance(out, Tensor)),
    }
    named = "NoPE" if type(encoding) is Encoding else type(encoding).__name__
    return Report(name or named, facts, note, found)


def compare(encodings: Mapping[str, Encoding], **sizes: int) -> Comparison:
    """Measures several encodings, by name; the keywords are those of `properties`, the same for all."""
    return Comparison({name: properties(encoding, name=name, **sizes) for name, encoding in encodings.items()})


# How it is measured


class _Probe:
    """One layer of attention around an encoding, with random projections and tokens."""

    def __init__(self, encoding: Encoding, model_dim: int, heads: int, head_dim: int, length: int, dtype: torch.dtype):
        self.original, self.dtype, self.length, self.last = encoding, dtype, length, length - 1
        self.model_dim, self.heads, self.head_dim = model_dim, heads, head_dim
        self.problem = ""  # what happens at position last + 1
        self.randomised: list[str] = []
        self.outputs: dict[str, Tensor | str] = {}  # of each backend, or why there is none
        self.encoding = copy.deepcopy(encoding)
        self.same = 1e-6 if dtype == torch.float64 else 1e-4  # of the spread: no more than rounding
        self.project = self.random(3, heads, head_dim, model_dim) * model_dim**-0.5

    def sizes(self) -> str:
        return f"model_dim={self.model_dim}, heads={self.heads}, head_dim={self.head_dim}, length={self.length}"

    def fresh(self) -> _Probe:
        """The same with another copy, since an encoding may keep a state."""
        other = copy.copy(self)
        other.encoding = copy.deepcopy(self.encoding)
        return other

    def random(self, *shape: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def tokens(self, count: int, seed: int = 1) -> Tensor:
        return self.random(count, self.model_dim, seed=seed)  # (count, D)

    def projected(self, x: Tensor) -> Tensor:
        """(B, L, D) -> q, k and v in one, (3, B, H, L, d)"""
        return torch.einsum("bld,phcd->pbhlc", x, self.project)

    def turned(self, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v (B, H, L, d) of x (B, L, D), through `embed`, `query` and `key`."""
        q, k, v = self.projected(self.encoding.embed(x, pos))
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def alike(self, tokens: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for sequences of one token each, (C, D); they are projected once if `embed` leaves them alone."""
        if "embed" in self.encoding.doors:
            return self.turned(_everywhere(tokens, pos), pos)
        q, k, v = self.projected(tokens[:, None]).expand(-1, -1, -1, len(pos), -1)
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def layer(self, x: Tensor, pos: Tensor, **options: Any) -> Tensor:
        """x (B, L, D) -> (B, H, L, d)"""
        return attend(*self.turned(x, pos), self.encoding, pos, pos, **options)

    def scores(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """s_ij, (B, H, Lq, Lk): what `attention_weights` takes the softmax of where nothing is masked."""
        qpos, kpos = _batched(q, qpos, kpos)
        score = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if self.encoding.bias is not None:
            score = score + self.encoding.bias(q, k, qpos, kpos)(*_index(q, k))
        if self.encoding.rescale is not None:
            score = self.encoding.rescale(qpos, kpos)(score, *_index(q, k))
        return score

    def all_scores(self, tokens: Tensor, pos: Tensor) -> Tensor:
        """(C, H, L, L), if all tokens of a sequence are the same: tokens (C, D)"""
        q, k, _ = self.alike(tokens, pos)
        return self.scores(q, k, pos, pos)

    def seen(self, tokens: Tensor, pos: Tensor, at: int) -> tuple[Tensor, Tensor]:
        """What the query number `at` finds in each key, if all tokens are the same: s (C, H, L) and z (L, H, d)."""
        q, k, v = self.alike(tokens, pos)
        q, qpos = q[:, :, at : at + 1], pos[at : at + 1]
        score = self.scores(q, k, qpos, pos)[:, :, 0]  # (C, H, L)
        return score, self.values(v[:1], qpos, pos)

    def values(self, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """z_ij (L, H, d) for one query position: as many queries there, each of which attends to one key alone."""
        if self.encoding.mix is None:
            return v[0].transpose(0, 1)
        n = len(kpos)
        alone = torch.eye(n, dtype=v.dtype).expand(1, v.shape[1], n, n)
        z: Tensor = self.encoding.mix(alone, v, qpos.expand(1, n), kpos[None])  # (1, H, L, d)
        return z[0].transpose(0, 1)

    def at(self, n: int) -> int:
        """The query looks at keys on both sides, unless the encoding is made for the past."""
        return n - 1 if self.encoding.causal_only else n // 2


def _everywhere(tokens: Tensor, pos: Tensor) -> Tensor:
    """Sequences of one token each: (C, D) -> (C, L, D)."""
    return tokens[:, None].expand(-1, len(pos), -1)


def _spaced(end: int, count: int) -> Tensor:
    """Whole numbers from 1 to `end`, evenly in their logarithms."""
    return torch.logspace(0, math.log10(max(end, 1)), count, dtype=torch.float64).round().long().clamp(max=end)


def _spread(x: Tensor) -> float:
    """The root mean square about the mean, or 1 where there is no more than rounding."""
    spread = float((x - x.mean()).square().mean().sqrt())
    return spread if spread > _rounding(x) else 1.0


def _rounding(x: Tensor) -> float:
    return 1e3 * torch.finfo(x.dtype).eps * float(x.abs().max())


def _change(found: Tensor, expected: Tensor) -> Tensor:
    """By how much outputs differ, in units of the spread: (B, H, L, d) -> (L,), the largest of a position."""
    change = (found - expected).abs() / _spread(expected)
    return change.amax((0, 1, 3))


def _signature(score: Tensor, value: Tensor) -> Tensor:
    """All that a key shows, (keys, features): its scores (..., keys) and values (keys, ...), about their means."""
    _finite(score, value)
    parts = []
    for part in (score.reshape(-1, score.shape[-1]).T, value.reshape(value.shape[0], -1)):
        about = part - part.mean(0)
        size = about.square().mean().sqrt()
        parts.append(about / size if size > _rounding(part) else torch.zeros_like(part))
    return torch.cat(parts, 1)


def _gaps(signature: Tensor) -> Tensor:
    """How far apart any two keys are, (keys, keys): the largest difference of a feature."""
    return torch.cdist(signature, signature, p=torch.inf)


def _known(alike: Tensor) -> int:
    """Into how many kinds the keys fall: those that are like no key before them."""
    return int((~alike.tril(-1).any(1)).sum())


def _nearest(alike: Tensor, distance: Tensor) -> tuple[int, int]:
    """The pair of look-alikes that is nearest to the query, given each key's distance from it."""
    i, j = alike.triu(1).nonzero().T
    order = torch.maximum(distance[i], distance[j]) * len(distance) + (j - i)  # nearest first, then closest together
    return int(i[order.argmin()]), int(j[order.argmin()])


class _NotFinite(ArithmeticError):
    pass


def _finite(*tensors: Tensor) -> None:
    if not all(x.isfinite().all() for x in tensors):
        raise _NotFinite("there are numbers that are not finite")


@dataclass(frozen=True)
class _Found:
    verdict: str
    value: float
    finding: str
    conditions: str
    draw: Callable[[str], Picture]


def _verdict(holds: bool) -> str:
    return HOLDS if holds else FAILS


def _number(value: float | Tensor, digits: int = 2) -> str:
    rounded = f"{float(value):.{digits}g}"
    return f"{float(rounded):g}" if digits < 6 else rounded  # 100, not 1e+02


def _above(value: float) -> str:
    """Rounded up to one digit: angles of float32 at far positions are not the same on all machines."""
    unit = 10.0 ** math.floor(math.log10(value or 1.0))
    return _number(math.ceil(value / unit) * unit)


def _place(position: int) -> str:
    power = len(str(position)) - 1
    return f"10^{power}" if position == 10**power >= 1000 else str(position)


def _numbers(a: float | Tensor, b: float | Tensor) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as show it."""
    for digits in range(2, 17):
        texts = _number(a, digits), _number(b, digits)
        if texts[0] != texts[1]:
            break
    return texts


def _clearly(change: Tensor) -> list[int]:
    """The first index with a change of half the largest or more: an example that rounding does not move."""
    where: list[int] = (change >= 0.5 * change.max()).nonzero()[0].tolist()
    return where


def _kinds(known: int, of: str) -> str:
    return f"{of} are of {known} kinds" if known > 1 else f"{of} are all of one kind"


def _unique(p: _Probe) -> _Found:
    """One query, the same token everywhere: no two keys show it the same scores and the same values."""
    n = min(p.length, 1024)
    at = p.at(n)
    gaps = _gaps(_signature(*p.seen(p.tokens(8), torch.arange(n), at)))
    if n < 2:
        return _nothing("there is one position only")
    alike = gaps <= 0.1 * p.same
    known, middle, least = _known(alike), at, 0.0
    if known == n:
        least = float(gaps[~torch.eye(n, dtype=torch.bool)].min())
        finding = (
            f"the query at {at} tells all {n} keys apart; any two differ by {_number(least)} of the spread or more"
        )
    else:
        i, j = _nearest(alike, (torch.arange(n) - at).abs())
        middle = (i + j) // 2 if abs(i - at) > 40 else at
        finding = f"the query at {at} cannot tell key {i} from key {j}; {_kinds(known, f'its {n} keys')}"
    start = max(0, min(middle - 40, n - 81))
    window = gaps[start : start + 81, start : start + 81]
    what = "How different any two keys look to one query"
    draw = _picture(_map, window, x="key", y="key", unit="difference, of the spread", start=start, what=what)
    conditions = f"keys 0 to {n - 1}, 8 tokens, alike within {0.1 * p.same:.0e} of the spread; the smallest difference"
    return _Found(_verdict(known == n), least, finding, conditions, draw)


def _deterministic(p: _Probe) -> _Found:
    """Two calls with the same input give the same output, bit by bit."""
    n = min(p.length, 64)
    x, pos = p.tokens(n)[None], torch.arange(n)
    first, second = p.layer(x, pos), p.layer(x, pos)
    _finite(first, second)
    change = _change(second, first)
    finding = "two calls agree bit by bit"
    if change.max() > 0:
        (where,) = _clearly(change)
        finding = f"the second call's output at position {where} differs by {_number(change[where])} of the spread"
    curves = {"first call": first[0, 0, :, 0], "second call": second[0, 0, :, 0]}
    draw = _picture(_overlay, curves, pos, x="position", y="output", what="One channel of the output, computed twice")
    return _Found(_verdict(not change.any()), float(change.max()), finding, f"{n} tokens; the largest change", draw)


def _fixed(p: _Probe) -> _Found:
    """There are no parameters: what the encoding does is the same before and after training."""
    shapes = {name: tuple(parameter.shape) for name, parameter in p.original.named_parameters()}
    sizes = {name: parameter.numel() for name, parameter in p.original.named_parameters()}
    count = sum(sizes.values())
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    finding = f"{count} numbers are learned: {listed}" if shapes else "there is nothing to learn"
    draw = _picture(_bars, sizes, x="numbers that are learned", what="Sizes of the parameters")
    draw = draw if sizes else _picture(_words, what="Sizes of the parameters")
    return _Found(_verdict(not shapes), float(count), finding, "the number of parameters", draw)


def _consistent(p: _Probe) -> _Found:
    """The score and the value of a pair stay the same when more tokens follow, far more than `length` if it may be."""
    n = min(64, p.length // 2)
    if n < 2:
        return _nothing(f"positions are too few, {p.length}, to make a sequence longer")
    more = min(2 * p.length, p.last + 1, 2048)
    far = min(4 * p.length, p.last)
    short, long = torch.arange(n), torch.arange(more)
    if far >= more:
        long = torch.cat((long, torch.tensor([far])))
    tokens = p.tokens(2)
    found = []
    for pos in (short, long):
        q, k, v = p.alike(tokens, pos)
        score = p.scores(q[:, :, :n], k, pos[:n], pos)[..., :n]  # (2, H, n, n)
        score = score.tril() if p.encoding.causal_only else score
        value = torch.stack([p.values(v[:1], pos[i : i + 1], pos)[:n] for i in (0, n - 1)])  # (2, n, H, d)
        found.append((score, value))
    (score, value), (later, later_value) = found
    _finite(score, value, later, later_value)
    change = (later - score).abs() / _spread(score)
    value_change = (later_value - value).abs() / _spread(value)
    worst = max(float(change.max()), float(value_change.max()))
    grown = f"{len(long)}, the last at {int(long[-1])}"
    if worst <= p.same:
        finding = f"no score and no value changes when {n} tokens become {grown}"
    elif float(change.max()) > p.same:
        b, h, i, j = _clearly(change)
        few, many = _numbers(score[b, h, i, j], later[b, h, i, j])
        finding = f"head {h}'s score of query {i} and key {j} is {few} among {n} tokens, and {many} among {grown}"
    else:
        i, j, *_ = _clearly(value_change)
        by = _number(value_change[i, j].max())
        finding = (
            f"the value of key {j} for query {(0, n - 1)[i]} changes by {by} of the spread when {n} become {grown}"
        )
    at = p.at(n)
    curves = {f"among {n} tokens": score[0, 0, at], f"among {len(long)}": later[0, 0, at]}
    draw = _picture(_overlay, curves, short, x="key", y="score", what=f"Scores of the query at {at}")
    conditions = f"{n} tokens, and {grown}; the largest change of the spread, at most {p.same}"
    return _Found(_verdict(worst <= p.same), worst, finding, conditions, draw)


def _honest(p: _Probe) -> _Found:
    """Tokens that are stored in another order, with their positions, get the same outputs: the order is in `pos`."""
    n = min(16, p.length)
    if n < 2:
        return _nothing("there is one position only")
    x, pos = p.random(1, n, p.model_dim, seed=13), torch.arange(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(11))
    straight, stored = p.layer(x, pos), p.layer(x[:, order], pos[order])[:, :, order.argsort()]
    _finite(straight, stored)
    change = _change(stored, straight)
    worst = float(change.max())
    finding = f"{n} tokens that are stored in another order, with their positions, get the same outputs"
    if worst > p.same:
        (where,) = _clearly(change)
        place, by = int(order.argsort()[where]), _number(change[where])
        finding = f"position {where}, stored in place {place}, gets an output that is off by {by} of the spread"
    curves = {"in order": straight[0, 0, :, 0], "stored in another order": stored[0, 0, :, 0]}
    draw = _picture(_overlay, curves, pos, x="position", y="output", what="One channel of the output")
    conditions = f"{n} tokens; the largest change of the spread, at most {p.same}"
    return _Found(_verdict(worst <= p.same), worst, finding, conditions, draw)


def _bounded(p: _Probe) -> _Found:
    """Scores and values do not grow without end: up to 10^12 they stay below 1.5 times what they are up to 10^6."""
    reach = [10**n for n in range(1, 7)] + [FAR]
    if p.last < TRIED and p.problem != NOT_FINITE:
        reach = [n for n in reach if n < p.last] + [p.last]
    sizes: dict[int, float] = {}
    blame = ""
    for end in reach:
        drawn = torch.randint(0, end + 1, (40,), generator=torch.Generator().manual_seed(2))
        pos = torch.cat((torch.tensor([0, end]), _spaced(end, 40), drawn)).unique()
        try:
            q, k, v = p.alike(p.tokens(8), pos)
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
    draw = _picture(
        _overlay, curves, torch.tensor(list(sizes)), x="positions up to", y="largest", log_x=True, what=what
    )
    if blame:
        return _Found(FAILS, math.inf, f"{blame} not finite", f"positions up to {_place(end)}", draw)
    last = before = list(sizes)[-1]
    if last >= TRIED:
        before = TRIED if last == FAR else 1000
    growth = sizes[last] / (sizes[before] or 1.0)
    if growth <= 1.5:
        where = f"its positions, 0 to {last}" if last < TRIED else f"positions up to {_place(last)}"
        finding = f"no score or value exceeds {_above(sizes[last])} at {where}"
    else:
        finding = (
            f"the largest score or value grows from {_number(sizes[before])} at positions up to {_place(before)} to "
            f"{_number(sizes[last])} at positions up to {_place(last)}"
        )
    conditions = f"about 80 positions up to {_place(last)}; the growth from {_place(before)} on, at most 1.5"
    return _Found(_verdict(growth <= 1.5), growth, finding, conditions, draw)


def _linear(p: _Probe) -> _Found:
    """What stands for position p + k is M_k times what stands for p, plus a constant, with one M_k for all p.

    For `embed` that is p_i, for `query` and `key` the turned vector (each head has its M_k, for all contents), for
    `bias`, `rescale` and `mix` what a key shows to later queries of several contents, in all heads. M_k is fitted by
    least squares on half of the positions and judged on the other half.
    """
    n = min(p.last + 1, max(p.length, 4 * (p.model_dim + 2)), 2048)
    if n < 12:
        return _nothing(f"positions are too few, {n}, to fit a map")
    far = min(50, n // 4)
    groups = {door: x for door, x in _vectors(p, torch.arange(n)).items() if _moves(x).any()}
    if not groups:
        return _nothing("position enters no vector and no score")
    tries = [(door, *fit) for door, vectors in groups.items() for fit in _fits(vectors, (1, far))]
    sizes = [float(error.square().mean().sqrt()) for *_, error in tries]
    size = max(sizes)
    door, k, where, error = tries[sizes.index(size)]
    if size <= LINEAR:
        finding = (
            f"one map takes p to p + 1, another p to p + {far}, and each is off by less than {LINEAR} of the spread"
        )
    else:
        (first,) = _clearly(error)
        start, by = int(where[first]), _number(error[first])
        finding = f"no map takes p to p + {k} ({door}): the best one leads from {start} past {start + k} by {by}"
        finding += " of the spread"
    curves = {"error of the map": error.clamp(min=1e-17), "tolerance": torch.full_like(error, LINEAR)}
    what = f"The error of the best linear map at positions that it was not fitted on ({door})"
    draw = _picture(
        _overlay, curves, where, x=f"position p of p → p + {k}", y="of the spread", log_y=True, alike=False, what=what
    )
    conditions = f"{n} positions, half of them for the fit, k = 1 and {far}; the error of the spread, at most {LINEAR}"
    return _Found(_verdict(size <= LINEAR), size, finding, conditions, draw)


def _vectors(p: _Probe, pos: Tensor) -> dict[str, Tensor]:
    """What stands for a position at each open door, (groups, contents, positions, features): one map for a group."""
    n, doors, found = len(pos), p.encoding.doors, {}
    if "embed" in doors:
        x = _everywhere(p.tokens(2), pos)
        found["embed"] = (p.encoding.embed(x, pos) - x)[None]
    content = p.random(8, p.heads, 1, p.head_dim, seed=3).expand(-1, -1, n, -1)
    for door in ("query", "key"):
        if door in doors:
            found[door] = getattr(p.encoding, door)(content, pos).transpose(0, 1)
    if "bias" in doors or "rescale" in doors:
        q = p.random(p.head_dim + 2, p.heads, 1, p.head_dim, seed=4)  # enough to see all that is linear in a query
        k = p.random(1, p.heads, 1, p.head_dim, seed=5).expand(len(q), -1, n, -1)
        score = p.scores(q, k, pos[-1:], pos)  # (C, H, 1, L)
        found["bias" if "bias" in doors else "rescale"] = score.permute(2, 3, 0, 1).flatten(2)[None]
    if "mix" in doors:
        v = p.random(1, p.heads, 1, p.head_dim, seed=5).expand(-1, -1, n, -1)
        found["mix"] = p.values(v, pos[-1:], pos).flatten(1)[None, None]
    _finite(*found.values())
    return found


def _moves(vectors: Tensor) -> Tensor:
    """How much each group varies with position, (groups,); 0 where that is no more than rounding."""
    size = (vectors - vectors.mean(2, keepdim=True)).square().mean((1, 2, 3)).sqrt()
    return size * (size > _rounding(vectors))


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


def _relative(p: _Probe) -> _Found:
    """Outputs for random tokens stay the same when all positions move by the same amount."""
    n = min(32, (p.last + 1) // 2)
    room = p.last + 1 - n
    if n < 1:
        return _nothing("there is one position only")
    drawn = torch.randint(2, 1000, (2,), generator=torch.Generator().manual_seed(7)).tolist()
    shifts = sorted({min(shift, room) for shift in (1, *drawn, 1000)})
    x, pos = p.random(2, n, p.model_dim, seed=8), torch.arange(n)
    modes = [True] if p.encoding.causal_only else [True, False]
    worst, first = 0.0, ""
    for shift, causal in product(shifts, modes):
        base, moved = p.layer(x, pos, causal=causal), p.layer(x, pos + shift, causal=causal)
        _finite(base, moved)
        change = _change(moved, base)
        if not first and float(change.max()) > CLOSE:
            (where,) = _clearly(change)
            by = _number(change[where])
            first = f"moved by {shift}, the output at position {where} changes by {by} of the spread"
        worst = max(worst, float(change.max()))
    by = ", ".join(map(str, shifts))
    finding = first or f"moved by {by}, outputs change by less than {CLOSE} of the spread"
    m = min(64, (p.last + 1) // 2)
    seen = {}
    for start in sorted({0, min(100, p.last + 1 - m), min(1000, p.last + 1 - m)}):
        seen[f"positions from {start}"] = p.all_scores(p.tokens(1), torch.arange(m) + start)[0, 0, -1].flip(0)
    what = "One head's scores against distance, with the sequence at several places"
    draw = _picture(_overlay, seen, torch.arange(m), x="distance", y="score", what=what)
    conditions = f"{n} tokens moved by {by}; the largest change of the spread, at most {CLOSE}"
    return _Found(_verdict(not first), worst, finding, conditions, draw)


def _decays(p: _Probe) -> _Found:
    """The expected score of a key that equals the query never rises with its distance, in any head.

    The expectation is over tokens of every direction, and exact: the mean over ± the unit vectors of a head.
    """
    n = min(p.length, 512)
    if n < 2:
        return _nothing("there is one position only")
    pos, score = torch.arange(n), torch.zeros(p.heads, n, dtype=p.dtype)
    pick = torch.arange(p.heads * p.head_dim) % p.model_dim  # the projection of q, k and v: channels in their order
    for c in range(p.head_dim):
        unit = (torch.arange(p.model_dim) % p.head_dim == c).to(p.dtype) * p.head_dim**0.5
        x = p.encoding.embed(_everywhere(torch.stack((unit, -unit)), pos), pos)
        q = x[..., pick].unflatten(-1, (p.heads, p.head_dim)).transpose(1, 2)  # (2, H, n, d)
        q, k = p.encoding.query(q, pos), p.encoding.key(q, pos)
        score += p.scores(q[:, :, -1:], k, pos[-1:], pos)[:, :, 0].sum(0) / (2 * p.head_dim)
    score = score.flip(-1)  # (H, n), by distance
    _finite(score)
    whole = float(score.max() - score.min())
    curves = {f"head {h}": score[h] for h in range(min(p.heads, 8))}
    if float((score - score[0]).abs().max()) <= 1e-9 * float(score.abs().max()):
        curves = {"all heads": score[0]}
    what = "The expected score against distance"
    draw = _picture(_overlay, curves, torch.arange(n), x="distance", y="expected score", alike=False, what=what)
    conditions = f"distances 0 to {n - 1}, all heads; the largest rise from one to the next, of the whole range"
    if whole <= 1e-9 * float(score.abs().max()):
        return _Found(FAILS, 0.0, f"the expected score is {_number(score[0, 0])} at every distance", conditions, draw)
    rise = score.diff(dim=1) / whole  # (H, n - 1)
    largest = float(rise.max())
    if largest <= p.same:
        finding = f"it falls from {_number(score[:, 0].mean())} at 0 to {_number(score[:, -1].mean())} at {n - 1}"
        return _Found(HOLDS, max(largest, 0.0), f"{finding}, on the mean of heads, and never rises", conditions, draw)
    where = int((rise > p.same).any(0).nonzero()[0])
    h = int((rise[:, where] > p.same).nonzero()[0])
    near = max(1, n // 16)
    before, after = _numbers(score[h, where], score[h, where + 1])
    finding = (
        f"in head {h} it rises from {before} at {where} to {after} at {where + 1}; on the mean of heads it is "
        f"{_number(score[:, :near].mean())} below {near} and {_number(score[:, n // 2 :].mean())} from {n // 2} on"
    )
    return _Found(FAILS, largest, finding, conditions, draw)


def _grid(p: _Probe) -> _Found:
    """Applied to each axis of a grid, with channels of their own and scores added, it tells all points apart."""
    n = min(16, p.length)
    at = p.at(n)
    tokens, pos = p.tokens(16), torch.arange(n)
    (down, down_value), (right, right_value) = (p.seen(part, pos, at) for part in (tokens[:8], tokens[8:]))
    score = down[..., :, None] + right[..., None, :]  # (8, H, n, n)
    shape = (n, n, *down_value.shape[1:])
    value = torch.cat((down_value[:, None].expand(shape), right_value[None].expand(shape)), -1)
    gaps = _gaps(_signature(score.flatten(2), value.flatten(0, 1)))
    if n < 2:
        return _nothing("there is one position only")
    alike = gaps <= 0.1 * p.same
    known = _known(alike)
    points = torch.cartesian_prod(pos, pos)
    seen = (score - score[..., at, at][..., None, None])[0, 0]
    what = f"One head's score of each point of a grid, seen from ({at}, {at}), less that of the query's own point"
    draw = _picture(_map, seen, x="column", y="row", unit="score", scale="diverging", mark=at, what=what)
    conditions = f"a grid of {n} by {n}, 8 tokens, alike within {0.1 * p.same:.0e} of the spread; points told apart"
    if known < n * n:
        a, b = (tuple(points[m].tolist()) for m in _nearest(alike, (points - at).abs().sum(1)))
        finding = f"the query at ({at}, {at}) cannot tell {a} from {b}; {_kinds(known, f'its {n * n} points')}"
    elif p.encoding.causal_only:
        finding = "it is made for keys behind the query, and of those before a point of a grid some lie to its right"
    else:
        finding = f"the query at ({at}, {at}) tells all {n * n} points apart"
    holds = known == n * n and not p.encoding.causal_only
    return _Found(_verdict(holds), float(known), finding, conditions, draw)


def _cacheable(p: _Probe) -> _Found:
    """Token by token through a `KVCache`, outputs are what the whole sequence so far gives, computed anew."""
    dense = min(12, p.length)
    far = torch.linspace(p.length // 2, min(4 * p.length, p.last), 8).round().long()
    pos = torch.cat((torch.arange(dense), far)).unique()
    x = p.random(1, len(pos), p.model_dim, seed=9)
    cache, steps, anew = KVCache(), [], []
    conditions = f"{len(pos)} tokens, the last at {int(pos[-1])}; the largest change of the spread, at most {p.same}"
    for n in range(len(pos)):
        here, so_far = slice(n, n + 1), slice(n + 1)
        anew.append(p.layer(x[:, so_far], pos[so_far])[:, :, -1:])
        try:
            token = p.encoding.embed(x[:, here], pos[here])
            q, k, v = p.projected(token)
            k, v, kpos = cache.extend(k, v, pos[here], p.encoding)
            steps.append(attend(p.encoding.query(q, pos[here]), k, v, p.encoding, pos[here], kpos))
        except Exception as error:
            nothing = _nothing(f"step {n}, position {int(pos[n])}, {_short(error)}")
            return replace(nothing, verdict=FAILS, conditions=conditions)
    cached, expected = torch.cat(steps, 2), torch.cat(anew, 2)
    _finite(cached, expected)
    change = _change(cached, expected)
    worst = float(change.max())
    if worst <= p.same:
        finding = f"{len(pos)} tokens, the last at {int(pos[-1])}, get what the whole sequence so far gives"
    else:
        (n,) = _clearly(change)
        finding = f"at step {n}, position {int(pos[n])}, the output is off by {_number(change[n])} of the spread"
    curves = {"computed anew": expected[0, 0, :, 0], "from the cache": cached[0, 0, :, 0]}
    draw = _picture(_overlay, curves, torch.arange(len(pos)), x="step", y="output", what="One channel of the output")
    return _Found(_verdict(worst <= p.same), worst, finding, conditions, draw)


def _unlimited(p: _Probe) -> _Found:
    """It runs at positions far beyond `length`; of how good it is there, only training tells."""
    ends = _spaced(max(p.last, 1), 60).unique()
    scores = [p.all_scores(p.tokens(3), torch.stack((end - 1, end)))[:, 0, 1, 0] for end in ends if end <= p.last]
    curves = {f"token {n + 1}": torch.stack([score[n] for score in scores]) for n in range(3)} if scores else {}
    draw = _picture(
        _overlay, curves, ends, x="position of the query", y="score", log_x=True, alike=False, end=p.last,
        what="One head's score of the key just before the query, as far as it runs",
    )  # fmt: skip
    finding = (
        f"position {_place(TRIED)} runs; whether it is any good beyond the lengths of training, only training shows"
    )
    if p.last < TRIED:
        finding = f"position {p.last + 1} {p.problem}"
    conditions = f"positions 0 and p, p up to {_place(TRIED)}; the largest p that runs and is finite"
    return _Found(_verdict(p.last == TRIED), float(p.last), finding, conditions, draw)


def _ordered(p: _Probe) -> _Found:
    """Without a mask, shuffled tokens get other outputs than their old ones, shuffled."""
    n = min(16, p.length)
    if p.encoding.causal_only:
        return _nothing("it is made for keys behind the query, so a mask hides the others")
    if n < 2:
        return _nothing("there is one position only")
    x, pos = p.random(1, n, p.model_dim, seed=10), torch.arange(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(11))
    straight = p.layer(x, pos, causal=False)
    shuffled = p.layer(x[:, order], pos, causal=False)[:, :, order.argsort()]
    reversed_ = p.layer(x.flip(1), pos, causal=False).flip(2)
    _finite(straight, shuffled, reversed_)
    change = float(_change(shuffled, straight).max())
    if change <= p.same:
        finding = f"{n} tokens in another order get the same outputs in that order"
    elif float(_change(reversed_, straight).max()) <= p.same:
        finding = f"outputs change by up to {_number(change)} of the spread, but not if the order is reversed"
    else:
        finding = f"outputs change by up to {_number(change)} of the spread"
    curves = {"in order": straight[0, 0, :, 0], "shuffled, and put back": shuffled[0, 0, :, 0]}
    draw = _picture(_overlay, curves, pos, x="token", y="output", what="One channel of the output, without a mask")
    conditions = f"{n} tokens, causal=False; the largest change of the spread, more than {p.same}"
    return _Found(_verdict(change > p.same), change, finding, conditions, draw)


def _fused(p: _Probe) -> _Found:
    """A fused kernel computes the same as the dense backend: torch's `sdpa` or `flex`."""
    served = [name for name, out in p.outputs.items() if isinstance(out, Tensor) and name != "dense"]
    refused = [out for out in p.outputs.values() if isinstance(out, str)]
    agreed = " and ".join(served) + (" agree" if len(served) > 1 else " agrees") + " with dense"
    finding = "; ".join([agreed, *refused] if served else refused)
    curves = {name: out[0, 0, :, 0] for name, out in p.outputs.items() if isinstance(out, Tensor)}
    n = min(16, p.length)
    draw = _picture(_overlay, curves, torch.arange(n), x="position", y="output", what="One channel of the output")
    conditions = f"{n} tokens, within {p.same} of the spread; how many of sdpa and flex serve it"
    return _Found(_verdict(bool(served)), float(len(served)), finding, conditions, draw)


WISHES: dict[str, tuple[str, Callable[[_Probe], _Found]]] = {
    "unique": ("Any two positions are told apart.", _unique),
    "deterministic": ("The same input gives the same output.", _deterministic),
    "fixed": ("Nothing has to be learned.", _fixed),
    "consistent": ("A pair means the same in a longer sequence.", _consistent),
    "honest": ("Positions are those that it is given.", _honest),
    "bounded": ("Nothing grows without end with positions.", _bounded),
    "linear": ("A linear map takes p to p + k, whatever p.", _linear),
    "relative": ("Only offsets matter.", _relative),
    "decays": ("Scores fall with distance.", _decays),
    "grid": ("It extends to two dimensions, axis by axis.", _grid),
    "cacheable": ("Decoding with a cache changes nothing.", _cacheable),
    "unlimited": ("It runs at any position.", _unlimited),
    "ordered": ("Order is seen without a mask.", _ordered),
    "fused": ("A fused kernel serves it.", _fused),
}
"""Name of a property -> the wish in words, and how it is measured."""


def _nothing(reason: str) -> _Found:
    return _Found(NOT_APPLICABLE, math.nan, reason, "", _picture(_words, what="Nothing was measured"))


def _measured(name: str, wish: str, measure: Callable[[_Probe], _Found], probe: _Probe) -> Property:
    try:
        found = measure(probe)
    except _NotFinite as error:
        found = replace(_nothing(str(error)), verdict=FAILS)
    except Exception as error:  # an encoding may raise anything
        found = _nothing(f"it could not be measured, since it {_short(error)}")
    definition = inspect.getdoc(measure) or ""
    return Property(name, wish, found.verdict, found.value, found.finding, found.conditions, definition, found.draw)


def _line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]


def _short(error: Exception) -> str:
    return f"raises {type(error).__name__}: {_line(error)}"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Torch's own generator is seeded for the time of the measurement, and is afterwards what it was before."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.no_grad())
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        torch.default_generator.manual_seed(0)
        yield


def _fitted(encoding: Encoding, given: dict[str, int | None]) -> _Probe:
    """The first probe that runs: sizes as given, as the encoding has them, or of the usual ones; float64 if it can."""
    _check.has_memory(encoding)
    source = copy.deepcopy(encoding).cpu().requires_grad_(False)
    errors: list[str] = []
    for sizes in _candidates(encoding, given):
        for dtype in (torch.float64, torch.float32):
            probe = _Probe(copy.deepcopy(source).to(dtype), *sizes, dtype)
            try:
                probe.layer(probe.tokens(4)[None], torch.arange(4).clamp(max=max(0, sizes[3] - 1)))
            except Exception as error:
                errors.append(f"{probe.sizes()} {_short(error)}")
                continue
            probe.original = encoding
            _reach(probe)
            _randomise(probe)
            probe.outputs = _backends(probe.fresh())
            return probe
    raise _check.unmeasured(type(encoding).__name__, errors)


def _candidates(encoding: Encoding, given: dict[str, int | None]) -> Iterator[tuple[int, int, int, int]]:
    """(model_dim, heads, head_dim, length), most usual first."""
    known = {name: value if value is not None else _attribute(encoding, name) for name, value in given.items()}
    model_dim, heads, head_dim = known["model_dim"], known["heads"], known["head_dim"]
    if not heads and model_dim and head_dim and model_dim % head_dim == 0:
        heads = model_dim // head_dim
    for count in [heads] if heads else [4, 8, 2, 1, 12, 16]:
        usual = [16, 64, 32, 128, 8]
        if model_dim:
            usual = [model_dim // count] if model_dim % count == 0 else []
        for size in [head_dim] if head_dim else usual:
            yield model_dim or count * size, count, size, known["length"] or 512


def _attribute(encoding: Encoding, name: str) -> int | None:
    for module in encoding.modules():
        value = getattr(module, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _reach(probe: _Probe) -> None:
    """Finds the last position that is served, up to a million, and what happens at the next."""
    fresh = probe.fresh()
    low, high, tried = 0, None, {}
    for end in (*sorted({probe.length - 1, probe.length, 2 * probe.length}), TRIED):
        tried[end] = _problem(fresh, end)
        if tried[end]:
            high = end
            break
        low = end
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        tried[middle] = _problem(fresh, middle)
        low, high = (low, middle) if tried[middle] else (middle, high)
    probe.last = min(low, TRIED)
    probe.problem = tried[high] if high is not None else ""
    probe.length = min(probe.length, probe.last + 1)


def _problem(probe: _Probe, end: int) -> str:
    """What goes wrong with tokens at 0 and `end`, or nothing."""
    try:
        out = probe.layer(probe.tokens(2)[None], torch.tensor([0, end]))
    except Exception as error:
        return _short(error)
    return "" if out.isfinite().all() else NOT_FINITE


def _randomise(probe: _Probe) -> None:
    """Parameters that are all zero may hide a scheme: if position has no effect, they get random numbers."""
    zero = {name: x for name, x in probe.encoding.named_parameters() if x.numel() and not x.any()}
    n = min(probe.length, 64)
    x, pos, past = probe.tokens(n)[None], torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
    if not zero:
        return
    try:
        moved, unmoved = (probe.fresh().layer(x, at, causal=False, mask=past) for at in (pos, torch.zeros_like(pos)))
    except Exception:
        return
    if float(_change(moved, unmoved).max()) <= probe.same:
        for seed, (name, parameter) in enumerate(zero.items()):
            parameter.copy_(0.1 * probe.random(*parameter.shape, seed=100 + seed))
            probe.randomised.append(name)


def _backends(probe: _Probe) -> dict[str, Tensor | str]:
    """What every backend of `attend` computes, or why it is no use."""
    n = min(16, probe.length)
    x, pos = probe.random(1, n, probe.model_dim, seed=12), torch.arange(n)
    outputs: dict[str, Tensor | str] = {}
    for backend in BACKENDS:
        try:
            out = probe.layer(x, pos, backend=backend)
        except Exception as error:
            outputs[backend] = _line(error)
            continue
        dense = outputs.get("dense", out)
        change = float(_change(out, dense).max()) if isinstance(dense, Tensor) else math.nan
        served = backend == "dense" or change <= probe.same
        outputs[backend] = (
            out if served else f'backend "{backend}" differs from dense by {_number(change)} of the spread'
        )
    return outputs


# How it is shown


def _picture(draw: Callable[..., Picture], *data: Any, what: str, **options: Any) -> Callable[[str], Picture]:
    return lambda finding: draw(*data, alt=f"{what}: {finding}.", **options)


def _map(
    matrix: Tensor, *, alt: str, x: str, y: str, unit: str, scale: str = "sequential", start: int = 0, mark: int = -1
) -> Picture:
    """A square of colours, with a ring around the query's own cell."""
    from posenc import plot
    from posenc.explore.views import Heatmap

    fig, ax = plot.figure(4.4, 3.6)
    view = Heatmap(x=x, y=y, scale=scale, origin=(start, start))
    plot.draw_on(ax, view, [matrix.double().numpy()])
    ax.set_aspect("equal")
    fig.axes[1].set_ylabel(unit)
    if mark >= 0:
        ax.plot(mark, mark, marker="o", markersize=6, markerfacecolor="none", markeredgecolor="#222222")
    return plot.picture(fig, alt)


def _overlay(
    curves: dict[str, Tensor], at: Tensor, *, alt: str, x: str, y: str,
    log_x: bool = False, log_y: bool = False, alike: bool = True, end: int = TRIED,
) -> Picture:  # fmt: skip
    """Curves; if they should be alike, the first ones are broader, so that they show beneath the others."""
    from matplotlib import rc_context
    from matplotlib.ticker import MaxNLocator

    from posenc import plot

    fig, ax = plot.figure(6.4, 2.8)
    values = torch.cat([*curves.values(), torch.zeros(0)])
    few = len(at) <= 20
    with rc_context(plot.STYLE):
        for index, (label, curve) in enumerate(curves.items()):
            width = 1.6 + 2.2 * (len(curves) - 1 - index) * alike
            ax.plot(
                at.tolist(), curve.tolist(), color=plot.CYCLE[index], label=label, linewidth=width,
                solid_capstyle="round", marker="o" if few else None, markersize=width + 2.5,
            )  # fmt: skip
        ax.set(xlabel=x, ylabel=y)
        if log_x:
            ax.set_xscale("log")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        positive = len(values) and float(values.min()) > 0
        if log_y or (positive and float(values.max()) > 100 * float(values.min())):
            ax.set_yscale("log")
        elif positive and len(curves) == 1:
            ax.set_ylim(0, 1.1 * float(values.max()))
        if end < TRIED:
            ax.axvspan(max(end, 1), TRIED, color=plot.INK, alpha=0.12, linewidth=0)
            ax.annotate("does not run here", (max(end, 1), 0.5), xytext=(6, 0), xycoords=("data", "axes fraction"),
                        textcoords="offset points", va="center")  # fmt: skip
            ax.set_xlim(1, TRIED)
        ax.grid(axis="y", linewidth=0.4, alpha=0.35, color=plot.INK)
        if len(curves) > 1 or "all heads" in curves:
            ax.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
    return plot.picture(fig, alt)


def _bars(sizes: dict[str, int], *, alt: str, x: str) -> Picture:
    from posenc import plot

    fig, ax = plot.figure(6.4, 0.9 + 0.35 * len(sizes))
    bars = ax.barh(list(sizes), list(sizes.values()), color=plot.CYCLE[0], height=0.6)
    ax.bar_label(bars, padding=4)
    ax.set(xlabel=x, xlim=(0, 1.15 * max(sizes.values())), xticks=[])
    ax.spines["bottom"].set_visible(False)
    ax.invert_yaxis()
    return plot.picture(fig, alt)


def _words(*, alt: str) -> Picture:
    """A measurement without numbers."""
    from posenc import plot

    lines = textwrap.wrap(alt, 90)
    fig, ax = plot.figure(6.4, 0.4 + 0.2 * len(lines))
    ax.axis("off")
    ax.text(0, 0.5, "\n".join(lines), va="center", transform=ax.transAxes)
    return plot.picture(fig, alt)


def _table(caption: str, head: list[str], rows: list[list[str]], below: str = "") -> str:
    """A table whose first row and first column are its headers, in a box that scrolls by itself."""
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        cells = cells.replace(f"<td>{FAILS}</td>", f"<td><strong>{FAILS}</strong></td>")  # not by colour
        body += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    note = f"<p>{html.escape(below)}</p>" if below else ""
    return (
        f'<div class="pe-properties" role="group" aria-label="{html.escape(caption)}" tabindex="0" '
        f'style="overflow-x: auto"><table class="table"><caption>{html.escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )
