"""Pictures of measurements. Matplotlib is imported when one is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc._properties.probe import FURTHEST

if TYPE_CHECKING:
    from posenc.pictures.plot import Picture


def picture_of(draw: Callable[..., Picture], *data: Any, what: str, **options: Any) -> Callable[[str], Picture]:
    return lambda finding: draw(*data, alt=f"{what}: {finding}.", **options)


def square(
    matrix: Tensor, *, alt: str, x: str, y: str, unit: str, scale: str = "sequential", start: int = 0, mark: int = -1
) -> Picture:
    """A square of colours, with a ring around a cell of its diagonal, such as the query's own; -1 marks none."""
    from posenc.pictures import plot
    from posenc.pictures.views import Heatmap

    fig, ax = plot.figure(4.4, 3.6)
    view = Heatmap(x=x, y=y, scale=scale, origin=(start, start))
    plot.draw_on(ax, view, [matrix.double().numpy()])
    ax.set_aspect("equal")
    fig.axes[1].set_ylabel(unit)
    if mark >= 0:
        ax.plot(mark, mark, marker="o", markersize=6, markerfacecolor="none", markeredgecolor="#222222")
    return plot.picture(fig, alt)


def overlay(
    curves: dict[str, Tensor],
    at: Tensor,
    *,
    alt: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    alike: bool = True,
    end: int = FURTHEST,
) -> Picture:
    """Overlaid curves. With alike=True earlier curves are wider, so that they stay visible under later ones."""
    from matplotlib import rc_context
    from matplotlib.ticker import MaxNLocator

    from posenc.pictures import plot, theme

    fig, ax = plot.figure(6.4, 2.8)
    values = torch.cat([*curves.values(), torch.zeros(0)])
    few = len(at) <= 20
    broader = (2.8 if _agree(list(curves.values())) else 1.4) * alike
    with rc_context(plot.STYLE):
        for index, (label, curve) in enumerate(curves.items()):
            width = 1.6 + broader * (len(curves) - 1 - index)
            ax.plot(
                at.tolist(),
                curve.tolist(),
                color=theme.CYCLE[index],
                label=label,
                linewidth=width,
                solid_capstyle="round",
                marker="o" if few else None,
                markersize=width + 2,
            )
        ax.set(xlabel=x, ylabel=y)
        if log_x:
            ax.set_xscale("log")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        positive = len(values) and float(values.min()) > 0
        if log_y or (positive and float(values.max()) > 100 * float(values.min())):
            ax.set_yscale("log")
        elif positive and len(curves) == 1:
            ax.set_ylim(0, 1.1 * float(values.max()))
        if end < FURTHEST:
            start, words = max(end, 1), "does not run here"
            ax.axvspan(start, FURTHEST, color=plot.INK, alpha=0.12, linewidth=0)
            ax.set_xlim(1, FURTHEST)
            if start <= 10_000:
                ax.annotate(
                    words,
                    (start, 0.5),
                    xytext=(6, 0),
                    xycoords=("data", "axes fraction"),
                    textcoords="offset points",
                    va="center",
                )
            else:  # too narrow for the words, which go above it
                ax.text(1, 1.02, words, ha="right", va="bottom", transform=ax.transAxes)
        ax.grid(axis="y", linewidth=0.4, alpha=0.35, color=plot.INK)
        if curves and [*curves] != [y]:
            by_row = [line for column in range(4) for line in ax.lines[column::4]]  # a legend fills its columns first
            ax.legend(handles=by_row, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
    return plot.picture(fig, alt)


def _agree(curves: list[Tensor]) -> bool:
    """Whether curves coincide to the eye."""
    if not curves:
        return True
    drawn = torch.stack(curves)
    room = 0.02 * float(drawn.max() - drawn.min()) + 1e-9 * float(drawn.abs().max())
    return float((drawn - drawn[0]).abs().max()) <= room


def bars(sizes: dict[str, int], *, alt: str, x: str) -> Picture:
    from posenc.pictures import plot, theme

    fig, ax = plot.figure(6.4, 0.9 + 0.35 * len(sizes))
    bars = ax.barh(list(sizes), list(sizes.values()), color=theme.CYCLE[0], height=0.6)
    ax.bar_label(bars, padding=4, fontsize=plot.STYLE["font.size"])
    ax.set(xlabel=x, xlim=(0, 1.15 * max(sizes.values())), xticks=[])
    ax.spines["bottom"].set_visible(False)
    ax.invert_yaxis()
    return plot.picture(fig, alt)


def words(*, alt: str) -> Picture:
    """A measurement without numbers."""
    from posenc.pictures import plot

    lines = textwrap.wrap(alt, 90)
    fig, ax = plot.figure(6.4, 0.4 + 0.2 * len(lines))
    ax.axis("off")
    ax.text(0, 0.5, "\n".join(lines), va="center", transform=ax.transAxes, fontsize=plot.STYLE["font.size"])
    return plot.picture(fig, alt)
