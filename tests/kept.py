"""Tables that a run of tests fills: each test says something of a cell, and the whole is compared with what is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import metadata
from typing import Any

import pytest

from tests.table import MEASURED, NOT_RUN, Table


class Kept(ABC):
    """Gathers a table from the tests of one file and, if all of them ran, compares it with the one that is kept.

    Reports of tests come to the process that sums up, also from workers of pytest-xdist. What a worker collected it
    sends when it goes, so that a report that did not arrive is missed.
    """

    name: str

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.keep = config.getoption("--keep")
        self.tests: dict[str, Any] = {}  # the cell of each test that was collected
        # whether some tests were left out, by name, mark or otherwise
        self.parted = "::" in "".join(config.args) or config.getoption("collectonly")
        self.reports: dict[str, list[Any]] = {}
        self.faults: list[str] = []

    @abstractmethod
    def cell(self, item: pytest.Item) -> tuple[str, ...] | None:
        """Which cell or row of the table a test belongs to, or None."""

    @abstractmethod
    def table(self) -> Table:
        """The table, from what the tests of each cell said."""

    @property
    def cells(self) -> dict[Any, list[Any]]:
        """What the tests of each cell said, in the order in which they were collected."""
        cells: dict[Any, list[Any]] = {}
        for test, cell in self.tests.items():
            cells.setdefault(cell, []).extend(self.reports.get(test, []))
        return cells

    # ---- where tests run

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.parted |= any(self.cell(item) is not None for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests = {item.nodeid: cell for item in session.items if (cell := self.cell(item)) is not None}
        if hasattr(self.config, "workerinput"):
            self.config.workeroutput[self.name] = {"tests": list(self.tests.items()), "parted": self.parted}

    # ---- where it is summed up

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get(self.name)
        if sent:
            self.tests = {test: tuple(cell) for test, cell in sent["tests"]}
            self.parted |= sent["parted"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = self.reports.setdefault(report.nodeid, [])
        if report.failed:
            found.append("FAILS")
        elif report.skipped:
            found.append(NOT_RUN)
        elif report.when == "call":
            found.append(dict(report.user_properties))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput") or not self.tests or self.parted:
            return
        missing = [test for test in self.tests if not self.reports.get(test)]
        if missing and session.exitstatus == 0:
            self.faults = [f"{len(missing)} of {len(self.tests)} tests did not report, such as {missing[0]}"]
        if not missing:
            if self.keep and session.exitstatus == 0:
                self.table().write(self.name)
            self.faults = self.table().differences(Table.read(self.name))
        if self.faults and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        complete = self.tests and not self.parted and all(map(self.reports.get, self.tests))
        if complete or self.faults:
            terminalreporter.section(self.name)
            terminalreporter.write_line(self.table().text())
        if self.faults:
            terminalreporter.write_line(f"\nchapters/checked/{self.name}.json differs: run make checked, look at it")
            for line in self.faults:
                terminalreporter.write_line(f"  {line}")


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
        return next((word for word in ("FAILS", "refuses", "yes") if word in words), NOT_RUN)


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
            rows.append([f"`{ours}`", package, f"`{theirs}`", difference, "FAILS" if failed else verdict])
        return Table(self.caption, ["posenc", "library", "theirs", MEASURED, "verdict"], rows)


def register(config: pytest.Config) -> None:
    for kept in (Contract, Conformance):
        config.pluginmanager.register(kept(config), kept.name)
