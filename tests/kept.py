"""Tables that a run of tests fills: each test says something of a cell, and the whole is compared with what is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.table import Table

FAILS, NOT_RUN = "FAILS", "not run"  # what a test says of its cell; one that passes says its properties


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
            found.append(FAILS)
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
            table = self.table()
            if self.keep and session.exitstatus == 0:
                table.write(self.name)
            self.faults = table.differences(table.read(self.name))
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
