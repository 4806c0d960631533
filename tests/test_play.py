"""play(): trained models that read. Reader, graph and kernel agree with the models, and what is wrong is said."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re

import numpy as np
import pytest
import torch

from posenc import ENCODINGS, SCHEMES, ALiBi, NoPE, RoPE, Transformer, play
from posenc._explore.export import ExportError
from posenc._explore.playing.breaks import BREAKS, kind
from posenc._explore.playing.desk import Desk
from posenc._explore.playing.graph import Run, graph, verify
from posenc._explore.playing.panel import Playing, PlayingPage
from posenc._explore.playing.reader import SCALINGS, Reader, settings
from posenc._explore.sphinx import _apart
from posenc.lab import evidence
from posenc.lab.weights import trained
from posenc.schemes.scaling import interpolate, ntk, yarn, yarn_attention_factor
from posenc.schemes.sinusoidal import frequencies

TOKENS = torch.arange(40) * 11 % 256
POS = torch.arange(40)


def small(encoding="rope", layers=2, **options) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(256, layers=layers, model_dim=32, heads=2, encoding=encoding, length=64, **options)
    for parameter in model.encodings.parameters():  # tables begin at zero, which would tell nothing
        torch.nn.init.normal_(parameter)
    return model.eval()


@torch.no_grad()
def read(reader, tokens=TOKENS, pos=POS, head=0, **changes):
    return reader(tokens, pos, *reader.start(), torch.tensor(head), *settings(**changes))


def bits(logits):
    return -logits[0].log_softmax(-1) / math.log(2)


@torch.no_grad()
def same(one, other, tolerance=1e-4):
    assert (one - other).abs().max() <= tolerance * other.abs().max().clamp(min=1)


# The reader


@pytest.mark.parametrize("scheme", sorted(ENCODINGS))
@pytest.mark.parametrize("shared", [True, False])
@torch.no_grad()
def test_a_reader_is_its_model(scheme, shared):
    reader = Reader(small(scheme, shared=shared), 32)
    found, weights, *_ = read(reader, head=3)
    wanted, layers = reader.model(TOKENS[None], return_weights=True)
    same(found, bits(wanted))
    same(weights, layers[1][0, 1])
    state, pieces = reader.start(), []
    for begin, end in ((0, 17), (17, 18), (18, 40)):
        piece, row, *state = reader(TOKENS[begin:end], POS[begin:end], *state, torch.tensor(3), *settings())
        pieces.append(piece)
        same(row, layers[1][0, 1, begin:end, :end])
    same(torch.cat(pieces), found)


@pytest.mark.parametrize(
    ("changes", "encoding"),
    [
        ({"base": 300.0}, RoPE(16, base=300.0)),
        ({"layout": 1}, RoPE(16, layout="half")),
        ({"on": 0.0}, NoPE()),
        ({"scaling": 1, "factor": 3.0}, RoPE(16, freq=interpolate(frequencies(16), 3.0))),
        ({"scaling": 2, "factor": 3.0}, RoPE(16, freq=ntk(frequencies(16), 3.0))),
        (
            {"scaling": 3, "factor": 3.0},
            RoPE(16, freq=yarn(frequencies(16), 3.0, 32, form="code"), attention_factor=yarn_attention_factor(3.0)),
        ),
    ],
)
def test_settings_make_the_rope_that_they_name(changes, encoding):
    reader, other = Reader(small(), 32), Reader(small(encoding), 32)
    same(read(reader, **changes)[0], bits(other.model(TOKENS[None])))
    assert (read(reader, **changes)[0] - read(reader)[0]).abs().max() > 0.1


def test_a_rope_of_halves_has_interleaved_pairs_as_the_other_layout():
    reader, other = Reader(small(RoPE(16, layout="half")), 32), Reader(small(RoPE(16)), 32)
    same(read(reader, layout=1)[0], read(other)[0])


def test_slopes_are_multiplied():
    reader, other = Reader(small("alibi"), 32), Reader(small(ALiBi(2, slopes=0.3 * ALiBi(2).slope)), 32)
    same(read(reader, slope=0.3)[0], read(other)[0])


@pytest.mark.parametrize("scheme", sorted(ENCODINGS))
def test_an_encoding_that_is_dropped_is_none(scheme):
    model = small(scheme)
    reader, bare = Reader(model, 32), Reader(model, 32)
    bare.model.encodings = torch.nn.ModuleList([NoPE()])
    same(read(reader, on=0.0)[0], read(bare)[0])


@pytest.mark.parametrize("scheme", ["rope", "alibi", "t5", "sinusoidal", "learned", "nope"])
def test_wrong_positions_show_nothing_of_the_future(scheme):
    reader = Reader(small(scheme), 32)
    pos = POS.flip(0)
    changed = TOKENS.where(POS < 20, 7)
    same(read(reader, pos=pos)[0][:20], read(reader, changed, pos)[0][:20], 1e-6)
    assert (read(reader, pos=pos)[0][20:] - read(reader, changed, pos)[0][20:]).abs().max() > 0.1


def test_offsets_alone_count_where_that_is_said():
    for scheme, sees in (("rope", False), ("alibi", False), ("t5", False), ("nope", False), ("sinusoidal", True)):
        reader = Reader(small(scheme), 32)
        far = (read(reader, pos=POS + 1000)[0] - read(reader)[0]).abs().max()
        assert (far > 0.1) == sees and (far < 1e-2) == (not sees)


def test_each_break_says_what_to_expect_of_each_scheme():
    assert next(iter(BREAKS)) == "nothing"
    kinds = {kind(small(scheme).encoding()) for scheme in ENCODINGS}
    assert kinds == {"none", "table", "waves", "turn", "slope", "other"}
    for sentences in list(BREAKS.values())[1:]:
        for each in kinds:
            assert sentences.get(each, sentences["other"]).endswith(".")


# Graphs


@pytest.fixture(scope="module")
def exported():
    pytest.importorskip("onnxruntime")
    reader = Reader(small(layers=1), 32)
    return reader, graph("rope", reader)


@pytest.mark.export
def test_a_graph_reads_as_torch_does_whatever_the_length(exported):
    reader, made = exported
    run = Run(reader, made)
    for count, changes in ((2, {}), (40, {"base": 77.0}), (200, {"scaling": 3, "factor": 16.0})):
        tokens, pos = torch.arange(count) % 256, torch.arange(count) + 5
        got = run(tokens, pos, *reader.start(), torch.tensor(1), *settings(**changes))
        wanted = read(reader, tokens, pos, 1, **changes)
        for ours, true in zip(got, wanted, strict=True):
            assert ours.shape == true.shape
            np.testing.assert_allclose(ours.numpy(), true.numpy(), atol=1e-3)


@pytest.mark.export
def test_a_graph_of_another_model_is_refused(exported):
    reader, made = exported
    other = Reader(reader.model, 32)
    with torch.no_grad():
        other.model.blocks[0].value.weight[3] += 0.01
    with pytest.raises(ExportError, match="differs from torch by"):
        verify("rope", other, made)


@pytest.mark.export
@pytest.mark.skipif(not evidence.FOUND, reason="posenc-evidence is not installed")
def test_a_trained_model_exports_within_its_size():
    """The build compares each of them with torch, and test_book.py weighs them all."""
    pytest.importorskip("onnxruntime")
    reader = Reader(trained("rope", preset="epoch"), 128)
    made = graph("rope", reader)  # which is compared with torch
    assert 4 * len(made) / 3 < 1.2e6  # as base64, in a script
    assert verify("rope", reader, made) < 1e-3


# What a kernel and a page have


def test_a_spec_is_json_and_says_what_each_model_can():
    models = {"rope": small("rope"), "learned": small("learned")}
    spec = json.loads(json.dumps(Desk(models, {"a": "to be or not"}, 16, None, "T", "n", "").spec()))
    assert [(m["name"], m["rows"], m["kind"]) for m in spec["models"]] == [
        ("rope", None, "turn"),
        ("learned", 64, "table"),
    ]
    assert [m["colour"] for m in spec["models"]] == [SCHEMES["rope"].colour, SCHEMES["learned"].colour]
    assert spec["models"][0]["knobs"] == ["on", "base", "scaling", "factor", "layout"]
    assert spec["shape"] == [4, 2, 0, 16] and spec["most"] == 256 and spec["starts"]["count"] == 64
    controls = {c["name"]: c for c in spec["controls"]}
    assert controls["scaling"]["labels"] == list(SCALINGS)
    assert controls["head"]["labels"] == [f"layer {n}, head {h}" for n in (1, 2) for h in (1, 2)]
    assert sorted(controls) == sorted(spec["starts"])


def test_a_kernel_reads_piece_by_piece():
    panel = play({"rope": small(), "alibi": small("alibi")}, {"a": "text"}, length=16)
    assert isinstance(panel, Playing) and repr(panel) == "play with RoPE, ALiBi"
    sent = []
    panel.send = lambda message, buffers=None: sent.append((message, buffers))
    piece = {"model": "rope", "slot": "read", "head": 2, "settings": {"base": 300.0}}

    def ask(begin, end, **changes):
        given = {"fresh": not begin, "tokens": TOKENS[begin:end].tolist(), "pos": POS[begin:end].tolist()}
        panel._answer(panel, {"type": "play", "id": "1", "piece": {**piece, **given, **changes}}, [])
        message, buffers = sent.pop()
        if "error" in message:
            return message["error"]
        data = [np.frombuffer(b, np.float32).reshape(s) for b, s in zip(buffers, message["shapes"], strict=True)]
        return [torch.tensor(x) for x in data]

    first, second = ask(0, 30), ask(30, 40)
    wanted, weights, *_ = read(Reader(small(), 16), head=2, base=300.0)
    same(torch.cat((first[0], second[0])), wanted)
    same(second[1], weights[30:])
    assert "KeyError" in ask(5, 9, slot="unknown")
    panel._answer(panel, {"type": "other"}, [])
    assert not sent


@pytest.mark.export
def test_a_page_has_a_graph_for_each_model_and_no_markup_of_its_data(exported, monkeypatch, tmp_path):
    monkeypatch.setenv("POSENC_BOOK", "1")
    monkeypatch.setattr(PlayingPage, "_counts", {})
    evil = "</script><img src=x>"
    model = exported[0].model
    monkeypatch.setattr("posenc._explore.playing.page.graph", lambda name, reader: exported[1])
    page = play({"rope": model}, {evil: evil * 3}, length=32, read=48, title=evil, caption=evil)
    assert isinstance(page, PlayingPage)
    html = page._repr_mimebundle_()["text/html"]
    assert "<img" not in html and html.count("<script") == 1 and html.count('<svg role="img"') == 1
    assert '<figure class="pe-panel pe-learn pe-reading" id="play-playground">' in html
    data = re.search(r'class="pe-data">(.*?)</script>', html, re.DOTALL)[1]
    spec = json.loads(data)
    assert list(spec["graphs"]) == ["rope"] and spec["title"] == evil and spec["texts"][0]["text"] == evil * 3
    tokens = torch.tensor(list((evil * 3).encode()[:48]))
    wanted = read(Reader(model, 32), tokens, torch.arange(48))[0][:-1].gather(-1, tokens[1:, None])
    for row in spec["recorded"]:
        assert row[0] is None
        np.testing.assert_allclose(row[1:], wanted[:, 0].numpy(), atol=6e-3)
    apart = json.loads(_apart(data, tmp_path))
    assert "graphs" not in apart and list(apart["apart"]) == ["rope"]
    script = (tmp_path / f"{apart['apart']['rope']}.js").read_text(encoding="ascii")
    packed = json.loads(script[script.index("]=") + 2 : -1])
    assert gzip.decompress(base64.b64decode(packed["rope"])) == base64.b64decode(spec["graphs"]["rope"])


def test_what_a_table_cannot_read_is_recorded_as_none():
    from posenc._explore.playing.page import _running, surprise

    found = surprise(Desk({"learned": small("learned")}, {"a": "x" * 100}, 16, 96, "T", "n", ""), "learned")
    assert len(found) == 96 and [math.isnan(v) for v in found] == [True] + [False] * 63 + [True] * 32
    assert _running([math.nan, 2.0, 4.0])[1:] == [2.0, 3.0] and math.isnan(_running([math.nan])[0])


@pytest.mark.parametrize(
    ("models", "texts", "options", "message"),
    [
        ({}, {"a": "b"}, {}, "there is no model"),
        ({"rope": NoPE()}, {"a": "b"}, {}, "use a Transformer"),
        ({"rope": Transformer(16, layers=1)}, {"a": "b"}, {}, "has 16 tokens and causal=True"),
        ({"rope": Transformer(256, layers=1, causal=False)}, {"a": "b"}, {}, "a decoder of 256 bytes"),
        ({"rope": Transformer(256, layers=1, window=8)}, {"a": "b"}, {}, "or has a window"),
        ({"rope": small(), "alibi": small("alibi", layers=1)}, {"a": "b"}, {}, "give models of one size"),
        ({"rope": small()}, {}, {}, "no text to begin with"),
        ({"rope": small()}, {"a": b"bytes"}, {}, "no text to begin with"),
        ({"rope": small()}, {"a": "b"}, {"length": 0}, "length is 0"),
        ({"rope": small()}, {"a": "b"}, {"read": 9999}, "count = 9999 is out of range"),
    ],
)
def test_what_cannot_be_played_is_said(models, texts, options, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        play(models, texts, **({"length": 16} | options))
