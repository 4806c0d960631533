"""Tasks of any length: a model is trained on short words and asked about longer ones.

A sequence is a question and its answer, such as ⟨copy bad=bad⟩. All tasks share one vocabulary. Task and length fix the
number of tokens, so a batch needs no padding.
"""

import torch
from torch import Tensor

TASKS = ("copy", "reverse", "addition", "recall")
DIGITS, LETTERS, KEYS = 10, 16, 64  # how many there are of each
QUERIES = 8
"""The number of keys for which `recall` is asked; all keys if there are fewer pairs."""

BOS, EOS, SEP, PLUS = range(4)
TASK = 4  # the symbol of the first task
DIGIT = TASK + len(TASKS)  # the digit 0
LETTER = DIGIT + DIGITS  # the letter a
KEY = LETTER + LETTERS  # the key A1
VOCABULARY = KEY + KEYS
"""The number of tokens, which are in `SYMBOLS` in this order."""

SYMBOLS = ("⟨", "⟩", "=", "+", *(f"{task} " for task in TASKS), *"0123456789", *"abcdefghijklmnop",
           *(f" {column}{row}" for column in "ABCDEFGH" for row in range(1, 9)))  # fmt: skip


def sample(task: str, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws sequences of a task, all of the same length.

    In these examples the answer is the part after the equals sign:

        copy      ⟨copy bad=bad⟩                     the word, of `length` letters, and the end
        reverse   ⟨reverse bad=dab⟩                  the word backwards, and the end
        addition  ⟨addition 905+107=2101⟩            the sum backwards, of length + 1 digits, and the end
        recall    ⟨recall H7b A4c D1b= D1b H7b A4c   the values of the keys that are asked for

    Numbers are padded with zeros and begin with the most significant digit. A sum begins with the least significant
    one, as on paper, so that each carry is known before it is needed (Lee et al., 2024). The keys of recall are all
    different, and it has no end sign.

    Exact match needs one forward pass: with the correct tokens before them, all most likely tokens are right if and
    only if greedy decoding produces the answer. This does not hold for the share of right tokens.

    Args:
        task: A name in `TASKS`.
        length: Letters, digits or pairs.
        count: The number of sequences.
        generator: Draws the sequences, on its device.

    Returns:
        Token ids (count, T), and a mask (count, T) that is True at the tokens to predict.

    Raises:
        ValueError: If there is no such task, or it has no sequences of that length or count.

    Example:
        >>> tokens, answer = sample("reverse", 3, 1, torch.Generator().manual_seed(0))
        >>> text(tokens[0]), text(tokens[0, answer[0]])
        ('⟨reverse mpf=fpm⟩', 'fpm⟩')
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
    """The digits (…, n + 1) of the sum of two numbers with digits (…, n), the most significant first.

    Digits are added as on paper, so no number is too long for an integer.
    """
    digits, carry = [], torch.zeros_like(a[..., 0])
    for place in reversed(range(a.shape[-1])):
        total = a[..., place] + b[..., place] + carry
        digits.append(total % 10)
        carry = total // 10
    return torch.stack((carry, *reversed(digits)), -1)


def coupled(length: int) -> Tensor:
    """Positions for an addition in which digits that belong together share one.

    Digits of the same place, counted from the least significant, have the same position in both numbers, and so has
    the token from which this place of the sum is predicted (position coupling, Cho et al., 2024). What is needed is
    then at offset 0 or 1, however long the numbers are.

    Args:
        length: The number of digits.

    Returns:
        Positions (3 · length + 6,), int64, of the tokens that `sample` draws.

    Example:
        >>> coupled(3).tolist()  # of the tokens ⟨ addition 9 0 5 + 1 0 7 = 2 1 0 1 ⟩
        [4, 4, 3, 2, 1, 0, 3, 2, 1, 1, 2, 3, 4, 5, 6]
    """
    if length < 1:
        raise ValueError(f"length is {length}: use 1 digit or more")
    places = torch.arange(length, 0, -1)
    begin, plus, sum_ = torch.full((2,), length + 1), torch.zeros(1, dtype=torch.long), torch.arange(1, length + 4)
    return torch.cat([begin, places, plus, places, sum_])


def text(tokens: Tensor) -> str:
    """Tokens (T,) as text; tokens (count, T) give one line for each sequence."""
    if tokens.ndim > 1:
        return "\n".join(text(row) for row in tokens)
    return "".join(SYMBOLS[token] for token in tokens.tolist())
