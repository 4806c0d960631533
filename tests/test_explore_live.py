"""explore() in a real JupyterLab with a kernel, as people use it: sliders and Python, curves that are dragged, presets,
two panels at once, links of the text, a restart, a notebook saved with its widgets, and a chapter's first panel.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell

from posenc import sinusoidal
from tests.browser import drag, place
from tests.live import KERNEL_IDLE, jupyterlab, open_notebook, reopen, run_all, run_cell

pytestmark = [pytest.mark.browser, pytest.mark.pages]
CHAPTER = Path(__file__).parents[1] / "chapters/alibi.ipynb"

CELLS = [
    """\
import ipywidgets, torch
from posenc import Heatmap, explore, logarithmic, sinusoidal

def encoding(length=16, dim=8, base=10_000.0, layout="interleaved"):
    if layout == "flat":
        return torch.zeros(length, dim)
    if length == 31:
        raise RuntimeError("thirty-one <b>is</b> refused")
    return sinusoidal(torch.arange(length), dim, base, layout=layout)

panel = explore(encoding, Heatmap(), length=(8, 32), dim=(2, 16, 2), base=logarithmic(10, 1e6),
                layout=["interleaved", "half", "flat"])
panel""",
    "panel.length = 24",
    """\
other = ipywidgets.IntSlider(min=8, max=32)
linked = ipywidgets.link((panel, 'length'), (other, 'value'))
other.value = 12""",
    "seen = []\npanel.observe(lambda change: seen.append(change['new']), 'base')",
    "print('seen', seen, 'linked', other.value, 'values', panel.values)",
]

TWO = [
    """\
import ipywidgets, torch
from posenc import Heatmap, Lines, explore, logarithmic

def one_head(slope=0.25, query=11):
    offset = torch.arange(12)
    return (offset, -slope * offset), -slope * (offset[:, None] - offset).abs()

wide = explore(one_head, Lines(x="distance", y="bias", limits=(-8, 0), drag={0: "slope"}), Heatmap(pick="query"),
               slope=logarithmic(0.002, 2.0), query=(0, 11), name="one-head",
               presets={"gentle": {"slope": 1 / 256}, "steep": {"slope": 0.5}})
wide""",
    """\
def count(n=600, slope=0.5):
    x = torch.arange(1000.0)
    return x, slope * torch.minimum(x, x.new_tensor(n))

narrow = explore(count, Lines(x="x", y="y", limits=(0, 500)), n=(100, 900), slope=(0.1, 1.0), name="count")
ipywidgets.VBox([narrow], layout=ipywidgets.Layout(width="420px"))""",
]


HANDS = """\
import torch
from posenc import Clocks, Lines, explore

def dial(text=40):
    hand = torch.full((1,), 0.02 * text)
    return torch.stack([0 * hand + 0.63, hand, 0 * hand + 0.02], -1)

def drawn(near=0.0, far=-2.0):
    return torch.tensor([0.0, 10.0]), torch.stack([near, far])[None]

display(explore(dial, Clocks(labels=["slow"], drag="text"), text=(0, 300)))
explore(drawn, Lines(labels=["yours"], limits=(-8, 2), sketch={0: "near", 10: "far"}),
        near=(-8.0, 2.0), far=(-8.0, 2.0))"""


# What JupyterLab's kernel client throws by itself when a notebook is closed or its kernel
# restarted while a question to the kernel is still open. No panel has part in it.
JUPYTERLAB_S_OWN = "message before replies were done"

RESTART = "() => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"


def drawn(page):
    return page.evaluate("() => [...document.querySelector('.pe-widget').panel.tensors[0].data]")


def settle(page, **wanted):
    """Wait until the picture shows the given values."""
    page.wait_for_function(
        """wanted => { const shown = document.querySelector('.pe-widget').panel.shown;
           return shown && Object.entries(wanted).every(([name, value]) => shown[name] === value); }""",
        arg=wanted,
        timeout=20_000,
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory, browser):
    """A page in which JupyterLab runs, with four notebooks."""
    two = [
        new_code_cell(TWO[0]),
        new_markdown_cell("[A steep head](#explore-one-head?slope=0.5)."),
        new_code_cell(TWO[1]),
    ]
    chapter = nbformat.read(CHAPTER, as_version=4).cells
    first = next(n for n, cell in enumerate(chapter) if cell.cell_type == "code" and "explore(" in cell.source)
    notebooks = {"two": two, "chapter": chapter[: first + 2], "hands": [new_code_cell(HANDS)]}
    with jupyterlab(tmp_path_factory.mktemp("lab"), CELLS, notebooks) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 1000}, reduced_motion="reduce")
        page.errors = []
        page.on("pageerror", lambda error: None if JUPYTERLAB_S_OWN in str(error) else page.errors.append(str(error)))
        open_notebook(page, address)
        yield page
        page.close()


@pytest.fixture
def page(lab):
    lab.errors.clear()
    yield lab
    assert not lab.errors


def test_sliders_and_python_move_each_other(page):
    reopen(page, "live")
    run_cell(page, 0)
    page.wait_for_selector(".pe-widget.pe-live", timeout=90_000)

    slider = page.get_by_role("slider", name=re.compile("^base$"))
    slider.focus()
    before = drawn(page)
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    base = 8414.0  # three fortieths of a decade below 10,000, to four digits
    settle(page, base=base)
    assert drawn(page) != before
    wanted = sinusoidal(torch.arange(16), 8, torch.tensor(base, dtype=torch.float32))
    torch.testing.assert_close(torch.tensor(drawn(page)), wanted.flatten(), atol=1e-6, rtol=0)

    run_cell(page, 1)  # panel.length = 24
    settle(page, length=24)
    assert page.get_by_role("slider", name=re.compile("^length$")).get_attribute("aria-valuetext") == "24"

    run_cell(page, 2)  # a linked slider of ipywidgets is moved
    settle(page, length=12)

    page.get_by_role("combobox", name="layout").select_option("half")
    settle(page, layout=1)
    wanted = sinusoidal(torch.arange(12), 8, torch.tensor(base, dtype=torch.float32), layout="half")
    torch.testing.assert_close(torch.tensor(drawn(page)), wanted.flatten(), atol=1e-6, rtol=0)

    page.get_by_role("combobox", name="layout").select_option("flat")
    page.wait_for_selector(".pe-idle")
    assert page.locator(".pe-idle input[type=range]").evaluate_all("all => all.map(e => e.disabled)") == [True]
    assert slider.is_disabled()
    page.get_by_role("combobox", name="layout").select_option("half")
    settle(page, layout=1)
    assert slider.is_enabled()

    run_cell(page, 3)  # observe
    field = page.get_by_role("textbox", name="base, exact value")
    field.fill("500")
    field.press("Enter")
    settle(page, base=500)

    field = page.get_by_role("textbox", name="length, exact value")
    field.fill("31")
    field.press("Enter")
    message = page.locator(".pe-message")
    message.wait_for(state="visible")
    assert message.inner_text() == "RuntimeError: thirty-one <b>is</b> refused"
    field.fill("13")
    field.press("Enter")
    settle(page, length=13)
    assert not message.is_visible()

    run_cell(page, 4)
    printed = page.locator(".jp-OutputArea-output pre", has_text="seen")
    printed.wait_for(timeout=20_000)
    text = printed.inner_text()
    assert "seen [500.0] linked 13" in text
    assert "'length': 13" in text
    assert "'base': 500.0" in text
    assert "'layout': 'half'" in text

    page.evaluate(RESTART)
    field.fill("14")
    field.press("Enter")
    message.wait_for(state="visible", timeout=40_000)
    assert re.search("kernel", message.inner_text())
    assert re.search("[Rr]un the cell again", message.inner_text())
    assert page.locator(".pe-status").inner_text() == ""
    run_cell(page, 0)  # as it says
    page.wait_for_function("() => document.querySelector('.pe-widget.pe-live')?.panel.shown.length === 16")


def alive(page, count):
    page.wait_for_function(
        "n => document.querySelectorAll('.pe-widget.pe-live').length === n", arg=count, timeout=60_000
    )


def values(page, index=0):
    return page.evaluate("i => document.querySelectorAll('.pe-widget')[i].panel.values", index)


# The kernel is asked nothing for a third of a second.
RESTS = """async i => {
  const { panel } = document.querySelectorAll('.pe-widget')[i], { compute } = panel.engine;
  let asked = 0, quiet = 0, before = -1;
  panel.engine.compute = (...values) => { asked++; return compute(...values); };
  for (const late = Date.now() + 15_000; quiet < 7 && Date.now() < late;) {
    await new Promise(done => setTimeout(done, 50));
    quiet = !panel.running && asked === before ? quiet + 1 : 0;
    before = asked;
  }
  panel.engine.compute = compute;
  return quiet === 7;
}"""


def rests(page, index=0):
    assert page.evaluate(RESTS, index), "the kernel is asked for ever"


def test_two_panels_are_used_by_hand_then_the_kernel_restarts_and_then_it_is_gone(page):
    reopen(page, "two")
    run_all(page)
    alive(page, 2)
    strangers = page.evaluate(
        """() => {
          const ids = [...document.querySelectorAll('.pe-widget [id]')].map(e => e.id);
          return [...document.querySelectorAll('.pe-widget')].flatMap(root => [
            ...[...root.querySelectorAll('label')].filter(e => !root.contains(e.control)).map(e => e.textContent),
            ...root.panel.all.filter(({ frame }) => frame).filter(({ frame }) => {
              const hole = document.getElementById(/#([^)]+)/.exec(frame.marks.getAttribute('clip-path'))[1]);
              return !frame.svg.contains(hole) || Math.abs(hole.firstChild.width.baseVal.value - frame.plot.width) > 20;
            }).map(() => 'a frame'),
            ...[...root.querySelectorAll('[id]')].map(({ id }) => id)
              .filter(id => ids.filter(i => i === id).length > 1),
          ]); }"""
    )
    assert strangers == []
    widths = page.evaluate("[...document.querySelectorAll('.pe-widget')].map(root => root.clientWidth)")
    assert widths[0] > 1.5 * widths[1]

    drag(page, place(page, 8, -2.0), place(page, 8, -6.0))
    rests(page)
    assert values(page)["slope"] == pytest.approx(0.75, rel=0.03)
    root = page.locator(".pe-widget").first
    root.get_by_role("button", name="gentle").click()
    rests(page)
    assert values(page)["slope"] == 1 / 256
    drag(page, place(page, 8, -8 / 256), place(page, 8, -4.0))
    rests(page)
    field = root.get_by_role("textbox", name="slope, exact value")
    field.fill("1")
    field.press("Enter")
    rests(page)
    assert values(page)["slope"] == 1
    root.get_by_role("button", name="Reset").click()
    rests(page)
    assert values(page) == {"slope": 0.25, "query": 11}
    page.get_by_role("link", name="A steep head").click()
    rests(page)
    assert values(page)["slope"] == 0.5
    assert values(page, 1) == {"n": 600, "slope": 0.5}
    assert page.evaluate("location.hash") == ""

    page.evaluate(RESTART)
    root.get_by_role("button", name="gentle").click()
    message = root.locator(".pe-message")
    message.wait_for(state="visible", timeout=40_000)
    assert "Run the cell again" in message.inner_text()
    page.wait_for_function(KERNEL_IDLE, timeout=60_000)
    run_all(page)
    page.wait_for_function("() => document.querySelectorAll('.pe-widget.pe-live')[0]?.panel.shown.slope === 0.25")
    alive(page, 2)
    page.locator(".pe-widget").first.get_by_role("button", name="steep").click()
    rests(page)

    page.evaluate(
        """async () => { const { context } = jupyterapp.shell.currentWidget;
           await jupyterapp.commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState');
           await context.save();
           await context.sessionContext.shutdown(); }"""
    )
    reopen(page, "two")  # with a new kernel, which has run nothing
    for _ in range(2):
        message = page.locator(".pe-widget .pe-message").first
        message.wait_for(state="visible", timeout=10_000)
        assert "No kernel has this panel yet: run its cell." in message.inner_text()
        assert page.locator(".pe-widget .pe-status").first.inner_text() == ""
        assert values(page) == {"slope": 0.5, "query": 11}
        page.locator(".pe-widget").first.get_by_role("textbox", name="slope, exact value").press("Enter")
    run_all(page)
    alive(page, 2)


def test_the_first_panel_of_a_chapter_is_dragged_and_its_links_set_it(page):
    reopen(page, "chapter")
    run_all(page)
    alive(page, 1)
    starts = values(page)
    slope = starts["slope"]
    drag(page, place(page, 7, -8 * slope), place(page, 7, -4.0))  # the query is word 15
    rests(page)
    assert values(page)["slope"] == pytest.approx(0.5, rel=0.03)
    links = page.locator("a[href*='#explore-one-head?']")
    assert links.count()
    for link in links.all():
        link.click()
        rests(page)
        wanted = dict(parse_qsl(link.get_attribute("href").split("?")[1]))
        assert {name: float(values(page)[name]) for name in wanted} == {n: float(text) for n, text in wanted.items()}
    page.locator(".pe-widget").get_by_role("button", name="Reset").click()
    rests(page)
    assert values(page) == starts


# A place in the window: of a hand, turned by an angle, or of a point between axes.
TURNED = """angle => {
  const [view] = document.querySelectorAll('.pe-widget')[0].panel.views, [cx, cy] = view.centres[0];
  view.frame.svg.scrollIntoView({ block: 'center' });
  const box = view.frame.svg.getBoundingClientRect(), [x, y] = view.tip(view.tensors[0].data, 0);
  const [dx, dy] = [x - cx, y - cy], [c, s] = [Math.cos(angle), Math.sin(angle)];
  return [box.left + cx + 0.9 * (dx * c - dy * s), box.top + cy + 0.9 * (dx * s + dy * c)];
}"""
BETWEEN = """([x, y]) => {
  const { frame } = document.querySelectorAll('.pe-widget')[1].panel.views[0];
  frame.svg.scrollIntoView({ block: 'center' });
  const box = frame.svg.getBoundingClientRect();
  return [box.left + frame.x(x), box.top + frame.y(y)];
}"""


def test_a_hand_and_a_drawn_curve_are_dragged(page):
    reopen(page, "hands")
    run_all(page)
    alive(page, 2)
    assert page.locator(".pe-dial-new").count() == 1
    drag(page, *(page.evaluate(TURNED, angle) for angle in (0.0, 0.8)))
    rests(page)
    assert values(page)["text"] == pytest.approx(80, abs=2)
    drag(page, *(page.evaluate(BETWEEN, [10, height]) for height in (-2.0, -5.0)))
    rests(page, 1)
    assert values(page, 1) == {"near": 0.0, "far": pytest.approx(-5.0, abs=0.1)}
    drag(page, *(page.evaluate(BETWEEN, [x, -1.0]) for x in (1, 9.8)))
    rests(page, 1)
    assert values(page, 1)["far"] == pytest.approx(-1.0, abs=0.1)
