"""Where one side cannot be looked into: hypotheses are tried in the other, one, two or three at a time.

A function of another library, a server or a dump gives logits alone. The side that is torch is changed, layer by layer,
until it gives them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.comparison.attention import words
from posenc.audit.comparison.maps import Map, unturned, way
from posenc.audit.comparison.plan import whole
from posenc.audit.comparison.result import KINDS, Comparison, Difference
from posenc.audit.comparison.sides import Layer, Side, layers_of
from posenc.audit.identification.rotation import FoundRotation
from posenc.audit.identification.scalings import nice
from posenc.audit.probe import deviation
from posenc.schemes.alibi import alibi_slopes
from posenc.schemes.scaling import llama3, yarn, yarn_attention_factor

Edit = Callable[[Layer], Layer]
BASES = (100.0, 1e3, 1e4, 5e4, 1e5, 1.5e5, 5e5, 1e6, 2e6, 5e6, 1e7)
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)
GOLDEN = (5**0.5 - 1) / 2
BEAM, DEPTH, POOL = 4, 3, 20
PAIRS, TUNED = 240, 3  # how many pairs of layers' differences are tried, and of how many numbers are fitted
USUAL = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # widths of windows
SMALL = 0.005  # of what is explained; a guess with less is no finding
SKETCH = 128  # numbers that stand for a row of logits where pairs are ranked
MOST_LAYERS, SECONDS = 8, 25.0


@dataclass(frozen=True)
class Guess:
    """A difference that may be there.

    Args:
        kind, reference, candidate, of: As in `Difference`.
        edit: What it makes of a layer of the reference.
        layers: Where; None for all.
    """

    kind: str
    reference: str
    candidate: str
    edit: Edit
    layers: tuple[int, ...] | None = None
    of: str = ""

    def done(self, layers: list[Layer]) -> list[Layer]:
        return [self.edit(x) if self.layers is None or n in self.layers else x for n, x in enumerate(layers)]


class Search:
    """Guesses tried in a side that can be looked into.

    Args:
        side: Which one.
        tokens, positions: The text.
        wanted: The logits that it should give.
        tolerance: Below it, differences are rounding.
    """

    def __init__(self, side: Side, tokens: Tensor, positions: Tensor | None, wanted: Tensor, tolerance: float) -> None:
        self.side, self.tokens, self.wanted, self.tolerance = side, tokens, wanted, tolerance
        self.positions = None if positions is None else positions.reshape(-1, positions.shape[-1])[:1]
        n = tokens.shape[1]
        pos = torch.arange(n) if self.positions is None else self.positions[0]
        low = min(10, side.vocabulary // 8)
        same = words(low, side.vocabulary, n)
        mixed = torch.randint(low, side.vocabulary, (4, n), generator=torch.Generator().manual_seed(1))
        seen = [
            side.seen(each, None if self.positions is None else self.positions.expand(len(each), -1))
            for each in (same, mixed)
        ]
        if not seen[0]:
            raise Unfit(
                "neither side's attention can be seen: give one as a torch module whose attention is matmul and "
                "softmax or scaled_dot_product_attention, or dump queries and keys of both"
            )
        self.layers = layers_of(seen[0], seen[1], None, pos)
        self.deadline = time.process_time() + SECONDS
        self.others: tuple[str, ...] = ()
        self.plain = side.logits(tokens, self._given())[..., : wanted.shape[-1]]

    def _given(self) -> Tensor | None:
        return None if self.positions is None else self.positions.expand(len(self.tokens), -1)

    def logits(self, guesses: tuple[Guess, ...]) -> Tensor:
        layers = self.layers
        for guess in guesses:
            layers = guess.done(layers)
        out = self.side.changed(self.tokens, self._given(), whole(self.layers, layers))
        return out[..., : self.wanted.shape[-1]]

    def left(self, guesses: tuple[Guess, ...]) -> float:
        """Root mean square that stays, over that of what is wanted."""
        return self._size(self.logits(guesses))

    def _size(self, out: Tensor) -> float:
        gap = out - self.wanted
        size = float(gap.square().mean().sqrt() / self.wanted.square().mean().sqrt())
        return size if math.isfinite(size) else math.inf

    def found(self) -> tuple[tuple[Guess, ...], float]:
        """The smallest set of guesses that leaves rounding, or the one that leaves least."""
        goal = max(self.tolerance, 1e-6)
        singles = guesses_of(self.layers, self._first())
        tried: list[tuple[float, tuple[Guess, ...]]] = [(self.left((g,)), (g,)) for g in singles]
        done = self._best(tried, goal)
        if done is not None:
            return done
        tuned = [self._tuned((make(self.layers, start),)) for make, start in STARTS]
        tried += [(self.left(each), each) for each in tuned]
        done = self._best(tried, goal)
        if done is not None:
            return done
        if 1 < len(self.layers) <= MOST_LAYERS:
            everywhere = [*singles, *windows_of(self.layers, singles)]
            local = [replace(g, layers=(n,)) for g in everywhere for n in range(len(self.layers))]
            sizes: list[float] = []
            sketches: list[Tensor] = []
            for g in local:
                out = self.logits((g,))
                sizes.append(self._size(out))
                sketches.append(self._sketch(out))
            tried += [(size, (g,)) for size, g in zip(sizes, local, strict=True)]
            done = self._best(tried, goal) or self._two(local, sizes, torch.stack(sketches), goal)
            if done is not None:
                return done
        tried.sort(key=lambda each: each[0])
        best = tried[0]
        pool = list(dict.fromkeys([*singles, *(each[1][0] for each in tried[:POOL])]))
        for _ in range(DEPTH - 1):
            more: list[tuple[float, tuple[Guess, ...]]] = []
            for _, chosen in tried[:BEAM]:
                for g in pool:
                    if time.process_time() > self.deadline:
                        return best[1], best[0]
                    if any(_clash(g, other) for other in chosen):
                        continue
                    more.append((self.left((*chosen, g)), (*chosen, g)))
                    if more[-1][0] < goal:
                        return more[-1][1], more[-1][0]
            more.sort(key=lambda each: each[0])
            tried = more[:BEAM]
            tried += [(self.left(t), t) for t in (self._tuned(chosen) for _, chosen in more[:BEAM])]
            tried.sort(key=lambda each: each[0])
            done = self._best(tried, goal)
            if done is not None:
                return done
            best = min(best, tried[0], key=lambda each: each[0]) if tried else best
        return best[1], best[0]

    def _sketch(self, out: Tensor) -> Tensor:
        """A few hundred numbers for how logits differ from those without a guess."""
        n, v = out.shape[1:]
        rows = torch.linspace(0, n - 1, min(n, SKETCH // 2)).round().long()
        g = torch.Generator().manual_seed(2)
        mix = torch.randn(v, SKETCH, generator=g, dtype=torch.float64) if v > SKETCH else torch.eye(v).double()
        return ((out - self.plain)[:, rows] @ mix).flatten().nan_to_num()

    def _two(
        self, local: list[Guess], sizes: list[float], d: Tensor, goal: float
    ) -> tuple[tuple[Guess, ...], float] | None:
        """The first pair of guesses, each in a layer of its own or of another kind, that leaves rounding.

        All pairs are ranked as if their changes of the logits added up, and the likeliest are tried. The numbers of the
        best ones, such as a base, are then fitted.

        Args:
            local: Guesses, each in one layer.
            sizes: What each of them leaves.
            d: How each of them changes the logits, as `_sketch` has it.
            goal: What counts as rounding.
        """
        wanted = self._sketch(self.wanted)
        alone = d.square().sum(1) - 2 * d @ wanted
        left = alone[:, None] + alone[None] + 2 * d @ d.T
        a, b = torch.triu_indices(len(local), len(local), 1)
        free = torch.tensor([not _clash(local[i], local[j]) for i, j in zip(a.tolist(), b.tolist(), strict=True)])
        a, b = a[free], b[free]
        tried: list[tuple[float, tuple[Guess, ...]]] = []
        for n in left[a, b].argsort()[:PAIRS].tolist():
            if time.process_time() > self.deadline:
                break
            pair = (local[int(a[n])], local[int(b[n])])
            tried.append((self.left(pair), pair))
            if tried[-1][0] < goal:
                return pair, tried[-1][0]
        tried.sort(key=lambda each: each[0])
        for _, best in tried[:TUNED]:
            if time.process_time() > self.deadline:
                break
            fitted = self._tuned(self._tuned(best)[::-1])
            fitted = self._tuned(fitted[::-1])
            if (size := self.left(fitted)) < goal:
                return fitted, size
        nearest = local[min(range(len(local)), key=lambda n: sizes[n])]
        for make, start in STARTS:
            for layer in range(len(self.layers)):
                other = replace(make(self.layers, start), layers=(layer,))
                if _clash(nearest, other) or time.process_time() > self.deadline:
                    continue
                fitted = self._tuned((nearest, other))
                if (size := self.left(fitted)) < goal:
                    return fitted, size
        return None

    def _best(
        self, tried: list[tuple[float, tuple[Guess, ...]]], goal: float
    ) -> tuple[tuple[Guess, ...], float] | None:
        """The first set that leaves rounding; others that do so too are noted."""
        good = [(size, chosen) for size, chosen in tried if size < goal]
        if not good:
            return None
        self.others = tuple(dict.fromkeys(chosen[-1].candidate for _, chosen in good[1:]))
        return good[0][1], good[0][0]

    def _first(self) -> int | None:
        """The first row that differs."""
        rows = (self.plain - self.wanted).abs().amax((0, 2)) > 10 * self.tolerance * self.wanted.square().mean().sqrt()
        return int(rows.nonzero()[0]) if bool(rows.any()) else None

    def _tuned(self, chosen: tuple[Guess, ...]) -> tuple[Guess, ...]:
        """With the number of the last guess fitted, if it has one."""
        of = chosen[-1]
        make = _maker(of)
        if make is None:
            return chosen

        def size(x: float) -> float:
            return self.left((*chosen[:-1], replace(make(self.layers, math.exp(x)), layers=of.layers)))

        low, high, count = {"base": (10.0, 1e8, 33), "scaling": (0.4, 64.0, 25)}.get(of.kind, (0.25, 4.0, 13))
        step = math.log(high / low) / (count - 1)
        middle = min((math.log(low) + k * step for k in range(count)), key=size)
        a, b = middle - step, middle + step
        c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
        fc, fd = size(c), size(d)
        for _ in range(32):
            if fc < fd:
                b, d, fd = d, c, fc
                c = b - GOLDEN * (b - a)
                fc = size(c)
            else:
                a, c, fc = c, d, fd
                d = a + GOLDEN * (b - a)
                fd = size(d)
        value = math.exp((a + b) / 2)
        rounded = nice(value, value * (1 - 1e-4), value * (1 + 1e-4))
        return (*chosen[:-1], replace(make(self.layers, rounded), layers=of.layers))


def _with(layer: Layer, edit: Callable[[Map], Map], of: str = "qk") -> Layer:
    q, k = (edit(m) if name in of and m.turns else m for name, m in (("q", layer.q), ("k", layer.k)))
    return replace(layer, q=q, k=k)


def _exact(m: Map, **parts: object) -> Map:
    out = replace(m, **parts)  # type: ignore[arg-type]
    return replace(out, measured=out.exact())


def _rates(m: Map, f: Tensor) -> Map:
    return _exact(m, slopes=f[: len(m.slopes)] * way(m))


def _plain(m: Map, base: float) -> Tensor:
    dims = m.found.rotary_dim if m.found is not None else 2 * len(m.pairs)
    return base ** (-2 * torch.arange(len(m.slopes), dtype=torch.float64) / dims)


def _base_of(layers: list[Layer]) -> float:
    return next((m.q.found.base for m in layers if m.q.found is not None and m.q.found.base), 10_000.0)


def _based(layers: list[Layer], base: float) -> Guess:
    return Guess(
        "base", f"{_base_of(layers):,.7g}", f"{base:,.7g}", lambda x: _with(x, lambda m: _rates(m, _plain(m, base)))
    )


def _slower(layers: list[Layer], factor: float) -> Guess:
    said = f"linear scaling, factor {factor:.6g}"
    return Guess("scaling", "its rates", said, lambda x: _with(x, lambda m: _exact(m, slopes=m.slopes / factor)))


def _louder(layers: list[Layer], ratio: float) -> Guess:
    return Guess(
        "amplitude", "scores times 1", f"scores times {ratio:.5g}", lambda x: replace(x, scale=x.scale * ratio)
    )


Make = Callable[[list[Layer], float], Guess]
"""From layers and a number to a guess."""

STARTS: tuple[tuple[Make, float], ...] = ((_based, 1e4), (_slower, 2.0), (_louder, 1.25))
"""What makes guesses with a number, and the number with which a search begins."""


def _maker(guess: Guess) -> Make | None:
    """What makes such a guess with another number; None where it has none."""
    if guess.kind == "scaling":
        return _slower if guess.candidate.startswith("linear") else None
    return {"base": _based, "amplitude": _louder}.get(guess.kind)


def _clash(a: Guess, b: Guess) -> bool:
    """Whether two guesses are about the same thing in the same layers."""
    apart = a.layers is not None and b.layers is not None and not set(a.layers) & set(b.layers)
    return a.kind == b.kind and (a.of == b.of or not a.of or not b.of) and not apart


def guesses_of(layers: list[Layer], first: int | None) -> list[Guess]:
    """All single guesses, in all layers.

    Args:
        layers: The side that is changed.
        first: The first row of logits that differs.
    """
    out: list[Guess] = []
    turning = next((x.q for x in layers if x.q.turns and x.q.found is not None), None)
    n, heads = layers[0].bias.shape[-1], layers[0].bias.shape[0]
    for w in (first, first + 1, first - 1) if first else ():
        if 0 < w < n:
            out.append(Guess("window", "the keys that it sees", f"a window of {w} keys", _edit(_windowed, w)))
    if turning is not None and turning.found is not None:
        out += _rotations(layers, turning.found)
    if any(float(x.bias[x.bias.isfinite()].abs().max()) > 1e-4 for x in layers):
        out.append(Guess("slopes", "its bias", "the bias with the other sign", _edit(_turned_bias)))
        out.append(Guess("slopes", "its bias", "no bias", _edit(_without_bias)))
    paper = 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
    for rule, slopes in (("the authors' rule", alibi_slopes(heads, dtype=torch.float64)), ("the paper's rule", paper)):
        if heads > 1:
            out.append(Guess("slopes", "its bias", f"ALiBi by {rule}", _edit(_sloped, slopes)))
    return out + [_louder(layers, r) for r in (0.5, 0.8, 1.25, 2.0)]


def _edit(function: Callable[..., Layer], *given: Any) -> Edit:
    """A function of a layer and these arguments as a function of the layer."""
    return lambda layer: function(layer, *given)


def _turn(function: Callable[..., Map], *given: Any, of: str = "qk") -> Edit:
    """A function of a map and these arguments, done to the maps of a layer that turn."""
    return lambda layer: _with(layer, lambda m: function(m, *given), of)


def windows_of(layers: list[Layer], known: list[Guess]) -> list[Guess]:
    """Windows that a text of this length shows, without those that are known; of a long one the usual widths."""
    there = {g.candidate for g in known if g.kind == "window"}
    n = layers[0].bias.shape[-1]
    widths = range(2, n) if n <= 64 else [w for w in USUAL if w < n]
    made = [Guess("window", "the keys that it sees", f"a window of {w} keys", _edit(_windowed, w)) for w in widths]
    return [g for g in made if g.candidate not in there]


def _rotations(layers: list[Layer], found: FoundRotation) -> list[Guess]:
    """What may be wrong with a rotation."""
    other = "interleaved" if found.layout == "half" else "half"
    out = [
        Guess("layout", found.layout, other, _turn(_swapped)),
        Guess("direction", "the usual way", "the other way", _turn(_backwards)),
        *(Guess("unrotated", "a rotation", "no rotation", _turn(unturned, of=of), of=word)
          for of, word in (("qk", ""), ("q", "queries"), ("k", "keys"))),
        *(_based(layers, b) for b in BASES if abs(b / _base_of(layers) - 1) > 1e-6),
        *(_slower(layers, s) for s in (*FACTORS, 0.5)),
    ]  # fmt: skip
    for r in sorted({found.dim * k // 4 // 2 * 2 for k in (1, 2, 3, 4)} - {0, found.rotary_dim}):
        words = (f"{found.rotary_dim} channels turning", f"{r} of {found.dim} channels turning")
        out.append(Guess("partial", *words, _turn(_narrow, r)))
    for o in (1, -1, 2, -2, 3, -3):
        out.append(Guess("offset", "positions + 0", f"positions {o:+d}", _turn(_later, o, of="q"), of="queries"))
    out += _scalings(_base_of(layers))
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        out.append(Guess("rounding", "fine angles", f"{name} tables", _turn(_coarse, dtype)))
        out.append(Guess("rounding", "fine angles", f"{name} frequencies", _turn(_coarse_rates, dtype)))
    return out


def _scalings(base: float) -> list[Guess]:
    """YaRN's and Llama 3's usual settings."""
    out = []
    for s in FACTORS:
        sharp = yarn_attention_factor(s) ** 2
        for trained in (2048, 4096, 8192, 32_768):
            said = f"yarn, factor {s:g}, length in training {trained:,}"
            slow = _turn(_yarned, base, s, trained)
            out.append(Guess("scaling", "its rates", said, slow))
            out.append(Guess("scaling", "its rates", f"{said}, with its amplitude", _sharper(slow, sharp)))
        said = f"llama3, factor {s:g}, length in training 8,192"
        out.append(Guess("scaling", "its rates", said, _turn(_llama3, base, s)))
    return out


def _sharper(edit: Edit, ratio: float) -> Edit:
    """An edit, and scores that are multiplied as well."""

    def both(layer: Layer) -> Layer:
        out = edit(layer)
        return replace(out, scale=out.scale * ratio)

    return both


def _yarned(m: Map, base: float, factor: float, trained: int) -> Map:
    return _rates(m, yarn(_plain(m, base), factor, trained, form="code"))


def _llama3(m: Map, base: float, factor: float) -> Map:
    return _rates(m, llama3(_plain(m, base), factor))


def _backwards(m: Map) -> Map:
    return _exact(m, slopes=-m.slopes)


def _later(m: Map, by: float) -> Map:
    return _exact(m, offset=m.offset + by)


def _coarse_rates(m: Map, dtype: torch.dtype) -> Map:
    return _exact(m, slopes=m.slopes.to(dtype).double())


def _without_bias(layer: Layer) -> Layer:
    return replace(layer, bias=_mask(layer.bias))


def _swapped(m: Map) -> Map:
    """The other layout of as many channels from the same start."""
    start, h = int(m.pairs.min()), len(m.pairs)
    t = torch.arange(h)
    half = int(m.pairs[0, 1] - m.pairs[0, 0]) > 1 or h == 1
    pairs = torch.stack((2 * t, 2 * t + 1) if half else (t, t + h), 1) + start
    return _exact(m, pairs=pairs)


def _narrow(m: Map, dims: int) -> Map:
    """Another number of channels that turn, in the same layout."""
    base = m.found.base if m.found is not None and m.found.base else 10_000.0
    t = torch.arange(dims // 2)
    inter = m.found is not None and m.found.layout == "interleaved"
    pairs = torch.stack((2 * t, 2 * t + 1) if inter else (t, t + dims // 2), 1)
    f = base ** (-2 * t.double() / dims)
    return _exact(m, pairs=pairs, slopes=f * float(way(m)[0]))


def _coarse(m: Map, dtype: torch.dtype) -> Map:
    z = m.exact()
    return replace(m, measured=torch.complex(z.real.to(dtype).double(), z.imag.to(dtype).double()))


def _mask(bias: Tensor) -> Tensor:
    return torch.where(bias.isfinite(), torch.zeros_like(bias), bias)


def _turned_bias(layer: Layer) -> Layer:
    return replace(layer, bias=torch.where(layer.bias.isfinite(), -layer.bias, layer.bias))


def _sloped(layer: Layer, slopes: Tensor) -> Layer:
    n = torch.arange(layer.bias.shape[-1])
    return replace(layer, bias=_mask(layer.bias) - slopes[:, None, None] * (n[:, None] - n[None]).abs())


def _windowed(layer: Layer, width: int) -> Layer:
    n = torch.arange(layer.bias.shape[-1])
    return replace(layer, bias=layer.bias.masked_fill(n[:, None] - n[None] >= width, -torch.inf))


def beside_dump(
    side: Side, tokens: Tensor, positions: Tensor | None, logits: Tensor, turned: bool, tolerance: float
) -> Comparison:
    """A dump of logits, and guesses tried in the model; `turned` where the dump is the reference's."""
    loose = max(tolerance, 2e-3)  # a dump is rarely in float64
    search = Search(side, tokens, positions, logits, loose)
    if search.plain.shape != logits.shape:
        raise Unfit(
            f"the dump has logits {tuple(logits.shape)} and the model {tuple(search.plain.shape)}: dump "
            "(B, L, V), a row for each of its tokens"
        )
    return _told(search, turned, loose, ())


def searched(ours: Side, theirs: Side, near: object, tolerance: float, notes: list[str]) -> Comparison:
    """Two models of which one cannot be looked into."""
    tokens, a, b = near.tokens, near.reference, near.candidate  # type: ignore[attr-defined]
    if deviation(b, a) <= tolerance:
        return Comparison(True, True, (), deviation(b, a), deviation(b, a), notes=tuple(notes))
    try:
        search, turned = Search(ours, tokens[:1], None, b[:1], tolerance), False
    except Unfit:
        search, turned = Search(theirs, tokens[:1], None, a[:1], tolerance), True
    return _told(search, turned, tolerance, tuple(notes))


def _told(search: Search, turned: bool, tolerance: float, notes: tuple[str, ...]) -> Comparison:
    size = deviation(search.plain, search.wanted)
    if size <= tolerance:
        return Comparison(True, True, (), size, size, notes=notes)
    first = deviation(search.plain[:, :1], search.wanted[:, :1])
    said = "One side gives logits alone, so usual values were tried in the other."
    if first > 10 * tolerance:
        why = f"another first token (off {first:.2g}), which sees itself alone"
        return Comparison(
            False,
            False,
            (Difference("other", "its logits", why, (), None, KINDS["other"][1]),),
            size,
            size,
            notes=notes,
        )
    chosen, left = search.found()
    whole_set = deviation(search.logits(chosen), search.wanted)
    before = search.left(())
    if left > max(100 * tolerance, 0.05 * before):
        partly = (
            f"The nearest guess was {', '.join(g.kind for g in chosen)}, which leaves {left / before:.0%}."
            if chosen
            else ""
        )
        told = (
            "The first token agrees and later ones do not, and no guess explains them: more differences than were "
            "tried at once, or a cap or norm of scores. Dump queries and keys of both, and compare these."
        )
        return Comparison(False, True, (), size, whole_set, notes=(*notes, said, partly, told))
    without = [search.left(tuple(g for g in chosen if g is not each)) for each in chosen]
    total = sum(max(w - left, 0.0) for w in without)
    out = []
    for g, w in zip(chosen, without, strict=True):
        if total and w - left < SMALL * total:
            continue  # it explains nothing that can be told from rounding
        layers = g.layers if g.layers is not None else tuple(range(len(search.layers)))
        a, b = (g.candidate, g.reference) if turned else (g.reference, g.candidate)
        share = max(w - left, 0.0) / total if total else None
        out.append(Difference(g.kind, a, b, layers, share, KINDS[g.kind][1], g.of))
    if search.others:
        said += f" These leave as little: {'; '.join(search.others[:4])}."
    return Comparison(False, True, tuple(out), size, whole_set, notes=(*notes, said))
