"""The panel of a notebook in a browser, with a kernel that a test slows down, silences or takes away.

The widget's own front end runs in a page. Its host and its kernel are imitated: the host loads the file anew for each
panel, as anywidget does, and Python answers as a kernel would. `test_explore_live.py` has a real JupyterLab.
"""

from __future__ import annotations

import base64
import math
import shutil

import pytest
import torch

from posenc import Heatmap, Lines, explore, logarithmic
from posenc._explore.panel import STATIC
from tests.browser import drag, place, served

PAGE = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,><link rel=stylesheet href=style.css>
<p><a id=try href="#explore-one-head?slope=0.5">a steep head</a>
<a id=number href="#explore-one-head?slope">0.5</a> <a id=other href="#explore-other?n=7">seven</a>
<a id=heading href="#A-heading">a heading</a></p><div id=room></div><script>
class Model {
  constructor(state, live) {
    Object.assign(this, { state, sent: [], held: [], listeners: {}, delay: 0, silent: false });
    if (live !== null) this.widget_manager = { get_model: async id => id === state._spec.model && { comm_live: live } };
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    this.emit(`change:${name}`);
  }
  save_changes() {}
  async send(message) {
    this.sent.push(message);
    const answer = async () => {
      const { buffers, ...told } = await kernel(this.state._spec.name, message);
      const bytes = buffers.map(text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer));
      this.emit("msg:custom", told, bytes);
    };
    if (this.silent) return this.held.push(answer);
    if (this.delay) await new Promise(done => setTimeout(done, this.delay));
    return answer();
  }
  on(name, react) { (this.listeners[name] ??= new Set()).add(react); }
  off(name, react) { this.listeners[name]?.delete(react); }
  emit(name, ...told) { for (const react of [...this.listeners[name] ?? []]) react(...told); }
}
let loaded = 0;
async function show(state, { width = 800, live = true, ...options } = {}) {
  const widget = (await import(`./widget.js?${++loaded}`)).default, el = document.createElement("div");
  const model = el.model = Object.assign(new Model(state, live), options);
  el.style.width = `${width}px`;
  room.append(el);
  el.close = widget.render({ model, el });
}
const rests = async ({ panel, model }) => {  // nothing is on its way, and nothing asked for a quarter of a second
  let quiet = 0, before = -1;
  for (const late = performance.now() + 10_000; quiet < 5 && performance.now() < late;) {
    await new Promise(done => setTimeout(done, 50));
    quiet = !panel.running && model.sent.length === before ? quiet + 1 : 0;
    before = model.sent.length;
  }
  return quiet === 5;
};
</script>"""
POS = torch.arange(12)


def one_head(slope=0.25, query=11):
    return (POS, -slope * POS), -slope * (POS[:, None] - POS).abs()


def sides(kind=1.0, gain=1.0, query=5):
    weights = (-gain * kind * (POS[:, None] - POS).abs()).softmax(-1)
    return weights[query], weights


def other(n=3):
    return torch.arange(n) * 1000.0


def panels():
    return {
        "one-head": explore(
            one_head, Lines(x="distance", y="bias", limits=(-8, 0), drag={0: "slope"}), Heatmap(pick="query"),
            slope=logarithmic(0.002, 2.0), query=(0, 11), name="one-head", labels={"slope": "m, slope per token"},
            presets={"gentle": {"slope": 1 / 256}, "steep": {"slope": 0.5}},
        ),
        "sides": explore(
            sides, Lines(x="key", y="weight"), Heatmap(x="key", y="query"),
            kind={"near": 1.0, "far": 0.1}, gain=(0.0, 3.0), query=(0, 11), compare="kind", name="sides",
            labels={"gain": "gain, whose label is so long that it needs two lines"},
        ),
        "other": explore(other, Lines(x="n", y="value"), n=(2, 9), name="other"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    for name in ("widget.js", "style.css"):
        shutil.copy(STATIC / name, folder)
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    with served(folder) as address:
        yield f"{address}/index.html"


@pytest.fixture
def page(host, open_page, monkeypatch):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    made = panels()
    opened = open_page("about:blank", reduced_motion="reduce")
    opened.host = host.split("/")[2]
    page = opened.page

    def kernel(name, message):
        panel = made[name]
        tensors = panel._compute(panel._explorer.unwire(message["values"]))
        shapes = [list(each.shape) for each in tensors]
        buffers = [base64.b64encode(each.numpy().tobytes()).decode() for each in tensors]
        return {"type": "result", "id": message["id"], "shapes": shapes, "buffers": buffers}

    page.expose_function("kernel", kernel)
    page.goto(host)
    page.states = {name: {"_spec": panel._spec, **panel.values} for name, panel in made.items()}
    yield page
    assert not opened.problems


def show(page, name, **options):
    page.evaluate("([state, options]) => show(state, options)", [page.states[name], options])


def live(page, count=1):
    page.wait_for_function("n => document.querySelectorAll('.pe-widget.pe-live').length === n", arg=count)


def values(page, index=0):
    return page.evaluate("i => room.children[i].panel.values", index)


def rests(page, index=0):
    assert page.evaluate("i => rests(room.children[i])", index)


@pytest.mark.parametrize("delay", [0, 80], ids=["a kernel at hand", "a slow one"])
def test_after_a_drag_the_search_ends_and_every_other_hand_counts(page, delay):
    show(page, "one-head", delay=delay)
    live(page)
    drag(page, place(page, 8, -2.0), place(page, 8, -6.0))
    rests(page)  # with the kernel: an endless search would go on asking
    assert values(page)["slope"] == pytest.approx(0.75, rel=0.03)
    root = page.locator(".pe-widget")
    root.get_by_role("button", name="gentle").click()
    rests(page)
    assert values(page)["slope"] == 1 / 256
    field = root.get_by_role("textbox", name="m, slope per token, exact value")
    field.fill("1")
    field.press("Enter")
    rests(page)
    assert values(page)["slope"] == 1
    root.get_by_role("button", name="Reset").click()
    rests(page)
    assert values(page) == {"slope": 0.25, "query": 11}
    assert page.evaluate("room.children[0].panel.shown") == {"slope": 0.25, "query": 11}


@pytest.mark.parametrize("hand", ["a preset", "Python", "another thing that is taken"])
def test_a_search_that_is_under_way_ends_when_somebody_else_moves_the_control(page, hand):
    show(page, "one-head", delay=100)
    live(page)
    drag(page, place(page, 8, -2.0), place(page, 8, -6.0))
    if hand == "a preset":
        page.locator(".pe-widget").get_by_role("button", name="steep").click()
    elif hand == "Python":
        page.evaluate("room.children[0].model.set('slope', 0.5)")
    else:
        page.evaluate("room.children[0].panel.hold()")
    before = values(page)["slope"]
    page.evaluate("room.children[0].panel.release()")
    rests(page)
    assert values(page)["slope"] == before
    if hand != "another thing that is taken":
        assert before == 0.5


def test_no_two_panels_share_an_id_and_labels_and_frames_are_their_own(page):
    show(page, "one-head", width=900)
    show(page, "other", width=400)
    show(page, "one-head", width=500)
    live(page, 3)
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(ids) > 20
    assert len(ids) == len(set(ids))
    strangers = page.evaluate(
        """() => [...document.querySelectorAll("#room > *")].flatMap(root => [
          ...[...root.querySelectorAll("label")].filter(e => !root.contains(e.control)).map(e => e.textContent),
          ...[...root.querySelectorAll("input[type=range], select")].filter(e => e.labels.length !== 1).map(e => e.id),
          ...["aria-labelledby", "aria-controls"].flatMap(name =>
            [...root.querySelectorAll(`[${name}]`)].map(e => e.getAttribute(name))
              .filter(id => !root.contains(document.getElementById(id)))),
          ...[...root.querySelectorAll("[clip-path]")].filter(e => {
            const id = /#([^)]+)/.exec(e.getAttribute("clip-path"))[1];
            return document.getElementById(id).ownerSVGElement !== e.ownerSVGElement;
          }).map(() => "a frame")])"""
    )
    assert strangers == []


def test_a_link_of_the_text_sets_the_panel_that_it_names(page):
    show(page, "one-head")
    show(page, "other")
    live(page, 2)
    page.click("#try")
    rests(page)
    assert values(page)["slope"] == 0.5
    assert values(page, 1) == {"n": 3}
    assert page.evaluate("location.hash") == ""  # which the host would take for a heading
    page.click("#number")  # of a control that the reader has moved: it stays
    assert values(page)["slope"] == 0.5
    page.evaluate("scrollTo(0, 0); room.children[1].style.marginTop = '3000px'")
    page.click("#other")
    rests(page, 1)
    assert values(page, 1) == {"n": 7}
    top = page.evaluate("room.children[1].getBoundingClientRect().top")
    assert 0 < top < 900
    page.evaluate("scrollTo(0, 0)")
    page.click("#heading")  # is none of theirs
    assert page.evaluate("location.hash") == "#A-heading"
    page.evaluate("for (const el of room.children) el.close()")
    page.click("#try")
    assert page.evaluate("location.hash") == "#explore-one-head?slope=0.5"


def test_a_panel_that_no_kernel_has_says_so_at_once(page):
    show(page, "one-head", live=False, silent=True)
    message = page.locator(".pe-message")
    message.wait_for(state="visible", timeout=10_000)
    assert "No kernel has this panel yet: run its cell." in message.inner_text()
    assert page.locator(".pe-status").inner_text() == ""
    page.locator(".pe-widget").get_by_role("button", name="steep").click()
    page.wait_for_timeout(200)
    assert message.is_visible()
    assert page.evaluate("[room.children[0].model.sent.length, room.children[0].panel.running]") == [0, False]


def test_a_kernel_that_is_lost_is_said_at_once(page):
    show(page, "one-head")
    live(page)
    page.evaluate("room.children[0].model.silent = true")
    page.locator(".pe-widget").get_by_role("button", name="steep").click()
    page.wait_for_function("room.children[0].panel.status.textContent === 'computing…'")
    page.evaluate("room.children[0].model.emit('comm_live_update')")
    message = page.locator(".pe-message")
    message.wait_for(state="visible", timeout=10_000)
    assert "Run the cell again" in message.inner_text()
    assert page.locator(".pe-status").inner_text() == ""


@pytest.mark.parametrize("manager", [True, None], ids=["", "a host that does not say who is alive"])
def test_a_kernel_that_answers_late_is_asked_for_what_is_wanted_now(page, manager):
    page.clock.install()
    show(page, "one-head", live=manager, silent=True)
    page.wait_for_function("room.children[0].model.sent.length === 1")
    page.clock.fast_forward(31_000)
    message = page.locator(".pe-message")
    message.wait_for(state="visible")
    assert "has not answered" in message.inner_text()
    page.evaluate("room.children[0].panel.set({ slope: 0.5 })")  # waits as well, in vain
    page.wait_for_function("room.children[0].model.sent.length === 2")
    page.clock.fast_forward(31_000)
    page.wait_for_function("!room.children[0].panel.running")
    page.evaluate("() => { const { model } = room.children[0]; model.silent = false; return model.held[0](); }")
    live(page)
    assert page.evaluate("room.children[0].panel.shown.slope") == 0.5
    assert message.is_hidden()
    assert math.isclose(page.evaluate("room.children[0].panel.tensors[1].data[4]"), -2.0, rel_tol=1e-6)


@pytest.mark.parametrize(("width", "rows"), [(1000, 1), (760, 1), (560, 2)])
def test_sides_of_a_comparison_stay_together_and_are_of_one_size(page, width, rows):
    page.set_viewport_size({"width": 1280, "height": 900})
    show(page, "sides", width=width)
    live(page)
    page.wait_for_timeout(100)
    found = page.eval_on_selector_all(
        ".pe-heatmap .pe-stage svg",
        "all => all.map(e => e.getBoundingClientRect()).map(({ width, top }) => [Math.round(width), Math.round(top)])",
    )
    assert len(found) == 3
    assert len({wide for wide, _ in found}) == 1, found
    assert len({top for _, top in found}) == rows, found


def test_number_fields_of_a_row_are_at_one_height(page):
    show(page, "sides", width=900)
    live(page)
    found = page.eval_on_selector_all(
        ".pe-slider",
        """all => all.map(e => ["label", ".pe-field", "[type=range]"].map(part => e.querySelector(part)))
             .map(parts => parts.map(part => part.getBoundingClientRect()))
             .map(([label, field, range]) => [label.height, field.top, range.top])""",
    )
    (two_lines, *first), (one_line, *second) = found
    assert two_lines > 1.5 * one_line
    assert first == pytest.approx(second, abs=1.5)
