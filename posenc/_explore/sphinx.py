"""The Sphinx side of explore(): a built book carries the front end and the runtime, and its cells export."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError
from sphinx.util import logging

from posenc._atomic import atomic
from posenc._explore.page import escaped

STATIC = Path(__file__).parent / "static"
LARGE = 60_000  # characters of graphs that a page does not hold itself
DATA = re.compile(r'(?<=class="pe-data">)(.*?)(?=</script>)', re.DOTALL)
SHIPPED = ("page.js", "dumps.js", "identify.js", "runtime.js", "runtime.wasm.gz", "style.css", "licences.txt")


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx: `extensions = ["posenc._explore.sphinx"]`."""
    os.environ["POSENC_BOOK"] = "1"  # kernels inherit it: cells then emit panels that need no kernel,
    os.environ["POSENC_DEVICE"] = "cpu"  # and what they export holds its constants where a page can have them
    app.connect("builder-inited", _bundled)
    app.connect("html-page-context", _scripts)
    app.connect("build-finished", _explain)
    app.connect("build-finished", _copy)
    app.add_css_file("posenc/style.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _bundled(app: Any) -> None:
    """Say before the notebooks run, and not after, that the front end is missing."""
    missing = [name for name in SHIPPED if not (STATIC / name).exists()]
    if missing:
        raise ExtensionError(f"{', '.join(missing)} of the front end is missing: run `python hatch_build.py`")


def _scripts(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "pe-panel" in context.get("body", ""):
        app.add_js_file("posenc/page.js", loading_method="async", **{"data-early": "yes"})
        folder = Path(app.outdir) / "_static" / "posenc" / "graphs"
        context["body"] = _first(DATA.sub(lambda match: _apart(match[1], folder), context["body"]))


def _first(body: str) -> str:
    """Mark a panel that stands before a page's first section: it keeps room on the first screen until it is drawn."""
    top, heading, rest = body.partition("<h2")
    return re.sub('(?<=<figure class="pe-panel)(?=(?: pe-learn)?")', " pe-first", top, count=1) + heading + rest


def _apart(data: str, folder: Path) -> str:
    """Large graphs go into a script of their own, which a page loads when a reader comes near the panel.

    Where a panel says so, each graph gets one, which is loaded when the reader chooses what it computes.
    """
    if len(data) < LARGE:
        return data
    spec = json.loads(data)
    if "graphs" not in spec:  # a panel that computes by itself, such as that of dumps
        return data
    graphs = spec.pop("graphs")
    if spec.pop("each", False):
        return escaped({**spec, "apart": {key: _script({key: graph}, folder) for key, graph in graphs.items()}})
    if len(json.dumps(graphs)) < LARGE:
        return data
    return escaped({**spec, "apart": _script(graphs, folder)})


def _script(graphs: dict[str, str], folder: Path) -> str:
    """Write graphs into a script, compressed, unless it is there, and return its name."""
    packed = {key: gzip.compress(base64.b64decode(graph), mtime=0) for key, graph in graphs.items()}
    text = json.dumps({key: base64.b64encode(each).decode() for key, each in packed.items()})
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{name}.js"
    if not script.exists():
        with atomic(script) as part:
            part.write_text(f'(globalThis.posencGraphs??={{}})["{name}"]={text};', encoding="ascii")
    return name


def _explain(app: Any, error: Exception | None) -> None:
    """Say which cell stopped the build, and why: Sphinx itself would name the file only."""
    cause: Any = getattr(error, "__cause__", None)
    if type(cause).__name__ == "CellExecutionError":
        logging.getLogger(__name__).error("%s: %s", error, failure(cause))


def failure(error: Any) -> str:
    """The cell that failed and the reason, from nbclient's CellExecutionError."""
    _, cell, *rest = re.split(r"^-{10,}$", str(error), flags=re.MULTILINE)
    reason = f"{error.ename}: {error.evalue}"
    if error.ename == "NoneType":  # IPython lost it, as it does when a value cannot be shown: the traceback has it
        lines = re.sub(r"\x1b\[[0-9;]*m", "", "".join(rest)).strip().splitlines()
        reason = next((line for line in reversed(lines) if re.match(r"[\w.]+: ", line) and line != reason), reason)
    return f"this cell failed:\n{cell}\n{reason}"


def _copy(app: Any, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static" / "posenc"
    ship(static)
    pages = "".join(page.read_text(encoding="utf-8") for page in Path(app.outdir).rglob("*.html"))
    for script in (static / "graphs").glob("*.js"):  # those of panels that are gone
        if script.stem not in pages:
            script.unlink()


def ship(folder: Path) -> None:
    """Put into a folder all that a page with explorers needs; what is there and unchanged stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        if not _same(STATIC / name, folder / name):
            shutil.copy2(STATIC / name, folder / name)
    source, script = STATIC / "runtime.wasm.gz", folder / "runtime.wasm.js"
    if not script.exists() or script.stat().st_mtime < source.stat().st_mtime:
        text = base64.b64encode(source.read_bytes()).decode()  # a page opened from disk may load scripts, but not fetch
        script.write_text(f'globalThis.posencWasm="{text}";', encoding="ascii")


def _same(a: Path, b: Path) -> bool:
    return b.exists() and (a.stat().st_size, int(a.stat().st_mtime)) == (b.stat().st_size, int(b.stat().st_mtime))
