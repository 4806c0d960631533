"""A long table of the book is sorted by the heads of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import normalise
import pytest

from posenc.pictures import Table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
SCRIPT = (normalise.CHAPTERS / "assets/sort.js").read_text(encoding="utf-8")


def page_of(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td><a href='#{number}'>{number}</a></td><td>{word}</td></tr>" for number, word in rows)
    table = f"<table><thead><tr><th>no.</th><th>verdict</th></tr></thead><tbody>{cells}</tbody></table>"
    return f"<!doctype html><script>{SCRIPT}</script><article>{table}</article>"


ROWS = [(number, "holds" if n % 3 else "does not hold") for n, number in enumerate(
    ["10", "2", "A2", "11a", "11b", "A11", *(str(n) for n in range(20, 46))])]  # fmt: skip


def test_a_click_sorts_another_turns_round_and_a_third_restores(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(page_of(ROWS))

    def numbers() -> list[str]:
        return page.locator("tbody td:first-child").all_inner_texts()

    told = numbers()
    head = page.get_by_role("button", name="no.")
    head.click()
    assert numbers()[:4] == ["2", "10", "11a", "11b"] and numbers()[-2:] == ["A2", "A11"]
    assert page.locator("th").first.get_attribute("aria-sort") == "ascending"
    head.press("Enter")
    assert numbers()[0] == "A11" and page.locator("th").first.get_attribute("aria-sort") == "descending"
    head.click()
    assert numbers() == told and page.locator("th").first.get_attribute("aria-sort") is None
    page.get_by_role("button", name="verdict").click()
    verdicts = page.locator("tbody td:last-child").all_inner_texts()
    assert verdicts == sorted(verdicts)
    page.close()


def test_a_short_table_is_left_as_it_is(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(page_of(ROWS[:30]))
    assert not page.locator("button").count()
    page.close()


def test_numbers_that_a_table_carries_decide(browser: Browser) -> None:
    rows = [["a", -3.0], ["b", 20_000], ["c", 0.5], *([str(n), 100 + n] for n in range(12))]
    table = Table({"": "", "loss": ",.1f"}, rows).html()
    assert "pe-sortable" in table
    page = browser.new_page()
    page.set_content(f"<!doctype html><script>{SCRIPT}</script><article>{table}</article>")
    page.get_by_role("button", name="loss").click()
    names = page.locator("tbody th").all_inner_texts()
    assert names[:2] == ["a", "c"] and names[-1] == "b"
    page.close()
