"""The part that a kernel and a page share: a function, its controls, its views, and what they say together."""

from __future__ import annotations

import functools
import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc._explore.controls import Choice, Control, Slider, Tick, controls
from posenc._explore.formula import tree
from posenc.pictures import plot, theme
from posenc.pictures.views import Clocks, Formula, Heatmap, Lines, Plane, Readout, View, Words


class Explorer:
    """A function of named controls, seen through views.

    `run(values)` gives the tensors that the views draw: a flat list, float32, in the order of `views`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        views: tuple[View, ...],
        abbreviations: Mapping[str, Any],
        presets: Mapping[str, Mapping[str, Any]] | None = None,
        title: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
        caption: str = "",
        more: Sequence[str] = (),
        share: Sequence[str] = (),
        play: str = "",
        compare: str = "",
    ) -> None:
        if not callable(function):
            raise ValueError(f"explore() needs a function first, got {function!r}")
        if not views or not all(isinstance(view, View) for view in views):
            raise ValueError(
                "explore() needs at least one view: "
                "Heatmap(), Lines(), Plane(), Clocks(), Words(), Readout() or Formula()"
            )
        self.function, self.views = function, views
        self.name = name or getattr(function, "__name__", "function").strip("<>")
        self.title = title or self.name.replace("_", " ")
        self.controls: list[Control] = controls(function, abbreviations)
        self.by_name = {control.name: control for control in self.controls}
        self.labels, self.units, self.caption = dict(labels or {}), dict(units or {}), caption
        self.more, self.share, self.play, self.compare = tuple(more), tuple(share), play, compare
        for named in (*self.labels, *self.units, *self.more, *self.share, *filter(None, (play, compare))):
            self._known(named)
        if play and isinstance(self.by_name[play], Tick):
            raise ValueError(f"play={play!r} has two states only: play a slider or a choice")
        if compare and not isinstance(self.by_name[compare], Choice):
            raise ValueError(f"compare={compare!r} is no choice: give a list or dict of values for it")
        for view in views:
            self._handles(view)
        self.presets = {label: self.check(values) for label, values in (presets or {}).items()}

    def _known(self, name: str) -> Control:
        """The control of a name, or a ValueError that says which there are."""
        if name not in self.by_name:
            raise ValueError(self.no_control(name))
        return self.by_name[name]

    def no_control(self, name: str) -> str:
        """What is wrong with a name, and which would be right."""
        return f"{name!r} is no control of {self.name}: it has {', '.join(self.by_name)}"

    @property
    def identity(self) -> str:
        """By what links of a page lead to the first panel of this name."""
        return identity("explore", self.name)

    def _handles(self, view: View) -> None:
        """See that what can be grabbed in a view moves a control that can follow."""
        sliders: list[str] = []
        if isinstance(view, Lines):
            sliders += filter(None, (view.rule, view.level, *view.sketch.values()))
        if isinstance(view, (Lines, Plane)):
            sliders += [
                name for names in view.drag.values() for name in ((names,) if isinstance(names, str) else names)
            ]
        if isinstance(view, Clocks):
            sliders += filter(None, (view.drag,))
        if isinstance(view, Formula):
            sliders += [name for name in view.places() if not name.isdigit()]
        for name in sliders:
            if not isinstance(self._known(name), Slider):
                raise ValueError(
                    f"{name!r} is no slider, so nothing in a picture can be dragged to move it: give it a range of "
                    "numbers"
                )
        if isinstance(view, (Heatmap, Words)):
            for name in filter(None, (view.pick,) if isinstance(view.pick, str) else view.pick):
                control = self._known(name)
                if isinstance(control, Tick) or (isinstance(control, Slider) and not control.integer):
                    raise ValueError(
                        f"pick={name!r} is neither a whole number nor a choice: give it a range of whole numbers, or "
                        "a list"
                    )

    def label(self, name: str) -> str:
        """What a reader calls a control."""
        return self.labels.get(name, name.replace("_", " "))

    def starts(self) -> dict[str, Any]:
        return {control.name: control.start for control in self.controls}

    def check(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as the controls allow them, or a ValueError that names the one that is wrong."""
        return {name: self._known(name).check(value) for name, value in values.items()}

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the function is called with: floats become 0-d float32 tensors, everything else stays."""
        real = {c.name for c in self.controls if isinstance(c, Slider) and not c.integer}
        return {n: torch.tensor(v, dtype=torch.float32) if n in real else v for n, v in values.items()}

    def read(self, result: Any) -> list[Tensor]:
        """One entry of the result for each view, as the tensors that the views draw."""
        if len(self.views) == 1:
            return self.views[0].read(result)
        if not isinstance(result, (tuple, list)) or len(result) != len(self.views):
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else type(result).__name__
            raise ValueError(
                f"{self.name}() returned {got} for {len(self.views)} views: return one entry for each view"
            )
        return [t for view, value in zip(self.views, result, strict=True) for t in view.read(value)]

    @torch.no_grad()
    def run(self, values: Mapping[str, Any]) -> list[Tensor]:
        return self.read(self.function(**self.arguments({**self.starts(), **values})))

    def wire(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values as the front end holds them: a choice is its index."""
        return {n: c.index(values[n]) if isinstance(c := self.by_name[n], Choice) else values[n] for n in values}

    def unwire(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The reverse of `wire`, checked."""
        plain = {}
        for name, value in values.items():
            control = self.by_name.get(name)
            if isinstance(control, Choice):
                if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(control.values):
                    raise ValueError(f"{name} has {len(control.values)} choices, there is none with index {value!r}")
                value = control.values[value]
            plain[name] = value
        return self.check(plain)

    def variants(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each combination of choices and tick boxes, with the key under which the page finds its graph."""
        discrete = [c for c in self.controls if not isinstance(c, Slider)]
        options = [range(len(c.values)) if isinstance(c, Choice) else range(2) for c in discrete]
        for picks in itertools.product(*options):
            values = {
                c.name: bool(pick) if isinstance(c, Tick) else c.values[pick]
                for c, pick in zip(discrete, picks, strict=True)
            }
            yield ",".join(map(str, picks)), values

    def corners(self) -> Iterator[dict[str, Any]]:
        """Every combination of the sliders' extremes, at most 64 of them, the outermost first."""
        sliders = [c for c in self.controls if isinstance(c, Slider)]
        ends = itertools.product(*(c.extremes() for c in sliders))
        yield from ({c.name: v for c, v in zip(sliders, e, strict=True)} for e in itertools.islice(ends, 64))

    def key(self, values: Mapping[str, Any]) -> str:
        """The key of the variant to which values belong."""
        picks = (self.wire({c.name: values[c.name]})[c.name] for c in self.controls if not isinstance(c, Slider))
        return ",".join(str(int(pick)) for pick in picks)

    def used(self, fixed: Mapping[str, Any], patience: float = 0.25) -> list[str]:
        """The sliders that change a result while choices are fixed, by trial: where no graph tells, as in a notebook.

        Each goes to its ends and to three places between, with the others at their starts, ends or between. What is not
        tried after `patience` seconds counts as used.
        """
        sliders = [c for c in self.controls if isinstance(c, Slider)]
        late, names_used = time.monotonic() + patience, []
        for slider in sliders:
            others = ({c.name: c.at(share) for c in sliders if c is not slider} for share in (0.3, 0.7, 0.0, 1.0))
            states = ((state, self.run(state)) for state in ({**fixed, **other} for other in ({}, *others)))
            changed = (
                time.monotonic() > late or not _same(before, self.run({**state, slider.name: slider.at(share)}))
                for state, before in states
                for share in (0.0, 0.3, 0.6, 0.9, 1.0)
            )
            if any(changed):
                names_used.append(slider.name)
        return names_used

    def spec(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All that the front end needs to know, as JSON: nothing in it is ever read as markup."""
        views = [self._view(number) for number in range(len(self.views))]
        return {
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            **{key: getattr(self, key) for key in ("play", "compare")},
            **{key: list(getattr(self, key)) for key in ("more", "share")},
            "controls": [
                {**c.spec(), "label": self.label(c.name), "unit": self.units.get(c.name, "")} for c in self.controls
            ],
            "views": views,
            "presets": [{"label": str(label), "values": self.wire(v)} for label, v in self.presets.items()],
            "starts": self.wire(self.starts()),
            "values": self.wire({**self.starts(), **values}),
        }

    def _view(self, number: int) -> dict[str, Any]:
        return shown(self.views[number], lambda: self.limits()[number])

    @functools.cached_property
    def _ranges(self) -> list[tuple[float, float] | None]:
        """The least and the largest finite number of each view's last tensor, over the states that stand for all."""
        widest: list[tuple[float, float] | None] = [None] * len(self.views)
        states = [{}, *self.presets.values(), *self.corners()]
        for fixed in dict(self.variants()).values():
            for state in states:
                tensors = self.run({**fixed, **state})
                for number, view in enumerate(self.views):
                    count = 2 if isinstance(view, (Lines, Words)) else 1
                    shown, tensors = tensors[count - 1], tensors[count:]
                    finite = shown[shown.isfinite()]
                    if isinstance(view, Lines) and view.log_y:
                        finite = finite[finite > 0]
                    if finite.numel():
                        low, high = widest[number] or (math.inf, -math.inf)
                        widest[number] = (min(low, finite.min().item()), max(high, finite.max().item()))
        return widest

    def limits(self) -> list[tuple[float, float]]:
        """The ends of each view's numbers in every state: at the start, in presets and at the ends of sliders."""
        ends = []
        for view, range_of_view in zip(self.views, self._ranges, strict=True):
            low, high = range_of_view or (0.0, 1.0)
            log = isinstance(view, Lines) and view.log_y
            if isinstance(view, Heatmap) and view.scale == "diverging":
                high = max(abs(low), abs(high))
                low = -high
            ends.append(plot.rounded(low, high, log=log))
        return ends

    def describe(self, values: Mapping[str, Any]) -> str:
        """One line, the same in every run: what is explored, and where its controls stand."""
        shown = ", ".join(f"{name}={_short(value)}" for name, value in {**self.starts(), **values}.items())
        return f"explore {self.name}({shown}) as {', '.join(type(v).__name__ for v in self.views)}"


def identity(kind: str, name: str) -> str:
    """By what links of a page lead to the first panel of a kind and a name."""
    return f"{kind}-" + (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "panel")


def shown(view: View, every: Callable[[], tuple[float, float]]) -> dict[str, Any]:
    """A view as the front end draws it; `every` gives its limits in every state, where it asks for them."""
    entry: dict[str, Any] = {"kind": view.kind, "title": view.title}
    for key in ("x", "y", "scale", "origin", "start", "mark", "log_x", "log_y", "limit", "rule", "level"):
        if hasattr(view, key):
            entry[key] = getattr(view, key)
    for key in ("labels", "rows", "columns", "ticks"):
        if hasattr(view, key):
            entry[key] = [str(word) for word in getattr(view, key)]
    if isinstance(view, (Heatmap, Lines)):
        entry["limits"] = every() if view.limits == "all" else view.limits
    if isinstance(view, Heatmap):
        for key, scale in (("shades", view.scale), ("differences", "diverging")):
            entry[key] = [list(theme.stops(scale, ground)) for ground in (theme.LIGHT, theme.DARK)]
        entry["names"] = [{"value": float(value), "label": str(name)} for value, name in view.names.items()]
        entry["hatched"] = view.hatched
        entry["pick"] = [view.pick, ""] if isinstance(view.pick, str) else list(view.pick)
        entry["tiles"] = [str(tile) for tile in view.tiles]
        entry["digits"] = view.digits
    if isinstance(view, Lines):
        entry["bands"] = [list(band) for band in view.bands]
        entry["landmarks"] = [{"label": str(label), "at": float(at)} for label, at in view.landmarks.items()]
    if isinstance(view, Plane):
        entry["tiles"] = view.tiles
    if isinstance(view, Words):
        entry["words"], entry["pick"] = [str(word) for word in view.words], [view.pick]
    if isinstance(view, (Lines, Plane, Words, Clocks)):
        entry["colours"] = [plot.css(view, i) for i in range(max(len(view.colours), len(theme.CYCLE)))]
    if isinstance(view, (Lines, Plane)):
        drag = {which: [names] if isinstance(names, str) else list(names) for which, names in view.drag.items()}
        entry["drag"] = [{"index": which, "controls": names} for which, names in drag.items()]
    if isinstance(view, Clocks):
        entry["drag"] = [{"index": 0, "controls": [view.drag]}] if view.drag else []
    if isinstance(view, Lines):
        entry["sketch"] = [{"at": float(at), "control": name} for at, name in view.sketch.items()]
    if isinstance(view, Readout):
        entry["spelt"] = {str(place): [str(word) for word in words] for place, words in view.names.items()}
    if isinstance(view, (Readout, Formula)):
        entry["digits"] = view.digits if isinstance(view.digits, int) else list(view.digits)
    if isinstance(view, Formula):
        entry["tree"] = tree(view.tex)
    return entry


def _same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
        for a, b in zip(some, others, strict=True)
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
