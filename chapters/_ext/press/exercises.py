"""The exercises as sheets to hand out: one without solutions, and one with them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from bs4 import Tag

from press.pages import Page, classes, soup
from press.pdf import NOWHERE, print_all, sheet_html
from press.sheets import Sheet

NUMBERED = "@page { @bottom-right { color: #666; content: counter(page); font: 8pt sans-serif; } }"


def make(out: Path, pages: list[Page], sheets: list[Sheet], work: Path, name: str) -> list[Path]:
    """Write both sheets beside the built book.

    Args:
        out: The folder of the built book.
        pages: In the order of the book.
        sheets: One for each page, with solutions.
        work: A folder for what is printed.
        name: Of the files, which end in "-exercises.pdf" and "-solutions.pdf".

    Returns:
        The two files.

    Raises:
        LookupError: If the pages have no exercises.
    """
    work.mkdir(parents=True, exist_ok=True)
    made = []
    for kind, title in (("exercises", "Exercises"), ("solutions", "Exercises and solutions")):
        body = "".join(of_chapter(page, made_, kind == "solutions") for page, made_ in zip(pages, sheets, strict=True))
        if not body:
            raise LookupError("these pages have no exercises")
        file = work / f"{name}-{kind}.html"
        whole = Sheet(kind, f"<style>{NUMBERED}</style><h1>{title}</h1>{body}", set(), set())
        file.write_text(sheet_html(whole, (), out, f"Positional Encodings: {title.lower()}"), encoding="utf-8")
        made.append(file)
    print_all(made)
    return [file.with_suffix(".pdf").replace(out / f"{file.stem}.pdf") for file in made]


def of_chapter(page: Page, made: Sheet, solved: bool) -> str:
    """The exercises of a page under its title; nothing if it has none."""
    found = "".join(each for each in of_body(made.body, solved))
    return f"<section><h2>{html.escape(page.heading)}</h2>{found}</section>" if found else ""


def of_body(body: str, solved: bool) -> Iterator[str]:
    for exercise in soup(body).select("div.exercise"):
        given, after = [exercise], exercise.find_next_sibling()
        while isinstance(after, Tag) and "cell" in classes(after):  # a program to begin with
            given.append(after)
            after = after.find_next_sibling()
        if not isinstance(after, Tag) or "solution" not in classes(after):
            given = [exercise]
        elif solved:
            given.append(after)
        for part in given:
            for link in part.find_all(
                "a", href=re.compile(f"^(#|{re.escape(NOWHERE)})")
            ):  # the sheet has no such place
                if "pe-page" in classes(link):
                    link.decompose()
                else:
                    link.unwrap()
            yield str(part)
