"""One plotting voice: the same axes, colours and scales in every chapter, legible in light and dark.

Each function returns a :class:`Picture`, which carries its own text equivalent.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.spines import Spine
from matplotlib.text import Text
from numpy.typing import ArrayLike

from .notebook import book_mode
from .registry import SCHEMES
from .views import Heatmap, Lines, Plane

#: The hues of Okabe and Ito, told apart with every common form of colour blindness, at a lightness that keeps a
#: contrast of 3 to 1 or better on white and on near-black.
COLOURS = {
    "query": "#0b7bc1",
    "key": "#d55e00",
    "value": "#009e73",
    "position": "#c4669b",
    **{name: scheme.colour for name, scheme in SCHEMES.items()},
}
CYCLE = ("#0b7bc1", "#d55e00", "#009e73", "#c4669b", "#a57c00", "#8c6bb1", "#5a9a3c", "#808080")
MAPS = {"sequential": "viridis", "diverging": "RdBu_r", "cyclic": "twilight", "discrete": "tab20"}

INK = "#010203"  # stands for the page's own text colour in an SVG
STYLE: Any = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.major.size": 3,
    "ytick.major.size": 3, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "font.size": 9, "lines.linewidth": 1.6,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "path",
    "svg.hashsalt": "posenc", "image.interpolation": "none", "axes.prop_cycle": cycler(color=CYCLE),
    "figure.constrained_layout.use": True, "legend.labelcolor": INK,
}  # fmt: skip


class Picture:
    """A figure and the sentence that stands for it where it cannot be seen.

    ``text/plain`` is that sentence, which nbval compares; a notebook shows a PNG, the book an inline SVG that takes
    the page's text colour, so that light and dark are both legible.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        if not alt.strip():
            raise ValueError("a picture needs alt: say in one sentence what is to be seen")
        self.figure, self.alt = figure, " ".join(alt.split())

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"

    def svg(self) -> str:
        """The figure as one ``<svg>`` element with the role of an image; its ids are its own on a page of many."""
        with io.StringIO() as file, mpl.rc_context(STYLE):
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            text = file.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL).replace(INK, "currentColor")
        # Inside a page a style element would style the page: what it says goes on the element itself.
        text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
        mark = "p" + hashlib.sha256(text.encode()).hexdigest()[:8] + "-"
        text = re.sub(r'\bid="', f'id="{mark}', text)
        text = re.sub(r'(href="#|url\(#)', rf"\g<1>{mark}", text)
        return text.replace(
            "<svg",
            f'<svg role="img" aria-label="{html.escape(self.alt)}" class="pe-picture" '
            'style="stroke-linejoin: round; stroke-linecap: butt"',
            1,
        )

    def png(self) -> bytes:
        """The figure as a PNG on white, at twice the screen's resolution."""
        with io.BytesIO() as file, mpl.rc_context(STYLE):
            self.figure.savefig(file, format="png", dpi=144, facecolor="white")
            return file.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if book_mode():
            return {"text/plain": repr(self), "text/html": f'<div class="pe-figure">{self.svg()}</div>'}
        return {"text/plain": repr(self), "image/png": self.png()}


def figure(width: float = 7.0, height: float = 3.2, rows: int = 1, cols: int = 1, **kwargs: Any) -> tuple[Figure, Any]:
    """An empty figure in the house style, ``width`` by ``height`` inches, and its axes as ``plt.subplots`` gives them.

    Hand it to :func:`picture` when it is drawn.
    """
    with mpl.rc_context(STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        return fig, fig.subplots(rows, cols, **kwargs)


def picture(fig: Figure, alt: str) -> Picture:
    """The finished figure, with ``alt`` as its text equivalent; what was drawn in black takes the house ink."""
    drawn: list[Any] = [*fig.findobj(Text), *fig.findobj(Line2D), *fig.findobj(Spine)]
    for artist in drawn:
        if mpl.colors.same_color(artist.get_edgecolor() if isinstance(artist, Spine) else artist.get_color(), "black"):
            artist.set_color(INK)
    legends: list[Any] = fig.findobj(Legend)
    for legend in legends:
        legend.set_frame_on(False)
    return Picture(fig, alt)


def heatmap(matrix: ArrayLike, *, alt: str, **view: Any) -> Picture:
    """A matrix (rows, columns) as colours; the keywords are :class:`posenc.Heatmap`'s."""
    return draw(Heatmap(**view), [_numpy(matrix)], alt=alt)


def lines(data: ArrayLike, at: ArrayLike | None = None, *, alt: str, **view: Any) -> Picture:
    """Curves (points,) or (lines, points) over ``at`` (points,); the keywords are :class:`posenc.Lines`'s."""
    y = np.atleast_2d(_numpy(data))
    shown = Lines(**view)
    x = np.arange(y.shape[1]) + shown.start if at is None else _numpy(at)
    return draw(shown, [x, y], alt=alt)


def plane(arrows: ArrayLike, *, alt: str, **view: Any) -> Picture:
    """Arrows (arrows, 2) from the origin; the keywords are :class:`posenc.Plane`'s."""
    return draw(Plane(**view), [_numpy(arrows)], alt=alt)


def draw(view: Heatmap | Lines | Plane, data: Sequence[np.ndarray], *, alt: str) -> Picture:
    """One view of the data that its ``read`` gave, as a picture."""
    sizes = {"heatmap": (6.4, 3.4), "lines": (6.4, 2.8), "plane": (3.6, 3.6)}
    fig, ax = figure(*sizes[view.kind])
    draw_on(ax, view, data)
    return Picture(fig, alt)


def draw_on(ax: Axes, view: Heatmap | Lines | Plane, data: Sequence[np.ndarray]) -> None:
    """Draw one view on given axes, for figures of several."""
    with mpl.rc_context(STYLE):
        if isinstance(view, Heatmap):
            _heatmap(ax, view, data[0])
        elif isinstance(view, Lines):
            _lines(ax, view, *data)
        else:
            _plane(ax, view, data[0])
        if view.title:
            ax.set_title(view.title)


def limits(view: Heatmap, matrix: np.ndarray) -> tuple[float, float]:
    """The ends of the colours: the view's own, else from the data, symmetric about 0 where the scale diverges."""
    if view.limits is not None:
        return view.limits
    finite = matrix[np.isfinite(matrix)]
    if view.scale == "cyclic":
        return (0.0, 2 * np.pi)
    if finite.size == 0:
        return (0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if view.scale == "diverging":
        high = max(abs(low), abs(high)) or 1.0
        return (-high, high)
    if view.scale == "discrete":
        return (low - 0.5, max(high, low + 1) + 0.5)
    return (low, high) if high > low else (low, low + 1.0)


def table(scale: str) -> bytes:
    """The 256 colours of a scale, three bytes each, as the front end paints with them."""
    return (mpl.colormaps[MAPS[scale]](np.linspace(0, 1, 256))[:, :3] * 255).round().astype(np.uint8).tobytes()


def colour(view: Lines | Plane, index: int) -> str:
    """The colour of a view's line or arrow, by name from :data:`COLOURS` or as it was given."""
    given = view.colours[index] if index < len(view.colours) else CYCLE[index % len(CYCLE)]
    return COLOURS.get(given, given)


def _numpy(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu().double() if hasattr(value, "detach") else value, dtype=np.float64)


def _heatmap(ax: Axes, view: Heatmap, matrix: np.ndarray) -> None:
    low, high = limits(view, matrix)
    rows, columns = matrix.shape
    top, left = view.origin
    extent = (left - 0.5, left + max(columns, 1) - 0.5, top + max(rows, 1) - 0.5, top - 0.5)
    with np.errstate(invalid="ignore"):
        image = ax.imshow(matrix, cmap=MAPS[view.scale], vmin=low, vmax=high, aspect="auto", extent=extent)
    ax.set(xlabel=view.x, ylabel=view.y)
    ax.spines[:].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(mpl.ticker.MaxNLocator(integer=True, nbins=8))
    figure = ax.figure
    bar = figure.colorbar(image, ax=ax, pad=0.02, fraction=0.05, aspect=24)
    bar.outline.set_visible(False)


def _lines(ax: Axes, view: Lines, x: np.ndarray, y: np.ndarray) -> None:
    for index, line in enumerate(y):
        label = view.labels[index] if index < len(view.labels) else None
        ax.plot(x, line, color=colour(view, index), label=label, marker="o" if len(x) == 1 else None)
    ax.set(xlabel=view.x, ylabel=view.y)
    ax.grid(axis="y", linewidth=0.4, alpha=0.35, color=INK)
    if view.log_x:
        ax.set_xscale("log")
    if view.log_y:
        ax.set_yscale("log")
    if view.limits:
        ax.set_ylim(*view.limits)
    if view.labels:
        ax.legend(ncols=min(4, len(view.labels)), loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)


def _plane(ax: Axes, view: Plane, tips: np.ndarray) -> None:
    turn = np.linspace(0, 2 * np.pi, 181)
    ax.plot(np.cos(turn), np.sin(turn), color=INK, linewidth=0.6, alpha=0.35)
    for index, (x, y) in enumerate(tips):
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour(view, index), "lw": 1.8,
                                                    "shrinkA": 0, "shrinkB": 0})  # fmt: skip
        if index < len(view.labels):
            ax.annotate(view.labels[index], (x, y), xytext=(4 if x >= 0 else -4, 4 if y >= 0 else -4),
                        textcoords="offset points", ha="left" if x >= 0 else "right",
                        va="bottom" if y >= 0 else "top").set_in_layout(False)  # fmt: skip
    bound = view.limit
    ax.set(xlim=(-bound, bound), ylim=(-bound, bound), aspect="equal", xlabel=view.x, ylabel=view.y)
    ax.grid(linewidth=0.4, alpha=0.25, color=INK)
