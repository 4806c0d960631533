"""The element of a training panel in a built page: graphs, and a picture of a training that torch has done."""

from __future__ import annotations

import base64
import functools
import html
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from posenc._explore.page import escaped, summary
from posenc._explore.training.course import Course, Sizes
from posenc._explore.training.graphs import Run, course_graphs, task_graphs, verify
from posenc._explore.training.lesson import Lesson, Trainer
from posenc.pictures import plot


def graphs(lesson: Lesson) -> dict[str, bytes]:
    """The graphs of all tasks and schemes, each scheme compared with torch in a training of some steps."""
    found: dict[str, bytes] = {}
    tasks = {title: task_graphs(title, task, lesson.sizes) for title, task in lesson.tasks.items()}
    for number, made in enumerate(tasks.values()):
        found |= {f"task {number} {key}": graph for key, graph in made.items()}
    for scheme in lesson.schemes:
        made = _made(scheme, lesson.sizes)
        found |= {f"{scheme} {key}": graph for key, graph in made.items()}
        for title, task in lesson.tasks.items():
            verify(title, task, lesson.course(scheme), Run(tasks[title], made))
    return found


@functools.lru_cache(maxsize=32)
def _made(scheme: str, sizes: Sizes) -> dict[str, bytes]:
    """The graphs of a scheme, which panels of one page share."""
    return course_graphs(Course(scheme, sizes))


def element(lesson: Lesson, made: Mapping[str, bytes], identity: str) -> str:
    """The HTML of a training panel with its graphs, to be drawn by page.js."""
    trainer, losses = _trained(lesson)
    payload = {**lesson.spec(), "graphs": {key: base64.b64encode(graph).decode() for key, graph in made.items()}}
    if payload["many"]:
        payload["recorded"] = _recorded(lesson, trainer)
    stills = "".join(f'<div class="pe-still">{still}</div>' for still in _stills(lesson, trainer, losses))
    rate, seed = lesson.controls["rate"].start, lesson.controls["seed"].start
    state = f"Recorded: {lesson.steps} steps, seed {seed:g}, rate {rate:g}."
    caption = f'<p class="pe-caption">{html.escape(lesson.caption)}</p>' if lesson.caption else ""
    return (
        f'<figure class="pe-panel pe-learn" id="{html.escape(identity)}">'
        f'<figcaption class="pe-title">{html.escape(lesson.title)}</figcaption>'
        f'<p class="pe-state">{html.escape(state)}</p>'
        f'<div class="pe-stills">{stills}</div>'
        f'{caption}<script type="application/json" class="pe-data">{escaped(payload)}</script>'
        "</figure>"
    )


def _trained(lesson: Lesson) -> tuple[Trainer, np.ndarray]:
    """A training that torch has done, and the losses of its steps, a row for each scheme."""
    trainer = Trainer(lesson)
    trainer.begin({"task": "task 0", "seed": lesson.controls["seed"].start, "schemes": lesson.on})
    rate, n = float(lesson.controls["rate"].start), int(lesson.controls["n"].start)
    return trainer, np.array([trainer.step(rate, n) for _ in range(lesson.steps)]).T


def _stills(lesson: Lesson, trainer: Trainer, losses: np.ndarray) -> list[str]:
    """The losses and the accuracy of a training, as torch has it."""
    _, _, _, *found = trainer.exam(lesson.sizes.longest, int(lesson.controls["n"].start))
    accuracy = np.concatenate([t.double().numpy() for t in found[::4]])
    views = lesson.views()
    shown = ((views["losses"], losses), (views["accuracy"], accuracy))
    data = [(view, [np.arange(1.0, lines.shape[1] + 1), lines]) for view, lines in shown]
    return [plot.draw(replace(view, title=""), each, alt=summary(view, each)).svg() for view, each in data]


def _recorded(lesson: Lesson, trainer: Trainer) -> dict[str, Any]:
    """What the small maps show before anybody has pressed Train: shares of right answers, and maps in bytes."""
    length = int(lesson.controls["length"].start)
    _, _, _, *found = trainer.exam(length, int(lesson.controls["n"].start))
    heads = torch.stack([head[0, :length, :length] for head in found[3::4]])
    return {
        "shares": [round(x[0, :length].nanmean().item(), 3) for x in found[::4]],
        "maps": base64.b64encode((heads * 255).round().byte().numpy().tobytes()).decode(),
    }
