"""Exercises of the chapter that refreshes attention."""

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, close, expect

S = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0], [5.0, 5.0, 5.0]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 1, 1]]).bool()


def _shares(softmax: Attempt) -> None:
    weights = softmax.tensor(S, MASK, shape=S.shape)
    hidden = weights[~MASK].abs().max().item()
    expect(hidden == 0, f"{softmax.last} gives a forbidden key {hidden:.3g}")
    for n, total in enumerate(weights.sum(-1).tolist()):
        expect(abs(total - 1) < 1e-5, f"row {n} of {softmax.last} sums to {total:.4f}")


def _odds(softmax: Attempt) -> None:
    weights = softmax.tensor(S, MASK, shape=S.shape)
    for row in range(3):
        a, b = (int(n) for n in MASK[row].nonzero()[:2, 0])
        odds = (weights[row, b] / weights[row, a]).log().item()
        says = f"logits {S[row, a]:g} and {S[row, b]:g} get {weights[row, a]:.4f} and {weights[row, b]:.4f}"
        expect(abs(odds - (S[row, b] - S[row, a]).item()) < 1e-4, says)


def _large(softmax: Attempt) -> None:
    for value in (1000.0, -1000.0):
        plain, moved = softmax.tensor(S, MASK), softmax.tensor(S + value, MASK)
        expect(close(plain, moved, 1e-5), f"with {value:+.0f} at every logit, weights are others")
    s, mask = torch.tensor([[-500.0, 0.0, 900.0]], dtype=torch.float64), torch.tensor([[True, False, False]])
    alone = softmax.tensor(s, mask)[0, 0].item()
    expect(abs(alone - 1) < 1e-6, f"beside a forbidden 900, the only allowed key, at -500, gets {alone:.3g}")


def _empty(softmax: Attempt) -> None:
    weights = softmax.tensor(S, MASK & torch.tensor([[True], [True], [False]]))
    expect((weights[2] == 0).all(), f"a row without an allowed key is {[round(x, 3) for x in weights[2].tolist()]}")


def _gradients(softmax: Attempt) -> None:
    rows = torch.tensor([[1.0, 2, 3], [1000, 0, 999], [5, 5, 5], [-500, 0, 900]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()
    for s, allowed in zip(rows, mask, strict=True):
        with torch.enable_grad():
            s = s[None].clone().requires_grad_()
            answer = softmax(s, allowed[None])
            learns = isinstance(answer, Tensor) and answer.requires_grad
            expect(learns, f"{softmax.last} passes no gradient on")
            answer.square().sum().backward()
        says = f"logits {s[0].tolist()}, of which {allowed.tolist()} are allowed: the gradient"
        expect(s.grad is not None and s.grad.isfinite().all(), f"{says} is not finite")


EXERCISES = {
    "refresher_softmax": [
        ("forbidden keys have the weight 0, and the others share 1", _shares),
        ("the odds of two allowed keys are e to the difference of their logits", _odds),
        ("large logits do no harm, whether allowed or forbidden", _large),
        ("a row in which everything is forbidden is zeros", _empty),
        ("gradients are finite", _gradients),
    ],
}
