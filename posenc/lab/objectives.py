"""What a model is asked: an objective draws a batch, by a generator, and tells how well the model did."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from posenc.lab import corpus, tasks
from posenc.lab.config import BYTES, MASK, Run
from posenc.memory import Memory
from posenc.model import Transformer

SEGMENTS = 4  # in a window, where a segment attends to the one before it
HIDDEN = 0.15  # of the bytes are to be guessed (Devlin et al., 2019): 8 of 10 are masked, 1 is another, 1 stays


def loss(model: Transformer, run: Run, text: Tensor, generator: torch.Generator, part: slice) -> Tensor:
    """The mean cross-entropy of what has to be predicted, in nats, on one batch.

    The batch follows from the generator alone; `part` of its sequences is computed here, and the rest by other
    processes. text (N,) uint8, on the CPU as the generator is.
    """
    device = model.embedding.weight.device
    objective, batch = run.settings.objective, run.batch
    if objective in tasks.TASKS:
        length = int(torch.randint(1, run.length + 1, (), generator=generator))
        tokens, answer = tasks.sample(objective, length, batch, generator)
        tokens, answer = tokens[part].to(device), answer[part].to(device)
        logits = model(tokens[:, :-1])
        return cross_entropy(logits[answer[:, 1:]], tokens[:, 1:][answer[:, 1:]])
    if objective == "masked":
        seen, tokens, hidden = (x[part].to(device) for x in masked(text, run.length, batch, generator))
        return cross_entropy(model(seen)[hidden], tokens[hidden])
    if run.settings.memory:
        tokens = corpus.batch(text, SEGMENTS * run.length, batch // SEGMENTS, generator)[part].to(device)
        memory, total = Memory(run.length), torch.zeros((), device=device)
        for n in range(0, SEGMENTS * run.length, run.length):
            logits = model(tokens[:, n : n + run.length], memory=memory)
            total = total + cross_entropy(logits.flatten(0, 1), tokens[:, n + 1 : n + run.length + 1].flatten())
        return total / SEGMENTS
    tokens = corpus.batch(text, run.length, batch, generator)[part].to(device)
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def masked(text: Tensor, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """What is shown, what was there, and where to guess: (count, length) each, as many guesses in each sequence."""
    tokens = corpus.batch(text, length, count, generator)[:, :length]
    order = torch.rand(tokens.shape, generator=generator).argsort(-1)
    guesses = max(1, round(HIDDEN * length))
    hidden, chance = order < guesses, torch.rand(tokens.shape, generator=generator)
    other = torch.randint(BYTES, tokens.shape, generator=generator)
    seen = tokens.where(~hidden | (chance >= 0.9), other).where(~hidden | (chance >= 0.8), MASK)
    return seen, tokens, hidden
