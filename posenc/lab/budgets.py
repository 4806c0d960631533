"""Budgets: what all schemes get alike, the model without its encoding, the training, and the measured lengths."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from posenc.lab.tasks import TASKS

LATER = {"later": True}
"""Marks a setting that came later: at its default it is left out of `Run.config`, so earlier results stay valid."""


@dataclass(frozen=True)
class Budget:
    """The budget that every scheme gets: the model without its encoding, the training, and the measured lengths."""

    layers: int
    """Layers of the model."""
    model_dim: int
    """Width of the residual stream."""
    heads: int
    """Attention heads in a layer."""
    length: int
    """The training length L in tokens; of a task the longest one, in letters, digits or pairs."""
    batch: int
    """Sequences in a training step."""
    steps: int
    """Training steps."""
    rate: float
    """The learning rate after the warm-up. From there it falls to a tenth along a cosine."""
    longest: int
    """The longest measured length as a multiple of L."""


@dataclass(frozen=True)
class Text(Budget):
    """The budget of models that are trained on text.

    Example:
        >>> PRESETS["cpu"].text.steps
        1000
    """

    windows: int
    """The number of held-out texts, of `longest` · L tokens each, on which losses are measured."""
    slid: int
    """The number of these texts that are also measured with sliding windows."""
    tuning: int
    """Steps of the short tuning at length 4 L, for runs that start from the weights of another."""
    trial: int = field(default=0, metadata=LATER)
    """Steps of a run that tries a learning rate."""
    planted: float = field(default=0.0, metadata=LATER)
    """The share of training sequences with a planted repetition."""
    fused: bool = field(default=False, metadata=LATER)
    """Whether attention runs in a fused kernel where the encoding allows it."""


@dataclass(frozen=True)
class Task(Budget):
    """The budget of models that learn a task.

    Example:
        >>> PRESETS["cpu"].tasks["recall"].layers
        3
    """

    answers: int
    """The number of sequences on which the accuracy at one length is measured."""


@dataclass(frozen=True)
class Preset:
    """The budgets of one preset, such as `PRESETS["cpu"]`.

    Example:
        >>> PRESETS["cpu"].text.length, PRESETS["cpu"].tasks["copy"].length
        (128, 8)
    """

    text: Text
    """The budget of models of text."""
    tasks: dict[str, Task]
    """The budget of each task, by name."""


def _tasks(easy: Task, **more: dict[str, Any]) -> dict[str, Task]:
    """Budgets of all tasks, with changes for the harder ones."""
    return {task: dataclasses.replace(easy, **more.get(task, {})) for task in TASKS}


PRESETS = {
    "smoke": Preset(
        Text(2, 32, 2, length=16, batch=8, steps=12, rate=2e-3, longest=16, windows=2, slid=1, tuning=4),
        _tasks(Task(2, 32, 2, length=4, batch=8, steps=12, rate=2e-3, longest=4, answers=8)),
    ),
    "cpu": Preset(
        Text(3, 96, 4, length=128, batch=16, steps=1000, rate=4e-3, longest=16, windows=32, slid=8, tuning=50),
        _tasks(
            Task(2, 64, 4, length=8, batch=64, steps=3000, rate=3e-3, longest=4, answers=128),
            addition={"layers": 4, "length": 5, "steps": 8000, "rate": 2e-3},
            recall={"layers": 3, "steps": 5000, "rate": 1e-3},
        ),
    ),
    "epoch": Preset(
        Text(3, 96, 4, length=128, batch=16, steps=4000, rate=4e-3, longest=16, windows=64, slid=16, tuning=200,
             trial=500, planted=0.5, fused=True),
        _tasks(
            Task(2, 64, 4, length=8, batch=64, steps=3000, rate=3e-3, longest=4, answers=128),
            addition={"layers": 4, "length": 5, "steps": 8000, "rate": 2e-3},
            recall={"layers": 3, "steps": 5000, "rate": 1e-3},
        ),
    ),
    "gpu": Preset(
        Text(8, 512, 8, length=512, batch=64, steps=1500, rate=1e-3, longest=16, windows=64, slid=16, tuning=150,
             trial=100, planted=0.5, fused=True),
        _tasks(
            Task(6, 256, 8, length=16, batch=512, steps=6000, rate=1e-3, longest=4, answers=512),
            addition={"steps": 20_000},
            recall={"steps": 20_000},
        ),
    ),
}  # fmt: skip
