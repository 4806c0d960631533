"""Findings in other people's libraries: the list is whole, and what can be run here prints what is kept."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec

import pytest
import torch
from posenc_evidence.libraries import HERE, KINDS, code, findings, ports, report
from posenc_evidence.libraries.__main__ import main

from posenc.audit.checks import CHECKS

NAMES = [row["name"] for row in findings()]


def test_every_file_is_a_finding_and_every_finding_has_a_file() -> None:
    files = {path.stem for path in (HERE / "reproductions").glob("*.py")}
    assert files == set(NAMES) and len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("row", findings(), ids=NAMES)
def test_a_finding_says_what_a_report_needs(row: dict[str, str]) -> None:
    assert row["kind"] in KINDS and row["row"] in CHECKS
    for field in ("title", "cause", "look", "expected", "actual", "status", "printed"):
        assert row[field], field
    assert row["version"] in row["status"] and re.search(r"reproduced on \d{4}-\d\d-\d\d", row["status"])
    assert not row["known"] or row["known"].startswith("https://github.com/")


@pytest.mark.parametrize("row", findings(), ids=NAMES)
def test_a_file_needs_torch_and_its_library_alone(row: dict[str, str]) -> None:
    tree, imported = ast.parse(code(row["name"])), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert "posenc" not in imported
    assert len(imported - {"torch", "copy"}) == 1, imported
    assert len(code(row["name"]).splitlines()) <= 21


@pytest.mark.models
@pytest.mark.parametrize("row", findings(), ids=NAMES)
def test_what_a_file_prints_is_what_is_kept(row: dict[str, str]) -> None:
    library = re.findall(r"^from (\w+)", code(row["name"]), re.M)[-1]
    if find_spec(library) is None:
        pytest.skip(f"{row['package']} is not installed")
    printed = io.StringIO()
    with torch.random.fork_rng(devices=[]), redirect_stdout(printed), redirect_stderr(io.StringIO()):
        exec(compile(code(row["name"]), row["file"], "exec"), {"__name__": row["name"]})
    found, kept = (numbers(text) for text in (printed.getvalue(), "\n".join(row["printed"])))
    assert [word for word, _ in found] == [word for word, _ in kept]
    for (_, one), (_, other) in zip(found, kept, strict=True):
        assert one == pytest.approx(other, rel=0.2, abs=1e-4)


def numbers(text: str) -> list[tuple[str, float]]:
    """Words as they are, and numbers as numbers."""
    words = re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|[A-Za-z_`]+", text)
    return [("", float(word)) if word[0].isdigit() else (word, 0.0) for word in words]


def test_a_report_has_the_code_and_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    for row in findings():
        text = report(row["name"])
        assert code(row["name"]) in text and "\n".join(row["printed"]) in text and row["version"] in text
        assert all(line.strip() != "None" for line in text.splitlines())
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in NAMES)
    assert main(["torchscale_t5"]) == 0 and report("torchscale_t5") == capsys.readouterr().out
    assert main(["torchscale_t6"]) == 2 and "torchscale_t5" in capsys.readouterr().err


def test_ports_that_are_right_pass_and_others_are_named() -> None:
    rows = ports()["rows"]
    for row in rows:
        assert (row["kinds"] == []) == (row["mistake"] == "none"), row
        assert row["seconds"] < 10, row
    assert {row["port"] for row in rows if row["mistake"] == "none"} == {row["port"] for row in rows}
