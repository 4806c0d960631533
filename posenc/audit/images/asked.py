"""The questions that are asked of an image model, and what their answers mean."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from posenc._version import __version__
from posenc.audit.adapters.copies import Uncopied, copied, module_of
from posenc.audit.adapters.protocol import Unfit
from posenc.audit.errors import error_line
from posenc.audit.images.looks import (
    RULES,
    Grid,
    beside,
    blocks,
    by_distance,
    grid_of,
    moves,
    named,
    places,
    resampled,
    varies,
)
from posenc.audit.images.pictures import Pictures
from posenc.audit.probe import deviation
from posenc.audit.report import Report
from posenc.audit.silence import quiet
from posenc.audit.verdict import FOLLOWS, Finding, Verdict
from posenc.audit.weights import randomise as draw

AXES = ("rows", "columns")
QUESTIONS = {
    "image.again": "the same image twice: are features the same?",
    "image.rows": "do rows of patches count, and by their distance where positions enter the scores alone?",
    "image.columns": "do columns of patches count, and by their distance where positions enter the scores alone?",
    "image.oblong": "an image that is no square: is each patch where it is in a square one?",
    "image.reference": "the same features as the reference?",
}
"""The tests of an image model, by name."""
SIXTEEN = 0.05  # how far scores may be off, over how far they vary, where angles or tables are rounded to 16 bits
HALF = 0.5  # of the codes of an image: what a rule has to explain, and how much better than another
OWN = next(iter(RULES))
AXIS_LOOK = "where rows and columns are made: meshgrid (indexing), the order of height and width, reshape and flatten"


def image_audit(
    model: Any,
    grid: Iterable[int],
    *,
    only: Iterable[str] | None = None,
    reference: Any = None,
    seed: int = 0,
    tolerance: float = 1e-3,
    randomise: bool = True,
) -> Report:
    """Asks an image model what rows and columns of patches do to attention.

    In an image that is one patch everywhere, places differ by position alone. So the scores of the first layer that
    knows positions say what a row and a column do. A square image is asked as well, since it hides mistakes of axes.

    Args:
        model: A module or a function that takes an image (1, C, H, W); of transformers also one that takes patches as
            a list with their `grid_thw`.
        grid: Rows and columns of patches, (h, w), 2 or more.
        only: Names of `QUESTIONS`. Default: all.
        reference: A model that should give the same features; it gets the same weights where names agree.
        seed, tolerance, randomise: As for `posenc.audit.audit`; randomise is True or False.

    Returns:
        The report.

    Raises:
        ValueError: If it takes no such image, or its attention cannot be seen.
    """
    begun = time.monotonic()
    sides = [int(each) for each in grid]
    if len(sides) != 2 or min(sides) < 2:
        raise Unfit(f"grid is {tuple(sides)}: use rows and columns of patches, such as (4, 6), each 2 or more")
    shape = (sides[0], sides[1])
    chosen = _chosen(only, reference is not None)
    asked = _Asked(model, shape, reference, seed, tolerance, randomise)
    findings = [asked.finding(name) for name in chosen]
    module = asked.pictures.module
    facts = {
        "model": type(model).__name__ if isinstance(model, nn.Module) else getattr(model, "__name__", "function"),
        "parameters": None if module is None else sum(p.numel() for p in module.parameters()),
        "grid": f"{shape[0]} by {shape[1]} patches of {asked.pictures.patch} by {asked.pictures.patch}",
        "square": f"{asked.square.shape[0]} by {asked.square.shape[1]}",
        "weights": "drawn anew" if asked.drawn else "as they are",
        "seed": seed,
        "tolerance": tolerance,
        "seconds": round(time.monotonic() - begun, 2),
        "posenc": __version__,
        "torch": torch.__version__,
    }
    return Report(tuple(findings), facts, tuple(asked.notes))


def _chosen(only: Iterable[str] | None, reference: bool) -> list[str]:
    names = [name for name in QUESTIONS if reference or name != "image.reference"]
    if only is None:
        return names
    only = [only] if isinstance(only, str) else list(only)
    for name in only:
        if name not in QUESTIONS:
            raise ValueError(f"there is no test {name!r} of images: use {', '.join(QUESTIONS)}")
    return [name for name in QUESTIONS if name in only]


class _Asked:
    """One image model, what its grids are, and what that means."""

    def __init__(
        self, model: Any, shape: tuple[int, int], reference: Any, seed: int, tolerance: float, randomise: bool
    ) -> None:
        self.notes: list[str] = []
        self.seed, self.tolerance, self.drawn = seed, tolerance, False
        self.shape = shape if shape[0] != shape[1] else (shape[0], max(2, shape[1] - 2))
        side = max(shape)
        self.sides = (side, side)
        self.pictures = self._made(model, randomise)
        self.square = self._grid(self.sides)
        native = self.pictures.native
        self.table = self.square
        if native is not None and native != self.sides and native[0] == native[1]:
            with contextlib.suppress(Unfit):  # then the smaller square has to do
                self.table = self._grid(native)
        self.oblong: Grid | None = None
        self.why = ""
        try:
            self.oblong = self._grid(self.shape)
        except Unfit as error:
            self.why = str(error)
        self.reference = None if reference is None else self._beside(reference, randomise)

    def _made(self, model: Any, randomise: bool) -> Pictures:
        """Of a copy in float64 with new weights, where that runs; else of the model as it is."""
        module = module_of(getattr(model, "_orig_mod", model))
        problem: Exception | None = None
        for dtype in (torch.float64, torch.float32) if module is not None else ():
            try:
                copy = copied(model, dtype)
                inner = module_of(copy)
                assert inner is not None
                inner.eval()
                if randomise:
                    with quiet(io.StringIO()):
                        draw(inner, self.seed)
                    self.drawn = True
                return Pictures(copy, inner, self.sides)
            except Uncopied as error:
                self.notes.append(f"The model cannot be copied ({error}), so it is audited as it is.")
                self.drawn = False
                break
            except Exception as error:  # no float64 in this kernel, or no image of this grid in this form
                problem, self.drawn = error, False
        if problem is not None and not self.notes:
            raise problem
        return Pictures(model, module, self.sides)

    def _grid(self, shape: tuple[int, int]) -> Grid:
        try:
            return grid_of(self.pictures.layers(*shape), shape)
        except Unfit:
            raise
        except Exception as error:  # such as a table of another size
            raise Unfit(f"an image of {shape[0]} by {shape[1]} patches raises {error_line(error, 80)}") from error

    def _beside(self, reference: Any, randomise: bool) -> tuple[Pictures, bool]:
        """The reference, and whether it has the model's weights."""
        other = self._made(reference, randomise)
        if self.pictures.module is None or other.module is None:
            return other, False
        ours, theirs = (dict(each.module.named_parameters()) for each in (self.pictures, other) if each.module)
        shared = {n: p.shape for n, p in ours.items()} == {n: p.shape for n, p in theirs.items()}
        if shared and self.drawn:
            with torch.no_grad():
                for name, p in theirs.items():
                    p.copy_(ours[name])
        return other, shared

    def finding(self, name: str) -> Finding:
        asked = getattr(self, "_" + name.removeprefix("image."))
        verdict, off, cause, look = asked()
        return Finding(name, QUESTIONS[name], verdict, off, cause, look)

    def _again(self) -> _Row:
        image = self.pictures.drawn(*self.square.shape)
        first, other = self.pictures.call(image), self.pictures.call(image)
        off = deviation(other, first)
        if off <= self.tolerance:
            return Verdict.PASS, off, "", ""
        return Verdict.FAILS, off, "Two calls with the same image disagree.", "dropout, random masks, something kept"

    def _rows(self) -> _Row:
        return self._axis(0)

    def _columns(self) -> _Row:
        return self._axis(1)

    def _axis(self, axis: int) -> _Row:
        grid, name, rest = self.square, AXES[axis], AXES[1 - axis]
        if grid.kind == "none":
            return Verdict.PROPERTY, None, "No position enters: scores are the same at all places.", ""
        if not varies(grid, axis):
            if not varies(grid, 1 - axis):
                return Verdict.PROPERTY, None, "Scores of one query are the same at all places.", ""
            return (
                Verdict.FAILS, None,
                f"The {name} of patches count nowhere, and {rest} do: patches apart in {name} alone get equal scores.",
                f"positions of {name}: the axis that they are made from, and the channels that they are given to",
            )  # fmt: skip
        off = moves(grid, axis)
        if grid.kind == "added":
            return Verdict.PROPERTY, off, f"Absolute: each place has a vector of its own, and {name} count.", ""
        if off <= self.tolerance:
            way = "Queries and keys are rotated" if grid.kind == "turned" else "A bias is added to scores"
            return Verdict.PASS, off, f"Relative: {_small(way)}, and a move along the {name} changes no score.", ""
        if off < SIXTEEN:
            return (
                Verdict.FAILS, off,
                f"Scores change with a move along the {name}, by little: angles, or their tables, are rounded.",
                "the dtype of positions, frequencies, cosines and sines",
            )  # fmt: skip
        return Verdict.FAILS, off, *self._unlike(grid, name)

    def _unlike(self, grid: Grid, name: str) -> tuple[str, str]:
        """Why scores are no function of the distance."""
        said = f"Scores change where query and key both move along the {name}, though positions enter the scores alone"
        even = not any(side % 2 for side in grid.shape)
        for words, at in (blocks(grid.shape) if even else {}).items():
            if by_distance(grid, at) <= self.tolerance:
                return (
                    f"{said}: {words}.",
                    "where positions of rows and columns are made: in the order in which patches are listed for the "
                    "merger",
                )
        return f"{said}.", "the rotation of queries and of keys: both along the same axes, in the same layout of pairs"

    def _oblong(self) -> _Row:
        if self.oblong is None:
            return Verdict.NOT_APPLICABLE, None, f"{self.why[:1].upper()}{self.why[1:]}.", ""
        grid, (h, w) = self.oblong, self.oblong.shape
        if grid.kind == "none":
            return Verdict.NOT_APPLICABLE, None, "No position enters.", ""
        if grid.kind != "added":
            return self._by_distance(grid)
        left = resampled(self.table, grid)
        best = min(left, key=lambda rule: left[rule])
        if best != OWN and left[best] < HALF * left[OWN] and left[best] < HALF:
            return (
                Verdict.FAILS, left[OWN],
                f"In an image of {h} by {w} patches, places are {named(best, (h, w))}; a square image may hide it.",
                f"{AXIS_LOOK}; of a table that is resampled, the order of x and y",
            )  # fmt: skip
        if left[OWN] < HALF:
            return Verdict.PASS, left[OWN], f"Places of {h} by {w} patches lie where a square image has them.", ""
        return (
            Verdict.PROPERTY, left[OWN],
            f"Places of {h} by {w} patches are no resampling of the square's that was recognised.", "",
        )  # fmt: skip

    def _by_distance(self, grid: Grid) -> _Row:
        h, w = grid.shape
        left = {rule: by_distance(grid, places(rule, grid.shape)[0]) for rule in list(RULES)[:3]}
        off = left.pop(OWN)
        square = max(moves(self.square, axis) for axis in (0, 1))
        if off <= self.tolerance:
            return Verdict.PASS, off, f"Scores of {h} by {w} patches are a function of the distance.", ""
        if off <= 2 * square:
            first = next(axis for axis in (0, 1) if moves(self.square, axis) > self.tolerance)
            return Verdict.FAILS, off, f"{FOLLOWS} `image.{AXES[first]}`.", ""
        rule = next((rule for rule, each in left.items() if each <= max(self.tolerance, 2 * square)), None)
        if rule is not None:
            return (
                Verdict.FAILS, off,
                f"In an image of {h} by {w} patches, places are {named(rule, (h, w))}; a square image hides it.",
                AXIS_LOOK,
            )  # fmt: skip
        return (
            Verdict.FAILS, off,
            f"Scores of {h} by {w} patches are no function of the distance, and those of a square are.", AXIS_LOOK,
        )  # fmt: skip

    def _reference(self) -> _Row:
        if self.reference is None:
            return Verdict.NOT_APPLICABLE, None, "No reference is given.", ""
        other, shared = self.reference
        shapes = [self.shape, self.square.shape]
        sizes = {}
        for shape in shapes:
            image = self.pictures.drawn(*shape)
            try:
                ours, theirs = self.pictures.call(image), other.call(image)
            except Exception as error:  # a size that one of them does not take
                self.notes.append(
                    f"Beside the reference, {shape[0]} by {shape[1]} patches raise {error_line(error, 80)}."
                )
                continue
            if ours.shape != theirs.shape:
                raise Unfit(
                    f"the reference returns {tuple(theirs.shape)} and the model {tuple(ours.shape)}: give two "
                    "models that return the same features"
                )
            sizes[shape] = deviation(ours, theirs)
        if not sizes:
            return Verdict.NOT_APPLICABLE, None, "Neither image is taken by both.", ""
        off = max(sizes.values())
        if off <= self.tolerance:
            return Verdict.PASS, off, "", ""
        worst = next(shape for shape, each in sizes.items() if not each <= self.tolerance)  # the oblong one says more
        off = sizes[worst]
        if self.drawn and not shared:
            self.notes.append("The reference has no parameters of the same names, so weights of the two are others.")
        at = f"in an image of {worst[0]} by {worst[1]} patches"
        where = (
            f"{at}, and in a square one they agree" if len(sizes) > 1 and min(sizes.values()) <= self.tolerance else at
        )
        left = beside({s: grid_of(other.layers(*s), s) for s in {worst, worst[::-1]}}, self._grid(worst))
        rule = next((r for r, each in left.items() if each <= self.tolerance), None)
        if rule == OWN:
            return (
                Verdict.FAILS,
                off,
                f"Features differ {where}, and scores of attention do not.",
                "what is not positional",
            )
        if rule is not None:
            return Verdict.FAILS, off, f"Places are {named(rule, worst)} (features differ {where}).", AXIS_LOOK
        return (
            Verdict.FAILS, off, f"Features differ {where}, and no exchange of axes explains it.",
            "the rates of each axis, and which channels are given to rows and to columns",
        )  # fmt: skip


_Row = tuple[Verdict, float | None, str, str]
"""Verdict, size, cause, and where to look."""


def _small(words: str) -> str:
    return f"{words[:1].lower()}{words[1:]}"
