"""What a language model counts behind a picture: time, rows and columns, and where text goes on."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import Tensor

from posenc.audit.adapters.protocol import Refused
from posenc.audit.silence import quiet
from posenc.audit.verdict import Finding, Verdict

NAME, QUESTION = "image.places", "a picture before the text: are rows and columns counted, and where does text go on?"
AXES = ("time", "rows", "columns")


def places(adapter: Any, tokens: Tensor) -> Finding:
    """The row of a report about the positions behind a picture.

    Args:
        adapter: Has `coordinates`, `first` (the picture's first row), `size` in tokens (t, h, w), `merge` and `kind`.
        tokens: A text, (1, L).
    """
    try:
        with quiet(io.StringIO()):
            found = adapter.coordinates(tokens)
    except Refused as refusal:
        return Finding(NAME, QUESTION, Verdict.NOT_APPLICABLE, None, f"{str(refusal)[:1].upper()}{str(refusal)[1:]}.")
    verdict, cause, look = judged(found.long(), adapter.first, adapter.size, adapter.merge, adapter.kind)
    return Finding(NAME, QUESTION, verdict, None, cause, look)


def judged(
    found: Tensor, first: int, size: tuple[int, int, int], merge: int = 1, kind: str = "image"
) -> tuple[Verdict, str, str]:
    """What positions (3, L) mean, where a picture's tokens begin at row `first`.

    Example:
        >>> from posenc.schemes.grid import mrope_positions
        >>> judged(mrope_positions([2, (1, 2, 3), 4]).T, 2, (1, 2, 3))[0].value
        'pass'
    """
    t, h, w = size
    n = t * h * w
    picture, after = found[:, first : first + n], found[:, first + n :]
    start = int(found[:, :first].max()) + 1 if first else 0
    p = torch.arange(n)
    wanted = torch.stack((p // w % h, p % w))
    rows, columns = (each - start for each in picture[1:])
    look = "where positions of a picture are made from its grid: meshgrid (indexing), and the merged sizes of h and w"
    for said, r, c in (
        ("Rows and columns are exchanged", wanted[1], wanted[0]),
        (f"Rows and columns are counted in patches, and {merge} by {merge} of them are one token",
         merge * wanted[0], merge * wanted[1]),
        ("Columns are counted first", p % h, p // h % w),
    ):  # fmt: skip
        if torch.equal(rows, r) and torch.equal(columns, c) and not torch.equal(torch.stack((r, c)), wanted):
            return Verdict.FAILS, f"{said}.", look
    if not torch.equal(torch.stack((rows, columns)), wanted):
        return Verdict.PROPERTY, f"Places of the {kind} are not counted by rows and columns from its first token.", ""
    largest, begins = picture.amax(1), int(after[:, 0].max())
    longest = int(largest.argmax())
    last = int(largest[longest])
    tells = f"the {kind}'s largest coordinate is {last} ({AXES[longest]})"
    where = "from which number text goes on: one after the largest coordinate, of time as well"
    if begins == last + 1:
        return Verdict.PASS, f"Rows and columns are counted, and text goes on at {begins}, one after the largest.", ""
    if begins <= last:
        return Verdict.FAILS, f"Text goes on at {begins}, inside the {kind}: {tells}.", where
    if begins == start + n:
        return Verdict.FAILS, f"Text goes on at {begins}, as if each token of the {kind} had a number; {tells}.", where
    if merge > 1 and begins == start + merge * max(h, w):
        return Verdict.FAILS, f"Text goes on at {begins}, as if patches were not merged; {tells}.", where
    return Verdict.PROPERTY, f"Text goes on at {begins}, and leaves a gap: {tells}.", ""
