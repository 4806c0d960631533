"""What counting reaches: n-grams and compressors on the texts on which models are measured.

A model that is no better than counts of three bytes has not learned to use a fourth, and its loss at 2,000 bytes says
nothing about far context. So every figure of losses has these lines.
"""

import gzip
import json
import lzma
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from posenc.lab import results
from posenc.lab.budgets import PRESETS
from posenc.lab.corpus import Corpus, regions
from posenc.lab.evaluation import QUARTERS

ORDERS = (1, 2, 3, 4, 5, 6)
"""Lengths of counted strings: order 3 predicts a byte from the two before it."""
DISCOUNT = 0.75


class Counts:
    """An n-gram model of bytes with absolute discounting.

    Each count of a string is lowered by 0.75, and what this frees goes to the prediction from one byte less. Contexts
    that never occurred leave it to that prediction alone. The last resort is 1/256.

    Args:
        text: The text that is counted, (N,) uint8.
        order: The length of the longest counted strings, 1 to 8.

    Raises:
        ValueError: If the order is out of range, or the text is shorter.

    Example:
        >>> text = torch.frombuffer(bytearray(b"ababababab"), dtype=torch.uint8)
        >>> Counts(text, 2).losses(torch.tensor([[97, 98, 97]])).shape
        torch.Size([1, 2])
    """

    def __init__(self, text: Tensor, order: int) -> None:
        if not 1 <= order <= 8:
            raise ValueError(f"order is {order}: use 1 to 8, since a string of bytes is kept in one number")
        if len(text) < order:
            raise ValueError(f"a text of {len(text)} bytes has no string of {order}: take a longer one")
        data = text.numpy().astype(np.uint64)
        self.order = order
        self.strings, self.counts, self.contexts, self.sums, self.kinds = [], [], [], [], []
        for length in range(1, order + 1):
            strings, counts = np.unique(_strings(data, length), return_counts=True)
            contexts, first = np.unique(strings >> np.uint64(8), return_index=True)
            self.strings.append(strings)
            self.counts.append(counts)
            self.contexts.append(contexts)
            self.sums.append(np.add.reduceat(counts, first))
            self.kinds.append(np.diff(first, append=len(strings)))  # different bytes that follow a context

    def losses(self, windows: Tensor, order: int | None = None) -> Tensor:
        """Losses in nats of all bytes but the first of each window (R, T + 1), from that window alone: (R, T).

        With `order`, as if no longer strings had been counted.
        """
        data = windows.numpy().astype(np.uint64)
        likely = np.full(data[:, 1:].shape, 1 / 256)
        for length in range(1, (order or self.order) + 1):
            # A string of `length` bytes that ends at t needs t - length + 1 >= 0; nearer the start, shorter ones do.
            begin = max(0, length - 2)
            strings = np.stack([_strings(row, length) for row in data])[:, 1 if length == 1 else 0 :]
            likely[:, begin:] = self._better(length - 1, strings, likely[:, begin:])
        return torch.from_numpy(-np.log(likely))

    def _better(self, at: int, strings: Any, shorter: Any) -> Any:
        """Probabilities from the contexts of these strings, given those from contexts that are a byte shorter."""
        count = _looked_up(self.strings[at], self.counts[at], strings)
        contexts = strings >> np.uint64(8)
        total = _looked_up(self.contexts[at], self.sums[at], contexts)
        kinds = _looked_up(self.contexts[at], self.kinds[at], contexts)
        known = np.maximum(total, 1)
        blended = np.maximum(count - DISCOUNT, 0) / known + DISCOUNT * kinds / known * shorter
        return np.where(total > 0, blended, shorter)


def baselines(corpus: Corpus, preset: str, *, progress: bool = True) -> dict[str, Any]:
    """Losses of n-grams on the spans on which `extrapolation` measures models, and of compressors.

    Args:
        corpus: The corpus. N-grams count all of its training text.
        preset: A name in `PRESETS`.
        progress: Show a progress bar. Default: True.

    Returns:
        A dict for JSON. `ngrams` has for each order the mean loss in windows of the training length (`loss`), and that
        of each span (`texts`). `compressed` has nats per byte of the held-out text under gzip and xz at their best.
    """
    budget = PRESETS[preset].text
    whole = budget.longest * budget.length
    context = whole - whole // QUARTERS
    spans = regions(corpus.held_out, whole, context, budget.windows)[:, context:]
    windows = spans.unfold(1, budget.length + 1, budget.length).flatten(0, 1)
    rows, counts = [], Counts(corpus.train, max(ORDERS))
    for order in tqdm(ORDERS, desc="n-grams", disable=None if progress else True):
        loss = counts.losses(windows, order).reshape(budget.windows, -1)
        rows.append({"order": order, "loss": loss.mean().item(), "texts": loss.mean(1).tolist()})
    text = corpus.held_out.numpy().tobytes()
    packed = {"gzip": gzip.compress(text, 9), "xz": lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)}
    compressed = {name: 8 * math.log(2) * len(data) / len(text) for name, data in packed.items()}
    return {"provenance": results.provenance(corpus, "cpu"), "ngrams": rows, "compressed": compressed}


def keep(result: dict[str, Any], preset: str, folder: str | os.PathLike[str] = results.FOLDER) -> Path:
    """Writes what `baselines` found, and returns the file."""
    return results.put(Path(folder) / preset / "baselines.json", result)


def read_baselines(preset: str, folder: str | os.PathLike[str] = results.FOLDER) -> dict[str, Any]:
    """Reads what `keep` wrote. Raises ValueError if there is none."""
    path = Path(folder) / preset / "baselines.json"
    if not path.exists():
        raise ValueError(
            f"there are no baselines of preset {preset}: run python -m posenc.lab baselines --preset {preset}"
        )
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def counted(preset: str, folder: str | os.PathLike[str] = results.FOLDER) -> float:
    """The loss in nats that the best of all counts reaches in windows of the training length."""
    return min(float(entry["loss"]) for entry in read_baselines(preset, folder)["ngrams"])


def _strings(data: Any, length: int) -> Any:
    """All strings of a length, as numbers whose last eight bits are the last byte."""
    number = np.zeros(len(data) - length + 1, np.uint64)
    for at in range(length):
        number = (number << np.uint64(8)) | data[at : len(data) - length + 1 + at]
    return number


def _looked_up(known: Any, values: Any, asked: Any) -> Any:
    """The values of those that are known, 0 of others."""
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[at] == asked, values[at], 0)
