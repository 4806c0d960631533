"""What the parts need of one another, tried without the rest; `lint-imports` in `make check` reads who imports whom."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from sphinx.errors import ExtensionError

import posenc
from posenc._explore import sphinx

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
HEATMAP = "plot.heatmap(torch.eye(4), x='key', y='query', alt='a diagonal').svg()"


@pytest.fixture(scope="module")
def unbundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package as git has it: without what `hatch_build.py` makes."""
    home = tmp_path_factory.mktemp("unbundled")
    left_out = shutil.ignore_patterns("static", "__pycache__")
    shutil.copytree(ROOT / "posenc", home / "posenc", ignore=left_out)
    return home


def run(program: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=home, env=of(home), capture_output=True, text=True, timeout=120
    )


def of(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(home)}


#: Imports torch, which takes seconds, and runs each program that it is given in a process of its own.
FORKS = """
import json, os, sys, traceback
import torch
for line in sys.stdin:
    program, told = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        failed = 0
        try:
            exec(program, {"__name__": "__main__"})
        except BaseException:
            failed = traceback.print_exc() or 1
        sys.stderr.flush()
        os._exit(failed)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def fails(unbundled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """fails(program): what a program ends with that fails where torch is imported and posenc is not yet."""
    told = tmp_path_factory.mktemp("fails") / "stderr"
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], cwd=unbundled, env=of(unbundled), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None

        def last(program: str) -> str:
            process.stdin.write(json.dumps([program, str(told)]) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "1\n", f"it does not fail: {program}"
            return told.read_text(encoding="utf-8").strip().splitlines()[-1]

        yield last
        process.stdin.close()


def test_a_picture_needs_neither_the_bundle_nor_anywidget(unbundled: Path) -> None:
    program = f"""
import sys, torch
sys.modules.update(anywidget=None, ipywidgets=None, traitlets=None)  # importing one of them would fail
import posenc.pictures.plot
from posenc import RoPE, plot, properties
assert posenc.__file__.startswith({str(unbundled)!r})
print({HEATMAP}[:4])
print(figure := properties(RoPE(16))["unique"].figure())
assert figure.png()
assert not any(name.startswith("posenc._explore") for name in sys.modules)
"""
    done = run(program, unbundled)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<svg\nPicture:")


def test_explore_without_the_bundle_says_how_to_make_it(fails: Callable[[str], str]) -> None:
    last = fails("import posenc, torch\nposenc.explore(lambda n: torch.eye(n), posenc.Heatmap(), n=(1, 9))")
    assert last.startswith("ImportError")
    assert "python hatch_build.py" in last


def test_a_book_without_the_bundle_says_so_before_it_runs_a_notebook(
    unbundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sphinx, "STATIC", unbundled / "posenc/_explore/static")
    with pytest.raises(ExtensionError, match=r"page\.js.*python hatch_build\.py"):
        sphinx._bundled(None)


def test_no_name_is_both_a_module_and_a_function() -> None:
    """Whoever imports such a module makes Python bind it to the name, and the function is gone."""
    rooms = [path.parent for path in (ROOT / "posenc").rglob("__init__.py")]
    assert len(rooms) > 12
    for room in rooms:
        package = importlib.import_module(".".join(room.relative_to(ROOT).parts))
        inside = {path.stem for path in room.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        names = {name for name in getattr(package, "__all__", ()) if not isinstance(getattr(package, name), ModuleType)}
        assert not names & inside, package.__name__


TORCH_ALONE = """
import sys
for name in ("numpy", "anywidget", "ipywidgets", "traitlets", "matplotlib", "safetensors", "filelock", "tqdm",
             "latex2mathml", "IPython"):
    sys.modules[name] = None  # importing it fails
import torch
from posenc import KVCache, RoPE, Transformer, attention, properties
from posenc.audit import audit
q, pos = torch.randn(1, 2, 5, 8), torch.arange(5)
assert attention(q, q, q, RoPE(8), pos, cache=KVCache()).shape == q.shape
model = Transformer(16, layers=1, model_dim=16, heads=2)
assert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, 16)
assert "ordered" in str(properties(RoPE(16))) and audit(model).passed
"""


def test_torch_alone_is_enough_for_encodings_models_properties_and_the_audit(unbundled: Path) -> None:
    done = run(TORCH_ALONE, unbundled)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("missing", "program", "extra"),
    [
        ("matplotlib", "from posenc import plot", "plot"),
        ("matplotlib", "from posenc import explore", "plot"),
        ("anywidget", "from posenc import explore", "explore"),
        ("latex2mathml", "from posenc import explore", "explore"),
        ("filelock", "from posenc.lab import read", "lab"),
        ("tqdm", "import posenc.lab.training", "lab"),
        ("safetensors", "posenc.Transformer(8, layers=1, model_dim=8, heads=1).save('x')", "lab"),
    ],
)
def test_what_an_extra_brings_is_named_where_it_is_missing(
    fails: Callable[[str], str], missing: str, program: str, extra: str
) -> None:
    last = fails(f"import sys, torch\nsys.modules[{missing!r}] = None\nimport posenc\n{program}")
    assert last.startswith(f"ImportError: {missing} is missing: run python -m pip install {missing}"), last
    assert f'"{extra}"' in last
    assert missing in {Requirement(line).name for line in EXTRAS[extra]}


def test_the_version_is_the_one_that_is_cited_and_told() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert posenc.__version__ == cited["version"] == newest[1]
    assert str(cited["date-released"]) == newest[2]


def test_the_archive_is_told_what_the_citation_says() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    told = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert (told["title"], told["keywords"]) == (cited["title"], cited["keywords"])
    assert told["description"] == " ".join(cited["abstract"].split()) and told["license"] in cited["license"]
    assert [each["name"] for each in told["creators"]] == [each["name"] for each in cited["authors"]]


def test_pages_install_extras_that_there_are() -> None:
    lines = [
        line
        for page in ("api.md", "index.ipynb")
        for line in re.findall(
            r'pip install \\?"posenc\[(\w+)\] @ git\+https', (ROOT / "chapters" / page).read_text("utf-8")
        )
    ]
    assert len(lines) == 2 and set(lines) <= set(EXTRAS)


def test_the_picture_names_all_that_the_layers_name() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in contracts["contracts"] if contract["id"] == "layers")
    drawn = (ROOT / ".github/architecture.svg").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", " ".join(re.findall(r'<text class="name"[^>]*>([^<]*)', drawn))))
    assert set(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", " ".join(layers)))) <= words


def test_the_page_of_checks_quotes_what_is_there() -> None:
    page, rope = (ROOT / "chapters/checks.md").read_text("utf-8"), (ROOT / "posenc/schemes/rope.py").read_text("utf-8")
    before = re.findall(r"^-( {4,}\S.*)$", page, re.M)
    assert len(before) == 2 and all(f"\n{line}\n" in rope for line in before)
    *_, (_, made, _, missed, _) = json.loads((ROOT / "chapters/checked/mutants.json").read_text("utf-8"))["rows"]
    assert f"Of {int(made):,} such mistakes" in page and f"all but {missed}." in page
    tests = (ROOT / "tests/test_rope.py").read_text("utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) == 3 and all(f"def {name}(" in tests for name in named)
