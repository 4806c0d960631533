"""Views: descriptions of a picture, which `plot` draws in a notebook and the front end draws in a panel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from posenc.pictures.theme import SCALES

# {slope} and {0} are places of numbers; the braces of \frac{a}{b} or x_{ij} are not, since they follow a sign of TeX.
PLACE = r"(?<![\w^}\\])\{([A-Za-z]\w*|\d+)\}"
MARKS = ("line", "line+dot", "step", "stem", "bar", "dot")


Limits = tuple[float, float] | Literal["all"] | None


def _limits(limits: Limits) -> None:
    if isinstance(limits, str) and limits != "all":
        raise ValueError(f'limits {limits!r} are unknown: give (low, high), or "all" for those of every state')
    if isinstance(limits, tuple) and not limits[0] < limits[1]:
        raise ValueError(f"limits {limits} are empty: give (low, high) with low < high")


def _tensor(value: Any, view: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{view} needs a tensor, the function returned {type(value).__name__}: return torch tensors")
    return value.detach().to(torch.float32) if value.requires_grad else value.to(torch.float32)


@dataclass(frozen=True)
class Heatmap:
    """A matrix as colours. Rows run downwards, columns to the right.

    As many rows as columns are drawn as a square. Cells that are infinite, such as masked logits, are hatched. On a
    light page small numbers are pale, and on a dark one dark: 0 is the page's own ground, and large numbers are ink.

    Args:
        x: Label of the columns.
        y: Label of the rows.
        scale: Kind of the numbers: "sequential" (weights), "diverging" (biases, symmetric about 0), "cyclic" (phases
            from 0 to 2π) or "discrete" (labels).
        limits: The numbers (low, high) at the ends of the colours, or "all" for those of every state that a panel can
            be in. Default: those of the data.
        origin: The index (row, column) of the first cell. Default: (0, 0).
        rows: A word for each row, in place of its index, such as the words of a sentence.
        columns: A word for each column.
        pick: The control of a panel that is set by a click on a row, which is then outlined; or a pair, the controls
            of rows and of columns, either of them perhaps "".
        tiles: A title for each of several matrices (tiles, rows, columns), which are drawn as small pictures.
        digits: Digits after the point of the numbers that are written into the cells, as far as they have room there.
            Default: no numbers.
        names: A name for each of a few numbers, such as `{1: "holds", 0: "fails"}`, in place of a scale.
        hatched: What cells that are infinite are called. Default: "hidden".
        title: A title above the picture.

    Raises:
        ValueError: If the scale is unknown or the limits are empty.

    Example:
        >>> [matrix.shape for matrix in Heatmap(x="key", y="query").read(torch.eye(3))]
        [torch.Size([3, 3])]
    """

    kind: ClassVar[str] = "heatmap"
    x: str = "column"
    y: str = "row"
    scale: str = "sequential"
    limits: Limits = None
    origin: tuple[int, int] = (0, 0)
    rows: Sequence[str] = field(default=())
    columns: Sequence[str] = field(default=())
    pick: str | tuple[str, str] = ""
    tiles: Sequence[str] = field(default=())
    digits: int | None = None
    names: Mapping[float, str] = field(default_factory=dict)
    hatched: str = "hidden"
    title: str = ""

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"scale {self.scale!r} is unknown: use one of {', '.join(SCALES)}")
        _limits(self.limits)

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to draw.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            One matrix (rows, columns), float32; with tiles (tiles, rows, columns).

        Raises:
            ValueError: For other shapes.
        """
        matrix = _tensor(value, "Heatmap")
        if self.tiles and (matrix.dim() != 3 or matrix.shape[0] != len(self.tiles)):
            wanted = f"({len(self.tiles)}, rows, columns)"
            raise ValueError(f"Heatmap with {len(self.tiles)} tiles needs {wanted}, got shape {tuple(matrix.shape)}")
        if not self.tiles and matrix.dim() != 2:
            raise ValueError(f"Heatmap needs a matrix (rows, columns), got shape {tuple(matrix.shape)}")
        return [matrix.contiguous()]


@dataclass(frozen=True)
class Lines:
    """Curves over one axis: y (points,) or (lines, points), or a pair (x, y) with x (points,).

    Args:
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        labels: A name for each line.
        colours: A colour for each line: a name in `plot.COLOURS`, or any colour of matplotlib.
        mark: How the points are drawn: "line", "line+dot", "step" (each value holds halfway to its neighbours), "stem",
            "bar" or "dot"; or a list of these, one for each line. Default: "line".
        bands: Pairs (lower, upper) of lines; what lies between the two is shaded.
        limits: The ends (low, high) of the vertical axis, or "all" for those of every state that a panel can be in.
            What lies beyond them is cut off. Default: those of the data.
        start: The first x if none is given. Default: 0.
        log_x: Whether the horizontal axis is logarithmic.
        log_y: Whether the vertical axis is logarithmic.
        ticks: A word for each whole number x, from 0: what stands there, in place of the number.
        rule: The control of a panel whose value is a place on the horizontal axis: a vertical line there moves it.
        level: The control whose value is a place on the vertical axis: a horizontal line there moves it.
        landmarks: Places on the horizontal axis that are marked, such as `{"trained": 128}`.
        drag: For lines, by number, the control that makes the line follow the pointer; or a pair, the controls for
            movements along the horizontal and the vertical axis. Of a step the border follows.
        sketch: Places on the horizontal axis, each with a control whose value is the height of a grip there:
            so the last line is drawn by hand. A pointer that is moved across sets all grips that it passes.
        title: A title above the picture.

    Raises:
        ValueError: If the limits are empty or a mark is unknown.

    Example:
        >>> x, y = Lines(x="distance", y="weight", start=1).read(torch.tensor([3.0, 2.0, 1.0]))
        >>> x.tolist(), y.shape
        ([1.0, 2.0, 3.0], torch.Size([1, 3]))
    """

    kind: ClassVar[str] = "lines"
    x: str = "x"
    y: str = "y"
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    mark: str | Sequence[str] = "line"
    bands: Sequence[tuple[int, int]] = field(default=())
    limits: Limits = None
    start: int = 0
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[str] = field(default=())
    rule: str = ""
    level: str = ""
    landmarks: Mapping[str, float] = field(default_factory=dict)
    drag: Mapping[int, str | tuple[str, str]] = field(default_factory=dict)
    sketch: Mapping[float, str] = field(default_factory=dict)
    title: str = ""

    def __post_init__(self) -> None:
        _limits(self.limits)
        for mark in [self.mark] if isinstance(self.mark, str) else self.mark:
            if mark not in MARKS:
                raise ValueError(f"mark {mark!r} is unknown: use one of {', '.join(MARKS)}")

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to draw.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            Both x (points,) and y (lines, points), float32.

        Raises:
            ValueError: For other shapes.
        """
        x, y = value if isinstance(value, (tuple, list)) and len(value) == 2 else (None, value)
        y = _tensor(y, "Lines")
        y = y.unsqueeze(0) if y.dim() == 1 else y
        if y.dim() != 2:
            raise ValueError(f"Lines needs y as (points,) or (lines, points), got shape {tuple(y.shape)}")
        if any(not 0 <= line < y.shape[0] for band in self.bands for line in band):
            raise ValueError(f"bands {list(self.bands)} name lines that are not there: y has {y.shape[0]}, from 0")
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
    """Arrows from the origin of a plane, with the unit circle. The data are the tips, (arrows, 2).

    Args:
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        labels: A name for each arrow.
        colours: A colour for each arrow: a name in `plot.COLOURS`, or any colour of matplotlib.
        limit: The half-width of the plane. Default: 1.2.
        drag: For arrows, by number, the control of a panel that makes the tip follow the pointer; or a pair of them.
        tiles: Whether each arrow has a small plane of its own.
        title: A title above the picture.

    Raises:
        ValueError: If `limit` is not positive.

    Example:
        >>> [tips.shape for tips in Plane(labels=["q", "k"]).read(torch.eye(2))]
        [torch.Size([2, 2])]
    """

    kind: ClassVar[str] = "plane"
    x: str = ""
    y: str = ""
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    limit: float = 1.2
    drag: Mapping[int, str | tuple[str, str]] = field(default_factory=dict)
    tiles: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise ValueError(f"limit {self.limit} leaves no plane: give a half-width above 0")

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to draw.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            The tips (arrows, 2), float32.

        Raises:
            ValueError: For other shapes.
        """
        tips = _tensor(value, "Plane")
        if tips.dim() != 2 or tips.shape[1] != 2:
            raise ValueError(f"Plane needs the tips of its arrows as (arrows, 2), got shape {tuple(tips.shape)}")
        return [tips.contiguous()]


@dataclass(frozen=True)
class Readout:
    """A few numbers with their names, below a panel. The data are (numbers,) or a scalar.

    Args:
        labels: A name for each number.
        digits: The number of decimals, for all or for each; None, among these, for four significant digits at most,
            where a number may be of several kinds. Default: 2.
        names: For numbers that stand for words, by their place, the words: of 0, of 1 and so on.
        title: A title above the numbers.

    Example:
        >>> Readout(labels=["loss"]).read(torch.tensor(1.5))
        [tensor([1.5000])]
    """

    kind: ClassVar[str] = "readout"
    labels: Sequence[str] = field(default=())
    digits: int | Sequence[int | None] = 2
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    title: str = ""

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to show.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            The numbers (numbers,), float32.

        Raises:
            ValueError: For other shapes.
        """
        numbers = _tensor(value, "Readout")
        numbers = numbers.reshape(1) if numbers.dim() == 0 else numbers
        if numbers.dim() != 1:
            raise ValueError(f"Readout needs a 1-D tensor of numbers, got shape {tuple(numbers.shape)}")
        return [numbers.contiguous()]


@dataclass(frozen=True)
class Formula:
    """A formula with the present numbers in it. The data are (numbers,) or a scalar, or None if it has none of its own.

    Args:
        tex: The formula in TeX. `{slope}` stands for the value of the control `slope`, which can be dragged; `{0}` for
            the first of the numbers. Other braces are TeX's own.
        digits: The number of decimals, for all numbers or for each. Default: 2.
        title: A title above the formula.

    Raises:
        ValueError: If `tex` has a number that the function does not return.

    Example:
        >>> Formula(r"-m\\,\\Delta = -{slope} \\times 5 = {0}").read(torch.tensor(-0.5))
        [tensor([-0.5000])]
    """

    kind: ClassVar[str] = "formula"
    tex: str
    digits: int | Sequence[int] = 2
    title: str = ""

    def places(self) -> list[str]:
        """What stands in the formula, in its order.

        Returns:
            The names of controls, and the numbers as digits.
        """
        return re.findall(PLACE, self.tex)

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to show.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            The numbers (numbers,), float32.

        Raises:
            ValueError: For other shapes.
        """
        numbers = torch.zeros(0) if value is None else _tensor(value, "Formula")
        numbers = numbers.reshape(1) if numbers.dim() == 0 else numbers
        wanted = 1 + max((int(place) for place in self.places() if place.isdigit()), default=-1)
        if numbers.dim() != 1 or numbers.shape[0] < wanted:
            raise ValueError(f"Formula needs {wanted} numbers as (numbers,), got shape {tuple(numbers.shape)}")
        return [numbers.contiguous()]


@dataclass(frozen=True)
class Words:
    """A sentence, once in each row, whose words are the darker the more weight they have.

    The data are the weights (rows, words), from 0 to 1, and for each row how much it has changed, (rows,). A change is
    written at the end of the row, in percent; none of all rows is written as long as all are 0.

    Args:
        words: The words of the sentence.
        labels: A name for each row.
        colours: A colour for each row: a name in `plot.COLOURS`, or any colour of matplotlib.
        pick: The control of a panel that a press on a word sets to the number of that word, from 0. Its word is framed.
        title: A title above the sentences.

    Raises:
        ValueError: If there are no words.

    Example:
        >>> weights, change = Words(["a", "b"]).read((torch.eye(2), torch.zeros(2)))
        >>> weights.shape, change.shape
        (torch.Size([2, 2]), torch.Size([2]))
    """

    kind: ClassVar[str] = "words"
    words: Sequence[str]
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    pick: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.words:
            raise ValueError("words is empty: give the words of a sentence")

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to show.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            The weights (rows, words) and the changes (rows,), float32.

        Raises:
            ValueError: For other shapes.
        """
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise ValueError("Words needs a pair: the weights (rows, words), and the change of each row, (rows,)")
        weights, change = (_tensor(part, "Words") for part in value)
        if weights.dim() != 2 or weights.shape[1] != len(self.words) or change.shape != weights.shape[:1]:
            shapes = f"{tuple(weights.shape)} and {tuple(change.shape)}"
            raise ValueError(f"Words needs (rows, {len(self.words)}) and (rows,), got shapes {shapes}")
        return [weights.contiguous(), change.contiguous()]


@dataclass(frozen=True)
class Clocks:
    """A clock for each angle, with the arc inked that has been covered before: a hand may go beyond it.

    The data are angles in radians, (clocks, 3), from the top and clockwise: the arc, the hand, and how far the hand
    goes in one step. An arc of a whole turn or more fills its dial, which no hand can leave. What a hand has
    covered beyond its arc is red.

    Args:
        labels: A name for each clock.
        colours: The colour of the arcs: a name in `plot.COLOURS`, or any colour of matplotlib, as a list of one.
        x: What the arc is called.
        y: What the hand is called.
        drag: The control of a panel that makes a hand follow the pointer.
        title: A title above the clocks.

    Example:
        >>> Clocks(drag="position").drag  # its hands follow the pointer
        'position'
    """

    kind: ClassVar[str] = "clocks"
    labels: Sequence[str] = field(default=())
    colours: Sequence[str] = field(default=())
    x: str = "arc"
    y: str = "hand"
    drag: str = ""
    title: str = ""

    def read(self, value: Any) -> list[Tensor]:
        """The tensors to draw.

        Args:
            value: What the function of a panel returned for this view.

        Returns:
            The angles and the tips of the hands, to the right and upwards, (clocks, 5), float32.

        Raises:
            ValueError: For other shapes.
        """
        angles = _tensor(value, "Clocks")
        if angles.dim() != 2 or angles.shape[1] != 3:
            raise ValueError(f"Clocks needs arcs, hands and steps as (clocks, 3), got shape {tuple(angles.shape)}")
        hand = angles[:, 1:2]
        return [torch.cat([angles, hand.sin(), hand.cos()], -1).contiguous()]


View = Heatmap | Lines | Plane | Readout | Formula | Words | Clocks
