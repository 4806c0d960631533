"""The design of a run: what the code decides and no configuration says, such as how weights begin.

A configuration does not see a change of the code. The start of a run does: the weights before the first step, and the
first batch. A result keeps both as a few numbers, its *fingerprint*, with the name of its design. It is only read where
the present code would start in the same way.
"""

import dataclasses
import functools
import hashlib
import math
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from posenc.lab.config import Run
from posenc.lab.objectives import loss
from posenc.lab.training import of_step

DESIGN = "second"
"""The name of the present design. A change of the code that changes what a run learns needs a new one."""
DESIGNS = {
    "first": "embeddings start with deviation 0.02",
    "second": "embeddings start with deviation 1/√D",
}
"""What each design is, for messages and for the page that names it."""
TOLERANCE = 1e-4  # processors round initial weights differently, by some 1e-7
KNOWN = 2**20  # bytes of the text that stands for any corpus
ENTRIES = 2**16  # of each weight, at most: all are drawn one after another, so the later parts tell of the rest


def start(run: Run) -> dict[str, Any]:
    """The fingerprint of a run's start, in numbers that a file can hold.

    Args:
        run: The run. Its learning rate makes no difference.

    Returns:
        A dict. `weights` has one number for each part of the model: the sum of its parameters and buffers, each times
        the cosine of its index (of a large matrix, the first 65,536 entries). `batch` has the first 16 hexadecimal
        digits of the SHA-256 of all token ids and positions that the model is shown in the first step. `targets` is the
        loss there of a model whose logits are always cos 0, cos 1, …, so it says what is to be predicted. The text is a
        known one, as the corpus has a digest of its own.

    Example:
        >>> start(Run("copy_rope", 0, "smoke"))["batch"]
        '0f6601c26849aa0c'
    """
    run = dataclasses.replace(run, tried=None)
    return _start(run, run.digest)


@functools.cache
def _start(run: Run, digest: str) -> dict[str, Any]:
    """The start of a run with a configuration, which a preset may change."""
    model = run.model()
    parts = {name: _projection(part) for name, part in model.named_children() if name != "dropout"}
    witness = _Witness(model.embedding.num_embeddings)
    with torch.no_grad():
        targets = loss(witness, run, _known(), of_step(run.seed, 0), slice(None))  # type: ignore[arg-type]
    batch = hashlib.sha256(b"".join(x.long().numpy().tobytes() for x in witness.shown)).hexdigest()[:16]
    return {"weights": parts, "batch": batch, "targets": targets.item()}


def unlike(kept: Any, run: Run) -> str:
    """How a stored fingerprint differs from the start that the present code gives a run.

    Args:
        kept: What `start` has returned, once in a file.
        run: The run.

    Returns:
        The parts that differ, such as "the weights of embedding"; an empty string if none does.
    """
    now = start(run)
    try:
        parts = {
            name
            for name in kept["weights"] | now["weights"]
            if not _close(kept["weights"].get(name), now["weights"].get(name))
        }
        differ = [f"the weights of {', '.join(sorted(parts))}"] if parts else []
        differ += ["the first batch"] if kept["batch"] != now["batch"] else []
        differ += ["what is to be predicted"] if not _close(kept["targets"], now["targets"]) else []
    except (KeyError, TypeError, AttributeError):
        return "its fingerprint, which is damaged"
    return " and ".join(differ)


def _close(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _projection(part: nn.Module) -> float:
    """One number that changes with any weight of a part and with their order."""
    flat = [
        x.detach().flatten()[:ENTRIES].double()
        for x in chain(part.parameters(), part.buffers())
        if x.is_floating_point()
    ]
    values = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)
    return float(values @ torch.arange(len(values), dtype=torch.float64).cos())


class _Witness(nn.Module):
    """Stands for a model, and keeps what it is shown."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1, 1)  # for its device
        self.shown: list[Tensor] = []
        self.logits = torch.arange(vocabulary).cos()

    def forward(self, tokens: Tensor, pos: Tensor | None = None, **more: Any) -> Tensor:
        self.shown += [tokens] if pos is None else [tokens, pos]
        return self.logits.expand(*tokens.shape, -1)


@functools.cache
def _known() -> Tensor:
    """A text that every machine makes alike."""
    n = torch.arange(KNOWN)
    return (n * n % 65_521 % 251).to(torch.uint8)
