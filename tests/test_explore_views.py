"""Pictures of panels in a browser: made once and then moved, cut off at their limits, masked cells hatched."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from posenc import Heatmap, Lines, Plane, Readout, explore
from tests.panels import FAULTS, live, read, settled, site

MARKS = ["line", "step", "stem", "bar", "dot"]


def curves(height=1.0, points=9):
    x = torch.arange(points).float()
    return height * torch.stack([(x - 4) / 4, x % 2, 1 - x / 4, (x - 4).abs() / 4, 0.5 + 0 * x])


def masked(length=6, slope=1.0):
    pos = torch.arange(length)
    offset = pos[None, :] - pos[:, None]
    return (slope * offset).masked_fill(offset > 0, -torch.inf)


def tips(angle=0.0):
    at = torch.stack([angle, angle + 0.02, angle + 0.04])
    return torch.stack([at.cos(), at.sin()], -1)


def spread(power=0.0, level=0.0):
    x = torch.arange(1, 200)
    y = 10**power * x / 7.0 + level
    return (x, y), (x, y), torch.stack([10**power, level])


def gaps(at=2.0):
    x = torch.arange(6.0)
    return torch.where(x == at, torch.nan, x), torch.where(x == at, torch.inf, x)


WORDS = ["the", "cat", "sat", "on", "the", "mat", "and", "looked", "at", "the", "other", "cat"]


def sentence(query=2, sharpness=1.0, slope=0.5, masked=True):
    pos = torch.arange(len(WORDS))
    scores = -sharpness * (pos[:, None] - pos[None, :]).abs()
    if masked:
        scores = scores.masked_fill(pos[None, :] > pos[:, None] + slope, -torch.inf)
    weights = scores.softmax(-1)
    tokens = 2000.0 * (1 + 0 * query) + 0 * weights.max()
    return weights, weights[query], torch.stack([weights.max(), tokens, tokens / 16])


def nothing(rows=0):
    return torch.ones(rows, 4), torch.ones(2, rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    look = {"x": "distance of the key", "y": "weight, in units of the largest"}
    site(folder, lambda: [
        explore(curves, Lines(**look, mark=MARKS, labels=MARKS, bands=[(0, 4)], limits=(-0.5, 1)),
                height=(0.0, 8.0), points=(9, 4096)),
        explore(masked, Heatmap(x="key", y="query", scale="diverging", digits=1), length=(1, 40), slope=(0.1, 2.0)),
        explore(tips, Plane(labels=["query", "key", "another key"], colours=["query", "key"]), angle=(-3.2, 3.2)),
        explore(spread, Lines(**look, log_x=True, log_y=True), Lines(**look), Readout(), power=(-9.0, 9.0),
                level=(0.0, 1e6)),
        explore(gaps, Lines(x="x", y="not a number"), Lines(x="x", y="infinite"), at=(0.0, 5.0, 1.0)),
        explore(nothing, Heatmap(), Lines(), rows=(0, 3)),
        explore(sentence, Heatmap(x="key", y="query", rows=WORDS, columns=WORDS),
                Lines(x="key", y="weight", ticks=WORDS, mark="bar", limits=(0, 1)),
                Readout(labels=["largest", "tokens", "a share"], digits=(2, 0, None)), query=(0, 11),
                sharpness=(0.0, 3.0), slope=(0.0, 3.0), masked=True,
                presets={"sharp": {"sharpness": 3.0}, "even": {"sharpness": 0.0}},
                labels={"query": "the row of the query", "sharpness": "λ, how fast weights fall"},
                units={"slope": "places"}, caption="Move λ: the weights gather at the query."),
    ], gap="")  # fmt: skip
    return folder


@pytest.fixture
def own_page(made, open_page):
    """A page for one test, which leaves it in a state that others must not find."""
    return open_page((made / "index.html").as_uri()).page


def move(page, identity, **values):
    page.evaluate("([id, values]) => document.getElementById(id).panel.set(values)", [identity, values])
    settled(page, identity)


def outlines(page, identity, kind="line"):
    return page.eval_on_selector_all(f"#{identity} .pe-{kind}", "all => all.map(e => e.getAttribute('d'))")


def plot(page, identity, view=0):
    found = page.evaluate("([id, n]) => document.getElementById(id).panel.views[n].frame.plot", [identity, view])
    return found["left"], found["top"], found["left"] + found["width"], found["top"] + found["height"]


def test_nodes_are_made_once_and_then_moved(page):
    for identity, control in (("curves", "height"), ("masked", "slope"), ("tips", "angle")):
        live(page, f"explore-{identity}")
        same, changed = page.evaluate(
            """async ([id, name]) => {
              const { panel } = document.getElementById(id), nodes = () => [...panel.stages.querySelectorAll("*")];
              const control = panel.spec.controls.find(c => c.name === name), before = nodes(), seen = new Set();
              for (let i = 0; i < 30; i++) {
                panel.set({ [name]: control.min + (control.max - control.min) * i / 29 });
                while (panel.running) await new Promise(requestAnimationFrame);
                seen.add(panel.stages.innerHTML);
                const data = panel.stages.querySelector("canvas")?.getContext("2d").getImageData(0, 0, 6, 6).data;
                if (data) seen.add(String(data));
              }
              const after = nodes();
              const drawn = e => e.matches("path, canvas, g, circle, svg");
              return [before.filter(drawn).every(e => after.includes(e)), seen.size]; }""",
            [f"explore-{identity}", control],
        )
        assert same, identity
        assert changed > 10, identity


def test_numbers_change_without_new_nodes(page):
    """A theme may search the whole page after each new node."""
    live(page, "explore-tips")
    texts, added = page.evaluate(
        """async () => {
          const { panel } = document.getElementById("explore-tips"), texts = new Set();
          let added = 0;
          const ours = ({ target }) => (target.closest("figure.pe-panel") ?? panel.root) === panel.root;
          const watch = new MutationObserver(all => (added += all.filter(ours).length)); // others may come alive
          watch.observe(document.querySelector("main"), { subtree: true, childList: true });
          for (let i = -2; i < 20; i++) {
            panel.set({ angle: i / 10 });
            while (panel.running) await new Promise(requestAnimationFrame);
            panel.speak();
            if (i >= 0) texts.add(panel.spoken.textContent);
            else { watch.takeRecords(); added = 0; } // the first words, and the ghosts
          }
          await new Promise(requestAnimationFrame);
          watch.disconnect();
          return [texts.size, added]; }"""
    )
    assert texts == 20
    assert added == 0


def test_what_lies_beyond_the_limits_is_cut_off_and_marked(page):
    live(page, "explore-curves")
    assert outlines(page, "explore-curves", "beyond")[0]  # the line begins at -1, below the limit of -0.5
    move(page, "explore-curves", height=8.0)
    _, top, _, bottom = plot(page, "explore-curves")
    ys = [float(y) for y in re.findall(r"[ML][\d.-]+ ([\d.-]+)", outlines(page, "explore-curves")[0])]
    assert min(ys) < top - 10
    assert max(ys) > bottom + 10
    clip, begins, long = page.eval_on_selector(
        "#explore-curves .pe-stage clipPath",
        "e => [e.id, ...['y', 'height'].map(name => Number(e.firstChild.getAttribute(name)))]",
    )
    assert top - 2 <= begins < begins + long <= bottom + 2
    holder = page.eval_on_selector(
        "#explore-curves .pe-line", "e => e.closest('[clip-path]').getAttribute('clip-path')"
    )
    assert holder == f"url(#{clip})"
    move(page, "explore-curves", height=0.3)
    assert not any(outlines(page, "explore-curves", "beyond"))


def test_each_mark_has_its_outline(page):
    live(page, "explore-curves")
    line, step, stem, bar, dot = outlines(page, "explore-curves")
    _, _, stems, _, dots = outlines(page, "explore-curves", "tips")
    assert (line.count("M"), line.count("L")) == (1, 8)
    assert "L" not in step
    assert step.count("H") == 9
    assert stem.count("V") == 9
    assert stems.count("h0") == 7  # two lie beyond the limits
    assert bar.count("Z") == 9
    assert (dot, dots.count("h0")) == ("", 9)
    (band,) = outlines(page, "explore-curves", "band")
    assert band.count("L") == 17
    assert band.endswith("Z")


def test_points_closer_than_pixels_keep_their_extremes(page):
    live(page, "explore-curves")
    move(page, "explore-curves", points=4096, height=0.5)
    (line, step, *_), (left, _, right, _) = outlines(page, "explore-curves"), plot(page, "explore-curves")
    assert line.count("L") < 4 * (right - left)
    ends = [float(x) for x in re.findall(r"[ML]([\d.]+) ", line)]
    assert (ends[0], ends[-1]) == (pytest.approx(left, abs=1), pytest.approx(right, abs=1))
    assert len(step) > 4096  # a step is not thinned out


def test_squares_are_square_and_masked_cells_are_hatched(page):
    live(page, "explore-masked")
    left, top, right, bottom = plot(page, "explore-masked")
    assert right - left == bottom - top
    cells, hatch, _ = page.eval_on_selector_all(
        "#explore-masked canvas",
        """all => all.map((e, i) => {
           const { plot } = document.getElementById("explore-masked").panel.views[0].frame;
           const [width, height] = i ? [plot.width, plot.height] : [e.width, e.height];  // a canvas may be larger
           const { data } = e.getContext("2d").getImageData(0, 0, width, height), found = Array(36).fill(0);
           for (let y = 0; y < height; y++) for (let x = 0; x < width; x++)
             if (data[4 * (y * width + x) + 3]) found[6 * Math.floor(6 * y / height) + Math.floor(6 * x / width)]++;
           return found; })""",
    )
    for index in range(36):
        hidden = index % 6 > index // 6
        assert bool(cells[index]) is not hidden
        assert (hatch[index] > 20) is hidden


def test_a_map_is_that_of_the_page_around_and_names_what_is_hidden(own_page):
    """Zero is the page's ground, in light, in the dark and on paper."""
    live(own_page, "explore-masked")
    zero = (
        """() => [...document.querySelector("#explore-masked canvas").getContext("2d").getImageData(0, 0, 1, 1).data]"""
    )
    assert own_page.evaluate(zero) == [255, 255, 255, 255]
    own_page.evaluate("document.documentElement.dataset.theme = 'dark'")
    own_page.wait_for_function(f"({zero})()[0] === 20")
    own_page.emulate_media(media="print")
    own_page.wait_for_function(f"({zero})()[0] === 255")
    own_page.emulate_media(media="screen", forced_colors="active", color_scheme="dark")
    own_page.wait_for_function(f"({zero})()[0] === 20")
    legend = own_page.locator("#explore-masked .pe-legend")
    assert legend.inner_text().split() == ["\u22125", "5", "hidden"]
    _, top, right, _ = plot(own_page, "explore-masked")
    stage = own_page.locator("#explore-masked .pe-stage")
    stage.hover(position={"x": right - 5, "y": top + 5})
    assert own_page.locator("#explore-masked .pe-chip b").first.inner_text() == "hidden"


def test_a_field_is_as_wide_as_its_longest_number(page):
    live(page, "explore-spread")
    move(page, "explore-spread", level=1e6)
    field = page.locator("#explore-spread").get_by_label("level, exact value")
    assert field.input_value() == "1\u202f000\u202f000"
    assert field.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_numbers_stand_in_the_cells_as_long_as_they_have_room(page):
    live(page, "explore-masked")
    move(page, "explore-masked", length=7)
    move(page, "explore-masked", length=6)  # of the larger matrix nothing stays
    texts = [f"{c - r:.1f}".replace("-", "\u2212") if c <= r else "" for r in range(6) for c in range(6)]
    found = page.evaluate(
        """texts => {
          const { panel } = document.getElementById("explore-masked"), { frame, cells, numbers } = panel.views[0];
          const scratch = document.createElement("canvas"), same = scratch.getContext("2d"), dense = devicePixelRatio;
          Object.assign(scratch, { width: numbers.width, height: numbers.height });
          const paper = cells.getContext("2d").getImageData(0, 0, 6, 6).data;
          const linear = c => (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
          const luminance = rgb => rgb.reduce((sum, c, i) => sum + linear(c) * [0.2126, 0.7152, 0.0722][i], 0.05);
          const [wide, high] = [frame.plot.width / 6 * dense, frame.plot.height / 6 * dense];
          return texts.map((text, i) => {  // a number in the middle of its cell, in one ink
            const [left, top] = [(i % 6) * wide, Math.floor(i / 6) * high].map(Math.ceil);
            const area = [left, top, Math.floor(wide) - 1, Math.floor(high) - 1];
            const { data } = numbers.getContext("2d").getImageData(...area);
            const inked = [...Array(data.length / 4).keys()].filter(k => data[4 * k + 3] > 127);
            const ink = inked.length ? [...data.subarray(4 * inked[0], 4 * inked[0] + 3)] : null;
            const edge = inked.some(k => k % area[2] < 1 || k % area[2] > area[2] - 2 || k < area[2]
              || k >= area[2] * (area[3] - 1));
            Object.assign(same, { font: frame.font, textAlign: "center", fillStyle: ink && ink[0] ? "#fff" : "#000" });
            same.setTransform(dense, 0, 0, dense, 0, 0);
            const middle = [((i % 6) + 0.5) * wide, (Math.floor(i / 6) + 0.5) * high].map(v => v / dense);
            same.fillText(text, middle[0], middle[1] + 4.32);
            const wanted = same.getImageData(...area).data, off = data.reduce((n, v, k) => n + (v !== wanted[k]), 0);
            const [light, dark] = [luminance(ink ?? [0, 0, 0]), luminance([...paper.subarray(4 * i, 4 * i + 3)])];
            return [inked.length, edge, off, Math.max(light, dark) / Math.min(light, dark)];
          }); }""",
        texts,
    )
    for text, (inked, edge, off, contrast) in zip(texts, found, strict=True):
        assert (inked > 10) is bool(text)
        assert not edge
        assert off == 0
        assert not text or contrast >= 4.5
    shown = "document.getElementById('explore-masked').panel.views[0].numbers.checkVisibility()"
    assert page.evaluate(shown)
    move(page, "explore-masked", length=40)
    assert not page.evaluate(shown)


def test_limits_that_are_given_let_the_control_change_the_picture(page):
    live(page, "explore-curves")
    low = outlines(page, "explore-curves")
    move(page, "explore-curves", height=0.5)
    assert outlines(page, "explore-curves") != low


def test_labels_of_any_range_are_legible_and_different(page):
    live(page, "explore-spread")
    for power, level in itertools.product([-9.0, -1.0, 0.0, 9.0], [0.0, 1e-3, 781_250.0, 1e6]):
        move(page, "explore-spread", power=power, level=level)
        assert read(page, "explore-spread")["faults"] == []
        texts = page.evaluate(
            """() => document.getElementById("explore-spread").panel.views.filter(v => v.frame)
               .flatMap(v => ["x", "y"].map(n => [...v.frame.labels[n].children]
                 .map(e => e.textContent).filter(Boolean)))"""
        )
        for labels in texts:
            assert len(labels) >= 2
            assert len(set(labels)) == len(labels)
            assert max(map(len, labels)) <= 11


def test_names_of_arrows_that_point_alike_do_not_meet(page):
    live(page, "explore-tips")
    for angle in (-3.14, -1.5, -0.7, 0.0, 0.8, 1.57, 3.0):
        move(page, "explore-tips", angle=angle)
        assert read(page, "explore-tips")["faults"] == []
        shown = page.locator("#explore-tips .pe-names text[visibility=visible]")
        assert shown.count() == 3


def test_a_number_that_is_missing_leaves_a_gap(page):
    live(page, "explore-gaps")
    for at in (0.0, 2.0, 5.0):
        move(page, "explore-gaps", at=at)
        for line in outlines(page, "explore-gaps"):
            assert "NaN" not in line
            assert "Infinity" not in line
            assert line.count("M") == (2 if at == 2 else 1)
    move(page, "explore-gaps", at=1.0)
    assert all("h0" in line for line in outlines(page, "explore-gaps"))  # the first point, alone, is a dot
    assert "not a number" in page.locator("#explore-gaps .pe-message").inner_text()


def test_no_rows_are_drawn_as_nothing(page):
    live(page, "explore-nothing")
    assert read(page, "explore-nothing")["faults"] == []
    move(page, "explore-nothing", rows=3)
    assert read(page, "explore-nothing")["faults"] == []
    move(page, "explore-nothing", rows=0)


def test_axes_have_the_words_of_a_sentence(page):
    live(page, "explore-sentence")
    names = """() => document.getElementById("explore-sentence").panel.views.filter(v => v.frame)
       .map(v => ["x", "y"].map(n => [...v.frame.labels[n].children].map(e => e.textContent).filter(Boolean)))"""
    (keys, queries), (places, _) = page.evaluate(names)
    assert keys == queries == places == WORDS
    assert read(page, "explore-sentence")["faults"] == []
    page.locator("#explore-sentence").get_by_text("Numbers").click()
    assert page.locator("#explore-sentence th[scope=row]").nth(1).inner_text() == "cat"
    page.evaluate("document.getElementById('explore-sentence').style.width = '270px'")
    page.wait_for_timeout(100)
    assert read(page, "explore-sentence")["faults"] == []


def test_controls_have_the_readers_words_and_numbers_their_own_digits(page):
    live(page, "explore-sentence")
    root = page.locator("#explore-sentence")
    assert root.get_by_role("slider", name="λ, how fast weights fall", exact=True).is_enabled()
    assert root.get_by_role("slider", name="slope places", exact=True).is_enabled()
    assert root.locator(".pe-body .pe-caption").inner_text() == "Move λ: the weights gather at the query."
    assert root.locator(".pe-body dd").all_inner_texts() == ["1.00", "2\u202f000", "125"]


def test_the_preset_that_is_on_says_so(page):
    live(page, "explore-sentence")
    root = page.locator("#explore-sentence")
    sharp, even = (root.get_by_role("button", name=name) for name in ("sharp", "even"))
    assert [button.get_attribute("aria-pressed") for button in (sharp, even)] == ["false", "false"]
    even.click()
    assert [button.get_attribute("aria-pressed") for button in (sharp, even)] == ["false", "true"]
    sharp.click()
    assert [button.get_attribute("aria-pressed") for button in (sharp, even)] == ["true", "false"]
    move(page, "explore-sentence", sharpness=1.0)
    assert [button.get_attribute("aria-pressed") for button in (sharp, even)] == ["false", "false"]


def test_a_control_that_does_nothing_in_this_state_says_so(page):
    live(page, "explore-sentence")
    root = page.locator("#explore-sentence")
    slope = root.get_by_role("slider", name="slope places", exact=True)
    assert slope.is_enabled()
    root.get_by_role("checkbox").click()
    settled(page, "explore-sentence")
    assert slope.is_disabled()
    assert root.locator(".pe-idle").get_attribute("title") == "does nothing in this state"
    root.get_by_role("checkbox").click()
    assert slope.is_enabled()


# The probe


def middle(page, identity, row, column, view=0):
    """The middle of a cell on the screen."""
    return page.evaluate(
        """([id, row, column, n]) => {
          const view = document.getElementById(id).panel.views[n], { left, top, width, height } = view.frame.plot;
          const [rows, columns] = view.tensors[0].shape, box = view.frame.svg.getBoundingClientRect();
          const [x, y] = [left + (column + 0.5) * width / columns, top + (row + 0.5) * height / rows];
          return [box.left + x, box.top + y]; }""",
        [identity, row, column, view],
    )


def chips(page, identity):
    return [chip.inner_text() for chip in page.locator(f"#{identity} .pe-chip:visible").all()]


def weight(row, column):
    return pytest.approx(
        float(sentence(sharpness=torch.tensor(1.0), slope=torch.tensor(0.5))[0][row, column]), rel=1e-3
    )


def test_a_pointer_asks_a_cell_and_views_of_one_axis_follow(page):
    live(page, "explore-sentence")
    page.evaluate(
        """() => { const { panel } = document.getElementById("explore-sentence"), { compute } = panel.engine;
           globalThis.computed = 0; panel.engine.compute = values => { computed++; return compute(values); }; }"""
    )
    page.locator("#explore-sentence .pe-stage").first.scroll_into_view_if_needed()
    page.mouse.move(*middle(page, "explore-sentence", 7, 4))
    first, second = chips(page, "explore-sentence")
    *title, value = first.split()
    assert title == ["query", "“looked”", "(7),", "key", "“the”", "(4)"]
    assert float(value) == weight(7, 4)
    assert second.split() == ["key", "“the”", "(4)", "0"]  # which the second word does not see
    shown = page.evaluate("document.querySelectorAll('#explore-sentence .pe-probe[visibility=visible]').length")
    assert shown == 2
    page.mouse.move(5, 5)
    assert chips(page, "explore-sentence") == []
    assert page.evaluate("globalThis.computed") == 0


def test_arrow_keys_ask_the_same_and_speak(page):
    live(page, "explore-sentence")
    stage = page.locator("#explore-sentence [role=slider].pe-stage").first
    stage.focus()
    for key in ["ArrowDown"] * 7 + ["ArrowRight"] * 3 + ["ArrowUp"]:
        page.keyboard.press(key)
    words = stage.get_attribute("aria-valuetext")
    (row, column), text = re.findall(r"\((\d+)\)", words), words.rsplit(": ", 1)[1]
    assert float(text) == weight(int(row), int(column))
    assert chips(page, "explore-sentence")[0].split()[-1] == text
    page.keyboard.press("Escape")
    assert chips(page, "explore-sentence") == []
    page.keyboard.press("PageUp")
    assert len(chips(page, "explore-sentence")) == 2
    stage.blur()
    assert chips(page, "explore-sentence") == []


def test_what_is_asked_changes_with_the_controls(page):
    live(page, "explore-sentence")
    stage = page.locator("#explore-sentence .pe-stage").first
    stage.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    before = chips(page, "explore-sentence")
    move(page, "explore-sentence", sharpness=2.0)
    assert chips(page, "explore-sentence") != before


def test_what_was_drawn_before_stays_a_while_as_a_ghost(page):
    for identity, control in (("explore-curves", "height"), ("explore-tips", "angle")):
        live(page, identity)
        kind = "arrow" if control == "angle" else "line"
        before = outlines(page, identity, kind)
        move(page, identity, **{control: 0.5})
        move(page, identity, **{control: 0.7})
        ghosts = outlines(page, identity, "ghost")
        assert len(ghosts) == len(before)
        assert ghosts[0] == before[0] != outlines(page, identity, kind)[0]
        page.wait_for_timeout(1000)
        assert outlines(page, identity, "ghost")
        page.wait_for_function("id => !document.querySelector(`#${id} .pe-ghost`)", arg=identity, timeout=3000)


def cells(page, identity):
    """The colours of a matrix, and the ends of its scale."""
    return page.evaluate(
        """id => { const view = document.getElementById(id).panel.views.find(v => v.cells);
           const { width, height } = view.image, { data } = view.context.getImageData(0, 0, width, height);
           return [[...data], view.ends[0].textContent, view.ends[2].textContent]; }""",
        identity,
    )


def test_a_matrix_of_another_size_fills_its_place_and_shows_nothing_of_the_one_before(page):
    live(page, "explore-masked")
    for length in (20, 40, 5, 8):
        move(page, "explore-masked", length=length)
        shown, place, beyond = page.evaluate(
            """() => { const [{ cells, pane, context }] = document.getElementById("explore-masked").panel.views;
               const { length } = document.getElementById("explore-masked").panel.shown, { width, height } = cells;
               const { data } = context.getImageData(0, 0, width, height), sides = e => e.getBoundingClientRect();
               const painted = [...Array(width * height).keys()].filter(i => data[4 * i + 3]);
               return [["width", "height"].map(s => sides(cells)[s] * length / cells[s]),
                 [sides(pane).width, sides(pane).height],
                 painted.filter(i => i % width >= length || i >= length * width).length]; }"""
        )
        assert shown == pytest.approx(place, abs=0.5)
        assert beyond == 0


def test_a_pinned_state_is_compared_with_the_present_one(page):
    live(page, "explore-sentence")
    root = page.locator("#explore-sentence")
    first, pin = cells(page, "explore-sentence"), root.get_by_role("button", name="Pin", exact=True)
    assert root.get_by_role("group", name="what the matrices show").is_hidden()
    pin.click()
    assert pin.get_attribute("aria-pressed") == "true"
    before = torch.tensor(float(read(page, "explore-sentence")["shown"]["sharpness"]))
    move(page, "explore-sentence", sharpness=2.5)
    page.wait_for_timeout(1600)
    assert outlines(page, "explore-sentence", "ghost")[0]  # which stays while it is pinned
    assert root.locator(".pe-body dd").first.inner_text() == "1.00 → 1.00"
    now = cells(page, "explore-sentence")
    assert now != first
    root.get_by_role("button", name="pinned").click()
    assert cells(page, "explore-sentence") == first
    root.get_by_role("button", name="difference").click()
    slope = torch.tensor(0.5)
    change = sentence(sharpness=torch.tensor(2.5), slope=slope)[0] - sentence(sharpness=before, slope=slope)[0]
    largest = float(change.abs().max())
    found = page.evaluate("[...document.getElementById('explore-sentence').panel.views[0].drawn[0].data]")
    torch.testing.assert_close(torch.tensor(found).view(12, 12), change, atol=1e-6, rtol=0)
    assert float(cells(page, "explore-sentence")[2]) == pytest.approx(largest, rel=1e-3)
    root.get_by_role("button", name="now").click()
    assert cells(page, "explore-sentence") == now
    pin.click()
    assert pin.get_attribute("aria-pressed") == "false"
    assert root.get_by_role("group", name="what the matrices show").is_hidden()
    assert not page.locator("#explore-sentence .pe-ghost").count()


def test_a_link_holds_what_is_pinned(made, page, open_page):
    live(page, "explore-curves")
    root = page.locator("#explore-curves")
    root.get_by_role("button", name="Pin", exact=True).click()
    move(page, "explore-curves", height=0.25)
    root.get_by_role("button", name="Copy link").click()
    page.wait_for_function("location.hash.includes('pin.height')")
    again = open_page(page.url).page
    live(again, "explore-curves")
    again.wait_for_selector("#explore-curves .pe-ghost", state="attached")
    page.wait_for_timeout(1600)
    assert outlines(again, "explore-curves", "ghost") == outlines(page, "explore-curves", "ghost")
    assert read(again, "explore-curves")["shown"]["height"] == 0.25


def test_matrices_of_other_sizes_have_no_difference(page):
    live(page, "explore-masked")
    root = page.locator("#explore-masked")
    root.get_by_role("button", name="Pin", exact=True).click()
    move(page, "explore-masked", length=9)
    root.get_by_role("button", name="difference").click()
    assert "differ in size" in root.locator(".pe-status").inner_text()
    root.get_by_role("button", name="pinned").click()
    assert page.evaluate("document.getElementById('explore-masked').panel.views[0].drawn[0].shape") == [6, 6]


def test_a_ghost_moves_with_the_axes(page):
    live(page, "explore-spread")
    (before, *_) = outlines(page, "explore-spread")
    move(page, "explore-spread", power=3.0)
    (ghost, *_) = outlines(page, "explore-spread", "ghost")
    assert ghost not in ("", before)  # the scale is another, a thousand times as large


LINK = "<p style='position: fixed; top: 0'><a href='#explore-curves?height=3&points=20'>With height 3</a></p>"


def test_a_link_sets_a_panel_that_is_in_view_where_it_stands_and_back_returns(own_page):
    page = own_page
    live(page, "explore-curves")
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", LINK)
    page.locator("#explore-curves .pe-stage").scroll_into_view_if_needed()
    before, at = read(page, "explore-curves")["shown"], page.evaluate("scrollY")
    page.get_by_role("link", name="With height 3").click()
    shown = "h => document.getElementById('explore-curves').panel.shown.height === h"
    page.wait_for_function(shown, arg=3)
    assert read(page, "explore-curves")["shown"] == {"height": 3, "points": 20}
    assert page.evaluate("scrollY") == at
    assert page.url.endswith("#explore-curves?height=3&points=20")
    page.go_back()
    page.wait_for_function(shown, arg=before["height"])
    assert read(page, "explore-curves")["shown"] == before
    page.go_forward()
    page.wait_for_function(shown, arg=3)


def test_a_link_to_a_panel_out_of_sight_leads_there(own_page):
    page = own_page
    live(page, "explore-nothing")
    live(page, "explore-curves")
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", LINK)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.get_by_role("link", name="With height 3").click()
    page.wait_for_function("document.getElementById('explore-curves').panel.shown.height === 3")
    top = page.evaluate("document.getElementById('explore-curves').getBoundingClientRect().top")
    assert 0 <= top < 300


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_link_moves_a_panel_before_the_eyes_of_those_who_like_motion(motion, page):
    page.emulate_media(reduced_motion=motion)
    live(page, "explore-curves")
    seen = page.evaluate(
        """async () => { const { panel } = document.getElementById("explore-curves"), seen = [];
           panel.root.addEventListener("pe-drawn", ({ detail }) => seen.push(detail.height));
           panel.glide({ height: 3 });
           while (panel.shown.height !== 3) await new Promise(requestAnimationFrame);
           return seen; }"""
    )
    assert seen == sorted(seen)
    assert (len(set(seen)) > 2) is (motion == "no-preference")
    assert seen[-1] == 3
    page.emulate_media(reduced_motion="reduce")  # as it was


def test_lines_tell_each_value_and_arrows_their_tips(page):
    live(page, "explore-curves")
    page.mouse.move(
        *page.evaluate(
            """() => { const view = document.getElementById("explore-curves").panel.views[0];
           const box = view.frame.svg.getBoundingClientRect();
           return [box.left + view.xs[6] + 2, box.top + 60]; }"""
        )
    )
    (chip,) = chips(page, "explore-curves")
    title, *rest = chip.split("\n")
    wanted = [f"{float(value):.4g}".replace("-", "\u2212") for value in curves(torch.tensor(1.0))[:, 6]]
    assert title == "distance of the key 6"
    assert "".join(rest).replace("\n", "") == "".join(name + value for name, value in zip(MARKS, wanted, strict=True))
    live(page, "explore-tips")
    page.locator("#explore-tips .pe-stage").focus()
    page.keyboard.press("ArrowRight")
    (chip,) = chips(page, "explore-tips")
    assert chip.split() == ["query", "tip", "(1.00,", "0.00)", "length", "1.00"]


def test_a_finger_that_rests_asks_and_one_that_moves_scrolls(made, open_page):
    page = open_page(
        (made / "index.html").as_uri(), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    ).page
    live(page, "explore-sentence")
    page.locator("#explore-sentence .pe-stage").first.scroll_into_view_if_needed()
    client = page.context.new_cdp_session(page)
    x, y = middle(page, "explore-sentence", 7, 4)

    def touch(kind, *points):
        at = [{"x": x, "y": y} for x, y in points]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", (x, y))
    page.wait_for_timeout(500)
    assert float(chips(page, "explore-sentence")[0].split()[-1]) == weight(7, 4)
    touch("touchMove", middle(page, "explore-sentence", 7, 5))
    page.wait_for_timeout(50)
    assert float(chips(page, "explore-sentence")[0].split()[-1]) == weight(7, 5)
    touch("touchEnd")
    page.wait_for_timeout(50)
    assert chips(page, "explore-sentence") == []
    before = page.evaluate("scrollY")
    touch("touchStart", (x, y))
    for step in range(1, 12):
        touch("touchMove", (x, y - 15 * step))
    touch("touchEnd")
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") > before + 50
    assert chips(page, "explore-sentence") == []


def test_on_a_phone_the_picture_stays_in_sight_while_a_control_is_held(made, open_page):
    page = open_page((made / "index.html").as_uri(), viewport={"width": 390, "height": 844}).page
    for identity in ("explore-curves", "explore-sentence"):
        live(page, identity)
        for slider in page.locator(f"#{identity} input[type=range]:not(:disabled)").all():
            slider.focus()
            slider.evaluate("e => e.scrollIntoView({ block: 'end' })")
            seen = page.evaluate(
                """id => {
                   const { top, bottom, height } = document.querySelector(`#${id} .pe-stage`).getBoundingClientRect();
                   return (Math.min(bottom, innerHeight) - Math.max(top, 0)) / height; }""",
                identity,
            )
            assert seen >= 0.6
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_panel_fills_the_screen_and_gives_it_back(page):
    live(page, "explore-sentence")
    button = page.locator("#explore-sentence").get_by_role("button", name="Full screen")
    small = plot(page, "explore-sentence")
    button.click()
    page.wait_for_function("document.fullscreenElement?.id === 'explore-sentence'")
    page.wait_for_timeout(200)
    large = plot(page, "explore-sentence")
    assert large[3] - large[1] > small[3] - small[1]
    assert read(page, "explore-sentence")["faults"] == []
    button.click()
    page.wait_for_function("!document.fullscreenElement")
    page.wait_for_timeout(200)
    assert plot(page, "explore-sentence") == small


def test_faults_of_form_are_found(own_page):
    page = own_page
    live(page, "explore-spread")
    live(page, "explore-masked")
    found = page.evaluate(
        f"""() => {{
          const panel = document.getElementById("explore-spread").panel, frame = panel.views[0].frame;
          frame.key = null;
          frame.choose = () => [1, 2, 3].map(n => ({{ at: n, text: "a long label", place: 99 + n, wide: 70 }}));
          panel.views[1].head.textContent = "pushes";
          panel.views[1].stage.style.marginTop = "5px";
          panel.views[1].frame.plot.height += 9;
          frame.labels.x.children[0].setAttribute("transform", "rotate(-45)");
          return ({FAULTS})(panel); }}"""
    )
    assert {"meet", "tops", "bottoms", "leans"} <= {word for fault in found for word in fault.replace(":", "").split()}
    found = page.evaluate(
        f"""() => {{ const {{ panel }} = document.getElementById("explore-masked"), view = panel.views[0];
          view.size = () => [200, 120]; view.frame.key = null; return ({FAULTS})(panel); }}"""
    )
    assert any("oblong" in fault for fault in found)


def test_a_fault_that_only_a_phone_shows_is_found_once_the_words_are_others(own_page):
    live(own_page, "explore-spread")
    before, again, found = own_page.evaluate(
        f"""() => {{
          const {{ panel }} = document.getElementById("explore-spread"), view = panel.views[0], forms = new Set();
          const faults = {FAULTS}, before = faults(panel, forms), again = faults(panel, forms);
          view.frame.key = null;
          view.frame.choose = () => [60, 240, 345].map(n => ({{ at: n, text: "a long label", place: n, wide: 70 }}));
          view.draw(view.tensors);
          return [before, again, faults(panel, forms)]; }}"""
    )
    assert before == again == []
    assert found
    assert all(fault.startswith("320: ") for fault in found)
