"""Tasks of any length: a model that has learned one on short words is asked about longer ones.

A sequence is a question and its answer, such as ⟨copy bad=bad⟩. All tasks share one vocabulary, so that one
model can serve all; a task and a length fix how many tokens there are, so that a batch needs no padding.
"""

import torch
from torch import Tensor

TASKS = ("copy", "reverse", "addition", "recall")
DIGITS, LETTERS, KEYS = 10, 16, 64  # how many there are of each
QUERIES = 8
"""How many keys `recall` is asked for, of as many pairs as there are; of fewer pairs, all."""

BOS, EOS, SEP, PLUS = range(4)
TASK = 4  # the symbol of the first task
DIGIT = TASK + len(TASKS)  # the digit 0
LETTER = DIGIT + DIGITS  # the letter a
KEY = LETTER + LETTERS  # the key A1
VOCABULARY = KEY + KEYS
"""How many tokens there are: those that follow here, in their order."""

SYMBOLS = ("⟨", "⟩", "=", "+", *(f"{task} " for task in TASKS), *"0123456789", *"abcdefghijklmnop",
           *(f" {column}{row}" for column in "ABCDEFGH" for row in range(1, 9)))  # fmt: skip


def sample(task: str, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws sequences of a task, all of one length: tokens (count, T), and answer (count, T), bool.

    `answer` is True at the tokens that have to be predicted, each from all tokens before it, and are scored:

        copy      ⟨copy bad=bad⟩                     the word, of `length` letters, and the end
        reverse   ⟨reverse bad=dab⟩                  the word backwards, and the end
        addition  ⟨addition 905+107=2101⟩            the sum backwards, of length + 1 digits, and the end
        recall    ⟨recall H7b A4c D1b= D1b H7b A4c   what stood after the keys that are asked for

    Numbers are padded by zeros and begin with the most significant digit; a sum begins with the least, as it is
    worked out on paper, so that each carry is known before it is needed (Lee et al., 2024). The `length` keys of
    recall differ, and so do those that are asked for; it has no end, since who asks decides how often.

    All tokens of an answer are the likeliest ones, given the right ones before them, exactly if greedy
    decoding writes the answer: up to the first mistake both have read the same. So exact match takes one
    pass of the model. The share of right tokens does not: after a mistake, decoding reads its own.

    Raises ValueError for a task that does not exist, and for a length or count that it does not have.
    """
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}: choose one of {', '.join(TASKS)}")
    if length < 1 or count < 1:
        raise ValueError(f"a task of length {length}, {count} times: take a length and a count of at least 1")
    if task == "recall" and length > KEYS:
        raise ValueError(f"{length} pairs cannot all have other keys: there are {KEYS}, so take at most {KEYS} pairs")

    def draw(first: int, size: int) -> Tensor:
        return torch.randint(first, first + size, (count, length), generator=generator, device=generator.device)

    def all_rows(token: int) -> Tensor:
        return torch.full((count, 1), token, device=generator.device)

    if task == "addition":
        a, b = draw(DIGIT, DIGITS), draw(DIGIT, DIGITS)
        question, reply = torch.cat((a, all_rows(PLUS), b), 1), DIGIT + add(a - DIGIT, b - DIGIT).flip(1)
    elif task == "recall":
        order = torch.rand(count, KEYS, generator=generator, device=generator.device).argsort(1)
        pairs = torch.stack((KEY + order[:, :length], draw(LETTER, LETTERS)), -1)  # (count, length, 2)
        asked = torch.rand(count, length, generator=generator, device=generator.device).argsort(1)[:, :QUERIES]
        question, reply = pairs.flatten(1), pairs.take_along_dim(asked[..., None], 1).flatten(1)
    else:
        question = draw(LETTER, LETTERS)
        reply = question.flip(1) if task == "reverse" else question
    reply = reply if task == "recall" else torch.cat((reply, all_rows(EOS)), 1)
    tokens = torch.cat((all_rows(BOS), all_rows(TASK + TASKS.index(task)), question, all_rows(SEP), reply), 1)
    answer = torch.arange(tokens.shape[1], device=generator.device) >= tokens.shape[1] - reply.shape[1]
    return tokens, answer & (tokens < KEY)  # the keys of recall are given


def add(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two numbers by their digits, (…, n), the most significant first -> (…, n + 1).

    As on paper, so that no number is too long for an integer.
    """
    digits, carry = [], torch.zeros_like(a[..., 0])
    for place in reversed(range(a.shape[-1])):
        total = a[..., place] + b[..., place] + carry
        digits.append(total % 10)
        carry = total // 10
    return torch.stack((carry, *reversed(digits)), -1)


def text(tokens: Tensor) -> str:
    """Tokens (T,) as they are read; those of (count, T) one to a line."""
    if tokens.ndim > 1:
        return "\n".join(text(row) for row in tokens)
    return "".join(SYMBOLS[token] for token in tokens.tolist())
