"""Exercises of the chapter on claims: a test that readers write is run on encodings and on their look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, brief, expect
from posenc.schemes.layout import Layout
from posenc.schemes.rope import rotate
from posenc.schemes.sinusoidal import frequencies, sinusoidal

DIM = 16
FREQ = frequencies(DIM, dtype=torch.float64)


class Turn:
    """A function of vectors (L, 16) and positions (L,), under a name that a verdict can print."""

    def __init__(self, name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.name, self.function = name, function

    def __call__(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.function(x, torch.as_tensor(pos))

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _rope(base: float = 10_000.0, layout: Layout = "interleaved") -> Callable[[Tensor, Tensor], Tensor]:
    freq = frequencies(DIM, base, dtype=torch.float64)
    return lambda x, pos: rotate(x, pos, freq, layout=layout)


def _sines(x: Tensor, pos: Tensor) -> Tensor:
    sine = (pos[:, None] * FREQ).sin().repeat_interleave(2, -1)
    return (x + torch.stack([-x[:, 1::2], x[:, 0::2]], -1).flatten(-2)) * sine


def _slowly(x: Tensor, pos: Tensor) -> Tensor:
    """A sum with a code that hardly changes over a few positions."""
    return x + sinusoidal(pos.double() * 1e-6, DIM)


def _until(last: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, pos: rotate(x, pos.clamp(max=last), FREQ)


RELATIVE = [
    Turn("RoPE", _rope()),
    Turn("RoPE with base 500 000", _rope(500_000.0)),
    Turn("RoPE in the half layout", _rope(layout="half")),
    Turn("RoPE rotating backwards", lambda x, pos: rotate(x, -pos, FREQ)),
]
CONSTANT = [
    Turn("no position", lambda x, pos: x),
    Turn("RoPE with every position taken for 0", lambda x, pos: rotate(x, 0 * pos, FREQ)),
]
ABSOLUTE = [
    Turn("a sinusoidal code, added", lambda x, pos: x + sinusoidal(pos.double(), DIM)),
    Turn("RoPE with the sine typed for the cosine", _sines),
    Turn("RoPE that stretches by the position", lambda x, pos: rotate(x, pos, FREQ) * (1 + pos[:, None] / 10)),
]
LATER = [
    Turn("RoPE with positions in bfloat16", lambda x, pos: rotate(x, pos.bfloat16().double(), FREQ)),
    Turn("RoPE with all positions above 512 taken for 512", _until(512)),
    Turn("a code added that changes by a millionth a token", _slowly),
]


def _says(attempt: Attempt, turns: list[Turn], expected: bool) -> None:
    for turn in turns:
        answer = attempt(turn)
        if isinstance(answer, Tensor) and answer.dtype == torch.bool and answer.numel() == 1:
            answer = bool(answer)
        expect(isinstance(answer, bool), f"{attempt.last} returns {brief(answer)}, and True or False is asked for")
        expect(answer == expected, f"{attempt.last} returns {answer}")


EXERCISES = {
    "claims_relative": [
        ("encodings whose scores depend on the offset alone are accepted", lambda f: _says(f, RELATIVE, True)),
        ("what does not depend on positions at all is rejected", lambda f: _says(f, CONSTANT, False)),
        ("scores that change when a text moves are rejected", lambda f: _says(f, ABSOLUTE, False)),
        ("also if they change only far along a text, or slowly", lambda f: _says(f, LATER, False)),
    ],
}
