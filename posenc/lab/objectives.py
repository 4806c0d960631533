"""Training objectives: each draws a batch and computes the loss of a model on it."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from posenc.lab import corpus, tasks
from posenc.lab.budgets import Text
from posenc.lab.config import BYTES, MASK, Run
from posenc.lab.planted import LENGTH, periodic, plant
from posenc.transformer.memory import Memory
from posenc.transformer.model import Transformer

SEGMENTS = 4  # in a window, where a segment attends to the one before it
HIDDEN = 0.15  # of the bytes are to be guessed (Devlin et al., 2019): 8 of 10 are masked, 1 is another, 1 stays


def loss(model: Transformer, run: Run, text: Tensor, generator: torch.Generator, part: slice) -> Tensor:
    """The mean cross-entropy of the predicted tokens on one batch.

    Args:
        model: The model.
        run: The run, which gives objective, length and batch size.
        text: Text (N,), uint8, on the CPU.
        generator: A generator on the CPU, which alone decides the batch.
        part: The sequences of the batch that this process computes.

    Returns:
        The loss in nats, a scalar.
    """
    device = model.embedding.weight.device
    objective, batch = run.settings.objective, run.batch
    if objective in tasks.TASKS:
        length = int(torch.randint(1, run.length + 1, (), generator=generator))
        tokens, answer = tasks.sample(objective, length, batch, generator)
        tokens, answer = tokens[part].to(device), answer[part].to(device)
        pos = tasks.coupled(length)[:-1].to(device) if run.settings.coupled else None
        logits = model(tokens[:, :-1], pos)
        return cross_entropy(logits[answer[:, 1:]], tokens[:, 1:][answer[:, 1:]])
    if objective == "masked":
        seen, tokens, hidden = (x[part].to(device) for x in masked(text, run.length, batch, generator))
        return cross_entropy(model(seen)[hidden], tokens[hidden])
    segments = SEGMENTS if run.settings.memory else 1
    tokens = corpus.batch(text, segments * run.length, batch // segments, generator)
    if isinstance(run.budget, Text) and run.budget.planted:
        tokens = plant(tokens, run.budget.planted, run.length - LENGTH, generator)
    if run.settings.periodic:
        tokens = periodic(tokens, run.settings.periodic, run.length - LENGTH, generator)
    tokens = tokens[part].to(device)
    if run.settings.memory:
        memory, total = Memory(run.length), torch.zeros((), device=device)
        for n in range(0, SEGMENTS * run.length, run.length):
            logits = model(tokens[:, n : n + run.length], memory=memory)
            total = total + cross_entropy(logits.flatten(0, 1), tokens[:, n + 1 : n + run.length + 1].flatten())
        return total / SEGMENTS
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def masked(text: Tensor, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens with masks, the original tokens, and where to guess: (count, length) each, equally many in each row."""
    tokens = corpus.batch(text, length, count, generator)[:, :length]
    order = torch.rand(tokens.shape, generator=generator).argsort(-1)
    guesses = max(1, round(HIDDEN * length))
    hidden, chance = order < guesses, torch.rand(tokens.shape, generator=generator)
    other = torch.randint(BYTES, tokens.shape, generator=generator)
    seen = tokens.where(~hidden | (chance >= 0.9), other).where(~hidden | (chance >= 0.8), MASK)
    return seen, tokens, hidden
