"""RoPE as published models have it, by name: `preset("llama-3.1-8b")`.

Every entry says where it was read.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.schemes.layout import Layout
from posenc.schemes.rope import RoPE


@dataclass(frozen=True)
class Preset:
    """The rotation of a published model, in the words of its configuration.

    Args:
        source: Where it was read.
        head_dim: Channels of a head.
        base: `rope_theta`.
        rotary_dim: Channels of a head that rotate; None: all of them.
        layout: The layout of the weights on the Hugging Face Hub.
        rope_scaling: As in config.json, or None: `RoPE.from_config` says what is
            understood.
        note: Which layers or channels it is for, and what the model's attention does
            besides.
    """

    source: str
    head_dim: int = 128
    base: float = 10_000.0
    rotary_dim: int | None = None
    layout: Layout = "half"
    rope_scaling: Mapping[str, Any] | None = None
    note: str = ""

    @property
    def config(self) -> dict[str, Any]:
        """The keys of a config.json that this preset stands for."""
        return {
            "head_dim": self.head_dim,
            "rotary_dim": self.rotary_dim,
            "rope_theta": self.base,
            "rope_scaling": self.rope_scaling,
        }


def preset(name: str) -> RoPE:
    """The RoPE of a published model, for the queries and keys of its checkpoint.

    Args:
        name: A key of `PRESETS`.

    Raises:
        ValueError: If there is no such preset. The message has the nearest names.

    Example:
        >>> preset("llama-3.1-8b")
        RoPE(head_dim=128, freq=<Tensor>, layout='half')
    """
    _check_known(name)
    found = PRESETS[name]
    return RoPE.from_config(found.config, layout=found.layout)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split())


# LongRoPE's divisors, one for each pair, as few digits as float32 needs.
PHI_3_5_SHORT = _numbers("""
    1 1.02 1.03 1.03 1.05 1.05 1.05 1.05 1.05 1.0699999 1.0999999 1.1099999 1.1599998 1.1599998 1.1699998 1.2899998
    1.3399998 1.6799998 1.7899998 1.8199998 1.8499998 1.8799998 1.9099997 1.9399997 1.9899997 2.0199997 2.0199997
    2.0199997 2.0199997 2.0199997 2.0199997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997
    2.0299997 2.0299997 2.0799997 2.0899997 2.1899996 2.2199996 2.5899994 2.7299995 2.7499995 2.8399994
""")
PHI_3_5_LONG = _numbers("""
    1.08 1.11 1.14 1.34 1.5899999 1.6 1.62 2.6200001 3.23 3.23 4.79 7.4 7.7000003 9.09 12.2 17.67 24.460001 28.570002
    30.420002 30.840002 32.590004 32.930004 42.320004 44.960003 50.340004 50.450005 57.550003 57.930004 58.210003
    60.140003 62.610004 62.620003 62.710003 63.140003 63.140003 63.770004 63.930004 63.960003 63.97 64.03 64.07 64.08
    64.12 64.41 64.48 64.51 64.53 64.84
""")
PHI_4_LONG = _numbers("""
    1 1.1183207 1.2506411 1.3986179 1.5641032 1.749169 1.9561318 2.1875827 2.446419 2.7358809 3.059592 3.421605
    3.8264518 4.2792 4.7855177 5.3517437 5.9849653 6.6931105 7.485044 8.370679 9.361104 10.468716 11.707381 13.092607
    14.641732 16.374151 18.311552 20.478188 22.90118 25.610865 28.64116 32.03 32.1 32.13 32.23 32.6 32.61 32.64 32.66
    32.7 32.71 32.93 32.97 33.28 33.49 33.5 44.16 47.77
""")

LITGPT = "Lightning-AI/litgpt, litgpt/config.py, after the config.json of "
AT_8192 = {
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LLAMA3_1 = {"rope_type": "llama3", "factor": 8.0, **AT_8192}
LLAMA3_2 = {"rope_type": "llama3", "factor": 32.0, **AT_8192}
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
LONGROPE = {
    "rope_type": "longrope",
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
}
IN_LOCAL_LAYERS, IN_GLOBAL_LAYERS = (
    "in layers with a sliding window",
    "in layers without a window",
)

PRESETS = {
    "gpt-j-6b": Preset(
        "kingoflolz/mesh-transformer-jax, configs/6B_roto_256.json; transformers, GPTJConfig",
        256, rotary_dim=64, layout="interleaved",
    ),
    "gpt-neox-20b": Preset("EleutherAI/gpt-neox, configs/20B.yml", 96, rotary_dim=24),
    "pythia-6.9b": Preset("EleutherAI/pythia, models/6.9B/pythia-6.9b.yml", 128, rotary_dim=32),
    "llama-2-7b": Preset(LITGPT + "meta-llama/Llama-2-7b-hf"),
    "codellama-7b": Preset(LITGPT + "codellama/CodeLlama-7b-hf", base=1_000_000.0),
    "yarn-llama-2-7b-64k": Preset(
        "jquesnelle/yarn, train.sh, finetune.py and scaled_rope/LlamaYaRNScaledRotaryEmbedding.py",
        rope_scaling={**YARN, "factor": 16.0},
    ),
    "yarn-llama-2-7b-128k": Preset(
        "jquesnelle/yarn, train.sh, finetune.py and scaled_rope/LlamaYaRNScaledRotaryEmbedding.py",
        rope_scaling={**YARN, "factor": 32.0},
    ),
    "llama-3-8b": Preset(LITGPT + "meta-llama/Meta-Llama-3-8B", base=500_000.0),
    "llama-3.1-8b": Preset(LITGPT + "meta-llama/Meta-Llama-3.1-8B", base=500_000.0, rope_scaling=LLAMA3_1),
    "llama-3.1-70b": Preset(LITGPT + "meta-llama/Meta-Llama-3.1-70B", base=500_000.0, rope_scaling=LLAMA3_1),
    "llama-3.1-405b": Preset(LITGPT + "meta-llama/Meta-Llama-3.1-405B", base=500_000.0, rope_scaling=LLAMA3_1),
    "llama-3.2-1b": Preset(LITGPT + "meta-llama/Llama-3.2-1B", 64, base=500_000.0, rope_scaling=LLAMA3_2),
    "llama-3.2-3b": Preset(LITGPT + "meta-llama/Llama-3.2-3B", base=500_000.0, rope_scaling=LLAMA3_2),
    "mistral-7b-v0.1": Preset(LITGPT + "mistralai/Mistral-7B-v0.1"),
    "mixtral-8x7b-v0.1": Preset(LITGPT + "mistralai/Mixtral-8x7B-v0.1", base=1_000_000.0),
    "qwen2.5-7b": Preset(LITGPT + "Qwen/Qwen2.5-7B", base=1_000_000.0),
    "qwen3-8b": Preset(LITGPT + "Qwen/Qwen3-8B", base=1_000_000.0),
    "gemma-2-9b": Preset(LITGPT + "google/gemma-2-9b", 256),
    "gemma-2-27b": Preset(LITGPT + "google/gemma-2-27b"),
    "gemma-3-1b-local": Preset(LITGPT + "google/gemma-3-1b-it", 256, note=IN_LOCAL_LAYERS),
    "gemma-3-1b-global": Preset(LITGPT + "google/gemma-3-1b-it", 256, base=1_000_000.0, note=IN_GLOBAL_LAYERS),
    "gemma-3-27b-local": Preset(LITGPT + "google/gemma-3-27b-it", note=IN_LOCAL_LAYERS),
    "gemma-3-27b-global": Preset(
        LITGPT + "google/gemma-3-27b-it",
        base=1_000_000.0, rope_scaling={"rope_type": "linear", "factor": 8.0}, note=IN_GLOBAL_LAYERS,
    ),
    "gemma-4-local": Preset("transformers, Gemma4TextConfig", 256, note=IN_LOCAL_LAYERS),
    "gemma-4-global": Preset(
        "transformers, Gemma4TextConfig",
        512, base=1_000_000.0, note=IN_GLOBAL_LAYERS,
        rope_scaling={"rope_type": "proportional", "partial_rotary_factor": 0.25},
    ),
    "phi-2": Preset(LITGPT + "microsoft/phi-2", 80, rotary_dim=32),
    "phi-3.5-mini": Preset(
        "microsoft/Phi-3.5-mini-instruct, config.json, as quoted in several repositories",
        96, rope_scaling={**LONGROPE, "short_factor": PHI_3_5_SHORT, "long_factor": PHI_3_5_LONG},
    ),
    "phi-4-mini": Preset(
        "microsoft/Phi-4-mini-instruct, config.json, as quoted in several repositories",
        128, rotary_dim=96, rope_scaling={**LONGROPE, "short_factor": (1.0,) * 48, "long_factor": PHI_4_LONG},
    ),
    "deepseek-v3": Preset(
        "deepseek-ai/DeepSeek-V3, config.json, as quoted in several repositories; transformers, DeepseekV3Config",
        64, layout="interleaved", rope_scaling={**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0},
        note="for the 64 channels of each head that carry position, beside 128 that do not; the attention factor is "
        "in the scores of all 192, attend(scale=yarn_attention_factor(40) ** 2 / 192**0.5)",
    ),
    "gpt-oss-20b": Preset(
        "openai/gpt-oss-20b, config.json, as quoted in several repositories; openai/gpt-oss, gpt_oss/torch/model.py",
        64, base=150_000.0, rope_scaling={**YARN, "factor": 32.0, "truncate": False},
    ),
}  # fmt: skip


def _check_known(name: str) -> None:
    """An unknown name is often nearly a known one."""
    if name not in PRESETS:
        near = difflib.get_close_matches(
            name.lower(), PRESETS, n=5, cutoff=0.5
        ) or sorted(PRESETS)
        raise ValueError(
            f"there is no preset {name!r}: use {', '.join(map(repr, near))}"
        )
