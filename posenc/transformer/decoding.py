"""Generating text: one token at a time, from a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc._attention.cache import KVCache
from posenc.transformer.memory import following

if TYPE_CHECKING:
    from posenc.transformer.model import Transformer


@torch.no_grad()
def generate(
    model: Transformer, tokens: Tensor, count: int, *, temperature: float = 0.0, top_k: int | None = None,
    top_p: float | None = None, generator: torch.Generator | None = None, padding_mask: Tensor | None = None,
    cache: list[KVCache] | None = None, eos: int | None = None, chunk: int | None = None,
) -> Tensor:  # fmt: skip
    """Continues tokens (B, L) by `count` tokens, one at a time, each from a cache.

    Args:
        model: A decoder.
        tokens: (B, L), the prompts; each has a real token.
        count: How many tokens to add.
        temperature: As for `sample`; 0 takes the likeliest. Default: 0.0.
        top_k: As for `sample`.
        top_p: As for `sample`.
        generator: The generator of the random numbers.
        padding_mask: bool (B, L), True for real tokens: shorter prompts are padded, on either side.
        cache: Goes on from what it holds; the last token that is returned is not in it yet.
        eos: The token that ends a text; after it comes nothing but `eos`.
        chunk: How many tokens of the prompt go in at a time. Default: all at once.

    Returns:
        (B, L + count).

    Raises:
        ValueError: If an input does not fit, or an encoding has too few positions, before anything is computed.

    Example:
        >>> from posenc import Transformer
        >>> Transformer(11, layers=1).generate(torch.tensor([[3, 1, 4]]), count=5).shape
        torch.Size([1, 8])
    """
    _check_generation(model, tokens, count, padding_mask, chunk)
    mask = padding_mask
    cache = model.cache() if cache is None else cache
    prompt = tokens
    if mask is not None:  # real tokens go last, where the next one follows them
        order = mask.int().argsort(dim=-1, stable=True)
        prompt, mask = tokens.gather(1, order), mask.gather(1, order)
    added = tokens.new_full((len(tokens), count), 0 if eos is None else eos)
    running = torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
    last = (torch.ones_like(prompt) if mask is None else mask).sum(-1, keepdim=True) - 1 + max(0, count - 1)  # (B, 1)
    if (start := following(cache[0].positions)) is not None:
        last = last + start
    step, training = chunk or prompt.shape[1], model.training
    model.eval()
    try:
        model(tokens[:1, :1], last.amax()[None])  # an encoding that has no such position says so now
        for n in range(0, prompt.shape[1], step):
            real = None if mask is None else mask[:, n : n + step]
            logits = model(prompt[:, n : n + step], padding_mask=real, cache=cache)[:, -1]
        for n in range(count):
            token = sample(logits, temperature, top_k=top_k, top_p=top_p, generator=generator)
            added[:, n] = token.where(running, added[:, n])
            running = running if eos is None else running & (token != eos)
            if n == count - 1 or not running.any():
                break
            logits = model(added[:, n : n + 1], cache=cache)[:, -1]
    finally:
        model.train(training)
    return torch.cat((tokens, added), 1)


def sample(
    logits: Tensor, temperature: float = 1.0, *, top_k: int | None = None, top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draws a token for each row of logits.

    Args:
        logits: (B, V).
        temperature: Divides logits; 0 takes the likeliest. Default: 1.0.
        top_k: Only so many of the likeliest are drawn. Default: all.
        top_p: Of these, only the fewest that together have this probability. Default: all.
        generator: The generator of the random numbers.

    Returns:
        (B,), int64.

    Raises:
        ValueError: For a temperature below 0, top_k below 1, or top_p outside (0, 1].

    Example:
        >>> from posenc.transformer.decoding import sample
        >>> sample(torch.tensor([[0.0, 2.0, 1.0]]), temperature=0)
        tensor([1])
    """
    _check_sampling(temperature, top_k, top_p)
    if temperature == 0:
        return logits.argmax(-1)
    logits, token = (logits.float() / temperature).sort(-1, descending=True)
    weight, token = logits[:, :top_k].softmax(-1), token[:, :top_k]
    if top_p is not None:
        weight = weight.masked_fill(weight.cumsum(-1) - weight >= top_p, 0.0)
    return token.gather(-1, torch.multinomial(weight, 1, generator=generator))[:, 0]


def _check_generation(
    model: Transformer, tokens: Tensor, count: int, padding_mask: Tensor | None, chunk: int | None
) -> None:
    """There is a next token, and something to compute it from."""
    if not model.config.causal:
        raise ValueError("causal=False, so there is no next token to generate: make the model with causal=True")
    model.check_input(tokens, padding_mask)
    if count < 0:
        raise ValueError(f"count is {count}: use how many tokens to add")
    if tokens.numel() == 0 or (padding_mask is not None and not bool(padding_mask.any(-1).all())):
        raise ValueError(
            "each sequence needs a real token to go on from: begin it with one, such as a token that means start, "
            "and use a padding_mask (B, L)"
        )
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}: use 1 or more tokens, or None for all of the prompt at once")


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """A temperature is not negative, and at least one token is left to draw."""
    if not temperature >= 0:
        raise ValueError(f"temperature is {temperature}: use a positive number, or 0 for the likeliest token")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}: use 1 or more tokens, or None for all")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}: use a share of the probability, above 0 and at most 1, or None for all")
