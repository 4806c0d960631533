"""How quickly the panels of the built book answer: until they are alive, to a moved slider, to a probing pointer.

For each panel, in the page of its chapter, opened from disk in headless Chromium: milliseconds of its graph, of drawing
all its views with layout, and from the event to the painted frame over 60 real moves of the mouse, on a slider and on
a picture (median and 95th percentile). For each chapter: seconds until the first panel is alive, and how much memory
500 moves of it leave behind.

    python tests/bench/panels.py [CHAPTER …]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
BOOK = ROOT / "_build" / "html" / "chapters"
MOVES = 60
LONG = 500  # moves, for memory
FRAME = 16.7  # milliseconds

# From the time stamp of an event to the task after the frame that shows what it changed.
RECORD = """id => {
  const { panel } = document.getElementById(id), times = (window.times = []);
  const painted = then => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel(); port1.onmessage = then; port2.postMessage(null); });
  panel.body.addEventListener("input", event => {
    const drawn = () => painted(() => times.push(performance.now() - event.timeStamp));
    panel.root.addEventListener("pe-drawn", drawn, { once: true }); }, { capture: true });
  panel.stages.addEventListener("pointermove", event =>
    painted(() => times.push(performance.now() - event.timeStamp)), { capture: true }); }"""
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


def sweep(page: Any, identity: str, box: dict[str, float], down: bool) -> list[float]:
    """Move the mouse across a box, once for each frame; the times that the page recorded."""
    page.evaluate("window.times.length = 0")
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 12, y)
    if down:
        page.mouse.down()
    for move in range(MOVES):
        page.mouse.move(box["x"] + 12 + (box["width"] - 24) * (move + 1) / MOVES, y)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    if down:
        page.mouse.up()
    page.wait_for_function(SETTLED, arg=identity)
    page.wait_for_timeout(50)
    return page.evaluate("window.times.slice()")


def bench(page: Any, identity: str) -> dict[str, Any]:
    page.evaluate("id => document.getElementById(id).scrollIntoView()", identity)
    page.wait_for_selector(f"#{identity}.pe-live", timeout=60_000)
    page.wait_for_timeout(300)
    page.evaluate(RECORD, identity)
    found: dict[str, Any] = {"name": identity}
    found["graph"], found["draw"] = page.evaluate(DRAW, identity)
    for name, selector, down in (("move", "input[type=range]:enabled", True), ("probe", ".pe-stage[tabindex]", False)):
        one = page.locator(f"#{identity} {selector}").locator("visible=true").first
        if one.count():
            one.scroll_into_view_if_needed()
            found[name] = sweep(page, identity, one.bounding_box(), down)
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
    print(f"milliseconds; moves: {MOVES} of the mouse, from the event to the painted frame, median and 95 %")
    print(f"{'panel':44}{'graph':>8}{'draw':>8}{'slider':>9}{'95 %':>7}{'probe':>9}{'95 %':>7}")
    late, live, kept = [], {}, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for name in names:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            begin = time.perf_counter()
            page.goto((BOOK / f"{name}.html").as_uri(), wait_until="commit")
            page.wait_for_selector("figure.pe-panel.pe-live", timeout=60_000)
            live[name] = time.perf_counter() - begin
            page.wait_for_load_state()
            for identity in page.eval_on_selector_all("figure.pe-panel", "all => all.map(e => e.id)"):
                found = bench(page, identity)
                moved, probed = found.get("move", []), found.get("probe", [])
                row = f"{name + ' ' + identity.removeprefix('explore-'):44}{found['graph']:8.1f}{found['draw']:8.1f}"
                for times in (moved, probed):
                    row += (
                        f"{statistics.median(times):9.1f}{high(times):7.1f}" if len(times) > 1 else f"{'–':>9}{'–':>7}"
                    )
                print(row, flush=True)
                if len(moved) > 1 and found["graph"] <= 4 and high(moved) > FRAME:
                    late.append(identity)
            first = page.eval_on_selector("figure.pe-panel", "e => e.id")
            if page.evaluate(
                "id => document.getElementById(id).panel.spec.controls.some(c => c.kind === 'slider')", first
            ):
                kept[name] = memory(page, first)
            page.close()
        browser.close()
    worst = max(live, key=lambda name: live[name])
    print(
        f"\nfirst panel alive, from disk: median {statistics.median(live.values()):.2f} s, {worst} {live[worst]:.2f} s"
    )
    print(f"memory after {LONG} moves of the first panel: at most {max(kept.values(), default=0):.0f} kB more")
    print(f"95 % above {FRAME} ms although the graph takes 4 ms or less: {', '.join(late) or 'none'}")


if __name__ == "__main__":
    main()
