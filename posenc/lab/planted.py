"""Repetitions that are planted in text: they show whether a model uses what stands far before.

A *copy* is a random string that occurs twice. After its first bytes, the rest of the second one can be known from the
first one only. A *key* is five digits after an opening that is always the same, as in passkey retrieval (Mohtashami and
Jaggi, 2023). In training the two occurrences lie within the training length.
"""

import torch
from torch import Tensor

KINDS = ("copy", "key")
LENGTH = 12  # bytes of a string
OPENING, END = b"\n#key:", b"\n"
CUE = {"copy": 3, "key": len(OPENING)}
"""The number of bytes of a string after which the rest follows from an earlier occurrence."""
STOP = {"copy": LENGTH, "key": LENGTH - len(END)}
"""Where the part that follows ends."""
SYMBOLS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
DIGITS = b"0123456789"


def strings(kind: str, count: int, generator: torch.Generator) -> Tensor:
    """Draws strings to plant.

    Args:
        kind: "copy" or "key".
        count: The number of strings.
        generator: A generator on the CPU.

    Returns:
        Bytes (count, LENGTH), int64.

    Example:
        >>> bytes(strings("key", 1, torch.Generator().manual_seed(0))[0].tolist())
        b'\\n#key:73731\\n'
    """
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}: use one of {', '.join(KINDS)}")
    symbols = torch.tensor(list(SYMBOLS if kind == "copy" else DIGITS))
    out = symbols[torch.randint(len(symbols), (count, LENGTH), generator=generator)]
    if kind == "key":
        out[:, : len(OPENING)] = torch.tensor(list(OPENING))
        out[:, -len(END) :] = torch.tensor(list(END))
    return out


def put(tokens: Tensor, string: Tensor, at: Tensor) -> Tensor:
    """Tokens (B, T) with a string (B, LENGTH) in each row, in place of what stands at `at` (B,) and after it."""
    return tokens.scatter(1, at[:, None] + torch.arange(LENGTH), string)


def plant(tokens: Tensor, share: float, farthest: int, generator: torch.Generator) -> Tensor:
    """Plants a string twice in some rows of a batch, a copy in half of them and a key in the other half.

    Args:
        tokens: Bytes (B, T), int64, on the CPU.
        share: The probability that a row gets a string.
        farthest: The largest distance between the first bytes of both occurrences, LENGTH to T - LENGTH. All
            distances from LENGTH on are equally likely, and so are all places.
        generator: A generator on the CPU.

    Returns:
        Bytes (B, T). Other rows are as they were.

    Raises:
        ValueError: If two strings do not fit.
    """
    count, length = tokens.shape
    if not LENGTH <= farthest <= length - LENGTH:
        raise ValueError(
            f"farthest is {farthest}: two strings of {LENGTH} bytes in {length} lie {LENGTH} to {length - LENGTH} apart"
        )
    chosen, kind, apart, place = torch.rand(4, count, generator=generator)
    copies, keys = (strings(each, count, generator) for each in KINDS)
    string = torch.where((kind < 0.5)[:, None], copies, keys)
    distance = LENGTH + (apart * (farthest - LENGTH + 1)).long()
    first = (place * (length - LENGTH - distance + 1)).long()
    planted = put(put(tokens, string, first), string, first + distance)
    return planted.where((chosen < share)[:, None], tokens)


def periodic(tokens: Tensor, share: float, longest: int, generator: torch.Generator) -> Tensor:
    """Replaces some rows of a batch by a random string that is repeated to the end of the row.

    A model that copies from the string before predicts all of such a row but its first period. That is a far stronger
    reason to learn it than a string that occurs twice in a text.

    Args:
        tokens: Bytes (B, T), int64, on the CPU.
        share: The probability that a row is replaced.
        longest: The longest period. All periods from LENGTH on are equally likely.
        generator: A generator on the CPU.

    Returns:
        Bytes (B, T). Other rows are as they were.

    Raises:
        ValueError: If `longest` is less than LENGTH.

    Example:
        >>> row = periodic(torch.zeros(1, 60, dtype=torch.long), 1.0, 12, torch.Generator().manual_seed(0))[0]
        >>> bytes(row[:12].tolist()), bool((row[12:] == row[:-12]).all())
        (b'1AD7DnJTVykX', True)
    """
    if longest < LENGTH:
        raise ValueError(f"longest is {longest}: use {LENGTH} or more, the length of strings that are looked for")
    count, length = tokens.shape
    chosen = torch.rand(count, 1, generator=generator) < share
    period = torch.randint(LENGTH, longest + 1, (count, 1), generator=generator)
    symbols = torch.tensor(list(SYMBOLS))[torch.randint(len(SYMBOLS), (count, length), generator=generator)]
    return symbols.gather(1, torch.arange(length) % period).where(chosen, tokens)


def pair(text: Tensor, kind: str, generator: torch.Generator) -> tuple[Tensor, Tensor, slice]:
    """The same text with a string at its end that occurs at its beginning, and with one that does not.

    Args:
        text: Bytes (B, T), int64; the string at the beginning comes after LENGTH bytes of text.
        kind: "copy" or "key".
        generator: A generator on the CPU.

    Returns:
        Bytes (B, T) in which both strings are equal, bytes (B, T) in which the first one is another, and the places
        of the bytes that follow from the first one where they are equal.
    """
    count, length = text.shape
    string, other = strings(kind, count, generator), strings(kind, count, generator)
    first, last = (torch.full((count,), place) for place in (LENGTH, length - LENGTH))
    text = put(text, string, last)
    return (
        put(text, string, first),
        put(text, other, first),
        slice(length - LENGTH + CUE[kind], length - LENGTH + STOP[kind]),
    )
