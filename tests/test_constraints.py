"""The pinned set, and what Binder and Colab have, against what pyproject.toml promises."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from normalise import COLAB_CELL
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def refused(pins: list[Requirement], python: str) -> list[str]:
    """Those of the pinned distributions that are installed here and do not install on this Python."""
    found = {canonicalize_name(each.name): each for each in metadata.distributions()}
    here = [(pin, found[canonicalize_name(pin.name)]) for pin in pins if canonicalize_name(pin.name) in found]
    return [
        f"{pin}: {each.metadata.get('Requires-Python')}"
        for pin, each in here
        if each.version in pin.specifier  # another version says nothing about the pinned one
        and python not in SpecifierSet(each.metadata.get("Requires-Python", ""))
    ]


def test_what_is_pinned_installs_on_the_oldest_python_that_is_promised() -> None:
    assert not refused(PINS, PROJECT["requires-python"].removeprefix(">=") + ".0")


def test_what_does_not_install_is_named() -> None:
    assert [line.split(":")[0] for line in refused(PINS, "2.7.0") if line.startswith("torch==")]


def test_each_distribution_is_pinned_once_and_exactly() -> None:
    names = [canonicalize_name(pin.name) for pin in PINS]
    assert sorted(set(names)) == sorted(names)
    assert all([each.operator for each in pin.specifier] == ["=="] for pin in PINS)


def test_what_pyproject_asks_for_is_pinned() -> None:
    asked = [*PROJECT["dependencies"]]
    for extra in ("plot", "explore", "lab", "export", "book", "paper", "test", "mutants"):
        asked += PROJECT["optional-dependencies"][extra]
    names = {canonicalize_name(Requirement(line).name) for line in asked} - {canonicalize_name(PROJECT["name"])}
    assert names <= {canonicalize_name(pin.name) for pin in PINS}


def test_a_release_is_built_with_the_versions_that_were_tested_together() -> None:
    release = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    tools = [line for line in release.splitlines() if re.search(r"pip install .*\bbuild\b", line)]
    assert len(tools) == 1 and "--constraint constraints.txt" in tools[0]
    steps = re.findall(r"- run: python -m build .*\n +env:\n +PIP_CONSTRAINT: \S+ github\.workspace }}/(\S+)", release)
    assert steps == ["constraints.txt"] and release.count("python -m build ") == 2  # both in this step
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    names = {canonicalize_name(Requirement(line).name) for line in asked} | {"build"}
    assert names <= {canonicalize_name(pin.name) for pin in PINS}


def listed(name: str) -> dict[str, Requirement]:
    """What a file of requirements asks for, by name, without its options."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    asked = [Requirement(line) for line in lines if line and not line.startswith(("#", "--"))]
    return {canonicalize_name(each.name): each for each in asked}


EXTRAS = PROJECT["optional-dependencies"]
#: What the extra "all" comes to, which is what a chapter needs.
ASKED = [*PROJECT["dependencies"], *(line for extra in ("plot", "explore", "lab") for line in EXTRAS[extra])]
NEEDED = {canonicalize_name(each.name): each for each in map(Requirement, ASKED) if each.name != PROJECT["name"]}


def test_all_is_what_a_chapter_needs() -> None:
    assert EXTRAS["all"] == ["posenc[explore,lab]"] and "posenc[plot]" in EXTRAS["explore"]


def test_binder_installs_what_the_package_needs_and_nothing_else() -> None:
    """It installs the package without its dependencies, whose torch would be the one with CUDA."""
    binder = listed(".binder/requirements.txt")
    assert binder == NEEDED
    assert "--no-deps ." in (ROOT / ".binder/postBuild").read_text(encoding="utf-8")


def test_binder_takes_the_versions_that_were_tested_together() -> None:
    lines = (ROOT / ".binder/requirements.txt").read_text(encoding="utf-8").splitlines()
    (constraint,) = [line.split()[1] for line in lines if line.startswith("--constraint")]
    assert (ROOT / ".binder" / constraint).resolve() == ROOT / "constraints.txt"


def test_colab_and_the_first_cell_of_a_chapter_have_what_the_package_needs() -> None:
    colab = listed("tests/colab.txt")
    missing = set(NEEDED) - set(colab)
    assert all(f'"{name}"' in COLAB_CELL for name in missing), missing
    for name in set(NEEDED) & set(colab):
        (version,) = [each.version for each in colab[name].specifier if each.operator == "=="]
        assert version in NEEDED[name].specifier


def test_binder_shows_sources_with_an_extension_and_other_notebooks_without() -> None:
    built = (ROOT / ".binder/postBuild").read_text(encoding="utf-8")
    (wanted,) = re.findall(r"^if grep -q '(.+)' (chapters/rope\.ipynb); then\n  .*jupyterlab-myst==", built, re.M)
    assert wanted[0] in (ROOT / wanted[1]).read_text(encoding="utf-8")  # and test_launch.py: no live notebook has it
