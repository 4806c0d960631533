"""learn() on a page, in a real browser: it trains as torch does, pauses, goes back, and says what is wrong."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from posenc import learn
from posenc._explore.panel import STATIC
from posenc._explore.training import page as training_page
from posenc._explore.training.lesson import Lesson, Trainer
from posenc._explore.training.panel import TrainingPage
from tests.browser import served
from tests.panels import site

TASKS = ("repeat the letter n back", "copy the word")
SCHEMES = ("sinusoidal", "nope")
STEPS = 50
SMALL = {"length": 12, "batch": 4, "model_dim": 16, "exam": 8}
PANEL = "document.querySelector('.pe-learn').learning"
RESTS = f"() => !{PANEL}.working && !{PANEL}.training && {PANEL}.exam"


@pytest.fixture(scope="module", autouse=True)
def each_graph_is_made_once() -> Iterator[None]:
    """For all panels of this file, which have the same sizes: a task has a title, and a course its scheme."""
    made: dict[str, dict[str, bytes]] = {}

    def once(export: Callable[..., dict[str, bytes]]) -> Callable[..., dict[str, bytes]]:
        def graphs(what: Any, *more: Any) -> dict[str, bytes]:
            title = getattr(what, "scheme", what)
            if title not in made:
                made[title] = export(what, *more)
            return made[title]

        return graphs

    with pytest.MonkeyPatch.context() as patch:
        for name in ("task_graphs", "course_graphs"):
            patch.setattr(training_page, name, once(getattr(training_page, name)))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("learn")

    def panels() -> list[Any]:
        TrainingPage._counts.clear()
        return [learn(TASKS, SCHEMES, steps=STEPS, caption="Press Train.", **SMALL)]

    site(folder, panels, gap="")
    return (folder / "index.html").as_uri()


def by_torch(steps: int, seed: int = 0, task: str = "task 0", rate: float = 1e-2) -> Trainer:
    lesson = Lesson(TASKS, SCHEMES, None, 0, 1e-2, STEPS, None, "learning", "", SMALL)
    trainer = Trainer(lesson)
    trainer.begin({"task": task, "seed": seed, "schemes": list(SCHEMES)})
    trainer.losses = [trainer.step(rate) for _ in range(steps)]  # type: ignore[attr-defined]
    return trainer


def rests(page: Any) -> None:
    page.wait_for_function(RESTS, timeout=60_000)


def far(page: Any, wanted: list[list[float]]) -> float:
    """The largest difference of a loss on the page from these."""
    losses = page.evaluate(f"{PANEL}.losses")
    assert [len(row) for row in losses] == [len(row) for row in wanted]
    return max(abs(a - b) for ours, true in zip(losses, wanted, strict=True) for a, b in zip(ours, true, strict=True))


@pytest.mark.export
def test_a_reader_trains_as_torch_does(place, open_page):
    opened = open_page(place)
    page = opened.page
    button = lambda name: page.get_by_role("button", name=name, exact=True)  # noqa: E731
    assert page.locator(".pe-still svg").first.is_visible()
    assert not [url for url in opened.requested if "runtime" in url]  # until Train is pressed
    button("Train").press("Enter")
    rests(page)
    torch_has = by_torch(STEPS)
    assert far(page, torch_has.losses) < 1e-3
    exam = page.evaluate(
        f"{PANEL}.exam.schemes.map(s => [[...s.accuracy.data], [...s.written.data], [...s.heads.data]])"
    )
    true = torch_has.exam(4 * SMALL["length"])[3:]
    for number, (accuracy, written, heads) in enumerate(exam):
        own = [t.flatten().tolist() for t in true[4 * number : 4 * number + 4]]
        assert sum(a != b for a, b in zip(written, own[2], strict=True)) <= 1  # two letters may be equally likely
        assert max(abs(a - b) for a, b in zip(heads, own[3], strict=True)) < 1e-3
        assert sum(abs(a - b) > 0.13 for a, b in zip(accuracy, own[0], strict=True) if a == a and a is not None) == 0

    page.get_by_role("slider", name="length of text", exact=True).evaluate(
        "s => { s.value = 12; s.dispatchEvent(new Event('input')); }"
    )
    rests(page)
    shapes = page.evaluate(f"{PANEL}.views.map(v => v.tensors.at(-1).shape)")
    assert shapes == [[2, STEPS], [2, 20], [20, 20], [20, 20]]
    words = page.locator(".pe-text tr").all_inner_texts()
    assert len(words) == 4 and "of 17 right" in words[2]

    button("Step").click()
    page.wait_for_function(f"() => {PANEL}.done === {STEPS + 1} && !{PANEL}.working")
    page.get_by_role("combobox", name="task").select_option(index=1)  # starts anew
    page.get_by_role("checkbox", name="NoPE").uncheck()
    button("Train").click()
    page.wait_for_function(f"() => {PANEL}.done > 0")
    rests(page)
    assert far(page, [row[:1] for row in by_torch(STEPS, task="task 1").losses]) < 1e-3
    page.get_by_role("checkbox", name="sinusoidal").click()
    assert "One encoding at least" in page.locator(".pe-message").inner_text()
    button("Reset").click()
    page.wait_for_function(f"() => {PANEL}.done === 0 && !{PANEL}.working && {PANEL}.exam?.schemes.length === 2")

    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    assert not opened.problems


@pytest.mark.export
def test_many_models_race(tmp_path, open_page, monkeypatch):
    monkeypatch.setattr("posenc._explore.training.lesson.MANY", 2)  # two stand for eight
    site(tmp_path, lambda: [learn(TASKS[0], SCHEMES, steps=6, read=12, name="race", **SMALL)], gap="")
    opened = open_page((tmp_path / "index.html").as_uri())
    page = opened.page
    racers = page.locator(".pe-racer")
    names = ["sinusoidal", "NoPE"]
    assert [text.split("\n")[0] for text in racers.all_inner_texts()] == names
    recorded = page.locator(".pe-racer b").all_inner_texts()  # before any training in this page
    assert all(re.fullmatch(r"\d+ %", share) for share in recorded)
    page.get_by_role("button", name="Train", exact=True).click()
    rests(page)
    torch_has = by_torch(6)
    assert far(page, torch_has.losses) < 1e-3
    shares = [int(text[:-2]) for text in page.locator(".pe-racer b").all_inner_texts()]
    true = [100 * torch_has.exam(12)[3 + 4 * i][0, 3:12].mean().item() for i in range(2)]
    assert all(abs(a - b) < 3 for a, b in zip(shares, true, strict=True))  # two letters may be equally likely
    held = sum(share >= 90 for share in shares)
    assert page.locator(".pe-held").inner_text().startswith(f"{held} of 2 ")

    assert page.locator(".pe-view.pe-heatmap").count() == 1
    racers.nth(1).press("Enter")
    assert [racer.get_attribute("aria-pressed") for racer in racers.all()] == ["false", "true"]
    assert "NoPE" in page.locator(".pe-view.pe-heatmap").inner_text()
    size = "c => [c.width, c.height]"
    assert racers.nth(1).locator("canvas").evaluate(size) == [12, 12]
    page.get_by_role("slider", name="length of text", exact=True).evaluate(
        "s => { s.value = s.max; s.dispatchEvent(new Event('input')); }"
    )
    rests(page)
    assert racers.nth(1).locator("canvas").evaluate(size) == [48, 48]
    page.get_by_role("slider", name="n", exact=True).evaluate(
        "s => { s.value = 4; s.dispatchEvent(new Event('input')); }"  # its fifth place
    )
    rests(page)
    read, wanted = ([*row] for row in page.locator(".pe-text td:last-child").all_inner_texts()[:2])
    assert wanted[:5] == ["·"] * 5 and wanted[5:] == read[:-5]
    page.get_by_role("checkbox", name="NoPE").uncheck()
    rests(page)
    assert [racer.is_visible() for racer in racers.all()] == [True, False]
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    assert not opened.problems


@pytest.mark.export
def test_a_rate_that_is_too_high_is_said_and_the_last_good_one_is_offered(place, open_page):
    opened = open_page(place, reduced_motion="no-preference")
    page = opened.page
    page.evaluate(f"{PANEL}.until = 8")
    page.get_by_role("button", name="Train", exact=True).click()
    rests(page)
    rate = page.get_by_role("slider", name="learning rate", exact=True)
    rate.evaluate("s => { s.value = s.max; s.dispatchEvent(new Event('input')); }")
    page.evaluate(f"{PANEL}.spec.limit = 3.5")  # sooner than after hundreds of steps
    page.wait_for_function(f"() => {PANEL}.kept?.done === 8")
    page.evaluate(f"{PANEL}.examined.at = Infinity")  # a slow machine would look, and keep a state, on the way
    page.get_by_role("button", name="Train", exact=True).click()
    message = page.get_by_role("alert")
    message.get_by_role("button").wait_for()
    assert "has run away: a rate of 1 is too high" in message.inner_text()
    remedy = message.get_by_role("button")
    assert remedy.inner_text() == "Go back to step 8, with a rate of 0.01"
    remedy.click()
    rests(page)
    assert page.evaluate(f"[{PANEL}.done, {PANEL}.values.rate, {PANEL}.losses.length]") == [8, 0.01, 8]
    assert far(page, by_torch(8).losses) < 1e-3
    page.get_by_role("button", name="Step", exact=True).click()
    page.wait_for_function(f"() => {PANEL}.done === 9 && !{PANEL}.working")
    assert far(page, by_torch(9).losses) < 1e-3  # it goes on as if nothing had been
    assert not opened.problems


@pytest.mark.export
def test_a_hidden_page_waits_and_a_page_without_workers_asks(place, open_page):
    opened = open_page(place)
    page = opened.page
    page.evaluate("() => { globalThis.Worker = class { constructor() { throw new Error('forbidden'); } } }")
    button = page.get_by_role("button", name="Train", exact=True)
    button.click()
    message = page.get_by_role("alert")
    message.get_by_role("button").wait_for()
    assert "may have no worker, so that it would stutter" in message.inner_text()
    page.evaluate("() => void Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    message.get_by_role("button", name="Train all the same").click()
    page.wait_for_function(f"() => {PANEL}.trainer && !{PANEL}.working")
    assert page.evaluate(f"[{PANEL}.done, {PANEL}.training]") == [0, True]
    assert "waiting until this page is seen" in page.locator(".pe-learn .pe-status").inner_text()
    page.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")
    rests(page)
    assert far(page, by_torch(STEPS).losses) < 1e-3
    assert not opened.problems


HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Kernel</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"><div id="cell"></div><script type="module">
import widget from "./widget.js";
const spec = await ask(null), told = new Set();
const model = {
  get: () => spec, on: (_, react) => told.add(react), off: (_, react) => told.delete(react),
  send: async message => {
    const [answer, buffers] = await ask(message);
    const views = buffers.map(b => new DataView(Uint8Array.from(atob(b), c => c.charCodeAt(0)).buffer));
    for (const react of told) react(answer, views);
  },
};
globalThis.close_ = widget.render({ model, el: document.getElementById("cell") });
document.getElementById("cell").classList.add("pe-learn");
</script>"""


def test_a_kernel_trains_the_same_panel(tmp_path, browser):
    """The front end of a notebook, whose messages a live panel answers."""
    for name in ("widget.js", "style.css"):
        shutil.copy(STATIC / name, tmp_path / name)
    (tmp_path / "index.html").write_text(HOST, encoding="utf-8")
    panel = learn(TASKS, SCHEMES, steps=STEPS, **SMALL)
    sent: list[Any] = []
    panel.send = lambda message, buffers=(): sent.append((message, buffers))

    def ask(message: Any) -> Any:
        if message is None:
            return panel._spec
        panel._answer(panel, message, [])
        answer, buffers = sent.pop()
        return [answer, [base64.b64encode(buffer).decode() for buffer in buffers]]

    page = browser.new_page(reduced_motion="reduce")
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.expose_function("ask", ask)
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        page.get_by_role("button", name="Train", exact=True).click()
        rests(page)
    assert far(page, by_torch(STEPS).losses) == 0  # torch itself
    assert "right" in page.locator(".pe-text tr").nth(2).inner_text()
    panel._trainer.states = [torch.full_like(state, torch.nan) for state in panel._trainer.states]
    page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("alert").get_by_role("button").wait_for()
    assert "the loss of sinusoidal and NoPE has run away" in page.get_by_role("alert").inner_text()
    page.evaluate("close_()")
    assert page.locator("#cell").inner_text() == "" and not problems
    page.close()
