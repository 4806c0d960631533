"""How fast models learn and read: a step by graphs and by torch, and in the page, in headless Chromium.

python tests/bench/learn.py [rope shaw ...]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import torch

from posenc import SCHEMES, learn, play
from posenc._explore.sphinx import DATA, _apart, ship
from posenc._explore.training.course import Course, Sizes, texts
from posenc._explore.training.graphs import Run, course_graphs, task_graphs, verify
from posenc._explore.training.tasks import back
from posenc.lab.weights import trained

TITLE = "repeat the letter n back"
STEPS = 100
READ = 512  # bytes
PANEL = "document.querySelector('.pe-learn').learning"
# The time from a movement of a slider to the painted frame, again and again while models train.
MOVES = """async () => {
  const slider = document.querySelector('.pe-learn input[type=range]'), times = [];
  while (PANEL.training) {
    const begin = performance.now();
    slider.dispatchEvent(new Event('focus'));
    await new Promise(f => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel();
      port1.onmessage = f; port2.postMessage(null); }));
    times.push(performance.now() - begin);
    await new Promise(f => setTimeout(f, 40));
  }
  return times;
}""".replace("PANEL", PANEL)


# Milliseconds that a step of one scheme takes in the page: what the worker needs, and one message.
STEP = """async () => {
  const { trainer, values, chosen } = PANEL, begin = performance.now();
  const { losses } = await trainer.advance(5000, values.rate, values.n, 200, Infinity);
  return (performance.now() - begin) / losses.length / chosen.length;
}""".replace("PANEL", PANEL)
# The same for bytes through a trained model, each time another text, since what was read is kept.
READS = """async bytes => {
  const { library, spec, values } = PANEL, times = [];
  for (let n = 0; n < 12; n++) {
    const text = Uint8Array.from({ length: bytes }, (_, i) => 32 + (31 * i + n) % 90), begin = performance.now();
    await library.read(spec.models[0], text, spec.trained, 0, values.head ?? 0, () => true);
    times.push(performance.now() - begin);
  }
  return times.slice(2);
}""".replace("PANEL", PANEL)


def table(schemes: list[str]) -> None:
    sizes = Sizes()
    task = task_graphs(TITLE, back, sizes)
    print(f"{'scheme':16s} weights   kB  difference  graph, ms  torch, ms  exam, ms")
    for scheme in schemes:
        course = Course(scheme, sizes)
        graphs = course_graphs(course)
        run = Run(task, graphs)
        far = verify(TITLE, back, course, run)
        run.start(0)
        by_graph = [_timed(lambda run=run: run.step(1e-2)) for _ in range(STEPS)]
        exam = statistics.median(_timed(lambda run=run: run.exam(sizes.longest)) for _ in range(5))
        state, seed, rate = course.start(torch.tensor(0)), torch.tensor(0), torch.tensor(1e-2)
        by_torch = []
        for step in range(STEPS // 4):
            begin = time.perf_counter()
            read = texts(back, sizes, seed, torch.tensor(step), torch.tensor(3))
            state, _ = course.step(state, *read, torch.tensor(step), rate)
            by_torch.append(1e3 * (time.perf_counter() - begin))
        size = sum(map(len, graphs.values())) / 1e3
        print(
            f"{scheme:16s} {course.size:7d} {size:4.0f} {far:11.1e} {statistics.median(by_graph):10.1f} "
            f"{statistics.median(by_torch):10.1f} {exam:9.1f}"
        )


def _timed(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)


def page() -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser import chromium

    os.environ["POSENC_BOOK"] = "1"
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        ship(folder / "posenc")
        html = _written(folder, "index.html", learn(TITLE, ["rope", "alibi"], steps=400))
        apart = sum(file.stat().st_size for file in (folder / "posenc" / "graphs").glob("*.js"))
        print(f"a page holds {html / 1e3:.0f} kB of the panel, and loads {apart / 1e3:.0f} kB when Train is pressed")
        model = trained("rope", preset="epoch")
        _written(folder, "reading.html", play({"rope": model}, {"text": "a text to read, " * 40}, length=128, read=128))
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        opened.goto((folder / "index.html").as_uri())
        begin = time.perf_counter()
        opened.get_by_role("button", name="Train", exact=True).click()
        opened.wait_for_function(f"() => {PANEL}.done > 0")
        first = time.perf_counter() - begin
        frames = sorted(opened.evaluate(MOVES))
        whole = time.perf_counter() - begin
        print(
            f"the first step after {first:.1f} s; 400 steps of two schemes in {whole:.1f} s, {800 / whole:.0f} a second"
        )
        print(
            f"a frame while they train: {frames[len(frames) // 2]:.0f} ms, p95 {frames[int(0.95 * len(frames))]:.0f} ms"
        )
        print(f"a step of one scheme in the page: {statistics.median(opened.evaluate(STEP) for _ in range(5)):.1f} ms")
        opened.goto((folder / "reading.html").as_uri())
        times = sorted(opened.evaluate(READS, READ))
        print(f"{READ} bytes through a trained model: {statistics.median(times):.0f} ms, at most {times[-1]:.0f} ms")
        browser.close()


def _written(folder: Path, name: str, panel: Any) -> int:
    """Write a page with a panel, whose graphs stand apart; returns the length of the panel's own HTML."""
    html = panel._repr_mimebundle_()["text/html"]
    html = DATA.sub(lambda found: _apart(found[1], folder / "posenc" / "graphs"), html)
    (folder / name).write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="posenc/style.css"><main>{html}</main>'
        "<script defer src=posenc/page.js></script>",
        encoding="utf-8",
    )
    return len(html)


def main() -> None:
    torch.set_num_threads(1)
    table(sys.argv[1:] or list(SCHEMES))
    page()


if __name__ == "__main__":
    main()
