"""Measures of invariance: called twice, trained, in a longer sequence, in another order, through a cache."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posenc._attention.cache import KVCache
from posenc._attention.call import attend
from posenc._properties.differences import change_of, clearly, most_varied, need_finite, spread
from posenc._properties.figures import bars, overlay, picture_of, words
from posenc._properties.probe import Probe
from posenc._properties.result import FAILS, Measurement, not_measured, number, numbers, raised, verdict_of


def deterministic(p: Probe) -> Measurement:
    """Two calls with the same input give the same output, bit by bit."""
    n = min(p.length, 64)
    x, pos = p.tokens(n)[None], torch.arange(n)
    first, second = p.layer(x, pos), p.layer(x, pos)
    need_finite(first, second)
    change = change_of(second, first)
    finding = "two calls agree bit by bit"
    if change.max() > 0:
        (where,) = clearly(change)
        finding = f"the second call's output at position {where} differs by {number(change[where])} of the spread"
    curves = {"first call": first[0, 0, :, 0], "second call": second[0, 0, :, 0]}
    draw = picture_of(overlay, curves, pos, x="position", y="output", what="One channel of the output, computed twice")
    return Measurement(
        verdict_of(not change.any()), float(change.max()), finding, f"{n} tokens; the largest change", draw
    )


def fixed(p: Probe) -> Measurement:
    """There are no parameters: what the encoding does is the same before and after training."""
    shapes = {name: tuple(parameter.shape) for name, parameter in p.original.named_parameters()}
    sizes = {name: parameter.numel() for name, parameter in p.original.named_parameters()}
    count = sum(sizes.values())
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    finding = f"{count} numbers are learned: {listed}" if shapes else "there is nothing to learn"
    draw = picture_of(bars, sizes, x="numbers that are learned", what="Sizes of the parameters")
    draw = draw if sizes else picture_of(words, what="Sizes of the parameters")
    return Measurement(verdict_of(not shapes), float(count), finding, "the number of parameters", draw)


def consistent(p: Probe) -> Measurement:
    """The score and the value of a pair stay the same when more tokens follow, far more than `length` if it may be."""
    n = min(64, p.length // 2)
    if n < 2:
        return not_measured(f"positions are too few, {p.length}, to make a sequence longer")
    more = min(2 * p.length, p.last_position + 1, 2048)
    far = min(4 * p.length, p.last_position)
    short, long = torch.arange(n), torch.arange(more)
    if far >= more:
        long = torch.cat((long, torch.tensor([far])))
    tokens = p.tokens(2)
    sizes = []
    for pos in (short, long):
        q, k, v = p.qkv_of_repeats(tokens, pos)
        score = p.scores(q[:, :, :n], k, pos[:n], pos)[..., :n]  # (2, H, n, n)
        score = score.tril() if p.encoding.causal_only else score
        value = torch.stack([p.values(v[:1], pos[i : i + 1], pos)[:n] for i in (0, n - 1)])  # (2, n, H, d)
        sizes.append((score, value))
    (score, value), (later, later_value) = sizes
    need_finite(score, value, later, later_value)
    change = (later - score).abs() / spread(score)
    value_change = (later_value - value).abs() / spread(value)
    worst = max(float(change.max()), float(value_change.max()))
    grown = f"{len(long)}, the last at {int(long[-1])}"
    at = p.query_index(n)
    b, h = most_varied(score[:, :, at : at + 1])
    curves = {f"among {n} tokens": score[b, h, at], f"among {len(long)}": later[b, h, at]}
    what, y = f"Scores of the query at {at}", "score"
    if worst <= p.tolerance:
        finding = f"no score and no value changes when {n} tokens become {grown}"
    elif float(change.max()) > p.tolerance:
        b, h, i, j = clearly(change)
        few, many = numbers(score[b, h, i, j], later[b, h, i, j])
        finding = f"head {h}'s score of query {i} and key {j} is {few} among {n} tokens, and {many} among {grown}"
        curves = {f"among {n} tokens": score[b, h, i], f"among {len(long)}": later[b, h, i]}
        what = f"Scores of the query at {i}, in head {h}"
    else:
        i, j, h, c = clearly(value_change)
        by = number(value_change[i, j].max())
        finding = (
            f"the value of key {j} for query {(0, n - 1)[i]} changes by {by} of the spread when {n} become {grown}"
        )
        curves = {f"among {n} tokens": value[i, :, h, c], f"among {len(long)}": later_value[i, :, h, c]}
        what, y = f"One channel of the values for the query at {(0, n - 1)[i]}", "value"
    draw = picture_of(overlay, curves, short, x="key", y=y, what=what)
    conditions = f"{n} tokens, and {grown}; the largest change of the spread, at most {p.tolerance}"
    return Measurement(verdict_of(worst <= p.tolerance), worst, finding, conditions, draw)


def honest(p: Probe) -> Measurement:
    """Tokens that are stored in another order, with their positions, get the same outputs: the order is in `pos`."""
    n = min(16, p.length)
    if n < 2:
        return not_measured("there is one position only")
    x, pos = p.random(1, n, p.model_dim, seed=13), torch.arange(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(11))
    straight, stored = p.layer(x, pos), p.layer(x[:, order], pos[order])[:, :, order.argsort()]
    need_finite(straight, stored)
    change = change_of(stored, straight)
    worst = float(change.max())
    finding = f"{n} tokens that are stored in another order, with their positions, get the same outputs"
    if worst > p.tolerance:
        (where,) = clearly(change)
        place, by = int(order.argsort()[where]), number(change[where])
        finding = f"position {where}, stored in place {place}, gets an output that is off by {by} of the spread"
    curves = {"in order": straight[0, 0, :, 0], "stored in another order": stored[0, 0, :, 0]}
    draw = picture_of(overlay, curves, pos, x="position", y="output", what="One channel of the output")
    conditions = f"{n} tokens; the largest change of the spread, at most {p.tolerance}"
    return Measurement(verdict_of(worst <= p.tolerance), worst, finding, conditions, draw)


def cacheable(p: Probe) -> Measurement:
    """Token by token through a `KVCache`, outputs are what the whole sequence so far gives, computed anew."""
    dense = min(12, p.length)
    far = torch.linspace(p.length // 2, min(4 * p.length, p.last_position), 8).round().long()
    pos = torch.cat((torch.arange(dense), far)).unique()
    x = p.random(1, len(pos), p.model_dim, seed=9)
    cache, steps, anew = KVCache(), [], []
    conditions = (
        f"{len(pos)} tokens, the last at {int(pos[-1])}; the largest change of the spread, at most {p.tolerance}"
    )
    for n in range(len(pos)):
        here, so_far = slice(n, n + 1), slice(n + 1)
        anew.append(p.layer(x[:, so_far], pos[so_far])[:, :, -1:])
        try:
            token = p.encoding.embed(x[:, here], pos[here])
            q, k, v = p.project(token)
            k, v, kpos = cache.extend(k, v, pos[here], p.encoding)
            turned = p.encoding.query(q, pos[here])
            steps.append(attend(turned, k, v, p.encoding, pos[here], kpos, backend="dense"))
        except Exception as error:
            nothing = not_measured(f"step {n}, position {int(pos[n])}, {raised(error)}")
            return replace(nothing, verdict=FAILS, conditions=conditions)
    cached, expected = torch.cat(steps, 2), torch.cat(anew, 2)
    need_finite(cached, expected)
    change = change_of(cached, expected)
    worst = float(change.max())
    if worst <= p.tolerance:
        finding = f"{len(pos)} tokens, the last at {int(pos[-1])}, get what the whole sequence so far gives"
    else:
        (n,) = clearly(change)
        finding = f"at step {n}, position {int(pos[n])}, the output is off by {number(change[n])} of the spread"
    curves = {"computed anew": expected[0, 0, :, 0], "from the cache": cached[0, 0, :, 0]}
    draw = picture_of(overlay, curves, torch.arange(len(pos)), x="step", y="output", what="One channel of the output")
    return Measurement(verdict_of(worst <= p.tolerance), worst, finding, conditions, draw)


def fused(p: Probe) -> Measurement:
    """A fused kernel computes the same as the dense backend: torch's `sdpa` or `flex`."""
    served = [name for name, out in p.backend_outputs.items() if isinstance(out, Tensor) and name != "dense"]
    refused = [out for out in p.backend_outputs.values() if isinstance(out, str)]
    agreed = " and ".join(served) + (" agree" if len(served) > 1 else " agrees") + " with dense"
    finding = "; ".join([agreed, *refused] if served else refused)
    curves = {name: out[0, 0, :, 0] for name, out in p.backend_outputs.items() if isinstance(out, Tensor)}
    n = min(16, p.length)
    draw = picture_of(overlay, curves, torch.arange(n), x="position", y="output", what="One channel of the output")
    conditions = f"{n} tokens, within {p.tolerance} of the spread; how many of sdpa and flex serve it"
    return Measurement(verdict_of(bool(served)), float(len(served)), finding, conditions, draw)
