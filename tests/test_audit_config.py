"""posenc.audit.config: configurations, held against posenc's own schemes, transformers, and published files."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.audit.config import Reading, Rotation, published, published_table, read_config
from posenc.configs import tables
from posenc.configs.rotation import SCALINGS, first_negative, plain
from posenc.schemes.alibi import alibi_slopes
from posenc.schemes.presets import PRESETS, preset
from posenc.schemes.scaling import yarn_attention_factor

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 32, "max_position_embeddings": 131_072, "rope_theta": 500_000.0, "torch_dtype": "bfloat16",
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 1152, "head_dim": 256, "num_attention_heads": 4,
    "num_key_value_heads": 1, "num_hidden_layers": 26, "max_position_embeddings": 32_768, "sliding_window": 512,
}  # fmt: skip
DEEPSEEK = published()["deepseek-ai/DeepSeek-V3"]["config"]


def only(reading: Reading) -> Rotation:
    """The one rotation of a reading."""
    (found,) = reading.rotations.values()
    assert found is not None
    return found


# Frequencies


@pytest.mark.parametrize("name", PRESETS)
def test_frequencies_are_those_of_the_presets(name: str) -> None:
    entry, rope = PRESETS[name], preset(name)
    context = 131_072 if entry.rope_scaling else 4096
    found = only(read_config({**entry.config, "max_position_embeddings": context}))
    for length in (1, 5000, context):
        want = rope.freq if isinstance(rope.freq, torch.Tensor) else rope.freq(torch.tensor(length))
        torch.testing.assert_close(torch.tensor(found.at(length)).float(), want.float(), rtol=3e-6, atol=0)
    assert math.isclose(found.attention_factor, rope.attention_factor, rel_tol=1e-12)
    assert (found.head_dim, found.planes) == (rope.head_dim, len(found.frequencies))


HALF, DIVISORS = [1.0] * 8, [float(each) for each in range(1, 17)]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"factor": 4.0}, {"factor": 2.5, "partial_rotary_factor": 0.5, "rope_theta": 1e6}],
    "dynamic": [{"factor": 2.0}, {"factor": 1.0, "partial_rotary_factor": 0.5}],
    "yarn": [
        {"factor": 4.0},
        {"factor": 8.0, "original_max_position_embeddings": 512, "truncate": False},
        {"factor": 8.0, "original_max_position_embeddings": 512, "beta_fast": 1.0, "beta_slow": 1.0},
        {"factor": 8.0, "original_max_position_embeddings": 512, "beta_fast": 0, "beta_slow": 4, "rope_theta": 150e3},
        {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0, "partial_rotary_factor": 0.5},
        {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.5},
        {"factor": 40.0, "mscale": 0.707},
        {"factor": 4.0, "attention_factor": 1.25},
        {"factor": None, "original_max_position_embeddings": 1024},
        {"factor": 0.5},
        {"factor": 4.0, "rope_theta": 100.0, "beta_fast": 64},
    ],
    "longrope": [
        {"short_factor": HALF * 2, "long_factor": DIVISORS, "original_max_position_embeddings": 1024},
        {"short_factor": HALF, "long_factor": DIVISORS[:8], "factor": 4.0, "partial_rotary_factor": 0.5},
        {"short_factor": HALF * 2, "long_factor": DIVISORS, "attention_factor": 1.5, "factor": 32.0},
    ],
    "llama3": [
        {**LLAMA_3, "original_max_position_embeddings": 1024},
        {**LLAMA_3, "original_max_position_embeddings": 512, "low_freq_factor": 1.0, "high_freq_factor": 1.0},
    ],
    "proportional": [{"partial_rotary_factor": 0.25}, {"partial_rotary_factor": 0.3, "factor": 8.0}, {}],
}


@pytest.mark.parametrize("length", [1, 1024, 1025, 4096, 4097, 100_000])
@pytest.mark.parametrize("kind", SETTINGS)
def test_every_rope_type_is_that_of_transformers(kind: str, length: int) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    for parameters in SETTINGS[kind]:
        sizes = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 4096}
        own = {"rope_theta": 10_000.0, **parameters, "rope_type": kind}
        config = LlamaConfig(**sizes, rope_parameters=copy.deepcopy(own))
        want, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
        for written in ({**sizes, "rope_parameters": own}, config):
            found = only(read_config(written))
            torch.testing.assert_close(torch.tensor(found.at(length)), want, rtol=2e-6, atol=0, check_dtype=False)
            assert math.isclose(found.attention_factor, factor, rel_tol=1e-12), parameters


def test_rope_parameters_by_kind_of_layer_are_read_as_transformers_does() -> None:
    """It looks for `truncate` beside the kinds of layers, so that the one inside has no effect."""
    pytest.importorskip("transformers")
    from transformers import Gemma3TextConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    own = {**YARN, "original_max_position_embeddings": 4096, "truncate": False, "rope_theta": 1e6}
    config = Gemma3TextConfig(
        **GEMMA, rope_parameters={"full_attention": own, "sliding_attention": {"rope_theta": 1e4}}
    )
    want, factor = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu", layer_type="full_attention")
    found = read_config(config).rotations["full_attention"]
    assert found is not None and math.isclose(found.attention_factor, factor)
    torch.testing.assert_close(torch.tensor(found.frequencies), want, rtol=2e-6, atol=0, check_dtype=False)
    flat = only(read_config({"head_dim": 256, "max_position_embeddings": 32_768, "rope_parameters": own}))
    assert flat.frequencies != found.frequencies


def test_no_rope_type_of_transformers_is_missing() -> None:
    pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    assert set(SCALINGS) == {"default", *ROPE_INIT_FUNCTIONS} == {"default", *SETTINGS}


# What follows from frequencies


def test_planes_that_never_turned_are_counted_over_what_training_showed() -> None:
    found = only(read_config({**LLAMA, "rope_scaling": LLAMA_3}))
    assert found.never_turned == sum(2 * math.pi / each > 8192 for each in plain(128, 500_000.0)) == 29
    assert only(read_config({**LLAMA, "rope_scaling": LLAMA_3}, trained=1024)).never_turned == 39
    assert sum(2 * math.pi / each > 1024 for each in plain(128, 500_000.0)) == 39
    assert only(read_config({**LLAMA, "max_position_embeddings": 8192})).never_turned == 29


@pytest.mark.parametrize(("length", "new"), [(8192, 0), (65_536, 0), (65_537, 29), (131_072, 29)])
def test_llama_3_1_meets_new_angles_beyond_eight_times_its_trained_length(length: int, new: int) -> None:
    planes = read_config({**LLAMA, "rope_scaling": LLAMA_3}).at(length).new_planes[""]
    assert planes is not None and len(planes) == new
    assert planes == list(range(64 - new, 64))  # the slowest ones


def test_without_scaling_each_longer_text_brings_new_angles_and_with_dynamic_ones_too() -> None:
    short = {**LLAMA, "max_position_embeddings": 8192}
    assert read_config(short).at(8193).new_planes == {"": list(range(35, 64))}
    assert read_config({**short, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}).at(9999).new_planes == {
        "": None
    }
    twice = {"rope_type": "linear", "factor": 2.0}
    assert read_config({**short, "rope_scaling": twice}, trained=4096).at(8192).new_planes == {"": []}
    assert len(read_config({**short, "rope_scaling": twice}, trained=4096).at(8193).new_planes[""] or []) == 32


def test_layers_with_a_window_never_see_an_offset_beyond_it() -> None:
    reading = read_config(GEMMA)
    local, far = reading.rotations["sliding_attention"], reading.rotations["full_attention"]
    assert local is not None and far is not None
    assert (local.reach, local.seen, far.reach, far.seen) == (512, 512, None, 32_768)
    assert reading.at(10**6).new_planes["sliding_attention"] == []
    assert len(reading.at(10**6).new_planes["full_attention"] or []) == far.never_turned == 48


@pytest.mark.parametrize(("dims", "base", "want"), [(128, 1e4, 1707), (64, 1e4, 725), (8, 1e4, 91), (64, 1e6, 6235)])
def test_the_bound_is_the_first_offset_with_a_negative_sum(dims: int, base: float, want: int) -> None:
    offsets = torch.arange(1, 8000, dtype=torch.float64)
    sums = torch.tensor(plain(dims, base), dtype=torch.float64).outer(offsets).cos().sum(0)
    assert int(offsets[sums < 0][0]) == want == first_negative(plain(dims, base), 8000)
    assert first_negative(plain(dims, base), want - 1) is None


@pytest.mark.parametrize("frequencies", [(0.01,) * 4, (1.0,), (0.3, 0.02), (0.5, 0.01, 0.01, 0.01), (0.0, 0.0)])
def test_positions_that_are_skipped_hold_no_negative_sum(frequencies: tuple[float, ...]) -> None:
    sums = ((m, sum(math.cos(m * each) for each in frequencies)) for m in range(1, 1000))
    assert first_negative(frequencies, 999) == next((m for m, total in sums if total < 0), None)


@pytest.mark.parametrize(
    ("name", "static", "want"),
    [
        ("meta-llama/Llama-2-7b-hf", 0, 1707),
        ("EleutherAI/gpt-j-6b", 96, None),  # 64 of 256 channels rotate
        ("deepseek-ai/DeepSeek-V3", 64, None),  # 128 channels of content beside 64 of position
        ("microsoft/Phi-4-mini-instruct", 16, 107_991),  # rotated channels count 1.19² times
    ],
)
def test_the_bound_counts_the_channels_that_do_not_rotate(name: str, static: int, want: int | None) -> None:
    found = read_config(published()[name]["config"]).rotations[""]
    assert found is not None and found.context is not None
    rotated = torch.zeros(found.context, dtype=torch.float64)
    offsets = torch.arange(1, found.context + 1, dtype=torch.float64)
    for each in found.frequencies:
        rotated += (each * offsets).cos()
    low = (static + found.attention_factor**2 * rotated < 0).nonzero()
    assert (int(offsets[low[0]]) if len(low) else None) == want == found.bound
    assert rotated.min() < 0  # the rotated channels alone do fall below zero


@pytest.mark.parametrize("level", [0.0, 0.5, 3.5, 4.0, 9.0])
def test_a_level_is_added_to_the_sum_at_every_offset(level: float) -> None:
    frequencies = (0.5, 0.02, 0.013, 0.01)
    sums = ((m, level + sum(math.cos(m * each) for each in frequencies)) for m in range(1, 5000))
    assert first_negative(frequencies, 4999, level) == next((m for m, total in sums if total < 0), None)


@pytest.mark.parametrize("context", [1024, 4096, 16_384])
def test_the_bound_agrees_with_the_fit_of_men_et_al(context: int) -> None:
    """Their least base for a window L, 0.0424 · L^1.628 (figure 1 of arXiv 2405.14591), reaches about as far as L."""
    first = first_negative(plain(128, 0.0424 * context**1.628), 4 * context)
    assert first is not None and 0.7 * context < first < 1.4 * context


# Which channels rotate, which layers, and what says so


@pytest.mark.parametrize(
    ("fields", "dims"),
    [
        ({"partial_rotary_factor": 0.5}, 64),
        ({"rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 1e4}}, 32),
        ({"rotary_pct": 0.25}, 32),
        ({"model_type": "minimax_m2", "rotary_dim": 64}, 64),
        ({"model_type": "gpt_neox", "rope_theta": None}, 32),
        ({"model_type": "somebody's own", "rotary_dim": 64}, 64),
        ({"qk_rope_head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128}, 64),
        ({"qk_rope_head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "partial_rotary_factor": 0.334}, 64),
    ],
)
def test_the_part_of_a_head_that_rotates(fields: dict[str, Any], dims: int) -> None:
    found = only(read_config({**LLAMA, **fields}))
    assert (found.dims, found.planes) == (dims, dims // 2)
    assert found.plain[1] == found.base ** (-2 / dims)


@pytest.mark.parametrize(
    ("fields", "base", "why"),
    [
        ({}, 500_000.0, "rope_theta"),
        ({"rope_theta": None}, 10_000.0, "model_type llama, whose class rotates by default"),
        ({"rope_theta": None, "rotary_emb_base": 7000}, 7000, "rotary_emb_base"),
        ({"rope_parameters": {"rope_theta": 2e6}}, 2e6, "rope_parameters"),
        ({"rope_parameters": {"rope_type": "default"}}, 500_000.0, "rope_parameters"),
        ({"model_type": "cohere", "rope_theta": None}, 500_000.0, "model_type cohere, whose class rotates by default"),
    ],
)
def test_the_base_and_the_field_that_said_so(fields: dict[str, Any], base: float, why: str) -> None:
    reading = read_config({**LLAMA, **fields})
    assert (reading.scheme, reading.why, only(reading).base) == ("rope", why, base)
    assert any("the base is not in the file" in note for note in reading.notes) is ("class" in why)


@pytest.mark.parametrize(
    ("config", "kinds", "without"),
    [
        (GEMMA, {"sliding": 22, "full": 4}, 0),
        ({**GEMMA, "sliding_window_pattern": 2}, {"sliding": 13, "full": 13}, 0),
        ({**GEMMA, "sliding_window": 32_768}, {"full": 26}, 0),  # a window that never acts
        ({**LLAMA, "model_type": "mistral", "sliding_window": 4096}, {"sliding": 32}, 0),
        ({**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, {"full": 32}, 0),
        ({**LLAMA, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 20},
         {"full": 20, "sliding": 12}, 0),
        ({**LLAMA, "model_type": "cohere2", "sliding_window": 4096}, {"sliding": 24, "full": 8}, 8),
        ({**LLAMA, "model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"},
         {"sliding": 24, "full": 8}, 8),
        ({**LLAMA, "model_type": "exaone4", "sliding_window": None}, {"full": 32}, 0),
        ({**LLAMA, "model_type": "smollm3"}, {"full": 32}, 8),
        ({**LLAMA, "no_rope_layers": [1, 0] * 16}, {"full": 32}, 16),
        ({**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 8192}, {"chunked": 24, "full": 8}, 8),
        ({**LLAMA, "full_attention_interval": 4}, {"linear": 24, "full": 8}, 0),
        ({**LLAMA, "model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4},
         {"linear": 28, "full": 4}, 0),
        ({**LLAMA, "hybrid_override_pattern": "M-M*" * 8}, {"linear": 16, "mlp": 8, "full": 8}, 0),
        ({**LLAMA, "attn_type_list": [0, 0, 0, 1] * 8}, {"linear": 24, "full": 8}, 0),
        ({**LLAMA, "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": None},
          "layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 512},
         {"sliding": 16, "full": 16}, 16),
        ({**LLAMA, "layer_rope_theta": [1e4, 0] * 16}, {"full": 32}, 16),
        ({**LLAMA, "attention_types": [[["global", "local"], 16]], "window_size": 256}, {"full": 16, "sliding": 16}, 0),
    ],
)  # fmt: skip
def test_kinds_of_layers_and_those_that_do_not_rotate(
    config: dict[str, Any], kinds: dict[str, int], without: int
) -> None:
    reading = read_config(config)
    assert (reading.kinds, reading.without_rotation) == (kinds, without)
    assert len(reading.layers) == config["num_hidden_layers"]


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"sliding_window": 512}, 512),
        ({"model_type": "modernbert-decoder", "local_attention": 128}, 64),
        ({"sliding_window_size": 128}, 128),
        ({"sliding_window": 0}, None),
        ({"sliding_window": -1}, None),
        ({"sliding_window": 131_072}, None),
        ({"sliding_window": 131_071}, 131_071),
    ],
)
def test_windows_that_act(fields: dict[str, Any], window: int | None) -> None:
    assert {layer.window for layer in read_config({**LLAMA, **fields}).layers} - {None} == {window} - {None}


@pytest.mark.parametrize(
    ("config", "scheme", "why"),
    [
        ({"model_type": "bloom"}, "alibi", "model_type bloom, whose fields do not say it"),
        ({"alibi": True, "rope_theta": 1e4}, "alibi", "alibi is true"),
        ({"attn_config": {"alibi": True}}, "alibi", "attn_config.alibi is true"),
        ({"n_positions": 1024}, "unknown", "n_positions is only a length, and no field says how positions enter"),
        (
            {"model_type": "gpt2", "n_positions": 1024},
            "learned",
            "model_type gpt2, whose class has a table (n_positions)",
        ),
        (
            {"model_type": "xglm", "max_position_embeddings": 8},
            "sinusoidal",
            "model_type xglm, whose fields do not say it",
        ),
        ({"relative_attention_num_buckets": 32}, "t5", "relative_attention_num_buckets"),
        ({"position_embedding_type": "nope", "rope_theta": 1e4}, "nope", "position_embedding_type is 'nope'"),
        ({"mla_use_nope": True, "qk_rope_head_dim": 64}, "nope", "mla_use_nope is true"),
        ({"state_size": 16}, "nope", "state_size, and nothing about positions"),
        ({"rel_extent": 1024}, "learned_relative", "rel_extent"),
        ({"axial_pos_embds": True}, "axial", "axial_pos_embds"),
        ({"sinusoidal_embeddings": True}, "sinusoidal", "sinusoidal_embeddings"),
        ({"vocab_size": 9}, "unknown", "no field about positions"),
    ],
)
def test_schemes_and_the_field_that_said_so(config: dict[str, Any], scheme: str, why: str) -> None:
    reading = read_config(config)
    assert (reading.scheme, reading.why) == (scheme, why)
    assert str(reading).splitlines()[1].startswith("scheme   ")


# Other schemes in numbers


@pytest.mark.parametrize("heads", [1, 2, 8, 12, 20, 32, 71])
def test_alibi_has_the_slopes_of_posenc(heads: int) -> None:
    found = read_config({"model_type": "bloom", "n_head": heads, "seq_length": 2048}).slopes
    torch.testing.assert_close(torch.tensor(found), alibi_slopes(heads), rtol=1e-6, atol=0)


def test_tables_have_the_rows_of_their_classes() -> None:
    gpt, opt = {"model_type": "gpt2", "n_positions": 1024}, {"model_type": "opt", "max_position_embeddings": 2048}
    roberta = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert [read_config(each).rows for each in (gpt, opt, roberta)] == [(1024, 1024), (2050, 2048), (514, 512)]
    assert read_config(LLAMA).rows is None
    buckets = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
    assert read_config(buckets).buckets == (32, 128)


@pytest.mark.parametrize("position", [0, 8190, 8191, 100_000, 10_485_759])
def test_queries_of_llama_4_and_ministral_grow_as_their_code_says(position: int) -> None:
    llama4 = read_config({**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 8192}).position_scale
    own = {**YARN, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 8192}
    ministral = read_config({**LLAMA, "model_type": "ministral3", "rope_parameters": own}).position_scale
    assert llama4 is not None and ministral is not None
    assert math.isclose(llama4.at(position), 1 + 0.1 * math.log1p((position + 1) // 8192))
    assert math.isclose(ministral.at(position), 1 + 0.1 * math.log1p(position // 8192))
    assert (llama4.layers, ministral.layers) == ("without rotation", "all")
    assert read_config({**LLAMA, "rope_parameters": own}).position_scale is None  # Llama's class does not read it


def test_deepseek_multiplies_all_scores_and_yarn_those_of_rotated_channels() -> None:
    square = yarn_attention_factor(40.0) ** 2
    deepseek = read_config(DEEPSEEK)
    assert math.isclose(deepseek.score_factor, square) and only(deepseek).attention_factor == 1.0
    assert math.isclose(deepseek.logit_factor(), square)
    llama = read_config({**LLAMA, "rope_scaling": {**YARN, "factor": 40.0}})
    assert llama.score_factor == 1.0 and math.isclose(llama.logit_factor(), square)
    both = {"mscale": 1.0, "mscale_all_dim": 1.0}
    assert read_config({**LLAMA, "rope_scaling": {**YARN, **both}}).logit_factor() == 1.0  # they cancel there


# Memory


@pytest.mark.parametrize(
    ("config", "grows", "at", "total"),
    [
        (LLAMA, 2 * 8 * 128 * 32 * 2, 1000, 131_072 * 1000),
        ({**LLAMA, "torch_dtype": "float32"}, 4 * 8 * 128 * 32 * 2, 10, 2_621_440),
        (DEEPSEEK, 2 * 61 * (512 + 64), 7, 7 * 70_272),
        ({**DEEPSEEK, "index_topk": 2048, "index_head_dim": 128}, 2 * 61 * (512 + 64 + 128), 1, 85_888),
        (GEMMA, 2 * 4 * 2 * 256, 1000, 2 * 2 * 256 * (4 * 1000 + 22 * 512)),
        ({**GEMMA, "num_kv_shared_layers": 13}, 2 * 2 * 2 * 256, 10, 2 * 2 * 256 * 13 * 10),
        ({**LLAMA, "multi_query": True}, 2 * 128 * 32 * 2, 1, 16_384),
        ({**LLAMA, "model_type": "mistral", "sliding_window": 4096}, 0, 8192, 131_072 * 4096),
        ({**LLAMA, "full_attention_interval": 4}, 2 * 8 * 128 * 8 * 2, 1, 32_768),
        ({**LLAMA, "v_head_dim": 64}, 2 * 8 * (128 + 64) * 32, 1, 98_304),
        ({**DEEPSEEK, "model_type": "longcat_flash", "num_hidden_layers": 2}, 2 * 2 * 2 * 576, 1, 4608),
        ({**DEEPSEEK, "index_topk": 8, "index_head_dim": 128, "num_hidden_layers": 2,
          "indexer_types": ["full", "shared"]}, 2 * (2 * 576 + 128), 1, 2560),
    ],
)  # fmt: skip
def test_a_cache_holds_keys_values_or_latents_and_drops_what_a_window_cannot_see(
    config: dict[str, Any], grows: int, at: int, total: int
) -> None:
    reading = read_config(config)
    assert (reading.bytes_per_token, reading.cache_bytes(at), reading.at(at).cache_bytes) == (grows, total, total)


def test_memory_that_is_not_a_fixed_number_for_each_token_is_not_computed() -> None:
    reading = read_config(published()["deepseek-ai/DeepSeek-V4-Flash"]["config"])
    assert reading.kinds == {"sliding": 2, "compressed": 41}
    assert (reading.bytes_per_token, reading.cache_bytes(99)) == (None, None)
    assert any("memory is unknown" in note for note in reading.notes)


# Fields that contradict each other


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rope_parameters": {"rope_theta": 1e4}}, "rope_theta is 500000 beside the rope parameters and 10000 in them"),
        ({"rope_scaling": YARN, "rope_parameters": LLAMA_3}, "rope_parameters beside it is not"),
        ({"rope_scaling": {**YARN, "type": "linear"}}, "type is 'linear' beside rope_type 'yarn'"),
        ({"rope_scaling": {**YARN, "factor": 8.0}}, "factor is 8, but max_position_embeddings / original"),
        ({"rope_scaling": YARN, "max_position_embeddings": 32_768}, "still is the trained length, 32768: write 131072"),
        ({"rope_scaling": {**YARN, "beta_fast": 1, "beta_slow": 32}}, "beta_fast is 1, below beta_slow, 32"),
        ({"rope_scaling": {**YARN, "mscale": 0.707}}, "mscale is given alone"),
        ({"rope_scaling": {**YARN, "mscale_all_dim": 0.707}}, "mscale_all_dim is given alone"),
        ({"rope_scaling": {**YARN, "attention_factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}},
         "attention_factor is used"),
        ({"rope_scaling": {**YARN, "scale": 4}}, "scale is no rope parameter that transformers"),
        ({"rope_scaling": {**YARN, "llama_4_scaling_beta": 0.1}}, "llama_4_scaling_beta is no rope parameter"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta_fast": 32}},
         "beta_fast is not read by rope_type 'linear'"),
        ({"rope_scaling": {**LLAMA_3, "truncate": False}},
         "truncate is not read by rope_type 'llama3', only by 'yarn'"),
        ({"rope_scaling": {**LLAMA_3, "low_freq_factor": 8.0}}, "low_freq_factor is above high_freq_factor"),
        ({"rope_scaling": {**LLAMA_3, "original_max_position_embeddings": 131_072}},
         "not below max_position_embeddings"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "factor is 0.5, below 1"),
        ({"rope_scaling": {**YARN, "factor": 32.0}, "original_max_position_embeddings": 4096},
         "original_max_position_embeddings is 4096 beside"),
        ({"partial_rotary_factor": 0.5, "rotary_dim": 32, "head_dim": 128},
         "rotary_dim is 32 and partial_rotary_factor 0.5"),
        ({"model_type": "minimax", "rotary_dim": 64}, "rotary_dim is 64, but the class of 'minimax'"),
        ({"partial_rotary_factor": 0.334, "qk_rope_head_dim": 64}, "qk_rope_head_dim, 64, already is the part"),
        ({"partial_rotary_factor": 0.12}, "15 channels rotate, an odd number"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types has 31 entries, but there are 32 layers"),
        ({"no_rope_layers": [1, 0]}, "no_rope_layers has 2 entries, but there are 32 layers"),
        ({"hybrid_override_pattern": "M*"}, "hybrid_override_pattern has 2 letters, but there are 32 layers"),
        ({"layer_types": ["sliding_attention"] * 32}, "there are sliding layers, but no sliding_window"),
        ({"use_sliding_window": True}, "use_sliding_window is true, but sliding_window is missing"),
        ({"num_key_value_heads": 5}, "32 heads cannot share 5 heads of keys evenly"),
        ({"alibi": True}, "rope_theta is not read, because alibi is true"),
        ({"mla_use_nope": True}, "rope_theta is not read, because the model does not rotate"),
        ({"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}, "rope_theta": None},
         "rotates with 10000: add rope_param"),
        ({"model_type": "mpt", "attn_config": {"alibi": False}, "rope_theta": None},
         "attn_config.alibi is False, but trans"),
        ({"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 16}, "rope_theta": None},
         "alibi_bias_max is 16"),
        ({"rope_parameters": {"sliding": {"rope_theta": 1e4}, "full": {"rope_theta": 1e6}}, "rope_theta": None,
          "layer_types": ["full_attention"] * 32}, "rope_parameters has 'full', but layer_types has 'full_attention'"),
        ({"rope_parameters": {"full_attention": {**YARN, "truncate": False}}, "layer_types": ["full_attention"] * 32},
         "truncate of full_attention is not read inside a kind of layers, but beside the kinds"),
    ],
)  # fmt: skip
def test_each_contradiction_is_one_sentence_with_its_remedy(fields: dict[str, Any], words: str) -> None:
    reading = read_config({**LLAMA, **fields})
    (found,) = [each for each in reading.warnings if words in each]
    assert found.endswith(".") and ": " in found and "\n" not in found
    assert len(reading.warnings) == 1, reading.warnings
    assert "warning  " in str(reading)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_scaling": LLAMA_3},
        {"rope_scaling": {**YARN, "truncate": False, "beta_fast": 32, "beta_slow": 1, "finetuned": True}},
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_scaling": {"type": "dynamic", "factor": 4.0}},
        {"rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]}},
        {"partial_rotary_factor": 0.5, "rotary_dim": 64, "head_dim": 128},
        {"layer_types": ["full_attention"] * 32, "no_rope_layers": [1] * 32},
        {"model_type": "minimax_m2", "rotary_dim": 64},
        {"model_type": "somebody's own", "rotary_dim": 64},
        {"model_type": "deepseek_v3", "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    ],
)
def test_fields_that_agree_get_no_warning(fields: dict[str, Any]) -> None:
    assert read_config({**LLAMA, **fields}).warnings == ()


# Bad input


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"rope_theta": "10000"},
            "rope_theta in the configuration is '10000', a string: write the number without quotes",
        ),
        ({"num_hidden_layers": "32"}, "num_hidden_layers in the configuration is '32', a string"),
        ({"rope_theta": math.nan}, "rope_theta in the configuration is nan"),
        ({"max_position_embeddings": math.inf}, "max_position_embeddings in the configuration is inf"),
        ({"rope_theta": -1.0}, "write a base above 1"),
        ({"rope_theta": True}, "rope_theta in the configuration is True: write a number"),
        ({"num_hidden_layers": 2.5}, "write a whole number of at least 1"),
        ({"num_attention_heads": 0}, "write a whole number of at least 1"),
        ({"rope_scaling": "yarn"}, "rope_scaling in the configuration is 'yarn', but it holds fields by name"),
        (
            {"rope_scaling": {"rope_type": "ntk-parts"}},
            "is 'ntk-parts', but transformers 5.23 knows 'default', 'linear'",
        ),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing, which rope_type 'linear' needs: add factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "8"}}, "factor in the configuration is '8', a string"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor in the configuration is 0"),
        ({"rope_scaling": {**YARN, "beta_fast": math.nan}}, "beta_fast in the configuration is nan"),
        (
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": None},
            "max_position_embeddings is missing, which rope_type 'dynamic' needs: add max_position_embeddings to",
        ),
        (
            {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0] * 64}},
            "short_factor in the configuration has 1 entries for 64 planes",
        ),
        ({"partial_rotary_factor": 1.5}, "write the share of a head's channels that rotates, above 0 and up to 1"),
        ({"layer_types": {"full": 32}}, "layer_types in the configuration is"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_refused_in_one_sentence(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_config({**LLAMA, **fields})
    assert "\n" not in str(caught.value)


def test_files_that_are_no_configuration_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*nowhere: pass a folder"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no config\.json: pass the folder of a model"):
        read_config(tmp_path)
    for words, text in (
        (r"config\.json is not JSON: .* in line 2", b'{"a": 1,\n b}'),
        (r"config\.json holds a list, but a configuration is an object", b"[1, 2]"),
        (r"config\.json is not text in UTF-8", b"\xff\xfe\x00"),
    ):
        (tmp_path / "config.json").write_bytes(text)
        with pytest.raises(ValueError, match=words):
            read_config(tmp_path)
    with pytest.raises(TypeError, match="config is a int: pass a folder"):
        read_config(7)
    with pytest.raises(ValueError, match="trained is 0, but it is a length"):
        read_config(LLAMA, trained=0)
    with pytest.raises(ValueError, match="length is 0, but it is a number of tokens"):
        read_config(LLAMA).at(0)


def test_what_is_not_said_is_a_note_and_not_a_guess() -> None:
    bare = read_config({"model_type": "llama", "rope_theta": 1e4})
    assert bare.rotations == {} and bare.layers == () and bare.cache_bytes(10) is None
    assert [note.partition(" is missing")[0] for note in bare.notes] == [
        "the number of channels of a head",
        "the number of layers",
    ]
    strange = read_config({**LLAMA, "model_type": "vicuna"})
    assert only(strange).base == 500_000.0
    assert strange.notes[0].startswith("model_type 'vicuna' is not among the language models of transformers")
    assert read_config({}).notes[0] == "there is no model_type, so the defaults of its class are unknown."


@pytest.mark.parametrize("part", ["text_config", "llm_config", "thinker_config"])
def test_the_part_that_reads_text_is_found(part: str, tmp_path: Path) -> None:
    whole = {"model_type": "wrapper", "torch_dtype": "float32", "vision_config": {"rope_theta": 100.0}, part: LLAMA}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    reading = read_config(tmp_path)
    assert (reading.model_type, only(reading).base, reading.width) == ("llama", 500_000.0, 2)
    assert reading.notes == (f"read from {part}, the part that reads text.",)
    deeper = {"thinker_config": {"text_config": LLAMA}, "model_type": "omni"}
    assert read_config(deeper).notes == ("read from thinker_config.text_config, the part that reads text.",)


def test_infinity_in_a_field_that_is_not_about_positions_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "mamba2", "time_step_limit": [0.0, Infinity], "state_size": 8}'
    )
    assert read_config(str(tmp_path / "config.json")).scheme == "nope"


# Reports


def test_a_report_says_what_the_reading_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "rope_scaling": LLAMA_3}))
    text = str(read_config(tmp_path))
    for words in (
        "config.json: llama", "RoPE, because of rope_scaling", "32: 32 full", "32 of 128 channels; 8 of keys",
        "base 500000, 128 of 128 channels rotate, 64 planes", "rope type llama3, factor 8", "trained on 8192 tokens",
        "29 of 64 did not complete a turn", "29 reach new angles at 131072", "first at offset 85133",
        "128.0 KiB more for each token, 16.0 GiB at 131072 tokens",
    ):  # fmt: skip
        assert words in " ".join(text.split()), words
    assert max(map(len, text.splitlines())) <= 112 + len(str(tmp_path))


def test_a_reading_becomes_json_with_all_its_numbers() -> None:
    reading = read_config(published()["google/gemma-3-1b-it"]["config"])
    again = json.loads(json.dumps(reading.to_dict(), allow_nan=False))
    assert again["rotations"]["full_attention"]["never_turned"] == 48
    assert again["layers"][5] == {"name": "full_attention", "kind": "full", "window": None,
                                  "rotation": "full_attention", "numbers": 512, "both_sides": False}  # fmt: skip
    assert again["cache_bytes"] == reading.cache_bytes(32_768)
    still = read_config({**LLAMA, "rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.0}})
    assert json.dumps(still.to_dict(), allow_nan=False) and only(still).still == 64 and "64 of them" in str(still)


# Published configurations


def test_published_configurations_have_a_source_and_no_warning_but_two() -> None:
    warned = {}
    for name, one in published().items():
        assert one["source"] and set(one) == {"source", "config"}
        reading = read_config(one["config"])
        assert reading.scheme != "unknown" and reading.layers, name
        if reading.warnings:
            warned[name] = reading.warnings
    assert list(warned) == ["databricks/dbrx-instruct", "moonshotai/Kimi-Linear-48B-A3B-Instruct"]
    assert len(published()) >= 50


OF_PRESETS = {
    "gpt-j-6b": "EleutherAI/gpt-j-6b", "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "codellama-7b": "codellama/CodeLlama-7b-hf",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B", "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B", "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B", "llama-3.2-3b": "meta-llama/Llama-3.2-3B",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1", "mixtral-8x7b-v0.1": "mistralai/Mixtral-8x7B-v0.1",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct", "qwen3-8b": "Qwen/Qwen3-8B", "gemma-2-9b": "google/gemma-2-9b",
    "gemma-2-27b": "google/gemma-2-27b", "gemma-3-1b-local": "google/gemma-3-1b-it",
    "gemma-3-1b-global": "google/gemma-3-1b-it", "gemma-4-local": "google/gemma-4-26B-A4B",
    "gemma-4-global": "google/gemma-4-26B-A4B", "phi-2": "microsoft/phi-2",
    "phi-3.5-mini": "microsoft/Phi-3.5-mini-instruct", "phi-4-mini": "microsoft/Phi-4-mini-instruct",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3", "gpt-oss-20b": "openai/gpt-oss-20b",
}  # fmt: skip


@pytest.mark.parametrize("name", OF_PRESETS)
def test_presets_are_what_the_published_files_say(name: str) -> None:
    reading, rope = read_config(published()[OF_PRESETS[name]]["config"]), preset(name)
    kind = {"local": "sliding_attention", "global": "full_attention"}.get(name.rpartition("-")[2], "")
    found = reading.rotations[kind]
    assert found is not None
    for length in (1000, 100_000):
        want = rope.freq if isinstance(rope.freq, torch.Tensor) else rope.freq(torch.tensor(length))
        torch.testing.assert_close(torch.tensor(found.at(length)).float(), want.float(), rtol=3e-6, atol=0)
    assert math.isclose(found.attention_factor, rope.attention_factor, rel_tol=1e-6)
    assert found.head_dim == rope.head_dim


def test_the_table_of_published_models_has_a_row_for_each_rotation() -> None:
    names = ["google/gemma-3-1b-it", "meta-llama/Meta-Llama-3.1-8B", "mosaicml/mpt-7b", "moonshotai/Kimi-K3"]
    table = published_table(length=4096, names=names)
    rows = {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.values}
    assert [name for name, _ in rows] == [names[0], *names]
    assert ("google/gemma-3-1b-it", "22 sliding") in rows and ("google/gemma-3-1b-it", "4 full") in rows
    llama = rows["meta-llama/Meta-Llama-3.1-8B", "32"]
    assert (llama["never turned"], llama["new"], llama["Σ cos < 0 at"], llama["KiB a token"], llama["GiB"]) == (
        29, 0, 85_133, 128.0, 0.5,
    )  # fmt: skip
    assert rows["mosaicml/mpt-7b", "32 full"]["base"] is None


# Against the classes of transformers


@pytest.fixture(scope="module")
def defaults() -> dict[str, Any]:
    """The default configuration of every causal language model that has one."""
    pytest.importorskip("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found = {}
    for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            found[name] = CONFIG_MAPPING[name]()
        except Exception:  # draft models, which have no default that is valid
            continue
    return found


def test_every_architecture_is_recognised(defaults: dict[str, Any]) -> None:
    import transformers

    readings = {name: read_config(config) for name, config in defaults.items()}
    unknown = [name for name, reading in readings.items() if reading.scheme == "unknown"]
    assert unknown == ["cohere_compass_text"]  # whose class cannot be built without rope_parameters either
    if transformers.__version__.startswith(tables.TRANSFORMERS):
        assert len(readings) >= 185
        assert len(tables.TYPES_OF_5_23 & set(readings)) >= 180
    allowed = {"glm4_moe", "minimax_m3_vl_text", "mpt"}  # sizes that are placeholders, fields that nobody reads
    warned = {name: reading.warnings for name, reading in readings.items() if reading.warnings and name not in allowed}
    assert warned == {}


def test_the_tables_are_the_defaults_of_the_classes(defaults: dict[str, Any]) -> None:
    for name, config in defaults.items():
        written = config.get_text_config(decoder=True).to_dict()
        kind, own = written["model_type"], written.get("rope_parameters") or {}
        if not any(isinstance(each, dict) for each in own.values()) and own.get("rope_theta"):
            assert tables.BASES.get(kind, own["rope_theta"]) == own["rope_theta"], name
            if kind == name:
                assert tables.BASES.get(kind, 1e4) == own["rope_theta"], name
                assert tables.ROTATED.get(kind, 1.0) == own.get("partial_rotary_factor", 1.0), name
        for layer, (_, base) in tables.BY_LAYER.get(kind, {}).items():
            assert own[layer]["rope_theta"] == base, name


SIZES = {"hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128, "max_position_embeddings": 131_072}


@pytest.mark.parametrize("count", [6, 7, 26])
def test_patterns_of_layers_are_those_of_the_classes(defaults: dict[str, Any], count: int) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    short = {"full": "f", "sliding": "s", "linear": "l", "chunked": "c"}
    for kind, pattern in tables.PATTERNS.items():
        windows = {"sliding_window": 512} if "s" in pattern else {}
        windows |= {"attention_chunk_size": 512} if "c" in pattern else {}
        own = CONFIG_MAPPING[kind](num_hidden_layers=count, **windows).layer_types
        mine = read_config({**SIZES, "model_type": kind, "num_hidden_layers": count, **windows}).layers
        assert "".join(short[layer.kind] for layer in mine) == "".join(name[0] for name in own), kind


def test_published_files_read_as_the_configurations_that_transformers_makes_of_them() -> None:
    pytest.importorskip("transformers")
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    compared = 0
    for name, one in published().items():
        raw = one["config"]
        if raw["model_type"] not in CONFIG_MAPPING:
            continue
        fields = copy.deepcopy({key: value for key, value in raw.items() if key != "model_type"})
        made = read_config(AutoConfig.for_model(raw["model_type"], **fields).get_text_config(decoder=True))
        mine = read_config(raw)
        assert mine.kinds == made.kinds, name
        assert [layer.rotation is None for layer in mine.layers] == [each.rotation is None for each in made.layers], (
            name
        )
        for ours, theirs in zip(_used(mine), _used(made), strict=True):
            assert ours.frequencies == pytest.approx(theirs.frequencies, rel=1e-12), name
            assert ours.attention_factor == pytest.approx(theirs.attention_factor), name
        if name != "XiaomiMiMo/MiMo-V2-Flash":  # its class knows the heads of layers with a window without a field
            assert mine.bytes_per_token == made.bytes_per_token, name
        compared += 1
    assert compared > 40


def _used(reading: Reading) -> list[Rotation]:
    keys = dict.fromkeys(layer.rotation for layer in reading.layers if layer.rotation is not None)
    return [each for key in keys if (each := reading.rotations[key]) is not None]


@pytest.mark.parametrize(
    "kind",
    [
        "llama",
        "deepseek_v3",
        "gemma3_text",
        "qwen3_next",
        "gpt_neox",
        "modernbert-decoder",
        "bamba",
        "glm4_moe",
        "smollm3",
    ],
)
def test_a_tiny_model_rotates_and_remembers_as_its_configuration_was_read(kind: str) -> None:
    """The module's own frequencies, and how much its cache grows from 30 to 40 tokens, where all windows are full."""
    pytest.importorskip("transformers")
    from posenc.audit.adapters.hf.tiny import tiny

    model = tiny(kind).model.eval()
    reading = read_config(model.config)
    own = [
        value.double().tolist()
        for key, value in model.named_buffers()
        if key.endswith("inv_freq") and "orig" not in key
    ]
    assert own
    used = [each.at(None) for each in _used(reading)]
    for wanted in own:
        assert any(each == pytest.approx(wanted, rel=1e-6) for each in used), kind
    with torch.no_grad():
        sizes = [_held(model(torch.arange(5, 5 + n)[None] % 90, use_cache=True).past_key_values) for n in (30, 40)]
    assert reading.bytes_per_token is not None
    assert (sizes[1] - sizes[0]) / 10 == reading.bytes_per_token / reading.width


def _held(cache: Any) -> int:
    """Numbers in all keys and values of a cache of transformers."""
    parts = [getattr(layer, name, None) for layer in cache.layers for name in ("keys", "values")]
    return sum(part.numel() for part in parts if isinstance(part, torch.Tensor))


@pytest.mark.parametrize("kind", ["opt", "bart", "roberta", "gpt2", "biogpt"])
def test_a_tiny_model_has_as_many_rows_as_were_read(kind: str) -> None:
    pytest.importorskip("transformers")
    from posenc.audit.adapters.hf.tiny import tiny

    model = tiny(kind).model
    rows = read_config(model.config).rows
    assert rows is not None
    found = {len(value) for key, value in model.named_parameters() if "wpe" in key or "position" in key}
    assert found == {rows[0]}
