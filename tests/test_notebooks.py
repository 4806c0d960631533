"""The form of the notebooks: what nbval needs to be a test, and what a reader on Colab needs to run them."""

from __future__ import annotations

import ast
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import nbformat
import normalise
import pytest
import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from normalise import COLAB_CELL, MATHS_CELL

from tests.browser import extension
from tests.kernels import LAUNCHER, Forge

CHAPTERS = sorted(normalise.CHAPTERS.glob("*.ipynb"))
IGNORED_SHARE = 20  # at most one code cell in so many may go uncompared
IGNORE_TAGS = {"nbval-ignore-output", "nbval-skip"}
IGNORE_COMMENTS = ("NBVAL_IGNORE_OUTPUT", "NBVAL_SKIP", "PYTEST_VALIDATE_IGNORE_OUTPUT")
STORED = {"text/plain", "text/latex", "text/markdown"}
GLUED = {f"application/papermill.record/{kind}" for kind in STORED}
ROUNDS = """
import torch
p = torch.nn.Parameter(torch.ones(2))
p.grad = torch.tensor([0.0, 3.0])
torch.optim.SGD([p], lr=1.0).step()
assert p[0] == 1 and 0 < abs(p[1] + 2) < 1e-4
"""
AT_HAND = sys.stdlib_module_names | {
    "posenc",
    "posenc_evidence",
    "torch",
    "numpy",
    "matplotlib",
    "IPython",
    "ipywidgets",
}

Check = Callable[[NotebookNode], list[str]]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            yield number, output


def words(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    """Everything that a reader can read, with the number of its cell."""
    for number, cell in enumerate(notebook.cells):
        yield number, cell.source
    for number, output in outputs(notebook):
        yield number, str(output.get("text", "")) + str(output.get("data", ""))


def starts_with_install(notebook: NotebookNode) -> list[str]:
    cells = code_cells(notebook)
    right = cells and notebook.cells[0] is cells[0] and cells[0].source == COLAB_CELL
    hidden = cells and "remove-cell" in cells[0].metadata.get("tags", [])
    return [] if right and hidden else ["cell 0 is not the cell that installs posenc on Colab, tagged remove-cell"]


def counts_in_order(notebook: NotebookNode) -> list[str]:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    return [] if counts == list(range(1, len(counts) + 1)) else [f"execution counts are {counts}, not 1..n"]


def ignored(cell: NotebookNode) -> bool:
    """Whether nbval is told not to compare what a cell prints: a time, say."""
    tags = {tag.lower() for tag in cell.metadata.get("tags", [])}
    return bool(IGNORE_TAGS & tags) or any(comment in cell.source for comment in IGNORE_COMMENTS)


def few_ignored(notebook: NotebookNode) -> list[str]:
    cells = code_cells(notebook)
    found, allowed = sum(map(ignored, cells)), len(cells) // IGNORED_SHARE
    return [f"{found} of {len(cells)} code cells go uncompared, {allowed} may"] if found > allowed else []


def has_outputs(notebook: NotebookNode) -> list[str]:
    return [] if any(True for _ in outputs(notebook)) else ["no output is stored, so nbval would compare nothing"]


def outputs_are_text(notebook: NotebookNode) -> list[str]:
    found = []
    for number, output in outputs(notebook):
        kinds = {kind.removeprefix("application/papermill.record/") for kind in output.get("data", {})}  # glued values
        if output.output_type in ("display_data", "execute_result") and "text/plain" not in kinds:
            found.append(f"cell {number}: an output without text/plain, which nothing compares")
        if kinds - STORED:
            found.append(f"cell {number}: stores {', '.join(sorted(kinds - STORED))}, which differs from run to run")
        if output.output_type == "stream" and output.name == "stderr":
            found.append(f"cell {number}: writes to stderr, which the book refuses")
    return found


def no_bare_interact(notebook: NotebookNode) -> list[str]:
    """An `interact` slider is dead in the built page, and nbval cannot compare it; `posenc.explore` is not."""
    found = []
    for number, tree in parsed(notebook):
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            if name in {"interact", "interactive", "interact_manual", "interactive_output"}:
                found.append(f"cell {number}: {name}; use posenc.explore")
    return found


def drawn_everywhere_alike(notebook: NotebookNode) -> list[str]:
    """A GPU draws other random numbers than a CPU, and other outputs follow."""
    found = []
    for number, tree in parsed(notebook):
        for node in ast.walk(tree):
            name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if name.startswith("rand") and any(keyword.arg == "device" for keyword in node.keywords):
                found.append(f"cell {number}: {name} draws on a device; draw on the CPU, and use .to(dev)")
    return found


def imports_at_hand(notebook: NotebookNode) -> list[str]:
    """On Colab posenc is installed without its dependencies: a chapter may import only what is there."""
    found = []
    for number, tree in parsed(notebook):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            found += [f"cell {number}: imports {name}" for name in names if name.split(".")[0] not in AT_HAND]
    return found


def parsed(notebook: NotebookNode) -> Iterator[tuple[int, ast.Module]]:
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            lines = [line for line in cell.source.split("\n") if not line.lstrip().startswith(("%", "!"))]
            yield number, ast.parse("\n".join(lines))


def no_private_paths(notebook: NotebookNode) -> list[str]:
    """A path of one machine means nothing on another, and fails nbval there."""
    private = re.compile(r"(?<![\w.])(/(?:home|Users|root|tmp|var|opt|mnt|work|workspace|content)/[\w.-]+|[A-Z]:\\\w+)")
    return [f"cell {number}: {found[1]}" for number, text in words(notebook) if (found := private.search(text))]


def no_addresses(notebook: NotebookNode) -> list[str]:
    """The address of an object differs in every run."""
    return [
        f"cell {number}: an object's address"
        for number, output in outputs(notebook)
        if re.search(r"\bat 0x[0-9a-f]{6,}", str(output.get("text", "")) + str(output.get("data", "")))
    ]


def is_normal(notebook: NotebookNode) -> list[str]:
    same = normalise.text(normalise.normalise(nbformat.from_dict(notebook), "stem")) == normalise.text(notebook)
    return [] if same else ["not in normal form; run make notebooks"]


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        starts_with_install, counts_in_order, few_ignored, has_outputs, outputs_are_text, no_bare_interact,
        drawn_everywhere_alike, imports_at_hand, no_private_paths, no_addresses, is_normal,
    )
}  # fmt: skip


@cache
def chapter(path: Path) -> NotebookNode:
    """A chapter, read once for all checks, which change nothing in it: validation takes longer than they do."""
    return nbformat.read(path, as_version=4)


def test_there_are_chapters() -> None:
    assert CHAPTERS


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
@pytest.mark.parametrize("check", CHECKS)
def test_chapter(path: Path, check: str) -> None:
    complaints = CHECKS[check](chapter(path))
    assert not complaints, f"{path.name}: " + "; ".join(complaints)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_file_is_normal(path: Path) -> None:
    assert normalise.is_normal(path), f"{path.name} is not in normal form; run make notebooks"


# ---- what the book computed ------------------------------------------------------------------------------------------


def read_of(cell: NotebookNode) -> list[tuple[str, str | dict[str, str]]]:
    """What a reader reads of the outputs of a cell. Values that sentences of the page take are no outputs."""
    found: list[tuple[str, str | dict[str, str]]] = []
    for output in normalise.merged([each for each in cell.outputs if not GLUED & set(each.get("data", {}))]):
        if output.output_type == "stream":
            found.append((output.name, output.text))
        elif data := {kind: text for kind, text in output.get("data", {}).items() if kind in STORED}:
            found.append((output.output_type, data))
    return found


@pytest.fixture(scope="module")
def computed(book: Path) -> Callable[[Path], list[NotebookNode]]:
    """The code cells of a chapter as the build of the present book has executed them, in a kernel of their own."""
    jupyter_cache = pytest.importorskip("jupyter_cache")
    kept = jupyter_cache.get_cache(str(book.parent / ".jupyter_cache" / extension("stamp").key()))

    def of(path: Path) -> list[NotebookNode]:
        return code_cells(kept.get_cache_bundle(kept.match_cache_notebook(chapter(path)).pk).nb)

    return of


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_book_computed_what_is_stored(path: Path, computed: Callable[[Path], list[NotebookNode]]) -> None:
    """Without running anything: the build has. `make nbval` runs all chapters as a reader's kernel does."""
    for number, (cell, run) in enumerate(zip(code_cells(chapter(path)), computed(path), strict=True), 1):
        if not ignored(cell):
            assert read_of(run) == read_of(cell), f"{path.name}, code cell {number}: if it is right, run make notebooks"


def test_other_outputs_are_noticed() -> None:
    printed = new_output("stream", text="tensor(2.)\n")
    shown = new_output("execute_result", data={"text/plain": "42", "text/html": "<b>42</b>"})
    glued = new_output("display_data", data={"application/papermill.record/text/plain": "42"})
    stored = read_of(new_code_cell(outputs=[printed, new_output("execute_result", data={"text/plain": "42"})]))
    first, second = (new_output("stream", text=text) for text in ("tensor", "(2.)\n"))
    assert read_of(new_code_cell(outputs=[first, glued, second, shown])) == stored
    for other in (
        [printed],
        [shown],
        [new_output("stream", text="tensor(2.1)\n"), shown],
        [new_output("stream", name="stderr", text="tensor(2.)\n"), shown],
        [printed, new_output("execute_result", data={"text/plain": "43"})],
        [printed, shown, new_output("display_data", data={"text/markdown": "42"})],
    ):
        assert read_of(new_code_cell(outputs=other)) != stored


# ---- each check refuses a notebook that is bad in its way ----------------------------------------------------------


def good() -> NotebookNode:
    cells = [
        new_code_cell(COLAB_CELL, metadata={"tags": ["remove-cell"]}),
        new_markdown_cell(MATHS_CELL, metadata={"tags": ["remove-cell"]}),
        new_markdown_cell("# A title"),
        new_code_cell(
            "import torch\n\nprint(torch.ones(2).sum())", outputs=[new_output("stream", text="tensor(2.)\n")]
        ),
        new_code_cell("picture", outputs=[new_output("execute_result", data={"text/plain": "Picture: a line"})]),
    ]
    return normalise.normalise(new_notebook(cells=cells), "stem")


def test_the_shorthands_of_notebooks_are_those_of_the_book() -> None:
    macros = yaml.safe_load((normalise.ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    macros = macros["mathjax3_config"]["tex"]["macros"]
    defined = dict(re.findall(r"\\def\\([A-Za-z]+)(?:#1)?\{(.*?)\}(?=\\def|\$)", MATHS_CELL))
    assert set(defined) == set(macros)
    for name, meaning in macros.items():
        if isinstance(meaning, str):
            assert defined[name] == meaning


def without_install(notebook: NotebookNode) -> None:
    del notebook.cells[0]


def without_maths(notebook: NotebookNode) -> None:
    del notebook.cells[1]


def stale_install(notebook: NotebookNode) -> None:
    notebook.cells[0].source = notebook.cells[0].source.replace("--no-deps", "--upgrade")


def null_count(notebook: NotebookNode) -> None:
    notebook.cells[3].execution_count = None


def ignored_by_tag(notebook: NotebookNode) -> None:
    notebook.cells[3].metadata["tags"] = ["nbval-ignore-output"]


def ignored_by_comment(notebook: NotebookNode) -> None:
    notebook.cells[3].source = "# NBVAL_IGNORE_OUTPUT\n" + notebook.cells[3].source


def stripped(notebook: NotebookNode) -> None:
    for cell in code_cells(notebook):
        cell.outputs = []


def html_output(notebook: NotebookNode) -> None:
    notebook.cells[4].outputs[0].data["text/html"] = "<b>2</b>"


def stderr_output(notebook: NotebookNode) -> None:
    notebook.cells[3].outputs[0].name = "stderr"


def bare_interact(notebook: NotebookNode) -> None:
    notebook.cells[3].source = "from ipywidgets import interact\n\ninteract(print, x=(0, 1))"


def dotted_interact(notebook: NotebookNode) -> None:
    notebook.cells[3].source = "import ipywidgets as widgets\n\nwidgets.interactive(print, x=(0, 1))"


def foreign_import(notebook: NotebookNode) -> None:
    notebook.cells[3].source = "from transformers import AutoModel"


def path_in_output(notebook: NotebookNode) -> None:
    notebook.cells[3].outputs[0].text = "/home/someone/book/chapters\n"


def drawn_on_a_device(notebook: NotebookNode) -> None:
    notebook.cells[4].source = "x = torch.randn(3, 4, device=dev)"


def path_in_text(notebook: NotebookNode) -> None:
    notebook.cells[2].source = "Look into /Users/someone."


def address(notebook: NotebookNode) -> None:
    notebook.cells[4].outputs[0].data["text/plain"] = "<object object at 0x7f1a2b3c4d50>"


def picture_stored(notebook: NotebookNode) -> None:
    notebook.cells[4].outputs[0].data["image/png"] = "iVBORw0KGgo="


def editor_metadata(notebook: NotebookNode) -> None:
    notebook.cells[3].metadata["collapsed"] = False


@pytest.mark.parametrize(
    ("spoil", "refused_by"),
    [
        (without_install, "starts_with_install"),
        (without_maths, "is_normal"),
        (stale_install, "starts_with_install"),
        (null_count, "counts_in_order"),
        (ignored_by_tag, "few_ignored"),
        (ignored_by_comment, "few_ignored"),
        (stripped, "has_outputs"),
        (html_output, "outputs_are_text"),
        (stderr_output, "outputs_are_text"),
        (bare_interact, "no_bare_interact"),
        (dotted_interact, "no_bare_interact"),
        (drawn_on_a_device, "drawn_everywhere_alike"),
        (foreign_import, "imports_at_hand"),
        (path_in_output, "no_private_paths"),
        (path_in_text, "no_private_paths"),
        (address, "no_addresses"),
        (picture_stored, "is_normal"),
        (editor_metadata, "is_normal"),
    ],
)
def test_check_refuses(spoil: Callable[[NotebookNode], None], refused_by: str) -> None:
    notebook = good()
    assert not any(check(notebook) for check in CHECKS.values())
    spoil(notebook)
    assert CHECKS[refused_by](notebook)


# ---- the normal form -----------------------------------------------------------------------------------------------


def test_normal_form_is_a_fixed_point() -> None:
    notebook = good()
    assert normalise.text(normalise.normalise(nbformat.from_dict(notebook), "stem")) == normalise.text(notebook)


def test_normal_form_joins_a_split_stream_but_not_two_streams() -> None:
    pieces = [
        new_output("stream", text="a"),
        new_output("stream", text="b\n"),
        new_output("stream", name="stderr", text="c"),
    ]
    assert [(o.name, o.text) for o in normalise.merged(pieces)] == [("stdout", "ab\n"), ("stderr", "c")]


def test_normal_form_keeps_the_text_of_a_picture_only() -> None:
    data = {"text/plain": "Picture: a line", "image/png": "iVBORw0KGgo="}
    output = normalise.stored(new_output("display_data", data=data, metadata={"image/png": {"width": 3}}), 1)
    assert output.data == {"text/plain": "Picture: a line"}
    assert output.metadata == {}


def test_check_says_which_file_is_not_normal(tmp_path: Path) -> None:
    path = tmp_path / "stem.ipynb"
    path.write_text(normalise.text(good()), encoding="utf-8")
    assert normalise.is_normal(path)
    path.write_text(normalise.text(good()) + "\n", encoding="utf-8")
    assert not normalise.is_normal(path)


def test_executing_keeps_what_is_right_and_says_what_fails(tmp_path: Path) -> None:
    path = tmp_path / "stem.ipynb"
    cells = [new_code_cell("print(6 * 7)"), new_code_cell("'seven';"), new_code_cell("2 + 2")]
    path.write_text(nbformat.writes(new_notebook(cells=cells)), encoding="utf-8")
    ran = nbformat.reads(normalise.execute(path), as_version=4)
    assert ran.cells.pop(1).source == MATHS_CELL
    assert [cell.execution_count for cell in ran.cells] == [1, 2, 3, 4]
    assert [len(cell.outputs) for cell in ran.cells] == [0, 1, 0, 1]
    assert ran.cells[1].outputs[0].text == "42\n"
    for source, complaint in (("1 / 0", "ZeroDivisionError"), ("import sys; print(1, file=sys.stderr)", "stderr")):
        path.write_text(nbformat.writes(new_notebook(cells=[new_code_cell(source)])), encoding="utf-8")
        with pytest.raises(RuntimeError, match=complaint):
            normalise.execute(path)


@pytest.mark.pages
def test_a_worker_compares_every_cell(tmp_path: Path) -> None:
    """nbval with the settings of `make nbval`: a value that differs, an error, and a semicolon that hides a value.

    Under `--rounding` a gradient is a little off, unless it is 0.
    """
    right, wrong = ([new_output("execute_result", data={"text/plain": text})] for text in ("42", "41"))
    notebooks = {
        "right": [new_code_cell("6 * 7;"), new_code_cell("6 * 7", outputs=right)],
        "differs": [new_code_cell("6 * 7", outputs=right), new_code_cell("6 * 7", outputs=wrong)],
        "raises": [new_code_cell("1 / 0")],
        "rounds": [new_code_cell(ROUNDS)],
    }
    for name, cells in notebooks.items():
        nbformat.write(normalise.normalise(new_notebook(cells=cells), name), tmp_path / f"{name}.ipynb")
    options = ["-p", "no:nbval", "-p", "conftest", "-n", "1", "-v", "--nbval", "--rounding", "1"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=normalise.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = re.findall(r"^FAILED \S*?(\w+\.ipynb::Cell \d)", done.stdout, re.MULTILINE)
    assert done.returncode == 1, done.stdout
    assert sorted(failed) == ["differs.ipynb::Cell 2", "raises.ipynb::Cell 1"], done.stdout
    assert "2 failed, 8 passed" in done.stdout, done.stdout
    assert "history" not in done.stdout.lower(), done.stdout


@pytest.mark.pages
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
def test_forked_kernels_have_nothing_in_common(tmp_path: Path) -> None:
    forge, found = Forge(), []
    script = "import os, sys; open('told', 'w').write(f'{os.environ[\"ME\"]} {os.getpgid(0)}'); os.kill(os.getpid(), 9)"
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        arguments = [f"--IPKernelApp.exec_lines=[{script!r}]", "--IPKernelApp.connection_file=it.json"]
        environment = {"PATH": os.environ["PATH"], "ME": name, "IPYTHONDIR": str(tmp_path)}
        kernel = forge.launch([sys.executable, *LAUNCHER, *arguments], env=environment, cwd=str(folder))
        assert kernel.poll() is None
        assert os.getpgid(kernel.pid) == kernel.pid
        kernel.wait()
        found.append((folder / "told").read_text(encoding="utf-8") == f"{name} {kernel.pid}")
    assert found == [True, True]
    other = forge.launch([sys.executable, *LAUNCHER], env=environment, cwd=str(tmp_path))
    forge.close()
    other.wait()  # it ends with the process that it was forked from


# ---- the cell that installs posenc on Colab --------------------------------------------------------------------------


class Sessions(http.server.BaseHTTPRequestHandler):
    """Answers as Colab's kernel manager does, for a notebook that was opened from GitHub."""

    notebook = ""

    def do_GET(self) -> None:
        address = urllib.parse.quote(f"https://github.com/owner/book/{self.notebook}", safe="")
        body = json.dumps([{"path": f"fileId={address}"}]).encode()
        self.send_response(200 if self.path == "/api/sessions" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the cell would run, on a machine without posenc."""
    ran: list[list[str]] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda command, **keywords: ran.append(command))
    return ran


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("blob/main/chapters/rope.ipynb", "@main"),
        ("blob/feature/a branch/chapters/rope.ipynb", "@feature/a branch"),
        ("tree/rope.ipynb", ""),
    ],
)
def test_colab_cell_installs_from_the_notebooks_own_repository_and_branch(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], path: str, wanted: str
) -> None:
    monkeypatch.setattr(Sessions, "notebook", path)
    with http.server.HTTPServer(("127.0.0.1", 0), Sessions) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("COLAB_JUPYTER_IP", "127.0.0.1")
        monkeypatch.setenv("KMP_TARGET_PORT", str(server.server_port))
        exec(COLAB_CELL, {})
        server.shutdown()
        thread.join()
    source = f"git+https://github.com/owner/book{wanted}"
    assert [command[-2:] for command in commands] == [[source, f"{source}#subdirectory=evidence"]]
    assert "--no-deps" in commands[0]


def test_colab_cell_says_what_to_do_elsewhere(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.delenv("COLAB_JUPYTER_IP", raising=False)
    with pytest.raises(ImportError, match="pip install URL URL#subdirectory=evidence") as raised:
        exec(COLAB_CELL, {})
    assert raised.value.__suppress_context__  # what a reader is to do stands below one traceback
    assert not commands


def test_colab_cell_does_nothing_where_posenc_is() -> None:
    exec(COLAB_CELL, {})
