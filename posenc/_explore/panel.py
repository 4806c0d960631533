"""explore(): one call, a live panel where a kernel runs and an exported one in a built page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import torch
import traitlets
from torch import Tensor

from ..notebook import book_mode, device
from ..views import View
from .controls import Choice, Control, Slider
from .explorer import Explorer
from .kept import keep

STATIC = Path(__file__).parent / "static"
if not (STATIC / "widget.js").exists():
    raise ImportError(
        "the front end of posenc.explore has not been bundled: run `python hatch_build.py` in the source tree, "
        "or install the package with pip, which does"
    )


def explore(
    function: Callable[..., Any],
    *views: View,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    title: str | None = None,
    name: str | None = None,
    **controls: Any,
) -> Panel | Page:
    """Turn a function's parameters into controls and look at what it returns.

    ``function`` returns one torch tensor for each view (a tuple where there are several). ``controls`` are
    abbreviated as in ``ipywidgets.interact``: ``(min, max)``, ``(min, max, step)``, a list or a dict of choices, a
    bool; and :func:`logarithmic`. A parameter's default is where its control starts. Whole numbers reach the
    function as ``int``, others as 0-d float32 tensors, choices as their value. ``presets`` maps a label to values
    that one click sets; ``name`` identifies the panel on its page and in links to it.

    With a kernel the result is an anywidget: ``panel.base = 500.0`` moves the slider, and it can be linked and
    observed. In a built page the function itself is exported, so it must be traceable: torch operations, and no
    branch on a slider's value.

    >>> explore(encoding, Heatmap(x="dimension", y="position"), length=(8, 512), base=logarithmic(10, 1e6))
    """
    explorer = Explorer(function, views, controls, presets, title, name)
    explorer.run({})  # the reader sees a mistake here, with its traceback, rather than in a panel
    return Page(explorer) if book_mode() else Panel(explorer)


class Panel(anywidget.AnyWidget):
    """The live explorer: a trait for each control, and the torch function in the kernel.

    A control whose name a widget already uses (``layout``) has its trait under the name with an underscore.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "style.css"
    _spec = traitlets.Dict().tag(sync=True)

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._by_control = {c.name: c.name + "_" * self.has_trait(c.name) for c in explorer.controls}
        spec = explorer.spec({})
        for control, entry in zip(explorer.controls, spec["controls"], strict=True):
            entry["trait"] = self._by_control[control.name]
        super().__init__(_spec=spec)
        self.add_traits(**{self._by_control[c.name]: _trait(c) for c in explorer.controls})
        self.on_msg(self._answer)

    @property
    def values(self) -> dict[str, Any]:
        """Where the controls stand, by the function's own names."""
        return {name: getattr(self, trait) for name, trait in self._by_control.items()}

    def result(self) -> list[Tensor]:
        """The tensors that the views show at the present values."""
        return self._compute(self.values)

    def _compute(self, values: Mapping[str, Any]) -> list[Tensor]:
        with torch.device(device()):
            return [t.cpu().contiguous() for t in self._explorer.run(values)]

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict) or message.get("type") != "compute":
            return
        try:
            tensors = self._compute(self._explorer.unwire(message.get("values", {})))
        except Exception as error:  # whatever the reader's function raises belongs in the panel
            text = f"{type(error).__name__}: {error}"
            self.send({"type": "error", "id": message.get("id"), "message": text})
            return
        shapes = [list(t.shape) for t in tensors]
        self.send({"type": "result", "id": message.get("id"), "shapes": shapes}, [t.numpy().tobytes() for t in tensors])

    def __repr__(self) -> str:
        return self._explorer.describe(self.values)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *metadata = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**(data or {}), "text/plain": repr(self)}
        return (data, *metadata) if metadata else data


class Page:
    """The explorer of a built page: the function exported as graphs, and a picture for where no script runs.

    It has the same attributes for the controls as a :class:`Panel`, so that a notebook runs the same in both.
    """

    _counts: ClassVar[dict[str, int]] = {}

    def __init__(self, explorer: Explorer) -> None:
        count = self._counts[explorer.name] = self._counts.get(explorer.name, 0) + 1
        taken = {c.name: c.name + "_" * (c.name in Panel.class_traits()) for c in explorer.controls}
        super().__setattr__("_explorer", explorer)
        super().__setattr__("_by_control", taken)
        super().__setattr__("values", explorer.starts())
        identity = re.sub(r"[^a-z0-9]+", "-", explorer.name.lower()).strip("-") or "panel"
        super().__setattr__("_identity", f"explore-{identity}" + (f"-{count}" if count > 1 else ""))
        super().__setattr__("_exported", self._export(explorer))  # here, so that a failure is the cell's own
        keep(explorer, self._identity)

    @staticmethod
    def _export(explorer: Explorer) -> tuple[dict[str, bytes], bool]:
        from .export import graphs

        return graphs(explorer)

    def __getattr__(self, name: str) -> Any:
        for control, trait in self._by_control.items():
            if trait == name:
                return self.values[control]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        control = next((c for c, trait in self._by_control.items() if trait == name), None)
        if control is None:
            raise AttributeError(f"{name!r} is no control of {self._explorer.name}")
        self.values.update(self._explorer.check({control: value}))

    def result(self) -> list[Tensor]:
        """The tensors that the views show at the present values."""
        return self._explorer.run(self.values)

    def __repr__(self) -> str:
        return self._explorer.describe(self.values)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from .page import element

        return {
            "text/plain": repr(self),
            "text/html": element(self._explorer, self._exported, self.values, self._identity),
        }


def _trait(control: Control) -> traitlets.TraitType[Any, Any]:
    """The trait of a control: synchronised, and as strict as the control itself."""
    if isinstance(control, Choice):
        to_json = lambda value, _: control.index(value)  # noqa: E731
        from_json = lambda index, _: control.values[index]  # noqa: E731
        tag = {"sync": True, "to_json": to_json, "from_json": from_json}
    else:
        tag = {"sync": True}
    kind: Any = traitlets.Bool
    if isinstance(control, Slider):
        kind = traitlets.Int if control.integer else traitlets.Float
    elif isinstance(control, Choice):
        kind = traitlets.Any

    class Checked(kind):
        def validate(self, obj: Any, value: Any) -> Any:
            value = super().validate(obj, value) if hasattr(super(), "validate") else value
            try:
                return control.check(value)
            except ValueError as error:
                raise traitlets.TraitError(str(error)) from None

    return Checked(control.start).tag(**tag)
