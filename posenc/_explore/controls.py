"""What a reader turns: ipywidgets.interact's abbreviations, and `logarithmic`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Logarithmic:
    """A range in which each step multiplies; made by :func:`logarithmic`."""

    min: float
    max: float


def logarithmic(min: float, max: float) -> Logarithmic:
    """A slider with multiplicative steps, forty for a factor of ten: for bases, scales and other positive numbers.

    Args:
        min: The lowest value, above 0.
        max: The highest value.

    Returns:
        A control for `explore`.

    Raises:
        ValueError: If `min` is not positive, or not less than `max`.

    Example:
        >>> logarithmic(10, 1e6)
        Logarithmic(min=10.0, max=1000000.0)
    """
    if not 0 < min < max < math.inf:
        raise ValueError(f"logarithmic({min}, {max}) is no range: give 0 < min < max, both finite")
    return Logarithmic(float(min), float(max))


@dataclass(frozen=True)
class Slider:
    """A number in a range: `integer` ones reach the function as int, others as a 0-d float32 tensor."""

    name: str
    start: float
    min: float
    max: float
    step: float
    integer: bool
    log: bool = False

    def check(self, value: Any) -> int | float:
        """The value as the function gets it, or a ValueError that says what is allowed."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{self.name} = {value!r} is no number: give one between {self.min:g} and {self.max:g}")
        if self.integer and value != int(value):
            raise ValueError(f"{self.name} = {value!r} is not whole: give an integer")
        if not self.min <= value <= self.max:
            raise ValueError(f"{self.name} = {value:g} is out of range: give {self.min:g} to {self.max:g}")
        if self.integer and (value - self.min) % self.step:
            raise ValueError(f"{self.name} = {value:g} is between two steps: count from {self.min:g} by {self.step:g}")
        return int(value) if self.integer else float(value)

    def at(self, share: float) -> int | float:
        """The value at this share of the way from the lowest to the highest."""
        low, high = self.extremes()
        if self.log:
            return float(low * (high / low) ** share)
        value = low + (high - low) * share
        return int(low + round((value - low) / self.step) * self.step) if self.integer else float(value)

    def extremes(self) -> tuple[float, ...]:
        last = self.min + math.floor((self.max - self.min) / self.step) * self.step if self.integer else self.max
        return (int(self.min), int(last)) if self.integer else (self.min, self.max)

    def spec(self) -> dict[str, Any]:
        return {"kind": "slider", **asdict(self)}


@dataclass(frozen=True)
class Choice:
    """One of several values, each with its label."""

    name: str
    start: Any
    labels: tuple[str, ...]
    values: tuple[Any, ...]

    def check(self, value: Any) -> Any:
        """The value itself, if it is one of those offered (a label stands for its value)."""
        for label, known in zip(self.labels, self.values, strict=True):
            if value is known or (type(value) is type(known) and value == known) or value == label:
                return known
        raise ValueError(f"{self.name} = {value!r} is not offered: choose one of {', '.join(self.labels)}")

    def index(self, value: Any) -> int:
        known = self.check(value)
        return next(i for i, v in enumerate(self.values) if v is known or (type(v) is type(known) and v == known))

    def spec(self) -> dict[str, Any]:
        return {"kind": "choice", "name": self.name, "labels": list(self.labels), "start": self.index(self.start)}


@dataclass(frozen=True)
class Tick:
    """Yes or no."""

    name: str
    start: bool

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{self.name} = {value!r} is neither True nor False: give one of them")
        return value

    def spec(self) -> dict[str, Any]:
        return {"kind": "tick", "name": self.name, "start": self.start}


Control = Slider | Choice | Tick


def controls(function: Callable[..., Any], abbreviations: Mapping[str, Any]) -> list[Control]:
    """One control for each keyword, starting at the function's own default where it has one."""
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in abbreviations:
        if name not in parameters and not takes_any:
            raise ValueError(f"{_name(function)}() has no parameter {name!r}: it takes {', '.join(parameters)}")
    for name, parameter in parameters.items():
        required = parameter.default is parameter.empty and parameter.kind not in (2, 4)
        if required and name not in abbreviations:
            raise ValueError(f"{name!r} of {_name(function)}() has neither a control nor a default: give it one")
    out = []
    for name, abbreviation in abbreviations.items():
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        out.append(_control(name, abbreviation, None if default is inspect.Parameter.empty else default))
    return out


def _control(name: str, given: Any, default: Any) -> Control:
    if isinstance(given, bool):
        return Tick(name, given if default is None else bool(default))
    if isinstance(given, Logarithmic):
        start = math.sqrt(given.min * given.max) if default is None else float(default)
        return _started(Slider(name, start, given.min, given.max, 1 / 40, integer=False, log=True))
    if isinstance(given, tuple) and len(given) in (2, 3) and all(_number(g) for g in given):
        return _started(_slider(name, given, default))
    if isinstance(given, Mapping) and given:
        return _choice(name, tuple(map(str, given)), tuple(given.values()), default)
    if isinstance(given, (list, range)) and len(given):
        return _choice(name, tuple(map(str, given)), tuple(given), default)
    raise ValueError(
        f"{name}={given!r} is no control: give (min, max), (min, max, step), logarithmic(min, max), a list or dict "
        "of choices, or True or False"
    )


def _slider(name: str, given: tuple[Any, ...], default: Any) -> Slider:
    low, high = given[:2]
    integer = all(isinstance(g, int) for g in given) and not isinstance(default, float)
    step = given[2] if len(given) == 3 else 1 if integer else (high - low) / 200
    if not (low < high and step > 0 and math.isfinite(high - low)):
        raise ValueError(f"{name}={given!r} is no range: give min < max and a step above 0")
    middle = low + (high - low) // 2 // step * step if integer else (low + high) / 2
    return Slider(name, middle if default is None else default, low, high, step, integer)


def _started(slider: Slider) -> Slider:
    slider.check(slider.start)
    return slider


def _choice(name: str, labels: tuple[str, ...], values: tuple[Any, ...], default: Any) -> Choice:
    if len(set(labels)) < len(labels):
        raise ValueError(f"{name} has two choices of one label: make the labels differ")
    choice = Choice(name, values[0], labels, values)
    return choice if default is None else Choice(name, choice.check(default), labels, values)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
