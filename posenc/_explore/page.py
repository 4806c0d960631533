"""The element that a built page holds: graphs, a picture that needs no script, and nothing that could be markup."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._explore.controls import Choice
from posenc._explore.explorer import Explorer, _short
from posenc._explore.formula import markup, tree
from posenc.pictures import plot
from posenc.pictures.views import Clocks, Formula, Heatmap, Lines, Plane, Readout, View, Words


def element(explorer: Explorer, graphs: Mapping[str, bytes], values: Mapping[str, Any], identity: str) -> str:
    """The HTML of one explorer with its graphs, to be drawn by page.js."""
    from posenc._explore.export import used  # which needs what exports; the other pages' panels don't

    payload = {
        **explorer.spec(values),
        "used": {key: used(graph) for key, graph in graphs.items()},
        "graphs": {key: base64.b64encode(graph).decode() for key, graph in graphs.items()},
    }
    stills = "".join(f'<div class="pe-still">{still}</div>' for still in _stills(explorer, values))
    state = ", ".join(f"{explorer.label(name)} {_said(explorer, name, value)}" for name, value in values.items())
    caption = f'<p class="pe-caption">{html.escape(explorer.caption)}</p>' if explorer.caption else ""
    return (
        f'<figure class="pe-panel" id="{html.escape(identity)}">'
        f'<figcaption class="pe-title">{html.escape(explorer.title)}</figcaption>'
        f'<p class="pe-state">{html.escape(state)}</p>'
        f'<div class="pe-stills">{stills}</div>'
        f'{caption}<script type="application/json" class="pe-data">{escaped(payload)}</script>'
        "</figure>"
    )


def escaped(payload: Mapping[str, Any]) -> str:
    """JSON in which nothing could be markup."""
    return json.dumps(payload, ensure_ascii=True).replace("<", "\\u003c").replace("&", "\\u0026")


def _said(explorer: Explorer, name: str, value: Any) -> str:
    """A value as its control shows it: of a choice, the label."""
    control = explorer.by_name[name]
    return control.labels[control.index(value)] if isinstance(control, Choice) else _short(value)


def _stills(explorer: Explorer, values: Mapping[str, Any]) -> list[str]:
    tensors = [t.cpu().double().numpy() for t in explorer.run(values)]
    stills = []
    for number, view in enumerate(explorer.views):
        count = 2 if isinstance(view, (Lines, Words)) else 1
        data, tensors = tensors[:count], tensors[count:]
        if isinstance(view, Readout):
            stills.append(_readout(view, data[0]))
            continue
        if isinstance(view, Words):
            stills.append(_sentences(view, data))
            continue
        if isinstance(view, Formula):
            stills.append(_formula(view, data[0], values))
            continue
        if isinstance(view, (Heatmap, Lines)) and view.limits == "all":
            view = replace(view, limits=explorer.limits()[number])
        if isinstance(view, Lines) and view.rule:
            view = replace(view, landmarks={**view.landmarks, explorer.label(view.rule): float(values[view.rule])})
        stills.append(plot.draw(view, data, alt=summary(view, data)).svg())
    return stills


def _formula(view: Formula, numbers: np.ndarray, values: Mapping[str, Any]) -> str:
    title = f'<p class="pe-view-title">{html.escape(view.title)}</p>' if view.title else ""
    shown = {str(index): _written(view, index, number) for index, number in enumerate(numbers)}
    shown |= {name: _short(values[name]) for name in view.places() if not name.isdigit()}
    return f'{title}<div class="pe-formula">{markup(tree(view.tex), shown)}</div>'


def _readout(view: Readout, numbers: np.ndarray) -> str:
    title = f'<p class="pe-view-title">{html.escape(view.title)}</p>' if view.title else ""
    pairs = "".join(
        f"<div><dt>{html.escape(_label(view, index))}</dt><dd>{_written(view, index, number)}</dd></div>"
        for index, number in enumerate(numbers)
    )
    return f'{title}<dl class="pe-readout">{pairs}</dl>'


def _sentences(view: Words, data: list[np.ndarray]) -> str:
    title = f'<p class="pe-view-title">{html.escape(view.title)}</p>' if view.title else ""
    rows = []
    for index, row in enumerate(data[0]):
        inked = "".join(
            f'<span class="pe-word" style="--pe-ink: {round(100 * ink(weight))}%">{html.escape(str(word))}</span>'
            for word, weight in zip(view.words, row, strict=True)
        )
        colour, name = plot.css(view, index), html.escape(_label(view, index))
        rows.append(f'<tr style="--pe-colour: {colour}"><th scope="row">{name}</th><td><div>{inked}</div></td></tr>')
    alt = html.escape(summary(view, data))
    return f'{title}<table class="pe-words" aria-label="{alt}"><tbody>{"".join(rows)}</tbody></table>'


def ink(weight: float) -> float:
    """How dark a weight is, from 0 to 1: small ones are visible, and a difference of large ones is too."""
    return float(min(1.0, max(0.0, weight) ** 0.62))


def summary(view: View, data: list[np.ndarray]) -> str:
    """What a view shows, in words, for those who cannot see it."""
    name = f"{view.title}: " if view.title else ""
    if isinstance(view, Heatmap):
        *_, rows, columns = data[0].shape
        return f"{name}{rows} rows ({view.y}) by {columns} columns ({view.x}), {_range(data[0])}."
    if isinstance(view, Lines):
        parts = [f"{_label(view, index)}: {_range(line)}" for index, line in enumerate(data[1])]
        return f"{name}{view.y} against {view.x}; " + "; ".join(parts) + "."
    if isinstance(view, Words):
        most = [
            f"{_label(view, i)}: most on “{view.words[row.argmax()]}”, {row.max():.2f}" for i, row in enumerate(data[0])
        ]
        return name + "; ".join(most) + "."
    if isinstance(view, Clocks):
        out = [_label(view, i) for i, (arc, hand, *_) in enumerate(data[0]) if plot.beyond(arc, hand)]
        which = ": " + ", ".join(out) if out else ""
        return f"{name}{len(out)} of {len(data[0])} hands beyond their arcs{which}."
    if isinstance(view, Formula):
        return name + ", ".join(_written(view, index, number) for index, number in enumerate(data[0])) + "."
    if isinstance(view, Plane):
        parts = [f"{_label(view, index)} ({x:.2f}, {y:.2f})" for index, (x, y) in enumerate(data[0])]
    else:
        parts = [f"{_label(view, index)} {_written(view, index, number)}" for index, number in enumerate(data[0])]
    return name + "; ".join(parts) + "."


def _written(view: Readout | Formula, index: int, number: float) -> str:
    """A number of a readout with its digits; two where there are digits for others only."""
    words = view.names.get(index, ()) if isinstance(view, Readout) else ()
    if 0 <= round(float(number)) < len(words):
        return html.escape(str(words[round(float(number))]))
    digits = view.digits if isinstance(view.digits, int) else dict(enumerate(view.digits)).get(index, 2)
    return f"{number:.4g}" if digits is None else f"{number:.{digits}f}"


def _label(view: Lines | Plane | Readout | Words | Clocks, index: int) -> str:
    noun = {"lines": "line", "plane": "arrow", "readout": "value", "words": "row", "clocks": "clock"}[view.kind]
    return str(view.labels[index]) if index < len(view.labels) else f"{noun} {index + 1}"


def _range(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return "no values"
    return f"values from {finite.min():.3g} to {finite.max():.3g}"
