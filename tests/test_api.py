"""The code on the page of the API runs, with what it asserts: a block for each task, after those before it."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).resolve().parents[1] / "chapters/api.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore")  # of what torch's compiler and exporter use themselves
def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend="aot_eager")
    )  # inductor takes ten times as long
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)


def test_every_task_fits_the_page_and_says_what_must_come_of_it() -> None:
    assert len(BLOCKS) >= 12
    assert max(len(line) for block in BLOCKS for line in block.splitlines()) <= 88
    assert sum("assert " in block for block in BLOCKS) >= 10
