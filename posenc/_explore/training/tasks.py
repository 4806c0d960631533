"""What a model of a training panel learns: rules on letters, as functions of torch that are traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

LETTERS = 16
MARKED = 4  # letters, a to d, that a rule may ask for
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


def number(letters: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number the letters after a sign: a at the first of them, b at the second."""
    place = torch.arange(letters.shape[1])
    tokens = torch.where(place == 0, SIGN, letters)
    return tokens, ((place - 1) % LETTERS).expand_as(letters), place > 0


def latest(letters: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At each letter write the latest of a to d so far, this one included, or a sign if there's none."""
    return _marked(letters, _seen(letters, -1).amax(-1))


def earliest(letters: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At each letter write the earliest of a to d so far, this one included, or a sign if there's none."""
    never = letters.shape[1]
    first = _seen(letters, never).amin(-1)
    return _marked(letters, torch.where(first < never, first, -1))


def _seen(letters: Tensor, never: int) -> Tensor:
    """Of each pair, if its key is an a to d so far, the key's place, else `never`, (B, L, L). No graph has a cummax."""
    place = torch.arange(letters.shape[1])
    return torch.where((letters < MARKED)[:, None] & (place <= place[:, None]), place, never)


def _marked(letters: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The letters at these places (B, L) are written, a sign where a place is -1."""
    return letters, torch.where(at < 0, SIGN, letters.gather(1, at.clamp(min=0))), torch.arange(letters.shape[1]) >= 0


TASKS: dict[str, Task] = {
    "repeat the letter n back": back,
    "repeat the first letter": first,
    "copy the word": copy,
    "number the letters": number,
    "write the latest of a to d": latest,
    "write the earliest of a to d": earliest,
}
