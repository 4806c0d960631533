"""Exercises of the chapter on rotary encoding."""

import math

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, draw, expect, worst
from posenc.schemes.rope import RoPE
from posenc.schemes.rope import rotate as turned
from posenc.schemes.sinusoidal import frequencies

FREQ = frequencies(8, dtype=torch.float64)


def _stays(rotate: Attempt) -> None:
    x = draw(2, 1, 8)
    answer = rotate.tensor(x, torch.tensor([0]), FREQ, shape=x.shape)
    expect(close(answer, x, 1e-5), f"{rotate.last} is not x")


def _lengths(rotate: Attempt) -> None:
    x, pos = draw(1, 6, 8), torch.arange(6)
    answer, before = (y.view(6, 4, 2).norm(dim=-1) for y in (rotate.tensor(x, pos, FREQ, shape=x.shape)[0], x[0]))
    p, t = worst(answer, before)
    message = (
        f"channels {2 * t} and {2 * t + 1}, of length {before[p, t]:.3f}, have length {answer[p, t]:.3f} at position"
    )
    expect(close(answer, before, 1e-4), f"{message} {p}")


def _angles(rotate: Attempt) -> None:
    x = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(4).expand(1, 3, 8)
    a, b = rotate.tensor(x, torch.arange(3), FREQ, shape=x.shape)[0].view(3, 4, 2).unbind(-1)
    angle = torch.atan2(b, a)
    for p, t in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        message = f"pair {t}, (1, 0), stands at the angle {angle[p, t]:.4f} at position {p}"
        off = (angle[p, t] - p * FREQ[t] + math.pi) % (2 * math.pi) - math.pi
        expect(abs(off) < 1e-4, f"{message}, its freq being {FREQ[t]:.4f}")


def _own_position(rotate: Attempt) -> None:
    x = draw(1, 20, 8)
    whole = rotate.tensor(x, torch.arange(20), FREQ)
    for pos in ([5, 6, 7], [7], [9, 2, 2]):
        part = rotate.tensor(x[:, pos], torch.tensor(pos), FREQ, shape=(1, len(pos), 8))
        same = f"given those at {', '.join(map(str, pos))} alone, it rotates them otherwise than among all 20 tokens"
        expect(close(part, whole[:, pos], 1e-5), same)


def _offsets(rotate: Attempt) -> None:
    q, k, pos = draw(1, 5, 8), draw(1, 5, 8, seed=1), torch.arange(5)
    score = [rotate.tensor(q, pos + c, FREQ) @ rotate.tensor(k, pos + c, FREQ).mT for c in (0, 50)]
    _, i, j = worst(*score)
    message = f"query {i} and key {j} have the score {score[0][0, i, j]:.3f}, and {score[1][0, i, j]:.3f} 50 further on"
    expect(close(score[0], score[1], 1e-4), message)


def _turn(partial: Attempt, dim: int, fraction: float, pos: Tensor) -> tuple[Tensor, Tensor]:
    """Something, and what its queries and keys both become."""
    made, x = partial.encoding(dim, fraction), draw(1, 2, len(pos), dim)
    query = partial.method(made, "query").tensor(x, pos, shape=x.shape)
    key = partial.method(made, "key").tensor(x, pos, shape=x.shape)
    expect(close(query, key), f"{partial.last} rotates queries and keys differently")
    return x, query


def _rest(partial: Attempt) -> None:
    for dim, fraction in ((32, 0.25), (16, 0.5)):
        x, answer = _turn(partial, dim, fraction, torch.arange(6))
        same = (answer == x).flatten(0, 2).all(0)
        part = int(dim * fraction)
        changed = [c for c in range(part, dim) if not same[c]]
        expect(not changed, f"{partial.last} changes channel {min(changed, default=0)} of {dim}")


def _part(partial: Attempt) -> None:
    for dim, fraction in ((32, 0.25), (16, 0.5)):
        part = int(dim * fraction)
        x, answer = _turn(partial, dim, fraction, torch.arange(6))
        for p in range(6):
            pairs = [y[0, 0, p, :part].view(-1, 2) for y in (x, answer)]
            for t in range(part // 2):
                expect(
                    abs(pairs[0][t].norm() - pairs[1][t].norm()) < 1e-4,
                    f"{partial.last} changes the length of pair {t} at position {p}",
                )
        wanted = RoPE(part).query(x[..., :part], torch.arange(6))
        _, _, p, c = worst(answer[..., :part], wanted)
        same = close(answer[..., :part], wanted, 1e-4)
        expect(same, f"{partial.last} rotates pair {c // 2}, at position {p}, by another angle than p b^(-2t/{part})")


def _relative(partial: Attempt) -> None:
    made, x, pos = partial.encoding(32, 0.25), draw(1, 1, 6, 32), torch.arange(6)
    query, key = partial.method(made, "query"), partial.method(made, "key")
    score = [query.tensor(x, pos + c) @ key.tensor(x, pos + c).mT for c in (0, 50)]
    expect(close(score[0], score[1], 1e-4), f"with {partial.last}, scores change when all move by 50")


def _whole(partial: Attempt) -> None:
    x, answer = _turn(partial, 32, 1.0, torch.arange(6))
    expect(close(answer, RoPE(32).query(x, torch.arange(6)), 1e-4), f"{partial.last} is not RoPE(32)")


def _cached(pos: Tensor) -> tuple[Tensor, Tensor]:
    """Raw keys, and rotated ones."""
    keys = draw(1, 2, len(pos), 8)
    return keys, turned(keys, pos, FREQ)


def _by_zero(move: Attempt) -> None:
    _, cached = _cached(torch.arange(10))
    expect(close(move.tensor(cached, 0, FREQ, shape=cached.shape), cached, 1e-5), f"{move.last} changes the keys")


def _moved(move: Attempt) -> None:
    for first, by in ((10, -10), (3, 4), (0, 2)):
        pos = torch.arange(first, first + 10)
        keys, cached = _cached(pos)
        answer, wanted = move.tensor(cached, by, FREQ, shape=cached.shape), turned(keys, pos + by, FREQ)
        _, _, j, c = worst(answer, wanted)
        message = (
            f"{move.last}: pair {c // 2} of the key that was at {int(pos[j])} does not stand as at {int(pos[j]) + by}"
        )
        expect(close(answer, wanted, 1e-4), message)


def _there_and_back(move: Attempt) -> None:
    _, cached = _cached(torch.arange(10))
    back = move.tensor(move(cached, 7, FREQ), -7, FREQ, shape=cached.shape)
    expect(close(back, cached, 1e-4), "moved by 7 and then by -7, the keys are others")


def _same_freq(retune: Attempt) -> None:
    pos = torch.arange(10)
    _, cached = _cached(pos)
    answer = retune.tensor(cached, pos, FREQ, FREQ, shape=cached.shape)
    expect(close(answer, cached, 1e-5), f"{retune.last}, old and new being the same, changes the keys")


def _retuned(retune: Attempt) -> None:
    for pos in (torch.arange(10), torch.tensor([4, 5, 40, 41])):
        keys, cached = _cached(pos)
        for new in (frequencies(8, 500_000.0, dtype=torch.float64), FREQ / 4):
            answer, wanted = retune.tensor(cached, pos, FREQ, new, shape=cached.shape), turned(keys, pos, new)
            _, _, j, c = worst(answer, wanted)
            message = f"{retune.last}: pair {c // 2} of the key at {int(pos[j])}"
            expect(close(answer, wanted, 1e-4), f"{message} is not at the angle of the new frequency")


EXERCISES = {
    "rope_rotate": [
        ("position 0 changes nothing", _stays),
        ("each pair of neighbouring channels keeps its length", _lengths),
        ("pair t rotates by freq[t] for each position, from its first channel towards its second", _angles),
        ("each token rotates by its own position", _own_position),
        ("scores depend on the offset only", _offsets),
    ],
    "rope_partial": [
        ("channels after the first `fraction` stay as they are", _rest),
        ("the first `fraction` rotates as a RoPE of that size", _part),
        ("scores depend on the offset only", _relative),
        ("the fraction 1 is RoPE", _whole),
    ],
    "rope_move": [
        ("moving by 0 changes nothing", _by_zero),
        ("there and back again is where it was", _there_and_back),
        ("a key at j that is moved by c is the raw key, rotated for j + c", _moved),
    ],
    "rope_retune": [
        ("the same frequencies change nothing", _same_freq),
        ("a retuned key is the raw key, rotated with the new frequencies", _retuned),
    ],
}
