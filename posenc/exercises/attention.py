"""Exercises of the chapter on attention."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc.exercises.attempt import Attempt, close, draw, expect


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
    encoding, pos = window.encoding(3), torch.arange(7)
    for causal in (True, False):
        near = pos[:, None] - pos < 3
        wanted = window.weights(Encoding(), q, k, pos, pos, causal=causal, mask=near)
        weights = window.weights(encoding, q, k, pos, pos, causal=causal)
        for i, j in near.nonzero().tolist():
            says = f"with {window.last} and causal={causal}, query {i} gives key {j} {weights[0, 0, i, j]:.3f}"
            expect(close(weights[0, 0, i, j], wanted[0, 0, i, j], 1e-5), f"{says}, not its share of the visible keys")


def _positions(window: Attempt) -> None:
    encoding, (q, k, v) = window.encoding(3), draw(3, 1, 2, 5, 4)
    there, moved = (window.attend(encoding, q, k, v, pos, pos) for pos in (torch.arange(5), torch.arange(100, 105)))
    expect(close(there, moved, 1e-5), f"with {window.last}, tokens at 0 to 4 and at 100 to 104 have other outputs")
    pos = torch.tensor([0, 1, 10, 11, 12])
    weight = window.weights(encoding, _silent(5), _silent(5), pos, pos)[0, 0, 2, 1].item()
    expect(weight == 0, f"with {window.last}, the token at 10 gives the one before it, at 1, the weight {weight:.3f}")


def _fused(window: Attempt) -> None:
    made, (q, k, v), pos = window.encoding(3), draw(3, 1, 2, 6, 4), torch.arange(6)
    dense, fused = (window.attend(made, q, k, v, pos, pos, backend=name) for name in ("dense", "sdpa"))
    expect(close(dense, fused, 1e-5), f'with {window.last}, backend="sdpa" computes something else')


def _step(window: Attempt) -> None:
    encoding, (q, k, v), pos = window.encoding(3), draw(3, 1, 2, 6, 4), torch.arange(6)
    whole = window.attend(encoding, q, k, v, pos, pos)
    for t in range(1, 7):
        step = window.attend(encoding, q[:, :, t - 1 : t], k[:, :, :t], v[:, :, :t], pos[t - 1 : t], pos[:t])
        same = f"with {window.last}, the step at position {t - 1} differs from that row of the whole"
        expect(close(step, whole[:, :, t - 1 : t], 1e-5), same)


EXERCISES = {
    "attention_window": [
        ("a key that is `width` or more positions back has the weight 0", _beyond),
        ("the other keys share the weight as without the window", _within),
        ("it goes by positions, not by rows", _positions),
        ("the fused kernel computes the same", _fused),
        ("a step with a cache is a row of the whole", _step),
    ],
}
