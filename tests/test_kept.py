"""The tables that tests fill are compared with the kept ones, also when pytest-xdist spreads the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
import json
from pathlib import Path

from tests.kept import Kept

KEPT = Path(__file__).with_name("letters.json")


class Table(dict):
    \"\"\"The sound of each letter.\"\"\"

    def read(self, name):
        return json.loads(KEPT.read_text())

    def write(self, name):
        KEPT.write_text(json.dumps(self))

    def text(self):
        return json.dumps(self)

    def differences(self, kept):
        return [f"{name}: {self.get(name)}, kept {kept.get(name)}" for name in {**self, **kept}
                if self.get(name) != kept.get(name)]


class Letters(Kept):
    name = "letters"

    def cell(self, item):
        return (item.callspec.params["letter"],) if hasattr(item, "callspec") else None

    def table(self):
        return Table({name: found[0]["sound"] if found else "?" for (name,), found in self.cells.items()})

    def pytest_runtest_logreport(self, report):
        if self.config.getoption("--lose") not in report.nodeid:
            super().pytest_runtest_logreport(report)


def pytest_addoption(parser):
    parser.addoption("--keep", action="store_true")
    parser.addoption("--lose", default="no test", help="the test whose reports go astray")


def pytest_configure(config):
    config.pluginmanager.register(Letters(config), "letters")
"""
TESTS = """
import pytest


@pytest.mark.parametrize("letter", "abcd")
def test_letter(letter, record_property):
    record_property("sound", "vowel" if letter in "ae" else "consonant")


def test_of_no_table():
    pass
"""
RIGHT = ["vowel", "consonant", "consonant", "consonant"]


@pytest.fixture
def letters(tmp_path: Path):
    """run(sounds, *options): a run of the tests of four letters, beside a table that says the sounds of each."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_letters.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def run(sounds: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        kept = dict(zip("abcd", sounds, strict=False))
        (tmp_path / "letters.json").write_text(json.dumps(kept), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider", *options]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return run


TWO_WORKERS = ["-n", "2", "--dist", "loadgroup"]
SPREAD = pytest.mark.parametrize("spread", [[], TWO_WORKERS], ids=["one process", "two workers"])


@SPREAD
def test_a_table_that_is_as_it_was_kept_passes(letters, spread) -> None:
    done = letters(RIGHT, *spread)
    assert done.returncode == 0, done.stdout
    assert '{"a": "vowel", "b": "consonant"' in done.stdout


@SPREAD
def test_a_table_that_differs_fails(letters, spread) -> None:
    done = letters(["vowel", "vowel", "consonant"], *spread)
    assert done.returncode == 1, done.stdout
    assert "b: consonant, kept vowel" in done.stdout
    assert "d: consonant, kept None" in done.stdout


def test_a_report_that_goes_astray_fails(letters) -> None:
    done = letters(RIGHT, *TWO_WORKERS, "--lose=[c]")
    assert done.returncode == 1, done.stdout
    assert "1 of 4 tests did not report, such as test_letters.py::test_letter[c]" in done.stdout


@pytest.mark.parametrize(
    "part",
    [["test_letters.py::test_letter"], [*TWO_WORKERS, "--deselect", "test_letters.py::test_letter[d]"]],
    ids=["by name", "deselected"],
)
def test_a_part_of_the_tests_is_not_compared(letters, part) -> None:
    done = letters(["vowel", "vowel"], *part)
    assert done.returncode == 0, done.stdout


def test_keeping_writes_the_table(letters, tmp_path: Path) -> None:
    assert letters(["vowel", "vowel"], "--keep", *TWO_WORKERS).returncode == 0
    assert '"b": "consonant"' in (tmp_path / "letters.json").read_text(encoding="utf-8")
