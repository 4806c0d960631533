"""What a model gets out of far context: gains from planted strings, and losses with the far keys hidden.

A loss that does not rise beyond the training length does not show that a model uses what lies there. Here a part of a
text can be known from a far place only, or a far place is taken away.
"""

import dataclasses

import torch
from torch import Tensor

from posenc.lab import corpus
from posenc.lab.evaluation import Entry, refusal, window_losses
from posenc.lab.planted import KINDS, LENGTH, pair
from posenc.transformer.model import Transformer

INSIDE, BEYOND = (1 / 8, 1 / 2, 3 / 4), (1, 2, 4, 16)
"""Distances of planted strings, as multiples of the training length; the first ones lie within it, as in training."""


def recalled(
    model: Transformer, held_out: Tensor, trained: int, *, memory: bool = False, windows: int = 64
) -> list[Entry]:
    """How much better a string is predicted if it occurred before, for each kind of string and each distance.

    Args:
        model: A model of bytes.
        held_out: Text (N,), uint8, that strings are planted in.
        trained: The training length L, at least 3 · LENGTH.
        memory: Stream the text with a memory of L (Transformer-XL). Default: False.
        windows: The number of texts. Default: 64.

    Returns:
        A list of dicts for JSON with `kind`, `distance` in bytes, and for each text `gains`, the loss in nats per byte
        where the earlier string was another, less the loss where it was the same, and `chances`, the probability of
        all bytes that follow from the earlier string. Where the model cannot serve the length, `why` has the reason.

    Raises:
        ValueError: If the text or the training length is too short.

    Example:
        >>> text = torch.randint(97, 123, (5000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        >>> found = recalled(Transformer(256, layers=1, model_dim=32), text, trained=64, windows=2)
        >>> found[0]["kind"], found[0]["distance"], len(found[0]["gains"])
        ('copy', 12, 2)
    """
    if trained < 3 * LENGTH:
        raise ValueError(f"trained is {trained}: two strings of {LENGTH} bytes need windows of {3 * LENGTH} or more")
    entries: list[Entry] = []
    for kind in KINDS:
        inside = (min(max(LENGTH, round(share * trained)), trained - 2 * LENGTH) for share in INSIDE)
        for distance in (*inside, *(share * trained for share in BEYOND)):
            about: Entry = {"kind": kind, "distance": distance}
            text = corpus.regions(held_out, distance + LENGTH, LENGTH - 1, windows)
            if why := refusal(model, text.shape[1] - 1):
                entries.append({**about, "gains": None, "chances": None, "why": why})
                continue
            same, other, answer = pair(text, kind, torch.Generator().manual_seed(distance))
            after = slice(answer.start - 1, answer.stop - 1)  # the first token has no loss
            with_it, without = (_losses(model, each, trained, memory)[:, after] for each in (same, other))
            gains, chances = (without - with_it).mean(1), (-with_it.sum(1)).exp()
            entries.append({**about, "gains": gains.tolist(), "chances": chances.tolist()})
    return entries


def hidden(model: Transformer, spans: Tensor, trained: int, lengths: list[int]) -> list[Entry]:
    """Losses in windows that do not overlap, with all keys hidden that are the training length or more back.

    A model of several layers still sees further than that, a window for each layer.

    Args:
        model: A model of bytes.
        spans: Token ids (R, S + 1).
        trained: The training length.
        lengths: Lengths of windows, divisors of S.

    Returns:
        A list of dicts for JSON with `length` and `texts`, the mean loss of each span in nats.
    """
    whole, model.config = model.config, dataclasses.replace(model.config, window=trained)
    try:
        return [{"length": length, **_texts(model, spans, trained, length)} for length in lengths]
    finally:
        model.config = whole


def _texts(model: Transformer, spans: Tensor, trained: int, length: int) -> Entry:
    if why := refusal(model, length):
        return {"texts": None, "why": why}
    windows = spans.unfold(1, length + 1, length).flatten(0, 1)
    losses_of_windows = window_losses(model, windows, _segment(model, trained), trained)  # nothing further back is seen
    return {"texts": losses_of_windows.view(len(spans), -1).mean(1).tolist()}


def _losses(model: Transformer, windows: Tensor, trained: int, memory: bool) -> Tensor:
    return window_losses(model, windows, _segment(model, trained), trained if memory else None)


def _segment(model: Transformer, trained: int) -> int | None:
    """How much text a call takes; all of it if keys depend on all of it."""
    return None if any(encoding.raw_keys for encoding in model.encodings) else trained
