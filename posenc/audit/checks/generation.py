"""Does generation compute what one forward pass computes: token by token, padded, with beams, with a second turn?

The tokens are forced, so that logits can be compared place by place: what would have been chosen does not matter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused
from posenc.audit.checks import Outcome, check
from posenc.audit.probe import ENDS, Probe


@check("generate, token by token: as in one pass?")
def generate(p: Probe) -> float | Outcome:
    """Logits are compared; where generate returns tokens alone, these are compared with those that passes choose."""
    start = _start(p)
    sequences, logits = _generate(p, p.x[:, :start], p.x[:, start:])
    return _against_pass(p) if logits is not None else _against_choices(p, p.x[:, :start], sequences)


@check("generate, as if new tokens had other positions", partner=True)
def generate_late(p: Probe) -> Outcome:
    """The change of the positions of new tokens at which one pass gives what generate gives."""
    start = _start(p)
    sequences, logits = _generate(p, p.x[:, :start], p.x[:, start:])
    sizes: dict[int, float] = {}
    for by in (1, -1, 2):
        positions = p.count(sequences.shape[1])
        positions[:, start:] += by
        try:
            out = p.logits(sequences[:, :-1], positions[:, :-1])[:, start - 1 :]
        except ENDS:
            continue
        if logits is not None:
            sizes[by] = p.off(logits, out)
        else:
            chosen = out.gather(-1, sequences[:, start:, None])[..., 0]
            sizes[by] = float((out.amax(-1) - chosen).max() / out.square().mean().sqrt())
    best = min(sizes, key=lambda by: sizes[by], default=0)
    return Outcome(sizes.get(best), details={"by": best})


@check("generate after padding on the left: the same?")
def generate_left(p: Probe) -> float:
    if not p.adapter.takes_mask:
        raise Refused("takes no mask of real tokens")
    x, mask, _ = p.left()
    start = x.shape[1] - p.n + _start(p)
    return _against_pass(p, x, start, mask=mask[:, :start])


@check("generate without a cache: as in one pass?")
def generate_nocache(p: Probe) -> float:
    return _against_pass(p, use_cache=False)


@check("generate with a static cache: as in one pass?")
def static(p: Probe) -> float:
    return _against_pass(p, static=True)


@check("beams with a cache: those without?")
def beams(p: Probe) -> Outcome:
    """The share of sequences that differ; two prompts, so that beams of one could mix with those of the other."""
    x = torch.cat((p.x[:, : _start(p)], p.text(_start(p), seed=5)))
    return _differing(*(_generate(p, x, beams=3, use_cache=use)[0] for use in (True, False)))


@check("prompt lookup: the tokens of greedy decoding?", more=True)
def lookup(p: Probe) -> Outcome:
    x = p.x[:, : p.n // 3].repeat(1, 2)  # a text that repeats, so that something is found
    return _differing(_generate(p, x, lookup=3, new=12)[0], _generate(p, x, new=12)[0])


@check("generate on a cache of the first turn: as in one pass?", more=True)
def generate_on(p: Probe) -> float:
    """A second turn: several new tokens at once on top of a cache, which then decodes on."""
    step = p.able("step", "takes no cache as an argument")
    first, start = p.n // 3, 7 * p.n // 12
    p.in_time()
    _, state = step(p.x[:, :first], None)
    return _against_pass(p, p.x, start, past=state)


def _start(p: Probe) -> int:
    """How many tokens are given; the others are generated."""
    return max(1, 5 * p.n // 12)


def _generate(p: Probe, tokens: Tensor, forced: Tensor | None = None, **how: object) -> tuple[Tensor, Tensor | None]:
    p.in_time()
    return p.able("generate", "has no generate")(tokens, forced, **how)


def _against_pass(p: Probe, x: Tensor | None = None, start: int | None = None, **how: object) -> float:
    x = p.x if x is None else x
    start = _start(p) if start is None else start
    _, logits = _generate(p, x[:, :start], x[:, start:], **how)
    if logits is None:
        raise Refused("generate returns no logits")
    new = x.shape[1] - start
    return p.off(logits, p.full[:, -new - 1 : -1])


def _against_choices(p: Probe, x: Tensor, sequences: Tensor) -> Outcome:
    """The share of new tokens, and the first, that differ from the likeliest one after the tokens before it."""
    p.in_time()
    if bool((_generate(p, x)[0][:, : sequences.shape[1]] != sequences).any()):
        raise Refused("its own generate draws tokens at random")
    out = p.logits(sequences[:, :-1])[:, x.shape[1] - 1 :]
    wrong = (out.argmax(-1) != sequences[:, x.shape[1] :])[0]
    first = int(wrong.nonzero()[0]) if wrong.any() else None
    p.seen[:] = [float(wrong.double().mean()), "." * x.shape[1] + "".join(".x"[int(each)] for each in wrong)]
    return Outcome(float(wrong.double().mean()), details={"first": first})


def _differing(sequences: Tensor, expected: Tensor) -> Outcome:
    """The share of rows that are not the same."""
    rows = (
        (sequences != expected).any(-1)
        if sequences.shape == expected.shape
        else torch.ones(len(sequences), dtype=torch.bool)
    )
    return Outcome(float(rows.double().mean()), details={"rows": int(rows.sum()), "of": len(rows)})
