"""explore() on a page, in a real browser: what a page without script shows, and pages made to be difficult.

That every control of every panel of the book moves, and gives what torch gives, is part of the visit in test_book.py.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch

from posenc import Heatmap, Lines, Plane, Readout, explore, logarithmic, sinusoidal
from posenc._explore.explorer import Explorer
from tests.browser import each_page, served
from tests.panels import compare, live, read, settled, site

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted(f"chapters/{path.stem}" for path in (ROOT / "chapters").glob("*.ipynb"))


PICTURES = """() => {
  const visible = e => e.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().height > 0;
  return [...document.querySelectorAll("figure.pe-panel")].map(panel => [
    visible(panel.querySelector(".pe-state")),
    [...panel.querySelectorAll("svg[role=img], .pe-words")].map(svg =>
      visible(svg) && svg.getAttribute("aria-label").length > 20)]);
}"""


@pytest.fixture(scope="module")
def unscripted(browser):
    page = browser.new_page(java_script_enabled=False)
    yield page
    page.close()


@pytest.mark.parametrize("chapter", each_page(CHAPTERS))
def test_a_picture_stands_where_no_script_runs(chapter, book, unscripted):
    unscripted.goto((book / f"{chapter}.html").as_uri())
    panels = unscripted.evaluate(PICTURES)
    assert panels
    for state, pictures in panels:
        assert state
        assert pictures and all(pictures)


# Pages made here, for what no chapter should show.


def still(n=3):
    return torch.arange(n) + 0.5


def odd(x=1.0):
    return torch.stack((1 / x, (x - 1).sqrt(), x))


def slow(n=300):
    matrix = torch.ones(n, n) / n
    for _ in range(12):
        matrix = (matrix @ matrix).tanh() + 0.001 * torch.arange(n)[:, None]
    return matrix


def turned(angle=0.5, sign="plus", twice=False):
    a = angle * (2 if twice else 1) * (-1 if sign == "minus" else 1)
    return torch.stack((a.cos(), a.sin())).unsqueeze(0), a


def encoding(length=128, dim=64, base=10_000.0):
    table = sinusoidal(torch.arange(length), dim, base)
    return table, table[:, :4].T


EVIL = '"><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>&lt;b&gt;'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a page of explorers and all that they need."""
    folder = tmp_path_factory.mktemp("site")
    site(folder, lambda: [
        explore(encoding, Heatmap(x="dimension", y="position", scale="diverging", limits=(-1, 1)),
                Lines(x="position", y="value", labels=["a", "b", "c", "d"]), length=(8, 512), dim=(8, 128, 8),
                base=logarithmic(10, 1e6), presets={"Transformer": {"base": 10_000.0}}),
        explore(turned, Plane(labels=[EVIL]), Readout(labels=[EVIL], title=EVIL), title=EVIL, angle=(-3.0, 3.0),
                sign={"plus": "plus", EVIL: "minus"}, twice=False, presets={EVIL: {"angle": 1.0}}),
        explore(slow, Heatmap(), n=(2, 700)),
        explore(odd, Readout(), x=(0.5, 2.0)),
        explore(still, Readout(), n=(1, 5)),
    ])  # fmt: skip
    return folder


@pytest.fixture
def made_server(made):
    with served(made) as address:
        yield address


@pytest.fixture
def opened(made, open_page):
    return open_page((made / "index.html").as_uri())


def test_labels_and_values_reach_the_page_as_text(page):
    live(page, "explore-turned")
    root = page.locator("#explore-turned")
    root.get_by_role("combobox").select_option(label=EVIL)
    root.get_by_role("button", name=EVIL, exact=True).click()
    settled(page, "explore-turned")
    root.get_by_text("Numbers").click()
    assert page.evaluate("window.hurt") is None
    assert root.locator("img").count() == 0
    assert root.locator(".pe-title").last.inner_text() == EVIL
    assert root.locator(".pe-body dt").inner_text() == EVIL
    assert EVIL in root.locator(".pe-plane svg").text_content()


def test_rubbish_in_a_field_is_refused_in_place(page):
    live(page, "explore-encoding")
    root = page.locator("#explore-encoding")
    field, message = root.get_by_role("textbox", name="base, exact value"), root.locator(".pe-message")
    for text in ("abc", "", "<b>1</b>", "1e99", "0,5", "-3"):
        field.fill(text)
        field.press("Enter")
        assert re.search("no number|out of range", message.inner_text())
        assert field.input_value() == "10\u202f000"
    field.fill("5e5")
    field.press("Enter")
    settled(page, "explore-encoding")
    assert message.is_hidden()
    ranges = {"length": (8, 512), "dim": (8, 128, 8), "base": logarithmic(10, 1e6)}
    got = read(page, "explore-encoding")
    assert got["shown"]["base"] == 500_000
    assert compare(got, Explorer(encoding, (Heatmap(), Lines()), ranges)) < 1e-4


def test_what_is_not_a_number_is_said_and_left_blank(page):
    live(page, "explore-odd")
    root = page.locator("#explore-odd")
    slider = root.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    settled(page, "explore-odd")
    assert root.locator(".pe-message").inner_text() == "1 of these numbers is not a number (NaN) and left blank."
    page.keyboard.press("End")
    settled(page, "explore-odd")
    assert root.locator(".pe-message").is_hidden()


def test_a_slow_function_never_queues_and_the_page_stays_free(opened):
    page = opened.page
    live(page, "explore-slow")
    got = page.evaluate(
        """async () => { const root = document.getElementById("explore-slow"), { panel } = root;
        const slider = root.querySelector("input[type=range]"), { compute } = panel.engine;
        let computed = 0;
        panel.engine.compute = values => { computed++; return compute(values); };
        let longest = 0, last = performance.now(), said = false;
        for (let i = 0; i < 60; i++) {
          slider.value = String(600 + i); slider.dispatchEvent(new Event("input"));
          await new Promise(f => setTimeout(f, 10));
          longest = Math.max(longest, performance.now() - last); last = performance.now();
          said ||= panel.status.textContent.includes("computing") && panel.body.getAttribute("aria-busy") === "true";
        }
        while (panel.running) await new Promise(f => setTimeout(f, 10));
        const after = panel.status.textContent;
        return { computed, n: panel.shown.n, longest, said, after }; }"""
    )
    assert got["n"] == 2 + 659  # the last of sixty moves, the slider's step 659
    assert got["computed"] < 30
    assert got["said"]
    assert got["after"] == ""
    assert got["longest"] < 1000  # one run would take longer: it is the worker's


# What a site may forbid, and what may break.

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; worker-src blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SLOW_MOVE = """async () => { const { panel } = document.getElementById("explore-slow");
  for (const n of [400, 410]) {
    panel.set({ n });
    while (panel.running) await new Promise(f => setTimeout(f, 10));
  }
  return [panel.shown.n, panel.message.textContent]; }"""


def guarded(opened, url: str, policy: str):
    """A page as a server sends it that has a Content-Security-Policy."""

    def answer(route):
        sent = route.fetch()
        route.fulfill(response=sent, headers={**sent.headers, "content-security-policy": policy})

    opened.page.route("**/*.html", answer)
    opened.page.goto(url, wait_until="load")
    return opened.page


@pytest.mark.parametrize("worker", ["blob:", "'none'"])
def test_slow_functions_are_drawn_with_and_without_a_worker(worker, made_server, open_page):
    opened = open_page("about:blank")
    page = guarded(opened, f"{made_server}/index.html", POLICY.replace("worker-src blob:", f"worker-src {worker}"))
    for identity in ("explore-encoding", "explore-slow"):
        live(page, identity)
    assert page.evaluate(SLOW_MOVE) == [410, ""]


def stir(page):
    """The reader takes something in hand, and the page makes a runtime of its own."""
    page.mouse.move(1, 1)
    page.mouse.move(2, 2)


def test_first_pictures_are_computed_beside_the_page_and_later_ones_in_it(made, open_page):
    script = """globalThis.idle = []; globalThis.requestIdleCallback = (work) => idle.push(work);
      globalThis.posts = 0; const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (...all) { posts++; post.apply(this, all); };
      globalThis.move = async (value) => {
        const { panel } = document.getElementById("explore-encoding"), before = posts;
        panel.set({ length: 100 + value });
        while (panel.running) await new Promise((later) => setTimeout(later, 5));
        return posts - before;
      };"""
    page = open_page((made / "index.html").as_uri(), script).page
    live(page, "explore-encoding")
    assert page.evaluate("move(3)") == 1
    assert page.evaluate("[typeof posencEngine, idle.length]") == ["undefined", 0]  # whoever only reads needs no more
    stir(page)
    page.wait_for_function("idle.length === 1")
    assert page.evaluate("typeof posencEngine") == "undefined"
    page.evaluate("idle[0]()")  # nobody waits for the page
    assert page.evaluate(
        "async () => { for (let n = 4; n < 60; n++) if (!(await move(n))) return true; return false; }"
    )


def test_a_chapter_works_under_the_policy_that_the_readme_names(book, open_page):
    assert POLICY in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    with served(book) as address:
        opened = open_page("about:blank")
        opened.host = urlsplit(address).netloc
        page = guarded(opened, f"{address}/chapters/alibi.html", POLICY)
        live(page, "explore-one-head")
        page.wait_for_selector("mjx-container")
        assert not opened.problems


def test_a_policy_without_webassembly_is_said(made_server, open_page):
    page = guarded(open_page("about:blank"), f"{made_server}/index.html", POLICY.replace(" 'wasm-unsafe-eval'", ""))
    page.evaluate("document.getElementById('explore-encoding').scrollIntoView()")
    message = page.locator("#explore-encoding .pe-message")
    message.wait_for(state="visible")
    assert "wasm-unsafe-eval" in message.inner_text()
    assert page.locator("#explore-encoding .pe-stills svg").first.is_visible()


def test_a_worker_that_dies_is_replaced(opened):
    page = opened.page
    page.evaluate(
        """() => { const made = globalThis.Worker;
           globalThis.Worker = class extends made { constructor(url) { super(url); globalThis.last = this; } } }"""
    )
    live(page, "explore-slow")
    assert page.evaluate(SLOW_MOVE) == [410, ""]
    got = page.evaluate(
        """async () => { const { panel } = document.getElementById("explore-slow");
        panel.set({ n: 500 });
        await new Promise(f => setTimeout(f, 20));
        globalThis.last.onerror(new ErrorEvent("error", { message: "out of memory" }));
        while (panel.running) await new Promise(f => setTimeout(f, 10));
        return [panel.shown.n, panel.message.textContent, panel.status.textContent]; }"""
    )
    assert got == [500, "", ""]


def test_a_worker_that_dies_while_it_rests_is_not_made_again(opened):
    page = opened.page
    page.evaluate(
        """() => { const made = globalThis.Worker;
           globalThis.made = [];
           globalThis.Worker = class extends made { constructor(url) { super(url); globalThis.made.push(this); } } }"""
    )
    live(page, "explore-slow")
    assert page.evaluate(SLOW_MOVE) == [410, ""]
    assert page.evaluate("made.length") == 1
    page.evaluate("made[0].onerror(new ErrorEvent('error', { message: 'out of memory' }))")
    assert page.evaluate(SLOW_MOVE.replace("410", "420")) == [420, ""]
    assert page.evaluate("made.length") == 1


def test_of_many_graphs_those_that_were_used_last_are_kept(opened):
    page = opened.page
    live(page, "explore-turned")
    stir(page)
    page.wait_for_function("globalThis.posencEngine")
    kept = page.evaluate(
        """async () => { const { run } = globalThis.posencEngine, spoilt = new Uint8Array(3), found = {};
        const { graphs } = JSON.parse(document.querySelector("#explore-turned .pe-data").textContent);
        const bytes = Uint8Array.from(atob(graphs["0,0"]), c => c.charCodeAt(0));
        const feed = [{ name: "angle", integer: false, value: 0 }];
        for (let i = 0; i < 12; i++) await run(`graph ${i}`, bytes, feed);  // as many as are kept
        await run("graph 0", bytes, feed);
        await run("graph 12", bytes, feed);  // one more
        for (const i of [0, 1, 2]) found[i] = await run(`graph ${i}`, spoilt, feed).then(() => true, () => false);
        return found; }"""
    )
    assert kept == {"0": True, "1": False, "2": True}


def test_a_graph_that_fails_is_tried_again(opened):
    page = opened.page
    live(page, "explore-turned")
    stir(page)
    page.wait_for_function("globalThis.posencEngine")
    got = page.evaluate(
        """async () => { const { run } = globalThis.posencEngine, good = new Uint8Array(3), found = [];
        for (let i = 0; i < 2; i++) {
          try { await run("spoilt", good, []); } catch (error) { found.push(error.message); }
        }
        const { graphs } = JSON.parse(document.querySelector("#explore-turned .pe-data").textContent);
        const bytes = Uint8Array.from(atob(graphs["0,0"]), c => c.charCodeAt(0));
        for (let i = 0; i < 40; i++) {
          const feed = [{ name: "angle", integer: false, value: 0 }];
          const { tensors } = await run(i % 2 ? "spoilt" : `many ${i}`, bytes, feed);
          found.push(tensors.length);
        }
        return found; }"""
    )
    assert len(got) == 42
    assert all(isinstance(each, str) for each in got[:2])
    assert got[2:] == [2] * 40


def test_no_progress_is_shown_far_from_the_reader(made, open_page):
    opened = open_page((made / "index.html").as_uri())
    live(opened.page, "explore-encoding")
    assert opened.page.locator("progress:not([hidden])").count() == 0


def test_a_panel_that_is_removed_while_it_computes_ends_quietly(opened):
    page = opened.page
    live(page, "explore-slow")
    page.evaluate(
        """async () => { const root = document.getElementById("explore-slow"), { panel } = root;
        panel.set({ n: 600 });
        await new Promise(f => setTimeout(f, 5));
        root.remove();
        panel.destroy();
        while (panel.running) await new Promise(f => setTimeout(f, 10)); }"""
    )
    assert not opened.problems


def test_panels_that_compute_at_once_do_not_disturb_each_other(page):
    for identity in ("explore-encoding", "explore-turned", "explore-still"):
        live(page, identity)
    shapes = page.evaluate(
        """() => Promise.all(Array.from({ length: 20 }).flatMap((_, i) =>
           ["explore-encoding", "explore-turned", "explore-still"].map(async (id) => {
             const { engine, values } = document.getElementById(id).panel;
             const tensors = await engine.compute(id === "explore-still" ? { n: 1 + (i % 5) } : values);
             return tensors.map(({ shape }) => shape.join("x")).join(" "); })))"""
    )
    assert shapes[0::3] == ["128x64 128 4x128"] * 20
    assert shapes[1::3] == ["1x2 1"] * 20
    assert shapes[2::3] == [str(1 + i % 5) for i in range(20)]


def test_the_runtime_loads_once_and_only_when_an_explorer_comes_near(made, open_page):
    with served(made) as address:
        opened = open_page(f"{address}/index.html")
        page, asked = opened.page, []
        page.on("request", lambda r: r.url.startswith("http") and asked.append(r.url.rsplit("/", 1)[-1]))
        page.wait_for_timeout(500)
        assert asked == []  # the panels are 4,000 pixels down
        assert page.locator("#explore-encoding .pe-stills svg").first.get_attribute("role") == "img"
        for identity in ("explore-encoding", "explore-turned", "explore-slow"):
            live(page, identity)
        assert sorted(asked) == ["runtime.js", "runtime.wasm.gz"]
        assert not opened.problems
    assert sum((made / "posenc" / name).stat().st_size for name in ("runtime.js", "runtime.wasm.gz")) <= 4e6


def test_progress_is_shown_while_the_runtime_loads(made_server, open_page):
    page, held = open_page(f"{made_server}/index.html").page, []
    page.route("**/runtime.wasm.gz", lambda route: held.append(route))  # on its way until the progress has been seen
    page.evaluate("document.getElementById('explore-encoding').scrollIntoView()")
    page.wait_for_selector("#explore-encoding progress:not([hidden])", state="visible")
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    page.wait_for_selector("#explore-encoding.pe-live")
    page.wait_for_selector("#explore-encoding progress", state="hidden")


def test_a_runtime_that_could_not_be_loaded_is_tried_again_at_the_next_move(made_server, open_page):
    page = open_page(f"{made_server}/index.html").page
    page.route("**/runtime.wasm.gz", lambda route: route.fulfill(status=404), times=1)
    page.evaluate("document.getElementById('explore-still').scrollIntoView()")
    root = page.locator("#explore-still")
    root.locator(".pe-message").wait_for(state="visible")
    assert "could not be loaded" in root.locator(".pe-message").inner_text()
    root.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#explore-still.pe-live")
    assert read(page, "explore-still")["shown"] == {"n": 4}
    assert root.locator(".pe-message").is_hidden()


@pytest.mark.parametrize("harm", ["missing", "cut short"])
def test_a_broken_runtime_is_said_and_the_picture_stays(harm, made, open_page, tmp_path):
    broken = tmp_path / "site"
    shutil.copytree(made, broken)
    script = broken / "posenc" / "runtime.wasm.js"
    if harm == "missing":
        script.unlink()
    else:
        script.write_text(script.read_text(encoding="ascii")[:1_000_000] + '";', encoding="ascii")
    page = open_page((broken / "index.html").as_uri()).page
    page.evaluate("document.getElementById('explore-encoding').scrollIntoView()")
    root = page.locator("#explore-encoding")
    root.locator(".pe-message").wait_for(state="visible")
    assert root.locator(".pe-message").inner_text().startswith("The runtime could not be loaded: ")
    assert root.locator(".pe-stills svg").first.is_visible()


@pytest.mark.parametrize("address", ["file", "http"])
def test_a_link_reopens_the_same_state(address, made, open_page, request):
    url = (made / "index.html").as_uri()
    if address == "http":
        url = request.getfixturevalue("made_server") + "/index.html"
    page = open_page(url).page
    live(page, "explore-turned")
    root = page.locator("#explore-turned")
    root.locator("input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    root.get_by_role("combobox").select_option(index=1)
    root.get_by_role("checkbox").click()
    settled(page, "explore-turned")
    root.get_by_role("button", name="Copy link").click()
    page.wait_for_function("location.hash.length > 10")
    before = read(page, "explore-turned")
    again = open_page(page.url).page
    again.wait_for_selector("#explore-turned.pe-live")
    settled(again, "explore-turned")
    assert read(again, "explore-turned") == before
    assert before["shown"]["twice"] is True
    assert before["shown"]["sign"] == 1
    top = again.evaluate("document.getElementById('explore-turned').getBoundingClientRect().top")
    assert 0 <= top < 300


def test_everything_has_a_name_a_value_and_words(page):
    live(page, "explore-encoding")
    root = page.locator("#explore-encoding")
    slider = root.get_by_role("slider", name="base", exact=True)
    assert slider.get_attribute("aria-valuetext") == "10\u202f000"
    for role in ("slider", "textbox", "button"):
        for item in root.get_by_role(role).all():
            assert item.evaluate("e => (e.labels?.[0] ?? e).textContent || e.ariaLabel || e.title").strip()
    stage = root.locator(".pe-stage").first
    assert stage.get_attribute("role") == "slider"  # which arrow keys move over the picture
    assert stage.get_attribute("aria-label") == "128 rows (position) by 64 columns (dimension), values from −1 to 1."
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('#explore-encoding .pe-spoken').textContent.includes('values from')")
    root.get_by_text("Numbers").click()
    first = root.locator("table").first
    assert "the first 64 of 128 rows and 16 of 64 columns" in first.locator("caption").inner_text()
    assert first.locator("tbody tr").count() == 64
    with page.expect_download() as download:
        root.get_by_role("button", name="Download all as CSV").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == 129 + 1 + 129
    assert lines[1].split(",")[:3] == ["0", "0", "1"]


def test_a_finger_moves_a_slider_on_a_phone(made, open_page):
    page = open_page(
        (made / "index.html").as_uri(), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    ).page
    live(page, "explore-encoding")
    slider = page.locator("#explore-encoding").get_by_role("slider", name="length", exact=True)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box["height"] >= 24
    page.touchscreen.tap(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    settled(page, "explore-encoding")
    assert read(page, "explore-encoding")["shown"]["length"] > 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_print_keeps_the_pictures(opened):
    page = opened.page
    live(page, "explore-encoding")
    page.emulate_media(media="print")
    root = page.locator("#explore-encoding")
    assert root.locator(".pe-stage svg").first.is_visible()
    assert root.locator(".pe-actions").is_hidden()
    assert page.locator("#explore-still").locator("svg, dl").first.is_visible()
    assert len(page.pdf()) > 20_000


def test_a_panel_that_nobody_came_near_prints_as_its_picture_below_its_title(opened):
    page = opened.page
    page.wait_for_selector("#explore-encoding.pe-open", state="attached")
    assert not page.locator("#explore-encoding.pe-live").count()
    page.emulate_media(media="print")
    root = page.locator("#explore-encoding")
    shown = [root.locator(f"> {part}").first.bounding_box()["y"] for part in (".pe-title", ".pe-state", ".pe-stills")]
    assert shown == sorted(shown)
    assert not any(each.is_visible() for each in root.locator("input, select, button").all())
