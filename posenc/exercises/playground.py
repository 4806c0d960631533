"""Exercise of the chapter on trained models that read."""

import math

import torch
from torch import Tensor

from posenc.exercises.attempt import Attempt, expect


def _given() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(7, 16, generator=generator), torch.randint(16, (7,), generator=generator)


def _each(surprise: Attempt) -> None:
    logits, tokens = _given()
    found = surprise(logits, tokens)
    expect(found.shape == (6,), f"7 tokens have a surprise of shape {tuple(found.shape)}, and the first has none")
    for n, bits in enumerate(found.tolist()):
        row = [math.exp(v) for v in logits[n].tolist()]
        true = -math.log2(row[int(tokens[n + 1])] / sum(row))
        expect(
            abs(bits - true) < 1e-4, f"token {n + 1} costs {bits:.3f}, and −log₂ of what row {n} gives it is {true:.3f}"
        )


def _guess(surprise: Attempt) -> None:
    found = surprise(torch.zeros(5, 256), torch.arange(5))
    expect(bool((found - 8).abs().max() < 1e-4), f"a blind guess among 256 costs {found[0]:.3f} bits, and not 8")


def _constant(surprise: Attempt) -> None:
    logits, tokens = _given()
    far = (surprise(logits + 50, tokens) - surprise(logits, tokens)).abs().max()
    expect(bool(far < 1e-3), f"a constant that is added to all logits changes the surprise by {far:.3f}")


EXERCISES = {
    "playground_surprise": [
        ("a blind guess among 256 costs 8 bits", _guess),
        ("a constant that is added to all logits changes nothing", _constant),
        ("each token after the first costs −log₂ of what the row before it gives it", _each),
    ],
}
