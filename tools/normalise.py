"""Notebooks in normal form: `python tools/normalise.py [--check] [NOTEBOOK …]`.

A chapter's notebook is source and test at once. Its normal form makes equal content equal text: executed from a
clean kernel, code cells counted 1..n, text outputs stored as they came, pictures and widgets as their text only
(nbval does not compare them, the book draws them anew, and the repository stays small), no editor's metadata.
Without arguments every chapter is executed and written; `--check` executes nothing and says what is not normal.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ROOT / "chapters"
CELL_TIMEOUT = 300  # seconds

#: The first cell of every chapter. It does nothing where posenc and its evidence are installed; on Colab it installs
#: both from the repository and the branch that the notebook was opened from. Dependencies are Colab's own.
COLAB_CELL = """\
import importlib.util, json, os, re, subprocess, sys, urllib.parse, urllib.request

if not all(map(importlib.util.find_spec, ("posenc", "posenc_evidence"))):  # Colab: from this repository
    try:
        server = f"http://{os.environ['COLAB_JUPYTER_IP']}:{os.environ.get('KMP_TARGET_PORT', 9000)}"
        session = json.load(urllib.request.urlopen(f"{server}/api/sessions", timeout=10))[0]
        address = r"(github\\.com/[^/]+/[^/]+)(?:/blob/(.+)/chapters/)?"
        repository, branch = re.search(address, urllib.parse.unquote(session["path"])).groups()
    except Exception:
        raise ImportError("posenc is missing: run `%pip install URL URL#subdirectory=evidence`, where URL is "
                          "git+https://github.com/OWNER/REPOSITORY with the repository that you have this notebook "
                          "from, and run this cell again") from None
    source = f"git+https://{repository}" + (f"@{branch}" if branch else "")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "latex2mathml",
                    source, f"{source}#subdirectory=evidence"], check=True)
""".rstrip()

#: The second cell: the book's mathematical shorthands for a notebook, which does not read the book's settings.
MATHS_CELL = (
    r"$\def\q#1{\textcolor{royalblue}{#1}}\def\k#1{\textcolor{chocolate}{#1}}\def\v#1{\textcolor{seagreen}{#1}}"
    r"\def\p#1{\textcolor{mediumvioletred}{#1}}\def\R{\mathbb{R}}\def\C{\mathbb{C}}\def\T{^{\top}}\def\i{\mathrm{i}}"
    r"\def\e{\mathrm{e}}\def\Re{\operatorname{Re}}\def\Im{\operatorname{Im}}\def\softmax{\operatorname{softmax}}"
    r"\def\diag{\operatorname{diag}}$"
)

#: What nbval does not compare is not stored either.
UNSTORED = {"image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json"}
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CELL_METADATA = ("tags", "mystnb")


def normalise(notebook: NotebookNode, stem: str) -> NotebookNode:
    """The notebook in normal form; a normal notebook is returned equal. `stem` names the cells that have no id."""
    cells = [cell for cell in notebook.cells if cell.source.strip()]
    if not (cells and cells[0].cell_type == "code" and cells[0].source == COLAB_CELL):
        stale = cells and cells[0].cell_type == "code" and "remove-cell" in cells[0].metadata.get("tags", [])
        cells[: 1 if stale else 0] = [nbformat.v4.new_code_cell(COLAB_CELL, id=f"{stem}-install")]
    if not (len(cells) > 1 and cells[1].source == MATHS_CELL):
        stale = len(cells) > 1 and cells[1].cell_type == "markdown" and cells[1].source.startswith(r"$\def")
        cells[1 : 2 if stale else 1] = [nbformat.v4.new_markdown_cell(MATHS_CELL, id=f"{stem}-maths")]
    for cell in cells[:2]:
        cell.metadata = {"tags": ["remove-cell"]}
    seen: set[str] = set()
    count = 0
    for index, cell in enumerate(cells):
        if cell.get("id", "") in seen | {""}:
            cell["id"] = f"{stem}-{index:02d}-{len(seen)}"
        seen.add(cell["id"])
        cell.source = cell.source.rstrip()
        cell.metadata = {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = [stored(output, count) for output in merged(cell.outputs)]
    return nbformat.from_dict({"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Pieces of one stream that follow each other, joined: where a kernel flushes is chance."""
    whole: list[NotebookNode] = []
    for output in outputs:
        same = whole and output.output_type == whole[-1].output_type == "stream" and output.name == whole[-1].name
        if same:
            whole[-1] = nbformat.from_dict({**whole[-1], "text": whole[-1].text + output.text})
        else:
            whole.append(output)
    return whole


def stored(output: NotebookNode, count: int) -> NotebookNode:
    """The part of an output that is the same in every run."""
    output = nbformat.from_dict(dict(output))
    if output.output_type in ("display_data", "execute_result"):
        output.data = {kind: value for kind, value in output.data.items() if kind not in UNSTORED}
        output.metadata = {key: value for key, value in output.metadata.items() if key not in UNSTORED}
    if output.output_type == "execute_result":
        output.execution_count = count
    if output.output_type == "error":
        output.traceback = []
    return output


def text(notebook: NotebookNode) -> str:
    """The notebook as it stands in its file: keys sorted, one final newline."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def is_normal(path: Path) -> bool:
    """Whether the file is in normal form already."""
    written = path.read_text(encoding="utf-8")
    return written == text(normalise(nbformat.reads(written, as_version=4), path.stem))


def execute(path: Path) -> str:
    """The notebook's text after it ran from a clean kernel; RuntimeError says which cell failed, or wrote to stderr."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = normalise(nbformat.read(path, as_version=4), path.stem)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        raise RuntimeError(str(error)) from None
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise RuntimeError(f"cell {number} writes to stderr, which the book refuses: {output.text}")
    return text(normalise(notebook, path.stem))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="execute nothing; fail if a notebook is not in normal form"
    )
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter")
    arguments = parser.parse_args()
    paths = arguments.notebooks or sorted(CHAPTERS.glob("*.ipynb"))
    failed = False
    if arguments.check:
        for path in paths:
            if not is_normal(path):
                failed = True
                print(f"{path}: not in normal form; run make notebooks")
        return int(failed)
    os.environ.pop("POSENC_BOOK", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(prefix="posenc-ipython-") as profile:
        os.environ["IPYTHONDIR"] = profile
        for path in paths:
            print(f"{path.name}: running …", flush=True)
            start = time.perf_counter()
            try:
                result = execute(path)
            except RuntimeError as error:
                failed = True
                print(f"{path.name}: left as it was\n{error}", file=sys.stderr)
                continue
            changed = result != path.read_text(encoding="utf-8")
            if changed:
                path.write_text(result, encoding="utf-8")
            print(f"{path.name}: {'written' if changed else 'unchanged'}, {time.perf_counter() - start:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
