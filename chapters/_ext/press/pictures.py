"""Drawings of pages as PNG, since code hosts show no SVG, and neither does JupyterLab in a notebook of others."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import resvg_py
from PIL import Image

INK = "#1f2328"  # text on white
WIDEST, GAP = 1000.0, 12.0  # of a row of drawings, and between two, in pixels
ZOOM = 1.25
COLOURS = 64
POINT = 4 / 3  # pixels


@dataclass(frozen=True)
class Shot:
    """A drawing of a page."""

    svg: str

    @property
    def words(self) -> str:
        """What it shows, in words."""
        found = re.search(r'\baria-label="([^"]*)"', self.svg)
        return html.unescape(found[1]) if found else ""

    @property
    def size(self) -> tuple[float, float]:
        """Its width and height in pixels.

        Raises:
            LookupError: If it has none.
        """
        found = re.search(r'\bviewBox="\S+ \S+ (\S+) (\S+)"', self.svg)
        if found is None:
            raise LookupError(f"a drawing has no viewBox: {self.svg[:100]}")
        return float(found[1]) * POINT, float(found[2]) * POINT

    def at(self, x: float, y: float) -> str:
        """The drawing with its corner at a place of another, in colours of its own: there is no page to ask."""
        width, height = self.size
        opening, rest = self.svg.split(">", 1)
        opening = re.sub(r'\s(?:width|height)="[^"]*"', "", opening)
        placed = f'{opening} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}">{rest}'
        return re.sub(r"var\(--[\w-]+, *([^()]+)\)", r"\1", placed).replace("currentColor", INK)


def png(shots: Sequence[Shot]) -> bytes:
    """Drawings side by side, in as many rows as they need, on white.

    Args:
        shots: At least one.

    Raises:
        ValueError: If there is none.
    """
    if not shots:
        raise ValueError("there is no drawing to show")
    x = y = row = widest = 0.0
    placed = []
    for shot in shots:
        width, height = shot.size
        if x and x + width > WIDEST:
            x, y, row = 0.0, y + row + GAP, 0.0
        placed.append(shot.at(x, y))
        widest, row, x = max(widest, x + width), max(row, height), x + width + GAP
    whole = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{widest:g}" height="{y + row:g}">{"".join(placed)}</svg>'
    )
    drawn = resvg_py.svg_to_bytes(svg_string=whole, background="white", zoom=ZOOM, skip_system_fonts=True)
    with io.BytesIO() as file:
        few = Image.open(io.BytesIO(bytes(drawn))).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(file, format="PNG", optimize=True)
        return file.getvalue()
