"""Exercises of the chapter on distance as a factor."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from posenc._attention.call import attention
from posenc.exercises.attempt import Attempt, brief, close, draw, expect, worst
from posenc.schemes.distance_aware import DistanceAware

R = torch.arange(40, dtype=torch.float64)
RATES, SHIFTS = (-0.4, -0.05, 0.05, 0.4), (-2.0, 0.0, 1.5)


def _at_zero(weight: Attempt) -> None:
    for w, v in product((0.0, *RATES), SHIFTS):
        answer = weight.tensor(R, w, v, shape=R.shape)
        expect(abs(answer[0] - 1) < 1e-5, f"w = {w}, v = {v}: at distance 0 it is {answer[0]:.4f}")


def _flat(weight: Attempt) -> None:
    for v in SHIFTS:
        answer = weight.tensor(R, 0.0, v, shape=R.shape)
        at = int((answer - 1).abs().argmax())
        expect(close(answer, 1.0, 1e-5), f"w = 0, v = {v}: at distance {at} it is {answer[at]:.4f}")


def _preference(weight: Attempt) -> None:
    for w, v in product(RATES, SHIFTS):
        answer = weight.tensor(R, w, v, shape=R.shape)
        for r, step in enumerate(answer.diff()[:20].tolist()):
            message = (
                f"w = {w}, v = {v}: from distance {r} to {r + 1} it goes from {answer[r]:.4f} to {answer[r + 1]:.4f}"
            )
            expect(step * w > 0, message)


def _sigmoid(weight: Attempt) -> None:
    for w, v in product(RATES, SHIFTS):
        answer = weight.tensor(R[:20], w, v, shape=(20,))
        inner = (answer > 0) & (answer < 1 + math.exp(v))
        at = int(inner.int().argmin())
        expect(inner.all(), f"w = {w}, v = {v}: at distance {at} it is {answer[at]:.4f}")
        logit = answer.log() - (1 + math.exp(v) - answer).log()  # of what it is of its limit for w > 0
        for r, step in enumerate(logit.diff().tolist()):
            message = f"w = {w}, v = {v}: from distance {r} to {r + 1} its logit rises by {step:.4f}"
            expect(abs(step - w) < 1e-4, message)


def _extremes(weight: Attempt) -> None:
    far = torch.tensor([0.0, 1e3, 1e6], dtype=torch.float64)
    for w, v in ((-1.0, 0.0), (1.0, 0.0), (-5.0, 3.0), (-0.1, 800.0), (0.0, 800.0), (-0.1, -800.0)):
        answer = weight.tensor(far, w, v, shape=(3,))
        expect((answer >= 0).all(), f"{weight.last} is {answer.min():.3g} somewhere")
        expect(abs(answer[0] - 1) < 1e-5, f"{weight.last} is {answer[0]:.4g} at distance 0")


def _of(sparse: Attempt, q: Tensor, k: Tensor, values: Tensor, w: float, v: float) -> tuple[Tensor, int]:
    answer: Any = sparse(q, k, values, w, v)
    both = isinstance(answer, tuple) and len(answer) == 2
    expect(both, f"{sparse.last} returns {brief(answer)}; the output and a number of pairs are asked for")
    return sparse.numbers(answer[0], values.shape), int(sparse.numbers(answer[1], ()))


CASES = [(40, 8, -0.2, 0.5), (25, 4, 0.1, 0.0), (6, 8, -1.0, -1.0)]


def _cases(dead: bool = False) -> Iterator[tuple[Tensor, Tensor, Tensor, float, float]]:
    for n, (length, dim, w, v) in enumerate(CASES):
        q, k, values = draw(3, length, dim, seed=11 + n)
        yield (q.abs(), -k.abs(), values, w, v) if dead else (q, k, values, w, v)


def _two(sparse: Attempt) -> None:
    for case in _cases():
        _of(sparse, *case)


def _few(sparse: Attempt) -> None:
    for q, k, values, w, v in _cases():
        _, pairs = _of(sparse, q, k, values, w, v)
        positive = int((q @ k.T > 0).tril().sum())
        message = (
            f"{sparse.last}: {pairs} pairs, and the score is positive for {positive} of {len(q) * (len(q) + 1) // 2}"
        )
        expect(pairs <= positive, message)


def _dead(sparse: Attempt) -> None:
    for q, k, values, w, v in _cases(dead=True):
        out, _ = _of(sparse, q, k, values, w, v)
        for i in range(1, len(q)):
            mean = values[: i + 1].mean(0)
            message = f"all scores of query {i} are negative; channel 0 of its output is {out[i, 0]:.3f}"
            expect(close(out[i], mean, 1e-5), f"{message}, and of the {i + 1} values {mean[0]:.3f} on average")


def _output(sparse: Attempt) -> None:
    for q, k, values, w, v in _cases():
        scheme, pos = DistanceAware(1).double(), torch.arange(len(q))
        scheme.w.fill_(w)
        scheme.v.fill_(v)
        wanted = attention(q[None, None], k[None, None], values[None, None], scheme, pos)[0, 0]
        out, _ = _of(sparse, q, k, values, w, v)
        i, c = worst(out, wanted)
        message = f"{sparse.last}: channel {c} of query {i} is {out[i, c]:.3f}"
        expect(close(out, wanted, 1e-5), f"{message}, where DistanceAware has {wanted[i, c]:.3f}")


EXERCISES = {
    "distance_aware_weight": [
        ("it is 1 at distance 0, whatever w and v", _at_zero),
        ("it is 1 everywhere if w = 0", _flat),
        ("it rises with distance if w > 0, and falls if w < 0", _preference),
        ("it is a sigmoid of w R - v, times 1 + e^v", _sigmoid),
        ("however large w R and v, it is finite, and still 1 at distance 0", _extremes),
    ],
    "distance_aware_sparse": [
        ("it returns the output, as large as the values, and a number of pairs", _two),
        ("only pairs with a positive score are used one by one", _few),
        ("a query without a positive score attends to all keys alike", _dead),
        ("the output is that of the scheme", _output),
    ],
}
