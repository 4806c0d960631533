"""`compare` names differences that were planted in a port, beside transformers' Llama with the same weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from port import How, Norm, Port, everywhere, only_in
from torch import Tensor, nn
from torch.nn.functional import gelu

from posenc import RoPE, alibi_slopes, frequencies, rotate
from posenc.audit import compare
from posenc.audit.__main__ import main
from posenc.audit.comparison import search
from posenc.audit.comparison.described import _of_biases
from posenc.audit.weights import randomise
from posenc.schemes.scaling import llama3, ntk, yarn

LAYERS = 2


@pytest.fixture(scope="module")
def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return randomise(transformers.LlamaForCausalLM(config).eval())


def ported(llama: Any, how: list[How] | None = None, fused: bool = True, **changed: Any) -> Port:
    port = Port(how or everywhere(LAYERS), fused=fused).loaded(llama.state_dict())
    for name, value in changed.items():
        setattr(port, name, value)
    return port


def all_of(**fields: Any) -> dict[str, Any]:
    return {"how": everywhere(LAYERS, **fields)}


def one_of(**fields: Any) -> dict[str, Any]:
    return {"how": only_in(1, LAYERS, **fields)}


def slow(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda f: f / factor


def yarned(f: Tensor) -> Tensor:
    return yarn(f, 4.0, 4096, form="code")


PLANTED = {
    "layout": (all_of(layout="interleaved"), {"layout"}, "interleaved"),
    "a mixture of layouts": (all_of(layout="mixed"), {"layout"}, "different angles"),
    "neighbours that are sorted": (all_of(layout="sorted"), {"layout"}, "interleaved"),
    "sorted, and another base": (all_of(layout="sorted", base=500_000.0), {"layout", "base"}, "interleaved"),
    "sorted in one layer": (one_of(layout="sorted"), {"layout"}, "interleaved"),
    "base": (all_of(base=500_000.0), {"base"}, "500,000"),
    "a base that nobody has": (all_of(base=12_345.0), {"base"}, "12,345"),
    "linear": (all_of(freq=slow(8.0)), {"scaling"}, "linear, factor 8"),
    "yarn": (all_of(freq=yarned, amplitude=1.1386294), {"scaling", "amplitude"}, "yarn, factor 4"),
    "llama 3": (all_of(freq=lambda f: llama3(f, 8.0)), {"scaling"}, "llama3, factor 8"),
    "ntk": (all_of(freq=lambda f: ntk(f, 8.0)), {"scaling"}, "ntk, factor 8"),
    "partial": (all_of(dims=8), {"partial"}, "8 of 16"),
    "amplitude": (all_of(amplitude=1.25), {"amplitude"}, "1.5625"),
    "the scale of scores": (all_of(scale=0.5), {"amplitude"}, "times 0.5"),
    "direction": (all_of(sign=-1), {"direction"}, "other way"),
    "queries one further": (all_of(offset_q=1.0), {"offset"}, "positions + 1"),
    "positions that are ignored": ({"ignores": True}, {"ignored"}, "its own count"),
    "keys that do not turn": (all_of(turns="q"), {"unrotated"}, "no rotation"),
    "nothing turns": (all_of(turns=""), {"unrotated"}, "no rotation"),
    "16-bit tables": (all_of(tables=torch.bfloat16), {"rounding"}, "bfloat16 tables"),
    "16-bit frequencies": (all_of(rates=torch.bfloat16), {"rounding"}, "bfloat16 frequencies"),
    "a window": (all_of(window=16), {"window"}, "window of 16"),
    "slopes": (all_of(slopes=alibi_slopes(4)), {"slopes"}, "ALiBi"),
    "padding": ({"pads_seen": True}, {"padding"}, "other logits"),
    "a cache": ({"cache_slips": True}, {"cache"}, "other logits"),
    "base in one layer": (one_of(base=500_000.0), {"base"}, "500,000"),
    "layout in one layer": (one_of(layout="interleaved"), {"layout"}, "interleaved"),
    "one layer that does not turn": (one_of(turns=""), {"unrotated"}, "no rotation"),
    "a window in one layer, written out": ({**one_of(window=8), "fused": False}, {"window"}, "window of 8"),
    "partial in one layer": (one_of(dims=4), {"partial"}, "4 of 16"),
    "keys further in one layer": (one_of(offset_k=3.0), {"offset"}, "positions + 3"),
    "layout and base": (all_of(layout="interleaved", base=500_000.0), {"layout", "base"}, ""),
    "direction and window": (all_of(sign=-1, window=8), {"direction", "window"}, ""),
    "base and factor": (all_of(base=500_000.0, freq=slow(4.0)), {"base", "scaling"}, ""),
    "layout and offset": (all_of(layout="interleaved", offset_q=2.0), {"layout", "offset"}, ""),
    "base in one layer, a window in another": ({"how": [How(base=5e5), How(window=8)]}, {"base", "window"}, ""),
    "three": (all_of(layout="interleaved", base=5e5, sign=-1), {"layout", "base", "direction"}, ""),
}  # fmt: skip


@pytest.mark.models
@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_is_named(llama: Any, name: str) -> None:
    how, kinds, said = PLANTED[name]
    c = compare(llama, ported(llama, **how), tokens=41)
    assert set(c.kinds) == kinds and c.positional and not c.same, str(c)
    assert said in str(c).replace("\n  ", " ")
    shares = [d.explains for d in c.differences if d.explains is not None]
    if kinds & {"padding", "cache", "ignored"}:
        return
    assert c.left < max(0.1 * c.off, 1e-3)
    assert all(s > 0.03 for s in shares) and sum({d.kind: d.explains for d in c.differences}.values()) > 0.89
    if name.endswith(("in one layer", "in one layer, written out")) or name.startswith("one layer"):
        assert all(d.layers == (1,) for d in c.differences)


def test_keys_chosen_by_more_than_distance_are_no_window() -> None:
    causal = torch.zeros(2, 24, 24).masked_fill(torch.ones(24, 24, dtype=torch.bool).triu(1), -torch.inf)
    one, other = causal.clone(), causal.clone()
    one[:, 10, 3] = other[:, 10, 4] = -torch.inf
    found = _of_biases(one, other)
    assert found is not None and "more than distance" in found.reference and "indexer" in found.look
    plain = _of_biases(causal, causal.masked_fill(torch.ones(24, 24, dtype=torch.bool).tril(-8), -torch.inf))
    assert plain is not None and "window of 8" in plain.candidate


@pytest.mark.models
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("how", [{}, {"offset_q": 3.0, "offset_k": 3.0}])
def test_a_port_that_is_right_passes(llama: Any, fused: bool, how: dict[str, Any]) -> None:
    before = {name: p.clone() for name, p in llama.named_parameters()}
    port = ported(llama, everywhere(LAYERS, **how), fused)
    c = compare(llama, port, tokens=41)
    assert c.same and c.positional and not c.differences, str(c)
    assert all(torch.equal(p, before[name]) for name, p in llama.named_parameters())
    assert next(port.parameters()).dtype == torch.float32


@pytest.mark.models
def test_converted_weights_pass_and_their_other_mistakes_are_named(llama: Any) -> None:
    from posenc import convert_layout

    for how, kinds in (({}, set()), ({"base": 500_000.0}, {"base"})):
        port = ported(llama, everywhere(LAYERS, layout="interleaved", **how))
        with torch.no_grad():
            for layer in port.layers:
                for part in "qk":
                    layer[part].weight.copy_(convert_layout(layer[part].weight, 16, to="interleaved"))
        assert set(compare(llama, port, tokens=41).kinds) == kinds


@pytest.mark.models
@pytest.mark.parametrize("what", ["activation", "norm", "cap", "activation and base"])
def test_what_is_not_positional_is_said(llama: Any, what: str) -> None:
    port = ported(llama, everywhere(LAYERS, base=5e5) if "base" in what else None)
    if "activation" in what:
        port.act = gelu
    if what == "norm":
        port.norm = nn.Sequential(Norm(64, eps=0.5))  # type: ignore[assignment]
        port.norm[0].weight.data.copy_(llama.model.norm.weight)  # type: ignore[index]
    if what == "cap":
        port.cap = 5.0
    c = compare(llama, port, tokens=41)
    assert not c.positional and not c.same and "NOT POSITIONAL" in str(c)
    assert set(c.kinds) == ({"base", "other"} if "base" in what else {"other"})


def hidden(port: Port) -> Callable[[Tensor], Tensor]:
    """A function that cannot be looked into, as that of a server."""

    def logits(tokens: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return port(tokens)[0]

    return logits


@pytest.mark.models
@pytest.mark.parametrize("name", ["layout", "base", "direction", "a window"])
def test_a_function_that_cannot_be_looked_into_is_found_by_trying(llama: Any, name: str) -> None:
    how, kinds, _ = PLANTED[name]
    c = compare(llama, hidden(ported(llama, **how)), tokens=41)
    assert set(c.kinds) == kinds and c.positional, str(c)
    assert "tried" in str(c)


@pytest.mark.parametrize(("how", "kinds"), [
    ([How(layout="interleaved"), How(sign=-1)], {("layout", (0,)), ("direction", (1,))}),
    ([How(base=5e5), How(window=8)], {("base", (0,)), ("window", (1,))}),
    ([How(), How(layout="interleaved", window=6)], {("layout", (1,)), ("window", (1,))}),
])  # fmt: skip
def test_two_differences_in_layers_of_their_own_are_found_by_trying(
    how: list[How], kinds: set[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few guesses, since all of them take seconds; none of them is right alone."""
    named = search.guesses_of
    few = {"interleaved", "the other way", "500,000", "no rotation"}
    monkeypatch.setattr(search, "guesses_of", lambda *given: [g for g in named(*given) if g.candidate in few])
    monkeypatch.setattr(search, "STARTS", ())
    monkeypatch.setattr(search, "PAIRS", 40)
    reference = small()
    port = Port(how).eval()
    port.load_state_dict(reference.state_dict())
    c = compare(reference, hidden(port), tokens=17)
    assert {(d.kind, d.layers) for d in c.differences} == kinds and c.positional, str(c)


@pytest.mark.models
def test_dumps_of_logits(llama: Any, tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    tokens = torch.arange(10, 51)[None]
    for name, port in (("same", ported(llama)), ("halves", ported(llama, everywhere(LAYERS, layout="interleaved")))):
        with torch.no_grad():
            np.savez(tmp_path / f"{name}.npz", tokens=tokens.numpy(), logits=port(tokens)[0].numpy())
    assert compare(llama, tmp_path / "same.npz").same
    c = compare(llama, tmp_path / "halves.npz")
    assert c.kinds == ("layout",) and c.differences[0].candidate == "interleaved"
    back = compare(tmp_path / "halves.npz", llama)
    assert back.kinds == ("layout",) and back.differences[0].reference == "interleaved"
    alone = compare(tmp_path / "same.npz", tmp_path / "halves.npz")
    assert not alone.same and alone.positional and alone.facts["first token that differs"] == 1


# ---- without transformers


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_rotations_are_compared_as_functions() -> None:
    c = compare(RoPE(64, layout="half"), RoPE(64, 500_000.0).query, dim=64)
    assert c.kinds == ("layout", "base")
    assert compare(RoPE(64), RoPE(64).key, dim=64).same
    f = frequencies(64, dtype=torch.float64)
    assert compare(RoPE(64), lambda x, p: rotate(x, p, f / 8, scale=1.2), dim=64).kinds == ("scaling", "amplitude")
    axes = compare(RoPE(64), lambda x, p: x, dim=64)
    assert axes.kinds == ("unrotated",) and not axes.same


def dump(**how: Any) -> dict[str, Tensor]:
    pos, out = torch.arange(24), {"positions": torch.arange(24)}
    for n in range(3):
        for part in "qk":
            x = draw(4, 24, 32)
            base = how.get("base", 10_000.0) if n == how.get("layer", n) else 10_000.0
            out[f"{part}.{n}.before"] = x
            out[f"{part}.{n}.after"] = rotate(
                x, pos, frequencies(32, base, dtype=torch.float64), layout=how.get("layout", "half")
            )
    return out


def test_dumps_of_queries_and_keys_are_compared_layer_by_layer() -> None:
    assert compare(dump(), dump()).same
    c = compare(dump(), dump(base=1e6, layer=1))
    assert [(d.kind, d.layers) for d in c.differences] == [("base", (1,))]
    assert compare(dump(), dump(layout="interleaved")).kinds == ("layout",)
    still = dump()
    still["k.2.after"] = still["k.2.before"]
    d = compare(dump(), still).differences[0]
    assert (d.kind, d.layers, d.of) == ("unrotated", (2,), "keys")


class Shared(nn.Module):
    """With the interface of vLLM's rotation: rows of tokens (n, H·d), turned in place, one module for all layers."""

    def __init__(self, base: float) -> None:
        super().__init__()
        angle = torch.arange(64.0, dtype=torch.float64)[:, None] * frequencies(16, base, dtype=torch.float64)
        self.register_buffer("cos_sin_cache", torch.cat((angle.cos(), angle.sin()), -1))

    def forward(self, positions: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        c, s = self.cos_sin_cache[positions][:, None].chunk(2, -1)
        for x in (query, key):
            a, b = (part.clone() for part in x.view(len(x), -1, 16).chunk(2, -1))
            x.view(len(x), -1, 16).copy_(torch.cat((a * c - b * s, b * c + a * s), -1))
        return query, key


class Engine:
    """A stand-in for vLLM's `LLM`: two layers, four heads of queries and two of keys, of 16 channels."""

    def __init__(self, base: float) -> None:
        self.model = nn.ModuleDict({"rotary": Shared(base), "q": nn.Linear(32, 64), "k": nn.Linear(32, 32)})

    def apply_model(self, function: Callable[[nn.Module], Any]) -> list[Any]:
        return [function(self.model)]

    def generate(self, prompts: list[str], sampling: Any) -> None:
        for layer in range(2):
            x = draw(24, 32) + layer
            self.model["rotary"](torch.arange(24), *(self.model[m].double()(x) for m in "qk"))


def test_the_recipe_for_vllm_makes_dumps_that_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    page = (Path(__file__).parents[1] / "chapters/api_audit.md").read_text(encoding="utf-8")
    (code,) = [part for part in re.findall(r"```python\n(.*?)```", page, re.S) if "cos_sin_cache" in part]
    monkeypatch.chdir(tmp_path)
    for base in (1e4, 5e5):
        torch.manual_seed(0)
        with torch.no_grad():
            exec(code, {"llm": Engine(base), "SamplingParams": dict, "HEAD_DIM": 16})
        (tmp_path / "vllm.npz").rename(tmp_path / f"{base:g}.npz")
    c = compare(tmp_path / "10000.npz", tmp_path / "500000.npz")
    assert [(d.kind, d.candidate, d.layers) for d in c.differences] == [("base", "500,000", (0, 1))], str(c)


def test_axes_that_are_exchanged_are_named() -> None:
    at = torch.stack((torch.arange(36) // 6, torch.arange(36) % 6))
    x = draw(4, 36, 64)

    def turned(first: int) -> dict[str, Tensor]:
        f = frequencies(32, dtype=torch.float64)
        halves = (rotate(x[..., :32], at[first], f), rotate(x[..., 32:], at[1 - first], f))
        return {"positions": at, "q.0.before": x, "q.0.after": torch.cat(halves, -1)}

    assert compare(turned(0), turned(0)).same
    assert compare(turned(0), turned(1)).kinds == ("axes",)


class Table(nn.Module):
    """A model with learned positions."""

    def __init__(self, shift: int = 0, still: bool = False) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.embed, self.at = nn.Embedding(50, 32), nn.Embedding(120, 32)
        self.mix, self.head = nn.Linear(32, 96), nn.Linear(32, 50)
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=g) / 32**0.5
        self.shift, self.still = shift, still

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        pos = torch.arange(tokens.shape[1])[None] if positions is None else positions
        x = self.embed(tokens) + self.at(0 * pos if self.still else pos + self.shift)
        q, k, v = self.mix(x).unflatten(-1, (4, 24)).transpose(1, 2).chunk(3, -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + y.transpose(1, 2).flatten(2))


def test_learned_positions_that_begin_elsewhere_or_are_not_read() -> None:
    assert compare(Table(), Table(), tokens=29).same
    c = compare(Table(), Table(shift=2), tokens=29)
    assert c.kinds == ("offset",) and c.positional and "+2" in c.differences[0].candidate
    assert "ignored" in compare(Table(), Table(still=True), tokens=29).kinds


def small(**how: Any) -> Port:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return randomise(Port(everywhere(LAYERS, **how)).eval())  # type: ignore[return-value]


def test_biases_by_bucket_are_compared() -> None:
    from posenc.schemes.t5 import t5_bucket

    table = draw(32)

    def bias(reach: int) -> Callable[[Tensor], Tensor]:
        return lambda gap: table[t5_bucket(gap, 32, reach)][None, None]

    c = compare(small(bias=bias(128), turns=""), small(bias=bias(64), turns=""))
    assert c.kinds == ("buckets",) and "max_distance" in str(c)
    turned = compare(small(slopes=alibi_slopes(4)), small(slopes=-alibi_slopes(4)), tokens=41)
    assert turned.kinds == ("slopes",) and "turned" in str(turned)


def test_layers_whose_schedule_is_another() -> None:
    def model(how: list[How]) -> Port:
        port = small()
        port.how = how
        return port

    far, near = How(base=1e6), How(base=1e4)
    c = compare(model([far, near]), model([near, far]), tokens=41)
    assert c.kinds == ("layers",) and c.positional
    nope = compare(model([near, How(turns="")]), model([How(turns=""), near]), tokens=41)
    assert nope.kinds == ("layers",) and {d.layers for d in nope.differences} == {(0,), (1,)}


class Scout(nn.Module):
    """Head 0 ranks the keys, and all heads see the best eight; it turns halves, and the others neighbours."""

    def __init__(self, layout: str = "half") -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.words, self.mix, self.out = nn.Embedding(60, 64), nn.Linear(64, 192), nn.Linear(64, 60)
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=g) / 8
        self.layout = layout

    def turn(self, x: Tensor) -> Tensor:
        pos, f = torch.arange(x.shape[2]), frequencies(16, dtype=torch.float64)
        first = rotate(x[:, :1], pos, f, layout=self.layout)
        return torch.cat((first, rotate(x[:, 1:], pos, f)), 1)

    def forward(self, tokens: Tensor) -> Tensor:
        x = 8 * self.words(tokens)
        q, k, v = self.mix(x).unflatten(-1, (12, 16)).transpose(1, 2).chunk(3, 1)
        q, k = self.turn(q), self.turn(k)
        see = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        rank = (q[:, :1] @ k[:, :1].mT).masked_fill(~see, -torch.inf)
        best = rank.topk(min(8, x.shape[1]), -1).values[..., -1:]
        scores = (q @ k.mT / 4).masked_fill(~see | (rank < best), -torch.inf)
        return self.out(x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_one_head_that_turns_in_a_layout_of_its_own_is_named() -> None:
    """DeepSeek-V3.2's indexer: what it ranks differs too, and follows from its layout."""
    c = compare(Scout(), Scout("interleaved"), tokens=19)
    assert c.kinds == ("layout", "window") and c.positional and not c.same, str(c)
    assert c.differences[0].candidate.endswith("in head 0") and "more than distance" in c.differences[1].reference
    assert c.left < 1e-3 and "Up to token 7 all keys are seen" in str(c).replace("\n", " ")


def test_weights_may_be_shared_and_are_not_unless_asked() -> None:
    one, other = small(), small()
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1.5)
    kept = [p.clone() for p in other.parameters()]
    assert not compare(one, other, tokens=29).same
    assert compare(one, other, weights=True, tokens=29).same
    assert compare(one, other, weights={"head.weight": "head.weight"}, tokens=29).same
    assert all(torch.equal(a, b) for a, b in zip(kept, other.parameters(), strict=True))
    with pytest.raises(ValueError, match="no parameter"):
        compare(one, other, weights={"head.weight": "lm_head.weight"}, tokens=29)


def test_bad_input_is_told_with_a_remedy() -> None:
    deep = Port(everywhere(LAYERS + 1)).eval()
    wide = Port(everywhere(LAYERS), vocabulary=50).eval()
    with pytest.raises(ValueError, match="depth"):
        compare(small(), deep, tokens=29)
    with pytest.raises(ValueError, match="tokens and the candidate"):
        compare(small(), wide, tokens=29)
    with pytest.raises(ValueError, match="candidate"):
        compare(small(), lambda tokens: 1 / 0, tokens=29)
    with pytest.raises(ValueError, match="more than 16"):
        compare(small(), small(), tokens=5)
    broken = dump()
    broken["q.1.after"] = broken["q.1.after"].clone()
    broken["q.1.after"][0, 3, 4] = torch.nan
    with pytest.raises(ValueError, match=r"q\.1\.after of the candidate"):
        compare(dump(), broken)
    less = {name: x for name, x in dump().items() if ".2." not in name}
    with pytest.raises(ValueError, match="same layers"):
        compare(dump(), less)
    with pytest.raises(ValueError, match="a dump has"):
        compare({"x": draw(3)}, {"y": draw(3)})
    sick = small()
    sick.head.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        compare(small(), sick, tokens=29)


def test_it_is_told_as_text_json_and_a_page(tmp_path: Path) -> None:
    c = compare(small(), small(base=5e5), tokens=29)
    read = json.loads(c.to_json(tmp_path / "c.json"))
    assert read["differences"][0]["kind"] == "base" and read["same"] is False
    assert "<table>" in c.to_html(tmp_path / "c.html") and "500,000" in (tmp_path / "c.html").read_text()
    assert str(c).startswith("Positional: base") and repr(c).startswith("Comparison(same=False")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np = pytest.importorskip("numpy")
    for name, arrays in (("a", dump()), ("b", dump(base=1e6))):
        np.savez(tmp_path / f"{name}.npz", **{n: x.numpy() for n, x in arrays.items()})
    a, b = (str(tmp_path / f"{n}.npz") for n in "ab")
    assert main(["--compare", a, a]) == 0
    assert main(["--compare", a, b, "--json", str(tmp_path / "c.json")]) == 1
    assert "base, layers 0–2" in capsys.readouterr().out
    assert json.loads((tmp_path / "c.json").read_text())["positional"] is True
    assert main(["--compare", a, str(tmp_path / "none.npz")]) == 2
    assert main(["--compare", "test_compare:small", "test_compare:small", "--tokens", "29"]) == 0
