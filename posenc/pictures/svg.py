"""Pictures of matplotlib for pages: for light ones and dark ones, and with a quarter of their elements."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from typing import Any

from posenc._extras import extra
from posenc.pictures.theme import DARK, SCALES, table

with extra("plot"):
    import numpy as np
    from PIL import Image

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_GLYPH = re.compile(r"[A-Za-z]|-?[\d.]+(?:e-?\d+)?")
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _LINK)


_CELLS = re.compile(r'<image [^>]*?href="data:image/png;base64,([^"]+)"[^>]*? id="map-(\w+)"[^>]*?/>')
SWATCH = 0.4  # the width of the line around a colour of a map in a legend, by which `themed` knows it
_SWATCH = re.compile(rf"fill: (#\w{{6}})(; stroke: #\w{{6}}; stroke-width: {SWATCH};)")


def themed(svg: str) -> str:
    """The same picture with the colours of its maps for a dark page beside those for a light one.

    Cells are images: there are two of each, and a page shows the one with its class, `pe-light` or `pe-dark`. Where no
    style sheet is, the light one is seen.

    Args:
        svg: An `<svg>` as matplotlib writes it, in which the id of an image of cells is `map-` and the scale.

    Returns:
        The same, with both.
    """
    dark = {light: deep for scale in SCALES for light, deep in zip(table(scale), table(scale, DARK), strict=True)}

    def both(match: re.Match[str]) -> str:
        cells = np.asarray(Image.open(io.BytesIO(base64.b64decode(match[1]))).convert("RGBA"))
        found, which = np.unique(cells.reshape(-1, 4), axis=0, return_inverse=True)
        ground: dict[Any, Any] = dict(zip(table(match[2]), table(match[2], DARK), strict=True))
        deep = np.array([(*ground[tuple(map(int, one[:3]))], one[3]) if one[3] else one for one in found])
        tag = match[0].replace(f' id="map-{match[2]}"', "")
        return "".join(
            tag.replace(match[1], _png(colours, which.reshape(cells.shape[:2]))).replace("<image", f"<image {name}", 1)
            for colours, name in ((found, 'class="pe-light"'), (deep, 'class="pe-dark" display="none"'))
        )

    def swatch(match: re.Match[str]) -> str:
        red, green, blue = (int(match[1][at : at + 2], 16) for at in (1, 3, 5))
        deep = "#" + bytes(dark[red, green, blue]).hex()
        return f"fill: {match[1]}; fill: color-mix(in srgb, {deep} var(--pe-dark, 0%), {match[1]}){match[2]}"

    return _SWATCH.sub(swatch, _CELLS.sub(both, svg))


def _png(colours: np.ndarray, which: np.ndarray) -> str:
    """Cells as a PNG in base64: the number of each cell's colour, and the colours."""
    image = Image.fromarray(which.astype(np.uint8), mode="P")
    image.putpalette(colours[:, :3].astype(np.uint8).tobytes())
    clear = (
        {"transparency": colours[:, 3].astype(np.uint8).tobytes().rstrip(b"\xff")}
        if (colours[:, 3] < 255).any()
        else {}
    )
    with io.BytesIO() as file:
        image.save(file, format="png", optimize=True, **clear)
        return base64.b64encode(file.getvalue()).decode()


def slim(svg: str) -> str:
    """The same picture with fewer elements: a path for each text, and no groups that only have a name.

    Matplotlib draws each letter with an element of its own that refers to an outline, and puts a named group around
    everything. A page of a dozen pictures has some thousand elements of both kinds.

    Args:
        svg: One `<svg>` element, as matplotlib writes it with `svg.fonttype: path`.

    Returns:
        One `<svg>` element that looks the same.

    Example:
        >>> line = '<g id="a"><path d="M 0 0 L 1 1 " style="stroke: red" /></g>'
        >>> slim(f'<svg xmlns="http://www.w3.org/2000/svg">{line}</svg>')
        '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0L1 1" style="stroke: red" /></svg>'
    """
    root = ET.fromstring(svg)
    outlines = {path.get("id"): path for path in root.iter(_tag("path")) if path.get("id")}
    _write(root, outlines)
    used = set(re.findall(r"#([^\")]+)", ET.tostring(root, encoding="unicode")))
    _flatten(root, used)
    for element in root.iter():
        element.text = element.tail = None
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if "d" in element.attrib:
            element.set("d", _tight(element.get("d", "")))
    return ET.tostring(root, encoding="unicode")


def _tag(name: str) -> str:
    return f"{{{_SVG}}}{name}"


def _write(parent: ET.Element, outlines: dict[str | None, ET.Element]) -> None:
    """Each group of letters becomes one path, in the units of its outlines."""
    for place, group in enumerate(list(parent)):
        letters = [child for child in group if child.tag == _tag("use")]
        named = [outlines.get(letter.get(f"{{{_LINK}}}href", "")[1:]) for letter in letters]
        scaled = [path is not None and path.get("transform", "").startswith("scale(") for path in named]
        if letters and all(scaled) and len(group) == len(letters) + len(group.findall(_tag("defs"))):
            drawn = [_placed(letter, path) for letter, path in zip(letters, named, strict=True) if path is not None]
            kept = {name: value for name, value in group.attrib.items() if name != "id"}
            parent[place] = ET.Element(_tag("path"), {"d": "".join(drawn), **kept})
        else:
            _write(group, outlines)


def _placed(letter: ET.Element, outline: ET.Element) -> str:
    """The outline of a letter where it stands: scaled, and moved by the letter's own translation (and scale)."""
    scale = float(re.findall(r"-?[\d.]+", outline.get("transform", ""))[0])
    dx = dy = 0.0
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\)", letter.get("transform", "")):
        numbers = [float(number) for number in arguments.replace(",", " ").split()]
        if name == "translate":
            dx, dy = numbers[0], (numbers[1] if len(numbers) > 1 else 0.0)
        else:  # letters of formulas may be smaller than those around them
            scale *= numbers[0]
    parts, vertical = [], False
    for token in _GLYPH.findall(outline.get("d", "")):
        if token.isalpha():
            parts.append(token)
            vertical = False
        else:
            value = float(token) * scale + (dy if vertical else dx)
            parts.append(f"{value:.1f}".rstrip("0").rstrip("."))
            vertical = not vertical
    return " ".join(parts)


def _flatten(parent: ET.Element, used: set[str]) -> None:
    """Takes groups out that have nothing but a name that nobody uses, empty definitions, and what is not painted."""
    kept: list[ET.Element] = []
    for child in parent:
        _flatten(child, used)
        plain = child.tag == _tag("g") and not set(child.attrib) - {"id"} and child.get("id") not in used
        if plain:
            kept += list(child)
        elif child.tag == _tag("defs"):
            child[:] = [one for one in child if one.get("id") in used]
            kept += [child] if len(child) else []
        elif child.get("style") != "fill: none":
            kept.append(child)
    parent[:] = kept


def _tight(path: str) -> str:
    """A path without the spaces that mean nothing."""
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(path.split()))
