"""The form of a chapter, as CONTRIBUTING describes it: its parts, and how much of it stands in the reader's way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import nbformat
import normalise
import pytest
from nbformat import NotebookNode

from posenc import SCHEMES

WORDS = 150  # a minute
LINES = 12  # of code a minute
COLUMN = 88  # characters of code that a column holds
MINUTES = 45  # of open page
FUNCTION = 20  # lines of the function to copy
LEAD = 45  # words of the paragraph that stays of a folded section
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
CHAPTERS = {path.stem: path for path in sorted(normalise.CHAPTERS.glob("*.ipynb"))}
NAMES = sorted(set(CHAPTERS) - {"index"})
#: Chapters of one scheme, which have its function to copy.
OWN = sorted(set(SCHEMES) & set(CHAPTERS))


@dataclass
class Cell:
    """A cell, and whether it is in a section that is folded, or in a solution."""

    source: str
    kind: str
    tags: set[str]
    printed: str
    folded: bool
    solution: bool

    @property
    def open(self) -> bool:
        return not (self.folded or self.solution or self.tags & {"remove-cell"})


def cells(notebook: NotebookNode) -> Iterator[Cell]:
    folded, level, solution = False, 9, False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for match in re.finditer(r"^(?:\{\.(depth|practice)\}\n)?(#{1,6}) ", cell.source, re.M):
                depth = len(match[2])
                if folded and depth <= level:
                    folded = False
                if match[1] and not folded:
                    folded, level = True, depth
            solution = "{solution-start}" in cell.source or (solution and "{solution-end}" not in cell.source)
        printed = "".join(output.get("text", "") for output in cell.get("outputs", []))
        tags = set(cell.metadata.get("tags", []))
        yield Cell(cell.source, cell.cell_type, tags, printed, folded, solution)


def read(name: str) -> list[Cell]:
    return list(cells(nbformat.read(CHAPTERS[name], as_version=4)))


def minutes(name: str) -> float:
    """The time that a reader needs for what is open: words and lines of code."""
    total = 0.0
    for cell in read(name):
        if cell.open and cell.kind == "markdown":
            text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|```.*?```|`[^`]*`|\{[a-z:]+\}", " ", cell.source, flags=re.S)
            total += len(re.findall(r"[A-Za-z]{2,}", text)) / WORDS
        elif cell.open and not cell.tags & HIDDEN:
            total += sum(bool(line.strip()) for line in cell.source.splitlines()) / LINES
    return total


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_is_read_in_three_quarters_of_an_hour(name: str) -> None:
    assert minutes(name) <= MINUTES, (
        f"{name}: fold what few readers need into sections with {{.depth}} or {{.practice}}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_code_that_is_open_fits_the_column(name: str) -> None:
    shown = [cell.source for cell in read(name) if cell.kind == "code" and not cell.tags & HIDDEN]
    wide = [line for source in shown for line in source.splitlines() if len(line) > COLUMN]
    assert not wide, f"chapters/{name}.ipynb: break lines of more than {COLUMN} characters, or hide the cell: {wide}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_fits_the_column(name: str) -> None:
    shown = [cell.printed for cell in read(name) if not cell.tags & {"remove-cell", "remove-output"}]
    wide = [line for text in shown for line in text.splitlines() if len(line) > COLUMN]
    assert not wide, f"chapters/{name}.ipynb prints lines of more than {COLUMN} characters; show a Table: {wide}"


@pytest.mark.parametrize("name", NAMES)
def test_a_folded_section_says_first_what_is_in_it(name: str) -> None:
    text = "\n\n".join(cell.source if cell.kind == "markdown" else "CODE" for cell in read(name))
    for fold in re.finditer(r"^\{\.(?:depth|practice)\}\n(#+ .*)\n\s*(.*(?:\n.+)*)", text, re.M):
        lead = fold[2].strip()
        assert re.match(r"[A-Z*`{\[]", lead), f"{fold[1]} begins with {lead[:60]!r}"
        assert not re.match(r"For (readers|those|users)\b", lead), f"{fold[1]}: say what is in it, not for whom it is"
        assert len(lead.split()) <= LEAD, f"{fold[1]}: {len(lead.split())} words before the fold, of {LEAD} at most"


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_in_five_lines_and_exercises(name: str) -> None:
    titles = re.findall(r"^## (.*)$", "\n".join(cell.source for cell in read(name) if cell.kind == "markdown"), re.M)
    assert titles[-2:] == ["In five lines", "Exercises"], f"chapters/{name}.ipynb ends in {titles[-2:]}"


@pytest.mark.parametrize("name", OWN)
def test_the_first_minute_has_the_function_to_copy_which_equals_the_package(name: str) -> None:
    """Plain torch in a screenful, and the line after it compares it with posenc."""
    everything = read(name)
    begin = next((n for n, cell in enumerate(everything) if f"({name}-minute)=" in cell.source), None)
    assert begin is not None, f"chapters/{name}.ipynb has no label ({name}-minute)= before 'In one minute'"
    sections = (n for n, cell in enumerate(everything) if n > begin and re.search(r"^## ", cell.source, re.M))
    minute = everything[begin : next(sections)]
    code = [cell for cell in minute if cell.kind == "code" and not cell.tags & HIDDEN]
    functions = [node for cell in code for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]
    assert functions, f"chapters/{name}.ipynb, In one minute: no function to copy in an open cell"
    longest = max(node.end_lineno - node.lineno + 1 for node in functions if node.end_lineno)
    assert longest <= FUNCTION, f"chapters/{name}.ipynb, In one minute: {longest} lines to copy, of {FUNCTION} at most"
    assert any("assert" in cell.source for cell in minute if cell.kind == "code"), (
        f"chapters/{name}.ipynb, In one minute: assert that the function equals the package's"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_has_a_source_and_a_verdict(name: str) -> None:
    text = "\n".join(cell.source for cell in read(name) if cell.kind == "markdown")
    for claim in re.finditer(r"^:::+\{admonition\} (Claim.*)\n:class: claim\n((?:.*\n)*?):::", text, re.M):
        assert re.search(r"\{cite|\{doc\}|\{ref\}|\]\(", claim[2]), f"{claim[1]}: no source"
        assert re.search(r"\*\*.+\*\*", claim[2]), f"{claim[1]}: no verdict"


def test_the_ways_through_the_book_count_their_minutes() -> None:
    """Each way on the first page adds up, and gives a chapter the minutes that it takes today."""
    text = "\n\n".join(cell.source for cell in read("index") if cell.kind == "markdown")
    ways = re.findall(r"^\*\*.*?\*\* \((\d+) min\)(.*?)(?=^\*\*|^\(|\Z)", text, re.M | re.S)
    assert len(ways) == 3
    for total, way in ways:
        assert int(total) == sum(map(int, re.findall(r"\.ipynb\), (\d+) min", way)))
    for name, said in re.findall(r"\]\((\w+)\.ipynb\), (\d+) min", text):
        assert abs(minutes(name) - int(said)) <= 4, f"{name}: {minutes(name):.0f} min, the first page says {said}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_caption_is_words_and_no_markdown(name: str) -> None:
    """A panel shows its caption as it is, asterisks and backticks with it."""
    text = "\n".join(cell.source for cell in read(name) if cell.kind == "code")
    for call in re.finditer(r"\b(?:caption|title)=\(?((?:\s*f?\"(?:[^\"\\]|\\.)*\")+)", text):
        assert not re.search(r"(?<!\w)\*[A-Za-z][^*]*\*|`", call[1]), f"chapters/{name}.ipynb: {call[1]}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_how_many_schemes_there_are_is_said_as_it_is(name: str) -> None:
    """A new scheme makes "ten schemes" wrong wherever all of them are meant."""
    numbers = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"]
    text = "\n".join(cell.source for cell in read(name))
    said = {word.lower() for word in re.findall(rf"\b({'|'.join(numbers)}) schemes\b", text, re.IGNORECASE)}
    assert said <= {numbers[len(SCHEMES) - 10]}, f"chapters/{name}.ipynb says that there are {said} schemes"
