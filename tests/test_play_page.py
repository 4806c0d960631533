"""play() on a page, in a real browser: it reads as torch does, breaks as it says, writes, and bears any text."""

from __future__ import annotations

import base64
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc import Transformer, play
from posenc._explore.panel import STATIC
from posenc._explore.playing.panel import PlayingPage
from posenc._explore.playing.reader import Reader, settings
from posenc._explore.sphinx import DATA, _apart
from tests.browser import served
from tests.panels import site

LENGTH, ROWS = 16, 24
TEXT = "to be, or not to be, that is the question"
PANEL = "document.querySelector('.pe-reading').learning"
RESTS = f"() => {PANEL}.intact.every(Boolean) && {PANEL}.found.every(f => f && (f.next.length || !f.read))"


def models() -> dict[str, Transformer]:
    made = {}
    for name in ("rope", "learned"):
        torch.manual_seed(2)
        made[name] = Transformer(256, layers=1, model_dim=32, heads=2, encoding=name, length=ROWS)
        if name == "learned":
            torch.nn.init.normal_(made[name].encodings[0].table)
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> str:
    """A page from disk, whose graphs stand in scripts of their own, as in the book."""
    folder = tmp_path_factory.mktemp("play")

    def panels() -> list[Any]:
        PlayingPage._counts.clear()
        return [play(models(), {"Hamlet": TEXT, "digits": "0123456789" * 20}, length=LENGTH, read=48, caption="Type.")]

    site(folder, panels, gap="")
    page = folder / "index.html"
    html = page.read_text(encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc._explore.sphinx.LARGE", 10_000)
        apart = DATA.sub(lambda match: _apart(match[1], folder / "posenc" / "graphs"), html)
    assert len(apart) < len(html) / 2
    page.write_text(apart, encoding="utf-8")
    return page.as_uri()


@torch.no_grad()
def by_torch(name: str, text: bytes, pos: torch.Tensor | None = None, **changes: float) -> list[float]:
    """The bits of each byte after the first."""
    reader, tokens = Reader(models()[name], LENGTH), torch.tensor(list(text))
    pos = torch.arange(len(text)) if pos is None else pos
    found = reader(tokens, pos, *reader.start(), torch.tensor(0), *settings(**changes))[0]
    return found[:-1].gather(-1, tokens[1:, None])[:, 0].tolist()


def bits(page: Any, side: int) -> list[float]:
    return page.evaluate(f"[...{PANEL}.found[{side}].bits].map(v => Number.isNaN(v) ? null : v)")


def close(page: Any, side: int, wanted: list[float], tolerance: float = 1e-3) -> None:
    found = bits(page, side)
    assert found[0] is None and all(v is None for v in found[len(wanted) + 1 :])
    assert max(abs(a - b) for a, b in zip(found[1:], wanted, strict=False)) < tolerance


@torch.no_grad()
def maps(page: Any, name: str, text: bytes, head: int, side: int = 0) -> None:
    """The map of a side shows the logarithm of each weight, and hides what comes later."""
    tokens, reader = torch.tensor(list(text)), Reader(models()[name], LENGTH)
    weights = reader(tokens, torch.arange(len(text)), *reader.start(), torch.tensor(head), *settings())[1]
    shape, found = page.evaluate(
        f"(({{ shape, data }}) => [shape, [...data].map(v => v < -99 ? null : v)])({PANEL}.maps[{side}].tensors[0])"
    )
    assert shape == [len(text), len(text)] and not page.evaluate(f"{PANEL}.maps[{side}].host.hidden")
    wanted = weights.clamp(min=1e-9).log10()
    for query, key in ((0, 0), (0, 1), (9, 2), (len(text) - 1, 0), (len(text) - 1, len(text) - 2)):
        value = found[query * len(text) + key]
        assert (value is None) == (key > query)
        assert value is None or abs(value - wanted[query, key].item()) < 1e-2


def rests(page: Any) -> None:
    page.wait_for_function(RESTS, timeout=120_000)


def typed(page: Any, text: str) -> None:
    page.evaluate(f"text => {{ {PANEL}.found = [null, null]; {PANEL}.field.value = text; {PANEL}.typed(); }}", text)


def chosen(page: Any, name: str, index: int) -> None:
    page.evaluate(f"{PANEL}.found = [null, null]")
    page.get_by_role("combobox", name=name, exact=True).select_option(index=index)
    rests(page)


@pytest.mark.export
def test_a_reader_types_breaks_and_repairs(place, open_page):
    opened = open_page(place)
    page = opened.page
    page.set_default_timeout(120_000)  # a machine may be busy
    whole = TEXT.encode()
    strips = page.locator(".pe-strip")
    assert strips.count() == 2 and "trained up to here, 16 bytes" in strips.first.inner_text()
    close(page, 0, by_torch("rope", whole), 6e-3)  # as it was recorded
    close(page, 1, by_torch("learned", whole[:ROWS]), 6e-3)
    assert "Position 24 has no row: the table has 24" in strips.nth(1).inner_text()
    assert page.locator(".pe-heatmap").evaluate_all("all => all.map(map => map.hidden)") == [True, True]
    assert not [url for url in opened.requested if "runtime" in url or "graphs/" in url]

    strips.first.locator("[data-i='9']").click()  # which needs the models
    rests(page)
    assert len([url for url in opened.requested if "graphs/" in url]) == 2
    close(page, 0, by_torch("rope", whole))
    close(page, 1, by_torch("learned", whole[:ROWS]))
    came = page.locator(".pe-came").all_inner_texts()
    assert len(came) == 2 and all(text.startswith(TEXT[9].replace(" ", "␣")) for text in came)
    assert "Byte 9, “␣”: RoPE " in page.locator(".pe-letter").inner_text() or TEXT[9] != " "
    strips.first.press("ArrowRight")
    assert page.locator(".pe-letter").inner_text().startswith("Byte 10, ")

    page.get_by_role("textbox", name="Your text; it doesn’t leave this page").fill("Ümläute 😀 und so weiter, weiter!")
    page.evaluate(f"{PANEL}.found = [null, null]")
    rests(page)
    close(page, 0, by_torch("rope", "Ümläute 😀 und so weiter, weiter!".encode()))
    assert "😀" in strips.first.inner_text()

    chosen(page, "begin with", 1)
    digits = ("0123456789" * 20).encode()[:48]
    close(page, 0, by_torch("rope", digits))
    chosen(page, "what is broken", 1)
    assert "Expect of RoPE: nothing changes" in page.locator(".pe-expected").inner_text()
    close(page, 0, by_torch("rope", digits), 1e-2)  # offsets alone, but for rounding of angles
    assert page.evaluate(f"{PANEL}.found[1].read") == 0
    assert "Position 1\u202f000 has no row" in strips.nth(1).inner_text()
    chosen(page, "what is broken", 3)
    close(page, 0, by_torch("rope", digits, on=0.0))
    assert "(as trained " in page.locator(".pe-strip-line").first.inner_text()
    chosen(page, "what is broken", 4)
    pos = torch.arange(48)
    close(page, 0, by_torch("rope", digits, pos.where(pos < 8, pos - 8)))
    chosen(page, "what is broken", 5)
    close(page, 0, by_torch("rope", digits, layout=1))
    chosen(page, "what is broken", 0)
    chosen(page, "RoPE’s scaling", 3)
    close(page, 0, by_torch("rope", digits, scaling=3, factor=4.0))
    labels = page.evaluate(f"{PANEL}.loss.spec.labels")
    assert labels == ["RoPE", "RoPE as trained", "learned"]
    assert page.locator("label", has_text="ALiBi’s slopes").is_hidden()
    page.get_by_role("button", name="Reset").click()
    rests(page)

    page.get_by_role("button", name="More controls").click()
    page.get_by_role("combobox", name="colour by").select_option(index=1)
    chosen(page, "attention of", 1)
    strips.first.locator("[data-i='20']").click()
    row = page.evaluate(f"[...{PANEL}.found[0].weights[19]]")
    assert abs(sum(row) - 1) < 1e-3 and len(row) == 20
    ink = strips.first.locator("[data-i]").evaluate_all("all => all.map(e => e.style.getPropertyValue('--pe-ink'))")
    assert max(range(20), key=lambda i: int(ink[i][:-1])) == max(range(20), key=row.__getitem__) and set(ink[20:]) == {
        "0%"
    }
    maps(page, "rope", whole, head=1)
    page.evaluate(f"{PANEL}.maps[0].stage.focus()")
    told = page.evaluate(f"{PANEL}.maps[0].tell({{ row: 9, column: 3 }})")
    weight = page.evaluate(f"10 ** {PANEL}.maps[0].tensors[0].data[9 * {len(whole)} + 3]")
    assert (told["title"], told["values"][0]["name"]) == ("query “␣” (9)", "key “b” (3)")
    assert math.isclose(float(told["values"][0]["text"]), weight, rel_tol=1e-2)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate(f"{PANEL}.letters[{PANEL}.picked].from") == 3  # which the third row predicts
    assert page.evaluate(f"{PANEL}.maps.map(map => map.values.before)") == [2, 2]
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    assert not opened.problems


@pytest.mark.export
def test_it_writes_from_a_cache_and_says_whether_that_is_right(place, open_page):
    opened = open_page(place)
    page = opened.page
    page.set_default_timeout(120_000)  # a machine may be busy
    button = lambda name: page.get_by_role("button", name=name, exact=True)  # noqa: E731
    page.locator(".pe-strip").first.locator("[data-i='11']").click()
    rests(page)
    button("Write").click()
    button("Stop").wait_for()
    page.wait_for_function(f"() => !{PANEL}.writer.writing", timeout=120_000)
    lines = [place.inner_text() for place in page.locator(".pe-writing .pe-strip-line").all()]
    assert all(line.startswith("The cache gives what a full pass gives") for line in lines)
    assert "24 rows and none for position 24" in lines[1]
    reader, tokens = Reader(models()["rope"], LENGTH), list(TEXT.encode()[:12])
    with torch.no_grad():
        for _ in range(40):
            found = reader(
                torch.tensor(tokens), torch.arange(len(tokens)), *reader.start(), torch.tensor(0), *settings()
            )
            tokens.append(int(found[0][-1].argmin()))
    written = page.evaluate(f"{PANEL}.writer.places[0].text.textContent")
    assert written.startswith(
        bytes(tokens[12:]).decode("ascii", "replace").split("\ufffd")[0].replace("\0", "\\x00")[:5]
    )

    chosen(page, "what is broken", 4)
    page.get_by_role("slider", name="temperature", exact=True).evaluate(
        "s => { s.value = s.max; s.dispatchEvent(new Event('input')); }"
    )
    button("Write").click()
    page.wait_for_function(f"() => !{PANEL}.writer.writing", timeout=120_000)
    line = page.locator(".pe-writing .pe-strip-line").first.inner_text()
    assert line.startswith("The cache doesn’t give what a full pass gives")
    button("Write").click()
    button("Stop").click()
    page.wait_for_function(f"() => !{PANEL}.writer.writing", timeout=120_000)
    assert not opened.problems


@pytest.mark.export
def test_any_text_is_borne_and_none_leaves_the_page(place, open_page):
    opened = open_page(place)
    page = opened.page
    page.set_default_timeout(120_000)  # a machine may be busy
    typed(page, "abc")
    rests(page)
    before = len(opened.requested)
    nothing = f"() => {PANEL}.status.textContent.startsWith('There’s nothing to predict')"
    for text in ("", "a"):
        typed(page, text)
        page.wait_for_function(nothing)
    typed(page, "")
    page.wait_for_function(nothing)
    page.get_by_role("button", name="Write", exact=True).click()
    assert "nothing to go on from" in page.locator(".pe-writing").inner_text()
    typed(page, "x" * 100_000)
    rests(page)
    assert "The text has 100\u202f000 bytes; the models read the first 48." in page.locator(".pe-body").inner_text()
    evil = "<img src=x onerror=document.title=1><b>b</b></script>"
    for text, seen in (
        (evil, evil[:30]),
        ("😀" * 30, "😀" * 12),
        ("\ud800a\udfff\0", "\ufffda\ufffd\\x00"),
        ("&lt;", "&lt;"),
    ):
        typed(page, text)
        rests(page)
        read = page.locator(".pe-strip").first.locator("[data-i]").evaluate_all("all => all.map(e => e.textContent)")
        assert seen in "".join(read)
        assert page.locator(".pe-reading img, .pe-reading b:not(.pe-expected b)").count() == 0
    assert page.title() == "Explorers" and len(opened.requested) == before
    assert not opened.problems


@pytest.mark.export
def test_only_the_newest_wish_is_shown_and_a_page_without_workers_reads(place, open_page):
    opened = open_page(place)
    page = opened.page
    page.set_default_timeout(120_000)  # a machine may be busy
    page.evaluate("() => { globalThis.Worker = class { constructor() { throw new Error('forbidden'); } } }")
    page.evaluate(f"() => {{ for (const base of [100, 200, 300]) {PANEL}.set({{ base }}); }}")
    rests(page)
    close(page, 0, by_torch("rope", TEXT.encode(), base=300.0))
    assert page.evaluate(f"{PANEL}.message.hidden")
    assert not opened.problems


HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Kernel</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"><div id="cell"></div><script type="module">
import widget from "./widget.js";
const spec = await ask(null), told = new Set();
const model = {
  get: () => spec, on: (_, react) => told.add(react), off: (_, react) => told.delete(react),
  send: async message => {
    const [answer, buffers] = await ask(message);
    const views = buffers.map(b => new DataView(Uint8Array.from(atob(b), c => c.charCodeAt(0)).buffer));
    for (const react of told) react(answer, views);
  },
};
globalThis.close_ = widget.render({ model, el: document.getElementById("cell") });
</script>"""


def test_a_kernel_reads_in_the_same_panel(tmp_path: Path, browser: Any) -> None:
    """The front end of a notebook, whose messages a live panel answers."""
    for name in ("widget.js", "style.css"):
        shutil.copy(STATIC / name, tmp_path / name)
    (tmp_path / "index.html").write_text(HOST, encoding="utf-8")
    panel = play(models(), {"Hamlet": TEXT}, length=LENGTH, read=48)
    sent: list[Any] = []
    panel.send = lambda message, buffers=(): sent.append((message, buffers))

    def ask(message: Any) -> Any:
        if message is None:
            return panel._spec
        panel._answer(panel, message, [])
        answer, buffers = sent.pop()
        return [answer, [base64.b64encode(buffer).decode() for buffer in buffers]]

    page = browser.new_page(reduced_motion="reduce")
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.expose_function("ask", ask)
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        rests(page)
    close(page, 0, by_torch("rope", TEXT.encode()), 1e-5)  # torch itself
    assert math.isclose(bits(page, 1)[5], by_torch("learned", TEXT.encode()[:ROWS])[4], abs_tol=1e-5)
    maps(page, "rope", TEXT.encode(), head=0)
    maps(page, "learned", TEXT.encode()[:ROWS], head=0, side=1)
    panel._desk.readers.pop("rope")
    page.evaluate(f"{PANEL}.set({{ base: 555 }})")
    page.wait_for_function(f"() => !{PANEL}.message.hidden")
    assert "KeyError" in page.get_by_role("alert").inner_text()
    page.evaluate("close_()")
    assert page.locator("#cell").inner_text() == "" and not problems
    page.close()
