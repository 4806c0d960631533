"""Exercises of the chapter on attention."""

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.exercises.attempt import Attempt, close, draw, expect

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
            found = softmax(s, allowed[None])
            learns = isinstance(found, Tensor) and found.requires_grad
            expect(learns, f"{softmax.last} passes no gradient on")
            found.square().sum().backward()
        says = f"logits {s[0].tolist()}, of which {allowed.tolist()} are allowed: the gradient"
        expect(s.grad is not None and s.grad.isfinite().all(), f"{says} is not finite")


def _silent(length: int) -> Tensor:
    return torch.zeros(1, 2, length, 4, dtype=torch.float64)


def _beyond(window: Attempt) -> None:
    for width in (3, 1, 4):
        made, pos = window.encoding(width), torch.arange(7)
        weights = window.weights(made, _silent(7), _silent(7), pos, pos)[0, 0]
        for i, j in ((pos[:, None] - pos) >= width).nonzero().tolist():
            says = f"with {window.last}, query {i} gives key {j}, {i - j} back, the weight {weights[i, j]:.3f}"
            expect(weights[i, j] == 0, says)


def _within(window: Attempt) -> None:
    q, k = draw(2, 1, 2, 7, 4)
    made, pos = window.encoding(3), torch.arange(7)
    for causal in (True, False):
        near = pos[:, None] - pos < 3
        wanted = window.weights(Encoding(), q, k, pos, pos, causal=causal, mask=near)
        found = window.weights(made, q, k, pos, pos, causal=causal)
        for i, j in near.nonzero().tolist():
            says = f"with {window.last} and causal={causal}, query {i} gives key {j} {found[0, 0, i, j]:.3f}"
            expect(close(found[0, 0, i, j], wanted[0, 0, i, j], 1e-5), f"{says}, not its share of the visible keys")


def _positions(window: Attempt) -> None:
    made, (q, k, v) = window.encoding(3), draw(3, 1, 2, 5, 4)
    there, moved = (window.attend(made, q, k, v, pos, pos) for pos in (torch.arange(5), torch.arange(100, 105)))
    expect(close(there, moved, 1e-5), f"with {window.last}, tokens at 0 to 4 and at 100 to 104 have other outputs")
    pos = torch.tensor([0, 1, 10, 11, 12])
    weight = window.weights(made, _silent(5), _silent(5), pos, pos)[0, 0, 2, 1].item()
    expect(weight == 0, f"with {window.last}, the token at 10 gives the one before it, at 1, the weight {weight:.3f}")


def _fused(window: Attempt) -> None:
    made, (q, k, v), pos = window.encoding(3), draw(3, 1, 2, 6, 4), torch.arange(6)
    dense, fused = (window.attend(made, q, k, v, pos, pos, backend=name) for name in ("dense", "sdpa"))
    expect(close(dense, fused, 1e-5), f'with {window.last}, backend="sdpa" computes something else')


def _step(window: Attempt) -> None:
    made, (q, k, v), pos = window.encoding(3), draw(3, 1, 2, 6, 4), torch.arange(6)
    whole = window.attend(made, q, k, v, pos, pos)
    for t in range(1, 7):
        step = window.attend(made, q[:, :, t - 1 : t], k[:, :, :t], v[:, :, :t], pos[t - 1 : t], pos[:t])
        same = f"with {window.last}, the step at position {t - 1} differs from that row of the whole"
        expect(close(step, whole[:, :, t - 1 : t], 1e-5), same)


EXERCISES = {
    "attention_softmax": [
        ("forbidden keys have the weight 0, and the others share 1", _shares),
        ("the odds of two allowed keys are e to the difference of their logits", _odds),
        ("large logits do no harm, whether allowed or forbidden", _large),
        ("a row in which everything is forbidden is zeros", _empty),
        ("gradients are finite", _gradients),
    ],
    "attention_window": [
        ("a key that is `width` or more positions back has the weight 0", _beyond),
        ("the other keys share the weight as without the window", _within),
        ("it goes by positions, not by rows", _positions),
        ("the fused kernel computes the same", _fused),
        ("a step with a cache is a row of the whole", _step),
    ],
}
