"""What stands beside the comparison of layers: weights, lengths, the place of other differences, padding and caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused, Unfit, logits_of
from posenc.audit.comparison.described import Found
from posenc.audit.comparison.sides import Layer, Side
from posenc.audit.probe import deviation

LONGEST = 400  # tokens that a text has at most, so that it is longer than a window
PADS = 5


def shared(ours: Side, theirs: Side, names: Mapping[str, str] | None) -> None:
    """Gives the copy of the candidate the reference's weights, under the same names or by a map of names.

    Raises:
        Unfit: If a name or a shape does not fit.
    """
    if ours.module is None or theirs.module is None:
        raise Unfit("weights can be shared between modules alone: a function has its own")
    source = dict(ours.module.named_parameters())
    for name, p in theirs.module.named_parameters():
        wanted = name if names is None else names.get(name, name)
        if wanted not in source:
            near = ", ".join(sorted(source)[:3])
            raise Unfit(f"the reference has no parameter {wanted!r} for the candidate's {name!r}: it has {near}, …")
        if source[wanted].shape != p.shape:
            raise Unfit(
                f"{name!r} has shape {tuple(p.shape)}, and the reference's {wanted!r} {tuple(source[wanted].shape)}: "
                f"give two models of one size, or leave weights out"
            )
        with torch.no_grad():
            p.copy_(source[wanted])


def length(ours: Side, theirs: Side, tokens: int) -> int:
    """How long texts are: longer than the windows of configurations, and no longer than tables."""
    n = tokens
    for side in (ours, theirs):
        config = getattr(side.module, "config", None)
        window = getattr(config, "sliding_window", None)
        if isinstance(window, int) and n <= window < LONGEST:
            n = window + 8
    sizes = {d for side in (ours, theirs) if side.module is not None for p in side.module.parameters() for d in p.shape}
    while n in sizes:  # a product of activations and weights is no attention
        n += 1
    for m in (n, 41, 29, 23, 17):
        if m <= n:
            try:
                x = torch.zeros(1, m, dtype=torch.long)
                for side in (ours, theirs):
                    side.logits(x)
                return m
            except Unfit as error:
                problem = error
    raise problem


def stage(ours: list[Layer], theirs: list[Layer], reference: Tensor, candidate: Tensor, tolerance: float) -> str:
    """Where what is not positional shows first, in words."""
    first = deviation(candidate[:, :1], reference[:, :1])
    for n, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a.cap != b.cap:
            return f"another soft cap of scores in layer {n} ({a.cap:g} against {b.cap:g})"
        if a.straight != b.straight:
            return f"scores of layer {n} that pass something before their softmax"
        if b.q.order and b.k.order and b.q.order != b.k.order:
            return (
                f"the keys of layer {n} in another order of channels than its queries: weights that were permuted for "
                f"another number of heads"
            )
        strange = [m.own and not m.permuted for m in (b.q, b.k)]
        if strange[0] != strange[1]:
            of, rest = ("queries", "keys") if strange[0] else ("keys", "queries")
            return (
                f"the {of} of layer {n} alone, and not its {rest}: their weights, such as an order of channels that is "
                f"for another number of heads"
            )
        if any(strange):
            if n == 0:
                return (
                    "other queries and keys in layer 0 already: the embedding, the first norm, a norm of queries, or "
                    "their weights"
                )
            return f"another state before layer {n}: the norm, the MLP, values or output of layer {n - 1}"
    if first > tolerance:
        return (
            f"another result after the last attention (the first token is off {first:.2g}): the last MLP, norm or head"
        )
    return "something that the first token does not show: values, a gate, or the sum over keys"


def paths(ours: Side, theirs: Side, tokens: Tensor, tolerance: float) -> list[Found]:
    """Padding and cache: where one side keeps to its own logits and the other does not."""
    out = []
    for kind, measured in (("padding", _padded), ("cache", _cached)):
        sizes = []
        for side in (ours, theirs):
            try:
                sizes.append(measured(side, tokens))
            except (Refused, Unfit):
                sizes.append(None)
            except Exception:  # a cache may raise anything
                sizes.append(None)
        a, b = sizes
        if a is None or b is None:
            continue
        words = ["the logits of a pass without it", "other logits (off {:.2g})"]
        if a <= 10 * tolerance < b:
            out.append(Found(kind, words[0], words[1].format(b)))
        elif b <= 10 * tolerance < a:
            out.append(Found(kind, words[1].format(a), words[0]))
    return out


def _padded(side: Side, tokens: Tensor) -> float | None:
    """How far a text after padding is from itself alone, the better of masks alone and positions as well."""
    if not side.adapter.takes_mask:
        return None
    x = torch.cat((torch.zeros_like(tokens[:1, :PADS]), tokens[:1, :-PADS]), 1)
    mask = torch.ones_like(x)
    mask[:, :PADS] = 0
    alone = side.logits(tokens[:1, :-PADS])
    return deviation(side.logits(x, None, mask)[:, PADS:], alone)


def _cached(side: Side, tokens: Tensor) -> float | None:
    """How far logits through the cache are from those of a pass."""
    step: Any = getattr(side.adapter, "step", None)
    if step is None:
        return None
    x, state, parts = tokens[:1], None, []
    for cut in x.split([x.shape[1] - 4, 1, 1, 2], 1):
        logits, state = step(cut, state)
        parts.append(logits_of(logits).double())
    return deviation(torch.cat(parts, 1), side.logits(x))


def name_of(side: Side) -> str:
    """What a side is called in a report."""
    return type(side.module).__name__ if side.module is not None else "a function"
