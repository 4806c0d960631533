"""Executes the book's notebooks before Sphinx reads them, several at a time: a Sphinx extension.

- A notebook runs if its code, or the package, has changed: executions are kept under a key made from the package.
- Explorers are kept beside them, and copied to `_build/explorers`: the tests compare the pages with torch.
- A stamp says from which files the book was built: the tests refuse a book that is not of the present ones.
- A draft (`make draft`) has a folder of its own. A notebook that fails is a page of it, which ends in the error.
"""

from __future__ import annotations

import asyncio
import logging as python_logging
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import nbformat
import stamp
from jupyter_cache import get_cache  # type: ignore[import-untyped]
from jupyter_cache.base import CacheBundleIn  # type: ignore[import-untyped]
from jupyter_cache.cache.main import NbArtifacts  # type: ignore[import-untyped]
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import SphinxError
from sphinx.util import logging

from posenc._explore.kept import FOLDER
from posenc._explore.sphinx import failure

CACHES_KEPT = 3  # one for the present package, two for branches that one changes between
AT_ONCE = min(4, os.cpu_count() or 1)  # kernels; each takes about 700 MB
DRAFT = "POSENC_DRAFT"  # what a draft executes: names of notebooks, or "all"
EXPLORERS = "explorers"  # how many are kept beside an execution; an execution by Sphinx itself has no such entry
log = logging.getLogger(__name__)


class NotebookError(SphinxError):
    """A notebook failed: which cell, and why, is in the log."""

    category = "Notebook error"


def cache(app: Sphinx, config: Config) -> None:
    """Keep executions under the package's key; Sphinx reads all pages again when the key changes."""
    home = (stamp.ROOT / "_build" if drafted() else Path(app.outdir).parent) / ".jupyter_cache"
    current = home / stamp.key()
    current.mkdir(parents=True, exist_ok=True)
    os.utime(current)
    for old in sorted(home.iterdir(), key=lambda path: path.stat().st_mtime)[:-CACHES_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    config.nb_execution_cache_path = str(current)


def drafted() -> list[str]:
    """The notebooks that a draft executes, or ["all"]; empty if the book is to be whole."""
    return os.environ.get(DRAFT, "").split()


def draft(app: Sphinx, config: Config) -> None:
    """Let notebooks fail in a draft, and show those that it does not execute as they are stored."""
    if not (names := drafted()):
        return
    config.nb_execution_raise_on_error = False
    chapters = {path.stem: path.name for path in (stamp.ROOT / "chapters").glob("*.ipynb")}
    if names != ["all"]:
        if unknown := [name for name in names if name not in chapters]:
            raise NotebookError(f"there is no chapters/{unknown[0]}.ipynb: use the name of a chapter, such as rope")
        others = [f"*/{file}" for stem, file in chapters.items() if stem not in names]
        config.nb_execution_excludepatterns = others


def quiet(app: Sphinx, config: Config) -> None:
    """Let a draft warn of the pages that it executes alone."""
    if (names := drafted()) and names != ["all"]:
        for handler in python_logging.getLogger(logging.NAMESPACE).handlers:
            handler.addFilter(lambda record: spoken(record, names))


def spoken(record: python_logging.LogRecord, names: list[str]) -> bool:
    """Whether a draft shows this warning: other pages lack numbers and panels of chapters that were not executed."""
    page, *_ = str(getattr(record, "location", None) or "").split(":")
    return record.levelno < python_logging.WARNING or not page or Path(page).stem in names


def kernel(app: Sphinx, config: Config) -> None:
    """Run the notebooks' kernels with a profile of their own: no reader's start-up files, no chatter in the log."""
    home = Path(app.outdir).parent / ".ipython"
    profile = home / "profile_default/ipython_kernel_config.py"
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text('get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(home)


def begin(app: Sphinx) -> None:
    """Withdraw the stamp until the build has succeeded; an edit while it runs belongs to the next build."""
    if app.builder.format == "html":
        stamp.file(Path(app.outdir)).unlink(missing_ok=True)
        app.book_fingerprint = stamp.fingerprint()  # type: ignore[attr-defined]


def execute(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Execute those notebooks, among the pages to be read, that are not in the cache; several at a time."""
    cache = get_cache(app.config.nb_execution_cache_path)
    waiting = [path for path in map(Path, map(env.doc2path, docnames)) if path.suffix == ".ipynb" and new(cache, path)]
    if (names := drafted()) and names != ["all"]:
        waiting = [path for path in waiting if path.stem in names]
    waiting.sort(key=lambda path: -path.stat().st_size)  # the small ones last: no core is idle for long at the end
    failed = []
    with tempfile.TemporaryDirectory(prefix="posenc-explorers-") as scratch, Kernels() as kernels:
        timeout = app.config.nb_execution_timeout
        running = {kernels.submit(kernels.run, path, Path(scratch) / path.stem, timeout): path for path in waiting}
        for number, done in enumerate(as_completed(running), 1):
            path = running[done]
            bundle, error = done.result()
            if error is None:
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
                seconds = bundle.data["execution_seconds"]
                log.info("executed %s in %.0f s (%d of %d)", path.name, seconds, number, len(waiting))
            else:
                failed.append(path.name)
                told = failure(error) if isinstance(error, CellExecutionError) else str(error)
                log.error("%s: %s", path.relative_to(stamp.ROOT), told)
    if failed and not drafted():
        raise NotebookError(f"{', '.join(sorted(failed))}: execution failed, as told above")


def new(cache: Any, path: Path) -> bool:
    """Whether the cache has no execution of this notebook with its explorers.

    An edit during a build leaves one without: Sphinx then executes the notebook itself when it reads it.
    """
    try:
        record = cache.match_cache_notebook(nbformat.read(path, as_version=4))
    except KeyError:
        return True
    return EXPLORERS not in record.data


class Kernels(ThreadPoolExecutor):
    """Threads that each run a notebook in a kernel; an interrupted build ends the kernels."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self.clients: list[NotebookClient] = []

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self.shutdown(wait=False, cancel_futures=True)
            for client in self.clients:
                process = getattr(getattr(client.km, "provisioner", None), "process", None)
                if process is not None:
                    process.kill()
        super().__exit__(kind, *rest)

    def run(self, path: Path, explorers: Path, timeout: int) -> tuple[Any, Exception | None]:
        """Execute a notebook: what the cache is to take, the kept explorers included, or the error."""
        explorers.mkdir()
        notebook, begin = nbformat.read(path, as_version=4), time.perf_counter()
        where = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(notebook, timeout=timeout, resources=where, record_timing=False)
        self.clients.append(client)
        # One thread for each kernel: several kernels with a thread for each core would wait for one another.
        environment = {"OMP_NUM_THREADS": "1", **os.environ, FOLDER: str(explorers)}
        try:
            asyncio.run(client.async_execute(env=environment))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return None, error
        files = NbArtifacts([str(file) for file in explorers.iterdir()], explorers)
        data = {"execution_seconds": time.perf_counter() - begin, EXPLORERS: len(files.paths)}
        return CacheBundleIn(notebook, str(path), artifacts=files, data=data), None


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Copy the explorers of the present notebooks out of the cache, and stamp the book if its build succeeded."""
    if exception is not None or app.builder.format != "html" or drafted():
        return
    cache, out = get_cache(app.config.nb_execution_cache_path), Path(app.outdir)
    shutil.rmtree(out.parent / "explorers", ignore_errors=True)
    for path in (Path(app.env.doc2path(name)) for name in sorted(app.env.found_docs)):
        if path.suffix == ".ipynb":
            record = cache.match_cache_notebook(nbformat.read(path, as_version=4))
            if record.data.get(EXPLORERS):
                with cache.cache_artefacts_temppath(record.pk) as kept:
                    shutil.copytree(kept, out.parent / "explorers" / path.stem)
    if not ((app.warningiserror or app.keep_going) and app._warncount):  # -W --keep-going: Sphinx sets only the latter
        stamp.file(out).write_text(app.book_fingerprint, encoding="utf-8")  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", cache)
    app.connect("config-inited", draft)
    app.connect("config-inited", quiet)
    app.connect("config-inited", kernel)
    app.connect("builder-inited", begin)
    app.connect("env-before-read-docs", execute)
    app.connect("build-finished", finish, priority=900)  # when the book is whole
    return {"parallel_read_safe": True, "parallel_write_safe": True}
