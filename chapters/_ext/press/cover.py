"""The picture of the cover: sines and cosines of 240 positions, the first positional encoding of this kind."""

from __future__ import annotations

import io

SIZE = (6.0, 9.0)  # inches; 200 dots each


def code(positions: int = 240, dim: int = 96) -> bytes:
    """The code alone, as PNG: a row for each pair of dimensions, a column for each position."""
    from matplotlib import image

    held = io.BytesIO()
    image.imsave(held, _values(positions, dim), cmap="RdBu_r", vmin=-1.6, vmax=1.6, format="png")
    return held.getvalue()


def cover(title: str) -> bytes:
    """The cover of an e-book, as PNG: the title above the code.

    Args:
        title: Of the book; what is behind a colon is its second line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    name, _, sub = title.partition(": ")
    figure = Figure(figsize=SIZE, dpi=200, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 0.6))
    axes.imshow(_values(240, 96), cmap="RdBu_r", vmin=-1.6, vmax=1.6, aspect="auto", interpolation="nearest")
    axes.set_axis_off()
    for number, word in enumerate(name.split()):
        figure.text(0.08, 0.85 - 0.085 * number, word, fontsize=38, fontweight="bold", color="#111")
    figure.text(0.08, 0.665, sub, fontsize=16, color="#444")
    held = io.BytesIO()
    figure.savefig(held, format="png")
    return held.getvalue()


def _values(positions: int, dim: int) -> list[list[float]]:
    import torch

    from posenc import sinusoidal

    values: list[list[float]] = sinusoidal(torch.arange(positions), dim, layout="half").T.tolist()
    return values
