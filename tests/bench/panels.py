"""How quickly the panels of the built book answer: until they are alive, to a moved slider, to a probing pointer.

For each panel, in the page of its chapter, opened from disk in headless Chromium: milliseconds of its graph, of drawing
all its views with layout, and from the moment that the page is told of a move to the end of the frame that shows it,
over 180 real moves of the mouse, on a slider and on a picture (median and 95th percentile): three sweeps, so that one
pause of the machine does not decide, and more on a slider of few steps, until it has changed 60 times. The first row
is the same for one circle on an empty page. A browser tells a page of a move when its next frame begins; that wait of
up to 16.7 ms is in none of the numbers. For each chapter: seconds from the start of navigation until the first panel
is alive, the median of three visits, and how much memory 500 moves of it leave behind.

    python tests/bench/panels.py [CHAPTER …]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
BOOK = ROOT / "_build" / "html" / "chapters"
SWEEPS, MOVES, MOST = 3, 60, 12
VISITS = 3
LONG = 500  # moves, for memory
FRAME = 16.7  # milliseconds

# From the moment that the page is told to the task after the frame that shows what has changed.
PAINTED = """then => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel(); port1.onmessage = then; port2.postMessage(null); })"""
RECORD = f"""id => {{
  const {{ panel }} = document.getElementById(id), times = (window.times = []), painted = {PAINTED};
  const compute = panel.compute.bind(panel);
  window.graphs = [];
  panel.compute = async values => {{
    const begin = performance.now(), found = await compute(values);
    window.graphs.push(performance.now() - begin);
    return found; }};
  panel.body.addEventListener("input", () => {{
    const begin = performance.now();
    const drawn = () => painted(() => times.push(performance.now() - begin));
    panel.root.addEventListener("pe-drawn", drawn, {{ once: true }}); }}, {{ capture: true }});
  panel.stages.addEventListener("pointermove", () => {{
    const begin = performance.now();
    painted(() => times.push(performance.now() - begin)); }}, {{ capture: true }}); }}"""
EMPTY = f"""<input type="range" style="width: 300px"><svg width="300" height="100"><circle r="5" cx="10" cy="10"/></svg>
<script>
  const times = (window.times = []), painted = {PAINTED}, circle = document.querySelector("circle");
  for (const [place, kind] of [["input", "input"], ["svg", "pointermove"]])
    document.querySelector(place).addEventListener(kind, event => {{
      const begin = performance.now();
      circle.setAttribute("cx", event.offsetX ?? event.target.value);
      painted(() => times.push(performance.now() - begin)); }});
</script>"""
ALIVE = """addEventListener("pe-drawn", () => (window.alive ??= performance.now()), { capture: true })"""
DRAW = """async id => {
  const { panel } = document.getElementById(id), median = all => all.sort((a, b) => a - b)[all.length >> 1];
  const drawn = [], computed = [];
  for (let i = 0; i < 30; i++) {
    let begin = performance.now();
    const [tensors, others] = await panel.compute(panel.values);
    computed.push(performance.now() - begin);
    begin = performance.now();
    panel.show(tensors, panel.shown, others);
    void panel.body.offsetHeight;
    drawn.push(performance.now() - begin);
  }
  return [median(computed), median(drawn)]; }"""
SETTLED = "id => !document.getElementById(id).panel.running"


def high(times: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times, n=20)[-1] if len(times) > 1 else float("nan")


def sweep(page: Any, box: dict[str, float], down: bool) -> list[float]:
    """Move the mouse across a box, once for each frame; the times that the page recorded."""
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 12, y)
    if down:
        page.mouse.down()
    page.wait_for_timeout(100)  # what comes with the press, and its jump to this place, is no move
    page.evaluate("window.times.length = 0, window.graphs = []")
    for move in range(MOVES):
        page.mouse.move(box["x"] + 12 + (box["width"] - 24) * (move + 1) / MOVES, y)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    if down:
        page.mouse.up()
    page.wait_for_timeout(100)
    return page.evaluate("window.times.slice()")


def sweeps(page: Any, box: dict[str, float], down: bool) -> list[float]:
    """The times of several sweeps, of more than three if a slider has few steps: most of its moves change nothing."""
    times: list[float] = []
    for done in range(MOST):
        if done >= SWEEPS and len(times) >= MOVES:
            break
        times += sweep(page, box, down)
    return times


def visit(browser: Any, name: str) -> tuple[Any, float]:
    """The page of a chapter, and the seconds until its first panel was alive."""
    from tests.browser import DESK

    page = browser.new_page(viewport=DESK)
    page.add_init_script(ALIVE)
    page.goto((BOOK / f"{name}.html").as_uri())
    page.wait_for_selector("figure.pe-panel.pe-live", timeout=60_000)
    page.wait_for_timeout(1500)
    return page, page.evaluate("window.alive") / 1000


def empty(browser: Any) -> dict[str, list[float]]:
    """What the browser itself takes for a move."""
    from tests.browser import DESK

    page = browser.new_page(viewport=DESK)
    page.set_content(EMPTY)
    page.wait_for_timeout(300)
    boxes = {name: page.locator(selector).bounding_box() for name, selector in (("move", "input"), ("probe", "svg"))}
    found = {name: sweeps(page, box, name == "move") for name, box in boxes.items()}
    page.close()
    return found


COME = """id => {  // to the panel, in a fold that opens as it does for the browser's search
  const panel = document.getElementById(id);
  panel.closest(".pe-fold[hidden]")?.dispatchEvent(new Event("beforematch", { bubbles: true }));
  panel.scrollIntoView();
}"""


def bench(page: Any, identity: str) -> dict[str, Any]:
    page.evaluate(COME, identity)
    page.wait_for_selector(f"#{identity}.pe-live", timeout=60_000)
    page.wait_for_timeout(300)
    page.evaluate(RECORD, identity)
    found: dict[str, Any] = {"name": identity}
    found["graph"], found["draw"] = page.evaluate(DRAW, identity)
    for name, selector, down in (("move", "input[type=range]:enabled", True), ("probe", ".pe-stage[tabindex]", False)):
        one = page.locator(f"#{identity} {selector}").locator("visible=true").first
        if one.count():
            one.scroll_into_view_if_needed()
            box = one.bounding_box()
            sweep(page, box, down)  # the first one is not counted: the browser compiles what is used for the first time
            found[name] = sweeps(page, box, down)
            if down and (graphs := page.evaluate("window.graphs")):  # of the states that the slider went through
                found["graph"] = statistics.median(graphs)
            page.wait_for_function(SETTLED, arg=identity)
    return found


def memory(page: Any, identity: str) -> float:
    """The kilobytes that 500 moves of the first slider leave behind."""
    session = page.context.new_cdp_session(page)
    run = """async ([id, moves]) => {
      const { panel } = document.getElementById(id), slider = panel.spec.controls.find(c => c.kind === "slider");
      for (let i = 0; i < moves; i++) {
        panel.set({ [slider.name]: i % 2 ? slider.min : slider.max });
        while (panel.running) await new Promise(f => panel.root.addEventListener("pe-drawn", f, { once: true }));
      } }"""

    def used() -> int:
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
        return session.send("Runtime.getHeapUsage")["usedSize"]

    page.evaluate(run, [identity, 20])
    page.wait_for_timeout(1600)  # until ghosts have gone
    before = used()
    page.evaluate(run, [identity, LONG])
    page.wait_for_timeout(1600)
    return (used() - before) / 1024


def main() -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser import ARGUMENTS, chromium

    path = chromium()
    if path is None:
        sys.exit("this bench needs Chromium: install Debian's chromium")
    names = sys.argv[1:] or sorted(f.stem for f in BOOK.glob("*.html") if 'class="pe-panel"' in f.read_text())
    if not names:
        sys.exit("there is no built book: run make book")
    count = SWEEPS * MOVES
    print(f"milliseconds; {count} moves of the mouse or more, from being told to the painted frame, median and 95 %")
    print(f"{'panel':44}{'graph':>8}{'draw':>8}{'slider':>9}{'95 %':>7}{'probe':>9}{'95 %':>7}")
    late, live, kept = [], {}, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[a for a in ARGUMENTS if not a.startswith("--js-flags")]
        )
        print(row("an empty page, one circle", empty(browser)))
        for name in names:
            starts = []
            for _ in range(VISITS - 1):
                page, seconds = visit(browser, name)
                starts.append(seconds)
                page.close()
            page, seconds = visit(browser, name)
            live[name] = statistics.median([*starts, seconds])
            for identity in page.eval_on_selector_all("figure.pe-panel", "all => all.map(e => e.id)"):
                found = bench(page, identity)
                print(row(f"{name} {identity.removeprefix('explore-')}", found), flush=True)
                moved = found.get("move", [])
                if len(moved) > 1 and found["graph"] <= 4 and high(moved) > FRAME:
                    late.append(identity)
            first = page.locator("figure.pe-panel").first
            if first.evaluate("e => e.panel.spec.controls.some(c => c.kind === 'slider')"):
                kept[name] = memory(page, first.get_attribute("id"))
            page.close()
        browser.close()
    times, worst = live.values(), max(live, key=lambda name: live[name])
    print(f"\nfirst panel alive, from disk: median {statistics.median(times):.2f} s, {worst} {live[worst]:.2f} s")
    print(f"memory after {LONG} moves of the first panel: at most {max(kept.values(), default=0):.0f} kB more")
    print(f"95 % above {FRAME} ms although the graph takes 4 ms or less: {', '.join(late) or 'none'}")


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    text = f"{name:44}" + "".join(f"{found[key]:8.1f}" if key in found else f"{'–':>8}" for key in ("graph", "draw"))
    for times in (found.get("move", []), found.get("probe", [])):
        text += f"{statistics.median(times):9.1f}{high(times):7.1f}" if len(times) > 1 else f"{'–':>9}{'–':>7}"
    return text


if __name__ == "__main__":
    main()
