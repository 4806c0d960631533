"""Is the model what it should be: another model with the same weights, or the angles of a configuration?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from posenc.audit.adapters.protocol import Adapter, Refused, ask, logits_of
from posenc.audit.checks import Outcome, check
from posenc.audit.probe import ENDS, Probe

TURNS = ("cos", "sin", "polar", "cos_", "sin_")


@check("the reference: the same logits?")
def reference(p: Probe) -> Outcome:
    """With default positions, and with positions that are given, where both models take them."""
    other = _reference(p)
    p.in_time()
    if p.originals is not None:
        mine, other = p.originals
        return Outcome(p.off(_theirs(mine, p.x), _theirs(other, p.x)), details={"own": True})
    sizes = {"default": p.off(p.logits(p.x), _theirs(other, p.x))}
    if p.adapter.takes_positions and other.takes_positions:
        with contextlib.suppress(
            *ENDS, TypeError
        ):  # what gets no positions without a cache, say: defaults are compared
            sizes["positions"] = p.off(p.logits(p.x, p.pos + 5), _theirs(other, p.x, p.pos + 5))
    return Outcome(max(sizes.values()), details=sizes)


@check("the reference at other positions", partner=True)
def reference_at(p: Probe) -> Outcome:
    """The change of positions at which the reference gives what the model gives."""
    other = _reference(p)
    out = p.logits(p.x)
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "doubled": lambda pos: 2 * pos,
        "counted from 1": lambda pos: pos + 1,
        "counted from 2": lambda pos: pos + 2,
        "all 0": lambda pos: 0 * pos,
        "counted from the end": lambda pos: pos.flip(-1),
        "negative": lambda pos: -pos,
        "tripled": lambda pos: 3 * pos,
    }
    sizes = {}
    for words, change in changes.items():
        p.in_time()
        try:
            sizes[words] = p.off(out, _theirs(other, p.x, change(p.pos)))
        except (IndexError, RuntimeError, ValueError):
            continue
    best = min(sizes, key=lambda words: sizes[words], default="")
    return Outcome(sizes.get(best), details={"change": best})


@check("in what the reference differs", partner=True)
def reference_told(p: Probe) -> Outcome:
    """What `compare` names: it looks into the attention of both."""
    from posenc.audit.comparison.asked import compare  # which is not needed where nothing differs

    other = _reference(p)
    mine, other = p.originals if p.originals is not None else (p.adapter, other)
    found = compare(other, mine)
    if not found.differences:
        return Outcome(found.off)
    said = []
    for each in found.differences[:3]:
        many = f" in layer{'s' * (len(each.layers) > 1)} {', '.join(map(str, each.layers[:6]))}" if each.layers else ""
        of = f" of {each.of}" if each.of else ""
        if each.kind == "other":
            said.append(f"something that is not positional: {each.candidate}")
        else:
            said.append(f"{each.kind}{of}{many}: {each.candidate} in place of {each.reference}")
    told = "; ".join(said)
    return Outcome(found.off, details={"told": told[0].upper() + told[1:], "look": found.differences[0].look})


@check("the angles whose cosines forward takes: those of the configuration?")
def angles(p: Probe) -> Outcome:
    """What turns by an angle from one token to the next is compared: the largest relative difference."""
    if not p.angles:
        raise Refused("the configuration names no angles")
    with Turns(p.n) as turns:
        p.alone(p.x)
    if not turns.rates:
        raise Refused("takes no cosine of positions in forward: its table was made before, or nothing rotates")
    worst, wrong = 0.0, []
    for n, wanted in enumerate(p.angles):
        raw = min(turns.rates, key=lambda rates: _apart(rates, wanted))
        size = _apart(raw, wanted)
        worst = max(worst, size)
        if not size <= p.tolerance:
            rotation = p.rotations[n] if len(p.rotations) == len(p.angles) else None
            wrong.append({"raw": raw, "wanted": list(wanted), "rotation": rotation})
    return Outcome(worst, details={"wrong": wrong})


def _apart(rates: list[float], wanted: list[float]) -> float:
    """The largest relative difference of two sets of angles; 1 or more where one has more of them."""
    pairs = zip(sorted(rates, reverse=True), sorted(wanted, reverse=True), strict=False)
    size = max((abs(a - b) / max(abs(b), 1e-12) for a, b in pairs), default=1.0)
    return size if len(rates) == len(wanted) else max(size, 1.0)


class Turns(TorchFunctionMode):
    """Looks at what cosines and sines are taken of: by how much each channel grows from one of n places to the next."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.rates: list[list[float]] = []
        """For each different set: the angles of the pairs, as they lie."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in TURNS:
            angle = args[1] if function.__name__ == "polar" else args[0]
            with torch._C.DisableTorchFunction():
                self._look(angle)
        return function(*args, **(kwargs or {}))

    def _look(self, angle: Any) -> None:
        if not isinstance(angle, Tensor) or angle.ndim < 2 or not angle.is_floating_point():
            return
        places = [axis for axis, size in enumerate(angle.shape[:-1]) if size == self.n]
        if not places:
            return
        x = angle.detach().double().movedim(places[-1], 0).reshape(self.n, -1, angle.shape[-1])[:, 0]
        rate = (x[1:] - x[:-1]).mean(0)
        if not bool(((x[1:] - x[:-1] - rate).abs() <= 0.02 * rate.abs() + 1e-9).all()):
            return
        rates = _once(rate.tolist())
        if not any(
            len(rates) == len(known) and abs(rates[0] - known[0]) < 1e-9 and abs(rates[-1] - known[-1]) < 1e-12
            for known in self.rates
        ):
            self.rates.append(rates)


def _once(rates: list[float]) -> list[float]:
    """The angles of pairs, where each channel of a pair has its angle; as they are otherwise."""
    half = len(rates) // 2
    if len(rates) % 2 or max(map(abs, rates)) == 0:
        return rates
    for first, second in ((rates[:half], rates[half:]), (rates[::2], rates[1::2])):
        if all(abs(a - b) < 1e-9 for a, b in zip(first, second, strict=True)):
            return first
    return rates


def _theirs(other: Adapter, *given: Tensor) -> Tensor:
    return logits_of(ask(other.logits, *given))


def _reference(p: Probe) -> Any:
    if p.reference is None:
        raise Refused("no reference was given")
    return p.reference
