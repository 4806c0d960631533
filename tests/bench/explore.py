"""How long a reader waits: from moving a slider to the painted frame, in the page, with a kernel, and the common way.

Everything runs in the same headless Chromium, in turns: a move in the built page, one in a live panel, one of
`interact` around matplotlib, and again. Medians, and ratios to the page.

    python tests/bench/explore.py
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
MOVES = 40

FUNCTIONS = """\
import torch
from posenc import Heatmap, Lines, explore, logarithmic, sinusoidal

def heatmap(base=10_000.0):
    return sinusoidal(torch.arange(512), 128, base)

def lines(base=10_000.0):
    return sinusoidal(torch.arange(512), 128, base)[:, :8:2].T
"""
LIVE = FUNCTIONS + "explore({name}, {view}(), base=logarithmic(10, 1e6))"
COMMON = (
    FUNCTIONS
    + """\
import matplotlib.pyplot as plt
from ipywidgets import FloatLogSlider, interact

@interact(base=FloatLogSlider(value=10_000.0, base=10, min=1, max=6, step=0.025))
def shown(base):
    {draw}
    plt.show()
"""
)
DRAW = {"heatmap": "plt.imshow(heatmap(base), aspect='auto')", "lines": "plt.plot(lines(base).T)"}
VIEW = {"heatmap": "Heatmap", "lines": "Lines"}

# A frame is painted when the task runs that its own callback has posted.
PAINTED = """const painted = () => new Promise(f => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel(); port1.onmessage = f; port2.postMessage(null); }));"""
MOVE_PANEL = (
    "async ([selector, step]) => {"
    + PAINTED
    + """
  const { panel } = document.querySelector(selector), slider = document.querySelector(selector + " input[type=range]");
  const begin = performance.now();
  slider.value = String(step); slider.dispatchEvent(new Event("input"));
  while (panel.running) await new Promise(f => panel.root.addEventListener("pe-drawn", f, { once: true }));
  await painted();
  return performance.now() - begin; }"""
)
MOVE_COMMON = (
    "async key => {"
    + PAINTED
    + """
  const image = () => document.querySelectorAll("img")[0]?.src, old = image();
  const handle = document.querySelector(".noUi-handle"); handle.focus();
  const begin = performance.now();
  handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  while (!image() || image() === old) {
    if (performance.now() - begin > 20000) throw new Error("interact did not redraw");
    await new Promise(f => setTimeout(f, 1));
  }
  await document.querySelectorAll("img")[0].decode();
  await painted();
  return performance.now() - begin; }"""
)


def page_of(folder: Path) -> Path:
    """A page with the two explorers, as the book holds them."""
    os.environ["POSENC_BOOK"] = "1"
    from posenc._explore.panel import Page
    from posenc._explore.sphinx import ship

    Page._counts.clear()
    ship(folder / "posenc")
    namespace: dict[str, object] = {}
    exec(FUNCTIONS, namespace)
    elements = []
    for name, view in VIEW.items():
        panel = eval(f"explore({name}, {view}(), base=logarithmic(10, 1e6))", namespace)
        elements.append(panel._repr_mimebundle_()["text/html"])
    del os.environ["POSENC_BOOK"]
    page = folder / "index.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="posenc/style.css">'
        f"<body>{''.join(elements)}<script defer src=posenc/page.js></script>",
        encoding="utf-8",
    )
    return page


def measure(kind: str, folder: Path, chromium: str) -> dict[str, list[float]]:
    from playwright.sync_api import sync_playwright

    from tests.browser import ARGUMENTS
    from tests.live import jupyterlab, open_notebook, run_cell

    times: dict[str, list[float]] = {"page": [], "live": [], "common": []}
    cells = {"live": LIVE.format(name=kind, view=VIEW[kind]), "common": COMMON.format(draw=DRAW[kind])}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        pages = {"page": browser.new_page(viewport={"width": 1280, "height": 1600})}
        pages["page"].goto(page_of(folder / "page").as_uri())
        pages["page"].wait_for_selector(f"#explore-{kind}.pe-live")
        for name in ("live", "common"):
            (folder / name).mkdir()
        with (
            jupyterlab(folder / "live", [cells["live"]]) as live,
            jupyterlab(folder / "common", [cells["common"]]) as common,
        ):
            for name, address, ready in [("live", live, ".pe-live"), ("common", common, ".jp-OutputArea img")]:
                pages[name] = browser.new_page(viewport={"width": 1280, "height": 1600})
                open_notebook(pages[name], address)
                run_cell(pages[name], 0)
                pages[name].wait_for_selector(ready, timeout=60_000)
                pages[name].wait_for_timeout(1000)
            for move in range(MOVES + 5):
                for name in times:
                    pages[name].bring_to_front()
                    if name == "common":
                        took = pages[name].evaluate(MOVE_COMMON, "ArrowLeft" if move % 20 < 10 else "ArrowRight")
                    else:
                        selector = f"#explore-{kind}" if name == "page" else ".pe-widget"
                        took = pages[name].evaluate(MOVE_PANEL, [selector, 40 + 3 * move])
                    if move >= 5:  # the first ones warm up
                        times[name].append(took)
                print(f"\r{kind}: {move + 1} of {MOVES + 5} moves", end="", file=sys.stderr, flush=True)
        browser.close()
    print(file=sys.stderr)
    return times


def main() -> None:
    from tests.browser import chromium

    path = chromium()
    if path is None:
        sys.exit("this bench needs Chromium: install Debian's chromium")
    titles = {"page": "built page, no kernel", "live": "explore(), kernel", "common": "interact, matplotlib, kernel"}
    print(f"from input event to painted frame, headless Chromium, {MOVES} moves each, in turns; milliseconds")
    for kind, what in (("heatmap", "heatmap 512 x 128"), ("lines", "four lines of 512")):
        with tempfile.TemporaryDirectory() as folder:
            times = measure(kind, Path(folder), path)
        base = statistics.median(times["page"])
        print(f"\n{what:32}{'median':>9}{'90 %':>9}{'ratio':>9}")
        for name, title in titles.items():
            median, high = statistics.median(times[name]), statistics.quantiles(times[name], n=10)[-1]
            print(f"  {title:30}{median:9.1f}{high:9.1f}{median / base:9.1f}")


if __name__ == "__main__":
    main()
