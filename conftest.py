"""What both test runs share: `pytest tests` and `pytest --nbval chapters`."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import fork_kernels

# nbval reads notebooks with jsonschema, which takes a second or two to be able to check addresses in other alphabets,
# unless this module is missing. So pytest does not find nbval by itself (see pyproject.toml), but here.
sys.modules.setdefault("rfc3987_syntax", None)
pytest_plugins = ["tests.browser", *(["nbval.plugin"] if importlib.util.find_spec("nbval") else [])]

ROOT = Path(__file__).parent
PARTS = {  # files that two workers share, and what names a case in a test's parameters
    "tests/test_book.py": r"\[(.*)\]",  # a page
    "tests/test_contract.py": r"\[(.*)\]",  # an encoding, with a backend
    "tests/test_examples.py": r"\[posenc\.(\w+)",  # a module, or a folder of them
    "tests/test_exercises.py": r"\[(\w+)",  # an exercise
}
OUTPUT_TIMEOUT = 60  # seconds; nbval's own 5 are too few for a first compilation on a slow machine
PROFILE = 'get_config().HistoryManager.hist_file = ":memory:"\n'  # no kernel writes into a folder that goes before it
#: What a kernel does first under `--rounding`: every gradient is a little off, as if it came from another processor,
#: so that a training that amplifies such differences ends elsewhere.
OFF = """
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
def off(optimiser, arguments, options, generator=torch.Generator().manual_seed(%d)):
    for p in (p for group in optimiser.param_groups for p in group["params"] if p.grad is not None):
        noise = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        p.grad.mul_(1 + 10 * torch.finfo(p.dtype).eps * noise.to(p.device))
register_optimizer_step_pre_hook(off)
del off, register_optimizer_step_pre_hook
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounding", type=int, metavar="SEED", help="round gradients otherwise, in notebooks")


def pytest_configure(config: pytest.Config) -> None:
    """Kernels run this tree's package, as in a reader's notebook, and none of the reader's start-up files."""
    os.environ.pop("POSENC_BOOK", None)
    own = [str(ROOT), str(ROOT / "evidence")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH")]))
    profile = tempfile.TemporaryDirectory(prefix="posenc-ipython-")
    folder = Path(profile.name) / "profile_default"
    folder.mkdir()
    if (seed := config.getoption("--rounding")) is not None:
        (folder / "startup").mkdir()
        (folder / "startup" / "off.py").write_text(OFF % seed, encoding="utf-8")
    for name in ("ipython_config.py", "ipython_kernel_config.py"):
        (folder / name).write_text(PROFILE, encoding="utf-8")
    os.environ["IPYTHONDIR"] = profile.name
    config.add_cleanup(profile.cleanup)
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        keep_history()
        fork_kernels(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(), "times")


def keep_history() -> None:
    """Let nbval's kernels store history: without it a trailing semicolon does not hide a value."""
    from nbval.kernel import RunningKernel

    def execute_cell_input(self: Any, cell_input: str, allow_stdin: bool | None = None) -> str:
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    RunningKernel.execute_cell_input = execute_cell_input


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers begin with what takes long in one go, so that none is idle for long at the end.

    First come files, then the parts of those that are shared; browser tests are last.
    """
    if hasattr(config, "workerinput"):
        length = {path: path.stat().st_size for path in {item.path for item in items}}
        items.sort(
            key=lambda item: (
                "browser" in getattr(item, "fixturenames", ()),
                item.nodeid.split("::")[0] in PARTS,
                -length[item.path] if item.path.suffix == ".ipynb" else 0,
            )
        )


def pytest_collection_finish() -> None:
    """What is there when the tests begin stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    if hasattr(item, "output_timeout"):  # a cell of a notebook
        item.output_timeout = OUTPUT_TIMEOUT


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the workers of pytest-xdist whole files, notebooks among them, and smaller parts of the longest files."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPart(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part(nodeid)

    config.option.loadscopereorder = False  # what takes long comes first already
    return ByPart(config, log)


def part(nodeid: str) -> str:
    """What one worker does in one go: a file, whose tests share what is costly to make, or the tests of one case."""
    file, _, test = nodeid.partition("::")
    case = re.search(PARTS[file], test) if file in PARTS else None
    return f"{file}[{case[1]}]" if case else file


class Times:
    """How long each file took, shown at the end of a run of several files."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.split("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if len(self.seconds) > 1:
            terminalreporter.section("seconds by file")
            for name, seconds in self.seconds.most_common():
                if seconds >= 1:
                    terminalreporter.write_line(f"{seconds:7.1f}  {name}")
            terminalreporter.write_line(f"{self.seconds.total():7.1f}  together")
