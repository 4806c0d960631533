"""Exercises of the chapter on longer texts for rotary encodings."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, draw, expect
from posenc.schemes.rope import rotate
from posenc.schemes.scaling import dynamic_ntk
from posenc.schemes.sinusoidal import frequencies

HEADS = [(128, 1e4, 4096, 4.0), (64, 5e5, 8192, 8.0), (96, 1e4, 2048, 32.0)]


def _scaled(rule: Attempt) -> Iterator[tuple[str, float, Tensor, Tensor, Tensor]]:
    """For some heads: which, the factor, old and new frequencies, and turns within the trained length."""
    for dim, base, trained, factor in HEADS:
        freq = frequencies(dim, base, dtype=torch.float64)
        new = rule.tensor(freq, factor, trained, shape=freq.shape)
        head = f"d = {dim}, base {base:,.0f}, {trained} tokens, factor {factor:g}"
        yield head, factor, freq, new, trained * freq / (2 * math.pi)


def _fast(rule: Attempt) -> None:
    for head, _, freq, new, turns in _scaled(rule):
        for t in (turns >= 8).nonzero()[:, 0].tolist():
            kept = f"{head}: plane {t}, which makes {turns[t]:.1f} turns, keeps {new[t] / freq[t]:.3f} of its frequency"
            expect(close(new[t], freq[t], 1e-5), kept)


def _no_new_phases(rule: Attempt) -> None:
    for head, factor, freq, new, turns in _scaled(rule):
        for t in (turns < 1).nonzero()[:, 0].tolist():
            reaches = f"{head}: plane {t} made {turns[t]:.3f} turns, and now {factor * turns[t] * new[t] / freq[t]:.3f}"
            expect(factor * new[t].abs() <= 1.0001 * freq[t], f"{reaches} on the long text")


def _ordered(rule: Attempt) -> None:
    for head, _, _, new, _ in _scaled(rule):
        for t, faster in enumerate((new.diff() < 0).tolist()):
            expect(faster, f"{head}: plane {t} has {new[t]:.4g} and plane {t + 1} has {new[t + 1]:.4g}")


def _factor_one(rule: Attempt) -> None:
    for dim, base, trained, _ in HEADS:
        freq = frequencies(dim, base, dtype=torch.float64)
        answer = rule.tensor(freq, 1.0, trained, shape=freq.shape)
        expect(close(answer, freq, 1e-5), f"{rule.last}, the factor being 1, changes frequencies")


def _grown(length: int) -> Tensor:
    return dynamic_ntk(frequencies(16, dtype=torch.float64), length, 32)


def _still(freshen: Attempt) -> None:
    keys, pos = draw(1, 2, 20, 16), torch.arange(20)
    answer = freshen.tensor(keys, pos, _grown(20), _grown(32), shape=keys.shape)
    expect(close(answer, keys, 1e-5), f"{freshen.last} changes keys, though old and new frequencies are the same")


def _lengths(freshen: Attempt) -> None:
    keys, pos = draw(1, 2, 40, 16), torch.arange(40)
    answer = freshen.tensor(keys, pos, _grown(40), _grown(64), shape=keys.shape)
    expect(close(answer.norm(dim=-1), keys.norm(dim=-1), 1e-4), f"{freshen.last} changes the length of keys")


def _once(freshen: Attempt) -> None:
    keys, pos = draw(1, 2, 40, 16), torch.arange(40)
    answer = freshen.tensor(rotate(keys, pos, _grown(40)), pos, _grown(40), _grown(64), shape=keys.shape)
    wanted = rotate(keys, pos, _grown(64))
    for j in pos.tolist():
        same = close(answer[..., j, :], wanted[..., j, :], 1e-4)
        expect(same, f"freshened from 40 to 64 tokens, the key at {j} is not rotated for 64")


def _while_it_grows(freshen: Attempt) -> None:
    keys, pos = draw(1, 2, 96, 16), torch.arange(96)
    cached, before = rotate(keys[..., :1, :], pos[:1], _grown(1)), _grown(1)
    for t in range(1, 96):
        now = _grown(t + 1)
        kept = freshen.tensor(cached, pos[:t], before, now, shape=cached.shape)
        cached, before = torch.cat([kept, rotate(keys[..., t : t + 1, :], pos[t : t + 1], now)], -2), now
        stale = (cached - rotate(keys[..., : t + 1, :], pos[: t + 1], now)).abs().amax((0, 1, 3)) > 1e-4
        expect(not stale.any(), f"after token {t}, {int(stale.sum())} of {t + 1} keys are stale")


EXERCISES = {
    "scaling_rule": [
        ("a plane that makes 8 turns or more within the trained length keeps its frequency", _fast),
        ("a plane that makes less than one turn meets no new phase on the long text", _no_new_phases),
        ("of two neighbouring planes the slower stays slower", _ordered),
        ("the factor 1 changes nothing", _factor_one),
    ],
    "scaling_freshen": [
        ("the same frequencies change nothing", _still),
        ("keys keep their length", _lengths),
        ("after one repair, keys are rotated with the new frequencies", _once),
        ("repaired at every step while a text grows, no key is stale", _while_it_grows),
    ],
}
