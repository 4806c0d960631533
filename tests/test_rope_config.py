"""posenc.schemes.rope_config: published configurations, held against transformers for each rope type that it has."""

import copy
import math
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import RoPE, XPos, frequencies
from posenc.configs.parameters import READ
from posenc.schemes.presets import PRESETS, preset
from posenc.schemes.rope_config import INTERLEAVED, ROPE_TYPES, rope_arguments

transformers = pytest.importorskip("transformers")
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RopeParameters  # noqa: E402

LONG = {"max_position_embeddings": 16_384}
SHORT_FACTOR, LONG_FACTOR = [1.0 + 0.1 * t for t in range(16)], [1.0 + 2.0 * t for t in range(16)]
LISTS = {"short_factor": SHORT_FACTOR, "long_factor": LONG_FACTOR}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"factor": 4.0, "original_max_position_embeddings": 4096}

# For each rope type, rope parameters and what stands beside them. A head has 32 channels.
SETTINGS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "linear": [({"factor": 4.0}, {}), ({"factor": 1.0}, {}), ({"factor": 2, "partial_rotary_factor": 0.5}, {})],
    "dynamic": [
        ({"factor": 2.0}, {}), ({"factor": 1.0}, {}), ({"factor": 8.0}, LONG),
        ({"factor": 3.0, "partial_rotary_factor": 0.25}, {}),
    ],
    "yarn": [
        (YARN, {}), (YARN, LONG), ({"factor": 4.0}, {}), ({**YARN, "factor": 32.0, "truncate": False}, {}),
        ({**YARN, "factor": None}, LONG), ({**YARN, "factor": 1.0}, {}), ({**YARN, "attention_factor": 1.5}, {}),
        ({**YARN, "mscale": 0.7, "mscale_all_dim": 1.0}, {}), ({**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, {}),
        ({**YARN, "mscale": 1.0, "mscale_all_dim": 0.4}, {}),
        ({**YARN, "mscale": 0.7}, {}), ({**YARN, "mscale_all_dim": 0.7}, {}),
        ({**YARN, "mscale": 0.7, "mscale_all_dim": 1.0, "attention_factor": 1.25}, {}),
        ({**YARN, "beta_fast": 16, "beta_slow": 2}, {}), ({**YARN, "beta_fast": None, "beta_slow": None}, {}),
        ({**YARN, "partial_rotary_factor": 0.5, "rope_theta": 5e5}, {}), (YARN, {"rope_theta": 150_000.0}),
        (YARN, {"original_max_position_embeddings": 1024}), ({**YARN, "original_max_position_embeddings": 40}, {}),
    ],
    "longrope": [
        ({**LISTS, "factor": 4.0, "original_max_position_embeddings": 4096}, LONG),
        ({**LISTS, "original_max_position_embeddings": 4096}, LONG),
        ({**LISTS, "original_max_position_embeddings": 32_768}, LONG),
        ({**LISTS, "factor": 4.0, "attention_factor": 1.3, "original_max_position_embeddings": 4096}, LONG),
        (LISTS, {**LONG, "original_max_position_embeddings": 4096}),
        ({name: each[:8] for name, each in LISTS.items()} | {"partial_rotary_factor": 0.5, "factor": 2.0}, LONG),
    ],
    "llama3": [
        ({**LLAMA3, "original_max_position_embeddings": 8192}, LONG),
        ({**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 512}, {"rope_theta": 5e5}),
        (LLAMA3, {}), (LLAMA3, {"original_max_position_embeddings": 100}),
        ({**LLAMA3, "low_freq_factor": 0.5, "high_freq_factor": 16.0, "partial_rotary_factor": 0.75}, {}),
    ],
    "proportional": [
        ({"partial_rotary_factor": 0.25}, {}), ({"partial_rotary_factor": 0.3}, {}), ({}, {}),
        ({"partial_rotary_factor": 0.5, "factor": 8.0}, {"rope_theta": 1e6}), ({"partial_rotary_factor": 0.0}, {}),
    ],
}  # fmt: skip


# Every rope type of transformers: a type that appears there without settings here fails its test.
CASES = [
    pytest.param(kind, parameters, beside, id=f"{kind}-{n}")
    for kind in ROPE_INIT_FUNCTIONS
    for n, (parameters, beside) in enumerate(SETTINGS.get(kind, [({}, {})]))
]


def llama(parameters: dict[str, Any], **beside: Any) -> Any:
    """A configuration of transformers with heads of 32 channels."""
    from transformers.models.llama.configuration_llama import LlamaConfig

    sizes = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 4096, "rope_theta": 10_000.0}
    return LlamaConfig(**{**sizes, **beside}, rope_parameters=copy.deepcopy(parameters))


def freq_of(rope: RoPE, length: int) -> Tensor:
    return rope.freq if isinstance(rope.freq, Tensor) else rope.freq(torch.tensor(length))


def same(rope: RoPE, other: RoPE) -> bool:
    alike = [(each.head_dim, each.rotary_dim, each.layout, each.attention_factor) for each in (rope, other)]
    return alike[0] == alike[1] and all(torch.equal(freq_of(rope, n), freq_of(other, n)) for n in (1, 10**5))


@pytest.mark.parametrize("length", [1, 4096, 4097, 16_384, 100_000])
@pytest.mark.parametrize(("kind", "parameters", "beside"), CASES)
def test_every_rope_type_is_that_of_transformers(kind, parameters, beside, length):
    config = llama({"rope_type": kind, **parameters}, **beside)
    expected, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    rope = RoPE.from_config(config)
    found = freq_of(rope, length)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)
    assert math.isclose(rope.attention_factor, factor, rel_tol=1e-12)
    assert (rope.head_dim, rope.layout) == (32, "half") and rope.rotary_dim == 2 * len(expected)
    assert rope.raw_keys is (kind in ("dynamic", "longrope"))


@pytest.mark.parametrize(("kind", "parameters", "beside"), CASES)
def test_a_dict_an_object_and_the_older_form_say_the_same(kind, parameters, beside):
    config = llama({"rope_type": kind, **parameters}, **beside)
    expected = RoPE.from_config(config)
    sizes = {"head_dim": 32, "max_position_embeddings": 4096, "rope_theta": 10_000.0, **beside}
    own = {"rope_type": kind, **parameters}
    older = {"type" if name == "rope_type" else name: value for name, value in own.items()}
    for written in (
        config.to_dict(),
        {**sizes, "rope_parameters": own},
        {**sizes, "rope_scaling": older},
        SimpleNamespace(**sizes, rope_parameters=None, rope_scaling=older),
    ):
        before = copy.deepcopy(written)
        assert same(RoPE.from_config(written), expected)
        assert written == before  # reading changes nothing


@pytest.mark.parametrize("kind", ROPE_INIT_FUNCTIONS)
def test_a_rope_from_a_configuration_survives_what_modules_go_through(kind):
    parameters, beside = SETTINGS[kind][0]
    rope = RoPE.from_config(llama({"rope_type": kind, **parameters}, **beside))
    with torch.device("meta"):
        made = RoPE.from_config(llama({"rope_type": kind, **parameters}, **beside))
    for other in (copy.deepcopy(rope), pickle.loads(pickle.dumps(rope)), made, copy.deepcopy(rope).bfloat16()):
        assert same(rope, other)


def test_all_parameters_and_types_of_transformers_are_known():
    assert set(ROPE_INIT_FUNCTIONS) == set(ROPE_TYPES) == set(SETTINGS)
    beside = {"type", "mrope_interleaved", "max_position_embeddings"}
    assert set(RopeParameters.__annotations__) == READ - beside


def test_without_scaling_the_base_is_kept():
    for config in (
        llama({"rope_type": "default", "rope_theta": 5e5}),
        {"hidden_size": 128, "num_attention_heads": 4, "rope_theta": 5e5, "rope_scaling": None},
        {"hidden_size": 256, "num_attention_heads": 4, "head_dim": 32, "rope_parameters": {"rope_theta": 5e5}},
        {"head_dim": 32, "rotary_emb_base": 5e5},
    ):
        rope = RoPE.from_config(config)
        assert (rope.head_dim, rope.base, rope.rotary_dim, rope.attention_factor) == (32, 5e5, 32, 1.0)
        assert torch.equal(rope.freq, frequencies(32, 5e5))
        assert not rope.raw_keys


@pytest.mark.parametrize(
    "partial", [{"partial_rotary_factor": 0.4}, {"rotary_pct": 0.4}, {"rotary_dim": 32},
                {"rope_parameters": {"partial_rotary_factor": 0.4}}],
)  # fmt: skip
def test_a_part_of_the_channels_rotates(partial):
    rope = RoPE.from_config({"hidden_size": 2560, "num_attention_heads": 32, "rope_theta": 10_000.0, **partial})
    assert (rope.head_dim, rope.rotary_dim) == (80, 32) and torch.equal(rope.freq, frequencies(32))


def test_frequencies_are_rounded_once():
    scaling = {"type": "linear", "factor": 3.0}
    rope = RoPE.from_config({"head_dim": 128, "rope_theta": 1e4, "rope_scaling": scaling})
    assert torch.equal(rope.freq, (frequencies(128, dtype=torch.float64) / 3).float())


def test_an_object_has_the_default_of_its_class():
    config = SimpleNamespace(head_dim=32, default_theta=500_000.0)
    assert RoPE.from_config(config).base == 500_000.0


def test_options_reach_the_module():
    config = {"head_dim": 32, "rope_theta": 10_000.0}
    assert RoPE.from_config(config, layout="interleaved").layout == "interleaved"
    assert RoPE.from_config(config, device="meta").freq.is_meta
    assert set(rope_arguments(config)) == {"head_dim", "base", "rotary_dim", "layout"}


# Layers that differ


def test_gemma_3_has_two_rotations():
    from transformers.models.gemma3.configuration_gemma3 import Gemma3TextConfig

    older = {"head_dim": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
             "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}  # fmt: skip
    config = Gemma3TextConfig(**older)
    for written in (older, config, config.to_dict()):
        local = RoPE.from_config(written, layer_type="sliding_attention")
        full = RoPE.from_config(written, layer_type="full_attention")
        assert torch.equal(local.freq, frequencies(256))
        torch.testing.assert_close(full.freq, frequencies(256, 1e6) / 8)
        for wrong in (None, "chunked_attention"):
            with pytest.raises(ValueError, match=r"layer_type .*'sliding_attention'"):
                RoPE.from_config(written, layer_type=wrong)


@pytest.mark.parametrize("kind", ["full_attention", "sliding_attention"])
def test_gemma_4_has_wider_heads_in_layers_without_a_window(kind):
    from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig

    config = Gemma4TextConfig()
    expected = preset("gemma-4-global" if kind == "full_attention" else "gemma-4-local")
    by_hand = {"head_dim": 256, "global_head_dim": 512, "rope_parameters": config.rope_parameters}
    for written in (config, config.to_dict(), by_hand):
        assert same(RoPE.from_config(written, layer_type=kind), expected)


def test_modernbert_has_a_base_for_each_kind_of_layer():
    from transformers.models.modernbert.configuration_modernbert import ModernBertConfig

    older = {"hidden_size": 768, "num_attention_heads": 12, "global_rope_theta": 160_000.0, "local_rope_theta": 1e4}
    for written in (older, ModernBertConfig(**older)):
        for kind, base in (("full_attention", 160_000.0), ("sliding_attention", 1e4)):
            rope = RoPE.from_config(written, layer_type=kind)
            assert (rope.head_dim, rope.base) == (64, base)


def test_layers_that_do_not_rotate_are_named():
    config = {"head_dim": 32, "rope_parameters": {"full_attention": None, "sliding_attention": {"rope_theta": 1e4}}}
    assert RoPE.from_config(config, layer_type="sliding_attention").base == 1e4
    with pytest.raises(ValueError, match=r"'full_attention' .*use NoPE"):
        RoPE.from_config(config, layer_type="full_attention")


def test_a_layer_type_is_refused_where_all_layers_share_a_rotation():
    with pytest.raises(ValueError, match=r"layer_type .*leave it out"):
        RoPE.from_config({"head_dim": 32, "rope_theta": 1e4}, layer_type="full_attention")


# Published configurations, key by key as they are on the Hugging Face Hub

PUBLISHED = {
    "llama-3.1-8b": {
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 131_072,
        "rope_theta": 500_000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                  "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    },
    "yarn-llama-2-7b-64k": {
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 65_536,
        "rope_theta": 10_000.0, "rope_scaling": {"factor": 16.0, "original_max_position_embeddings": 4096,
                                                 "type": "yarn", "finetuned": True},
    },
    "phi-2": {
        "model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32, "partial_rotary_factor": 0.4,
        "rope_scaling": None, "rope_theta": 10_000.0,
    },
    "pythia-6.9b": {
        "model_type": "gpt_neox", "hidden_size": 4096, "num_attention_heads": 32, "rotary_emb_base": 10_000,
        "rotary_pct": 0.25,
    },
    "phi-3.5-mini": {
        "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "max_position_embeddings": 131_072,
        "original_max_position_embeddings": 4096, "rope_theta": 10_000.0,
        "rope_scaling": {"type": "longrope", "short_factor": PRESETS["phi-3.5-mini"].rope_scaling["short_factor"],
                         "long_factor": PRESETS["phi-3.5-mini"].rope_scaling["long_factor"]},
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "qk_rope_head_dim": 64,
        "max_position_embeddings": 163_840, "rope_theta": 10_000,
        "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": 4096, "type": "yarn"},
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "num_attention_heads": 64,
        "max_position_embeddings": 131_072, "rope_theta": 150_000,
        "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn", "truncate": False,
                         "original_max_position_embeddings": 4096},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configurations_give_the_presets(name):
    assert same(RoPE.from_config(PUBLISHED[name]), preset(name))


@pytest.mark.parametrize("name", ["su", "yarn"])
def test_the_first_names_of_longrope(name):
    config = copy.deepcopy(PUBLISHED["phi-3.5-mini"])
    config["rope_scaling"]["type"] = name
    assert same(RoPE.from_config(config), preset("phi-3.5-mini"))


# Layouts


def interleaves(source: str) -> bool:
    """Whether a file of transformers rotates neighbouring channels, as its functions are written."""
    rotations = re.findall(r"^ *def (?:rotate|_?apply_rotary)\w*\(.*?(?=^ *(?:def|class) |\Z)", source, re.M | re.S)
    return any(re.search(r"::2\]|view_as_complex|repeat_interleave\(2", each) for each in rotations)


OTHERS = {  # images, sounds or points, which have other encodings than RoPE's; or both kinds of heads
    "edgetam_video", "efficientloftr", "ernie4_5_vl_moe", "glm4v", "glm_ocr", "lightglue",
    "sam2_video", "sam3", "sam3_tracker_video",
}  # fmt: skip


def test_the_layouts_of_models_are_those_of_transformers():
    models = Path(transformers.__file__).parent / "models"
    found = {path.parent.name for path in models.glob("*/modeling_*.py") if interleaves(path.read_text())}
    assert found - OTHERS == INTERLEAVED - {"llama4_text"}


@pytest.mark.parametrize(
    ("config", "layout"),
    [({"model_type": "llama"}, "half"), ({"model_type": "cohere"}, "interleaved"), ({}, "half"),
     ({"rope_interleave": True}, "interleaved"), ({"model_type": "deepseek_v3", "rope_interleave": False}, "half")],
)  # fmt: skip
def test_the_layout_is_that_of_the_model_type(config, layout):
    config = {"head_dim": 32, "rope_theta": 1e4, **config}
    assert RoPE.from_config(config).layout == RoPE.from_config(SimpleNamespace(**config)).layout == layout
    for asked in ("half", "interleaved"):
        assert RoPE.from_config(config, layout=asked).layout == asked


# Bad input


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"rope_theta": 1e4}, "head_dim"),
        ({"rope_theta": 1e4, "hidden_size": 128}, "head_dim"),
        ({"text_config": {"rope_theta": 1e4}}, "head_dim"),
        ({"head_dim": 32}, r"rope_theta is missing, .*'default'.*add rope_theta \(10000\.0 .* to the configuration"),
        ({"head_dim": 32, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_theta is missing, .*'linear'"),
        ({"head_dim": 33, "rope_theta": 1e4}, "head_dim is 33"),
        ({"head_dim": 32, "rope_theta": 1e4, "partial_rotary_factor": 0.1}, "rotary_dim is 3"),
    ],
)
def test_configurations_that_say_too_little_are_refused(config, match):
    for written in (config, SimpleNamespace(**config)):
        with pytest.raises(ValueError, match=match):
            RoPE.from_config(written)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"rope_type": "ntk"}, "rope_type .* is 'ntk', (?!.*GridRoPE).*'linear', .*'yarn'"),
        ({"rope_type": "axial"}, "rope_type .* is 'axial', .*GridRoPE"),
        ({"type": "linear", "factor": 2.0, "alpha": 1e3}, "alpha is no rope parameter .*leave it out"),
        ({"type": "linear"}, "factor is missing.*'linear'.*add factor to the rope parameters of the configuration$"),
        ({"type": "linear", "factor": 0.5}, "factor is 0.5"),
        ({"type": "dynamic", "factor": 2.0}, "missing.*add max_position_embeddings to the configuration$"),
        ({"type": "yarn", "factor": 2.0}, "original_max_position_embeddings is missing.*add"),
        ({"type": "longrope", "factor": 2.0, "original_max_position_embeddings": 64}, "short_factor and .*add"),
        ({"type": "llama3", "factor": 2.0}, "low_freq_factor and high_freq_factor and .* are missing.*add"),
    ],
)
def test_rope_parameters_that_say_too_little_or_too_much_are_refused(parameters, match):
    for name in ("rope_scaling", "rope_parameters"):
        with pytest.raises(ValueError, match=match):
            RoPE.from_config({"head_dim": 32, "rope_theta": 1e4, name: parameters})


def test_no_configuration_describes_xpos():
    with pytest.raises(ValueError, match=r"use RoPE\.from_config"):
        XPos.from_config({"head_dim": 32, "rope_theta": 1e4})
