"""What readers do to panels with their hands: drag, pick, play, compare; and what explore() refuses to connect."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import torch

from posenc import Clocks, Formula, Heatmap, Lines, Plane, Readout, Words, explore, logarithmic
from posenc._explore.explorer import Explorer
from posenc._explore.formula import markup, tree
from tests.panels import live, read, settled, site

TEXT = ["the", "cat", "sat", "on", "the", "mat", "and", "looked", "at", "the", "other", "cat"]
POS = torch.arange(12)


def arrows(offset=3, key=4, theta=0.4, phase=0.9):
    angles = torch.stack([theta * (key + offset), theta * key + phase])
    tips = torch.stack([angles.cos(), angles.sin()], -1)
    axis = torch.arange(-20, 21)
    return tips, (axis, (theta * axis - phase).cos()), (tips[0] * tips[1]).sum()


def polar(angle=1.0, length=1.0):
    return torch.stack([length * torch.stack([angle.cos(), angle.sin()])])


def bias(slope=0.3, query=7, floor=-6.0, trained=8):
    offset = POS[:, None] - POS
    matrix = (-slope * offset).masked_fill(offset < 0, -torch.inf)
    return matrix, (-slope * POS).clamp(min=floor), torch.stack([slope * trained])


def stairs(width=4, height=1.0):
    return height * (torch.arange(64) // (width + 0 * torch.arange(64))).float()


KINDS = {"near": 1.0, "far": 0.1, "level": 0.0}


def sides(kind=1.0, gain=1.0, query=5):
    weights = (-gain * kind * (POS[:, None] - POS).abs()).softmax(-1)
    return weights, weights[query], weights.max()


def clocks(turn=0.0, size=1.0):
    angles = turn * 2.0 ** torch.arange(6)
    scaled = torch.arange(1, 4)[:, None, None] * size * torch.eye(4)
    return torch.stack([angles.cos(), angles.sin()], -1), scaled


SAID = ["the", "cat", "sat", "down"]


def said(moved=0, query=3):
    """Weights of the words up to one: the same for all, and halved with each step away. The second row notices."""
    ahead = torch.arange(4) > query
    near = torch.where(ahead, 0.0, 0.5 ** (query - torch.arange(4.0)))
    weights = torch.stack([torch.where(ahead, 0.0, 1 / (query + torch.ones(4))), near / near.sum()])
    return weights, torch.tensor([0.0, 0.1]) * moved


def dials(text=40, slow=1.0, answer=0.0):
    """Clocks of which training has turned one fully and another by a tenth; and a rule beside them."""
    rate = torch.stack([torch.ones(()), 0.02 / slow])
    x = torch.arange(100.0)
    return torch.stack([torch.tensor([7.0, 0.63]), text * rate, rate], -1), (x, x * slow / 100 + 0 * answer)


def drawn(near=0.0, middle=-1.0, far=-2.0):
    line = torch.stack([near, middle, far])
    at = torch.tensor([0.0, 4.0, 10.0])
    return (at, torch.stack([0 * line, line])), torch.stack([(near > middle).float(), line.sum()])


def other(theta=0.5, kind=0.0):
    return theta * POS + kind


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hands")
    site(folder, lambda: [
        explore(arrows, Plane(labels=["query", "key"], drag={0: "offset", 1: "key"}),
                Lines(x="offset", y="score", limits=(-1, 1), rule="offset", drag={0: "phase"}),
                Formula(r"\cos( {offset} \times {theta} - {phase} ) = {0}", digits=3),
                offset=(-20, 20), key=(0, 40), theta=(0.0, 3.0), phase=(-3.2, 3.2), play="key", more=("phase",),
                share=("theta",)),
        explore(polar, Plane(drag={0: ("angle", "length")}, limit=2.0), angle=(-3.2, 3.2), length=(0.1, 2.0)),
        explore(bias, Heatmap(x="key", y="query", rows=TEXT, columns=TEXT, pick="query"),
                Lines(x="distance", y="bias", limits=(-8, 0), rule="trained", level="floor", drag={0: "slope"},
                      landmarks={"here": 5, "here too": 6}),
                Readout(), slope=(0.0, 1.0), query=(0, 11), floor=(-8.0, 0.0), trained=(2, 11, 3)),
        explore(stairs, Lines(x="x", y="bucket", mark="step", drag={0: ("width", "height")}, limits=(0, 20)),
                width=(1, 32), height=(0.1, 3.0)),
        explore(sides, Heatmap(x="key", y="query", title="weights", pick="query"),
                Lines(x="key", y="weight"), Readout(),
                kind=KINDS, gain=(0.0, 3.0), query=(0, 11), compare="kind"),
        explore(clocks, Plane(tiles=True, labels=[f"hand {i}" for i in range(6)]),
                Heatmap(tiles=["one", "two", "three"]),
                turn=(0.0, 6.3), size=(1.0, 2.0), play="turn"),
        explore(said, Words(SAID, labels=["even", "near"], colours=["nope", "alibi"], pick="query"),
                moved=(0, 9), query=(0, 3)),
        explore(dials, Clocks(labels=["fast", "slow"], x="trained", y="now", drag="text"),
                Lines(limits=(-1, 1), rule="answer", drag={0: "slow"}),
                text=(0, 400), slow=(0.5, 4.0), answer=(0.0, 99.0)),
        explore(drawn, Lines(x="distance", labels=["nothing", "yours"], limits=(-8, 2),
                             sketch={0: "near", 4: "middle", 10: "far"}),
                Readout(labels=["order", "sum"], names={0: ["rises", "falls"]}),
                near=(-8.0, 2.0), middle=(-8.0, 2.0), far=(-8.0, 2.0)),
        explore(other, Lines(), theta=(0.0, 1.0), kind=[0.0, 1.0], share=("theta", "kind"), play="kind"),
    ], gap="<p>With θ = <a id=number href='#explore-arrows?theta'>0.4</a>.</p>")  # fmt: skip
    return folder


def values(page, identity):
    return page.evaluate("id => document.getElementById(id).panel.values", identity)


def place(page, identity, view, x, y, part=None):
    """The place in the window of a point of a view, in its data's own numbers."""
    return page.evaluate(
        """([id, n, part, x, y]) => {
          const view = document.getElementById(id).panel.views[n], { frame } = part === null ? view : view.parts[part];
          frame.svg.scrollIntoView({ block: "center" });
          const box = frame.svg.getBoundingClientRect();
          return [box.left + frame.x(x), box.top + frame.y(y)]; }""",
        [identity, view, part, x, y],
    )


# A search goes on in later frames: it has ended when nothing has moved for some of them.
RESTS = """async id => {
  const { panel } = document.getElementById(id);
  let frames = 0, before = "";
  for (const late = Date.now() + 8000; frames < 15 && Date.now() < late;) {
    await new Promise(requestAnimationFrame);
    const now = JSON.stringify(panel.values) + panel.running;
    frames = now === before ? frames + 1 : 0;
    before = now;
  }
}"""


def drag(page, identity, *points, release=True):
    """Press at the first point and move over the others, each of which the panel has time to follow."""
    page.mouse.move(*points[0])
    page.mouse.down()
    for start, end in itertools.pairwise(points):
        for share in (0.25, 0.5, 0.75, 1.0):
            page.mouse.move(*(a + share * (b - a) for a, b in zip(start, end, strict=True)))
            settled(page, identity)
    if release:
        page.mouse.up()
    page.evaluate(RESTS, identity)
    settled(page, identity)


def test_a_rule_moves_its_control(page):
    live(page, "explore-arrows")
    start, end = (place(page, "explore-arrows", 1, offset, 0.98) for offset in (3, 8))
    drag(page, "explore-arrows", start, end)
    assert values(page, "explore-arrows")["offset"] == 8
    shown = page.locator("#explore-arrows").get_by_label("offset", exact=True)
    assert shown.get_attribute("aria-valuetext") == "8"
    assert page.locator("#explore-arrows").get_by_label("offset, exact value").input_value() == "8"
    level = place(page, "explore-bias", 1, 10, -6.0), place(page, "explore-bias", 1, 10, -3.0)
    live(page, "explore-bias")
    level = place(page, "explore-bias", 1, 10.5, -6.0), place(page, "explore-bias", 1, 10.5, -3.0)
    drag(page, "explore-bias", *level)
    assert values(page, "explore-bias")["floor"] == pytest.approx(-3.0, abs=0.1)
    rule = place(page, "explore-bias", 1, 8, -7.5), place(page, "explore-bias", 1, 4.4, -7.5)
    drag(page, "explore-bias", *rule)
    assert values(page, "explore-bias")["trained"] == 5  # the nearest of 2, 5, 8 and 11


def test_an_arrow_follows_the_pointer_once_around(page):
    live(page, "explore-arrows")
    before = values(page, "explore-arrows")
    angle = before["theta"] * (before["key"] + before["offset"])
    around = [angle - 2 * math.pi * step / 16 for step in range(17)]  # clockwise: the query falls behind
    points = [place(page, "explore-arrows", 0, 0.95 * math.cos(a), 0.95 * math.sin(a)) for a in around]
    drag(page, "explore-arrows", *points)
    assert values(page, "explore-arrows")["offset"] - before["offset"] == -round(2 * math.pi / 0.4)
    assert values(page, "explore-arrows")["key"] == before["key"]


def test_a_tip_with_two_controls_comes_under_the_pointer(page):
    live(page, "explore-polar")
    start = place(page, "explore-polar", 0, math.cos(1.0), math.sin(1.0))
    drag(page, "explore-polar", start, place(page, "explore-polar", 0, -0.6, 1.4))
    found = values(page, "explore-polar")
    assert found["angle"] == pytest.approx(math.atan2(1.4, -0.6), abs=0.05)
    assert found["length"] == pytest.approx(math.hypot(0.6, 1.4), abs=0.05)


def test_a_line_comes_under_the_pointer(page):
    live(page, "explore-bias")
    start, end = place(page, "explore-bias", 1, 6, -1.8), place(page, "explore-bias", 1, 6, -4.2)
    drag(page, "explore-bias", start, end)
    assert values(page, "explore-bias")["slope"] == pytest.approx(0.7, abs=0.01)


def test_the_border_of_a_step_follows_and_so_does_its_height(page):
    live(page, "explore-stairs")
    start, end = place(page, "explore-stairs", 0, 7.5, 1.5), place(page, "explore-stairs", 0, 15.5, 1.5)
    drag(page, "explore-stairs", start, end)  # the second border
    assert values(page, "explore-stairs") == {"width": 8, "height": 1.0}
    start, end = place(page, "explore-stairs", 0, 28, 3), place(page, "explore-stairs", 0, 28, 6)
    drag(page, "explore-stairs", start, end)
    assert values(page, "explore-stairs")["width"] == 8
    assert values(page, "explore-stairs")["height"] == pytest.approx(2.0, abs=0.05)


def tip(page, identity, clock):
    """Where a hand is taken, its clock's centre, in the window."""
    return page.evaluate(
        """([id, n]) => {
          const [view] = document.getElementById(id).panel.views, [cx, cy] = view.centres[n];
          view.frame.svg.scrollIntoView({ block: "center" });
          const box = view.frame.svg.getBoundingClientRect(), [x, y] = view.tip(view.tensors[0].data, n);
          return [[box.left + 0.1 * cx + 0.9 * x, box.top + 0.1 * cy + 0.9 * y], [box.left + cx, box.top + cy]]; }""",
        [identity, clock],
    )


def test_a_hand_is_dragged_beyond_its_arc_and_the_dial_says_so(page):
    live(page, "explore-dials")
    new = page.locator("#explore-dials .pe-dial-new")
    assert new.count() == 1 and values(page, "explore-dials")["text"] == 40  # 0.8 of 0.63
    (x, y), (cx, cy) = tip(page, "explore-dials", 1)
    half = [(cx + (x - cx) * math.cos(a) - (y - cy) * math.sin(a), cy + (x - cx) * math.sin(a) + (y - cy) * math.cos(a))
            for a in (0.0, 0.4, 0.8)]  # fmt: skip
    drag(page, "explore-dials", *half)
    assert values(page, "explore-dials")["text"] == pytest.approx(80, abs=2)
    assert {n: v for n, v in values(page, "explore-dials").items() if n != "text"} == {"slow": 1.0, "answer": 0.0}
    said = page.locator("#explore-dials .pe-clocks .pe-stage")
    page.evaluate("document.getElementById('explore-dials').panel.speak()")
    assert said.get_attribute("aria-label").startswith(
        "1 of 2 hands beyond their arcs: slow, trained 0.1 turns, now 0.2"
    )
    back = tip(page, "explore-dials", 1)[0], half[0], (cx + 1, cy - 30)
    drag(page, "explore-dials", *back)
    assert new.count() == 0 and values(page, "explore-dials")["text"] < 31
    said.focus()
    for key in ("ArrowRight", "ArrowRight"):
        said.press(key)
    assert said.get_attribute("aria-valuetext").startswith("slow: trained 0.1 turns")


def test_what_was_dragged_stays_when_it_is_let_go(page):
    """A click that ends a drag chooses no place for the rule of the same picture."""
    live(page, "explore-dials")
    drag(page, "explore-dials", place(page, "explore-dials", 1, 60, 0.6), place(page, "explore-dials", 1, 60, 0.9))
    found = values(page, "explore-dials")
    assert found["slow"] == pytest.approx(1.5, abs=0.05) and found["answer"] == 0.0


def test_a_curve_is_drawn_by_its_grips_and_across_them(page):
    live(page, "explore-drawn")
    for name, at, now in (("near", 0, 0.0), ("middle", 4, -1.0), ("far", 10, -2.0)):
        before = values(page, "explore-drawn")
        start, (x, y) = place(page, "explore-drawn", 0, at, now), place(page, "explore-drawn", 0, at, now - 4)
        drag(page, "explore-drawn", start, (x + 9, y))  # a hand is never quite steady
        assert values(page, "explore-drawn") == {**before, name: pytest.approx(now - 4, abs=0.06)}
    terms = page.locator("#explore-drawn .pe-views .pe-readout dd")
    assert terms.all_inner_texts()[0] == "falls"
    drag(page, "explore-drawn", place(page, "explore-drawn", 0, 1, 1), place(page, "explore-drawn", 0, 9.9, 1))
    assert values(page, "explore-drawn") == {
        "near": -4.0,
        "middle": pytest.approx(1, abs=0.06),
        "far": pytest.approx(1, abs=0.06),
    }
    assert terms.all_inner_texts()[0] == "rises"


def test_rows_are_picked_by_mouse_and_by_key(page):
    live(page, "explore-bias")
    page.mouse.click(*place(page, "explore-bias", 0, 1, 4))
    settled(page, "explore-bias")
    assert values(page, "explore-bias")["query"] == 4
    outline = page.get_attribute("#explore-bias .pe-picked", "d")
    drag(page, "explore-bias", place(page, "explore-bias", 0, 1, 4), place(page, "explore-bias", 0, 2, 9))
    assert values(page, "explore-bias")["query"] == 9
    assert page.get_attribute("#explore-bias .pe-picked", "d") != outline
    stage = page.locator("#explore-bias .pe-heatmap .pe-stage")
    stage.focus()
    for key in ("Escape", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        stage.press(key)
    assert values(page, "explore-bias")["query"] == 2
    assert page.locator("#explore-bias").get_by_label("query", exact=True).is_enabled()  # though no graph uses it


def test_a_word_is_picked_and_a_row_says_how_far_it_has_changed(page):
    identity = "explore-said"
    live(page, identity)
    word = page.locator(f"#{identity} .pe-stage .pe-words tr").nth(1).locator(".pe-word").nth(2)
    word.click()
    settled(page, identity)
    assert values(page, identity) == {"moved": 0, "query": 2}
    assert "pe-picked-word" in word.get_attribute("class")
    ink = lambda i: word.evaluate(f"w => w.parentNode.children[{i}].style.getPropertyValue('--pe-ink')")  # noqa: E731
    near = said(0, 2)[0][1]
    assert [ink(i) for i in range(4)] == [f"{round(100 * float(w) ** 0.62)}%" for w in near]
    notes = page.locator(f"#{identity} .pe-stage .pe-words td:last-child")
    assert notes.all_inner_texts() == ["", ""]
    page.evaluate("id => document.getElementById(id).panel.set({ moved: 5 })", identity)
    settled(page, identity)
    assert notes.all_inner_texts() == ["same", "± 50 %"]
    page.evaluate("id => document.getElementById(id).panel.speak()", identity)
    said_of = page.locator(f"#{identity} .pe-stage .pe-words").locator("..").get_attribute("aria-label")
    assert "near: most on “sat”" in said_of and "even: most on “the”" in said_of and "unchanged" in said_of


def test_handles_add_no_tab_stop_and_fit_a_finger(made, open_page):
    page = open_page((made / "index.html").as_uri(), has_touch=True, viewport={"width": 390, "height": 800}).page
    live(page, "explore-arrows")
    assert page.locator(".pe-hit[tabindex]").count() == 0
    wide = page.eval_on_selector("#explore-arrows .pe-hit-x", "e => getComputedStyle(e).strokeWidth")
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    assert wide == "44px"
    tools = page.eval_on_selector_all(".pe-tool:not([hidden])", "all => all.map(e => e.getBoundingClientRect().width)")
    assert min(width for width in tools if width) >= 44


def fingers(page, *moments):
    """Touches of a screen: each moment is a kind and the places of all fingers then."""
    session = page.context.new_cdp_session(page)
    for kind, *places in moments:
        points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_timeout(60)


def test_a_finger_drags_a_handle_and_scrolls_elsewhere(made, open_page):
    page = open_page((made / "index.html").as_uri(), has_touch=True, viewport={"width": 390, "height": 800}).page
    live(page, "explore-bias")
    (x, y), (to, _) = place(page, "explore-bias", 1, 8, -4.2), place(page, "explore-bias", 1, 2, -4.2)
    scrolled = page.evaluate("scrollY")
    fingers(page, ("touchStart", (x, y)), ("touchMove", ((x + to) / 2, y + 30)), ("touchMove", (to, y + 60)),
            ("touchMove", (to, y + 60), (x, y)), ("touchEnd",))  # fmt: skip
    settled(page, "explore-bias")
    assert values(page, "explore-bias")["trained"] == 2
    assert page.evaluate("scrollY") == scrolled
    x, y = place(page, "explore-bias", 1, 10.6, -0.6)
    before = values(page, "explore-bias")
    fingers(page, ("touchStart", (x, y)), ("touchMove", (x, y - 40)), ("touchMove", (x, y - 160)), ("touchEnd",))
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") > scrolled
    assert values(page, "explore-bias") == before


def test_a_drag_that_leaves_the_window_ends_and_a_second_finger_changes_nothing(made, open_page):
    page = open_page((made / "index.html").as_uri()).page
    live(page, "explore-arrows")
    start = place(page, "explore-arrows", 1, 3, 0.98)
    drag(page, "explore-arrows", start, (-50, start[1]), release=False)
    assert values(page, "explore-arrows")["offset"] == -20
    other = place(page, "explore-arrows", 0, math.cos(2.5), math.sin(2.5))
    page.evaluate(
        """([x, y]) => document.querySelectorAll("#explore-arrows .pe-hit-tip")[1].dispatchEvent(
          new PointerEvent("pointerdown",
            { clientX: x, clientY: y, pointerId: 77, isPrimary: true, bubbles: true }))""",
        other,
    )
    page.mouse.up()
    page.mouse.move(*place(page, "explore-arrows", 1, 10, 0))
    page.wait_for_timeout(100)
    assert values(page, "explore-arrows")["offset"] == -20
    assert values(page, "explore-arrows")["key"] == 4
    start = place(page, "explore-arrows", 1, -20, 0.98)
    drag(page, "explore-arrows", start, place(page, "explore-arrows", 1, -5, 0.98), release=False)
    page.evaluate("document.getElementById('explore-arrows').panel.destroy()")  # while it is held
    page.mouse.move(*start)
    page.mouse.up()


def test_play_goes_once_around_and_any_hand_stops_it(made, open_page):
    page = open_page((made / "index.html").as_uri(), reduced_motion="no-preference").page
    live(page, "explore-arrows")
    button = page.locator("#explore-arrows").get_by_role("button", name="Play")
    times = page.evaluate(
        """async () => {
          const root = document.getElementById("explore-arrows"), times = [], begin = performance.now();
          root.addEventListener("pe-drawn", e => times.push([performance.now() - begin, e.detail.key]));
          root.querySelector(".pe-play").click();
          for (const late = Date.now() + 9000; times.length < 4 && Date.now() < late;)
            await new Promise(r => setTimeout(r, 20));
          return times; }"""
    )
    keys = [key for _, key in times]
    assert keys[0] == 5 and keys == sorted(set(keys)) and len(keys) == 4  # a busy machine leaves one out
    assert all(time >= (key - 5) * 400 - 20 for time, key in times), times  # or draws later, and never sooner
    assert page.locator("#explore-arrows .pe-play").inner_text() == "Stop"
    page.mouse.click(5, 5)  # anywhere
    assert button.inner_text() == "Play"
    stopped = values(page, "explore-arrows")["key"]
    page.wait_for_timeout(600)
    assert values(page, "explore-arrows")["key"] == stopped
    live(page, "explore-other")
    seen = page.evaluate(
        """async () => {
          const root = document.getElementById("explore-other"), seen = [];
          root.addEventListener("pe-drawn", e => seen.push(e.detail.kind));
          root.querySelector(".pe-play").click();
          await new Promise(r => setTimeout(r, 1700));
          return seen; }"""
    )
    assert seen == [1, 0]  # both choices, and then it ends


def test_with_reduced_motion_a_button_takes_single_steps(made, open_page):
    page = open_page((made / "index.html").as_uri(), reduced_motion="reduce").page
    live(page, "explore-arrows")
    button = page.locator("#explore-arrows").get_by_role("button", name="Step")
    for _ in range(2):
        button.click()
    page.wait_for_timeout(600)
    assert values(page, "explore-arrows")["key"] == 6
    assert not page.evaluate("document.getElementById('explore-arrows').panel.motion.playing")


def test_two_sides_are_shown_with_their_difference(made, open_page):
    page = open_page((made / "index.html").as_uri()).page
    live(page, "explore-sides")
    explorer = Explorer(sides, (Heatmap(), Lines(), Readout()), {"kind": KINDS, "gain": (0.0, 3.0), "query": (0, 11)})
    near, far = (explorer.run({"kind": kind})[0].numpy() for kind in (1.0, 0.1))
    page.locator("#explore-sides summary", has_text="Numbers").click()
    drawn = page.evaluate(
        "document.getElementById('explore-sides').panel.all.map(v => Array.from(v.drawn?.[0].data ?? []))"
    )
    assert drawn[0] == pytest.approx(near.ravel(), abs=1e-6)
    assert drawn[1] == pytest.approx(far.ravel(), abs=1e-6)
    assert drawn[2] == pytest.approx((far - near).ravel(), abs=1e-6)
    titles = page.locator("#explore-sides .pe-heatmap .pe-view-title").all_inner_texts()
    assert titles == ["weights: near", "weights: far", "weights: far − near"]
    ends = page.locator("#explore-sides .pe-heatmap .pe-legend").all_inner_texts()
    assert ends[0] == ends[1] != ends[2]  # one scale for both sides
    assert page.locator("#explore-sides .pe-swatch").all_inner_texts() == ["near", "far"]
    assert " / " in page.locator("#explore-sides .pe-views dd").inner_text()
    page.locator("#explore-sides").get_by_label("B: kind").select_option("near")
    settled(page, "explore-sides")
    page.wait_for_function("document.getElementById('explore-sides').panel.all[2].drawn[0].data.every(v => v === 0)")
    page.locator("#explore-sides").get_by_label("B: kind").select_option("level")
    settled(page, "explore-sides")
    page.locator("#explore-sides").get_by_role("button", name="Reset").click()
    settled(page, "explore-sides")
    assert page.locator("#explore-sides .pe-swatch").all_inner_texts() == ["near", "far"]
    page.locator("#explore-sides").get_by_label("B: kind").select_option("level")
    settled(page, "explore-sides")
    page.locator("#explore-sides").get_by_role("button", name="Copy link").click()
    page.reload()
    page.wait_for_selector("#explore-sides.pe-live")
    settled(page, "explore-sides")
    assert page.locator("#explore-sides .pe-swatch").all_inner_texts() == ["near", "level"]


def test_a_formula_is_smaller_where_there_is_less_room(page):
    live(page, "explore-arrows")
    wide, narrow, tiny = page.eval_on_selector(
        "#explore-arrows",
        """async root => {
          const box = root.querySelector(".pe-stage .pe-formula"), found = [];
          const around = root.clientWidth - box.clientWidth;
          const parts = [...box.querySelectorAll("mi, mn, mo")].map(part => part.getBoundingClientRect());
          const natural = Math.max(...parts.map(r => r.right)) - Math.min(...parts.map(r => r.left));  // by the fonts
          for (const share of [0, 0.85, 0.5]) {
            root.style.width = share ? `${around + share * natural}px` : "";
            for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
            found.push([parseFloat(getComputedStyle(box).fontSize), box.scrollWidth - box.clientWidth]);
          }
          return found; }""",
    )
    assert wide[1] == narrow[1] == 0
    assert tiny[0] == pytest.approx(0.7 * wide[0], rel=0.01)
    assert tiny[0] < narrow[0] < wide[0]


def test_a_formula_has_the_present_numbers_which_can_be_dragged(page):
    live(page, "explore-arrows")
    texts = lambda: page.locator("#explore-arrows .pe-views mn").all_text_contents()  # noqa: E731
    assert [text.strip() for text in texts()] == ["3", "0.4", "0.9", f"{math.cos(3 * 0.4 - 0.9):.3f}"]
    widths = page.evaluate(
        """async () => {
          const { panel } = document.getElementById("explore-arrows"), wide = [];
          for (const offset of [-20, -7, 0, 5, 20]) for (const theta of [0, 0.015, 1, 3]) {
            panel.set({ offset, theta });
            while (panel.running) await new Promise(requestAnimationFrame);
            wide.push(panel.stages.querySelector("math mrow").getBoundingClientRect().width);
          }
          return wide.slice(1); }"""
    )
    assert max(widths) - min(widths) <= 1, widths
    box = page.locator("#explore-arrows .pe-views mn").first.bounding_box()
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = values(page, "explore-arrows")["offset"]
    drag(page, "explore-arrows", at, (at[0] - 60, at[1]))
    assert values(page, "explore-arrows")["offset"] < before


def test_a_number_in_the_text_shows_a_control_and_moves_it(page):
    live(page, "explore-arrows")
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 1.2 })")
    settled(page, "explore-arrows")
    number = page.locator("#number")
    assert number.inner_text() == "1.2"
    box = number.bounding_box()
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(page, "explore-arrows", at, (at[0] + 100, at[1]))
    assert values(page, "explore-arrows")["theta"] > 1.5
    assert float(number.inner_text()) == pytest.approx(values(page, "explore-arrows")["theta"], rel=1e-3)
    assert page.evaluate("scrollY") == 0  # the click at the end follows no link


def test_shared_controls_move_together_as_far_as_they_go(page):
    for name in ("explore-arrows", "explore-other"):
        live(page, name)
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 0.75 })")
    settled(page, "explore-other")
    assert values(page, "explore-other")["theta"] == 0.75
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 2.5 })")  # the other ends at 1
    settled(page, "explore-other")
    assert values(page, "explore-other")["theta"] == 0.75
    page.evaluate("document.getElementById('explore-other').panel.set({ kind: 1 })")  # which nobody else has
    settled(page, "explore-other")
    assert "kind" not in values(page, "explore-arrows")


SIGHT = "id => document.getElementById(id).panel.seen"


def test_a_shared_control_that_moves_elsewhere_arrives_out_of_sight_too(page):
    for name in ("explore-other", "explore-arrows"):
        live(page, name)
    page.wait_for_function(f"!({SIGHT})('explore-other')")
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 0.75 })")
    assert values(page, "explore-other")["theta"] == 0.5  # while it moves, only what is seen is drawn
    page.wait_for_function("document.getElementById('explore-other').panel.shown.theta === 0.75")
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 0.25 })")
    page.evaluate("document.getElementById('explore-other').panel.set({ kind: 1 })")  # before the other has arrived
    assert values(page, "explore-other") == {"theta": 0.25, "kind": 1}
    page.evaluate("document.getElementById('explore-arrows').panel.set({ theta: 0.5 })")
    page.evaluate("document.getElementById('explore-other').scrollIntoView()")
    page.wait_for_function(f"({SIGHT})('explore-other')")
    settled(page, "explore-other")
    assert values(page, "explore-other") == {"theta": 0.5, "kind": 1}


def test_what_was_drawn_before_stays_as_a_ghost_until_the_answer_has_come(page):
    live(page, "explore-other")
    ghosts = page.evaluate(
        """async () => { const { panel } = document.getElementById("explore-other"), seen = [];
        const { compute } = panel.engine;
        const look = () => { panel.forget(); seen.push([panel.running, panel.haunted, Boolean(panel.views[0].past)]); };
        let answer;
        panel.engine.compute = values => new Promise(done => (answer = () => done(compute(values))));
        panel.set({ theta: 0.9 });
        look();
        panel.engine.compute = compute;
        answer();
        while (panel.running) await new Promise(requestAnimationFrame);
        look();
        return seen; }"""
    )
    assert ghosts == [[True, True, True], [False, False, False]]


def test_small_multiples_have_one_scale_and_one_tab_stop(page):
    live(page, "explore-clocks")
    titles = page.locator("#explore-clocks .pe-tile .pe-view-title").all_inner_texts()
    assert titles == [*(f"hand {i}" for i in range(6)), "one", "two", "three"]
    stops = page.locator("#explore-clocks .pe-views > .pe-view").evaluate_all(
        "all => all.map(view => view.querySelectorAll('[tabindex=\"0\"]').length)"
    )
    assert stops == [1, 1]
    assert page.locator("#explore-clocks .pe-view.pe-heatmap > .pe-legend").inner_text().split() == ["0", "3"]
    before = page.locator("#explore-clocks .pe-arrow").evaluate_all("all => all.map(e => e.getAttribute('d'))")
    page.evaluate("document.getElementById('explore-clocks').panel.set({ turn: 1.0, size: 2.0 })")
    settled(page, "explore-clocks")
    after = page.locator("#explore-clocks .pe-arrow").evaluate_all("all => all.map(e => e.getAttribute('d'))")
    assert len(before) == 6
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert page.locator("#explore-clocks .pe-view.pe-heatmap > .pe-legend").inner_text().split() == ["0", "6"]
    got = read(page, "explore-clocks")
    assert got["faults"] == []


def test_further_controls_are_folded(page):
    live(page, "explore-arrows")
    phase = page.locator("#explore-arrows").get_by_label("phase", exact=True)
    assert not phase.is_visible()
    page.locator("#explore-arrows").get_by_role("button", name="More controls").click()
    assert phase.is_visible()


def test_a_panel_is_used_by_keyboard_alone(made, open_page):
    page = open_page((made / "index.html").as_uri(), reduced_motion="reduce").page
    live(page, "explore-arrows")
    page.evaluate("document.querySelector('#number').focus()")
    names = []
    press = page.keyboard.press
    focused = """() => { const e = document.activeElement;
      return e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent || e.title; }"""

    def tab(to):
        for _ in range(30):
            press("Tab")
            names.append(page.evaluate(focused))
            if re.match(to, names[-1]):
                return
        raise AssertionError(f"no tab stop is called {to}: {names}")

    tab("Pin")
    press("Enter")
    tab("offset$")
    for _ in range(2):
        press("ArrowRight")
    tab("More controls")
    press("Enter")
    tab("Step")
    press("Space")
    tab("phase$")
    press("Home")
    tab("score against offset")  # the second picture: the probe
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        press(key)
    settled(page, "explore-arrows")
    found = values(page, "explore-arrows")
    assert found == {"offset": -19, "key": 5, "theta": 0.4, "phase": -3.2}
    tab("Numbers")
    assert page.locator("#explore-arrows .pe-ghost").first.get_attribute("d")  # what was pinned
    assert len(names) == len(set(names)), names  # no stop twice, and none for a handle
    for _ in range(40):
        press("Shift+Tab")
        if page.evaluate(focused) == "Reset":
            break
    press("Enter")
    settled(page, "explore-arrows")
    assert values(page, "explore-arrows") == {"offset": 3, "key": 4, "theta": 0.4, "phase": 0.9}


def test_limits_of_all_states_hold_the_start_the_presets_and_the_ends():
    def line(scale=1.0, level=0.0, sign=1):
        return scale * sign * torch.arange(5.0) + level

    made = Explorer(line, (Lines(limits="all"),), {"scale": (0.5, 2.0), "level": (0.0, 10.0), "sign": [1, -1]})
    assert made.limits() == [(-10.0, 20.0)]  # 4 * 2 + 10 and -4 * 2, rounded outwards
    heat = Explorer(lambda v=1.0: v * torch.eye(2), (Heatmap(limits="all", scale="diverging"),), {"v": (-3.0, 2.0)})
    low, high = heat.limits()[0]
    assert -low == high >= 3
    log = Explorer(lambda b=10.0: b ** torch.arange(3.0), (Lines(limits="all", log_y=True),), {"b": logarithmic(2, 50)})
    assert log.limits() == [(1.0, 10_000.0)]
    with pytest.raises(ValueError, match='give \\(low, high\\), or "all"'):
        Lines(limits="none")


@pytest.mark.parametrize(
    ("view", "options", "reason"),
    [
        (Lines(rule="nowhere"), {}, "no control"),
        (Lines(rule="kind"), {}, "no slider"),
        (Lines(drag={0: ("n", "kind")}), {}, "no slider"),
        (Formula("{nowhere}"), {}, "no control"),
        (Lines(), {"play": "nowhere"}, "no control"),
        (Lines(), {"play": "yes"}, "two states"),
        (Lines(), {"compare": "n"}, "no choice"),
        (Lines(), {"more": ("m",)}, "no control"),
        (Lines(), {"share": ("m",)}, "no control"),
    ],
)
def test_explore_refuses_hands_without_a_control(view, options, reason):
    def line(n=3.0, kind="a", yes=True):
        return n * torch.arange(4)

    with pytest.raises(ValueError, match=reason):
        Explorer(line, (view,), {"n": (0.0, 9.0), "kind": ["a", "b"], "yes": True}, **options)


def test_only_whole_numbers_and_choices_can_be_picked():
    for pick in ("x", ("", "x")):
        with pytest.raises(ValueError, match="neither a whole number nor a choice"):
            Explorer(lambda x=0.5: x * torch.eye(3), (Heatmap(pick=pick),), {"x": (0.0, 1.0)})


@pytest.mark.parametrize(
    ("view", "value"),
    [
        (Heatmap(tiles=["a", "b"]), torch.ones(3, 2, 2)),
        (Heatmap(tiles=["a", "b"]), torch.ones(2, 2)),
        (Heatmap(), torch.ones(2, 2, 2)),
        (Formula("{1}"), torch.ones(1)),
        (Formula("{0}"), None),
        (Words(["a", "b"]), torch.ones(1, 2)),
        (Words(["a", "b"]), (torch.ones(1, 3), torch.ones(1))),
        (Words(["a", "b"]), (torch.ones(2, 2), torch.ones(3))),
    ],
)
def test_views_refuse_other_shapes(view, value):
    with pytest.raises(ValueError, match="needs"):
        view.read(value)


def test_a_formula_keeps_the_braces_of_tex_and_no_markup():
    found = tree(r"\frac{a}{b} x_{ij} + {slope} \times 5 = {0}")
    text = markup(found, {"slope": "<b>1</b>", "0": "2"})
    assert text.count("<mfrac>") == 1
    assert '<mi class="pe-italic">a</mi>' in text
    assert "&lt;b&gt;1&lt;/b&gt;" in text
    assert "<b>" not in text
    assert Formula(r"x_{ij} = {slope} + {2}").places() == ["slope", "2"]


def test_shared_controls_move_together_in_a_kernel(monkeypatch):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    one = explore(lambda base=2.0: base * POS, Lines(), base=(1.0, 9.0), share=("base",), name="one")
    two = explore(lambda base=3.0: base * POS, Lines(), base=(1.0, 5.0), share=("base",), name="two")
    alone = explore(lambda base=3.0: base * POS, Lines(), base=(1.0, 5.0), name="alone")
    one.base = 4.0
    assert (two.base, alone.base) == (4.0, 3.0)
    one.base = 8.0  # beyond what the other has
    assert (one.base, two.base) == (8.0, 4.0)


def test_a_still_has_rules_formulas_and_small_multiples(made):
    text = (made / "index.html").read_text(encoding="utf-8")
    first = text[text.index('id="explore-arrows"') : text.index('id="explore-polar"')]
    assert "<math" in first
    assert ">0.955</mn>" in first  # cos(3 * 0.4 - 0.9)
    assert text.count("<svg") >= 10
