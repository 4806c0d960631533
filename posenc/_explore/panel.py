"""explore(): one call, a live panel where a kernel runs and an exported one in a built page."""

from __future__ import annotations

import contextlib
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc._explore.controls import Choice, Control, Slider
from posenc._explore.explorer import Explorer
from posenc._explore.kept import keep
from posenc._extras import extra
from posenc.book.notebook import book_mode, device
from posenc.pictures.views import View

with extra("explore"):
    import anywidget
    import ipywidgets  # noqa: F401  without which an anywidget shows nothing
    import latex2mathml  # noqa: F401
    import traitlets

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
    labels: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    caption: str = "",
    more: Sequence[str] = (),
    share: Sequence[str] = (),
    play: str = "",
    compare: str = "",
    **controls: Any,
) -> Panel | Page:
    """A panel with a control for each parameter of a function, and a picture of the function's result.

    In a notebook the panel is a widget that calls the function: `panel.base = 500.0` moves a slider, and the panel can
    be observed and linked. In a built page no kernel runs, so the function is exported as a graph. There it must be
    traceable: torch operations, and no branch on the value of a slider.

    Args:
        function: Returns one tensor for each view, as a tuple if there are several views. Whole numbers reach it as
            `int`, other numbers as 0-d float32 tensors, choices as their values. The default of a parameter is the
            start of its control.
        *views: `Heatmap`, `Lines`, `Plane`, `Clocks`, `Words`, `Readout` or `Formula`, one for each tensor. Their
            `rule`, `level`, `pick`, `drag` and `sketch` name controls that can be moved in the picture.
        presets: Labels of buttons, each with the values of controls that it sets.
        title: The title of the panel. Default: the name of the function.
        name: Identifies the panel on its page and in links to it. Default: the name of the function.
        labels: What readers call the controls, such as `{"theta": "θ, turn per position"}`. Default: the names of the
            parameters.
        units: The units of controls, such as `{"theta": "rad"}`.
        caption: One sentence below the panel: what to do, and what to see.
        more: Controls that are folded under "More controls".
        share: Controls that move together with those of the same name in other panels of the page that share them.
        play: A slider or a choice that a button moves on by itself, once around.
        compare: A choice that is shown for two of its values, A and B, side by side.
        **controls: One for each parameter: `(min, max)` or `(min, max, step)` for a slider, `logarithmic(min, max)`
            for a logarithmic one, a list or dict of choices, or a bool for a tick box.

    Returns:
        A `Panel` where a kernel runs, and in the build of the book an object with the same attributes.

    Raises:
        ValueError: If a control fits no parameter, a parameter has neither control nor default, a view or a keyword
            names a control that is not there or cannot do that, or the result fits no view.

    Example:
        >>> from posenc import Heatmap, explore, logarithmic, sinusoidal
        >>> def codes(length=32, base=10_000.0):
        ...     return sinusoidal(torch.arange(length), 16, base)
        >>> explore(codes, Heatmap(x="dimension", y="position"), length=(8, 64), base=logarithmic(10, 1e6))
        explore codes(length=32, base=10000) as Heatmap
    """
    explorer = Explorer(
        function, views, controls, presets, title, name, labels, units, caption, more, share, play, compare
    )
    explorer.run({})  # the reader sees a mistake here, with its traceback, rather than in a panel
    return Page(explorer) if book_mode() else Panel(explorer)


class Widget(anywidget.AnyWidget):
    """What all live panels share: the front end, what it has to know, and words in place of a picture."""

    _esm = STATIC / "widget.js"
    _css = STATIC / "style.css"
    _spec = traitlets.Dict().tag(sync=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *metadata = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**(data or {}), "text/plain": repr(self)}
        return (data, *metadata) if metadata else data


class Panel(Widget):
    """The live panel that `explore` returns: a widget with a trait for each control.

    `panel.base = 500.0` moves a slider; `panel.observe` and `ipywidgets.link` work as for any widget. If widgets
    already use the name of a control, such as `layout`, its trait has an underscore: `layout_`.

    Args:
        explorer: The function with its controls and views, as `explore` makes it.

    Example:
        >>> from posenc import Lines, explore
        >>> panel = explore(lambda n=3: torch.arange(n), Lines(), n=(1, 9), name="count")
        >>> panel.n = 5
        >>> panel.values, panel.result()[1]
        ({'n': 5}, tensor([[0., 1., 2., 3., 4.]]))
    """

    _sharing: ClassVar[weakref.WeakSet[Panel]] = weakref.WeakSet()

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._used: dict[str, list[str]] = {}
        self._by_control = {c.name: c.name + "_" * self.has_trait(c.name) for c in explorer.controls}
        spec = explorer.spec({})
        for control, entry in zip(explorer.controls, spec["controls"], strict=True):
            entry["trait"] = self._by_control[control.name]
        model = uuid.uuid4().hex  # by which the front end asks its host whether a kernel has this panel
        super().__init__(_spec={**spec, "id": explorer.identity, "model": model}, model_id=model)
        self.add_traits(**{self._by_control[c.name]: _trait(c) for c in explorer.controls})
        self.on_msg(self._answer)
        for name in explorer.share:
            self.observe(lambda change, name=name: self._pass_on(name, change["new"]), self._by_control[name])
        self._sharing.add(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(self, name) and "_by_control" in self.__dict__:
            raise AttributeError(self._explorer.no_control(name))
        super().__setattr__(name, value)

    def _pass_on(self, control: str, value: Any) -> None:
        """Move a shared control in the other panels, as far as they have this value."""
        for other in self._sharing:
            if other is not self and control in other._explorer.share and other.values[control] != value:
                with contextlib.suppress(traitlets.TraitError):
                    setattr(other, other._by_control[control], value)

    @property
    def values(self) -> dict[str, Any]:
        """The values of the controls by the names of the function's parameters."""
        return {name: getattr(self, trait) for name, trait in self._by_control.items()}

    def result(self) -> list[Tensor]:
        """The tensors that the views show for these values.

        Returns:
            A flat list, in the order of the views.
        """
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
        if message.get("ask"):
            self._tell(self._explorer.unwire(message["values"]))

    def _tell(self, values: Mapping[str, Any]) -> None:
        """Tell the front end which sliders do something while choices stay as they are."""
        key = self._explorer.key(values)
        if key not in self._used:
            fixed = {name: values[name] for name in values if not isinstance(self._explorer.by_name[name], Slider)}
            with torch.device(device()), contextlib.suppress(Exception):  # a state in which the function raises
                self._used[key] = self._explorer.used(fixed)
        self.send({"type": "used", "key": key, "used": self._used.get(key, list(self._explorer.by_name))})

    def __repr__(self) -> str:
        return self._explorer.describe(self.values)


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
        super().__setattr__("_identity", explorer.identity + (f"-{count}" if count > 1 else ""))
        super().__setattr__("_exported", self._export(explorer))  # here, so that a failure is the cell's own
        keep(explorer, self._identity)

    @staticmethod
    def _export(explorer: Explorer) -> dict[str, bytes]:
        from posenc._explore.export import graphs

        return graphs(explorer)

    def __getattr__(self, name: str) -> Any:
        for control, trait in self._by_control.items():
            if trait == name:
                return self.values[control]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        control = next((c for c, trait in self._by_control.items() if trait == name), None)
        if control is None:
            raise AttributeError(self._explorer.no_control(name))
        self.values.update(self._explorer.check({control: value}))

    def result(self) -> list[Tensor]:
        """The tensors that the views show for these values.

        Returns:
            A flat list, in the order of the views.
        """
        return self._explorer.run(self.values)

    def __repr__(self) -> str:
        return self._explorer.describe(self.values)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from posenc._explore.page import element

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
    trait: Any = traitlets.Bool
    if isinstance(control, Slider):
        trait = traitlets.Int if control.integer else traitlets.Float
    elif isinstance(control, Choice):
        trait = traitlets.Any

    class Checked(trait):
        def validate(self, obj: Any, value: Any) -> Any:
            value = super().validate(obj, value) if hasattr(super(), "validate") else value
            try:
                return control.check(value)
            except ValueError as error:
                raise traitlets.TraitError(str(error)) from None

    return Checked(control.start).tag(**tag)
