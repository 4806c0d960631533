"""What an explorer shows: each view names its axes; how it is drawn is the business of plot.py and the front end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

SCALES = ("sequential", "diverging", "cyclic", "discrete")


def _tensor(value: Any, view: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{view} needs a tensor, the function returned {type(value).__name__}: return torch tensors")
    return value.detach().to(torch.float32) if value.requires_grad else value.to(torch.float32)


@dataclass(frozen=True)
class Heatmap:
    """A matrix as colours, rows running down and columns running right.

    The function returns a tensor (rows, columns). ``scale`` says what the numbers are: ``sequential`` (weights,
    from low to high), ``diverging`` (biases, about 0), ``cyclic`` (phases) or ``discrete`` (labels). ``limits``
    fixes the ends of the colours; without them they follow the data. ``origin`` is the index of the first
    (row, column).
    """

    kind: ClassVar[str] = "heatmap"
    x: str = "column"
    y: str = "row"
    scale: str = "sequential"
    limits: tuple[float, float] | None = None
    origin: tuple[int, int] = (0, 0)
    title: str = ""

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"scale {self.scale!r} is unknown: use one of {', '.join(SCALES)}")
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise ValueError(f"limits {self.limits} are empty: give (low, high) with low < high")

    def read(self, value: Any) -> list[Tensor]:
        """The drawn tensors, float32: one matrix (rows, columns)."""
        matrix = _tensor(value, "Heatmap")
        if matrix.dim() != 2:
            raise ValueError(f"Heatmap needs a matrix (rows, columns), got shape {tuple(matrix.shape)}")
        return [matrix.contiguous()]


@dataclass(frozen=True)
class Lines:
    """Curves over one axis.

    The function returns y as (points,) or (lines, points), or a pair (x, y) with x (points,); without x the points
    are numbered from ``start``. ``labels`` and ``colours`` go by line; ``limits`` fixes the vertical axis;
    ``log_x`` and ``log_y`` make an axis logarithmic.
    """

    kind: ClassVar[str] = "lines"
    x: str = "x"
    y: str = "y"
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    limits: tuple[float, float] | None = None
    start: int = 0
    log_x: bool = False
    log_y: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise ValueError(f"limits {self.limits} are empty: give (low, high) with low < high")

    def read(self, value: Any) -> list[Tensor]:
        """The drawn tensors, float32: x (points,) and y (lines, points)."""
        x, y = value if isinstance(value, (tuple, list)) and len(value) == 2 else (None, value)
        y = _tensor(y, "Lines")
        y = y.unsqueeze(0) if y.dim() == 1 else y
        if y.dim() != 2:
            raise ValueError(f"Lines needs y as (points,) or (lines, points), got shape {tuple(y.shape)}")
        if x is None:
            x = torch.arange(y.shape[-1], device=y.device) + self.start
        x = _tensor(x, "Lines")
        if x.dim() != 1:
            raise ValueError(f"Lines needs x as (points,), got shape {tuple(x.shape)}")
        if not torch.compiler.is_compiling() and x.shape[0] != y.shape[1]:
            raise ValueError(f"Lines has {x.shape[0]} values of x for {y.shape[1]} points of y: they must be equal")
        return [x.contiguous(), y.contiguous()]


@dataclass(frozen=True)
class Plane:
    """Arrows from the origin of a plane, on a unit circle.

    The function returns the tips, (arrows, 2). ``labels`` and ``colours`` go by arrow; ``limit`` is the half-width
    of the plane.
    """

    kind: ClassVar[str] = "plane"
    x: str = ""
    y: str = ""
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    limit: float = 1.2
    title: str = ""

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise ValueError(f"limit {self.limit} leaves no plane: give a half-width above 0")

    def read(self, value: Any) -> list[Tensor]:
        """The drawn tensors, float32: the tips (arrows, 2)."""
        tips = _tensor(value, "Plane")
        if tips.dim() != 2 or tips.shape[1] != 2:
            raise ValueError(f"Plane needs the tips of its arrows as (arrows, 2), got shape {tuple(tips.shape)}")
        return [tips.contiguous()]


@dataclass(frozen=True)
class Readout:
    """A few numbers, each with its name.

    The function returns (numbers,), or a scalar; ``labels`` names them, ``digits`` is the number of decimals.
    """

    kind: ClassVar[str] = "readout"
    labels: Sequence[str] = field(default=())
    digits: int = 2
    title: str = ""

    def read(self, value: Any) -> list[Tensor]:
        """The drawn tensors, float32: the numbers (numbers,)."""
        numbers = _tensor(value, "Readout")
        numbers = numbers.reshape(1) if numbers.dim() == 0 else numbers
        if numbers.dim() != 1:
            raise ValueError(f"Readout needs a 1-D tensor of numbers, got shape {tuple(numbers.shape)}")
        return [numbers.contiguous()]


View = Heatmap | Lines | Plane | Readout
