"""Cards for those who share a link: each page's first picture under its title, 1200 by 630 pixels, and the tags for it.

The pictures are the still ones of the built pages, which matplotlib has written as SVG. What it writes has seven kinds
of elements, so it draws them again here, and a build needs no browser. Cards are made where the site has an address.
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D
from PIL import Image
from sphinx.application import Sphinx

WIDTH, HEIGHT, DENSITY = 1200, 630, 100
LARGEST = 30_000  # bytes, if fewer colours can do it
INK, SOFT, HIDDEN = "#1d2329", "#57616d", "#e4e6ea"
PANEL = re.compile(r'<div class="pe-stills">(.*?)</div>\s*(?:<p class="pe-caption"|<script)', re.DOTALL)
SENTENCES = re.compile(r'<table class="pe-words".*?</table>', re.DOTALL)
READER = re.compile(r'<tr style="--pe-colour: ([^"]*)"><th scope="row">([^<]*)</th>(.*?)</tr>', re.DOTALL)
WORD = re.compile(r'--pe-ink: (\d+)%">([^<]*)</span>')
PICTURE = re.compile(r'<svg role="img".*?</svg>', re.DOTALL)
ROOM = (56, 196, WIDTH - 112, HEIGHT - 196 - 40)  # for pictures: left, top, width, height
NUMBER = re.compile(r"-?\d*\.?\d+(?:e-?\d+)?")
POINTS = {"M": 1, "L": 1, "Q": 2, "C": 3, "z": 0, "Z": 0}
CODES = {"M": [Outline.MOVETO], "L": [Outline.LINETO], "Q": 2 * [Outline.CURVE3], "C": 3 * [Outline.CURVE4]}


def pictures(body: str) -> list[str]:
    """The still pictures that stand for a page: two of its first panel, or its first figure.

    Args:
        body: A page's HTML.

    Returns:
        Elements `<svg>`, none if the page has none.
    """
    for panel in PANEL.finditer(body):
        if found := PICTURE.findall(panel[1]) or [_sentences(table) for table in SENTENCES.findall(panel[1])]:
            return found[:2]
    return PICTURE.findall(body)[:1]


def _sentences(table: str) -> str:
    """Sentences whose words are inked, as an SVG."""
    parts, y = [], 0
    for colour, name, row in READER.findall(table):
        parts.append(f'<text x="0" y="{y + 18}">{name}</text>')
        x = 150.0
        for ink, word in WORD.findall(row):
            wide = 8.5 * len(html.unescape(word)) + 12
            look = f"fill: {colour}; fill-opacity: {0.0085 * int(ink):.2f}"
            parts.append(f'<rect x="{x:.0f}" y="{y}" width="{wide - 2:.0f}" height="26" style="{look}"/>')
            parts.append(f'<text x="{x + 6:.0f}" y="{y + 18}">{word}</text>')
            x += wide
        y += 30
    return f'<svg viewBox="0 0 {x:.0f} {y}">{"".join(parts)}</svg>'


def card(title: str, svgs: list[str], above: str) -> bytes:
    """A picture to share, as a PNG of few colours.

    Args:
        title: The page's.
        svgs: Pictures, as `pictures` finds them.
        above: A line above the title.

    Returns:
        The file's content, some ten to thirty thousand bytes.
    """
    ax = _sheet()
    ax.text(56, 64, above, size=17, color=SOFT, va="center")
    name = ax.text(56, 128, title, size=38, weight="bold", color=INK, va="center")
    figure: Any = ax.figure
    wide = name.get_window_extent(FigureCanvasAgg(figure).get_renderer()).width
    name.set_fontsize(38 * min(1, (WIDTH - 112) / max(wide, 1)))
    left, top, width, height = ROOM
    trees = [ET.fromstring(svg) for svg in svgs]
    boxes = [_inked(tree) for tree in trees]
    if len(trees) > 1 and (width - 40) / sum(box[2] / box[3] for box in boxes) < 0.6 * height:
        trees, boxes = trees[:1], boxes[:1]  # both would be small
    shape = sum(box[2] / box[3] for box in boxes)  # the width of pictures of equal heights, in heights
    if trees:
        high = min(height, (width - 40 * (len(trees) - 1)) / shape)
        at = left + (width - high * shape - 40 * (len(trees) - 1)) / 2
        for tree, box in zip(trees, boxes, strict=True):
            scale = high / box[3]
            corner = Affine2D().translate(-box[0], -box[1])
            _draw(ax, tree, corner.scale(scale).translate(at, top + (height - high) / 2), scale)
            at += scale * box[2] + 40
    drawn = Image.fromarray(_pixels(ax))
    for colours in (64, 24, 12):
        with io.BytesIO() as file:
            drawn.quantize(colours, dither=Image.Dither.NONE).save(file, format="png", optimize=True)
            found = file.getvalue()
        if len(found) <= LARGEST:
            break
    return found


def tags(address: str, page: str, title: str, book: str) -> str:
    """What networks read of a page: its card, and how large it is."""
    name = html.escape(title, quote=True)
    return "".join(
        f'<meta {kind}="{key}" content="{value}" />\n'
        for kind, key, value in (
            ("property", "og:image", f"{address}_static/cards/{page}.png"),
            ("property", "og:image:width", WIDTH),
            ("property", "og:image:height", HEIGHT),
            ("property", "og:image:alt", f"{name}, in {html.escape(book, quote=True)}"),
            ("name", "twitter:card", "summary_large_image"),
        )
    )


def shared(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Draw the card of a page with a picture; others, such as lists of terms, have that of the first page."""
    address, root = app.config.html_baseurl, app.config.root_doc
    if not address or doctree is None:
        return
    found = pictures(context.get("body", ""))
    title = html.unescape(re.sub(r"<[^>]*>", "", context.get("title", "")))
    stem = page.rpartition("/")[2]
    above = "An executable textbook" if page == root else app.config.project
    if found or page == root:
        folder = Path(app.outdir) / "_static" / "cards"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.png").write_bytes(card(title, found, above))
    else:
        stem = root.rpartition("/")[2]
    context["metatags"] = context.get("metatags", "") + tags(address, stem, title, app.config.html_title)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", shared, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _sheet() -> Axes:
    figure = Figure(figsize=(WIDTH / DENSITY, HEIGHT / DENSITY), dpi=DENSITY, facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0), autoscale_on=False)
    ax.set_axis_off()
    return ax


def _pixels(ax: Axes) -> np.ndarray:
    figure: Any = ax.figure
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def _inked(tree: ET.Element) -> tuple[float, float, float, float]:
    """The part of a picture that is not white: left, top, width and height in its own units."""
    x, y, width, height = (float(n) for n in tree.get("viewBox", "0 0 1 1").split())
    scale, ax = min(WIDTH / width, HEIGHT / height), _sheet()
    _draw(ax, tree, Affine2D().translate(-x, -y).scale(scale), scale)
    rows, columns = np.nonzero((_pixels(ax) < 250).any(-1))
    left, top = columns.min() / scale, rows.min() / scale
    return x + left, y + top, (columns.max() + 1) / scale - left, (rows.max() + 1) / scale - top


def _draw(ax: Axes, tree: ET.Element, place: Affine2D, scale: float) -> None:
    """All that an SVG of matplotlib shows, at a place of the card."""
    named = {element.get("id"): element for element in tree.iter() if element.get("id")}
    scene = {"fill": "black", "stroke": "none", "stroke-width": "1"}

    def paint(element: ET.Element, style: dict[str, str], before: Any, clip: str) -> None:
        tag = element.tag.rpartition("}")[2]
        if tag in ("defs", "clipPath", "pattern") or element.get("class") == "pe-dark":
            return
        style = {**style, **_style(element)}
        here = _transform(element.get("transform", "")) + before
        clip = element.get("clip-path", clip)
        if tag == "use":
            target = named[next(value for key, value in element.items() if key.endswith("href")).removeprefix("#")]
            moved = Affine2D().translate(float(element.get("x", 0)), float(element.get("y", 0))) + here
            return paint(target, style, moved, clip)
        artist: Any = None
        if tag == "path":
            artist = ax.add_patch(PathPatch(_outline(element.get("d", "")), **_look(style, scale)))
        elif tag == "rect":
            x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
            artist = ax.add_patch(Rectangle((x, y), width, height, **_look(style, scale)))
        elif tag == "image":
            data = next(value for key, value in element.items() if key.endswith("href")).partition("base64,")[2]
            x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
            cells = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
            extent = (x, x + width, y + height, y)
            artist = ax.imshow(cells, extent=extent, aspect="auto", interpolation="nearest")
        elif tag == "text":
            x, y = here.transform((float(element.get("x", 0)), float(element.get("y", 0))))
            ax.text(x, y, element.text or "", size=15 * scale * 72 / DENSITY, color=INK)
        if artist is not None:
            artist.set(transform=here + ax.transData, zorder=len(ax.get_children()))
            if clip:
                box = named[clip[5:-1]][0]
                x, y, width, height = (float(box.get(name, 0)) for name in ("x", "y", "width", "height"))
                artist.set_clip_path(Rectangle((x, y), width, height, transform=place + ax.transData))
        for child in element:
            paint(child, style, here, clip)

    paint(tree, scene, place, "")
    ax.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))


def _style(element: ET.Element) -> dict[str, str]:
    pairs = [part.partition(":")[::2] for part in element.get("style", "").split(";") if ":" in part]
    return {key.strip(): value.strip() for key, value in pairs if "color-mix" not in value}


def _look(style: dict[str, str], scale: float) -> dict[str, Any]:
    """The keywords of a patch for declarations of CSS."""

    def colour(name: str) -> Any:
        value = style[name]
        if value == "none":
            return "none"
        if value.startswith("url("):
            return HIDDEN
        value = INK if value == "currentColor" else re.sub(r"var\([^,]*, *([^)]*)\)", r"\1", value)
        return value, float(style.get(f"{name}-opacity", 1))

    dashes = [scale * float(n) for n in NUMBER.findall(style.get("stroke-dasharray", ""))]
    points = 72 / DENSITY * scale * float(style["stroke-width"])
    return {
        "facecolor": colour("fill"), "edgecolor": colour("stroke"), "linewidth": points,
        "linestyle": (0, [72 / DENSITY * dash / max(points, 0.1) for dash in dashes]) if dashes else "solid",
        "joinstyle": "round", "capstyle": "butt",
    }  # fmt: skip


def _transform(text: str) -> Affine2D:
    """A list of transformations of SVG; the last is applied first."""
    found: Any = Affine2D()
    for name, given in re.findall(r"(\w+)\(([^)]*)\)", text):
        numbers = [float(n) for n in NUMBER.findall(given)]
        if name == "translate":
            one = Affine2D().translate(numbers[0], numbers[1] if len(numbers) > 1 else 0)
        elif name == "scale":
            one = Affine2D().scale(numbers[0], numbers[-1])
        elif name == "rotate":
            one = Affine2D().rotate(math.radians(numbers[0]))
        else:
            one = Affine2D.from_values(*numbers)
        found = one + found
    return found


def _outline(d: str) -> Outline:
    """A path of SVG whose letters are M, L, Q, C and z."""
    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    for letter, given in re.findall(r"([MLQCzZ])([^MLQCzZ]*)", d):
        numbers = [float(n) for n in NUMBER.findall(given)]
        if letter in "zZ":
            points.append((0, 0))
            codes.append(Outline.CLOSEPOLY)
            continue
        points += zip(numbers[::2], numbers[1::2], strict=True)
        codes += CODES[letter] * (len(numbers) // 2 // POINTS[letter])
    return Outline(points or [(0, 0)], codes or [Outline.MOVETO])
