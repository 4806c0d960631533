"""Measurements of a trained model: losses far beyond its training length, answers and attention.

A loss is the cross-entropy of the next token, in nats. Windows that do not overlap and windows that slide score the
same tokens, but a sliding window has more tokens before each of them: the difference is the curse of early tokens
(Press et al., 2022, appendix B). If a model cannot serve a length, the result has the reason instead of a loss.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from posenc.lab import corpus, tasks
from posenc.transformer.memory import Memory
from posenc.transformer.model import Transformer

PAIRS = {"cpu": 2**20, "cuda": 2**26}  # of a query and a key, in all sequences that are computed at once
QUARTERS = 4  # windows slide by a quarter of their length
WATCHED = 4  # sequences whose attention is measured

Entry = dict[str, Any]


# Losses


def losses(
    model: nn.Module,
    tokens: Tensor,
    *,
    memory: Memory | None = None,
    segment: int | None = None,
    autocast: bool = False,
) -> Tensor:
    """The loss of each token except the first, without gradients and dropout.

    Args:
        model: A language model, called as `model(tokens)` or `model(tokens, memory=memory)`.
        tokens: Token ids (B, T + 1).
        memory: A memory that holds earlier tokens; the new ones are added to it. Default: none.
        segment: The number of tokens in one call. Each segment sees all tokens before it, as in a single pass, but
            needs less memory. Default: all at once.
        autocast: Compute in bfloat16. Default: False.

    Returns:
        Losses in nats, (B, T), float32.

    Raises:
        ValueError: If there are fewer than two tokens, or `segment` is less than 1.
    """
    if tokens.ndim != 2 or tokens.shape[1] < 2:
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: use (B, T + 1), at least 2 in a row")
    if segment is not None and segment < 1:
        raise ValueError(f"segment is {segment}: use 1 or more, or None for all at once")
    length = tokens.shape[1] - 1
    memory = Memory(length) if memory is None and segment is not None else memory
    parts = []
    with _measuring(model, autocast) as device:
        tokens = tokens.to(device)
        for start in range(0, length, segment or length):
            piece = tokens[:, start : start + (segment or length) + 1]
            logits = model(piece[:, :-1]) if memory is None else model(piece[:, :-1], memory=memory)
            loss = cross_entropy(logits.flatten(0, 1).float(), piece[:, 1:].flatten(), reduction="none")
            parts.append(loss.view(len(tokens), -1))
    return torch.cat(parts, 1)


def nonoverlapping(model: nn.Module, spans: Tensor, length: int, *, segment: int | None = None) -> float:
    """The mean loss if text is cut into windows that do not overlap.

    Each token is predicted once, from the 1 to `length` tokens before it in its window: half a window on average.

    Args:
        model: A language model.
        spans: Token ids (R, S + 1).
        length: The length of a window, a divisor of S.
        segment: The number of tokens in one call. Default: all at once.

    Returns:
        The mean loss in nats over R · S tokens.

    Raises:
        ValueError: If `length` does not divide S.
    """
    return cut_losses(model, spans, length, segment).mean().item()


def sliding(
    model: nn.Module,
    regions: Tensor,
    length: int,
    stride: int,
    context: int,
    *,
    memory: bool = False,
    segment: int | None = None,
) -> float:
    """The mean loss if a window moves by `stride` tokens, and only the new tokens are predicted.

    The predicted tokens are the same as those of `nonoverlapping(model, regions[:, context:], length)`, but each has
    at least `length - stride` tokens before it.

    Args:
        model: A language model.
        regions: Token ids (R, context + S + 1). The last S tokens of each row are predicted.
        length: The length of the window.
        stride: The step of the window, a divisor of S.
        context: Tokens before the first predicted one, at least `length - stride`.
        memory: Stream the text through the model by `stride` tokens, or by `segment` if that is shorter; a memory
            holds the rest of the window. Default: False.
        segment: The number of tokens in one call. Default: all at once.

    Returns:
        The mean loss in nats over R · S tokens.

    Raises:
        ValueError: If the numbers do not fit together.
    """
    return _slid(model, regions, length, stride, context, memory, segment).mean().item()


def cut_losses(
    model: nn.Module, spans: Tensor, length: int, segment: int | None = None, autocast: bool = False
) -> Tensor:
    """Losses (R, S) of windows that do not overlap."""
    return _slid(model, spans, length, length, 0, False, segment, autocast)


def _slid(
    model: nn.Module,
    regions: Tensor,
    length: int,
    stride: int,
    context: int,
    memory: bool,
    segment: int | None,
    autocast: bool = False,
) -> Tensor:
    """Losses (R, S) of windows that slide."""
    span, before = regions.shape[1] - 1 - context, length - stride
    if not 0 < stride <= length:
        raise ValueError(f"stride is {stride}: use 1 to {length}, the length of the window")
    if span < stride or span % stride:
        raise ValueError(f"{span} tokens are no whole number of steps of {stride}: use a multiple, such as {stride}")
    if context < before:
        raise ValueError(f"context is {context}, but windows of {length} see {before} before their {stride}: use that")
    if memory:
        piece = min(stride, segment or stride)
        stream = regions[:, context % piece :]  # whole segments up to the first token that is scored
        return window_losses(model, stream, piece, length - piece, autocast)[:, -span:]
    windows = regions[:, context - before :].unfold(1, length + 1, stride).flatten(0, 1)  # (R · S/stride, length + 1)
    return window_losses(model, windows, segment, None, autocast)[:, before:].reshape(len(regions), span)


def window_losses(
    model: nn.Module, windows: Tensor, segment: int | None = None, memory: int | None = None, autocast: bool = False
) -> Tensor:
    """Losses (R, T) of many windows (R, T + 1), float64 on the CPU, computed a few at a time to save memory.

    Entry p of a row has p + 1 tokens before the predicted one.
    """
    length, device = windows.shape[1] - 1, next(model.parameters()).device
    piece = segment or length
    keys = length if memory is None else min(length, memory + piece)
    rows = max(1, PAIRS.get(device.type, PAIRS["cpu"]) // max(1, keys * piece))
    parts = [
        losses(model, part, memory=None if memory is None else Memory(memory), segment=segment, autocast=autocast).cpu()
        for part in windows.split(rows)
    ]
    return torch.cat(parts).double()


# Extrapolation: train short, test long


def extrapolation(
    model: Transformer,
    held_out: Tensor,
    trained: int,
    *,
    memory: bool = False,
    windows: int = 32,
    slid: int = 4,
    longest: int = 16,
    autocast: bool = False,
) -> Entry:
    """Losses on texts of 1, 2, 4, … and `longest` times the training length.

    Args:
        model: A model of bytes.
        held_out: Text (N,), uint8.
        trained: The training length, a multiple of 4.
        memory: Stream the text with a memory (Transformer-XL) where windows slide. Default: False.
        windows: The number of spans of `longest * trained` tokens. Default: 32.
        slid: The number of these spans over which windows also slide, by a quarter of their length. Default: 4.
        longest: A power of two. Default: 16.
        autocast: Compute in bfloat16. Default: False.

    Returns:
        A dict for JSON with four lists. `by_position` has losses at positions `from` … `to` - 1, where position p has
        p + 1 tokens before the predicted one. `nonoverlapping` has the loss of all spans for each length. `sliding`
        has the loss of sliding windows for each length, and as `nonoverlapping` the loss of the same tokens in
        windows that do not slide. Both have the mean of each span in `texts`. `attention` has mean distance and
        entropy, (layers, heads), for each length. If the model cannot serve a length, or a loss is not finite, the
        entry is None and `why` has the reason.

    Raises:
        ValueError: If the text is too short, or the numbers do not fit together.
    """
    if trained < 1 or trained % QUARTERS:
        raise ValueError(f"trained is {trained}: use a multiple of {QUARTERS}, since windows slide by a quarter")
    if longest < 1 or longest & (longest - 1):
        raise ValueError(f"longest is {longest}: use a power of two, since lengths are doubled up to it")
    if not 1 <= slid <= windows:
        raise ValueError(f"slid is {slid}: use 1 to {windows}, some of the windows")
    lengths = [trained * 2**n for n in range(longest.bit_length())]
    context = lengths[-1] - lengths[-1] // QUARTERS
    text = corpus.regions(held_out, lengths[-1], context, windows)
    some = torch.arange(slid) * windows // slid
    whole = any(encoding.raw_keys for encoding in model.encodings)  # keys depend on all of the text
    segment = None if whole else trained
    refused = {length: refusal(model, length) for length in lengths}
    in_stream = refusal(model, text.shape[1] - 1) if memory else None  # positions go on in a stream
    measured = {
        length: cut_losses(model, text[:, context:], length, segment, autocast)  # (R, S)
        for length in lengths
        if not refused[length]
    }

    def cut(length: int) -> Entry:
        if why := refused[length]:
            return _unserved(why, length=length)
        return _of_texts(measured[length], length=length)

    def slides(length: int) -> Entry:
        stride, served = length // QUARTERS, length in measured
        about = {
            "length": length,
            "stride": stride,
            "nonoverlapping": _entry(measured[length][some])["loss"] if served else None,
        }
        if why := refused[length] or in_stream:
            return _unserved(why, **about)
        return _of_texts(_slid(model, text[some], length, stride, context, memory, segment, autocast), **about)

    def attention(length: int) -> Entry:
        if why := refused[length]:
            return {"length": length, "distance": None, "entropy": None, "why": why}
        part = text[some][:WATCHED, context : context + length]
        watched = attention_of(model, part, segment)
        if not bool(watched.isfinite().all()):
            why = "the weights are not finite numbers"
            return {"length": length, "distance": None, "entropy": None, "why": why}
        distance, entropy = watched.tolist()
        return {"length": length, "distance": distance, "entropy": entropy}

    served = max(measured, default=0)  # the longest windows that the model can serve
    placed = measured[served].view(-1, served) if served else text.new_empty(0, 0)
    why = refused[lengths[-1]] or ""
    positions = [
        _entry(placed[:, a:b], **{"from": a, "to": b}) if b <= served else _unserved(why, **{"from": a, "to": b})
        for a, b in bins(trained, lengths[-1])
    ]
    return {
        "trained": trained,
        "memory": memory,
        "windows": windows,
        "slid": slid,
        "by_position": positions,
        "nonoverlapping": [cut(length) for length in lengths],
        "sliding": [slides(length) for length in lengths],
        "attention": [attention(length) for length in lengths],
    }


def bins(trained: int, longest: int) -> list[tuple[int, int]]:
    """Ranges of positions (from, to): 8 up to the training length, and 8 for each doubling."""
    doublings = (longest // trained).bit_length() - 1
    edges = {trained * n // 8 for n in range(9)} | {round(trained * 2 ** (n / 8)) for n in range(8 * doublings + 1)}
    return list(pairwise(sorted(edges)))


def _entry(losses: Tensor, **about: Any) -> Entry:
    """The mean of losses, and their number."""
    loss = losses.mean().item()
    if not math.isfinite(loss):
        return _unserved("the loss is not a finite number", **about)
    return {**about, "tokens": losses.numel(), "loss": loss}


def _of_texts(losses: Tensor, **about: Any) -> Entry:
    """The mean of losses (R, S), their number, and the mean of each text."""
    entry = _entry(losses, **about)
    return entry if entry["loss"] is None else {**entry, "texts": losses.mean(1).tolist()}


def _unserved(why: str, **about: Any) -> Entry:
    return {**about, "loss": None, "why": why}


def refusal(model: nn.Module, length: int) -> str | None:
    """The model's reason if it cannot serve a text of this length. An error at any length is raised, not returned."""
    with _measuring(model) as device:
        token = torch.zeros(1, 1, dtype=torch.long, device=device)
        model(token, torch.zeros(1, dtype=torch.long, device=device))
        try:
            model(token, torch.full((1,), length - 1, device=device))
        except ValueError as error:
            return _first_sentence(error)
    return None


def _first_sentence(error: Exception) -> str:
    return str(error).split(";")[0].split(". ")[0]


# Tasks


def accuracy(
    model: nn.Module,
    task: str,
    length: int,
    count: int,
    generator: torch.Generator,
    *,
    coupled: bool = False,
    autocast: bool = False,
) -> Entry:
    """The share of answers without a mistake, and the share of right tokens.

    A token is right if it is the most likely one, given the correct tokens before it.

    Args:
        model: A model of `VOCABULARY` tokens.
        task: A name in `TASKS`.
        length: Letters, digits or pairs.
        count: The number of sequences.
        generator: Draws the sequences.
        coupled: Digits of an addition that belong together share a position. Default: False.
        autocast: Compute in bfloat16. Default: False.

    Returns:
        A dict with `length`, `count`, `exact`, `unended` (exact but for the sign that ends the answer) and `tokens`.
        The last three are None if the model cannot serve the length, and `why` has the reason.

    Raises:
        ValueError: If there is no such task, or it has no sequences of that length.
    """
    tokens, answer = tasks.sample(task, length, count, generator)
    answer = answer[:, 1:].cpu()
    if why := refusal(model, answer.shape[1]):
        return {"length": length, "count": count, "exact": None, "unended": None, "tokens": None, "why": why}
    with _measuring(model, autocast) as device:
        rows = max(1, PAIRS.get(device.type, PAIRS["cpu"]) // answer.shape[1] ** 2)
        pos = tasks.coupled(length)[:-1].to(device) if coupled else None
        likeliest = torch.cat([model(part[:, :-1].to(device), pos).argmax(-1).cpu() for part in tokens.split(rows)])
    asked = tokens[:, 1:].cpu()
    right = likeliest == asked
    exact, unended = ((right | ~of).all(1).float().mean().item() for of in (answer, answer & (asked != tasks.EOS)))
    share = right[answer].float().mean().item()
    return {"length": length, "count": count, "exact": exact, "unended": unended, "tokens": share}


def generalisation(
    model: nn.Module,
    task: str,
    trained: int,
    *,
    longest: int = 4,
    count: int = 128,
    coupled: bool = False,
    autocast: bool = False,
) -> list[Entry]:
    """The accuracy at lengths from a quarter of the training length up to `longest` times the training length.

    All models are asked the same questions. Recall ends at the number of its keys.

    Args:
        model: A model of `VOCABULARY` tokens.
        task: A name in `TASKS`.
        trained: The longest training length.
        longest: The longest length as a multiple of `trained`. Default: 4.
        count: Sequences of each length. Default: 128.
        coupled: Digits of an addition that belong together share a position. Default: False.
        autocast: Compute in bfloat16. Default: False.

    Returns:
        A list of the results of `accuracy`.
    """
    step = max(1, trained // 4)
    lengths = [n for n in range(step, longest * trained + 1, step) if task != "recall" or n <= tasks.KEYS]
    how = {"coupled": coupled, "autocast": autocast}
    return [accuracy(model, task, n, count, torch.Generator().manual_seed(n), **how) for n in lengths]


# Attention


def attention_of(model: Transformer, tokens: Tensor, segment: int | None = None) -> Tensor:
    """To which distance a head attends, Σ_j α_ij (i - j), and the entropy of its weights, -Σ_j α_ij ln α_ij.

    Both are means over the queries of the last quarter of each text. Uniform attention has a distance of i / 2 and an
    entropy of ln(i + 1).

    Args:
        model: A causal model.
        tokens: Token ids (B, L).
        segment: The number of tokens in one call. Default: all at once.

    Returns:
        (2, layers, heads): distances in positions, and entropies in nats.
    """
    start = tokens.shape[1] - math.ceil(tokens.shape[1] / 4)
    seen: list[Tensor] = []  # (2, layers, heads, queries) of each piece
    with _measuring(model) as device:
        memory = Memory(tokens.shape[1])
        for piece in tokens.to(device).split(segment or tokens.shape[1], 1):
            qpos = len(memory) + torch.arange(piece.shape[1], device=device)
            _, weights = model(piece, memory=memory, return_weights=True)
            late = qpos >= start
            offset = qpos[late, None] - torch.arange(len(memory), device=device)
            rows = [w[:, :, late] for w in weights]
            layers = [torch.stack([(w * offset).sum(-1), torch.special.entr(w).sum(-1)]) for w in rows]
            seen.append(torch.stack(layers, 1).transpose(2, 3).flatten(3))
    return torch.cat(seen, -1).mean(-1).cpu()


# Of all of them


@contextmanager
def _measuring(model: nn.Module, autocast: bool = False) -> Iterator[torch.device]:
    """Runs a block without gradients and dropout, and restores the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    device = next(model.parameters()).device
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            yield device
    finally:
        for module, training in modes:
            module.training = training
