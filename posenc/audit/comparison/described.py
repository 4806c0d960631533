"""From what the layers of both do to a list of differences with names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Unfit
from posenc.audit.comparison.maps import Map
from posenc.audit.comparison.sides import Layer
from posenc.audit.identification.biases import FoundBias, bias_of

CHOSEN = "keys that more than distance chooses"
SIXTEEN = ("bfloat16", "float16")


@dataclass(frozen=True)
class Found:
    """A difference before it is weighed.

    Args:
        kind, reference, candidate, layers, of, look: As in `Difference`.
        certain: Whether it is one though logits agree on these texts.
        settled: Whether it was tried already, and `left` stayed.
        left: What stayed, over the root mean square of the logits.
    """

    kind: str
    reference: str
    candidate: str
    layers: tuple[int, ...] = ()
    of: str = ""
    look: str = ""
    certain: bool = False
    settled: bool = False
    left: float = 0.0


def differences(text: object, near: object) -> list[Found]:
    """All that differs in these texts, each kind once for all layers that share it.

    Args:
        text: The text with the farthest positions, from which rotations are compared.
        near: The text as both count, from which biases and windows are compared.
    """
    ours, theirs = text.ours, text.theirs  # type: ignore[attr-defined]
    found: list[Found] = []
    schedule = {layer.q.turns for layer in ours}
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for of in ("queries", "keys"):
            one, other = (a.q, b.q) if of == "queries" else (a.k, b.k)
            rest = [m.q if of == "queries" else m.k for i, m in enumerate(ours) if i != n]
            each = [f for f in _of_maps(one, other, rest, schedule) if f.kind != "rounding"]
            if (b.k if of == "queries" else b.q).permuted and other.own and not other.permuted:
                each = [f for f in each if f.kind != "layout"]  # weights were permuted for it, and these wrongly
            close = [(m.q if of == "queries" else m.k) for m in (near.ours[n], near.theirs[n])]  # type: ignore[attr-defined]
            each = each or [f for f in _of_maps(close[0], close[1], rest, schedule) if f.kind == "rounding"]
            found += [replace(f, layers=(n,), of=of) for f in each]
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        ratio = _ratio(a, b)
        if ratio is not None and abs(ratio - 1) > 1e-3:
            found.append(Found("amplitude", "scores times 1", f"scores times {ratio:.5g}", (n,)))
        elif ratio is not None and (part := _part(a, b)) is not None:
            found.append(Found("amplitude", "turned channels times 1", f"turned channels times {part:.5g}", (n,)))
    for n, (a, b) in enumerate(zip(near.ours, near.theirs, strict=True)):  # type: ignore[attr-defined]
        chosen = a.chosen or b.chosen
        one_bias = _chosen(a.bias, b.bias) if chosen else _of_biases(a.bias, b.bias)
        if one_bias is not None:
            found.append(replace(one_bias, layers=(n,)))
    return merged(found)


def differences_of(a: Map, b: Map) -> list[Found]:
    """In what two maps differ, their gains included, where no scores say more."""
    out = list(_of_maps(a, b, [], {True}))
    if a.turns and b.turns and abs(b.gain / a.gain - 1) > 1e-3:
        out.append(Found("amplitude", f"turned channels times {a.gain:.5g}", f"turned channels times {b.gain:.5g}"))
    return out


def _of_maps(a: Map, b: Map, others: list[Map], schedule: set[bool]) -> Iterator[Found]:
    """In what two maps of one layer differ."""
    if a.heads or b.heads:
        yield from _of_heads(a, b, schedule)
        return
    if b.problem or a.problem:
        if bool(a.problem) == bool(b.problem):
            return
        wrong = b.problem or a.problem
        kind = "direction" if "mirrored" in wrong else "layout" if "arranged" in wrong else ""
        if kind and b.problem:
            yield Found(kind, _layout(a), wrong.split(". ")[0].split(": ")[-1], look=wrong.split(". ")[-1])
        return
    if not a.turns and not b.turns:
        return
    if a.turns != b.turns:
        still, turning = "no rotation", "a rotation"
        mixed = len(schedule) > 1 or not a.turns
        said = (turning, still) if a.turns else (still, turning)
        yield Found("layers" if mixed else "unrotated", *said)
        return
    f, g = a.found, b.found
    assert f is not None and g is not None
    wide, pairs = _partial(a, b), _pairs_differ(a, b)
    if wide:
        yield Found("partial", _width(a), _width(b))
    elif pairs and not b.permuted:
        yield Found("layout", _layout(a), _layout(b))
    way = [bool((m.slopes[m.slopes.abs() > 1e-9] < 0).double().mean() > 0.5) for m in (a, b)]
    if way[0] != way[1]:
        one, other = ("the other way" if w else "the usual way" for w in way)
        yield Found("direction", one, other)
    if f.axes != g.axes and f.axes and g.axes:
        yield Found("axes", _axes(f.axes), _axes(g.axes))
    rates = _rates_differ(a, b, wide)
    if rates:
        known = next(
            (o for o in others if o.turns and not _rates_differ(o, b, False) and _rates_differ(o, a, False)), None
        )
        if known is not None:
            yield Found("layers", f"this layer's rates ({_rates(a)})", f"those of another kind of layer ({_rates(b)})")
        else:
            if f.base != g.base and f.base is not None and g.base is not None:
                yield Found("base", f"{f.base:,.7g}", f"{g.base:,.7g}")
            scaled = (f.scaling, f.factor, f.trained) != (g.scaling, g.factor, g.trained)
            if scaled or f.base is None or g.base is None:
                yield Found("scaling", _scaling(a), _scaling(b))
            elif f.base == g.base:
                yield Found("rounding" if _coarse(a, b) else "scaling", _precision(a), _precision(b))
    elif _coarse(a, b):
        yield Found("rounding", _precision(a), _precision(b), certain=True)
    if not b.own and abs(b.offset - a.offset) > 1e-3:
        yield Found("offset", f"positions + {a.offset:g}", f"positions + {b.offset:.6g}")


def _of_heads(a: Map, b: Map, schedule: set[bool]) -> Iterator[Found]:
    """In what two maps differ head by head, each difference once with its heads."""
    if any(m.problem and not m.heads for m in (a, b)):
        return
    many = len(a.heads or b.heads)
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for h, (one, other) in enumerate(zip(a.heads or (a,) * many, b.heads or (b,) * many, strict=True)):
        for f in _of_maps(one, other, [], schedule):
            found.setdefault((f.kind, f.reference, f.candidate, f.look), []).append(h)
    for (kind, reference, candidate, look), heads in found.items():
        where = "" if len(heads) == many else f", in head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"
        yield Found(kind, f"{reference}{where}", f"{candidate}{where}", look=look)


def kinds_of(a: Map, b: Map) -> set[str]:
    """The kinds in which two maps that turn differ, without a look at other layers."""
    return {f.kind for f in _of_maps(a, b, [], {True})}


def _coarse(a: Map, b: Map) -> bool:
    """Whether one of them is rounded to 16 bits and the other is not, or to other ones."""
    f, g = a.found, b.found
    assert f is not None and g is not None
    one, other = ((m.rounding, m.rounded) if m.rounding in SIXTEEN else ("fine", "") for m in (f, g))
    if one != other:
        return True
    if (f.rounding == "unknown") != (g.rounding == "unknown") and len(a.pairs) == len(b.pairs) and not b.own:
        return float((a.measured / a.gain - b.measured / b.gain).abs().max()) > 0.01
    return False


def _precision(m: Map) -> str:
    assert m.found is not None
    place = f" {m.found.rounded}" if m.found.rounded and m.found.rounding in SIXTEEN else ""
    return f"{m.found.rounding}{place}" if m.found.rounding != "unknown" else "angles off their line"


def _pairs_differ(a: Map, b: Map) -> bool:
    h = min(len(a.pairs), len(b.pairs))
    return not torch.equal(a.pairs[:h], b.pairs[:h])


def _partial(a: Map, b: Map) -> bool:
    """Whether other channels turn; in one layout, the width and the first channel tell."""
    f, g = a.found, b.found
    assert f is not None and g is not None
    if len(a.pairs) == len(b.pairs) and f.start == g.start:
        return f.layout == g.layout != "other" and _pairs_differ(a, b) and not b.permuted
    return True


def _width(m: Map) -> str:
    assert m.found is not None
    first = f" from channel {m.found.start} on" if m.found.start else ""
    apart = f", partners {m.found.pairs[0][1] - m.found.pairs[0][0]} apart" if m.found.layout == "half" else ""
    return f"{2 * len(m.pairs)} of {m.found.dim} channels turning{first}{apart}"


def _rates_differ(a: Map, b: Map, wide: bool) -> bool:
    """Whether frequencies differ by more than float32 and their measurement leave open."""
    f, g = a.found, b.found
    assert f is not None and g is not None
    if wide and (f.base, f.scaling, f.factor) == (g.base, g.scaling, g.factor):
        return False
    h = min(len(a.slopes), len(b.slopes))
    x, y = a.slopes[:h].abs(), b.slopes[:h].abs()
    far = float(a.positions.abs().max())
    noise = 40 * max(f.residual if f.rounding in SIXTEEN else 1e-6, g.residual if g.rounding in SIXTEEN else 1e-6)
    return bool(((x - y).abs() > 3e-6 * x + noise / max(far, 1.0)).any())


def _layout(m: Map) -> str:
    if m.found is None:
        return "no rotation"
    some = ", ".join(f"({i}, {j})" for i, j in m.found.pairs[:2])
    name = m.found.layout if m.found.layout != "other" else m.found.words
    return f"{name}: channels {some}, …"


def _scaling(m: Map) -> str:
    f = m.found
    assert f is not None
    said = {"none": "no scaling", "unknown": "frequencies of no known form"}.get(f.scaling, f.scaling)
    said += f", factor {f.factor:.6g}" if f.factor not in (None, 1.0) else ""
    return said + (f", length in training {f.trained:,}" if f.trained else "")


def _rates(m: Map) -> str:
    f = m.found
    assert f is not None
    return f"{'base unknown' if f.base is None else f'base {f.base:,.7g}'}, {_scaling(m)}"


def _axes(axes: tuple[int, ...]) -> str:
    return f"planes of axes {', '.join(map(str, axes))}"


def _ratio(a: Layer, b: Layer) -> float | None:
    """What the candidate's scores are multiplied by beside the reference's; None where that is not known."""
    if any(m.own or m.problem for m in (b.q, b.k)) or any(m.heads for m in (a.q, a.k, b.q, b.k)) or a.scale == 0:
        return None
    gain = [m.gain if m.turns else m.through for m in (b.q, b.k)]
    ours = [m.gain if m.turns else m.through for m in (a.q, a.k)]
    return b.scale * gain[0] * gain[1] / (a.scale * ours[0] * ours[1])


def _part(a: Layer, b: Layer) -> float | None:
    """The same of turned channels beside those that pass, where both are there and differ."""
    ratios = [m.gain / m.through for m in (b.q, b.k) if m.turns and m.through]
    ours = [m.gain / m.through for m in (a.q, a.k) if m.turns and m.through]
    if len(ratios) < 2 or len(ours) < 2:
        return None
    ratio = ratios[0] * ratios[1] / (ours[0] * ours[1])
    return ratio if abs(ratio - 1) > 1e-3 else None


def _of_biases(a: Tensor, b: Tensor) -> Found | None:
    """How two biases or masks differ."""
    if a.shape[0] != b.shape[0]:
        a, b = (each.expand(max(len(a), len(b)), -1, -1) if len(each) == 1 else each for each in (a, b))
    if a.shape != b.shape:
        return None
    see, seen = a.isfinite(), b.isfinite()
    size = max(float(a[see & seen].abs().max()), 1e-3) if bool((see & seen).any()) else 1e-3
    gap = (a - b)[see & seen]
    if torch.equal(see, seen) and float(gap.abs().max()) < 1e-3 * size + 1e-4:
        return None
    try:
        one, other = bias_of(a), bias_of(b)
    except Unfit:
        return Found("bias", "its bias", "another one")
    if not torch.equal(see, seen):
        if _sees(one) == _sees(other):
            return _chosen(a, b)
        return Found("window", _sees(one), _sees(other))
    rel = (a - a.diagonal(dim1=1, dim2=2)[..., None]) - (b - b.diagonal(dim1=1, dim2=2)[..., None])
    both = see & seen & rel.isfinite()
    if float(rel[both].abs().max()) < 1e-3 * size + 1e-4:
        return None  # a number for each query, which softmax does not see
    kinds = {one.kind, other.kind}
    kind = "slopes" if "alibi" in kinds else "buckets" if "t5" in kinds or kinds == {"distance"} else "bias"
    return Found(kind, _said(one), _said(other))


def _chosen(a: Tensor, b: Tensor) -> Found | None:
    """Whether more than distance chooses keys, and other ones on each side."""
    if a.shape == b.shape and torch.equal(a.isfinite(), b.isfinite()):
        return None
    look = "what ranks the keys, such as an indexer: it may rotate in a layout of its own"
    return Found("window", CHOSEN, "other such keys", look=look)


def _sees(b: FoundBias) -> str:
    if b.chunk:
        return f"chunks of {b.chunk} keys"
    if b.back is None:
        return (
            "all keys"
            if b.ahead is None
            else "all keys up to the query's own"
            if b.ahead == 0
            else f"{b.ahead} keys ahead"
        )
    ahead = "" if b.ahead == 0 else " and all ahead" if b.ahead is None else f" and {b.ahead} ahead"
    return f"a window of {b.back + 1} keys, the query's own and {b.back} behind{ahead}"


def _said(b: FoundBias) -> str:
    if b.kind == "alibi":
        some = ", ".join(f"{s:.4g}" for s in b.slopes[:4])
        return f"ALiBi's slopes {some}{', …' if b.heads > 4 else ''} ({b.rule}){'' if b.sign > 0 else ', turned'}"
    if b.kind == "t5":
        return f"{b.buckets} buckets, max_distance {b.reach}{', both sides' if b.symmetric else ''}"
    return {"none": "no bias", "distance": "a function of the distance", "unknown": "a bias of no known form"}[b.kind]


def merged(found: list[Found]) -> list[Found]:
    """Each difference once, with all its layers, and without a word on queries or keys where it is about both."""
    layers: dict[tuple[str, str, str, str], list[int]] = {}
    for f in found:
        layers.setdefault((f.kind, f.reference, f.candidate, f.of), []).append(f.layers[0])
    out: list[Found] = []
    done = set()
    for f in found:
        key = (f.kind, f.reference, f.candidate, f.of)
        if key in done:
            continue
        twin = (f.kind, f.reference, f.candidate, "keys" if f.of == "queries" else "queries")
        both = f.of and layers.get(twin) == layers[key]
        done |= {key, twin} if both else {key}
        out.append(replace(f, layers=tuple(layers[key]), of="" if both else f.of))
    if any(f.kind == "offset" and not f.of for f in out):  # both alike: distances are what they were
        out = [f for f in out if f.kind != "offset" or f.of]
    order = ["ignored", "unrotated", "layers", "layout", "partial", "axes", "direction", "base", "scaling", "offset",
             "amplitude", "window", "slopes", "buckets", "bias", "rounding"]  # fmt: skip
    return sorted(out, key=lambda f: order.index(f.kind))
