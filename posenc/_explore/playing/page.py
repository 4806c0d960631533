"""The element of a panel in which models read, in a built page: a graph for each model, and what two of them found."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from posenc._explore.page import escaped, summary
from posenc._explore.playing.desk import Desk, title_of
from posenc._explore.playing.graph import graph
from posenc._explore.playing.reader import settings
from posenc.pictures import plot

WINDOW = 32  # bytes over which the line of losses is a mean, as in the front end


def graphs(desk: Desk) -> dict[str, bytes]:
    """The graph of each model, compared with torch."""
    return {name: graph(name, reader) for name, reader in desk.readers.items()}


def element(desk: Desk, made: Mapping[str, bytes], identity: str) -> str:
    """The HTML of the panel with its graphs, to be drawn by page.js."""
    found = [surprise(desk, name) for name in desk.first]
    payload = {
        **desk.spec(),
        "recorded": [[None if math.isnan(v) else round(v, 2) for v in row] for row in found],
        "graphs": {key: base64.b64encode(each).decode() for key, each in made.items()},
        "each": True,  # a script for each graph
    }
    view = desk.views()["loss"]
    data = [np.arange(len(found[0]), dtype=float), np.array([_running(row) for row in found])]
    still = plot.draw(replace(view, title=""), data, alt=summary(view, data)).svg()
    both = " and ".join(map(title_of, desk.first))
    state = f"{both} read the first {len(found[0])} bytes; they were trained on {desk.length} at once."
    caption = f'<p class="pe-caption">{html.escape(desk.caption)}</p>' if desk.caption else ""
    return (
        f'<figure class="pe-panel pe-learn pe-reading" id="{html.escape(identity)}">'
        f'<figcaption class="pe-title">{html.escape(desk.title)}</figcaption>'
        f'<p class="pe-state">{html.escape(state)}</p>'
        f'<div class="pe-stills"><div class="pe-still">{still}</div></div>'
        f'{caption}<script type="application/json" class="pe-data">{escaped(payload)}</script>'
        "</figure>"
    )


@torch.no_grad()
def surprise(desk: Desk, name: str) -> list[float]:
    """−log₂ p of each byte of the first text, as far as it is read; the first byte has none."""
    reader = desk.readers[name]
    text = next(iter(desk.texts.values())).encode()[: int(desk.read.start)]
    count = len(text) if reader.rows is None else min(len(text), reader.rows)
    tokens = torch.tensor(list(text))
    found = reader(tokens[:count], torch.arange(count), *reader.start(), torch.tensor(0), *settings())[0]
    bits = found[:-1].gather(-1, tokens[1:count, None])[:, 0]
    return [math.nan, *bits.tolist(), *[math.nan] * (len(text) - count)]


def _running(row: list[float]) -> list[float]:
    """The mean of each number and of those before it; those that are none are left out."""
    parts = (np.array(row[max(0, i + 1 - WINDOW) : i + 1]) for i in range(len(row)))
    return [float(np.nanmean(part)) if np.isfinite(part).any() else math.nan for part in parts]
