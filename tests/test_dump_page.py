"""The panel of a dump in a real browser: samples, files, what it asks and what it refuses, by mouse and by keyboard."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc import alibi_slopes, frequencies, rotate
from posenc._explore.panel import STATIC
from posenc.audit import identifier, identify
from posenc.audit.errors import first_line
from tests.browser import served
from tests.panels import site
from tests.test_identify import F64, draw, freq, turn

SAVED = pytest.importorskip("safetensors.torch")
POS = torch.cat([torch.arange(20), torch.tensor([50, 120, 300, 800, 2000, 5000])])


def sample(base: float, layout: Any, seed: int = 0) -> tuple[torch.Tensor, ...]:
    x = draw(26, 64, seed=seed).float()
    return x, rotate(x.double(), POS, frequencies(64, base, dtype=F64), layout=layout).float(), POS


SCORES = draw(4, 20, 20).float()
COSTS = (torch.arange(20) - torch.arange(20)[:, None]) * alibi_slopes(4)[:, None, None]
HIDDEN = torch.full((20, 20), -torch.inf).triu(1)
SAMPLES: dict[str, Any] = {
    "halves": sample(500_000.0, "half"),
    "neighbours": sample(10_000.0, "interleaved", 1),
    "a bias": (SCORES, SCORES + COSTS + HIDDEN),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dump")
    site(folder, lambda: [identifier(SAMPLES, caption="Choose a sample.")], gap="")
    return (folder / "index.html").as_uri()


@pytest.fixture
def panel(place: str, open_page: Any) -> Any:
    opened = open_page(place)
    opened.page.wait_for_selector(".pe-found dd")
    return opened.page


def said(page: Any) -> list[str]:
    return [p.inner_text() for p in page.locator(".pe-found .pe-said").all()]


def drop(page: Any, *paths: Path) -> None:
    page.locator("input[type=file]").set_input_files([str(path) for path in paths])


def answered(page: Any, name: str) -> str:
    page.wait_for_function(f"""() => {{
      const said = document.querySelector('.pe-status').textContent;
      return said.startsWith({json.dumps(name)}) && !said.endsWith('…');
    }}""")
    message = page.locator(".pe-message")
    return message.inner_text() if message.is_visible() else ""


def three(**how: Any) -> dict[str, torch.Tensor]:
    x = draw(2, 4, 24, 64).float()
    pos = torch.arange(24) + 3
    return {"before": x, "after": turn(x.double(), pos, freq(64, 500_000.0), **how).float(), "positions": pos}


def test_the_first_sample_is_shown_before_anything_is_asked(panel: Any) -> None:
    assert said(panel) == list(identify(SAMPLES["halves"]).sentences)
    assert panel.evaluate("globalThis.posencIdentify === undefined")  # nothing more was loaded
    assert "arcs join those that turn together: half" in panel.locator(".pe-channels").get_attribute("aria-label")


def test_a_sample_is_read_by_mouse_and_by_keyboard(panel: Any) -> None:
    panel.get_by_role("button", name="neighbours").click()
    assert answered(panel, "neighbours.npz") == ""
    assert said(panel) == list(identify(SAMPLES["neighbours"]).sentences)
    panel.keyboard.press("Shift+Tab")
    panel.keyboard.press("Enter")
    assert answered(panel, "halves.npz") == ""
    assert said(panel) == list(identify(SAMPLES["halves"]).sentences)
    assert panel.get_by_role("button", name="halves").get_attribute("aria-pressed") == "true"
    panel.keyboard.press("Shift+Tab")
    assert panel.evaluate("document.activeElement.type") == "file"
    panel.get_by_role("button", name="a bias").click()
    assert answered(panel, "a-bias.npz") == ""
    assert said(panel) == list(identify(SAMPLES["a bias"]).sentences)
    assert "each of 4 heads, from j − i = -19 to 0" in panel.locator(".pe-costs").get_attribute("aria-label")
    assert "all keys behind itself and 0 ahead" in panel.locator(".pe-window").get_attribute("aria-label")


def test_files_are_read_and_nothing_leaves_the_page(panel: Any, tmp_path: Path) -> None:
    requests: list[str] = []
    panel.on("request", lambda request: requests.append(request.url))
    arrays = three()
    np.savez_compressed(tmp_path / "q.npz", **{name: each.numpy() for name, each in arrays.items()})
    narrow = {name: each if name == "positions" else each.bfloat16() for name, each in arrays.items()}
    SAVED.save_file(narrow, tmp_path / "k.safetensors")
    for name in ("q.npz", "k.safetensors"):
        drop(panel, tmp_path / name)
        assert answered(panel, name) == ""
        assert said(panel) == list(identify(tmp_path / name).sentences)
    assert "float32 (2, 4, 24, 64)" not in panel.locator(".pe-held").inner_text()
    assert "bfloat16 (2, 4, 24, 64)" in panel.locator(".pe-held").inner_text()
    assert [url for url in requests if not url.endswith("identify.js") and not url.startswith("blob:")] == []


def test_a_file_is_dropped(panel: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "q.npz", **{name: each.numpy() for name, each in three().items()})
    panel.evaluate(
        """content => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(content)], "q.npz"));
      const panel = document.querySelector(".pe-dump");
      panel.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
      panel.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }""",
        list((tmp_path / "q.npz").read_bytes()),
    )
    assert answered(panel, "q.npz") == ""
    assert "Base 500,000" in said(panel)[1]


def test_names_that_say_nothing_are_asked_for(panel: Any, tmp_path: Path) -> None:
    arrays = three()
    np.savez(tmp_path / "odd.npz", q=arrays["before"], r=arrays["after"], p=arrays["positions"])
    drop(panel, tmp_path / "odd.npz")
    assert "q, r, p, and none with a name that says which is q or k before" in answered(panel, "odd.npz")
    assert panel.evaluate("document.activeElement.labels[0].textContent") == "q or k before"
    for label, name in (("q or k before", "q"), ("the same after", "r"), ("positions", "p")):
        panel.get_by_label(label).select_option(name)
    panel.wait_for_selector(".pe-found .pe-said")
    assert "Base 500,000" in said(panel)[1]
    np.savez(tmp_path / "odd.npz", a=SCORES.numpy(), b=(SCORES + COSTS).numpy())
    drop(panel, tmp_path / "odd.npz")
    assert "has a, b, and none" in answered(panel, "odd.npz")
    panel.get_by_label("what the file holds").select_option("scores around a bias")  # two arrays, taken in their order
    panel.wait_for_selector(".pe-found .pe-said")
    assert "ALiBi: 4 heads" in said(panel)[0] and "Keys of the future are rewarded" in said(panel)[1]
    assert not panel.get_by_label("order of axes").is_visible() and not panel.get_by_label("positions").is_visible()


def test_an_order_of_axes_that_could_be_either_is_asked_for(panel: Any, tmp_path: Path) -> None:
    arrays = three()
    square = {"before": draw(24, 24, 64).float(), "positions": arrays["positions"]}
    square["after"] = turn(square["before"].double(), square["positions"], freq(64)).float()
    np.savez(tmp_path / "square.npz", **{name: each.numpy() for name, each in square.items()})
    drop(panel, tmp_path / "square.npz")
    assert answered(panel, "square.npz") == ""  # the other reading is no rotation
    panel.locator("summary").click()
    panel.get_by_label("order of axes").select_option("last")
    panel.wait_for_selector(".pe-message:not([hidden])")
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        identify(tmp_path / "square.npz", heads="last")
    assert panel.locator(".pe-message").inner_text() == f"{refused.value}."


def bad(folder: Path) -> dict[str, str]:
    """Files by name that are no dump, and what is said of each."""
    arrays = {name: each.numpy() for name, each in three().items()}
    np.savez(folder / "whole.npz", **arrays)
    whole = (folder / "whole.npz").read_bytes()
    nan = np.where(np.arange(64) == 3, np.nan, arrays["before"])
    changed: dict[str, tuple[Any, str]] = {
        "nan.npz": (nan, "not finite, the first at (0, 0, 0, 3)"),
        "text.npz": (np.array(["a", "b"]), "and no numbers that are read here"),
        "object.npz": (np.array([{}, 1], dtype=object), "and no numbers that are read here"),
        "large.npz": (np.zeros((300, 300, 64), "f4"), "5,760,000 numbers, and a page reads 4,000,000 at most"),
    }
    for name, (before, _) in changed.items():
        np.savez(folder / name, **{**arrays, "before": before})
    np.save(folder / "one.npy", arrays["before"])
    place = b'{"before":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}} '
    plain = {
        "empty.npz": (b"", "is empty"),
        "zip.npz": (b"PK nonsense that is no zip", "cut off, or no zip"),
        "cut.npz": (whole[:4000], "cut off"),
        "some.txt": (b"1 2 3, no dump", "neither a .npz nor"),
        "model.pt": (b"\x80\x02 a pickle", "can run code"),
        "cut.safetensors": ((1 << 30).to_bytes(8, "little") + b"{", "cut off"),
        "json.safetensors": ((2).to_bytes(8, "little") + b"{]", "no JSON"),
        "place.safetensors": (len(place).to_bytes(8, "little") + place, "cut off within before"),
    }
    for name, (content, _) in plain.items():
        (folder / name).write_bytes(content)
    return {"one.npy": "a single array", **{name: said for name, (_, said) in {**changed, **plain}.items()}}


def test_bad_files_are_named_with_a_remedy(panel: Any, tmp_path: Path) -> None:
    for name, wanted in bad(tmp_path).items():
        drop(panel, tmp_path / name)
        assert wanted in answered(panel, name), name
        assert not said(panel), name
    drop(panel, tmp_path / "whole.npz")  # and goes on
    assert answered(panel, "whole.npz") == "" and "Base 500,000" in said(panel)[1]


def test_a_page_without_script_says_the_first_sample(place: str, browser: Any) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(place)
    text = page.locator(".pe-dump").inner_text()
    assert all(sentence in text for sentence in identify(SAMPLES["halves"]).sentences)
    assert len(page.locator(".pe-still svg").get_attribute("aria-label")) > 20
    page.close()


def test_a_policy_without_workers_is_served_in_the_page(panel: Any) -> None:
    panel.evaluate("() => { globalThis.Worker = function () { throw new DOMException('no', 'SecurityError'); }; }")
    panel.get_by_role("button", name="neighbours").click()
    assert answered(panel, "neighbours.npz") == ""
    assert said(panel) == list(identify(SAMPLES["neighbours"]).sentences)


def test_it_is_accessible_and_fits_a_phone(panel: Any) -> None:
    panel.set_viewport_size({"width": 390, "height": 844})
    panel.locator("summary").click()
    panel.add_script_tag(path=str(Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"))
    found = panel.evaluate("axe.run('.pe-dump').then(({ violations }) => violations.map(v => v.id))")
    assert found == []
    assert panel.evaluate("document.documentElement.scrollWidth") <= 390


HOST = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"><div id="cell"></div>
<script type="module">
import widget from "./widget.js";
const told = [];
const model = {
  get: name => spec,
  on: (event, react) => told.push(react),
  off: () => {},
  send: async (message, _, buffers = []) => {
    const answer = await ask(message, buffers.map(bytes => [...bytes]));
    for (const react of told) react(answer, []);
  },
};
const spec = await ask(null, []);
globalThis.close_ = widget.render({ model, el: document.getElementById("cell") });
</script>"""


def test_a_kernel_answers_the_same_panel(tmp_path: Path, browser: Any) -> None:
    """The front end of a notebook, whose messages a live panel answers."""
    for name in ("widget.js", "style.css"):
        shutil.copy(STATIC / name, tmp_path / name)
    (tmp_path / "index.html").write_text(HOST, encoding="utf-8")
    live: Any = identifier(SAMPLES)
    sent: list[Any] = []
    live.send = lambda message, buffers=(): sent.append(message)

    def ask(message: Any, buffers: list[list[int]]) -> Any:
        if message is None:
            return live._spec
        live._answer(live, message, [bytes(each) for each in buffers])
        return json.loads(json.dumps(sent.pop()))

    page = browser.new_page()
    page.expose_function("ask", ask)
    np.savez(tmp_path / "q.npz", **{name: each.numpy() for name, each in three().items()})
    (tmp_path / "none.npz").write_bytes(b"PK nonsense")
    with served(tmp_path) as address:
        page.goto(f"{address}/index.html")
        page.wait_for_selector(".pe-found dd")
        drop(page, tmp_path / "q.npz")
        assert answered(page, "q.npz") == "" and said(page) == list(identify(tmp_path / "q.npz").sentences)
        drop(page, tmp_path / "none.npz")
        assert first_line(ValueError("none.npz cannot be read")) in answered(page, "none.npz")
    page.close()


def test_a_bias_may_be_the_first_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_BOOK", "1")
    page = identifier({"a bias": SAMPLES["a bias"]})._repr_mimebundle_()["text/html"]
    assert "ALiBi: 4 heads" in page and "What a distance costs" in page


def test_a_panel_without_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="samples is empty"):
        identifier({})
    with pytest.raises(ValueError, match="a sample has 4 arrays"):
        identifier({"four": (SCORES, SCORES, SCORES, SCORES)})
    with pytest.raises(ValueError, match="no channel turns"):
        identifier({"still": (draw(24, 64), draw(24, 64), torch.arange(24))})
