"""How does position enter: where the text lies, how far apart tokens are, what positions are by default?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.copies import Uncopied, copied
from posenc.audit.adapters.protocol import Refused, ask, logits_of
from posenc.audit.checks import Outcome, check
from posenc.audit.errors import error_line
from posenc.audit.probe import ENDS, PADS, Probe

FAR = 32768
BESIDE = (1, 2, 3, 5)  # small shifts


@check("the same token everywhere: do logits differ by position?")
def constant(p: Probe) -> float:
    x = torch.full((1, p.n // 2), (p.low + p.adapter.vocabulary) // 2, device=p.device)
    out = p.logits(x)
    return p.off(out[:, 1:], out[:, :1].expand_as(out[:, 1:]))


@check("explicit positions 0, 1, 2, …: the same logits as by default?")
def arange(p: Probe) -> float:
    return p.off(p.logits(p.x, p.pos - p.first), p.full)


@check("positions counted from another number", partner=True)
def arange_from(p: Probe) -> Outcome:
    sizes = {first: p.off(p.logits(p.x, p.pos - p.first + first), p.full) for first in (1, 2, 3)}
    first = min(sizes, key=lambda n: sizes[n] if sizes[n] == sizes[n] else float("inf"))
    return Outcome(sizes[first], details={"first": first})


@check("all positions move by 50: the same logits?")
def shift(p: Probe) -> Outcome:
    """By less than 50 where the model has fewer positions. Positions are given both times."""
    here = p.logits(p.x, p.pos)
    problem: Exception | None = None
    for by in (50, 20, 7, 3, 1):
        try:
            return Outcome(p.off(p.logits(p.x, p.pos + by), here), details={"by": by})
        except ENDS as error:
            problem = error
    raise Refused(f"has no positions beyond {p.n}") from problem


@check("all positions move by 1 and by 1000", partner=True)
def shift_far(p: Probe) -> Outcome:
    here = p.logits(p.x, p.pos)
    near = p.off(p.logits(p.x, p.pos + 1), here)
    return Outcome(p.off(p.logits(p.x, p.pos + 1000), here), details={"near": near})


@check("positions are three times as far apart: do logits change?")
def stretch(p: Probe) -> float:
    """With a mask where the model takes one: without it, some models read a jump of positions as another document."""
    mask = torch.ones_like(p.x) if p.adapter.takes_mask else None
    problem: Exception | None = None
    for times in (3, 2):
        for n in (p.n, p.n // 2, p.n // 3):
            try:
                x, pos, part = p.x[:, :n], p.pos[:, :n], None if mask is None else mask[:, :n]
                return p.off(p.logits(x, times * pos, part), p.logits(x, pos, part))
            except ENDS as error:
                problem = error
    raise Refused(f"has no positions beyond {p.n}") from problem


@check("embeddings given in place of tokens: the same logits?")
def embeds(p: Probe) -> Outcome:
    """Positions are counted anew where there are no tokens to count; also after padding, where a mask can be given."""
    given = p.able("logits_of_embeddings", "takes no embeddings in place of tokens")
    sizes = {"plain": p.off(_of_embeddings(p, given, p.x), p.full)}
    if p.adapter.takes_mask:
        x, mask, _ = p.left()
        sizes["padded"] = p.off(_of_embeddings(p, given, x, mask)[:, PADS:], p.logits(x, mask=mask)[:, PADS:])
    return Outcome(max(sizes.values()), details=sizes)


@check("the number from which embeddings are counted", partner=True)
def embeds_at(p: Probe) -> Outcome:
    out = _of_embeddings(p, p.able("logits_of_embeddings", "takes no embeddings in place of tokens"), p.x)
    sizes = {}
    for first in (0, 1, 2, 3):
        try:
            sizes[first] = p.off(out, p.logits(p.x, p.pos - p.first + first))
        except ENDS:
            continue
    best = min(sizes, key=lambda first: sizes[first], default=p.first)
    return Outcome(sizes.get(best), details={"tokens": p.first, "embeddings": best})


def _of_embeddings(p: Probe, given: Callable[..., Any], tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    p.in_time()
    return logits_of(given(tokens, None, mask))


@check("far positions in bfloat16: no worse than near ones?", more=True)
def far(p: Probe) -> Outcome:
    """How far logits move under a shift of 32768, beside how far bfloat16 moves them without one, or under a small one.

    Where a model chooses (experts, the keys that an indexer keeps), rounding may choose otherwise at any place.
    """
    if p.adapter.module is None:
        raise Refused("is a function, so its weights cannot be rounded")
    if not p.adapter.takes_positions:
        raise Refused("takes no positions")
    try:
        want, wanted = _places(p, torch.float32, FAR)
        near, there, *beside = _places(p, torch.bfloat16, FAR, *BESIDE)
    except Uncopied as error:
        raise Refused(f"cannot be copied ({error}), and rounding would change its own weights") from error
    except ENDS as error:
        raise Refused(f"does not run in bfloat16, or at positions that far: {error_line(error)}") from error
    noise = max(_rms(near - want), *(_rms(place - near) for place in beside))
    moved, exactly = _rms(there - near), _rms(wanted - want)
    return Outcome(moved, details={"noise": noise, "exactly": exactly, "unit": _rms(want)})


def _places(p: Probe, dtype: torch.dtype, *shifts: int) -> list[Tensor]:
    """Logits of the text at its own positions, and moved by these, in another precision."""
    adapter = copied(p.adapter, dtype)
    return [logits_of(ask(adapter.logits, p.x, pos)) for pos in (None, *(p.pos + shift for shift in shifts))]


def _rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())
