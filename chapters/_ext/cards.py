"""Cards for those who share a link: each page's first picture under its title, 1200 by 630 pixels, and the tags for it.

The pictures are the still ones of the built pages. Cards are made where the site has an address.
"""

from __future__ import annotations

import html
import io
import math
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import resvg_py
from PIL import Image, ImageFont
from press.pictures import Shot
from sphinx.application import Sphinx

WIDTH, HEIGHT, GAP = 1200, 630, 40
LARGEST = 40_000  # bytes, if fewer colours can do it
INK, SOFT = "#1d2329", "#57616d"
FAMILY = "DejaVu Sans"  # which matplotlib brings
LETTERS = Path(mpl.get_data_path(), "fonts", "ttf")
FONTS = {"plain": LETTERS / "DejaVuSans.ttf", "bold": LETTERS / "DejaVuSans-Bold.ttf"}
PANEL = re.compile(r'<div class="pe-stills">(.*?)</div>\s*(?:<p class="pe-caption"|<script)', re.DOTALL)
SENTENCES = re.compile(r'<table class="pe-words".*?</table>', re.DOTALL)
READER = re.compile(r'<tr style="--pe-colour: ([^"]*)"><th scope="row">([^<]*)</th>(.*?)</tr>', re.DOTALL)
WORD = re.compile(r'--pe-ink: (\d+)%">([^<]*)</span>')
PICTURE = re.compile(r'<svg role="img".*?</svg>', re.DOTALL)
ROOM = (56, 196, WIDTH - 112, HEIGHT - 196 - 40)  # for pictures: left, top, width, height


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
        The file's content, some ten to forty thousand bytes.
    """
    left, top, width, height = ROOM
    wide = ImageFont.truetype(str(FONTS["bold"]), 100).getlength(title) / 100
    size = min(53, width / max(wide, 1))
    parts = [
        f'<text x="{left}" y="72" font-size="24" fill="{SOFT}">{html.escape(above)}</text>',
        f'<text x="{left}" y="148" font-size="{size:.1f}" font-weight="bold">{html.escape(title)}</text>',
    ]
    shots = [Shot(svg) for svg in svgs]
    boxes = [_inked(shot) for shot in shots]
    if len(shots) > 1 and (width - GAP) / sum(wide / high for _, _, wide, high in boxes) < 0.6 * height:
        shots, boxes = shots[:1], boxes[:1]  # both would be small
    if shots:
        shape = sum(wide / high for _, _, wide, high in boxes)  # of pictures of equal heights, in heights
        high = min(height, (width - GAP * (len(shots) - 1)) / shape)
        at = left + (width - high * shape - GAP * (len(shots) - 1)) / 2
        for shot, box in zip(shots, boxes, strict=True):
            scale = high / box[3]
            corner = f"translate({at:.2f} {top + (height - high) / 2:.2f})"
            move = f"{corner} scale({scale:.4f}) translate({-box[0]:.2f} {-box[1]:.2f})"
            parts.append(f'<g transform="{move}">{shot.at(0, 0)}</g>')
            at += scale * box[2] + GAP
    drawn = _rendered("".join(parts), WIDTH, HEIGHT)
    for colours in (64, 24, 12):
        with io.BytesIO() as file:
            drawn.quantize(colours, dither=Image.Dither.NONE).save(file, format="png", optimize=True)
            found = file.getvalue()
        if len(found) <= LARGEST:
            break
    return found


def _rendered(content: str, width: float, height: float) -> Image.Image:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} width="{width:g}" height="{height:g}"'
    drawn = resvg_py.svg_to_bytes(
        svg_string=f'{head} fill="{INK}" font-family="{FAMILY}">{content}</svg>', background="white",
        skip_system_fonts=True, font_files=[str(path) for path in FONTS.values()], font_family=FAMILY,
    )  # fmt: skip
    return Image.open(io.BytesIO(bytes(drawn))).convert("RGB")


def _inked(shot: Shot) -> tuple[float, float, float, float]:
    """The part of a picture that is not white: left, top, width and height in pixels."""
    rows, columns = np.nonzero((np.asarray(_rendered(shot.at(0, 0), *map(math.ceil, shot.size))) < 250).any(-1))
    if not rows.size:
        return 0.0, 0.0, *shot.size
    left, top = float(columns.min()), float(rows.min())
    return left, top, float(columns.max()) + 1 - left, float(rows.max()) + 1 - top


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
