"""Sections of depth and practice: folded in the page, and open wherever somebody needs what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import Contexts, Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGE = "chapters/memory.html"  # opens fast
WITH_PANEL = "chapters/precision.html"  # in a fold
FOLDED = "[...document.querySelectorAll('.pe-fold')].map(e => e.hasAttribute('hidden'))"
INSIDE = "document.querySelector('.pe-fold :is(p, pre)').closest('.pe-fold')"
Open = Callable[..., Opened]


RESTORE = """() => {
  document.querySelectorAll(".pe-unfold[aria-expanded=true]").forEach(button => button.click());
  document.querySelectorAll(".to").forEach(link => link.remove());
  history.replaceState(null, "", location.pathname);
  document.activeElement?.blur();
  scrollTo(0, 0);
}"""


@pytest.fixture(scope="module")
def opened(book: Path, browser: Browser) -> Iterator[Opened]:
    contexts = Contexts(browser, "folds")
    yield contexts.open(f"{book.as_uri()}/{PAGE}")
    contexts.close(keep=False)


@pytest.fixture
def page(opened: Opened) -> Iterator[Page]:
    """A page that tests take in turn. Each finds the folds closed."""
    yield opened.page
    opened.page.emulate_media(media="screen")
    opened.page.evaluate(RESTORE)


def named(page: Page) -> str:
    """The name of something inside the first fold that a link can lead to."""
    return page.evaluate("document.querySelector('.pe-fold :is(section, span, figure)[id]').id")


def test_a_fold_shows_its_heading_and_what_is_in_it(page: Page) -> None:
    folded = page.evaluate(FOLDED)
    assert folded
    assert all(folded)
    for fold in page.locator(".pe-fold").all():
        assert not fold.is_visible()
    first = page.locator("section:is(.depth, .practice)").first
    assert first.locator("h2, h3, h4").first.is_visible()
    button = first.locator(".pe-unfold").first
    assert button.get_attribute("aria-expanded") == "false"
    assert "min" in (button.text_content() or "")


def test_a_button_opens_one_fold_and_closes_it(page: Page) -> None:
    button = page.locator(".pe-unfold").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(FOLDED).count(False) == 1
    assert button.get_attribute("aria-expanded") == "true"
    assert page.locator(".pe-fold").first.is_visible()
    button.click()
    assert all(page.evaluate(FOLDED))


def test_one_button_opens_all_and_is_remembered(server: str, open_page: Open) -> None:
    page = open_page(f"{server}/{PAGE}").page
    page.locator(".pe-unfold-all").click()
    assert not any(page.evaluate(FOLDED))
    page.reload()
    assert not any(page.evaluate(FOLDED))
    page.locator(".pe-unfold-all").click()
    page.reload()
    assert all(page.evaluate(FOLDED))


def test_a_link_from_elsewhere_opens_the_fold_it_leads_into(book: Path, open_page: Open, page: Page) -> None:
    target = named(page)
    there = open_page(f"{book.as_uri()}/{PAGE}#{target}").page
    fold = there.locator(f"[id='{target}']").evaluate("e => e.closest('.pe-fold').hasAttribute('hidden')")
    assert not fold
    assert 0 <= there.locator(f"[id='{target}']").evaluate("e => e.getBoundingClientRect().top") < 900


def test_a_link_on_the_page_opens_the_fold_each_time(page: Page) -> None:
    target = named(page)
    link = "id => document.querySelector('h1').insertAdjacentHTML('afterend', `<a class=to href='#${id}'>to it</a>`)"
    page.evaluate(link, target)
    for _ in range(2):
        page.evaluate("document.querySelector('.to').click()")
        assert page.locator(f"[id='{target}']").evaluate("e => !e.closest('.pe-fold').hidden")
        page.evaluate("document.querySelectorAll('.pe-unfold[aria-expanded=true]').forEach(e => e.click())")
        assert all(page.evaluate(FOLDED))


def test_the_label_of_a_folded_section_opens_it(book: Path, open_page: Open, page: Page) -> None:
    label = page.evaluate("document.querySelector('section:is(.depth, .practice) > span[id]').id")
    there = open_page(f"{book.as_uri()}/{PAGE}#{label}").page
    assert there.evaluate(FOLDED).count(False) >= 1


def test_the_browser_s_search_opens_a_fold(page: Page) -> None:
    page.evaluate(f"{INSIDE}.dispatchEvent(new Event('beforematch', {{ bubbles: true }}))")
    assert page.evaluate(FOLDED).count(False) == 1
    assert page.locator(".pe-unfold").first.get_attribute("aria-expanded") == "true"


def test_a_link_to_what_is_gone_lands_at_the_top_with_a_word(book: Path, open_page: Open) -> None:
    page = open_page(f"{book.as_uri()}/{PAGE}#what-was-here-once").page
    assert page.evaluate("scrollY") == 0
    assert page.get_by_role("status").filter(has_text="no longer on this page").is_visible()
    page.evaluate("location.hash = ''")
    page.wait_for_function("!document.querySelector('.pe-gone')")


def test_rubbish_in_an_address_does_no_harm(book: Path, open_page: Open) -> None:
    opened = open_page(f"{book.as_uri()}/{PAGE}#%E0%A4%A")
    assert not opened.problems
    assert all(opened.page.evaluate(FOLDED))


def test_without_script_everything_is_open(book: Path, plain: Page) -> None:
    plain.goto(f"{book.as_uri()}/{PAGE}")
    assert plain.locator("section:is(.depth, .practice)").count() > 0
    assert plain.locator(".pe-unfold").count() == 0
    for section in plain.locator("section:is(.depth, .practice)").all():
        assert section.locator("> :last-child").is_visible()


@pytest.fixture
def plain(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page without JavaScript."""
    contexts = Contexts(browser, request.node.name)
    yield contexts.new(java_script_enabled=False).new_page()
    contexts.close(keep=False)


def test_paper_has_everything(page: Page) -> None:
    page.emulate_media(media="print")
    assert all(fold.is_visible() for fold in page.locator(".pe-fold").all())
    assert not page.locator(".pe-unfold").first.is_visible()


def test_a_panel_in_a_fold_comes_alive_when_it_opens(book: Path, open_page: Open) -> None:
    opened = open_page(f"{book.as_uri()}/{WITH_PANEL}")
    page = opened.page
    name = page.evaluate("document.querySelector('.pe-fold figure.pe-panel').id")
    assert "pe-live" not in page.locator(f"[id='{name}']").get_attribute("class")
    page.evaluate(f"location.hash = {name!r}")
    page.wait_for_selector(f"figure.pe-live[id='{name}']", timeout=20_000)
    widths = """id => [...document.getElementById(id).querySelectorAll('svg, canvas')]
        .map(e => e.getBoundingClientRect().width)"""
    assert max(page.evaluate(widths, name)) > 200
    assert not opened.problems
