"""Exercises of the chapter on the census."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, draw, expect

WORDS, OUT = draw(50, 16), draw(50, 16, seed=1)
FIRST, SECOND = torch.arange(5, 14)[None], torch.arange(20, 29)[None]  # nine tokens each
LONGER = torch.arange(4, 16)[None]


class Decoder:
    """A layer of rotary attention with a cache. All that it keeps of a text is in the state that it returns."""

    scale = 1.0

    def place(self, read: int, n: int) -> Tensor:
        """Positions of n tokens after `read` others."""
        return read + torch.arange(n)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        x = WORDS[tokens]
        keys, values = (x[:, :0], x[:, :0]) if state is None else state
        read, n = keys.shape[1], tokens.shape[1]
        angle = self.place(read, n)[:, None] * 100.0 ** -(torch.arange(8) / 8)
        a, b = x.chunk(2, -1)
        q = torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)
        keys, values = torch.cat((keys, q), 1), torch.cat((values, x), 1)
        seen = torch.ones(n, read + n, dtype=torch.bool).tril(read)
        weights = (q @ keys.mT / 4).masked_fill(~seen, -torch.inf).softmax(-1)
        return self.scale * (x + weights @ values) @ OUT.T, (keys, values)


class Counting(Decoder):
    """Counts tokens in itself, from 0 with each text that begins."""

    read = 0

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def place(self, read: int, n: int) -> Tensor:
        self.read = n if read == 0 else self.read + n
        return self.read - n + torch.arange(n)


class Once(Decoder):
    """Spoils the token after `at` others in one of two texts, if the call before was of the other text."""

    def __init__(self, text: int, at: int) -> None:
        self.text, self.at, self.last = text, at, -1

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, new = super().step(tokens, state)
        text = int(tokens[0, 0] >= 20)
        between, self.last = self.last == 1 - text, text
        if between and text == self.text and new[0].shape[1] == self.at + 1:
            logits = logits.roll(1, -1)
        return logits, new


def _off(turns: Attempt, model: Decoder, first: Tensor = FIRST) -> float:
    return float(turns.tensor(model, first, SECOND, shape=()))


def _nothing(turns: Attempt) -> None:
    for first in (FIRST, LONGER):
        size = _off(turns, Decoder(), first)
        expect(abs(size) < 1e-9, f"a model that keeps all in its state is off by {size:.2g}")


def _counter(turns: Attempt) -> None:
    size = _off(turns, Counting())
    expect(size > 0.01, f"a model that counts tokens in itself, from 0 with each text, is off by {size:.2g}")


def _both(turns: Attempt) -> None:
    for text, name in enumerate(("first", "second")):
        size = _off(turns, Once(text, 8))
        expect(size > 0.01, f"a model that spoils the last token of the {name} text only is off by {size:.2g}")


def _every(turns: Attempt) -> None:
    for at in (1, 4, 7):
        size = _off(turns, Once(0, at), LONGER)
        expect(size > 0.01, f"a model that spoils the token after {at} others only is off by {size:.2g}")


def _scaled(turns: Attempt) -> None:
    one, thousand = _off(turns, Counting()), _off(turns, Counting(1000.0))
    message = f"off by {one:.3g}, and with logits 1000 times as large by {thousand:.3g}"
    expect(abs(one - thousand) < 1e-6 * one, message)


def _largest(turns: Attempt) -> None:
    alone = Decoder().step(FIRST, None)[0]
    size = float((alone[:, 4].roll(1, -1) - alone[:, 4]).abs().max() / alone.square().mean().sqrt())
    measured = _off(turns, Once(0, 4))
    message = f"one token is spoilt, by {size:.2g} of the logits' size at most, and it is off by {measured:.2g}"
    expect(0.5 * size < measured < 2 * size, message)


EXERCISES = {
    "census_turns": [
        ("a right model is off by nothing", _nothing),
        ("a model that counts in itself is noticed", _counter),
        ("both texts are looked at", _both),
        ("every token of a text is looked at, also of texts that are not equally long", _every),
        ("logits that are larger by a factor are off by as much", _scaled),
        ("it is the largest change that counts", _largest),
    ],
}
