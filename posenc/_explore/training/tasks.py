"""What a model of a training panel learns: rules on letters, as functions of torch that are traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

LETTERS = 16
SIGN = LETTERS  # the token after the letters: "="
SYMBOLS = (*"abcdefghijklmnop", "=")
VOCABULARY = len(SYMBOLS)

Task = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""Takes random letters (B, L), a length, an integer tensor of at most L, and, if it has a third parameter, the number n
that the reader sets, an integer tensor. Returns the tokens (B, L), int64, that the model reads, the token that it shall
write at each, and a mask (L,): where that is counted. What stands at `length` or beyond is not counted in any case."""


def numbered(rule: Task) -> bool:
    """Whether a rule takes the number n."""
    return len(inspect.signature(rule).parameters) > 2


def back(letters: Tensor, length: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At each letter write the letter n back."""
    place = torch.arange(letters.shape[1])
    return letters, letters[:, (place - n).clamp(min=0)], place >= n


def first(letters: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At each letter write the first one."""
    return letters, letters[:, :1].expand_as(letters), torch.arange(letters.shape[1]) >= 0


def copy(letters: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Read a word and a sign, and write the word: abc=abc."""
    place, half = torch.arange(letters.shape[1]), (length - 1) // 2
    again = letters[:, (place - half - 1).clamp(min=0)]
    tokens = torch.where(place < half, letters, torch.where(place == half, SIGN, again))
    return tokens, tokens.roll(-1, 1), (place >= half) & (place < 2 * half)


TASKS: dict[str, Task] = {
    "repeat the letter n back": back,
    "repeat the first letter": first,
    "copy the word": copy,
}
