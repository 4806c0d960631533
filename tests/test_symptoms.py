"""The index of symptoms: each question that it names exists, and finds the suspect that it is named for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import normalise
import pytest
import test_audit_planted as planted
import torch
from handmade import GPT, Llama, State
from torch import Tensor, nn

from posenc.audit import audit
from posenc.audit.__main__ import main
from posenc.audit.checks import CHECKS

PAGE = (normalise.CHAPTERS / "symptoms.md").read_text(encoding="utf-8")
#: The suspects of a table: symptom, suspect, question, what to do.
ROWS = [
    (title, *(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:4]))
    for title, body in re.findall(r"^## (.*)\n((?:(?!^## ).*\n?)*)", PAGE, re.M)
    for row in re.findall(r"^\|.*\|$", body, re.M)
    if not re.match(r"\| suspect |\|-", row)
]


class Packed(Llama):
    """Documents of a row see each other, though positions restart."""


class Windowed(Llama):
    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        near = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq - 7)[None, None]  # 8 keys
        return super().see(lq, lk, mask) & near


class CountsPads(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, positions, None)


class CachedFromZero(GPT):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return (
            torch.arange(tokens.shape[1])[None]
            if positions is None and mask is None
            else super().place(tokens, state, positions, mask)
        )


CONFIG = planted.LLAMA
#: A suspect's first words, and models that have it, with the question that fails.
TRIED: dict[str, list[tuple[Callable[[], nn.Module], str, dict[str, Any]]]] = {
    "base or scaling not read": [(planted.OtherBase, "angles", {"configuration": CONFIG})],
    "angles in sixteen bits": [(planted.RoundedByCast, "far", {})],
    "a window that isn't applied": [
        (Llama, "reach", {"configuration": CONFIG | {"model_type": "mistral", "sliding_window": 8}})
    ],
    "each step begins at position 0": [(CachedFromZero, "step", {}), (planted.OffByOneWhenCached, "step", {})],
    "a chunk's mask starts": [(planted.ChunksSeeNoPast, "chunks", {})],
    "keys rotated by old frequencies": [(planted.ScaledByLength, "step", {}), (planted.ScaledByLength, "prefix", {})],
    "keys rotated twice": [(planted.TurnedTwice, "step", {})],
    "padding on the left counts": [(CountsPads, "left_pad", {})],
    "padding on the left is seen": [(planted.MaskDropped, "left_pad", {})],
    "the first row's mask": [(planted.MaskOfOneRow, "rows", {}), (planted.PositionsOfOneRow, "rows", {})],
    "steps after a padded prompt": [(planted.CountsPaddingWhenCached, "step_left", {})],
    "rows change each other": [(planted.ScaledByBatch, "neighbours", {})],
    "beams move keys": [(planted.ForgetsATable, "reorder", {}), (planted.ForgetsALayer, "reorder", {})],
    "tokens taken back": [(planted.CropForgetsPositions, "crop", {}), (planted.CropForgetsKeys, "crop", {})],
    "state of the previous request": [(planted.Counts, "again", {}), (planted.NeverShortAgain, "fresh", {})],
    "documents see each other": [(Packed, "packed_ids", {})],
    "a token sees the next one": [(planted.SeesOneAhead, "future", {})],
    "positions never reach the layer": [(planted.NoPositions, "stretch", {"configuration": CONFIG})],
    "all tokens of a row get one": [(planted.ByBatchRow, "neighbours", {})],
    "given positions are ignored": [(planted.IgnoresPositions, "stretch", {})],
    "`model.bfloat16()` cast": [(planted.RoundedByCast, "far", {})],
}
#: What a class leaves to whoever calls it: the audit says so, and the page what to pass.
OF_THE_CLASS = {CountsPads, Packed}
CASES = [(suspect, *case) for suspect, cases in TRIED.items() for case in cases]
#: The kinds of difference that the page names, and a row of tests/test_compare.py plants.
KINDS = {"base", "scaling", "layout", "rounding", "window", "slopes", "amplitude", "partial", "direction"}


def test_there_is_something_to_look_up() -> None:
    assert len(ROWS) > 50
    titles = {row[0] for row in ROWS}
    assert {"Good for 100 tokens, garbage at 4,000", "It's right alone and wrong in a batch"} <= titles


def test_every_question_that_is_named_can_be_asked() -> None:
    for title, suspect, question, _ in ROWS:
        for name in re.findall(r"`([a-z_]+)`", question):
            assert name in CHECKS, f"{title}: {suspect}: no question is called {name}"
    assert set(re.findall(r"says ((?:\*\w+\*(?: or )?)+)", PAGE)) >= {"*layout*"}
    named = set(re.findall(r"`--compare`[^|]*? says \*(\w+)\*", PAGE)) | {"scaling"}
    assert named == KINDS


def test_the_commands_have_the_flags_that_the_page_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    for flag in set(re.findall(r"(?<![\w-])--[a-z]+", PAGE)) - {"--for"}:
        assert flag in told


@pytest.mark.parametrize(
    ("suspect", "kind", "question", "options"),
    CASES,
    ids=[f"{case[0][:24]}-{case[2]}-{n}" for n, case in enumerate(CASES)],
)
def test_the_question_finds_the_suspect(suspect: str, kind: Any, question: str, options: dict[str, Any]) -> None:
    rows = [row for row in ROWS if row[1].startswith(suspect)]
    assert rows, f"no suspect of the page begins with {suspect!r}"
    assert any(f"`{question}`" in row[2] for row in rows), f"{suspect}: the page does not name {question}"
    torch.manual_seed(0)
    found = audit(kind(), only=[question], **options)[question]
    assert found.verdict == ("property" if kind in OF_THE_CLASS else "fails"), found


def test_what_it_is_asked_of_passes_where_nothing_is_wrong() -> None:
    asked = sorted({case[2] for case in CASES} - {"angles", "reach", "packed_ids"})
    torch.manual_seed(0)
    report = audit(Llama(), only=asked)
    assert not report.failures, report


def first_that_differs(kind: Any) -> int | None:
    torch.manual_seed(0)
    return audit(kind(), reference=Llama(), only=["reference"])["reference"].first


def test_the_first_token_that_differs_says_where_to_look() -> None:
    """As the page's first table has it: a rotation shows at token 1, a window where it ends."""
    assert first_that_differs(planted.OtherBase) == 1
    assert first_that_differs(planted.TwoConventions) == 1
    assert first_that_differs(Windowed) == 8


def test_first_aid_finds_the_same_token(capsys: pytest.CaptureFixture[str]) -> None:
    """The function to copy, on models with the weights of another one."""
    torch.manual_seed(0)
    right = Llama()
    found: dict[str, Any] = {"torch": torch}
    exec(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[0], found)
    tokens = torch.arange(1, 65)[None] % 50
    for kind, first in ((Llama, None), (planted.OtherBase, 1), (planted.TwoConventions, 1), (Windowed, 8)):
        mine = kind()
        mine.load_state_dict(right.state_dict(), strict=False)
        with torch.no_grad():
            assert found["first_that_differs"](*(model(tokens)[0] for model in (mine, right))) == first
    assert "token 8: off by" in capsys.readouterr().out


def test_first_aid_counts_a_number_that_is_none() -> None:
    """NaN compares as neither larger nor smaller, and is a difference."""
    found: dict[str, Any] = {"torch": torch}
    exec(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[0], found)
    right = torch.randn(64, 50, generator=torch.Generator().manual_seed(0))
    mine = right.clone()
    mine[5:, 7] = torch.nan
    assert found["first_that_differs"](mine, right) == 5
    assert found["first_that_differs"](mine, mine) == 0  # the size is none either, and nothing is known to agree
    assert found["first_that_differs"](right, right) is None


def test_first_aid_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """A file's base of 500,000 that a program doesn't read, and the same with the base passed on."""
    found: dict[str, Any] = {"torch": torch}
    exec(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[0], found)
    torch.manual_seed(0)
    right, tokens = planted.OtherBase(), torch.arange(1, 65)[None] % 50
    for kind in (Llama, planted.OtherBase):
        mine = kind()
        mine.load_state_dict(right.state_dict())
        with torch.no_grad():
            found["first_that_differs"](*(model(tokens)[0] for model in (mine, right)))
    wrong, repaired = capsys.readouterr().out.strip().rsplit("\n", 1)
    assert f"\n```text\n{wrong}\n```\n" in PAGE and f"`{repaired}`" in PAGE
