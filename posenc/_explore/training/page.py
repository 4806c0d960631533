"""The element of a training panel in a built page: graphs, and a picture of a training that torch has done."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from posenc._explore.page import escaped, summary
from posenc._explore.training.graphs import Run, course_graphs, task_graphs, verify
from posenc._explore.training.lesson import Lesson, Trainer
from posenc.pictures import plot

ROW = 3  # pictures that may stand in one row, as in the front end


def graphs(lesson: Lesson) -> dict[str, bytes]:
    """The graphs of all tasks and schemes, each scheme compared with torch in a training of some steps."""
    found: dict[str, bytes] = {}
    tasks = {title: task_graphs(title, task, lesson.sizes) for title, task in lesson.tasks.items()}
    for number, made in enumerate(tasks.values()):
        found |= {f"task {number} {key}": graph for key, graph in made.items()}
    for scheme in lesson.schemes:
        made = course_graphs(lesson.course(scheme))
        found |= {f"{scheme} {key}": graph for key, graph in made.items()}
        for title, task in lesson.tasks.items():
            verify(title, task, lesson.course(scheme), Run(tasks[title], made))
    return found


def element(lesson: Lesson, made: Mapping[str, bytes], identity: str) -> str:
    """The HTML of a training panel with its graphs, to be drawn by page.js."""
    trainer, losses = _trained(lesson)
    payload = {**lesson.spec(), "graphs": {key: base64.b64encode(graph).decode() for key, graph in made.items()}}
    if payload["many"]:
        payload["recorded"] = _recorded(lesson, trainer)
    pictures = _stills(lesson, trainer, losses)
    kind = "pe-still pe-few" if len(pictures) <= ROW else "pe-still"
    stills = "".join(f'<div class="{kind}">{still}</div>' for still in pictures)
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
    """The lines after a training, as torch has it, and what is watched: maps wait for a training in the page."""
    _, found = trainer.examined(lesson.sizes.longest, int(lesson.controls["n"].start))
    views = lesson.views()
    drawn: dict[str, list[tuple[Any, list[np.ndarray]]]] = {kind: [] for kind in lesson.show}
    accuracy = torch.cat([t[0] for t in found]).double().numpy()
    for kind, lines in (("losses", losses), ("accuracy", accuracy)):
        drawn[kind] = [(views[kind], [np.arange(1.0, lines.shape[1] + 1), lines])]
    for scheme, (_, _, _, _, *watched) in zip(lesson.on, found, strict=True):
        if watched:
            drawn["watched"].append((lesson.watch[scheme][1], [t.double().numpy() for t in watched]))
    data = [each for kind in lesson.show for each in drawn[kind]]
    return [
        f'<p class="pe-view-title">{html.escape(view.title)}</p>'
        + plot.draw(replace(view, title=""), each, alt=summary(view, each)).svg()
        for view, each in data
    ]


def _recorded(lesson: Lesson, trainer: Trainer) -> dict[str, Any]:
    """What the small maps show before anybody has pressed Train: shares of right answers, and maps in bytes."""
    length = int(lesson.controls["length"].start)
    _, found = trainer.examined(length, int(lesson.controls["n"].start))
    heads = torch.stack([scheme[3][0, :length, :length] for scheme in found])
    return {
        "shares": [round(scheme[0][0, :length].nanmean().item(), 3) for scheme in found],
        "maps": base64.b64encode((heads * 255).round().byte().numpy().tobytes()).decode(),
    }
