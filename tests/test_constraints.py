"""The pinned set against what pyproject.toml promises."""

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = [Requirement(line) for line in LINES if line and not line.startswith("#")]


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_what_is_pinned_installs_on_the_oldest_python_that_is_promised(pin):
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    try:
        found = metadata.metadata(pin.name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{pin.name} is not installed here")
    if found["Version"] in pin.specifier:  # another version says nothing about the pinned one
        assert f"{oldest}.0" in SpecifierSet(found.get("Requires-Python", ""))
