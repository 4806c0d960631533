"""Moves the panels of a page in a browser, and compares what they hold with what torch returns."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from posenc._explore.controls import Choice, Slider, Tick
from posenc._explore.explorer import Explorer
from posenc._explore.panel import Page as PageOfBook
from posenc._explore.sphinx import ship
from tests.browser import FAILED, Contexts, Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SETTLED = "panel => !panel.running && Object.keys(panel.values).every(n => panel.values[n] === panel.shown[n])"
# What is wrong with the form of a panel, at its width and at that of a phone: texts that meet or stick out, oblong
# squares, words that lean, plots side by side that do not begin and end on one line. The form follows from texts and
# sizes. Where texts of the same sizes stand in the same places as at an earlier call with this set of forms without
# faults, the other width shows no new form. A panel that may `stay` keeps the width that was looked at last; the next
# call begins with that.
FAULTS = """(panel, forms = new Set(), stay = false) => {
  const found = [];
  const pictures = () => panel.all.flatMap(view => view.parts ?? [view]).filter(view => view.frame);
  const outline = () => {  // the words outside pictures, figures apart, and all that has a place, with its words
    const edge = panel.stages.getBoundingClientRect();
    const placed = [...panel.stages.querySelectorAll(".pe-view, .pe-stage, svg, text")].map(e => {
      const { left, top, width, height } = e.getBoundingClientRect(), own = e.localName === "text" ? e : null;
      return [left - edge.left, top - edge.top, width, height].map(v => v.toFixed(1)).join(" ") + (own
        && own.textContent.replace(/\\d/g, "0") + own.getAttribute("class") + own.hasAttribute("transform")
        + own.getAttribute("visibility"));
    });
    const plots = pictures().map(view => [view.frame.plot, view.tensors[0].shape]);
    return JSON.stringify([edge.width, panel.stages.textContent.replace(/\\d/g, "0"), placed, plots]);
  };
  const widen = width => {
    panel.stages.style.width = width ? `${width}px` : "";
    panel.arranged();
  };
  const first = parseInt(panel.stages.style.width) || 0, seen = [];
  for (const width of [first, 320 - first]) {
    if (width !== first) widen(width);
    const edge = panel.stages.getBoundingClientRect();
    for (const svg of panel.stages.querySelectorAll("svg")) {
      if (Math.abs(svg.getBoundingClientRect().width - svg.viewBox.baseVal.width) > 0.5) found.push(`${width}: scaled`);
      const texts = [...svg.querySelectorAll("text")]
        .filter(e => e.textContent && e.getAttribute("visibility") !== "hidden")
        .map(e => [e.textContent, e.getBoundingClientRect(), e.hasAttribute("transform")]);
      texts.forEach(([one, a, leans], i) => {
        if (leans) found.push(`${width}: “${one}” leans`);
        if (a.left < edge.left - 1 || a.right > edge.right + 1) found.push(`${width}: “${one}” sticks out`);
        for (const [other, b] of texts.slice(0, i)) {
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (wide > 0.5 && high > 2.5) found.push(`${width}: “${one}” and “${other}” meet`);
        }
      });
    }
    const rows = new Map();
    for (const view of pictures()) {
      const { plot } = view.frame, [high, wide] = view.tensors[0].shape;
      const oblong = view.spec.kind === "heatmap" && high === wide && Math.abs(plot.width - plot.height) > 1;
      if (oblong) found.push(`${width}: a square is oblong`);
      const row = view.host.getBoundingClientRect().top;
      const top = view.stage.getBoundingClientRect().top + plot.top;
      const key = [...rows.keys()].find(other => Math.abs(other - row) < 2) ?? row;
      rows.set(key, [...(rows.get(key) ?? []), [top, top + plot.height]]);
    }
    for (const ends of rows.values()) {
      for (const [end, name] of ["tops", "bottoms"].entries()) {
        const places = ends.map(each => each[end]);
        if (Math.max(...places) - Math.min(...places) > 1) found.push(`${width}: ${name} at ${places}`);
      }
    }
    const here = outline();
    if (forms.has(here)) break;
    seen.push(here);
  }
  if (!stay && panel.stages.style.width) widen(0);
  if (!found.length) seen.forEach(here => forms.add(here));
  return [...new Set(found)];
}"""
WIDEN = """id => {
  const { panel } = document.getElementById(id);
  panel.stages.style.width = "";
  panel.arranged();
}"""
READ = f"""async ([id, stay]) => {{
  const {{ panel }} = document.getElementById(id), settled = {SETTLED}, late = performance.now() + 30_000;
  const fits = () => [...panel.stages.querySelectorAll("svg")]  // the page may have changed the panel's width just now
    .every(svg => Math.abs(svg.getBoundingClientRect().width - svg.viewBox.baseVal.width) <= 0.5);
  const {{ port1, port2 }} = new MessageChannel();
  const soon = () => new Promise(done => {{ port1.onmessage = done; port2.postMessage(null); }});
  for (let frame = 0; !settled(panel) || (frame < 30 && !fits());) {{
    if (performance.now() > late) throw new Error(`${{id}} has no answer after 30 s: ${{panel.message.textContent}}`);
    if (!settled(panel)) await soon();  // which, unlike a frame, draws nothing
    else await new Promise(requestAnimationFrame).then(() => frame++);
  }}
  port1.close();
  const forms = (globalThis.formsWithoutFault ??= {{}})[id] ??= new Set();
  const coded = bytes => {{
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  }};
  const tensors = panel.tensors.map(({{ shape, data }}) =>
    ({{ shape, data: coded(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) }}));
  return {{ shown: panel.shown, tensors, faults: ({FAULTS})(panel, forms, stay) }};
}}"""
# Moves a control to places, one after the other, and reads each: the frames in between, most of the time, are left out.
MOVES = f"""async (control, [id, places]) => {{
  const found = [], {{ type, min, max }} = control, read = {READ};
  if (type === "range") places = [min, max].map(Number);  // by hand it was a step from its start
  for (const place of places) {{
    control[type === "range" ? "value" : type === "checkbox" ? "checked" : "selectedIndex"] = place;
    for (const kind of ["input", "change"]) control.dispatchEvent(new Event(kind, {{ bubbles: true }}));
    found.push([String(place), await read([id, true])]);
  }}
  return found;
}}"""


GAP = '<div style="height: 4000px"></div>'


def site(folder: Path, panels: Callable[[], Sequence[Any]], gap: str = GAP) -> None:
    """A page of the panels that a function makes, as in a book, with all that they need; `gap` stands above them."""
    pytest.importorskip("onnxruntime")
    ship(folder / "posenc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POSENC_BOOK", "1")
        patch.setattr(PageOfBook, "_counts", {})
        elements = "".join(panel._repr_mimebundle_()["text/html"] for panel in panels())
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Explorers</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="posenc/style.css">'
    )
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en">{head}'
        f"<body><main><h1>Explorers</h1>{gap}{elements}</main><script defer src=posenc/page.js></script>",
        encoding="utf-8",
    )


RESTORE = """async () => {
  for (const { panel } of document.querySelectorAll("figure.pe-panel")) {
    if (!panel?.tensors) continue;
    panel.stop();
    if (panel.pinned) panel.pin(null);
    panel.root.style.width = "";
    panel.data.open = false;
    panel.more.hidden = true;
    const { compare, controls } = panel.spec, versus = controls.find(({ name }) => name === compare);
    if (versus) panel.oppose((panel.starts[compare] + 1) % versus.labels.length);
    if (Object.entries(panel.starts).some(([name, value]) => panel.values[name] !== value)) {
      panel.set(panel.starts, false); // other panels keep what they share with this one
    }
    while (panel.running) await new Promise(requestAnimationFrame);
    clearTimeout(panel.fading);
    panel.forget();
    panel.complain(null);
    panel.status.textContent = "";
  }
  document.activeElement?.blur();
  if (location.hash || history.state) history.replaceState(null, "", location.href.replace(/#.*/, ""));
  scrollTo(0, 0);
}"""


class Shared:
    """A page of panels that tests take in turn. Each finds the panels as they began; after a failure, a new page."""

    def __init__(self, browser: Browser, address: str, name: str) -> None:
        self.address = address
        self.contexts = Contexts(browser, name)
        self.opened: Opened | None = None

    @contextlib.contextmanager
    def lent(self, test: pytest.Item) -> Iterator[Opened]:
        opened = self.opened = self.opened or self.contexts.open(self.address)
        yield opened
        if test.stash.get(FAILED, False):
            self.close(keep=True)
            return
        opened.page.mouse.move(1, 1)
        opened.page.evaluate(RESTORE)
        problems = list(opened.problems)
        opened.problems.clear()
        assert not problems

    def close(self, keep: bool = False) -> None:
        self.contexts.close(keep)
        self.contexts.contexts.clear()
        self.opened = None


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


def read(page: Page, identity: str, stay: bool = False) -> dict[str, Any]:
    """What a panel shows once it has settled: the values of its controls, its tensors, and faults of its form.

    A panel that may stay is left as wide as it was looked at last, which saves the way back.
    """
    return page.evaluate(READ, [identity, stay])


def compare(got: dict[str, Any], explorer: Explorer) -> float:
    """The largest difference between what the page holds and what torch returns, relative to the largest value.

    Fails if the panel's form has a fault.
    """
    assert got["faults"] == [], got["faults"]
    wanted = explorer.run(explorer.unwire(got["shown"]))
    assert len(got["tensors"]) == len(wanted)
    largest = 0.0
    for ours, true in zip(got["tensors"], wanted, strict=True):
        assert ours["shape"] == list(true.shape)
        data = np.frombuffer(base64.b64decode(ours["data"]), np.float32).reshape(ours["shape"])
        finite = np.isfinite(true.numpy())
        np.testing.assert_array_equal(data[~finite], true.numpy()[~finite])  # infinite on the same side
        assert np.isfinite(data[finite]).all()
        scale = max(1.0, float(np.abs(true.numpy()[finite]).max(initial=0.0)))
        largest = max(largest, float(np.abs(data[finite] - true.numpy()[finite]).max(initial=0.0)) / scale)
    return largest


def moves(page: Page, identity: str, explorer: Explorer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Move each control of a panel once by hand, to its other places and back: what was done, and what is there."""
    root = page.locator(f"#{identity}")
    if explorer.more:
        root.get_by_role("button", name="More controls").click()
    for control in explorer.controls:
        side = "A: " if explorer.compare == control.name else ""
        label = " ".join([side + explorer.label(control.name), explorer.units.get(control.name, "")]).strip()
        role = {Slider: "slider", Choice: "combobox", Tick: "checkbox"}[type(control)]
        # Found once: on the page of a chapter, to find a control takes longer than to move it.
        found = root.get_by_role(role, name=label, exact=True).element_handle()
        disabled, value, index, checked = found.evaluate("e => [e.disabled, e.value, e.selectedIndex, e.checked]")
        if disabled:  # it does nothing in this state
            continue
        places: list[Any] = []
        if isinstance(control, Slider):
            found.focus()
            page.keyboard.press("ArrowRight")
        elif isinstance(control, Choice):
            first, *places = (n for n in reversed(range(len(control.values))) if n != index)
            found.select_option(index=first)
            places.append(index)
        else:
            found.click()
            places.append(checked)
        got = read(page, identity, True)
        yield f"{control.name}, by hand", got
        values = {got["shown"][control.name]}
        for place, got in found.evaluate(MOVES, [identity, places]):
            yield f"{control.name} at {place}", got
            values.add(got["shown"][control.name])
        assert len(values) >= (len(control.values) if isinstance(control, Choice) else 2), (
            f"{control.name} did not move"
        )
        if isinstance(control, Slider):
            assert found.evaluate("slider => slider === document.activeElement"), f"{control.name} lost the focus"
            found.evaluate("(s, v) => { s.value = v; s.dispatchEvent(new Event('input')); }", value)
    settled(page, identity)


def differences(page: Page, shown: dict[str, Explorer]) -> float:
    """Move everything in the panels of a page. Returns the largest difference from torch; 0.001 is too much."""
    largest = 0.0
    computing = "figure.pe-panel:not(.pe-learn, .pe-dump)"
    assert sorted(page.eval_on_selector_all(computing, "all => all.map(e => e.id)")) == sorted(shown)
    for identity, explorer in shown.items():
        live(page, identity)
        largest = max(largest, compare(read(page, identity, True), explorer))
        for moved, got in moves(page, identity, explorer):
            far = compare(got, explorer)
            assert far < 1e-3, f"{identity}: after {moved} the page differs from torch by {far:.2g}"
            largest = max(largest, far)
        for label, values in explorer.presets.items():
            page.locator(f"#{identity}").get_by_role("button", name=label, exact=True).click()
            got = read(page, identity, True)
            assert got["shown"].items() >= explorer.wire(values).items()
            largest = max(largest, compare(got, explorer))
        assert page.locator(f"#{identity} .pe-message").is_hidden()
        page.evaluate(WIDEN, identity)
    return largest
