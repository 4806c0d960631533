"""Exercises of the chapter on order."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc.exercises.attempt import Attempt, close, draw, expect


def _only_bias(backwards: Attempt) -> None:
    made = backwards.encoding()
    expect(made.doors == ("score_bias",), f"{backwards.last} opens {', '.join(made.doors) or 'no door'}")


def _offsets(backwards: Attempt) -> None:
    made, (q, k, v) = backwards.encoding(), draw(3, 1, 2, 6, 8)
    there, moved = (backwards.attend(made, q, k, v, p, p, causal=False) for p in (torch.arange(6), torch.arange(9, 15)))
    expect(close(there, moved, 1e-5), f"with {backwards.last}, six tokens at 0 to 5 and at 9 to 14 have other outputs")


def _nearer(backwards: Attempt) -> None:
    made, pos = backwards.encoding(), torch.arange(7)
    silent = torch.zeros(1, 2, 7, 4, dtype=torch.float64)
    row = backwards.weights(made, silent, silent, pos, pos, causal=False)[0, 0, 3]
    for far, near in ((0, 1), (1, 2), (2, 3), (6, 5), (5, 4), (4, 3)):
        expect(row[near] > row[far], f"with {backwards.last}, query 3 gives key {far} no less than key {near}")


def _pooled(attempt: Attempt, encoding: Encoding, x: Tensor) -> Tensor:
    pos, W = torch.arange(x.shape[1]), draw(2, 3, 2, 8, 4, seed=1) / 3  # two layers, two heads
    for layer in W:
        q, k, v = (x[:, None] @ w for w in layer)
        x = x + attempt.attend(encoding, q, k, v, pos, pos, causal=False).transpose(1, 2).flatten(2)
    return x.mean(1)


def _told_apart(backwards: Attempt) -> None:
    encoding = backwards.encoding()
    for length in (3, 5):
        text = draw(1, length, 8, seed=length)
        there, back = _pooled(backwards, encoding, text), _pooled(backwards, encoding, text.flip(1))
        same = f"with {backwards.last}, the pooled outputs of {length} words and of these read backwards are equal"
        expect(not close(there, back, 1e-6), same)


EXERCISES = {
    "order_backwards": [
        ("it is an encoding with a bias and nothing else", _only_bias),
        ("moving the text changes nothing", _offsets),
        ("of silent keys on one side, the nearer counts for more", _nearer),
        ("a text and the same text read backwards are distinguished", _told_apart),
    ],
}
