"""Encoders and encoder-decoders: causality asked or inferred, both halves, and mistakes planted in real ones."""

# ruff: noqa: E402, since without transformers all of this is skipped

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from handmade import GPT, Encoder, Llama
from torch import Tensor, nn

transformers = pytest.importorskip("transformers")

from transformers.cache_utils import EncoderDecoderCache
from transformers.models.bart import modeling_bart
from transformers.models.bert import modeling_bert
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.m2m_100 import modeling_m2m_100
from transformers.models.modernbert import modeling_modernbert
from transformers.models.roberta import modeling_roberta
from transformers.models.smollm3 import modeling_smollm3
from transformers.models.t5 import modeling_t5

from posenc.audit import Report, adapt, audit, compare
from posenc.audit import __main__ as command
from posenc.audit.adapters.hf.adapter import says_causal
from posenc.audit.adapters.hf.halves import Decoder, halves
from posenc.audit.adapters.hf.tiny import CannotBuild, encoder_decoders, encoders, load, tiny
from posenc.audit.config import read_config

pytestmark = pytest.mark.models

CAUSAL = {  # what nobody can ask an encoder
    "step", "step_ids", "step_left", "chunks", "chunks_ids", "reorder", "crop", "resume", "generate", "generate_left",
    "generate_nocache", "static", "beams", "lookup", "generate_on",
}  # fmt: skip


def made(name: str) -> Any:
    """A tiny model of a class."""
    kinds = {**encoders(), **encoder_decoders(), "Gemma3ForCausalLM": "gemma3_text", "SmolLM3ForCausalLM": "smollm3"}
    return tiny(kinds[name], architecture=name).model


def not_asked(report: Report) -> set[str]:
    return {f.name for f in report if f.verdict == "does not apply"}


# ---- no false alarm --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["BertForMaskedLM", "RobertaForMaskedLM", "ModernBertForMaskedLM", "DebertaV2ForMaskedLM", "LongformerForMaskedLM",
     "RoFormerForMaskedLM", "FNetForMaskedLM", "NystromformerForMaskedLM", "BertModel", "T5EncoderModel",
     "BertForSequenceClassification"],
)  # fmt: skip
def test_an_encoder_that_is_right_has_no_failure_and_is_not_asked_for_a_cache(name: str) -> None:
    report = audit(made(name), more=True)
    assert not report.failures, str(report)
    assert report["future"].verdict == "property" and "as in an encoder" in report["future"].cause
    assert not_asked(report) >= CAUSAL
    assert "An encoder" in report["step"].cause
    assert report["order_ahead"].verdict in ("pass", "property")


@pytest.mark.parametrize(
    "name",
    ["BartForConditionalGeneration", "T5ForConditionalGeneration", "WhisperForConditionalGeneration",
     "MBartForConditionalGeneration", "PegasusForConditionalGeneration", "MarianMTModel",
     "SwitchTransformersForConditionalGeneration", "T5GemmaForConditionalGeneration"],
)  # fmt: skip
def test_both_halves_of_an_encoder_decoder_are_asked(name: str) -> None:
    report = audit(made(name))
    assert not report.failures, str(report)
    assert report["step"].verdict == report["chunks"].verdict == report["reorder"].verdict == "pass"
    assert report["future"].verdict == "pass"
    if "Whisper" in name:
        assert "encoder.future" not in [f.name for f in report]
        assert any("takes input_features and no tokens" in note for note in report.notes)
        assert "frames" in report["source_pad"].cause
    else:
        assert report["encoder.future"].verdict == "property" and report["encoder.right_pad"].verdict == "pass"
        assert report["generate"].verdict == report["beams"].verdict == report["source_pad"].verdict == "pass"


def test_a_test_may_be_asked_of_one_half() -> None:
    bart = made("BartForConditionalGeneration")
    assert [f.name for f in audit(bart, only=["encoder.right_pad"])] == ["encoder.right_pad"]
    assert [f.name for f in audit(bart, only=["right_pad"])] == ["right_pad", "encoder.right_pad"]
    with pytest.raises(ValueError, match=r"there is no test 'encoder\.right_pad'"):
        audit(made("BertModel"), only=["encoder.right_pad"])


def test_progress_counts_the_tests_of_both_halves() -> None:
    told: list[tuple[str, int, int]] = []
    audit(made("T5ForConditionalGeneration"), only=["again", "future"], progress=lambda *each: told.append(each))
    assert told == [("again", 0, 4), ("future", 1, 4), ("encoder.again", 2, 4), ("encoder.future", 3, 4)]


def test_the_model_of_the_caller_stays_as_it_is() -> None:
    bart = made("BartForConditionalGeneration")
    before = {name: each.clone() for name, each in bart.state_dict().items()}
    audit(bart, only=["again", "step"])
    assert all(torch.equal(each, before[name]) for name, each in bart.state_dict().items())


def test_a_decoder_sees_a_source_that_is_the_same_for_all_rows_and_notices_it() -> None:
    model = made("BartForConditionalGeneration")
    decoder = halves(model)[0][""]
    x = torch.arange(10, 22)[None]
    with torch.no_grad():
        both = decoder.logits(x.expand(2, -1))
        other = model(decoder_input_ids=x, encoder_outputs=model.get_encoder()(torch.arange(30, 37)[None])).logits
    assert torch.allclose(both[0], both[1], atol=1e-6)
    assert not torch.allclose(both[:1], other, atol=1e-3)
    assert isinstance(adapt(model), Decoder)


# ---- who says that a model is causal ---------------------------------------------------------------------------------


def test_causality_is_what_was_asked_for_and_then_what_the_configuration_says() -> None:
    bert = made("BertForMaskedLM")
    found = audit(bert, only=["future"], causal=True)["future"]
    assert found.verdict == "fails" and "`causal=True` was asked for" in found.cause
    assert "is_decoder of the configuration is false" in audit(bert, only=["future"])["future"].cause
    llama = tiny("llama").model
    found = audit(llama, only=["future"], causal=False)["future"]
    assert found.verdict == "fails" and "No token sees a later one, although `causal=False`" in found.cause
    assert audit(llama, only=["future", "step"]).passed


def test_a_decoder_by_its_configuration_that_looks_ahead_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_bert, "create_causal_mask", lambda **given: None)
    monkeypatch.setattr(modeling_bert.BertSelfAttention, "is_causal", False, raising=False)
    model = tiny("bert").model
    for each in model.modules():
        if hasattr(each, "is_causal"):
            each.is_causal = False
    found = audit(model, only=["future"])["future"]
    assert found.verdict == "fails"
    assert "Every token sees all others, although is_decoder of the configuration is true" in found.cause


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [("bert", "BertForMaskedLM", False), ("bert", "", True), ("llama", "", True), ("llama", "LlamaModel", True),
     ("modernbert", "", False), ("gemma3_text", "", True), ("blip_text_model", "BlipTextModel", None)],
)  # fmt: skip
def test_what_a_configuration_and_a_class_say(kind: str, name: str, says: bool | None) -> None:
    assert says_causal(tiny(kind, architecture=name).model)[0] is says


def test_a_field_of_the_configuration_makes_a_family_of_decoders_an_encoder() -> None:
    model = tiny("llama").model
    model.config.is_causal = False
    assert says_causal(model) == (False, "is_causal of the configuration is false")
    report = audit(model)
    assert not report.failures and not_asked(report) >= {"step", "generate"}, str(report)


class Unsaid(nn.Module):
    """An encoder that takes a cache as an argument, as some libraries' do, and has nothing to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Encoder()

    def forward(self, tokens: Tensor, mask: Tensor | None = None, cache: Any = None) -> Tensor:
        return self.inner(tokens, attention_mask=mask)


def test_an_encoder_with_an_argument_for_a_cache_is_told_by_what_it_does() -> None:
    report = audit(Unsaid())
    assert not report.failures, str(report)
    assert report["future"].verdict == "property" and "would need a causal mask" in report["future"].cause


class Local(nn.Module):
    """Two layers whose tokens see three others on each side."""

    back = ahead = 3

    def __init__(self, vocabulary: int = 99, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x, i = self.tokens(tokens), torch.arange(tokens.shape[1])
        hidden = (i[:, None] - i > self.back) | (i - i[:, None] > self.ahead)
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=hidden, need_weights=False)[0]
        return self.head(x)


def test_windows_on_both_sides_are_an_encoder_s() -> None:
    report = audit(Local())
    assert not report.failures, str(report)
    assert "Tokens see up to 6 later ones, over all layers together" in report["future"].cause
    assert "the 6 before it: windows on both sides" in report["reach_ahead"].cause


class LocalOneSided(Local):
    causal, ahead = False, 1


def test_a_window_that_is_wider_on_one_side_is_a_property_where_nobody_says_which_is_right() -> None:
    found = audit(LocalOneSided(), only=["reach_ahead"])["reach_ahead"]
    assert found.verdict == "property"
    assert "act on 6 later ones and on 2 earlier ones: the windows are wider on one side" in found.cause


def test_the_question_is_one_for_encoders() -> None:
    for name in ("reach_ahead", "order_ahead"):
        found = audit(Llama(), only=[name])[name]
        assert found.verdict == "does not apply" and "A question for encoders" in found.cause


# ---- planted mistakes ------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: dict[str, tuple[Plant, str, str, str]] = {}
"""By name: what plants it, the class, the test that finds it, and words of its cause."""


def planted(name: str, kind: str, found_by: str, words: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        PLANTED[name] = plant, kind, found_by, words
        return plant

    return register


ROTATE = modeling_modernbert.apply_rotary_pos_emb
BUCKET = modeling_t5.T5Attention._relative_position_bucket
BOTH_OF_BART = modeling_bart.create_bidirectional_mask


@planted("queries alone are turned", "ModernBertForMaskedLM", "shift", "Logits change under a shift")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        modeling_modernbert,
        "apply_rotary_pos_emb",
        lambda q, k, cos, sin, *more, **named: (ROTATE(q, q, cos, sin)[0], k),
    )


@planted("a window looks back alone", "ModernBertForMaskedLM", "schedule", "sees 0 tokens ahead, and should see 4")
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Tensor:
        n = given["inputs_embeds"].shape[1]
        i = torch.arange(n)
        return ((i[:, None] - i >= 0) & (i[:, None] - i <= 4))[None, None]

    patch.setattr(modeling_modernbert, "create_bidirectional_sliding_window_mask", mask)


@planted("a window is one token too wide", "ModernBertForMaskedLM", "schedule", "sees 5 tokens back, and should see 4")
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Tensor:
        i = torch.arange(given["inputs_embeds"].shape[1])
        return ((i[:, None] - i).abs() <= 5)[None, None]

    patch.setattr(modeling_modernbert, "create_bidirectional_sliding_window_mask", mask)


@planted("kinds of layers exchange their bases", "ModernBertForMaskedLM", "schedule", "at the rates of sliding layers")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_modernbert.ModernBertRotaryEmbedding.forward
    other = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
    patch.setattr(
        modeling_modernbert.ModernBertRotaryEmbedding,
        "forward",
        lambda self, x, ids, kind: right(self, x, ids, other[kind]),
    )


@planted("buckets are made for the past alone", "T5EncoderModel", "order_ahead", "and later ones are not")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        modeling_t5.T5Attention, "_relative_position_bucket",
        staticmethod(lambda rel, bidirectional=True, **named: BUCKET(rel, bidirectional=False, **named)),
    )  # fmt: skip


@planted("positions begin at another number", "RobertaForMaskedLM", "embeds", "Embeddings are counted from 1")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        modeling_roberta.RobertaEmbeddings, "create_position_ids_from_input_ids",
        staticmethod(lambda ids, padding_idx, *more: torch.arange(ids.shape[1]).expand_as(ids)),
    )  # fmt: skip


@planted("padding is not masked", "BertForMaskedLM", "right_pad", "The mask has no effect")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(modeling_bert, "create_bidirectional_mask", lambda **given: None)


@planted("masked and real are exchanged", "BertForMaskedLM", "right_pad", "A mask that marks every token as real")
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Tensor:
        real = given["attention_mask"]
        n = given["inputs_embeds"].shape[1]
        if real is None:
            return torch.ones(1, 1, 1, n, dtype=torch.bool)
        return torch.where(real.bool().all(), real.bool() & (torch.arange(n) < n - 3), ~real.bool())[:, None, None]

    patch.setattr(modeling_bert, "create_bidirectional_mask", mask)


@planted("positions that are given are not read", "BertForMaskedLM", "stretch", "Explicit positions change nothing")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_bert.BertEmbeddings.forward
    patch.setattr(
        modeling_bert.BertEmbeddings,
        "forward",
        lambda self, *args, **named: right(self, *args, **named | {"position_ids": None}),
    )


@planted("an encoder is causal", "BertForMaskedLM", "future", "No token sees a later one, although is_decoder")
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Tensor:
        n = given["inputs_embeds"].shape[1]
        return torch.ones(n, n, dtype=torch.bool).tril()[None, None]

    patch.setattr(modeling_bert, "create_bidirectional_mask", mask)


@planted(
    "padding of a source is not masked", "BartForConditionalGeneration", "source_pad", "before and after the source"
)
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Any:
        return None if given.get("encoder_hidden_states") is not None else BOTH_OF_BART(**given)

    patch.setattr(modeling_bart, "create_bidirectional_mask", mask)


@planted(
    "an encoder's padding is not masked", "BartForConditionalGeneration", "encoder.right_pad", "mask has no effect"
)
def _(patch: pytest.MonkeyPatch) -> None:
    def mask(**given: Any) -> Any:
        return None if given.get("encoder_hidden_states") is None else BOTH_OF_BART(**given)

    patch.setattr(modeling_bart, "create_bidirectional_mask", mask)


@planted("a cached step is counted from 0", "BartForConditionalGeneration", "step", "token 10 lies at position 0")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_bart.BartLearnedPositionalEmbedding.forward
    patch.setattr(
        modeling_bart.BartLearnedPositionalEmbedding, "forward",
        lambda self, ids, past_key_values_length=0, position_ids=None: right(self, ids, 0),
    )  # fmt: skip


@planted(
    "a cached step has the bias of the row before",
    "T5ForConditionalGeneration",
    "step",
    "are right, and their scores are not",
)
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_t5.T5Attention.compute_bias

    def bias(self: Any, n: int, keys: int, *more: Any, past_seen_tokens: Any = 0, **named: Any) -> Tensor:
        past = past_seen_tokens - 1 if past_seen_tokens else 0
        return right(self, n, keys, *more, past_seen_tokens=past, **named)

    patch.setattr(modeling_t5.T5Attention, "compute_bias", bias)


@planted(
    "rows of a cache stay when beams change places", "BartForConditionalGeneration", "reorder", "past of another row"
)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EncoderDecoderCache, "reorder_cache", lambda self, order: None)


@planted("layers that should not turn do", "SmolLM3ForCausalLM", "schedule", "rotates, and should not")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_smollm3.SmolLM3Attention.__init__

    def init(self: Any, config: Any, layer_idx: int) -> None:
        right(self, config, layer_idx)
        self.use_rope = 1

    patch.setattr(modeling_smollm3.SmolLM3Attention, "__init__", init)


@planted("a list of layers is read the other way round", "SmolLM3ForCausalLM", "schedule", "the other way round")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_smollm3.SmolLM3Attention.__init__

    def init(self: Any, config: Any, layer_idx: int) -> None:
        right(self, config, layer_idx)
        self.use_rope = 1 - config.no_rope_layers[layer_idx]

    patch.setattr(modeling_smollm3.SmolLM3Attention, "__init__", init)


@planted("sliding layers get the base of full ones", "Gemma3ForCausalLM", "schedule", "at the rates of full layers")
def _(patch: pytest.MonkeyPatch) -> None:
    right = modeling_gemma3.Gemma3RotaryEmbedding.forward
    patch.setattr(
        modeling_gemma3.Gemma3RotaryEmbedding, "forward",
        lambda self, x, ids, layer_type=None: right(self, x, ids, "full_attention"),
    )  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_in_a_real_encoder_is_found_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, kind, test, words = PLANTED[name]
    right = audit(made(kind), only=[test])
    assert not right.failures, str(right)
    plant(monkeypatch)
    found = audit(made(kind), only=[test])[test]
    assert words in found.meaning, str(found)
    assert found.verdict == "fails", str(found)


def test_the_sign_of_t5_s_distances_is_found_beside_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, a model whose buckets are exchanged is one with other weights."""
    right = made("T5EncoderModel")
    assert audit(made("T5EncoderModel"), only=["reference"], reference=right).passed
    wrong = made("T5EncoderModel")
    for each in wrong.modules():
        if isinstance(each, modeling_t5.T5Attention):
            each._relative_position_bucket = lambda rel, **named: BUCKET(-rel, **named)
    assert not audit(wrong, only=["reference"], reference=right).passed
    found = compare(right, wrong)
    assert not found.same and found.positional and {"buckets", "direction"} & set(found.kinds), str(found)


def test_what_m2m_100_does_with_padding_and_a_cache_is_found() -> None:
    """Its own: a cached call counts padding among the tokens before it, and a whole pass does not."""
    assert hasattr(modeling_m2m_100.M2M100SinusoidalPositionalEmbedding, "create_position_ids_from_input_ids")
    assert not audit(made("M2M100ForConditionalGeneration"), only=["step_left"]).passed


def test_a_decoder_whose_queries_meet_keys_of_the_source_that_do_not_turn_is_no_mistake() -> None:
    model = made("T5Gemma2ForConditionalGeneration")
    report = audit(model, only=["shift", "encoder.shift"], configuration=read_config(model.config.to_dict()))
    assert report["shift"].verdict == "property" and "keys of the source" in report["shift"].cause
    assert report["encoder.shift"].verdict == "pass"


# ---- folders ---------------------------------------------------------------------------------------------------------


def test_the_class_that_a_folder_names_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = made("BertForMaskedLM").config.to_dict() | {"architectures": ["BertForTokenClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert type(tiny(tmp_path).model).__name__ == "BertForTokenClassification"
    assert command.main([str(tmp_path), "--quiet"]) == command.PASSED
    out = capsys.readouterr().out
    assert "BertForTokenClassification: nothing fails" in out and "as in an encoder" in out
    assert command.main([str(tmp_path), "--quiet", "--causal", "yes", "--only", "future"]) == command.FAILED
    assert "`causal=True` was asked for" in " ".join(capsys.readouterr().out.split())


def test_a_class_that_is_not_there_is_a_note_and_the_usual_one_is_built(tmp_path: Path) -> None:
    config = made("BertForMaskedLM").config.to_dict() | {"architectures": ["MyOwnBert"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    small = tiny(tmp_path)
    assert type(small.model).__name__ == "BertLMHeadModel"
    assert any("architectures names MyOwnBert" in note for note in small.notes)
    with pytest.raises(CannotBuild, match="has no model MyOwnBert"):
        tiny("bert", architecture="MyOwnBert")


def test_weights_are_loaded_into_the_class_that_a_folder_names(tmp_path: Path) -> None:
    made("BertForMaskedLM").save_pretrained(tmp_path)
    assert type(load(tmp_path)).__name__ == "BertForMaskedLM"


def test_a_module_with_a_foreign_configuration_is_called_as_any_module() -> None:
    encoder = Encoder()
    encoder.config = made("BertForMaskedLM").config  # as sentence-transformers does
    assert audit(encoder, only=["again"]).passed


def test_lists_of_classes_are_long_and_each_is_of_one_kind() -> None:
    assert len(encoders()) >= 60 and len(encoder_decoders()) >= 30
    assert not set(encoders()) & set(encoder_decoders())


# ---- a module's own generate -----------------------------------------------------------------------------------------


class Loop(GPT):
    """Takes the likeliest token, a few times."""

    late = 0

    def generate(self, tokens: Tensor, max_new_tokens: int) -> Tensor:
        out, state = self.step(tokens, None)
        for n in range(max_new_tokens):
            new = out[:, -1:].argmax(-1)
            at = torch.tensor([[tokens.shape[1] + self.late]]) if n == 0 else None
            tokens = torch.cat((tokens, new), 1)
            out, state = self.step(new, state, at)
        return tokens


class LateLoop(Loop):
    late = 1


class Drawing(Loop):
    def generate(self, tokens: Tensor, max_new_tokens: int) -> Tensor:
        return torch.cat((tokens, torch.randint(0, 99, (1, max_new_tokens))), 1)


def test_a_module_s_own_generate_is_asked_for_greedy_tokens() -> None:
    report = audit(Loop())
    assert not report.failures, str(report)
    assert report["generate"].verdict == "pass"
    assert "greedy tokens alone" in report["beams"].cause
    found = audit(LateLoop(), only=["generate"])["generate"]
    assert found.verdict == "fails" and "From new token 1 on" in found.cause
    found = audit(Drawing(), only=["generate"])["generate"]
    assert found.verdict == "does not apply" and "draws tokens at random" in found.cause
