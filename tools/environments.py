"""The environments that Binder and Colab give the notebooks, built here, and every chapter run in them.

`python tools/environments.py [binder] [colab] [--chapters STEM …] [--python PYTHON]`, or `make environments`. Binder
has what `.binder` installs, and a kernel. Colab has the versions of `tests/colab.txt`, and no posenc: the first cell of
a chapter asks a server of notebooks where it comes from, as it does there, and installs the commit that is checked out
here. A chapter passes if no cell raises and each panel comes as a widget.

Where the environment variable TORCH_INDEX is empty, the indexes that a file of requirements names are left out: not
every machine reaches them.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ROOT / "chapters"
HOME = ROOT / "_build/environments"
REPOSITORY = "https://github.com/owner/book"
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_TIMEOUT = 300  # seconds
#: The Python of each host, and what it names.
HOSTS = {
    "binder": (
        (ROOT / ".binder/runtime.txt").read_text().strip().removeprefix("python-"),
        ROOT / ".binder/requirements.txt",
    ),
    "colab": ("3.13", ROOT / "tests/colab.txt"),
}


def requirements(path: Path, indexes: bool) -> str:
    """The lines of a file of requirements, its constraints by their full path, without its indexes unless told."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if indexes or not re.match(r"--(extra-)?index-url", line)]
    return "\n".join(
        re.sub(r"^--constraint (.*)", lambda m: f"--constraint {(path.parent / m[1]).resolve()}", line) for line in kept
    )


def interpreter(version: str) -> str | None:
    """The interpreter of a version that runs, if there is one: what pyenv puts on the path may stand for none."""
    found = shutil.which(f"python{version}")
    runs = found and subprocess.run([found, "--version"], capture_output=True).returncode == 0
    return found if runs else None


def build(host: str, python: str | None) -> Path:
    """Make the environment anew; returns its interpreter."""
    version, file = HOSTS[host]
    chosen = python or interpreter(version) or sys.executable
    folder = HOME / host
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([chosen, "-m", "venv", folder], check=True)
    own = folder / "bin/python"
    reported = subprocess.run([own, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(
        f"{host}: {reported}" + ("" if reported.startswith(f"Python {version}.") else f", where {host} has {version}"),
        flush=True,
    )
    index = os.environ.get("TORCH_INDEX", "")
    (folder / "requirements.txt").write_text(requirements(file, bool(index)), encoding="utf-8")
    pip = [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    extra = ["--extra-index-url", index] if index and host == "colab" else []
    subprocess.run([*pip, *extra, "--requirement", folder / "requirements.txt"], check=True)
    if host == "binder":
        subprocess.run([*pip, "ipykernel"], check=True)  # the service has one
        path = os.pathsep.join([str(own.parent), os.environ["PATH"]])
        subprocess.run(["bash", ROOT / ".binder/postBuild"], cwd=ROOT, env={**os.environ, "PATH": path}, check=True)
    return own


def commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("colab installs the commit that is checked out here, and this is no clone: run HOST=binder")
    return done.stdout.strip()


class Sessions(http.server.BaseHTTPRequestHandler):
    """Answers as Colab's server of notebooks does, for one that was opened from a repository."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([{"path": f"fileId={REPOSITORY}/blob/{commit()}/chapters/rope.ipynb"}]).encode())

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def surroundings(host: str, python: Path) -> Iterator[dict[str, str]]:
    """The variables of a kernel. The repository of the notebooks is this one, whatever its address."""
    dropped = ("POSENC_BOOK", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment["PATH"] = os.pathsep.join([str(python.parent), environment["PATH"]])
    if host != "colab":
        yield environment
        return
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sessions) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment |= {"COLAB_JUPYTER_IP": "127.0.0.1", "KMP_TARGET_PORT": str(server.server_port)}
        environment |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{ROOT.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": REPOSITORY,
        }
        yield environment
        server.shutdown()


def run(path: Path, kernel: str, environment: dict[str, str]) -> str:
    """Run a notebook; returns what is wrong, or nothing."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name=kernel,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        try:
            client.execute(env=environment)
        except RuntimeError:  # the kernel did not start: another program may have taken one of its ports first
            client.execute(env=environment)
    except (CellExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as error:
        return str(error)
    for number, cell in enumerate(notebook.cells):
        kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        if cell.cell_type == "code" and re.search(r"^explore\(", cell.source, re.M) and WIDGET not in kinds:
            return f"cell {number} shows no widget"
    return ""


def chapters(host: str, python: Path, stems: list[str]) -> bool:
    """Run chapters with this interpreter; says each, and whether all passed."""
    passed = True
    with tempfile.TemporaryDirectory(prefix="posenc-kernels-") as folder, surroundings(host, python) as environment:
        kernel = Path(folder, "kernels", host)
        kernel.mkdir(parents=True)
        command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel.joinpath("kernel.json").write_text(
            json.dumps({"argv": command, "display_name": host, "language": "python"})
        )
        os.environ |= {"JUPYTER_PATH": folder, "JUPYTER_RUNTIME_DIR": folder}
        for stem in stems:
            start = time.perf_counter()
            wrong = run(CHAPTERS / f"{stem}.ipynb", host, {**environment, "IPYTHONDIR": folder})
            passed &= not wrong
            print(f"{host}, {stem}: {'FAILED' if wrong else 'passed'}, {time.perf_counter() - start:.0f} s", flush=True)
            if wrong:
                print(wrong, file=sys.stderr, flush=True)
    where = "import posenc; print(posenc.__file__)"
    place = subprocess.run(
        [python, "-c", where], cwd=CHAPTERS, env=environment, capture_output=True, text=True
    ).stdout.strip()
    if not Path(place).is_relative_to(HOME):
        print(f"{host}: posenc is not the installed one but {place or 'missing'}", file=sys.stderr)
        passed = False
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("hosts", nargs="*", help=f"default: {' '.join(HOSTS)}")
    parser.add_argument(
        "--chapters", nargs="+", default=sorted(path.stem for path in CHAPTERS.glob("*.ipynb")), metavar="STEM"
    )
    parser.add_argument(
        "--python", help="the interpreter of the environments; default: the version of each host, where it is found"
    )
    options = parser.parse_args()
    hosts = options.hosts or list(HOSTS)
    if unknown := set(hosts) - set(HOSTS):
        parser.error(f"no host is called {', '.join(sorted(unknown))}: there are {', '.join(HOSTS)}")
    if unknown := set(options.chapters) - {path.stem for path in CHAPTERS.glob("*.ipynb")}:
        parser.error(f"there is no chapter {', '.join(sorted(unknown))}: use a name such as rope")
    if "colab" in hosts:
        commit()  # before minutes go into an environment
    passed = [chapters(host, build(host, options.python), options.chapters) for host in hosts]
    print(*(f"{host}: {'passed' if good else 'FAILED'}" for host, good in zip(hosts, passed, strict=True)), sep="\n")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
