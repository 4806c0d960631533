"""What all unit tests share: reproducible numbers, a device to run on, and the tables that are kept."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings

from tests.kept import FAILS, NOT_RUN, Kept
from tests.table import MEASURED, Table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.panels import Shared

settings.register_profile("posenc", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("posenc")
torch.set_num_threads(1)  # these tensors are tiny, and threads would only wait for one another
gc.set_threshold(50_000, 20, 50)  # traces and graphs are many objects; looking through them often takes a tenth of all

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


# What `make quick` leaves out, besides tests with a browser: by the file, or by the name of the test.
LONGER = {
    "export": re.compile(r"test_export\.py|test_explore\.py.*(graph|export|page|element)|::\w*(export|onnx)"),
    "compile": re.compile(r"::\w*compile|::test_a_graph_holds|flex"),
    "train": re.compile(r"test_lab_|::\w*(it_learns|it_trains)"),
    "book": re.compile(
        r"test_(book|build|evidence|exercises|explore_live|kept|launch|notebooks|press|scheme|search|structure|wheel)\.py"
    ),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, pattern in LONGER.items():
            if pattern.search(item.nodeid):
                item.add_marker(mark)


def pytest_collection_finish() -> None:
    gc.freeze()  # what is imported stays until the end


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, made: Path, browser: Browser) -> Iterator[Shared]:
    """The page that a module has made of its panels, which its tests take in turn."""
    from tests.panels import Shared

    lent = Shared(browser, (made / "index.html").as_uri(), request.module.__name__)
    yield lent
    lent.close()


@pytest.fixture
def page(shared: Shared, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The shared page, its panels as they began."""
    with shared.lent(request.node) as opened:
        yield opened.page


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep", action="store_true", help="keep the tables that tests find in chapters/checked")


class Contract(Kept):
    """Encodings are rows, and tests marked `check("…")` are columns."""

    name = "contract"
    caption = (
        "The contract of every encoding. Yes: all tests of this check passed. Refuses: the backend cannot serve "
        "this encoding, and says what to do. Not run: no GPU was at hand."
    )

    def cell(self, item: pytest.Item) -> tuple[str, str] | None:
        check, call = item.get_closest_marker("check"), getattr(item, "callspec", None)
        return (call.params["name"], check.args[0]) if check and call and "name" in call.params else None

    def table(self) -> Table:
        rows = dict.fromkeys(row for row, _ in self.cells)
        columns = dict.fromkeys(column for _, column in self.cells)
        cells = [[row, *(self.said(self.cells.get((row, column), [])) for column in columns)] for row in rows]
        return Table(self.caption, ["encoding", *columns], cells)

    def said(self, found: list[Any]) -> str:
        words = [word if isinstance(word, str) else word.get("cell", "yes") for word in found]
        return next((word for word in (FAILS, "refuses", "yes") if word in words), NOT_RUN)


class Conformance(Kept):
    """Tests marked `conform(ours, library, theirs, verdict)` are rows."""

    name = "conformance"
    caption = (
        "posenc beside other libraries, from the same numbers in float32 unless the test says otherwise. The largest "
        "difference is over all cases of the test; a bound on it is part of the test."
    )

    def cell(self, item: pytest.Item) -> tuple[str, ...] | None:
        mark = item.get_closest_marker("conform")
        return mark.args if mark else None

    def table(self) -> Table:
        rows = []
        for (ours, library, theirs, verdict), found in self.cells.items():
            failed = any(isinstance(each, str) for each in found)
            worst = max((each["difference"] for each in found if not isinstance(each, str)), default=0.0)
            difference = "0" if worst == 0 else f"{worst:.0e}"
            package = f"{library} {metadata.version(library)}"
            rows.append([f"`{ours}`", package, f"`{theirs}`", difference, FAILS if failed else verdict])
        return Table(self.caption, ["posenc", "library", "theirs", MEASURED, "verdict"], rows)


def pytest_configure(config: pytest.Config) -> None:
    for kept in (Contract, Conformance):
        config.pluginmanager.register(kept(config), kept.name)
