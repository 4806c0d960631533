"""Generating text: one token at a time, from a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc import _check
from posenc.cache import KVCache
from posenc.memory import following

if TYPE_CHECKING:
    from posenc.model import Transformer


@torch.no_grad()
def generate(
    model: Transformer, tokens: Tensor, count: int, *, temperature: float = 0.0, top_k: int | None = None,
    top_p: float | None = None, generator: torch.Generator | None = None, mask: Tensor | None = None,
    cache: list[KVCache] | None = None, eos: int | None = None, chunk: int | None = None,
) -> Tensor:  # fmt: skip
    """Goes on from tokens (B, L), by `count` tokens -> (B, L + count).

    temperature, top_k and top_p are those of `sample`. mask (B, L) is True for real tokens: shorter
    prompts are padded, on either side. After `eos` comes nothing but `eos`. The prompt goes in at once, or
    by `chunk` tokens at a time. A `cache` of your own goes on from what it holds; the last token that is
    returned is not in it yet. Raises ValueError, before anything is lost, if an encoding has too few positions.
    """
    _check.generation(model, tokens, count, mask, chunk)
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
            logits = model(prompt[:, n : n + step], mask=real, cache=cache)[:, -1]
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
    """Draws a token for each row of logits (B, V) -> (B,); temperature 0 takes the likeliest.

    Only the `top_k` likeliest are drawn, and of these the fewest that together have a probability of `top_p`.
    Raises ValueError for a temperature below 0, top_k below 1, or top_p outside (0, 1].
    """
    _check.sampling(temperature, top_k, top_p)
    if temperature == 0:
        return logits.argmax(-1)
    logits, token = (logits.float() / temperature).sort(-1, descending=True)
    weight, token = logits[:, :top_k].softmax(-1), token[:, :top_k]
    if top_p is not None:
        weight = weight.masked_fill(weight.cumsum(-1) - weight >= top_p, 0.0)
    return token.gather(-1, torch.multinomial(weight, 1, generator=generator))[:, 0]
