"""explore() in a real JupyterLab: the slider goes through the kernel, and Python moves the slider."""

from __future__ import annotations

import re

import pytest
import torch

from posenc import sinusoidal
from tests.live import jupyterlab, open_notebook, run_cell

pytestmark = pytest.mark.browser

CELLS = [
    """\
import ipywidgets, torch
from posenc import Heatmap, explore, logarithmic, sinusoidal

def encoding(length=16, dim=8, base=10_000.0, layout="interleaved"):
    if layout == "flat":
        return torch.zeros(length, dim)
    if length == 31:
        raise RuntimeError("thirty-one <b>is</b> refused")
    return sinusoidal(torch.arange(length), dim, base, layout=layout)

panel = explore(encoding, Heatmap(), length=(8, 32), dim=(2, 16, 2), base=logarithmic(10, 1e6),
                layout=["interleaved", "half", "flat"])
panel""",
    "panel.length = 24",
    """\
other = ipywidgets.IntSlider(min=8, max=32)
linked = ipywidgets.link((panel, 'length'), (other, 'value'))
other.value = 12""",
    "seen = []\npanel.observe(lambda change: seen.append(change['new']), 'base')",
    "print('seen', seen, 'linked', other.value, 'values', panel.values)",
]


RESTART = "() => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"


def drawn(page):
    return page.evaluate("() => [...document.querySelector('.pe-widget').panel.tensors[0].data]")


def settle(page, **wanted):
    """Wait until the picture shows the given values."""
    page.wait_for_function(
        """wanted => { const shown = document.querySelector('.pe-widget').panel.shown;
           return shown && Object.entries(wanted).every(([name, value]) => shown[name] === value); }""",
        arg=wanted, timeout=20_000,
    )  # fmt: skip


def test_sliders_and_python_move_each_other(tmp_path, browser):
    with jupyterlab(tmp_path, CELLS) as address:
        drive(address, browser)


def drive(address, browser):
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_notebook(page, address)
    run_cell(page, 0)
    page.wait_for_selector(".pe-widget.pe-live", timeout=90_000)

    slider = page.get_by_role("slider", name=re.compile("^base$"))
    slider.focus()
    before = drawn(page)
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    base = 8414.0  # three fortieths of a decade below 10,000, to four digits
    settle(page, base=base)
    assert drawn(page) != before
    wanted = sinusoidal(torch.arange(16), 8, torch.tensor(base, dtype=torch.float32))
    torch.testing.assert_close(torch.tensor(drawn(page)), wanted.flatten(), atol=1e-6, rtol=0)

    run_cell(page, 1)  # panel.length = 24
    settle(page, length=24)
    assert page.get_by_role("slider", name=re.compile("^length$")).get_attribute("aria-valuetext") == "24"

    run_cell(page, 2)  # a linked slider of ipywidgets is moved
    settle(page, length=12)

    page.get_by_role("combobox", name="layout").select_option("half")
    settle(page, layout=1)
    wanted = sinusoidal(torch.arange(12), 8, torch.tensor(base, dtype=torch.float32), layout="half")
    torch.testing.assert_close(torch.tensor(drawn(page)), wanted.flatten(), atol=1e-6, rtol=0)

    page.get_by_role("combobox", name="layout").select_option("flat")
    page.wait_for_selector(".pe-idle")
    assert page.locator(".pe-idle input[type=range]").evaluate_all("all => all.map(e => e.disabled)") == [True]
    assert slider.is_disabled()
    page.get_by_role("combobox", name="layout").select_option("half")
    settle(page, layout=1)
    assert slider.is_enabled()

    run_cell(page, 3)  # observe
    field = page.get_by_role("textbox", name="base, exact value")
    field.fill("500")
    field.press("Enter")
    settle(page, base=500)

    field = page.get_by_role("textbox", name="length, exact value")
    field.fill("31")
    field.press("Enter")
    message = page.locator(".pe-message")
    message.wait_for(state="visible")
    assert message.inner_text() == "RuntimeError: thirty-one <b>is</b> refused"
    field.fill("13")
    field.press("Enter")
    settle(page, length=13)
    assert not message.is_visible()

    run_cell(page, 4)
    printed = page.locator(".jp-OutputArea-output pre", has_text="seen")
    printed.wait_for(timeout=20_000)
    text = printed.inner_text()
    assert "seen [500.0] linked 13" in text
    assert "'length': 13" in text
    assert "'base': 500.0" in text
    assert "'layout': 'half'" in text
    assert not errors

    page.evaluate(RESTART)
    field.fill("14")
    field.press("Enter")
    message.wait_for(state="visible", timeout=40_000)
    assert re.search("kernel", message.inner_text())
    assert re.search("[Rr]un the cell again", message.inner_text())
    assert page.locator(".pe-status").inner_text() == ""
    run_cell(page, 0)  # as it says
    page.wait_for_function("() => document.querySelector('.pe-widget.pe-live')?.panel.shown.length === 16")
    page.close()
