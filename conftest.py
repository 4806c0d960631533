"""What both test runs share: `pytest tests` and `pytest --nbval chapters`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["tests.browser"]

ROOT = Path(__file__).parent
OUTPUT_TIMEOUT = 60  # seconds; nbval's own 5 are too few for a first compilation on a slow machine


def pytest_configure(config: pytest.Config) -> None:
    """Kernels run this tree's package, as in a reader's notebook, and none of the reader's start-up files."""
    os.environ.pop("POSENC_BOOK", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    profile = tempfile.TemporaryDirectory(prefix="posenc-ipython-")
    os.environ["IPYTHONDIR"] = profile.name
    config.add_cleanup(profile.cleanup)
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        keep_history()


def keep_history() -> None:
    """Let nbval's kernels store history: without it a trailing semicolon does not hide a value."""
    from nbval.kernel import RunningKernel

    def execute_cell_input(self: Any, cell_input: str, allow_stdin: bool | None = None) -> str:
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    RunningKernel.execute_cell_input = execute_cell_input


def pytest_itemcollected(item: pytest.Item) -> None:
    if hasattr(item, "output_timeout"):  # a cell of a notebook
        item.output_timeout = OUTPUT_TIMEOUT
