"""Walks through the panels in which models learn and read, by mouse and then by keyboard alone, and keeps pictures.

For each hand, in the built book, opened from disk in headless Chromium without a network: train eight models, pause,
drag the length of their text, look at another map; then read a text, point at a letter, drag RoPE's base, pick a row
of a map, break the cache, let both models write, and stop them. Pictures of both panels are taken before, during and
after, each in light, in dark and at a phone's width, and `tour.txt` says what was done and what the page answered.

    python tools/tour.py [--book _build/html] [--out _build/tour] [--hand mouse|keyboard]

What a page throws, and whatever it asks of a network, is listed at the end, and makes the tour fail.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser import ARGUMENTS, chromium  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
STEPS = 60  # of training, before the picture in its midst
LETTER = 300  # which is pointed at: beyond the 128 bytes of training
BREAK = "cache offset wrong"
PATIENCE = 300_000  # milliseconds: a machine may be busy
MOST = 500  # presses of Tab from one thing to another

CENTRE = "element => element.scrollIntoView({ block: 'center', behavior: 'instant' })"
ACTIVE = "element => document.activeElement === element"
AHEAD = """element => document.activeElement === document.body
  || Boolean(document.activeElement.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)"""
READ = "() => document.querySelector('.pe-reading').learning.found.every(found => found && found.next.length)"
RESTS = """() => {
  const { intact, status } = document.querySelector('.pe-reading').learning;
  return intact.every(Boolean) && status.textContent !== "reading…";
}"""


class Tour:
    """One hand's way through both pages, with its pictures and what it read."""

    def __init__(self, browser: Browser, book: Path, out: Path, hand: str) -> None:
        self.book, self.out, self.hand = book, out, hand
        self.lines: list[str] = []
        self.problems: list[str] = []
        context = browser.new_context(viewport=DESK, color_scheme="light", offline=True)
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on(
            "request",
            lambda request: request.url.startswith("http") and self.problems.append(f"asks for {request.url}"),
        )

    def say(self, text: str) -> None:
        line = f"{self.hand:8}  {text}"
        print(line, flush=True)
        self.lines.append(line)

    def open(self, chapter: str, panel: str, alive: str) -> Locator:
        begun = time.monotonic()
        self.page.goto((self.book / "chapters" / f"{chapter}.html").as_uri())
        found = self.page.locator(panel)
        found.scroll_into_view_if_needed()
        self.page.wait_for_function(alive)
        self.say(f"opens {chapter}; its panel is alive after {time.monotonic() - begun:.1f} s")
        return found

    def press(self, what: Locator, name: str) -> None:
        """A button, or whatever a click chooses."""
        if self.hand == "mouse":
            what.evaluate(CENTRE)
            box = what.bounding_box()
            assert box, name
            self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            self.page.mouse.down()
            self.page.mouse.up()
            self.say(f"clicks on {name}")
        else:
            tabs = self.reach(what)
            self.page.keyboard.press("Enter")
            self.say(f"presses {name}, after {tabs} tabs")

    def drag(self, slider: Locator, name: str) -> None:
        """A slider to its end."""
        if self.hand == "mouse":
            slider.evaluate(CENTRE)
            box = slider.bounding_box()
            assert box, name
            share = float(slider.evaluate("s => (s.value - s.min) / (s.max - s.min)"))
            begin, y = box["x"] + 9 + share * (box["width"] - 18), box["y"] + box["height"] / 2
            self.page.mouse.move(begin, y)
            self.page.mouse.down()
            self.page.mouse.move(box["x"] + box["width"] - 2, y, steps=12)
            self.page.mouse.up()
            how = "drags"
        else:
            how = f"after {self.reach(slider)} tabs presses End on"
            self.page.keyboard.press("End")
        self.say(f"{how} {name}: it reads {slider.get_attribute('aria-valuetext')}")

    def choose(self, select: Locator, name: str, label: str) -> None:
        """An option; the list that a mouse opens is the system's own, so it is chosen there without one."""
        if self.hand == "mouse":
            select.select_option(label=label)
            self.say(f"chooses {name}: {label}")
            return
        tabs = self.reach(select)
        for _ in range(select.locator("option").count()):
            if select.evaluate("s => s.selectedOptions[0].label") == label:
                break
            self.page.keyboard.press("ArrowDown")
        self.say(
            f"chooses {name}, after {tabs} tabs, by arrow keys: {select.evaluate('s => s.selectedOptions[0].label')}"
        )

    def reach(self, what: Locator) -> int:
        """Bring the focus there by Tab alone, or by Shift and Tab; how many presses that took."""
        key = "Tab" if what.evaluate(AHEAD) else "Shift+Tab"
        for presses in range(MOST):
            if what.evaluate(ACTIVE):
                return presses
            self.page.keyboard.press(key)
        raise AssertionError(f"{MOST} tabs do not lead to {what}")

    def skip(self) -> None:
        """By keyboard, past the contents at the side."""
        if self.hand == "keyboard":
            self.page.keyboard.press("Tab")
            self.page.keyboard.press("Enter")

    def picture(self, panel: Locator, name: str) -> None:
        """The panel in light, in dark and at a phone's width, each as it is at this moment."""
        for look, scheme, size in (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "light", PHONE)):
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size(size)
            self.page.evaluate("scrollTo(0, 0)")  # or else the page's own head would lie over the panel
            self.page.wait_for_timeout(600)
            box = panel.evaluate(
                "e => (({ x, y, width, height }) => [x, y + scrollY, width, height])(e.getBoundingClientRect())"
            )
            clip = dict(zip(("x", "y", "width", "height"), box, strict=True))
            self.page.screenshot(
                path=self.out / f"{self.hand}-{name}-{look}.png",
                full_page=True,
                clip=clip,
                animations="disabled",
            )
        self.page.set_viewport_size(DESK)
        self.page.wait_for_timeout(300)

    def race(self) -> None:
        """Train, pause, drag, and look at another model's map."""
        panel = self.open("race", "#learn-race", "() => document.querySelector('#learn-race').learning")
        status, held = panel.locator(".pe-actions .pe-status"), panel.locator(".pe-held")
        go = panel.locator(".pe-go")
        self.say(f"reads: {status.inner_text()} {held.inner_text()}.")
        self.picture(panel, "race-1-before")
        self.skip()
        begun = time.monotonic()
        self.press(go, "Train")
        done = "document.querySelector('#learn-race').learning.done"
        self.page.wait_for_function(f"() => {done} >= {STEPS}")
        self.say(f"reads after {time.monotonic() - begun:.1f} s: {status.inner_text()}; {held.inner_text()}")
        self.picture(panel, "race-2-during")
        self.press(go, "Pause")
        self.page.wait_for_function("() => !document.querySelector('#learn-race').learning.working")
        before = int(self.page.evaluate(done))
        self.page.wait_for_timeout(500)
        assert self.page.evaluate(done) == before, "it goes on although it was paused"
        self.say(f"reads: {status.inner_text()}, and no step is added")
        racer = panel.locator(".pe-racer:not([hidden])").nth(2)
        self.press(racer, f"the small map of {racer.locator('span span').inner_text()}")
        assert racer.get_attribute("aria-pressed") == "true"
        self.drag(panel.get_by_role("slider", name="length of text", exact=True), "the length of the text")
        self.page.wait_for_function("() => !document.querySelector('#learn-race').learning.working")
        self.say(f"reads: {held.inner_text()}; letters: {panel.locator('.pe-racer b').all_inner_texts()}")
        self.picture(panel, "race-3-after")

    def playground(self) -> None:
        """Point at a letter, drag, pick a row, break, write and stop."""
        alive = "() => document.querySelector('.pe-reading').learning"
        panel = self.open("playground", ".pe-reading", alive)
        means = panel.locator(".pe-strips").first.locator(".pe-strip-line")
        self.say(f"reads: {means.all_inner_texts()}")
        self.picture(panel, "playground-1-before")
        self.skip()
        strip = panel.locator(".pe-strip").first
        begun = time.monotonic()
        if self.hand == "mouse":
            self.press(strip.locator(f"[data-i='{LETTER}']"), f"letter {LETTER}")
        else:
            tabs = self.reach(strip)
            for _ in range(LETTER // 20 + 1):  # the first press is on the first letter
                self.page.keyboard.press("ArrowDown")
            self.say(f"goes to a letter by arrow keys, after {tabs} tabs")
        self.page.wait_for_function(READ)
        self.say(f"reads after {time.monotonic() - begun:.1f} s: {panel.locator('.pe-letter').inner_text()}")
        maps = panel.locator(".pe-heatmap")
        self.say(f"reads: {maps.locator('.pe-view-title').all_inner_texts()}")
        self.drag(panel.get_by_role("slider", name="RoPE’s base", exact=True), "RoPE’s base")
        self.rest()
        self.say(f"reads: {means.all_inner_texts()}")
        self.row(maps.first.locator(".pe-stage"))
        self.say(f"reads: {panel.locator('.pe-letter').inner_text()}")
        self.picture(panel, "playground-2-during")
        self.choose(panel.get_by_role("combobox", name="what is broken", exact=True), "what is broken", BREAK)
        self.rest()
        self.say(f"reads: {panel.locator('.pe-expected').inner_text()!r} {means.all_inner_texts()}")
        self.write(panel)
        self.picture(panel, "playground-3-after")

    def rest(self) -> None:
        """Until the models have read what was last wished for, which they begin at once."""
        self.page.wait_for_timeout(400)
        self.page.wait_for_function(RESTS)

    def row(self, stage: Locator) -> None:
        """A row of a map, which picks its letter."""
        if self.hand == "mouse":
            stage.evaluate(CENTRE)
            box = stage.bounding_box()
            assert box
            self.page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"])
            self.say("clicks into RoPE’s map")
        else:
            tabs = self.reach(stage)
            for _ in range(60):
                self.page.keyboard.press("ArrowDown")
            told = stage.get_attribute("aria-valuetext")
            self.page.keyboard.press("Enter")
            self.say(f"goes down RoPE’s map by keys, after {tabs} tabs, to {told}, and presses Enter")

    def write(self, panel: Locator) -> None:
        """Let both models write some bytes, and stop them."""
        self.press(panel.get_by_role("button", name="Write", exact=True), "Write")
        self.page.wait_for_function(
            "() => /byte [1-9]\\d /.test(document.querySelector('.pe-writing .pe-status').textContent)"
        )
        self.press(panel.get_by_role("button", name="Stop", exact=True), "Stop")
        panel.get_by_role("button", name="Write", exact=True).wait_for()  # once a full pass has been compared
        for host in panel.locator(".pe-writing .pe-strip-host").all():
            title, text, line = (
                host.locator(f".pe-{name}").inner_text() for name in ("view-title", "written", "strip-line")
            )
            self.say(f"reads: {title} {text!r}. {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--book", type=Path, default=ROOT / "_build/html", help="the built book")
    parser.add_argument("--out", type=Path, default=ROOT / "_build/tour", help="where pictures and text go")
    parser.add_argument("--hand", choices=("mouse", "keyboard"), help="one of the two alone")
    given = parser.parse_args()
    if not (given.book / "chapters/race.html").is_file():
        sys.exit(f"{given.book} has no chapters/race.html: run make book, or name a built book with --book")
    path = chromium()
    if path is None:
        sys.exit("there is no Chromium: install Debian's chromium, or run `playwright install chromium`")
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for hand in [given.hand] if given.hand else ["mouse", "keyboard"]:
            tour = Tour(browser, given.book.resolve(), given.out, hand)
            parts: list[Callable[[], Any]] = [tour.race, tour.playground]
            for part in parts:
                part()
            lines += tour.lines
            problems += tour.problems
            tour.page.context.close()
        browser.close()
    ending = [f"problem: {problem}" for problem in problems] or ["no script failed, and nothing was asked of a network"]
    print("\n".join(ending))
    (given.out / "tour.txt").write_text("\n".join([*lines, *ending]) + "\n", encoding="utf-8")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
