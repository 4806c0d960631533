"""The command `python -m posenc.audit` and the plugin of pytest."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from posenc.audit import __main__ as command

ROOT = Path(__file__).resolve().parents[1]
MODULE = """
import torch
from torch import nn

print("imported")

class Right(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.cell, self.head = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.cell(self.tokens(tokens))[0])

class Wrong(Right):
    def forward(self, tokens):
        return super().forward(tokens) + len(tokens)

class Sized(Right):
    def __init__(self, size):
        super().__init__()

class Family:
    right = Right()

def make():
    return Right()

def broken():
    raise RuntimeError("no weights here")

def function(tokens):
    return nn.functional.one_hot(tokens, 20).float()

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the present folder that the command can import."""
    name = f"models_of_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_status_0_and_a_table_if_nothing_fails(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("Right", "make", "function", "Family.right"):
        assert command.main([f"{module}:{what}", "--only", "future, again"]) == 0
        out = capsys.readouterr().out
        assert "nothing fails; 2 pass" in out and "\nfuture  pass" in out


def test_status_1_if_something_fails(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"{module}:Wrong", "--quiet"]) == 1
    said = capsys.readouterr()
    assert re.search(r"1 of \d+ tests fails \(neighbours\)", said.out) and said.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no folder 'nowhere'; an object to import is written MODULE:OBJECT"),
        (["no.such.module:model"], "no.such.module cannot be imported: ModuleNotFoundError"),
        (["{module}:missing"], "has no 'missing'"),
        (["{module}:Sized"], "is a class that needs size"),
        (["{module}:broken"], "broken() raises RuntimeError: no weights here"),
        (["{module}:number"], "int cannot be called"),
        (["{module}:Right", "--only", "stepp"], "there is no test 'stepp': use step"),
        (["{module}:Right", "--tokens", "2"], "tokens is 2: use 8 or more"),
        (["{module}:Right", "--html", "{module}.py/x.html", "--only", "again"], "posenc.audit: "),
        ([], "say what to audit"),
        (["nowhere", "--config"], "posenc.audit: "),
    ],
)
def test_status_2_and_one_line_if_it_cannot_run(
    arguments: list[str], words: str, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([argument.replace("{module}", module) for argument in arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("posenc.audit: ") and words in err and err.count("\n") == 1


ENDING = {
    "at_import": "import sys\nsys.exit(0)\n",
    "at_call": "import sys\ndef model():\n    sys.exit()\n",
    "skips": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "in_forward": "import sys\ndef model(tokens):\n    sys.exit(0)\n",
    "in_fourth": "import sys, torch\ncalls = []\ndef model(tokens, positions=None):\n    calls.append(1)\n"
    "    len(calls) == 4 and sys.exit(0)\n    return torch.nn.functional.one_hot(tokens, 9).float()\n",
    "nothing": "class Odd(BaseException):\n    pass\ndef model():\n    raise Odd\n",
}


@pytest.mark.parametrize("name", [*ENDING, "sys:exit"])
def test_what_ends_the_program_is_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    what = name
    if name in ENDING:
        what = f"{name}_{abs(hash(tmp_path))}"
        (tmp_path / f"{what}.py").write_text(ENDING[name], encoding="utf-8")
        what += ":model"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert command.main([what, "--only", "future"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("posenc.audit: ") and said.err.count("\n") == 1
    assert {"skips": "Skipped", "nothing": "Odd"}.get(name, "SystemExit") in said.err


@pytest.mark.parametrize("error", [RuntimeError("two\nlines"), MemoryError(), RecursionError("deep"), SystemExit(0)])
def test_whatever_is_raised_is_status_2_and_a_line_with_its_class(
    error: BaseException, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("posenc.audit.run.audit", fail)
    assert command.main([f"{module}:Right", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"posenc.audit: {type(error).__name__}") and err.count("\n") == 1


def test_a_test_that_does_not_apply_is_no_success(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"{module}:Right", "--only", "step"]) == 2
    said = capsys.readouterr()
    assert "no test applies" in said.out and "nothing was tried" in said.err
    assert command.main([f"{module}:Right", "--only", " , "]) == 2


def test_names_that_act_on_a_terminal_are_escaped(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["\x1b[31mno\u202e:x"]) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()


EARLY = ("torch", "numpy", "html", "tqdm")
LATE = ("transformers", "safetensors", "huggingface_hub", "chardet", "tokenizers", "yaml", "requests")


def test_nothing_of_the_present_folder_is_executed(tmp_path: Path) -> None:
    """As in `cd FOLDER && python -m posenc.audit .`, where python itself puts the folder first."""
    pytest.importorskip("transformers")
    for name in (*EARLY, *LATE):
        (tmp_path / f"{name}.py").write_text("print(__name__, file=open('ran', 'a'))\n", encoding="utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "no_such_type"}', encoding="utf-8")
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "posenc.audit", ".", "--quiet"]
    done = subprocess.run(arguments, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=300)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode == 2 and "no_such_type" in done.stderr, done.stderr


def test_the_command_has_a_name_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["posenc-audit"].partition(":")
    assert getattr(importlib.import_module(module), function) is command.main
    assert command.parser().prog == "posenc-audit"


def test_json_and_html(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"{module}:Right", "--json", "a.json", "--html", "a.html", "--only", "again"]) == 0
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["model"] == "Right"
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    capsys.readouterr()
    assert command.main([f"{module}:Wrong", "--json", "-", "--weights"]) == 1
    whole = json.loads(capsys.readouterr().out)  # what the module prints goes elsewhere
    assert whole["weights"] == "as they are"


def test_the_list_names_every_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "again" and any("(more)" in line for line in lines)


def test_progress_is_shown_in_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command._progress() is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = command._progress()
    assert show is not None
    show("step", 3, 9)
    assert "4/9 step" in capsys.readouterr().err


def test_a_folder_without_transformers_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert command.main([str(tmp_path)]) == 2
    assert "pip install transformers" in capsys.readouterr().err


def test_a_configuration_is_read_without_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    fields = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(fields | {"rope_theta": 12345.0}), encoding="utf-8")
    assert command.main([str(tmp_path), "--config"]) == 0
    assert "12345" in capsys.readouterr().out.replace(",", "").replace(" ", "")
    assert command.main([str(tmp_path), "--config", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["scheme"] == "rope"


def test_a_configuration_is_read_without_torch(tmp_path: Path) -> None:
    fields = {"model_type": "llama", "head_dim": 16, "num_hidden_layers": 2, "rope_theta": 12345.0}
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom posenc.audit.__main__ import main\n"
        f"assert main([{str(tmp_path)!r}, '--config']) == 0\nassert main([{str(tmp_path)!r}]) == 2\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "12345" in done.stdout and "torch" in done.stderr


def test_the_module_runs_as_a_command(module: str, tmp_path: Path) -> None:
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "posenc.audit", f"{module}:Wrong", "--only", "neighbours"]
    done = subprocess.run(arguments, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "neighbours  fails" in done.stdout


def test_the_plugin_fails_a_test_with_what_is_wrong(module: str, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        f"import {module} as models\n"
        "def test_right(posenc_audit):\n    assert posenc_audit(models.Right(), require='future')['again'].passed\n"
        "def test_wrong(posenc_audit):\n    posenc_audit(models.Wrong())\n"
        "def test_needed(posenc_audit):\n    posenc_audit(models.Right(), require=['step'], only=['step', 'again'])\n",
        encoding="utf-8",
    )
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "test_mine.py"]
    surroundings = installed(tmp_path)
    done = subprocess.run(arguments, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=120)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "neighbours fails" in done.stdout and "Look at" in done.stdout
    assert "step does not apply: Takes no cache" in done.stdout


def installed(folder: Path) -> dict[str, str]:
    """Surroundings in which this tree is installed as pyproject.toml says, whatever else is."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    site = folder / "site" / "posenc-0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: posenc\nVersion: 0\n", encoding="utf-8")
    lines = [line for group, names in entries.items() for line in (f"[{group}]", *map(" = ".join, names.items()))]
    (site / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(site.parent), str(ROOT))), "PYTEST_ADDOPTS": ""}


@pytest.mark.parametrize("wanted", [False, True])
def test_other_test_suites_import_neither_torch_nor_posenc(tmp_path: Path, wanted: bool) -> None:
    (empty := tmp_path / "empty").mkdir()
    if wanted:  # the fixture is there, and asking for it imports nothing either
        (empty / "test_it.py").write_text("def test_it(posenc_audit):\n    assert callable(posenc_audit)\n")
    script = (
        "import sys, pytest\n"
        "code = pytest.main(['-q', '-p', 'no:nbval'])\n"
        "print('loaded:', *(name for name in ('_posenc_pytest', 'posenc', 'torch') if name in sys.modules))\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=empty, env=installed(tmp_path), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == (pytest.ExitCode.OK if wanted else pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout
    assert done.stdout.splitlines()[-1] == "loaded: _posenc_pytest"


def test_the_wheel_holds_the_plugin() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module = settings["project"]["entry-points"]["pytest11"]["posenc"]
    assert "." not in module  # in a package, the package would be imported with it
    targets = settings["tool"]["hatch"]["build"]["targets"]
    assert f"{module}.py" in targets["wheel"]["only-include"]
    assert f"{module}.py" in targets["sdist"]["include"]
