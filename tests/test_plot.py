"""Pictures: nbval never compares them, so what they draw and say is tested here."""

from __future__ import annotations

import base64
import io
import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
import torch
from matplotlib.image import imread
from matplotlib.text import Text
from PIL import Image
from scheme import ALIKE, HUES, distance, hue, to_lab

from posenc import Heatmap, Lines, Plane, plot
from posenc.pictures import theme
from posenc.pictures.svg import slim
from posenc.schemes.registry import SCHEMES
from tests.helpers import PAPERS, contrast

ROOT = Path(__file__).resolve().parents[1]

PICTURES = {
    "heatmap": lambda: plot.heatmap(torch.eye(4), x="dimension", y="position", alt="a diagonal"),
    "lines": lambda: plot.lines(torch.randn(2, 5), labels=["a", "b"], x="offset", y="score", alt="two lines"),
    "plane": lambda: plot.plane([[1.0, 0.0], [0.0, 1.0]], labels=["q", "k"], alt="two arrows at right angles"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_notebook_gets_a_png_and_the_sentence(name):
    picture = PICTURES[name]()
    bundle = picture._repr_mimebundle_()
    assert sorted(bundle) == ["image/png", "text/plain"]
    assert bundle["text/plain"] == f"Picture: {picture.alt}"
    image = imread(io.BytesIO(bundle["image/png"]))
    assert image[..., :3].std() > 0.02
    assert image[0, 0, :3].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", PICTURES)
def test_the_book_gets_an_svg_in_the_pages_own_colour(name, monkeypatch):
    monkeypatch.setenv("POSENC_BOOK", "1")
    bundle = PICTURES[name]()._repr_mimebundle_()
    assert sorted(bundle) == ["text/html", "text/plain"]
    svg = ET.fromstring(re.search(r"<svg.*</svg>", bundle["text/html"], re.DOTALL)[0])
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == bundle["text/plain"].removeprefix("Picture: ")
    assert "currentColor" in bundle["text/html"]
    assert plot.INK not in bundle["text/html"]
    assert "<style" not in bundle["text/html"]
    ids = re.findall(r'\bid="([^"]+)"', bundle["text/html"])
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', bundle["text/html"])) <= set(ids)


def test_ids_differ_between_pictures_and_a_picture_is_the_same_each_time():
    a, b = PICTURES["heatmap"]().svg(), PICTURES["plane"]().svg()
    assert not set(re.findall(r'\bid="([^"]+)"', a)) & set(re.findall(r'\bid="([^"]+)"', b))
    assert PICTURES["heatmap"]().svg() == a


def test_the_sentence_is_required_and_escaped():
    fig, _ = plot.figure()
    with pytest.raises(ValueError, match="alt"):
        plot.picture(fig, alt=" ")
    assert 'aria-label="&quot;&lt;b&gt;&quot;"' in plot.picture(fig, alt='"<b>"').svg()


def test_what_is_drawn_without_the_house_style_takes_its_ink():
    fig, axes = plot.figure()
    axes.plot([0, 1], label="a line")
    axes.legend(frameon=True)
    axes.set_title("a title")
    svg = plot.picture(fig, alt="one line with a legend").svg()
    assert "#000000" not in svg
    assert "#ffffff" not in svg


def test_a_view_drawn_on_given_axes_keeps_the_house_style():
    fig, axes = plot.figure(cols=2)
    for ax in axes:
        plot.draw_on(ax, Heatmap(title="cells"), [np.eye(3)])
    svg = plot.picture(fig, alt="two diagonals").svg()
    assert "#000000" not in svg
    assert axes[0].get_title(loc="left") == "cells"


def test_position_runs_down_and_dimension_runs_right():
    picture = plot.heatmap(torch.arange(6.0).reshape(2, 3), x="dimension", y="position", alt="six cells")
    (image,) = picture.figure.axes[0].images
    assert image.get_array().tolist() == [[0, 1, 2], [3, 4, 5]]
    left, right, bottom, top = image.get_extent()
    assert (left, right, top, bottom) == (-0.5, 2.5, -0.5, 1.5)


def test_lines_stand_at_their_points_in_their_colours():
    picture = plot.lines([[1.0, 2.0], [3.0, 4.0]], at=[10, 20], colours=["query", "#123456"], alt="two lines")
    drawn = picture.figure.axes[0].lines
    assert [line.get_xydata().tolist() for line in drawn] == [[[10, 1], [20, 2]], [[10, 3], [20, 4]]]
    assert [line.get_color() for line in drawn] == [plot.COLOURS["query"], "#123456"]


def test_a_level_has_its_name_to_the_right_of_all_curves():
    fig, ax = plot.figure()
    plot.draw_on(ax, Lines(log_x=True), [np.array([1.0, 1000.0]), np.array([[0.0, 4.0]])])
    plot.level(ax, 3.0, "counting")
    fig.canvas.draw()
    assert list(ax.lines[-1].get_ydata()) == [3.0, 3.0]
    box, whole = ax.texts[0].get_window_extent(), ax.get_window_extent()
    assert whole.x1 < box.x0 < box.x1 < fig.bbox.x1
    assert box.y0 < ax.transData.transform((1, 3.0))[1] < box.y1


def test_lines_without_points_count_from_their_start():
    for start in (0, 5):
        (line,) = plot.lines([1.0, 2.0, 4.0], start=start, alt="a line").figure.axes[0].lines
        assert line.get_xydata().tolist() == [[start, 1], [start + 1, 2], [start + 2, 4]]


def test_very_many_words_are_not_all_written_on_an_axis() -> None:
    """A hundred names would cover one another, and each is a path in the page."""
    for count, written in ((40, 20), (90, 30)):
        names = [f"name{n}" for n in range(count)]
        axis = plot.lines(torch.zeros(count), ticks=names, alt="a line").figure.axes[0].xaxis
        words = [label.get_text().strip() for label in axis.get_ticklabels()]
        assert words == names[:: count // written] and len(words) == written


def test_words_lie_flat_in_as_many_rows_as_they_need():
    for words, rows in ((["a", "b", "c"], 1), ([1, 2, 4], 1), ([f"word{n}" for n in range(16)], 2)):
        axis = plot.lines(torch.zeros(len(words)), ticks=words, alt="a line").figure.axes[0].xaxis
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert [label.strip() for label in labels] == list(map(str, words))
        assert [label.count("\n") for label in labels] == [n % rows for n in range(len(words))]
        assert {label.get_rotation() for label in axis.get_ticklabels()} == {0}


@pytest.mark.parametrize(
    ("view", "data"),
    [
        (Heatmap(tiles=["steep", "less", "flat", "flattest"], limits=(0, 0.2)), [np.ones((4, 48, 48))]),
        (Heatmap(rows=[f"row {n}" for n in range(32)]), [np.eye(32)]),
        (Lines(labels=["in one pass", "in a step"], title="what it attends to"), [np.arange(9.0), np.eye(2, 9)]),
        (Lines(labels=list("abcde"), title="two lines of names"), [np.arange(9.0), np.eye(5, 9)]),
        (Lines(log_x=True, landmarks={"trained": 6, "tokens": 6, "end": 7}), [np.arange(1.0, 9), np.ones((1, 8))]),
    ],
)
def test_no_text_of_a_picture_covers_another(view, data):
    figure = plot.draw(view, data, alt="a picture").figure
    figure.draw_without_rendering()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if not low <= tick.get_loc() <= high:  # which is not drawn
                tick.label1.set_visible(False)
    texts = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    for one, other in itertools.combinations(texts, 2):
        here, there = (text.get_window_extent().padded(1) for text in (one, other))
        assert not here.overlaps(there), (one.get_text(), other.get_text())


def test_points_are_drawn_with_their_marks():
    view = {"mark": ["step", "stem", "bar", "dot"], "bands": [(0, 1)]}
    ax = plot.lines(torch.arange(12.0).reshape(4, 3), **view, alt="four kinds of marks").figure.axes[0]
    assert [line.get_drawstyle() for line in ax.lines] == ["steps-mid", "default", "default"]
    assert [line.get_marker() for line in ax.lines] == ["None", "o", "o"]
    assert [bar.get_height() for bar in ax.patches] == [6, 7, 8]
    stems, band = ax.collections
    assert [segment.tolist() for segment in stems.get_segments()] == [[[x, 0], [x, 3 + x]] for x in range(3)]
    assert len(band.get_paths()) == 1


@pytest.mark.parametrize("mark", ["line", "line+dot", "step", "stem", "bar", "dot"])
def test_what_is_not_finite_is_a_gap_and_no_warning(mark):
    gaps = torch.tensor([[1.0, torch.inf, 2.0, -torch.inf], [torch.nan, 1.0, -1.0, 0.0]])
    assert "<svg" in plot.lines(gaps, mark=mark, alt="gaps").svg()


def test_squares_are_square_and_masked_cells_are_hatched():
    matrix = torch.eye(3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    shown = (matrix, torch.eye(3), torch.ones(2, 3))
    masked, plain, wide = (plot.heatmap(each, alt="cells").figure.axes[0] for each in shown)
    assert (masked.get_aspect(), wide.get_aspect()) == (1, "auto")
    assert masked.images[0].get_array().mask.tolist() == torch.isinf(matrix).tolist()
    assert (masked.patch.get_hatch(), plain.patch.get_hatch()) == ("////", None)


def test_numbers_are_written_into_few_cells_in_black_or_white():
    view = Heatmap(scale="diverging", digits=1, limits=(-4, 4), origin=(0, 3))
    matrix = np.arange(-4.0, 5.0).reshape(3, 3)
    matrix[0, 0] = -np.inf
    _, ax = plot.figure()
    plot.draw_on(ax, view, [matrix])
    found = {(text.get_text(), *text.get_position()) for text in ax.texts}
    assert found == {(f"{matrix[r, c]:.1f}", 3 + c, r) for r in range(3) for c in range(3) if (r, c) != (0, 0)}
    read = {plot.OVER: ("#000000", "#ffffff"), plot.UNDER: ("#ffffff", "#000000")}
    for text in ax.texts:
        at = min(254, int((float(text.get_text()) + 4) / 8 * 255))
        ink = matplotlib.colors.to_hex(text.get_color())
        for ground in (theme.LIGHT, theme.DARK):
            paper = f"#{bytes(theme.table('diverging', ground)[at]).hex()}"
            assert contrast(read.get(ink, (ink, ink))[ground], paper) >= 4.5
    _, ax = plot.figure()
    plot.draw_on(ax, view, [np.zeros((40, 40))])
    assert not ax.texts


def test_a_plane_is_square():
    axes = plot.plane([[0.5, 0.5]], alt="an arrow").figure.axes[0]
    assert axes.get_aspect() == 1
    assert axes.get_xlim() == axes.get_ylim()


@pytest.mark.parametrize(
    ("view", "data", "wanted"),
    [
        (Heatmap(limits=(-2, 2)), [[0, 9]], (-2, 2)),
        (Heatmap(), [[1, 3]], (1, 3)),
        (Heatmap(), [[1, 1]], (1, 2)),
        (Heatmap(), [[np.nan, np.inf]], (0, 1)),
        (Heatmap(scale="diverging"), [[-1, 3]], (-3, 3)),
        (Heatmap(scale="diverging"), [[0, 0]], (-1, 1)),
        (Heatmap(scale="cyclic"), [[0, 1]], (0, 2 * np.pi)),
        (Heatmap(scale="discrete"), [[0, 4]], (-0.5, 4.5)),
    ],
)
def test_the_ends_of_the_colours(view, data, wanted):
    assert plot.limits(view, np.array(data, float)) == wanted


@pytest.mark.parametrize("ground", [theme.LIGHT, theme.DARK])
@pytest.mark.parametrize("scale", ["sequential", "diverging", "cyclic"])
def test_a_map_goes_evenly_from_the_ground_of_the_page_to_ink(scale, ground):
    """Twice the value is twice as far from the page, in lightness; 0 is the page itself."""
    light = np.array([theme.lightness(f"#{bytes(colour).hex()}") for colour in theme.table(scale, ground)])
    zero, full = {"sequential": (0, 254), "diverging": (127, 254), "cyclic": (0, 127)}[scale]
    assert bytes(theme.table(scale, ground)[zero]).hex() == theme.PAPER[ground][1:]
    arm = light[zero : full + 1]
    even = np.linspace(arm[0], arm[-1], len(arm))
    assert np.abs(arm - even).max() < 0.6
    assert contrast(f"#{bytes(theme.table(scale, ground)[full]).hex()}", theme.PAPER[ground]) > 6
    if scale != "sequential":
        np.testing.assert_allclose(light, light[::-1], atol=0.6)  # both signs, or halves of a turn, weigh the same


@pytest.mark.parametrize("ground", [theme.LIGHT, theme.DARK])
def test_signs_differ_for_the_colour_blind(ground):
    """As Machado, Oliveira and Fernandes (2009) simulate protanopia and deuteranopia, in OKLab."""
    protan = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    deutan = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    colours = np.array(theme.table("diverging", ground)) / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for seen in (protan, deutan):
        less, more = (np.clip(np.array(seen) @ linear[127 + at], 0, 1) for at in (-32, 32))  # a quarter of the way
        less, more = (np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055) for c in (less, more))
        names = [bytes((255 * c).round().astype(np.uint8)).hex() for c in (less, more)]
        assert distance(*map(to_lab, names)) > 0.08  # four times what is just noticed


def test_a_page_has_a_map_for_light_and_one_for_dark():
    matrix = torch.tensor([[0.0, 1.0], [-torch.inf, 0.5]])
    svg = plot.heatmap(matrix, limits=(0, 1), alt="cells").svg()
    images = re.findall(r'<image class="pe-(light|dark)"( display="none")?[^>]*base64,([^"]+)', svg)
    assert [(name, bool(none)) for name, none, _ in images] == 2 * [("light", False), ("dark", True)]  # and the bar
    for (name, _, data), ground in zip(images, (theme.LIGHT, theme.DARK), strict=False):
        cells = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
        table = theme.table("sequential", ground)
        assert [tuple(cells[0, at, :3]) for at in (0, 1)] == [table[0], table[-1]], name
        assert (tuple(cells[1, 1, :3]), cells[1, 0, 3]) == (table[127], 0), name


def test_a_legend_names_what_is_hidden_and_what_has_a_name():
    ax = plot.heatmap(
        [[0, 1], [-np.inf, 1]], names={1: "met", 0: "not met"}, hatched="does not apply", alt="x"
    ).figure.axes
    assert len(ax) == 1  # no scale
    assert [text.get_text() for text in ax[0].get_legend().get_texts()] == ["met", "not met", "does not apply"]
    _, bar = plot.heatmap([[0, 1], [-np.inf, 1]], alt="x").figure.axes
    assert [text.get_text() for text in bar.get_legend().get_texts()] == ["hidden"]
    svg = plot.heatmap([[0, 1]], names={1: "met", 0: "not met"}, alt="x").svg()
    mixed = re.findall(r"fill: (#\w+); fill: color-mix\(in srgb, (#\w+) var\(--pe-dark, 0%\), (#\w+)\)", svg)
    first, last = (tuple(f"#{bytes(theme.table('sequential', g)[at]).hex()}" for g in (0, 1)) for at in (-1, 0))
    assert mixed == [(light, dark, light) for light, dark in (first, last)]


def test_colours_are_legible_in_light_and_dark():
    schemes = {name: scheme.colour for name, scheme in SCHEMES.items()}
    for name, colour in {**schemes, **dict(enumerate(plot.CYCLE))}.items():
        assert min(contrast(colour, paper) for paper in PAPERS) >= 3, (
            f"{name}: too pale or too dark for one of the papers"
        )
    for name, pair in plot.ROLES.items():
        assert min(map(contrast, pair, PAPERS)) >= 4.5, name  # words have these colours too


def distinct(colours: dict[str, str]) -> None:
    """Fails, with the remedy, if two schemes look alike, or one looks like a role."""
    remedy = "choose another colour in posenc/schemes/registry.py; free_colour in tools/scheme.py finds one"
    labs = {name: to_lab(colour.removeprefix("#")) for name, colour in colours.items()}
    roles = [hue(to_lab(colour.removeprefix("#"))) for pair in plot.ROLES.values() for colour in pair]
    for first, second in itertools.combinations(colours, 2):
        apart = distance(labs[first], labs[second])
        assert apart > ALIKE, f"{first} and {second} look alike, {apart:.3f} apart: {remedy}"
    for name, lab in labs.items():
        apart = min(abs((hue(lab) - role + 180) % 360 - 180) for role in roles)
        assert np.hypot(*lab[1:]) < 0.02 or apart > HUES, f"{name} has the hue of a role: {remedy}"


def test_no_two_schemes_look_alike_and_none_looks_like_a_role():
    distinct({name: scheme.colour for name, scheme in SCHEMES.items()})


def test_roles_have_one_colour_in_prose_pictures_and_panels():
    book = (ROOT / "chapters/assets/book.css").read_text(encoding="utf-8")
    panels = (ROOT / "posenc/_explore/front/style.css").read_text(encoding="utf-8")
    for name, (light, dark) in plot.ROLES.items():
        assert list(dict.fromkeys(re.findall(rf"--{name}: (#\w+);", book))) == [light, dark]
        assert list(dict.fromkeys(re.findall(rf"--pe-{name}: (#\w+);", panels))) == [light, dark]


@pytest.mark.parametrize(
    ("view", "data"),
    [
        (Heatmap(), [np.zeros((0, 3))]),
        (Heatmap(), [np.zeros((1, 1))]),
        (Plane(), [np.zeros((0, 2))]),
        (Lines(), [np.zeros(1), np.ones((2, 1))]),
        (Lines(), [np.zeros(0), np.ones((0, 0))]),
    ],
)
def test_empty_and_single_data_are_drawn(view, data):
    assert "<svg" in plot.draw(view, data, alt="nothing much").svg()


def test_a_picture_has_a_path_for_each_text_and_no_empty_groups() -> None:
    drawing, axes = plot.figure()
    axes.plot([1, 2, 3], [3, 1, 2], label="a line $x^2_{ij}$")
    axes.legend()
    axes.set(xlabel="tokens", xticks=[1, 2, 3], yticks=[1, 2, 3])
    svg = plot.Picture(drawing, "A line.").svg()
    groups = re.findall(r"<g[^>]*>", svg)
    assert all("transform" in group or "clip-path" in group or "style" in group for group in groups)
    texts = [tag for tag in re.findall(r"<path[^>]*>", svg) if "scale(0." in tag and "translate" in tag]
    assert len(texts) == 3 + 3 + 2  # ticks, a label and a legend
    assert not re.findall(r"<use[^>]*DejaVu", svg)
    names, meant = set(re.findall(r' id="([^"]+)"', svg)), set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    assert names == meant


def test_letters_stand_where_matplotlib_puts_them() -> None:
    letter = "M 100 0 L 0 64 Q 10 20 30 40 z"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><g id="t">'
        f'<g transform="translate(5 6) scale(0.1 -0.1)"><defs><path id="a" d="{letter}" transform="scale(0.5)"/></defs>'
        '<use xlink:href="#a"/><use xlink:href="#a" transform="translate(60 2)"/>'
        '<use xlink:href="#a" transform="translate(10 8) scale(0.7)"/></g></g></svg>'
    )
    found = slim(svg)
    assert found.count("<path") == 1
    assert found.count("<g") == 0
    outline = re.search(r' d="([^"]+)"', found)[1]
    expected = [
        *(50, 0, 0, 32, 5, 10, 15, 20),
        *(110, 2, 60, 34, 65, 12, 75, 22),
        *(45, 8, 10, 30.4, 13.5, 15, 20.5, 22),
    ]
    assert [float(number) for number in re.findall(r"[\d.]+", outline)] == pytest.approx(expected)
    assert 'transform="translate(5 6) scale(0.1 -0.1)"' in found
