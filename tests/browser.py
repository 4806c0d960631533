"""Fixtures for tests that look at the built book: the book, a server for it, and Chromium.

`book` is the folder that `make book` has built, and refuses one that is not of the present files; `server` is its
address over http. `open_page` opens an address in a fresh Chromium context and returns the page together with
everything that went wrong on it. In CI, a trace of each context of a test that fails is kept in `_build/traces`.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build/html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run",
             "--js-flags=--liftoff-only --wasm-lazy-compilation"]  # fmt: skip  # each page compiles the runtime anew
DESK = {"width": 1280, "height": 900}
#: The pages that `make test` looks at; `make pages` looks at the others. Among them are the first page, one whose
#: models learn, a page of code.
DAILY = ("chapters/index", "chapters/race", "search", "_modules/posenc/schemes/rope")
TRACES = ROOT / "_build/traces"
TRACING = bool(os.environ.get("CI"))
FAILED = pytest.StashKey[bool]()
WALK = """async () => {  // what is 800 pixels out of sight comes alive
  for (let top = 0; top < document.scrollingElement.scrollHeight; top += 1600) {
    scrollTo(0, top);
    await new Promise(requestAnimationFrame);
    await new Promise(painted => setTimeout(painted));
  }
  await document.fonts.ready;
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));  // a failure is a problem
}"""
MATHJAX_DONE = (
    "() => !window.MathJax?.startup || MathJax.startup.promise.then(() => document.fonts.ready).then(() => true)"
)


def each_page(pages: list[str]) -> list[Any]:
    """A parameter for each of these pages of the book; `make test` takes those of DAILY."""
    return [pytest.param(page, id=page, marks=() if page in DAILY else pytest.mark.pages) for page in pages]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that did not run for want of a browser: pytest itself folds them into a number."""
    reports = terminalreporter.stats.get("skipped", [])  # of tests, and of files that were skipped whole
    skipped = [report.nodeid for report in reports if "browser" in getattr(report, "keywords", ())]
    if skipped:
        terminalreporter.section("browser tests that were skipped")
        for name in skipped:
            terminalreporter.line(name)


def chromium() -> str | None:
    """Chromium's path: the environment variable CHROMIUM, the system's, or what playwright has fetched."""
    from playwright.sync_api import sync_playwright

    named = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]
    found = next(filter(None, named), None)
    if found is None:
        with sync_playwright() as playwright:
            fetched = playwright.chromium.executable_path
            found = fetched if Path(fetched).exists() else None
    return found


def extension(name: str) -> ModuleType:
    """A module of chapters/_ext, which the build imports as Sphinx extensions."""
    folder = str(ROOT / "chapters/_ext")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def book() -> Path:
    """The folder of the built book."""
    stamp = extension("stamp")
    if stamp.built(HTML) != stamp.fingerprint():
        what = "is not built from the present files" if HTML.exists() else "is not there"
        pytest.fail(f"the book in {HTML} {what}: run make book", pytrace=False)
    return HTML


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder over http, on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def server(book: Path) -> Iterator[str]:
    """The book's address over http."""
    with served(book) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window; tests that need it are skipped where there is none."""
    sync_playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").sync_playwright

    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium: install Debian's chromium, or run `playwright install chromium`")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@dataclass
class Opened:
    """A page, what it asked for, and what went wrong: script errors, failed requests, requests that leave the host."""

    page: Page
    host: str
    problems: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        self.page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url} {request.failure}"))
        self.page.on("response", self._response)
        self.page.on("request", self._request)

    def _request(self, request: Any) -> None:
        self.requested.append(request.url)
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.netloc != self.host:
            self.problems.append(f"leaves the host: {request.url}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status}: {response.url}")

    def settle(self) -> None:
        """Wait until the mathematics is set."""
        self.page.wait_for_function(MATHJAX_DONE)

    def walk(self) -> None:
        """Scroll from top to bottom, so that whatever loads when it comes into view has done so."""
        self.page.evaluate(WALK)


class Contexts:
    """Contexts of Chromium that are closed together; with a trace each, kept in `_build/traces`, if told so."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.browser = browser
        self.name = re.sub(r"[^\w.-]+", "-", name).strip("-")
        self.contexts: list[BrowserContext] = []

    def new(self, **options: Any) -> BrowserContext:
        options = {"viewport": DESK, "reduced_motion": "reduce", **options}
        context = self.browser.new_context(**options)
        if TRACING:
            context.tracing.start(screenshots=True, sources=True)
        self.contexts.append(context)
        return context

    def open(self, address: str, script: str = "", **options: Any) -> Opened:
        """Open an address in a context with these options, at 1280 x 900 unless told, and wait for its formulas.

        A `script` runs in the page before its own.
        """
        opened = Opened(self.new(**options).new_page(), urlsplit(address).netloc)
        if script:
            opened.page.add_init_script(script)
        opened.page.goto(address, wait_until="load")
        opened.settle()
        return opened

    def close(self, keep: bool) -> None:
        for number, context in enumerate(self.contexts, 1):
            if TRACING and keep:
                context.tracing.stop(path=TRACES / f"{self.name}-{number}.zip")
            context.close()


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Opened]]:
    """open_page(address, **options of a Chromium context) -> Opened."""
    contexts = Contexts(browser, request.node.name)
    yield contexts.open
    contexts.close(keep=request.node.stash.get(FAILED, False))


def place(page: Page, x: float, y: float) -> tuple[float, float]:
    """The place in the window of a point of the lines that the page's first panel shows first."""
    across, down = page.evaluate(
        """async ([x, y]) => { const { frame } = document.querySelector('.pe-widget').panel.views[0];
           frame.svg.scrollIntoView({ block: 'center' });
           await new Promise(requestAnimationFrame);
           const box = frame.svg.getBoundingClientRect();
           return [box.left + frame.x(x), box.top + frame.y(y)]; }""",
        [x, y],
    )
    return across, down


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Take what is at one place of the window, and draw it to another in four moves."""
    page.mouse.move(*start)
    page.mouse.down()
    for share in (0.25, 0.5, 0.75, 1.0):
        page.mouse.move(*(a + share * (b - a) for a, b in zip(start, end, strict=True)))
        page.wait_for_timeout(50)
    page.mouse.up()
