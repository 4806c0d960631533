"""Is the answer the same again, a second time, beside other texts, after a long one; and is the question?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from posenc.audit.adapters.protocol import Refused, watched
from posenc.audit.checks import Outcome, check
from posenc.audit.probe import Probe


@check("the same text twice: the same logits?")
def again(p: Probe) -> Outcome:
    first, second = p.logits(p.x), p.logits(p.x)
    return Outcome(p.off(second, first), details={"finite": float(first.isfinite().double().mean())})


@check("again, with the same random seed", partner=True)
def again_seeded(p: Probe) -> float:
    outs = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            outs.append(p.logits(p.x))
    return p.off(outs[1], outs[0])


@check("beside two other texts in a batch: the same logits?")
def neighbours(p: Probe) -> float:
    return _beside(p, 1)


@check("beside two other texts, in the first row", partner=True)
def neighbours_first(p: Probe) -> float:
    return _beside(p, 0)


@check("beside two copies of itself", partner=True)
def neighbours_copies(p: Probe) -> float:
    return p.off(p.logits(p.x.expand(3, -1).clone())[1:2], p.full)


@check("after a long text: the same logits?")
def fresh(p: Probe) -> float:
    if p.room <= p.n:
        raise Refused(f"raises an error where a text has more than {p.n} tokens")
    p.logits(p.text(p.room, seed=2))
    after = p.logits(p.x)
    size = p.off(after, p.full)
    p.full = after  # what follows is compared with the model as it is now
    return size


@check("tokens, positions and mask after a call: unchanged?")
def inputs(p: Probe) -> Outcome:
    """The largest share of an input's entries that a call changes; by a cache, too, where there is one."""
    x, mask, positions = p.left()
    calls: list[Callable[[], Any]] = [lambda: p.logits(p.x)]
    if p.adapter.takes_positions:
        calls.append(lambda: p.logits(p.x, p.pos + 1))
    if p.adapter.takes_mask:
        calls.append(lambda: p.logits(x, positions if p.adapter.takes_positions else None, mask))
    if getattr(p.adapter, "step", None) is not None:
        calls.append(lambda: p.run([p.n - 1, 1]))
    with watched() as changed:
        for call in calls:
            with contextlib.suppress(Exception):  # tests of positions, padding and steps report it
                call()
    return Outcome(max(changed.values(), default=0.0), details={"changed": changed})


def _beside(p: Probe, row: int) -> float:
    texts = [p.text(p.n, seed=3), p.text(p.n, seed=4)]
    texts.insert(row, p.x)
    return p.off(p.logits(torch.cat(texts))[row : row + 1], p.full)
