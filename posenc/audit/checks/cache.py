"""Is a text that goes through the cache the same text: step by step, in chunks, with rows reordered, cut back?"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused
from posenc.audit.checks import Outcome, check
from posenc.audit.comparison.attention import Attention, lies
from posenc.audit.probe import ENDS, PADS, Probe, per_place


@check("token by token through the cache: as in one pass?")
def step(p: Probe) -> Outcome:
    p = p.filling
    return _compared(p, steps(p), None)


@check("token by token, with positions?")
def step_ids(p: Probe) -> Outcome:
    p = p.filling
    return _compared(p, steps(p), p.pos)


@check("token by token after a padded prompt, with mask and positions?")
def step_left(p: Probe) -> float:
    x, mask, positions = p.left()
    first, *rest = steps(p)
    out, _ = p.run([first + PADS, *rest], positions if p.adapter.takes_positions else None, mask, x)
    return p.off(out[:, PADS:], p.full)


@check("token by token after a padded prompt, with mask, without positions", partner=True)
def step_left_default(p: Probe) -> float:
    x, mask, _ = p.left()
    first, *rest = steps(p)
    return p.off(p.run([first + PADS, *rest], None, mask, x)[0][:, PADS:], p.full)


@check("at which position the first cached token lies", partner=True)
def step_place(p: Probe) -> Outcome:
    """The position that a whole pass needs at this token to give what the cached call gives."""
    first = steps(p)[0]
    out, _ = p.run([first, 1])
    best, place = float("inf"), -1
    for at in (0, 1, first - 1, first + 1, first + 2, 2 * first):
        positions = p.pos[:, : first + 1].clone()
        positions[:, first] = at + p.first
        try:
            size = p.off(out[:, first], p.logits(p.x[:, : first + 1], positions)[:, first])
        except ENDS:
            continue
        if size < best:
            best, place = size, at
    return Outcome(best, details={"place": place, "right": first})


@check("in chunks through the cache: as in one pass?")
def chunks(p: Probe) -> Outcome:
    p = p.filling
    return _compared(p, _chunks(p), None)


@check("in chunks, with positions?")
def chunks_ids(p: Probe) -> Outcome:
    p = p.filling
    return _compared(p, _chunks(p), p.pos)


@check("the longest chunk of an even split that passes", partner=True)
def chunk_sizes(p: Probe) -> Outcome:
    p = p.filling
    good, bad = 0, 0
    for size in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if size > p.n // 2:
            break
        p.in_time()
        sizes = [*[size] * (p.n // size), *([p.n % size] if p.n % size else [])]
        if p.off(p.run(sizes)[0], p.full) <= p.tolerance:
            good = size
        else:
            bad = size
            break
    return Outcome(None, details={"good": good, "bad": bad})


@check("whether a token of a chunk sees a later one of it", partner=True)
def chunk_ahead(p: Probe) -> float:
    first, n = p.n // 3, p.n // 2
    last = p.x[:, :n].clone()
    last[:, -1] = p.other(p.x)
    a, b = (p.run([first, n - first], tokens=tokens)[0] for tokens in (p.x[:, :n], last))
    return p.off(a[:, first:-1], b[:, first:-1])


@check("rows of the cache change their order, as in beam search: does the right row go on?")
def reorder(p: Probe) -> Outcome:
    """Two texts, and where there is a mask also two texts of different length, so that their positions differ."""
    move = p.able("reorder", "cannot reorder its cache")
    plain, padded = _reordered(p, move, 0), None
    if p.adapter.takes_mask:
        padded = _reordered(p, move, PADS)
    return Outcome(max(plain, padded or 0.0), details={"plain": plain, "padded": padded})


@check("rows of the cache in the order that they have", partner=True)
def reorder_none(p: Probe) -> float:
    move = p.able("reorder", "cannot reorder its cache")
    return _reordered(p, lambda state, order: move(state, torch.arange(2, device=p.device)), 0, right=0)


@check("the last three tokens are removed: does the text go on as without them?")
def crop(p: Probe) -> Outcome:
    return _cropped(p, with_positions=False)


@check("the last three tokens are removed, and positions are given", partner=True)
def crop_ids(p: Probe) -> Outcome:
    return _cropped(p, with_positions=True)


@check("a second turn on the cache of the first, by hand: as in one pass?", more=True)
def resume(p: Probe) -> Outcome:
    quarter = p.n // 4
    sizes = [quarter, *[1] * (quarter - 2), quarter]
    return _compared(p, [*sizes, *[1] * (p.n - sum(sizes))], None)


def steps(p: Probe) -> list[int]:
    """A prompt, and then one token at a time."""
    prompt = p.n * 5 // 12
    return [prompt, *[1] * (p.n - prompt)]


def _chunks(p: Probe) -> list[int]:
    sizes = [p.n * 7 // 24, 1, p.n * 5 // 24]
    return [*sizes, p.n - sum(sizes)]


def _compared(p: Probe, sizes: list[int], positions: Tensor | None) -> Outcome:
    out, _ = p.run(sizes, positions)
    wrong = per_place(out, p.full) > p.tolerance
    first = int(wrong.nonzero()[0]) if wrong.any() else None
    return Outcome(p.off(out, p.full), details={"first": first, "prompt": sizes[0]})


def _reordered(p: Probe, move: object, pads: int, right: int = 1) -> float:
    """Two texts, the second of them ours; their rows change places, and ours goes on."""
    assert callable(move)
    n = p.n // 2
    x = torch.cat((p.text(p.n, seed=3), p.x))
    mask = positions = None
    if pads:  # ours begins later
        x = torch.cat((p.text(p.n + pads, seed=3), torch.cat((torch.zeros_like(p.x[:, :pads]), p.x), 1)))
        mask = torch.ones_like(x)
        mask[1, :pads] = 0
        positions = p.counted(mask) if p.adapter.takes_positions else None
    order = torch.tensor([1, 0], device=p.device)
    _, state = p.run([n + pads], positions, None if mask is None else mask[:, : n + pads], x[:, : n + pads])
    p.in_time()
    state = move(state, order)
    ids = order if right else torch.arange(2, device=p.device)
    token = x[ids][:, n + pads : n + pads + 1]
    out, _ = p.able("step", "")(
        token,
        state,
        None if positions is None else positions[ids][:, n + pads : n + pads + 1],
        None if mask is None else mask[ids][:, : n + pads + 1],
    )
    mine = 0 if right else 1
    return p.off(out[mine, 0], p.full[0, n])


def _cropped(p: Probe, with_positions: bool) -> Outcome:
    cut = p.able("crop", "cannot crop its cache")
    n = p.n // 2
    x = torch.cat((p.x[:, :n], p.text(3, seed=7)), 1)
    _, state = p.run([n, 1, 1, 1], tokens=x)
    p.in_time()
    state = cut(state, 3)
    positions = p.pos[:, n : n + 2] if with_positions else None
    out, state = p.able("step", "")(p.x[:, n : n + 1], state, None if positions is None else positions[:, :1])
    then, _ = p.able("step", "")(p.x[:, n + 1 : n + 2], state, None if positions is None else positions[:, 1:])
    return Outcome(p.off(torch.cat((out, then), 1), p.full[:, n : n + 2]))


@check("what the first layer of a cached call does, beside one pass", partner=True)
def cached_look(p: Probe) -> Outcome:
    """Where a cached token's query and keys lie, in a text of one repeated token: there all places differ by position
    alone. `right` is where they should; None stands for a place that no token of one pass has.
    """
    right = steps(p)[0]
    token = (p.low + p.adapter.vocabulary) // 2
    long = torch.full((1, min(3 * right, p.room)), token, device=p.device)
    with Attention(long.shape[1]) as whole:
        p.logits(long)
    with Attention(right) as prompt:
        _, state = p.run([right], tokens=long)
    with Attention(1, keys=right + 1) as cached:
        p.able("step", "")(long[:, right : right + 1], state)
    if not whole.layers or not cached.layers:
        raise Refused("no attention in torch was seen in a cached call")
    all_of_it, one = whole.layers[0], cached.layers[0]
    places = {
        "query": lies(one.q[:, :, 0], all_of_it.q, right),
        "key": lies(one.k[:, :, -1], all_of_it.k, right),
        "past": [lies(one.k[:, :, at], all_of_it.k, at) for at in range(right)],
        "prompt": lies(prompt.layers[0].q[:, :, -1], all_of_it.q, right - 1) if prompt.layers else None,
        "prompt_key": lies(prompt.layers[0].k[:, :, -1], all_of_it.k, right - 1) if prompt.layers else None,
    }
    rows, mine = all_of_it.scores[0, :, right, : right + 1], one.scores[0, :, 0]
    hidden = [bool((mine[:, at] == -torch.inf).all()) for at in range(right + 1)]
    wanted = [bool((rows[:, at] == -torch.inf).all()) for at in range(right + 1)]
    both = mine.isfinite() & rows.isfinite()
    apart = float((mine - rows)[both].abs().max() / rows[both].abs().max().clamp(min=1e-9)) if bool(both.any()) else 0.0
    return Outcome(None, details={
        **places, "right": right,
        "hidden": [at for at in range(right + 1) if hidden[at] and not wanted[at]],
        "shown": [at for at in range(right + 1) if wanted[at] and not hidden[at]],
        "scores": apart < p.tolerance,
    })  # fmt: skip
