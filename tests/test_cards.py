"""Cards for those who share a link: a page's own picture, drawn again from what matplotlib wrote, and its tags."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from posenc import Heatmap, plot
from posenc.pictures import theme

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chapters/_ext"))
cards = pytest.importorskip("cards", reason="the book's programs need Sphinx")

PIXELS = (cards.HEIGHT, cards.WIDTH)
MAP = plot.heatmap(torch.eye(8).masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf), limits=(0, 1), alt="a map")
WAVE = plot.lines(np.sin(np.arange(30)), labels=["a wave"], colours=["query"], alt="a wave")


def drawn(*svgs, title="Attention with position in it"):
    data = cards.card(title, list(svgs), "Positional Encodings")
    assert len(data) < 60_000
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert pixels.shape == (*PIXELS, 3)
    return pixels


def area(pixels, colour):
    return int((np.abs(pixels - np.array(colour)).max(-1) < 24).sum())


def test_a_card_shows_the_pictures_of_its_page():
    ink = theme.table("sequential")[-1]
    blue = tuple(int(theme.ROLES["query"][0][at : at + 2], 16) for at in (1, 3, 5))
    alone, both = drawn(MAP.svg()), drawn(MAP.svg(), WAVE.svg())
    side = alone.shape[0] - 236  # of the map, at most: 8 cells of 64 are full, and a bar beside has little
    assert 0.5 * side**2 / 8 < area(alone, ink) < 1.3 * side**2 / 8
    assert area(alone, blue) < 50 < area(both, blue)
    assert (alone[:40] == 255).all()  # a margin
    assert (alone[-30:] == 255).all()
    assert (both[:, -40:] == 255).all()


def test_a_picture_without_ink_is_a_card_without_a_picture():
    blank = '<svg role="img" viewBox="0 0 30 20"><rect width="30" height="20" fill="white"/></svg>'
    assert (drawn(blank)[200:] == 255).all()


def test_the_longest_title_fits():
    pixels = drawn(title="Encodings that do not exist in any model yet, in two lines or fewer")
    dark = np.nonzero((pixels[100:160] < 128).all(-1).any(0))[0]
    assert 50 < dark[0] < dark[-1] < cards.WIDTH - 40


def test_a_page_is_its_first_panel_or_its_first_figure():
    panel = f'<div class="pe-stills"><div class="pe-still">{MAP.svg()}</div></div><p class="pe-caption">'
    figure = f'<div class="pe-figure">{WAVE.svg()}</div>'
    assert cards.pictures(figure + panel) == [MAP.svg()]
    assert cards.pictures(figure) == [WAVE.svg()]
    assert cards.pictures("<p>words</p>") == []


def test_sentences_are_drawn_in_the_ink_of_their_words():
    words = (
        '<span class="pe-word" style="--pe-ink: 0%">the</span><span class="pe-word" style="--pe-ink: 100%">cat</span>'
    )
    row = f'<tr style="--pe-colour: #c02040"><th scope="row">RoPE</th><td><div>{words}</div></td></tr>'
    body = f'<div class="pe-stills"><table class="pe-words"><tbody>{row}</tbody></table></div><script'
    assert area(drawn(*cards.pictures(body)), (201, 64, 92)) > 1000


def test_networks_are_told_of_the_card():
    told = cards.tags("https://example.org/book/", "t5", "T5’s <relative> bias", "The book")
    assert 'property="og:image" content="https://example.org/book/_static/cards/t5.png"' in told
    assert 'name="twitter:card" content="summary_large_image"' in told
    assert "<relative>" not in told


@pytest.mark.parametrize("view", [Heatmap(scale="diverging", digits=1), Heatmap(scale="cyclic", names={0: "zero"})])
def test_whatever_a_map_is_drawn_with_is_drawn_again(view):
    assert area(
        drawn(plot.draw(view, [np.arange(9.0).reshape(3, 3)], alt="x").svg()), (255, 255, 255)
    ) < 0.97 * np.prod(PIXELS)
