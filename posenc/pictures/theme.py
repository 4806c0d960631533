"""The colours of the book, on a light page and on a dark one: pictures of matplotlib and panels take theirs from here.

A map of colours begins where the page ends: zero is the page's own ground, and the largest value is full ink. Between
the two lightness changes evenly (L* of CIE), so that twice the value is twice as far from the page.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

LIGHT, DARK = 0, 1
PAPER = ("#ffffff", "#14171b")
"""The ground of a page, light and dark."""
ROLES = {
    "query": ("#0068a3", "#5db3e8"),
    "key": ("#b34f00", "#ee8a45"),
    "value": ("#007a59", "#2dc49a"),
    "position": ("#a8467f", "#e39ac3"),
}
"""The colours of what takes part in attention. Pictures, panels, formulas and words share them."""
CYCLE = ("#0b7bc1", "#d55e00", "#009e73", "#c4669b", "#a57c00", "#8c6bb1", "#5a9a3c", "#808080")
"""The colours of lines that have none of their own, legible on both grounds."""
SCALES = ("sequential", "diverging", "cyclic", "discrete")
SIZE = 255  # colours of a map: an odd number, so that one of them stands for 0 in the middle

_INDIGO, _BLUE, _RUST = 266.0, 252.0, 38.0  # hues in OKLCh; blue and rust differ for the colour-blind too
_FULL = {"sequential": (20.0, 93.0), "diverging": (32.0, 76.0), "cyclic": (22.0, 88.0)}  # L* of full ink, by ground
_CHROMA = {"sequential": 0.125, "diverging": 0.125, "cyclic": 0.12}


@functools.cache
def stops(scale: str, ground: int = LIGHT) -> tuple[str, ...]:
    """Colours of a map at equal distances; what lies between two of them is mixed from both, channel by channel.

    Args:
        scale: "sequential" (0 is the ground, the largest value is ink), "diverging" (0, in the middle, is the ground;
            blue is less, red is more), "cyclic" (0 and 2π are the ground, π is ink) or "discrete" (labels).
        ground: `LIGHT` or `DARK`.

    Returns:
        The colours as `#rrggbb`, from the lowest value to the highest.

    Example:
        >>> stops("sequential")[0], stops("sequential", DARK)[0], stops("diverging")[16]
        ('#ffffff', '#14171b', '#ffffff')
    """
    if scale == "discrete":
        return tuple(CYCLE[len(CYCLE) * i // SIZE] for i in range(SIZE))
    if scale == "sequential":
        return tuple(_ink(scale, ground, i / 16, _INDIGO) for i in range(17))
    sides = [(abs(i) / 16, _BLUE if i < 0 else _RUST) for i in range(-16, 17)]
    if scale == "diverging":
        return tuple(_ink(scale, ground, share, hue) for share, hue in sides)
    # Both halves of a turn end in ink without a hue, so that the map has no seam.
    return tuple(_ink(scale, ground, 1 - share, hue, closed=True) for share, hue in sides)


def table(scale: str, ground: int = LIGHT) -> tuple[tuple[int, int, int], ...]:
    """The 255 colours of a map, as bytes of red, green and blue; panels mix the same from its stops.

    Example:
        >>> table("sequential")[0], len(table("cyclic", DARK))
        ((255, 255, 255), 255)
    """
    given = [_bytes(colour) for colour in stops(scale, ground)]
    mixed = []
    for i in range(SIZE):
        at, rest = divmod(i * (len(given) - 1), SIZE - 1)
        pairs = zip(given[at], given[min(at + 1, len(given) - 1)], strict=True)
        red, green, blue = (round(a + (b - a) * rest / (SIZE - 1)) for a, b in pairs)
        mixed.append((red, green, blue))
    return tuple(mixed)


def lightness(colour: str) -> float:
    """The lightness L* of a colour, from 0 (black) to 100 (white), as CIE 1976 defines it.

    Example:
        >>> round(lightness("#ffffff")), round(lightness("#777777"))
        (100, 50)
    """
    return _lightness(_linear(colour))


def _ink(scale: str, ground: int, share: float, hue: float, closed: bool = False) -> str:
    """The colour that is this share of the way from the page's ground to full ink."""
    if share == 0:
        return PAPER[ground]
    start = lightness(PAPER[ground])
    wanted = start + share * (_FULL[scale][ground] - start)
    # The page's ground has hardly a hue; full ink keeps some, unless the map is closed.
    chroma = _CHROMA[scale] * math.sin(math.pi * share * (1 if closed else 0.72))
    low, high = 0.0, 1.0
    for _ in range(20):  # of OKLab, which keeps hues, the lightness whose L* is the one that is wanted
        middle = (low + high) / 2
        low, high = (middle, high) if _lightness(_fit(middle, chroma, hue)) < wanted else (low, middle)
    return "#" + "".join(f"{round(255 * _gamma(channel)):02x}" for channel in _fit(high, chroma, hue))


def _fit(light: float, chroma: float, hue: float) -> list[float]:
    """A colour of OKLCh as linear sRGB, with as much chroma as a screen has."""
    for _ in range(60):
        rgb = _from_oklch(light, chroma, hue)
        if all(-1e-4 <= channel <= 1.0001 for channel in rgb):
            break
        chroma *= 0.96
    return [min(1.0, max(0.0, channel)) for channel in rgb]


def _from_oklch(light: float, chroma: float, hue: float) -> list[float]:
    """Björn Ottosson's OKLab (2020), from its cylinder to linear sRGB."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long, medium, short = (
        (light + x * a + y * b) ** 3
        for x, y in ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.2914855480))
    )
    rows = (
        (4.0767416621, -3.3077115913, 0.2309699292),
        (-1.2684380046, 2.6097574011, -0.3413193965),
        (-0.0041960863, -0.7034186147, 1.7076147010),
    )
    return [row[0] * long + row[1] * medium + row[2] * short for row in rows]


def _bytes(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _linear(colour: str) -> list[float]:
    channels = (byte / 255 for byte in _bytes(colour))
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def _gamma(channel: float) -> float:
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055


def _lightness(linear: Sequence[float]) -> float:
    luminance = sum(share * channel for share, channel in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 116 * luminance ** (1 / 3) - 16 if luminance > 216 / 24389 else luminance * 24389 / 27
