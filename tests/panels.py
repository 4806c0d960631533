"""Moves the panels of a page in a browser, and compares what they hold with what torch returns."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc._explore.controls import Choice, Slider
from posenc._explore.explorer import Explorer

if TYPE_CHECKING:
    from playwright.sync_api import Page

SETTLED = """panel => !panel.running && Object.keys(panel.values).every(n => panel.values[n] === panel.shown[n])"""
READ = """panel => {
  const coded = bytes => {
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  };
  const tensors = panel.tensors.map(({ shape, data }) =>
    ({ shape, data: coded(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) }));
  return { shown: { ...panel.shown }, tensors };
}"""
# One control goes through values, as by a reader's hand, and what the panel holds is read after each; then the graph is
# asked for more values, which nobody draws. All of it in one call, since to find a control on the page of a chapter
# takes longer than to move it.
MOVE = f"""async (input, [id, name, values, asked]) => {{
  const {{ panel }} = document.getElementById(id), read = {READ}, settled = {SETTLED}, found = [];
  for (const value of values) {{
    if (input.type === "checkbox") input.click();
    else {{
      input.value = value;
      input.dispatchEvent(new Event(input.localName === "select" ? "change" : "input", {{ bubbles: true }}));
    }}
    const late = performance.now() + 30_000;
    while (!settled(panel)) {{
      if (performance.now() > late) throw new Error(`no answer to ${{value}} in 30 s: ${{panel.message.textContent}}`);
      await new Promise(requestAnimationFrame);
    }}
    found.push(read(panel));
  }}
  for (const value of asked) {{
    const shown = {{ ...panel.shown, [name]: value }};
    found.push(read({{ shown, tensors: await panel.engine.compute(shown) }}));
  }}
  return found;
}}"""


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
    """What a panel shows: the values of its controls, and its tensors."""
    return page.evaluate(f"id => ({READ})(document.getElementById(id).panel)", identity)


def difference(got: dict[str, Any], explorer: Explorer) -> float:
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


def compare(page: Page, identity: str, explorer: Explorer) -> float:
    return difference(read(page, identity), explorer)


def between(control: Slider) -> list[int | float]:
    """Two values inside the range of a slider: a third of the way up, and nearly at the end."""
    if control.integer:
        steps = int((control.max - control.min) // control.step)
        return [int(control.min + control.step * step) for step in (steps // 3, max(0, steps - 1))]
    if control.log:
        return [control.min * (control.max / control.min) ** share for share in (0.37, 0.98)]
    return [control.min + (control.max - control.min) * share for share in (0.37, 0.98)]


def moves(page: Page, identity: str, explorer: Explorer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Move each control of a panel to its ends and back to its start, and ask for values between: what is there."""
    root = page.locator(f"#{identity}")
    for control in explorer.controls:
        label = control.name.replace("_", " ")
        values: list[Any]
        asked: list[Any] = []
        if isinstance(control, Slider):
            input = root.get_by_role("slider", name=label, exact=True)
            values = [int(input.evaluate(f"e => e.{name}")) for name in ("min", "max", "value")]
            asked = between(control)
        elif isinstance(control, Choice):
            input = root.get_by_role("combobox", name=label, exact=True)
            values = [*map(str, reversed(range(len(control.values)))), str(control.index(control.start))]
        else:
            input = root.get_by_role("checkbox", name=label, exact=True)
            values = [not control.start, control.start]
        found = input.evaluate(MOVE, [identity, control.name, values, asked])
        seen = {got["shown"][control.name] for got in found[: len(values)]}
        assert len(seen) == len(set(values)), (
            f"{identity}: {control.name} takes only {seen} on its way through {values}"
        )
        for value, got in zip([*values, *asked], found, strict=True):
            yield f"{control.name} {value}", got


def differences(page: Page, shown: dict[str, Explorer]) -> float:
    """Move everything in the panels of a page. Returns the largest difference from torch; 0.001 is too much."""
    largest = 0.0
    assert sorted(page.eval_on_selector_all("figure.pe-panel", "all => all.map(e => e.id)")) == sorted(shown)
    for identity, explorer in shown.items():
        live(page, identity)
        largest = max(largest, compare(page, identity, explorer))
        for moved, got in moves(page, identity, explorer):
            far = difference(got, explorer)
            assert far < 1e-3, f"{identity}: after {moved} the page differs from torch by {far:.2g}"
            largest = max(largest, far)
        for label, values in explorer.presets.items():
            page.locator(f"#{identity}").get_by_role("button", name=label, exact=True).click()
            settled(page, identity)
            got = read(page, identity)
            assert got["shown"].items() >= explorer.wire(values).items()
            largest = max(largest, difference(got, explorer))
        assert page.locator(f"#{identity} .pe-message").is_hidden()
    return largest
