"""A page that is presented: keys lead from panel to panel, whatever has the focus, and Esc gives the page back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import normalise
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SCRIPT = (normalise.CHAPTERS / "assets/present.js").read_text(encoding="utf-8")
PANEL = (
    '<figure class="pe-panel"><h3 class="pe-title">{}</h3><input type="range"><input type="text">'
    '<p style="height: 2000px">'
)
BODY = "".join(PANEL.format(name) + "</figure>" for name in ("one", "two", "three"))
FOLDED = "<div hidden>" + PANEL.format("folded") + "</figure></div>"


@pytest.fixture
def page(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1400, "height": 800})
    header = '<div class="article-header-buttons"></div>'
    page.set_content(f"<!doctype html><script>{SCRIPT}</script>{header}<article>{BODY}{FOLDED}</article>")
    yield page
    page.close()


def shown(page: Page) -> str:
    """The panel that stands at the top of the window."""
    page.wait_for_function("""() => {
        const tops = [...document.querySelectorAll('figure')].map(each => each.getBoundingClientRect().top);
        return tops.some(top => Math.abs(top) < 12);
    }""")
    return page.evaluate("""() => [...document.querySelectorAll('figure')]
        .find(each => Math.abs(each.getBoundingClientRect().top) < 12).querySelector('.pe-title').textContent""")


def presented(page: Page) -> bool:
    return page.evaluate("document.documentElement.dataset.present !== undefined")


def test_keys_lead_from_panel_to_panel_and_stop_at_the_last(page: Page) -> None:
    page.get_by_role("button", name="Present").click()
    assert presented(page) and shown(page) == "one"
    page.keyboard.press("n")
    assert shown(page) == "two" and page.get_by_role("status").inner_text() == "Panel 2 of 3: two"
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")  # a folded panel is no stop
    assert shown(page) == "three"
    page.keyboard.press("b")
    assert shown(page) == "two"
    page.keyboard.press("Escape")
    page.wait_for_function("document.documentElement.dataset.present === undefined")
    assert page.get_by_role("button", name="Present").get_attribute("aria-pressed") == "false"


def test_a_remote_turns_on_from_a_slider_and_a_letter_stays_in_its_field(page: Page) -> None:
    page.get_by_role("button", name="Present").click()
    slider = page.locator("input[type=range]").first
    slider.focus()
    before = slider.input_value()
    page.keyboard.press("PageDown")
    assert shown(page) == "two" and slider.input_value() == before
    field = page.locator("input[type=text]").nth(1)
    field.focus()
    page.keyboard.type("nb")
    assert field.input_value() == "nb" and shown(page) == "two"


def test_a_page_without_panels_has_no_button(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        f"<!doctype html><script>{SCRIPT}</script><div class='article-header-buttons'></div><article></article>"
    )
    assert not page.get_by_role("button").count()
    page.close()
