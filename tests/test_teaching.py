"""The plans for teachers name panels, exercises and sections that exist, in order of their minutes."""

from __future__ import annotations

import itertools
import json
import re

import normalise
import pytest

from posenc.exercises import names

PAGE = (normalise.CHAPTERS / "teaching.md").read_text(encoding="utf-8")
TABLES = [
    [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", part, re.M)]
    for part in re.split(r"^## .*$", PAGE, flags=re.M)
]
ROWS = [row for table in TABLES for row in table if row[0].isdigit()]


def titles(stem: str) -> set[str]:
    """The titles of the panels of a chapter."""
    cells = json.loads((normalise.CHAPTERS / f"{stem}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return set(re.findall(r'title="([^"]+)"', code))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1][:24]}")
def test_a_row_names_panels_of_its_chapters(row: list[str]) -> None:
    chapters = re.findall(r"\]\((\w+)\.ipynb\)", " ".join(row))
    panels = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", " ".join(row[1:3]))
    assert chapters and set(panels) <= set().union(*map(titles, chapters))


def test_panels_in_sentences_exist() -> None:
    named = {"attention": "The four terms of added positions", "race": "Eight encodings race for one rule"}
    for stem, title in named.items():
        assert re.search(rf"\*{title}\*", " ".join(PAGE.split())) and title in titles(stem)


def test_minutes_rise_and_end_within_two_hours() -> None:
    plans = [[int(row[0]) for row in table if row[0].isdigit()] for table in TABLES]
    of_lessons = [plan for plan in plans if plan and plan[0] == 0]
    assert len(of_lessons) >= 2
    for minutes in of_lessons:
        assert all(a <= b for a, b in itertools.pairwise(minutes) if b) and max(minutes) < 120


def test_code_for_home_is_checked() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([a-z0-9_]+)`", row[-1])}
    assert len(named) >= 9 and named <= set(names())


def test_the_keys_are_those_of_the_script() -> None:
    script = (normalise.CHAPTERS / "assets/present.js").read_text(encoding="utf-8")
    for told, key in (("**Page Down**", "PageDown"), ("**Page Up**", "PageUp"), ("**N**", "n:"), ("**B**", "b:")):
        assert told in PAGE and key in script
