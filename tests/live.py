"""A JupyterLab of its own for a test or a bench, and the few commands that drive it from a browser."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

KERNEL_IDLE = "() => jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel?.status === 'idle'"


@contextlib.contextmanager
def jupyterlab(folder: Path, cells: list[str], others: Mapping[str, list[NotebookNode]] | None = None) -> Iterator[str]:
    """Serve a notebook of these cells from a folder, with its own settings, on a free port; yields its address.

    Others lie beside it, by their names, for `reopen`.
    """
    notebooks = {"live": [new_code_cell(text) for text in cells], **(others or {})}
    for name, parts in notebooks.items():
        notebook = new_notebook(cells=parts)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, folder / f"{name}.ipynb")
    environment = {name: value for name, value in os.environ.items() if name != "POSENC_BOOK"}
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR"):
        environment[name] = str(folder / name.lower())
    options = [
        "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=",
        "--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    log = folder / "lab.log"
    with log.open("w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        try:
            yield _address(server, folder / "jupyter_runtime_dir", log) + "doc/tree/live.ipynb"
        finally:
            server.terminate()
            server.wait(20)


def _address(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    for _ in range(240):
        time.sleep(0.25)
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError, StopIteration, json.JSONDecodeError):
            url = json.loads(next(runtime.glob("jpserver-*.json")).read_text(encoding="utf-8"))["url"]
            urllib.request.urlopen(url + "api/status", timeout=5).close()
            return url
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}")


def within(page: Any, script: str, argument: Any = None, seconds: int = 120) -> None:
    """Let the page do something that ends; playwright itself would wait for ever."""
    late = f"new Promise((_, fail) => setTimeout(() => fail(new Error('no end after {seconds} s')), {seconds}000))"
    page.evaluate(f"argument => Promise.race([({script})(argument), {late}])", argument)


def open_notebook(page: Any, address: str) -> None:
    """Open the notebook and wait for its kernel."""
    page.goto(address, timeout=60_000)
    page.wait_for_function("() => window.jupyterapp", timeout=60_000)
    page.wait_for_function(KERNEL_IDLE, timeout=60_000)


def reopen(page: Any, name: str) -> None:
    """Close what is open, without a question, open another notebook, and wait for its kernel."""
    within(
        page,
        """async path => { for (const widget of [...jupyterapp.shell.widgets('main')]) widget.dispose();
           await jupyterapp.commands.execute('docmanager:open', { path, factory: 'Notebook' }); }""",
        f"{name}.ipynb",
    )
    page.wait_for_function(KERNEL_IDLE, timeout=60_000)


def run_all(page: Any) -> None:
    """Run all cells of the open notebook to their end."""
    within(page, "() => jupyterapp.commands.execute('notebook:run-all-cells')")


def run_cell(page: Any, index: int) -> None:
    """Run one cell to its end."""
    within(
        page,
        """async index => { jupyterapp.shell.currentWidget.content.activeCellIndex = index;
           await jupyterapp.commands.execute('notebook:run-cell'); }""",
        index,
    )
