"""Moves the panels of a page in a browser, and compares what they hold with what torch returns."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc._explore.controls import Choice, Slider, Tick
from posenc._explore.explorer import Explorer

if TYPE_CHECKING:
    from playwright.sync_api import Page

SETTLED = "panel => !panel.running && Object.keys(panel.values).every(n => panel.values[n] === panel.shown[n])"
READ = f"""async id => {{
  const {{ panel }} = document.getElementById(id), settled = {SETTLED}, late = performance.now() + 30_000;
  while (!settled(panel)) {{
    if (performance.now() > late) throw new Error(`${{id}} has no answer after 30 s: ${{panel.message.textContent}}`);
    await new Promise(requestAnimationFrame);
  }}
  const coded = bytes => {{
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  }};
  const tensors = panel.tensors.map(({{ shape, data }}) =>
    ({{ shape, data: coded(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) }}));
  return {{ shown: panel.shown, tensors }};
}}"""
KEYS = ("Home", "PageUp", "ArrowRight", "End", "ArrowLeft")  # to both ends of a slider, and between


def live(page: Page, identity: str) -> None:
    """Scroll to a panel, and wait until it is alive."""
    page.evaluate("id => document.getElementById(id).scrollIntoView()", identity)
    try:
        page.wait_for_selector(f"#{identity}.pe-live", timeout=30_000)
    except Exception as error:
        state = page.evaluate(
            """id => { const { panel } = document.getElementById(id);
               return [panel?.message.textContent, panel?.running, panel?.progress.hidden, scrollY, innerHeight]; }""",
            identity,
        )
        raise AssertionError(f"{identity} does not come alive: {state}") from error
    settled(page, identity)


def settled(page: Page, identity: str) -> None:
    page.wait_for_function(f"id => ({SETTLED})(document.getElementById(id).panel)", arg=identity)


def read(page: Page, identity: str) -> dict[str, Any]:
    """What a panel shows once it has settled: the values of its controls, and its tensors."""
    return page.evaluate(READ, identity)


def compare(got: dict[str, Any], explorer: Explorer) -> float:
    """The largest difference between what the page holds and what torch returns, relative to the largest value."""
    wanted = explorer.run(explorer.unwire(got["shown"]))
    assert len(got["tensors"]) == len(wanted)
    largest = 0.0
    for ours, true in zip(got["tensors"], wanted, strict=True):
        assert ours["shape"] == list(true.shape)
        data = np.frombuffer(base64.b64decode(ours["data"]), np.float32).reshape(ours["shape"])
        np.testing.assert_array_equal(np.isfinite(data), np.isfinite(true.numpy()))
        finite = np.isfinite(data)
        scale = max(1.0, float(np.abs(true.numpy()[finite]).max(initial=0.0)))
        largest = max(largest, float(np.abs(data - true.numpy())[finite].max(initial=0.0)) / scale)
    return largest


def moves(page: Page, identity: str, explorer: Explorer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Move each control of a panel, as a reader would, and back to its start: what was done, and what is there."""
    root = page.locator(f"#{identity}")
    for control in explorer.controls:
        label = control.name.replace("_", " ")
        role = {Slider: "slider", Choice: "combobox", Tick: "checkbox"}[type(control)]
        # Found once: on the page of a chapter, to find a control takes longer than to move it.
        found = root.get_by_role(role, name=label, exact=True).element_handle()
        if isinstance(control, Slider):
            start = found.input_value()
            for key in KEYS:
                found.press(key)
                yield f"{control.name} {key}", read(page, identity)
            found.evaluate("(s, v) => { s.value = v; s.dispatchEvent(new Event('input')); }", start)
        elif isinstance(control, Choice):
            for index in reversed(range(len(control.values))):
                found.select_option(index=index)
                yield f"{control.name} {control.labels[index]}", read(page, identity)
            found.select_option(index=control.index(control.start))
        else:
            for _ in range(2):
                found.click()
                yield control.name, read(page, identity)
    settled(page, identity)


def differences(page: Page, shown: dict[str, Explorer]) -> float:
    """Move everything in the panels of a page. Returns the largest difference from torch; 0.001 is too much."""
    largest = 0.0
    assert sorted(page.eval_on_selector_all("figure.pe-panel", "all => all.map(e => e.id)")) == sorted(shown)
    for identity, explorer in shown.items():
        live(page, identity)
        largest = max(largest, compare(read(page, identity), explorer))
        for moved, got in moves(page, identity, explorer):
            far = compare(got, explorer)
            assert far < 1e-3, f"{identity}: after {moved} the page differs from torch by {far:.2g}"
            largest = max(largest, far)
        for label, values in explorer.presets.items():
            page.locator(f"#{identity}").get_by_role("button", name=label, exact=True).click()
            got = read(page, identity)
            assert got["shown"].items() >= explorer.wire(values).items()
            largest = max(largest, compare(got, explorer))
        assert page.locator(f"#{identity} .pe-message").is_hidden()
    return largest
