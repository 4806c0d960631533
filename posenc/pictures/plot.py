"""Pictures in one style: the same axes, colours and scales in every chapter, legible in light and dark.

Each function returns a `Picture`, which has a text equivalent. This module needs matplotlib, but neither widgets nor
the bundled front end.
"""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from posenc._extras import extra
from posenc.book.notebook import book_mode
from posenc.pictures.svg import SWATCH, slim, themed
from posenc.pictures.theme import CYCLE, DARK, LIGHT, ROLES, lightness, table
from posenc.pictures.views import Clocks, Heatmap, Lines, Plane, Words
from posenc.schemes.registry import SCHEMES

with extra("plot"):
    import matplotlib as mpl
    import numpy as np
    from cycler import cycler
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Patch, Wedge
    from matplotlib.spines import Spine
    from matplotlib.text import Text
    from numpy.typing import ArrayLike

COLOURS = {
    **{name: light for name, (light, _) in ROLES.items()},
    **{name: scheme.colour for name, scheme in SCHEMES.items()},
}
"""Colours by name: those of roles on a light page, and those of schemes, which have a contrast of 3 to 1 or better on
white and on near-black."""

WORDS = 48  # the most on an axis
ROWS, LETTER = 3, 0.062  # of words below an axis, and the width of a letter in inches
LINE, NUMBER = 0.1, 0.34  # inches: the height of a word, and the width that a number of a map's axis needs

INK = "#010203"  # stands for the page's own text colour in an SVG
OVER, UNDER = (
    "#020101",
    "#fefdfd",
)  # what is read on a colour that is pale on a light page, or deep; in the dark reversed
HATCH = "////"
STYLE: Any = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.major.size": 3,
    "ytick.major.size": 3, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "font.size": 9, "lines.linewidth": 1.6,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "path",
    "svg.hashsalt": "posenc", "image.interpolation": "none", "axes.prop_cycle": cycler(color=CYCLE),
    "figure.constrained_layout.use": True, "legend.labelcolor": INK, "hatch.linewidth": 0.5,
}  # fmt: skip


class Picture:
    """A figure with a sentence that describes it to readers who cannot see it.

    A notebook shows a PNG. The book shows an inline SVG in the text colour of the page, legible in light and dark.

    Args:
        figure: A figure of matplotlib.
        alt: One sentence that says what is to be seen.

    Raises:
        ValueError: If `alt` is empty.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        if not alt.strip():
            raise ValueError("a picture needs alt: say in one sentence what is to be seen")
        self.figure, self.alt = figure, " ".join(alt.split())

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"

    def svg(self) -> str:
        """The figure as one `<svg>` element with the role of an image. Its ids are unique on a page of many."""
        with io.StringIO() as file, mpl.rc_context(STYLE):
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            text = file.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<(metadata|style).*?</\1>", "", text, flags=re.DOTALL)
        text = slim(themed(text)).replace(INK, "currentColor")
        text = text.replace(OVER, "var(--pe-over, #000)").replace(UNDER, "var(--pe-under, #fff)")
        for role, (light, _) in ROLES.items():
            text = text.replace(light, f"var(--pe-{role}, {light})")
        mark = "p" + hashlib.sha256(text.encode()).hexdigest()[:8] + "-"
        text = re.sub(r'\bid="', f'id="{mark}', text)
        text = re.sub(r'(href="#|url\(#)', rf"\g<1>{mark}", text)
        # A style element would change the whole page, so its rules stand on the svg element.
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
    """An empty figure in the style of the book. Draw on its axes, then pass it to `picture`.

    Args:
        width: In inches. Default: 7.
        height: In inches. Default: 3.2.
        rows: Rows of axes.
        cols: Columns of axes.
        **kwargs: Further keywords of `Figure.subplots`, such as `sharex`.

    Returns:
        The figure, and its axes as `Figure.subplots` returns them.

    Example:
        >>> fig, ax = figure(4, 3)
        >>> _ = ax.plot([1, 2, 3])
        >>> picture(fig, alt="a rising line")
        Picture: a rising line
    """
    with mpl.rc_context(STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        return fig, fig.subplots(rows, cols, **kwargs)


def picture(fig: Figure, alt: str) -> Picture:
    """A finished figure as a `Picture`. Black lines and text get the text colour of the page.

    Args:
        fig: The figure, as `figure` made it.
        alt: One sentence that says what is to be seen.

    Returns:
        A `Picture`.

    Raises:
        ValueError: If `alt` is empty.
    """
    drawn: list[Any] = [*fig.findobj(Text), *fig.findobj(Line2D), *fig.findobj(Spine)]
    for artist in drawn:
        if mpl.colors.same_color(artist.get_edgecolor() if isinstance(artist, Spine) else artist.get_color(), "black"):
            artist.set_color(INK)
    legends: list[Any] = fig.findobj(Legend)
    for legend in legends:
        legend.set_frame_on(False)
    return Picture(fig, alt)


def heatmap(matrix: ArrayLike, *, alt: str, **view: Any) -> Picture:
    """Draws a matrix as colours.

    Args:
        matrix: Numbers (rows, columns): a tensor, an array or lists.
        alt: One sentence that says what is to be seen.
        **view: The arguments of `Heatmap`, such as `x`, `y` and `scale`.

    Returns:
        A `Picture`.

    Example:
        >>> heatmap([[1, 0], [0, 1]], x="key", y="query", alt="a diagonal")
        Picture: a diagonal
    """
    return draw(Heatmap(**view), [_numpy(matrix)], alt=alt)


def lines(data: ArrayLike, at: ArrayLike | None = None, *, alt: str, **view: Any) -> Picture:
    """Draws curves over one axis.

    Args:
        data: Numbers (points,) or (lines, points).
        at: The horizontal positions (points,). Default: 0, 1, 2 and so on.
        alt: One sentence that says what is to be seen.
        **view: The arguments of `Lines`, such as `x`, `y` and `labels`.

    Returns:
        A `Picture`.

    Example:
        >>> lines([3, 2, 1], x="distance", y="weight", alt="a falling line")
        Picture: a falling line
    """
    y = np.atleast_2d(_numpy(data))
    shown = Lines(**view)
    x = np.arange(y.shape[1]) + shown.start if at is None else _numpy(at)
    return draw(shown, [x, y], alt=alt)


def plane(arrows: ArrayLike, *, alt: str, **view: Any) -> Picture:
    """Draws arrows from the origin of a plane.

    Args:
        arrows: Their tips (arrows, 2).
        alt: One sentence that says what is to be seen.
        **view: The arguments of `Plane`, such as `labels` and `limit`.

    Returns:
        A `Picture`.

    Example:
        >>> plane([[1, 0], [0, 1]], labels=["q", "k"], alt="two arrows at right angles")
        Picture: two arrows at right angles
    """
    return draw(Plane(**view), [_numpy(arrows)], alt=alt)


def draw(view: Heatmap | Lines | Plane | Clocks, data: Sequence[np.ndarray], *, alt: str) -> Picture:
    """Draws one view.

    Args:
        view: A `Heatmap`, `Lines`, `Plane` or `Clocks`.
        data: The tensors to draw, as `view.read` returns them.
        alt: One sentence that says what is to be seen.

    Returns:
        A `Picture`.

    Example:
        >>> view = Heatmap(x="key", y="query")
        >>> draw(view, [np.eye(3)], alt="a diagonal")
        Picture: a diagonal
    """
    if isinstance(view, Clocks):
        return _clocks(view, data[0], alt)
    if not isinstance(view, Lines) and view.tiles:
        return _tiled(view, data, alt)
    sizes = {"heatmap": (6.4, 3.4), "lines": (6.4, 2.8), "plane": (3.6, 3.6)}
    fig, ax = figure(*sizes[view.kind])
    draw_on(ax, view, data)
    return Picture(fig, alt)


def _tiled(view: Heatmap | Plane, data: Sequence[np.ndarray], alt: str) -> Picture:
    """Small pictures, four in a row: one for each matrix, or for each arrow."""
    parts = _numpy(data[0])
    across = min(4, len(parts)) or 1
    rows = -(-len(parts) // across) or 1
    fig, grid = figure(1.9 * across + 0.4, 2.1 * rows, rows=rows, cols=across, squeeze=False)
    for index, ax in enumerate(grid.flat):
        if index >= len(parts):
            ax.set_axis_off()
        elif isinstance(view, Heatmap):
            ends = limits(view, parts)
            draw_on(ax, replace(view, tiles=(), limits=ends, title=view.tiles[index]), [parts[index]])
        else:
            name = view.labels[index : index + 1]
            one = replace(view, tiles=False, labels=(), title=name[0] if name else "", colours=[colour(view, index)])
            draw_on(ax, one, [parts[index : index + 1]])
    return Picture(fig, alt)


BEYOND = "#d9381e"
"""What a hand has covered beyond the arc of its clock."""


def beyond(arc: float, hand: float) -> bool:
    """Whether a hand has left the arc of its clock; a full dial has no outside.

    Example:
        >>> beyond(1.0, 1.5), beyond(7.0, 20.0)
        (True, False)
    """
    return arc < 2 * np.pi and hand > 1.0005 * arc


def _clocks(view: Clocks, clocks: np.ndarray, alt: str) -> Picture:
    """Dials in rows of at most six: the arc, what the hand has covered beyond it, one step, and the hand."""
    across = -(-len(clocks) // -(-len(clocks) // 6)) if len(clocks) else 1
    rows = -(-len(clocks) // across) or 1
    fig, ax = figure(1.15 * across + 0.1, 1.6 * rows + (0.3 if view.title else 0.0))
    inked = colour(view, 0)
    for index, (arc, hand, step, right, up) in enumerate(clocks):
        x, y = 2.6 * (index % across), -3.6 * (index // across)
        start = 90 - min(360.0, float(np.degrees(arc)))
        ax.add_patch(Wedge((x, y), 1, start, 90, color=inked, alpha=0.32, linewidth=0))
        out = beyond(arc, hand)
        if out:
            ends = 90 - min(360.0, float(np.degrees(hand))), 90 - float(np.degrees(arc))
            ax.add_patch(Wedge((x, y), 1, *ends, color=BEYOND, alpha=0.5, linewidth=0))
        ax.add_patch(Circle((x, y), 1, fill=False, color=BEYOND if out else INK, linewidth=1.4 if out else 0.5))
        late = 90 - float(np.degrees(hand))
        ax.add_patch(Wedge((x, y), 1.13, late, late + float(np.degrees(step)), width=0.1, color=inked, linewidth=0))
        ax.plot([x, x + right], [y, y + up], color=BEYOND if out else INK, linewidth=1.8, solid_capstyle="round")
        name = f"{view.labels[index]}\n" if index < len(view.labels) else ""
        ax.text(x, y - 1.3, f"{name}{_turns(arc)}", ha="center", va="top", fontsize=8)
    ax.set(xlim=(-1.3, 2.6 * across - 1.3), ylim=(-3.6 * rows + 1.3, 1.2), aspect="equal")
    ax.set_axis_off()
    if view.title:
        ax.set_title(view.title)
    return Picture(fig, alt)


def _turns(angle: float) -> str:
    count = angle / (2 * np.pi)
    number = f"{count:.2g}" if count < 3 else f"{count:.0f}"
    return f"{number} {'turn' if number == '1' else 'turns'}"


def draw_on(ax: Axes, view: Heatmap | Lines | Plane, data: Sequence[np.ndarray]) -> None:
    """Draws one view on given axes, for figures with several.

    Args:
        ax: Axes of matplotlib, as from `figure`.
        view: A `Heatmap`, `Lines` or `Plane`.
        data: The tensors to draw, as `view.read` returns them.
    """
    drawn = [_numpy(part) for part in data]
    with mpl.rc_context(STYLE):
        if isinstance(view, Heatmap):
            _heatmap(ax, view, drawn[0])
        elif isinstance(view, Lines):
            _lines(ax, view, *drawn)
        else:
            _plane(ax, view, drawn[0])
        if view.title:
            above = math.ceil(len(view.labels) / 4) if isinstance(view, Lines) else 0  # rows of the legend
            ax.set_title(view.title, pad=6 + 12 * above + (4 if above else 0))


def level(ax: Axes, height: float, name: str) -> None:
    """Draws a dotted line across axes, with its name beside them: what curves are to be compared with.

    Args:
        ax: The axes.
        height: Where it lies, in units of the y axis.
        name: A word or two.
    """
    ax.axhline(height, color=INK, linewidth=0.8, linestyle="dotted")
    ax.text(1.01, height, name, fontsize=8, va="center", color=INK, transform=ax.get_yaxis_transform())


def limits(view: Heatmap, matrix: np.ndarray) -> tuple[float, float]:
    """The numbers (low, high) at the ends of the colours of a matrix (rows, columns).

    The limits of the view come first, otherwise those of the data. A diverging scale is symmetric about 0.

    Example:
        >>> limits(Heatmap(scale="diverging"), np.array([[-1.0, 3.0]]))
        (-3.0, 3.0)
    """
    if isinstance(view.limits, tuple):
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


def rounded(low: float, high: float, *, log: bool = False) -> tuple[float, float]:
    """Round numbers around a range, for the ends of an axis; powers of ten if it is logarithmic.

    Example:
        >>> rounded(-11.7, 0.3)
        (-12.0, 2.0)
        >>> rounded(0.03, 7, log=True)
        (0.01, 10.0)
    """
    if log:
        return 10.0 ** np.floor(np.log10(low)).item(), 10.0 ** np.ceil(np.log10(high)).item()
    if not low < high:
        low, high = low - 0.5, high + 0.5
    ticks = mpl.ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return float(ticks[0]), float(ticks[-1])


def colour(view: Lines | Plane | Words | Clocks, index: int) -> str:
    """The colour of line or arrow number `index` of a view, from `COLOURS` if it is given by name.

    Example:
        >>> colour(Lines(colours=["rope"]), 0) == COLOURS["rope"]
        True
    """
    given = view.colours[index] if index < len(view.colours) else CYCLE[index % len(CYCLE)]
    return COLOURS.get(given, given)


def css(view: Lines | Plane | Words | Clocks, index: int) -> str:
    """The same colour for a page: that of a role follows the page from light to dark.

    Example:
        >>> css(Lines(colours=["query", "rope"]), 0)
        'var(--pe-query, #0068a3)'
    """
    given = view.colours[index] if index < len(view.colours) else ""
    return f"var(--pe-{given}, {COLOURS[given]})" if given in ROLES else colour(view, index)


def _numpy(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu().double() if hasattr(value, "detach") else value, dtype=np.float64)


def _heatmap(ax: Axes, view: Heatmap, matrix: np.ndarray) -> None:
    low, high = limits(view, matrix)
    rows, columns = matrix.shape
    top, left = view.origin
    extent = (left - 0.5, left + max(columns, 1) - 0.5, top + max(rows, 1) - 0.5, top - 0.5)
    seen = np.ma.masked_invalid(matrix)
    aspect: Any = "equal" if rows == columns else "auto"
    image = ax.imshow(seen, cmap=_map(view.scale), vmin=low, vmax=high, aspect=aspect, extent=extent)
    image.set_gid(f"map-{view.scale}")
    hatched = bool(np.isinf(matrix).any())
    if hatched:
        ax.patch.set(facecolor="none", edgecolor="#808080", hatch=HATCH, linewidth=0)
    else:  # what has no number is a shade from the page, as the panels' own ground is
        ax.patch.set(facecolor=mpl.colors.to_rgba(INK, 0.06), linewidth=0)
    ax.set(xlabel=view.x, ylabel=view.y)
    ax.spines[:].set(visible=True, linewidth=0.5, alpha=0.35)
    bins = max(2, min(8, int(_room(ax) / NUMBER)))
    for axis, words, start in ((ax.xaxis, view.columns[:columns], left), (ax.yaxis, view.rows[:rows], top)):
        axis.set_major_locator(mpl.ticker.MaxNLocator(integer=True, nbins=bins))
        _name(axis, words, start)
    if view.digits is not None:
        _inscribe(ax, matrix, view, (low, high))
    swatches = [
        Patch(facecolor=tuple(image.to_rgba(np.asarray(value))), edgecolor=INK, linewidth=SWATCH)
        for value in view.names
    ]
    words = list(view.names.values())
    if hatched:
        swatches.append(Patch(facecolor="none", edgecolor="#808080", hatch=HATCH, linewidth=0))
        words.append(view.hatched)
    if view.names:
        ax.legend(swatches, words, loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0)
        return
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, fraction=0.05, aspect=24)
    bar.outline.set(linewidth=0.5, alpha=0.35, edgecolor=INK)
    solids: Any = bar.solids
    solids.remove()  # matplotlib would draw it with seams
    ends = (0, 1, low, high)
    strip = bar.ax.imshow(
        np.linspace(low, high, 255)[:, None], cmap=image.cmap, aspect="auto", origin="lower", extent=ends
    )
    strip.set_gid(f"map-{view.scale}")
    if hatched:
        bar.ax.legend(
            swatches, words, loc="upper left", bbox_to_anchor=(-0.6, -0.03), borderaxespad=0, handlelength=1.2
        )


def _map(scale: str) -> ListedColormap:
    return ListedColormap(np.array(table(scale)) / 255, name=scale)


def _inscribe(ax: Axes, matrix: np.ndarray, view: Heatmap, ends: tuple[float, float]) -> None:
    """Numbers in the cells, each in black or white by what is under it, unless the cells are too many for them."""
    if max(matrix.shape) > 16:
        return
    top, left = view.origin
    deep = [[_deep(colour) for colour in table(view.scale, ground)] for ground in (LIGHT, DARK)]
    for (row, column), value in np.ndenumerate(matrix):
        if np.isfinite(value):
            at = min(254, max(0, int((value - ends[0]) / (ends[1] - ends[0]) * 255)))
            light, dark = (each[at] for each in deep)
            colour = ("white" if light else "black") if light == dark else UNDER if light else OVER
            ax.text(
                left + column, top + row, f"{value:.{view.digits}f}", fontsize=8, ha="center", va="center", color=colour
            )


def _deep(colour: tuple[int, int, int]) -> bool:
    """Whether white is read better than black on a colour."""
    return lightness(f"#{bytes(colour).hex()}") < 49.6


def _room(ax: Axes, across: bool = True) -> float:
    """The length of an axis in inches; of a square picture both have that of the shorter one."""
    box = ax.get_window_extent()
    length = box.width if across else box.height
    return float(min(box.width, box.height) if ax.get_aspect() == 1 else length) / ax.figure.dpi


def _name(axis: Any, words: Sequence[str], start: int) -> None:
    """Words at the whole numbers of an axis, where there are any; of very many every second, third, …

    Below a picture they lie in up to three rows, by turns, so that none has to lean.
    """
    words = [str(word) for word in words]
    if not words:
        return
    every, rows = math.ceil(len(words) / WORDS), 1
    across = axis.axis_name == "x"
    room = _room(axis.axes, across)
    if not across:
        every = max(every, math.ceil(LINE * len(words) / room))
    else:
        needed = LETTER * (max(map(len, words)) + 1) * len(words) / room  # rows
        every = max(every, math.ceil(needed / ROWS))
        rows = math.ceil(needed / every)
    places = range(0, len(words), every)
    names = ["\n" * (count % rows) + str(words[place]) for count, place in enumerate(places)]
    axis.set_ticks([start + place for place in places], names)


def _lines(ax: Axes, view: Lines, x: np.ndarray, y: np.ndarray) -> None:
    marks = [view.mark] * len(y) if isinstance(view.mark, str) else [*view.mark, *["line"] * len(y)][: len(y)]
    bars = [index for index, mark in enumerate(marks) if mark == "bar"]
    wide = 0.76 * (np.diff(np.sort(x)).min() if len(x) > 1 else 1) / max(1, len(bars))
    y = np.where(np.isfinite(y), y, np.nan)  # matplotlib leaves gaps for these only
    for index, (line, mark) in enumerate(zip(y, marks, strict=True)):
        label = view.labels[index] if index < len(view.labels) else None
        look: dict[str, Any] = {"color": colour(view, index), "label": label}
        if mark == "bar":
            ax.bar(x + wide * (bars.index(index) + 0.5 - len(bars) / 2), line, wide, **look)
        elif mark == "step":
            ax.step(x, line, where="mid", **look)
        elif mark.startswith("line") and len(x) != 1:
            ax.plot(x, line, marker="o" if mark == "line+dot" else None, markersize=3.5, **look)
        else:
            ax.plot(x, line, marker="o", markersize=3.5, linestyle="none", **look)
            if mark == "stem":
                ax.vlines(x, 0, line, color=look["color"], linewidth=1.1)
    for lower, upper in view.bands:
        ax.fill_between(x, y[lower], y[upper], color=colour(view, upper), alpha=0.18, linewidth=0)
    ax.set(xlabel=view.x, ylabel=view.y)
    ax.grid(axis="y", linewidth=0.4, alpha=0.35, color=INK)
    if view.log_x:
        ax.set_xscale("log")
    if view.log_y:
        ax.set_yscale("log")
    _name(ax.xaxis, view.ticks[: int(x.max(initial=-1)) + 1], 0)
    if isinstance(view.limits, tuple):
        ax.set_ylim(*view.limits)
    end, down = -math.inf, 0  # of the name before, and the line that it stands in
    for name, at in sorted(view.landmarks.items(), key=lambda landmark: landmark[1]):
        ax.axvline(at, color=INK, linewidth=0.8, linestyle="dotted")
        begin = ax.transData.transform((at, 1))[0] / ax.figure.dpi
        down = down + 1 if begin < end else 0
        end = max(end, begin + LETTER * (len(name) + 2))
        ax.annotate(
            name,
            (at, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -9 - 10 * down),
            textcoords="offset points",
            fontsize="small",
        )
    if view.labels:
        ax.legend(ncols=min(4, len(view.labels)), loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)


def _plane(ax: Axes, view: Plane, tips: np.ndarray) -> None:
    turn = np.linspace(0, 2 * np.pi, 181)
    ax.plot(np.cos(turn), np.sin(turn), color=INK, linewidth=0.6, alpha=0.35)
    for index, (x, y) in enumerate(tips):
        ax.annotate(
            "",
            (x, y),
            (0, 0),
            arrowprops={"arrowstyle": "-|>", "color": colour(view, index), "lw": 1.8, "shrinkA": 0, "shrinkB": 0},
        )
        if index < len(view.labels):
            ax.annotate(
                view.labels[index],
                (x, y),
                xytext=(4 if x >= 0 else -4, 4 if y >= 0 else -4),
                textcoords="offset points",
                ha="left" if x >= 0 else "right",
                va="bottom" if y >= 0 else "top",
            ).set_in_layout(False)
    bound = view.limit
    ax.set(xlim=(-bound, bound), ylim=(-bound, bound), aspect="equal", xlabel=view.x, ylabel=view.y)
    ax.grid(linewidth=0.4, alpha=0.25, color=INK)
