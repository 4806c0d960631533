"""The audit of models of transformers: tiny models, planted mistakes, findings shown again, generation."""

# ruff: noqa: E402, since without transformers all of this is skipped

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")

from posenc_evidence import census, findings
from safetensors.torch import load_file, save_file
from transformers import DynamicCache
from transformers.models.llama import modeling_llama

from posenc.audit import Refused, audit
from posenc.audit import __main__ as command
from posenc.audit.adapters.hf import tiny as small
from posenc.audit.adapters.hf.adapter import TransformersAdapter
from posenc.audit.adapters.hf.rules import RULES, rule
from posenc.audit.adapters.hf.tiny import CannotBuild, Shape, load, shrunk, tiny
from posenc.audit.knobs import READ, UNREAD, knobs, main_report

pytestmark = pytest.mark.models

KEPT = census.KEPT
OURS = pytest.mark.skipif(transformers.__version__ != findings.VERSION, reason="findings are of another version")

ROTATE = modeling_llama.apply_rotary_pos_emb
ANGLES = modeling_llama.LlamaRotaryEmbedding.forward
FORWARD = modeling_llama.LlamaModel.forward
MASK = modeling_llama.create_causal_mask
UPDATE, CROP, REORDER = DynamicCache.update, DynamicCache.crop, DynamicCache.reorder_cache


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny("llama").model


# ---- planted mistakes ------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: dict[str, tuple[Plant, str]] = {}
"""By name: what plants it, and a test that has to find it."""


def planted(name: str, found_by: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        PLANTED[name] = plant, found_by
        return plant

    return register


def angles(patch: pytest.MonkeyPatch, change: Callable[[Any, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    patch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", change)


def rotation(patch: pytest.MonkeyPatch, change: Callable[..., tuple[Tensor, Tensor]]) -> None:
    patch.setattr(modeling_llama, "apply_rotary_pos_emb", change)


def calls(patch: pytest.MonkeyPatch, change: Callable[..., Any]) -> None:
    """`change` gets tokens, mask, positions, cache and the rest, and returns the first three as they should be."""

    def forward(
        self: Any,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        **rest: Any,
    ) -> Any:
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        mask, positions = change(input_ids, attention_mask, position_ids, past)
        return FORWARD(self, input_ids, mask, positions, past_key_values, **rest)

    patch.setattr(modeling_llama.LlamaModel, "forward", forward)


def whole(n: int, keys: int, last: int) -> Tensor:
    """Each of n queries sees all keys up to number `last`, counted from its own row."""
    return torch.ones(n, keys, dtype=torch.bool).tril(last)


def masks(patch: pytest.MonkeyPatch, change: Callable[[Tensor, int], Tensor]) -> None:
    """`change` gets the causal mask, True where a token is seen, and how many tokens are past."""

    def mask(
        config: Any,
        inputs_embeds: Tensor,
        attention_mask: Any = None,
        past_key_values: Any = None,
        position_ids: Any = None,
        **rest: Any,
    ) -> Any:
        if attention_mask is not None and attention_mask.ndim == 4:  # made by generate, for a static cache
            return attention_mask
        n, past = inputs_embeds.shape[1], 0 if past_key_values is None else int(past_key_values.get_seq_length())
        keys = (
            n if past_key_values is None else past_key_values.get_mask_sizes(n, 0)[0]
        )  # of a static cache: its length
        seen = whole(n, keys, past)[None, None].expand(len(inputs_embeds), 1, -1, -1)
        if attention_mask is not None:
            short = keys - attention_mask.shape[1]
            seen = seen & torch.nn.functional.pad(attention_mask, (0, max(short, 0)))[:, None, None, :keys].bool()
        elif past_key_values is None and position_ids is not None:
            document = (position_ids[:, 1:] != position_ids[:, :-1] + 1).cumsum(-1)
            document = torch.nn.functional.pad(document, (1, 0))
            seen = seen & (document[:, None, :, None] == document[:, None, None, :])
        # A row of padding sees itself, so that no row is empty
        return change(seen, past) | (whole(n, keys, past) & ~whole(n, keys, past - 1))

    patch.setattr(modeling_llama, "create_causal_mask", mask)


@planted("angles in bfloat16", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    def rounded(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        half = (position_ids[..., None].bfloat16() * self.inv_freq.bfloat16()).to(x.dtype)
        return torch.cat((half, half), -1).cos(), torch.cat((half, half), -1).sin()

    angles(patch, rounded)


@planted("a sine for a cosine", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    angles(patch, lambda self, x, position_ids: (ANGLES(self, x, position_ids)[1],) * 2)


@planted("two conventions of pairs", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    def interleaved(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angle = (position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)).repeat_interleave(2, -1)
        return angle.cos(), angle.sin()

    angles(patch, interleaved)


@planted("positions doubled", "angles")
def _(patch: pytest.MonkeyPatch) -> None:
    angles(patch, lambda self, x, position_ids: ANGLES(self, x, 2 * position_ids))


@planted("a base of another configuration", "angles")
def _(patch: pytest.MonkeyPatch) -> None:
    def other(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        half = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype) ** 1.5
        return torch.cat((half, half), -1).cos(), torch.cat((half, half), -1).sin()

    angles(patch, other)


@planted("a table that is never short again", "fresh")
def _(patch: pytest.MonkeyPatch) -> None:
    def longest(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        self.longest = max(getattr(self, "longest", 0), int(position_ids.max()))
        cos, sin = ANGLES(self, x, position_ids)
        return cos / (1 + self.longest / 64), sin

    angles(patch, longest)


@planted("no rotation at all", "stretch")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))


@planted("queries alone are rotated", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (ROTATE(q, k, cos, sin)[0], k))


@planted("the rotation turns backwards for keys", "shift")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: (ROTATE(q, k, cos, sin)[0], ROTATE(q, k, cos, -sin)[1]))


@planted("keys are scaled over the batch", "neighbours")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: ROTATE(q, k / k.square().mean().sqrt(), cos, sin))


@planted("cached calls begin at 0 again", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(
        patch,
        lambda x, mask, positions, past: (mask, torch.arange(x.shape[1])[None] if positions is None else positions),
    )


@planted("positions are rows of memory", "stretch")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(patch, lambda x, mask, positions, past: (mask, torch.arange(x.shape[1])[None] + past))


@planted("one too many when cached", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    def more(x: Tensor, mask: Any, positions: Any, past: int) -> tuple[Any, Any]:
        positions = torch.arange(x.shape[1])[None] + past if positions is None else positions
        return mask, positions + (past > 0)

    calls(patch, more)


@planted("the mask is dropped", "left_pad")
def _(patch: pytest.MonkeyPatch) -> None:
    calls(patch, lambda x, mask, positions, past: (None, positions))


@planted("a cosine that grows with the length", "prefix")
def _(patch: pytest.MonkeyPatch) -> None:
    def grown(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = ANGLES(self, x, position_ids)
        return cos * (1 + x.shape[1] / 100), sin

    angles(patch, grown)


@planted("the diagonal is one off", "future")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen | (whole(*seen.shape[-2:], past + 1) & ~whole(*seen.shape[-2:], past)))


@planted("a chunk's diagonal lies at row 0", "chunks")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen & whole(*seen.shape[-2:], 0) if seen.shape[-2] > 1 else seen)


@planted("a window in the cached path alone", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen & ~whole(*seen.shape[-2:], past - 8) if past else seen)


@planted("one row's mask serves all rows", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    masks(patch, lambda seen, past: seen[:1].expand_as(seen))


@planted("documents are not told apart", "packed_ids")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(modeling_llama, "create_causal_mask", lambda **given: MASK(**{**given, "position_ids": None}))


@planted("keys are turned again at each step", "step")
def _(patch: pytest.MonkeyPatch) -> None:
    def update(self: Any, keys: Tensor, values: Tensor, layer: int, *rest: Any, **named: Any) -> Any:
        keys, values = UPDATE(self, keys, values, layer, *rest, **named)
        return torch.cat((keys[:, :, :-1].roll(1, -1), keys[:, :, -1:]), 2) if keys.shape[2] > 1 else keys, values

    patch.setattr(DynamicCache, "update", update)


@planted("values stay when beams change places", "reorder")
def _(patch: pytest.MonkeyPatch) -> None:
    def reorder(self: Any, order: Tensor) -> None:
        kept = [layer.values for layer in self.layers]
        REORDER(self, order)
        for layer, values in zip(self.layers, kept, strict=True):
            layer.values = values

    patch.setattr(DynamicCache, "reorder_cache", reorder)


@planted("two tokens are taken back and not three", "crop")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DynamicCache, "crop", lambda self, n: CROP(self, n + 1))


@planted("noise in eval mode", "again")
def _(patch: pytest.MonkeyPatch) -> None:
    rotation(patch, lambda q, k, cos, sin, unsqueeze_dim=1: ROTATE(q, k + 0.1 * torch.randn_like(k), cos, sin))


@planted("one row's positions serve all rows", "reorder")
def _(patch: pytest.MonkeyPatch) -> None:
    """A relative scheme does not see that a row moves as a whole; it does when rows change places meanwhile."""
    calls(
        patch,
        lambda x, mask, positions, past: (mask, positions if positions is None else positions[:1].expand_as(positions)),
    )


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, found_by = PLANTED[name]
    plant(monkeypatch)
    report = audit(llama, configuration=llama.config.to_dict(), only=found_by)
    assert not report.passed, report


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "qwen3", "bert", "bloom"])
def test_in_the_right_program_nothing_is_found(kind: str) -> None:
    report = audit(tiny(kind).model, more=True)
    assert report.passed, report


@pytest.mark.parametrize("kind", ["mamba", "falcon_mamba"])
def test_a_state_is_padded_as_generate_pads_it(kind: str) -> None:
    """Without a mask after the prompt, which a state has no past for. Chunks are a finding of the census."""
    report = audit(tiny(kind).model, only=["step", "step_left", "left_pad", "generate_left"])
    assert report.passed, report
    assert {finding.verdict for finding in report} == {"pass"}, report


def test_the_mask_in_which_mistakes_are_planted_is_right(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    masks(monkeypatch, lambda seen, past: seen)
    report = audit(llama, more=True)
    assert report.passed, report


# ---- findings --------------------------------------------------------------------------------------------------------


@OURS
@pytest.mark.parametrize("name", findings.BUGS)
def test_a_finding_shows_again_and_its_control_does_not(name: str) -> None:
    bug = findings.BUGS[name]
    with small.quiet(), torch.no_grad():
        shown = bug.show()
    assert [each.architecture for each in shown] == list(bug.architectures)
    for each in shown:
        assert each.off > 5e-3 and each.off > 50 * each.control and each.control < 1e-3, each


@OURS
def test_packing_leaks_by_default_and_not_without_a_cache() -> None:
    with torch.no_grad():
        shown = findings.packing_by_default()
    assert shown.off > 0.1 and shown.control < 1e-4


@OURS
@pytest.mark.parametrize("name", findings.BUGS)
def test_the_lines_of_a_finding_are_there(name: str) -> None:
    for place in findings.BUGS[name].where:
        path, _, line = place.partition(":")
        text = (Path(transformers.__file__).parent / path).read_text(encoding="utf-8").splitlines()
        assert text[int(line) - 1].strip()


@OURS
@pytest.mark.parametrize(
    ("name", "kind", "failing"),
    [("prophetnet_axes", "prophetnet", {"future", "prefix", "step"}), ("bamba_positions", "bamba", {"step", "chunks"})],
)
def test_one_line_changed_and_every_test_passes(name: str, kind: str, failing: set[str]) -> None:
    assert failing <= {finding.name for finding in audit(tiny(kind).model).failures}
    with findings.repair(findings.BUGS[name].repair):
        report = audit(tiny(kind).model)
        raised = {finding.name for finding in report if finding.verdict == "error"}
        assert {finding.name for finding in report.failures} == raised, report
    assert not audit(tiny(kind).model, only=["prefix", "step"]).passed  # the repair ends with the block


@OURS
def test_the_base_of_a_published_dbrx_is_found_wrong_and_one_line_mends_it(tmp_path: Path) -> None:
    published = {
        "model_type": "dbrx",
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "max_seq_len": 32768,
        "vocab_size": 100352,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    }
    (tmp_path / "config.json").write_text(json.dumps(published), encoding="utf-8")
    wanted = [500000 ** (-2 * pair / 128) for pair in range(64)]
    assert not audit(tiny(tmp_path).model, reference=wanted, only="angles").passed
    assert [knob.field for knob in knobs(tmp_path) if knob.verdict == UNREAD] == ["attn_config.rope_theta"]
    with findings.repair(findings.BUGS["dbrx_base"].repair):
        report = audit(tiny(tmp_path).model, reference=wanted)
        assert report.passed and report["angles"].verdict == "pass", report


def test_a_repair_of_another_version_says_so() -> None:
    line = findings.Repair("llama.modeling_llama:LlamaModel.forward", "a line that is not there", "")
    with pytest.raises(ValueError, match="another version"), findings.repair(line):
        pass


# ---- tiny models -----------------------------------------------------------------------------------------------------


def test_every_rule_says_why() -> None:
    assert all(each.why for each in RULES)
    assert len({each.names for each in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_key_value_heads", 2), ("num_attention_heads", 4), ("n_embd", 64),
     ("sliding_window", 8), ("mask_token_id", None), ("image_token_index", 98), ("eos_token_id", 2),
     ("qk_rope_head_dim", 8), ("index_topk", 12)],
)  # fmt: skip
def test_the_first_rule_that_matches_decides(field: str, value: int | None) -> None:
    found = rule(field)
    assert found is not None and found.value == value


def test_one_layer_of_each_kind_is_kept() -> None:
    kinds = ["sliding"] * 3 + ["full"] + ["sliding"] * 2
    out = shrunk({"num_hidden_layers": 6, "layer_types": kinds, "layer_theta": [1e4] * 3 + [1e6] + [1e4] * 2}, Shape())
    assert out == {"num_hidden_layers": 2, "layer_types": ["sliding", "full"], "layer_theta": [1e4, 1e6]}


def test_weights_are_the_same_for_the_same_seed_and_the_random_state_stays() -> None:
    torch.manual_seed(5)
    a, expected = tiny("gpt2", seed=3).model, torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), expected)
    b = tiny("gpt2", seed=3).model
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("kind", small.NOT_ASKED)
def test_what_is_not_asked_says_why(kind: str) -> None:
    if kind not in small.model_types():
        pytest.skip("not in this version")
    with pytest.raises(CannotBuild, match=kind) as caught:
        tiny(kind)
    assert small.NOT_ASKED[kind] in str(caught.value)


def folder(at: Path, **fields: Any) -> Path:
    (at / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return at


LLAMA_3 = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip


def test_a_folder_s_angles_are_those_of_its_configuration(tmp_path: Path) -> None:
    made = tiny(folder(tmp_path, **LLAMA_3))
    assert made.parameters < 2_000_000
    assert len(made.model.model.rotary_emb.inv_freq) == 64
    report = audit(made.model, configuration=tmp_path, only=["angles", "shift", "step"])
    assert report.passed and report["angles"].verdict == "pass", report


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "there is no config.json"), ("{", "not readable as JSON"), ("[]", "not an object of JSON"),
     ("{}", "has no model_type"),
     ('{"model_type": "lama"}', "did you mean .*llama"), ('{"model_type": "vit"}', "vit takes pixel_values and no to"),
     ('{"model_type": "my_own", "auto_map": {"AutoModelForCausalLM": "evil.M"}}', "my_own.*from a folder is not run")],
)  # fmt: skip
def test_a_folder_that_is_no_model_says_so(content: str | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(CannotBuild, match=says):
        tiny(tmp_path)


def test_nothing_of_a_folder_is_executed(tmp_path: Path) -> None:
    evil = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    for name in ("evil.py", "modeling_llama.py", "__init__.py", "config.py"):
        (tmp_path / name).write_text(evil, encoding="utf-8")
    folder(tmp_path, **LLAMA_3, auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"},
           attn_implementation="someone/kernel", _attn_implementation="someone/kernel",
           quantization_config={"quant_method": "gptq"})  # fmt: skip
    made = tiny(tmp_path)
    assert any("not run" in note for note in made.notes)
    assert type(made.model).__module__ == "transformers.models.llama.modeling_llama"
    assert "kernel" not in str(made.model.config._attn_implementation)
    assert not (tmp_path / "ran").exists()


def test_weights_of_a_folder_are_loaded_as_they_are(tmp_path: Path, llama: Any) -> None:
    llama.save_pretrained(tmp_path)
    again = load(tmp_path)
    x = torch.arange(10, 30)[None]
    assert torch.equal(again(x).logits, llama(x).logits)
    assert audit(again, randomise=False, only=["step", "future"]).passed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_that_do_not_fit_say_so(
    dtype: torch.dtype, tmp_path: Path, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.deepcopy(llama).to(dtype).save_pretrained(tmp_path)
    stored = sum(p.numel() * p.element_size() for p in llama.parameters()) * dtype.itemsize // 4
    monkeypatch.setattr(small, "available_memory", lambda: (5 if dtype == torch.float32 else 10) * stored - 1)
    with pytest.raises(CannotBuild, match=r"an audit of the weights .* GB of memory are free: audit the tiny model"):
        load(tmp_path)
    monkeypatch.setattr(small, "available_memory", lambda: 10 * stored)
    load(tmp_path)


def changed(at: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Other weights in a folder."""
    save_file(change(load_file(at / "model.safetensors")), at / "model.safetensors", {"format": "pt"})


def indexed(at: Path, weight_map: Any) -> None:
    (at / "model.safetensors").rename(at / "model-1.safetensors")
    (at / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def first(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(list(weights.items())[:3])


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda at: changed(at, lambda weights: {}), r"lack lm_head\.weight, .* and \d+ more: transformers would"),
    "partial": (lambda at: changed(at, first), "would draw them at random"),
    "prefix": (
        lambda at: changed(at, lambda weights: {f"module.{name}": value for name, value in weights.items()}),
        r"lack .*the files have module\.lm_head\.weight",
    ),
    "shapes": (
        lambda at: changed(at, lambda weights: {**weights, "lm_head.weight": torch.zeros(3, 4)}),
        "do not fit its config.json|lack .*lm_head",
    ),
    "cut short": (
        lambda at: (at / "model.safetensors").write_bytes((at / "model.safetensors").read_bytes()[:5000]),
        "is not a whole safetensors file .*: copy or download it again",
    ),
    "garbage": (
        lambda at: (at / "model.safetensors").write_bytes(b"<html>not found</html>"),
        "not a whole safetensors",
    ),
    "index": (
        lambda at: indexed(at, {"lm_head.weight": "model-2.safetensors"}),
        "names model-2.safetensors, which .* lacks",
    ),
    "index of nothing": (lambda at: indexed(at, {}), "names no files"),
    "index of another kind": (lambda at: indexed(at, []), "is not an index of weights"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_weights_that_are_not_all_there_are_refused(
    name: str, tmp_path: Path, llama: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, words = DAMAGES[name]
    llama.save_pretrained(tmp_path)
    load(tmp_path)
    damage(tmp_path)
    with pytest.raises(CannotBuild, match=words):
        load(tmp_path)
    capsys.readouterr()
    assert command.main([str(tmp_path), "--weights", "--only", "future"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("posenc.audit: ") and said.err.count("\n") == 1


def test_tied_weights_are_stored_once_and_all_there(tmp_path: Path) -> None:
    model = tiny("gpt2").model
    model.save_pretrained(tmp_path)
    assert torch.equal(load(tmp_path).lm_head.weight, model.lm_head.weight)


@pytest.mark.parametrize("options", [[], ["--weights"], ["--knobs"]])
@pytest.mark.parametrize(
    "text",
    [
        '{"model_type": "llama", "rope_theta": 1' + 400 * "0" + "}",
        '{"a": ' * 100_000,
        '{"model_type": ["llama"]}',
        '{"model_type": "llama", "hidden_size": "wide"}',
        '{"model_type": "llama", "num_attention_heads": 0}',
    ],
    ids=["huge", "nested", "list", "words", "zero"],
)
def test_what_no_model_can_be_built_of_is_status_2(
    text: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    if options == ["--weights"]:
        save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert command.main([str(tmp_path), "--only", "future", *options]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("posenc.audit: ") and said.err.count("\n") == 1


def test_weights_in_another_format_are_not_opened(tmp_path: Path) -> None:
    folder(tmp_path, **LLAMA_3)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    with pytest.raises(CannotBuild, match="no weights as"):
        load(tmp_path)


@pytest.mark.parametrize(("version", "age"), [("4.57.1", "older"), ("5.99.0.dev0", "newer")])
def test_another_version_is_a_note_and_no_error(version: str, age: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "version", lambda name: version)
    assert any(f"{version} is {age} than" in note for note in tiny("llama").notes)


def test_free_memory_is_known_here() -> None:
    free = small.available_memory()
    assert free is None or free > 1 << 20


# ---- the adapter -----------------------------------------------------------------------------------------------------


def test_use_cache_is_always_said(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def forward(self: Any, *given: Any, **named: Any) -> Any:
        seen.append(named.get("use_cache"))
        return FORWARD(self, *given, **named)

    monkeypatch.setattr(modeling_llama.LlamaModel, "forward", forward)
    adapter, x = TransformersAdapter(llama), torch.arange(10, 20)[None]
    with torch.no_grad():
        adapter.logits(x)
        adapter.step(x, None)
        adapter.logits_by_default(x)
    assert seen == [False, True, None]


def test_an_argument_that_a_class_drops_is_refused() -> None:
    x = torch.arange(10, 20)[None]
    with pytest.raises(Refused, match="takes no positions"):
        TransformersAdapter(tiny("bart").model).logits(x, x * 0)
    with pytest.raises(Refused, match="takes no mask"):
        TransformersAdapter(tiny("rwkv").model).logits(x, mask=x * 0 + 1)


def test_generating_leaves_the_model_s_settings_alone(llama: Any) -> None:
    before = llama.generation_config.to_dict()
    x = torch.arange(10, 20)[None]
    sequences, logits = TransformersAdapter(llama).generate(x, x[:, :4])
    assert llama.generation_config.to_dict() == before
    assert sequences[0, 10:].tolist() == [10, 11, 12, 13] and logits is not None and logits.shape == (1, 4, 99)


def test_names_of_images_are_no_text() -> None:
    adapter = TransformersAdapter(tiny("gemma3").model)
    assert adapter.vocabulary < adapter.model.config.get_text_config().vocab_size


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [("llama", "scheme", "relative"), ("llama", "packs", True), ("gpt2", "packs", False), ("mamba", "recurrent", True),
     ("xlnet", "causal", False), ("xlm", "causal", False), ("gpt2", "causal", True), ("minimax", "recurrent", True)],
)  # fmt: skip
def test_what_is_known_of_a_class(kind: str, attribute: str, value: Any) -> None:
    assert getattr(TransformersAdapter(tiny(kind).model), attribute) == value


def test_variants_have_the_same_weights() -> None:
    model = tiny("mistral").model
    (words, wide), *_ = TransformersAdapter(model).variants().items()
    assert words == "a window of 64" and wide.model.config.sliding_window == 64
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), wide.model.parameters(), strict=True))
    assert {p.data_ptr() for p in model.parameters()} == {p.data_ptr() for p in wide.model.parameters()}  # no copies
    x = torch.arange(8)[None]
    with torch.no_grad():
        assert torch.equal(model.eval()(x).logits, wide.model(x).logits)


# ---- fields that nobody reads ----------------------------------------------------------------------------------------


@OURS
@pytest.mark.parametrize(
    ("kind", "unread"),
    [("llama", []), ("qwen2", []), ("llama4_text", []), ("minimax_m3_vl_text", ["rotary_dim"]),
     ("moshi", ["sliding_window"]),
     ("mpt", ["learned_pos_emb", "attn_config.alibi", "attn_config.alibi_bias_max"])],
)  # fmt: skip
def test_fields_that_nobody_reads(kind: str, unread: list[str]) -> None:
    found = knobs(kind)
    assert [knob.field for knob in found if knob.verdict == UNREAD] == unread
    assert all(knob.note for knob in found if knob.verdict not in (READ, UNREAD))


def test_the_report_of_knobs_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_report(folder(tmp_path, **LLAMA_3)) == 0
    assert "rope_parameters.rope_theta" in capsys.readouterr().out


# ---- the census ------------------------------------------------------------------------------------------------------


def test_a_row_of_the_census() -> None:
    row = census.one("gpt2")
    assert row["class"] == "GPT2LMHeadModel" and row["scheme"] == "learned"
    assert row["tests"]["step"][0] == "pass" and row["tests"]["shift"][0] == "property"
    assert census.one("musicgen")["not_run"]


def test_what_hangs_costs_its_own_row() -> None:
    worker = census.Worker(0.05)
    try:
        assert worker.row("llama") == {"name": "llama", "not_run": "stopped after 0.05 s"}
    finally:
        worker.stop()


def test_a_stopped_run_goes_on_and_one_of_another_kind_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part, out, another = census.PARTS["causal"], tmp_path / "out.json", census.PARTS["encoder-decoder"]
    part.parent.mkdir()
    another.write_text("rows of another kind", encoding="utf-8")
    row = {"name": "llama", "tests": {}, "knobs": {}, "cpu": 0.5, "of": census.state()}
    other = {**row, "name": "gpt2", "of": {**census.state(), "questions": ["again"]}}
    part.write_text(json.dumps(row) + "\n" + json.dumps(other) + "\n" + '{"name": "be', encoding="utf-8")
    assert list(census.kept(part)) == ["llama"]
    arguments = ["llama", "--out", str(out), "--date", "2026-01-02"]
    assert census.main(arguments) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["date"] == "2026-01-02" and [each["name"] for each in found["rows"]] == ["llama"]
    assert not part.exists() and another.exists()


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert census.main(["no_such_model"]) == 2
    assert "no causal language model no_such_model" in capsys.readouterr().err


@pytest.mark.skipif(not KEPT.exists(), reason="make census writes it")
def test_the_census_fails_where_a_finding_was_shown_again_and_nowhere_else() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert kept["transformers"] == findings.VERSION
    ran = {row["name"]: row for row in kept["rows"] if "tests" in row}
    assert len(ran) >= 180
    failing = {name for name, row in ran.items() if any(test[0] == "fails" for test in row["tests"].values())}
    unread = {name for name, row in ran.items() if any(verdict == UNREAD for verdict, _ in row["knobs"].values())}
    assert failing | unread == {kind for bug in findings.BUGS.values() for kind in bug.architectures}
    for bug in findings.BUGS.values():
        for kind in bug.architectures if bug.test not in ("knobs", "angles") else ():
            assert ran[kind]["tests"][bug.test][0] == "fails", (kind, bug.test)
