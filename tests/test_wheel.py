"""What people install: a small wheel that needs torch alone and is made without Node; and the evidence beside it."""

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 5e6  # bytes of posenc's wheel, most of which is onnxruntime


def build(source: Path, target: str, folder: Path) -> Path:
    """Builds as pip does, with the build requirements that are installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=source, env=plain, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build(ROOT, "sdist", folder / "packed")) as packed:
        packed.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.name != "packed")
    return source


@pytest.fixture(scope="module")
def installed(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheels of posenc and its evidence hold."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in (sdist, ROOT / "evidence"):
        with zipfile.ZipFile(build(source, "wheel", folder / source.name)) as wheel:
            wheel.extractall(folder / "site")
    return folder / "site"


def run(program: str, site: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=site.parent, env={**os.environ, "PYTHONPATH": str(site)},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_source_distribution_has_the_front_end_so_no_node_is_asked_for(sdist: Path) -> None:
    program = "import hatch_build; print(hatch_build.current())"
    done = subprocess.run([sys.executable, "-c", program], cwd=sdist, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    front = sdist / "posenc/_explore/front/page.js"
    front.write_text(front.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    try:
        done = subprocess.run([sys.executable, "-c", program], cwd=sdist, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
    finally:
        front.write_text(front.read_text(encoding="utf-8").removesuffix("\n"), encoding="utf-8")


def test_the_wheel_is_small_and_holds_no_evidence(sdist: Path, tmp_path: Path) -> None:
    wheel = build(sdist, "wheel", tmp_path)
    assert wheel.stat().st_size <= LARGEST
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"posenc", "_posenc_pytest.py"}
    assert "posenc/_explore/static/widget.js" in names and "posenc/py.typed" in names
    kinds = {Path(name).suffix for name in names if name.startswith("posenc/")}
    assert kinds <= {".py", ".json", ".js", ".css", ".gz", ".txt", ".typed", ""}


def test_what_is_installed_reads_its_evidence(installed: Path) -> None:
    told = run(
        "import posenc, posenc_evidence\n"
        "from posenc.lab import corpus, read, trained\n"
        "from posenc_evidence.census import results\n"
        "print(posenc.__file__, posenc_evidence.__file__, sep='\\n')\n"
        "print(len(read('distance', 'epoch')), len(corpus.load(None).train), len(results()['rows']) > 100)\n"
        "print(type(trained('copy_rope').encoding()).__name__)",
        installed,
    ).splitlines()
    assert all(Path(line).is_relative_to(installed) for line in told[:2])
    assert told[2:] == ["4 8722113 True", "RoPE"]


def test_without_the_evidence_the_lab_says_where_it_is(installed: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "posenc").symlink_to(installed / "posenc")
    program = (
        "import sys\nsys.modules['posenc_evidence'] = None\n"
        "from posenc.lab import corpus, read, trained\n"
        "for call in (lambda: read('distance', 'epoch'), lambda: trained('copy_rope'), lambda: corpus.load(None)):\n"
        "    try:\n        call()\n    except ValueError as error:\n        print(error)"
    )
    lines = run(program, site).splitlines()
    assert len(lines) == 3
    assert all("posenc-evidence" in line and "subdirectory=evidence" in line for line in lines), lines


def test_both_have_one_version() -> None:
    version = tomllib.loads((ROOT / "evidence/pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f'"{version}"' in (ROOT / "posenc/_version.py").read_text(encoding="utf-8")


def test_what_chapters_import_needs_no_exporter():
    """On Binder and Colab a notebook has the extra "all", and neither what exports nor Sphinx."""
    lines = {
        ast.unparse(node)
        for path in (ROOT / "chapters").glob("*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
        for node in ast.parse(re.sub(r"^\s*[%!].*$", "pass", "".join(cell["source"]), flags=re.M)).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "posenc"
    }
    assert "from posenc.audit import identifier" in lines and len(lines) > 100
    absent = ["onnx", "onnx_ir", "onnxscript", "onnxruntime", "sphinx", "jupyter_book"]
    program = f"import sys\nsys.modules.update(dict.fromkeys({absent!r}))\n" + "\n".join(sorted(lines))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
