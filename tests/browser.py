"""Fixtures for tests that look at the built book: the book, a server for it, and Chromium.

`book` builds it (seconds when nothing has changed), `server` is its address over http, `open_page` opens an address
in a fresh Chromium context and returns the page together with everything that went wrong on it.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build/html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]  # fmt: skip
MATHJAX_DONE = "() => !window.MathJax?.startup || MathJax.startup.promise.then(() => true)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that did not run for want of a browser: pytest itself folds them into a number."""
    skipped = [report.nodeid for report in terminalreporter.stats.get("skipped", []) if "browser" in report.keywords]
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


@pytest.fixture(scope="session")
def book() -> Path:
    """The folder of the built book."""
    tool = Path(sys.executable).with_name("jupyter-book")
    command = [str(tool), "build", str(ROOT), "-W", "-n", "--keep-going"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert built.returncode == 0, f"the book does not build:\n{built.stdout[-6000:]}"
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
    from playwright.sync_api import sync_playwright

    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium: install Debian's chromium, or run `playwright install chromium`")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@dataclass
class Opened:
    """A page, and what went wrong on it: script errors, failed requests, requests that leave the host."""

    page: Page
    host: str
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        self.page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url} {request.failure}"))
        self.page.on("response", self._response)
        self.page.on("request", self._request)

    def _request(self, request: Any) -> None:
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
        height = self.page.evaluate("document.scrollingElement.scrollHeight")
        for top in range(0, height, 800):
            self.page.evaluate(f"scrollTo(0, {top})")
            self.page.wait_for_timeout(30)
        self.page.wait_for_timeout(300)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """open_page(address, **options of a Chromium context) -> Opened, at 1280 x 900 unless told."""
    contexts = []

    def open_(address: str, **options: Any) -> Opened:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        context = browser.new_context(**options)
        contexts.append(context)
        opened = Opened(context.new_page(), urlsplit(address).netloc)
        opened.page.goto(address, wait_until="load")
        opened.settle()
        return opened

    yield open_
    for context in contexts:
        context.close()
