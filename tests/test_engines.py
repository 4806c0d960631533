"""posenc.configs.settings: each form written for every published rotation, read back, and equal.

Forms of a config.json are read by the package's own reader and by transformers; overrides by what the servers do with
them; flags and keys of llama.cpp by a small reader below, which computes what `rope_yarn` does, in a loop.
"""

from __future__ import annotations

import copy
import json
import math
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc.configs import Rotation, apply, extended, published, read_config, settings
from posenc.configs.engines import known
from posenc.configs.engines.form import TITLES
from posenc.configs.tables import TYPES_OF_5_23

ROTATING = [name for name, one in published().items() if read_config(one["config"]).scheme == "rope"]
PLAIN = [
    name
    for name in ROTATING
    if all(one is None or one.rope_type == "default" for one in read_config(published()[name]["config"]).rotations.values())
]  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "linear": {}, "ntk": {}, "dynamic": {}, "yarn": {}, "llama3": {},
    "yarn, its ramp": {"beta_fast": 16.0, "beta_slow": 2.0},
    "yarn, exact": {"truncate": False}, "yarn, no factor": {"attention_factor": 1.0},
    "llama3, its ramp": {"low_freq_factor": 2.0, "high_freq_factor": 8.0},
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2,
    "max_position_embeddings": 8192, "rope_theta": 5e5,
}  # fmt: skip


def config_of(name: str, method: str | None = None) -> dict[str, Any]:
    """A published configuration, extended by four where a method is named."""
    config = published()[name]["config"]
    if method is None:
        return config
    return extended(config, method.partition(",")[0], 4.0, trained=4096, **METHODS[method])


CASES = [(name, None) for name in ROTATING] + [
    (name, method) for name in ("Qwen/Qwen3-8B", "google/gemma-3-1b-it", "Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V3",
                                "EleutherAI/pythia-14m", "meta-llama/Meta-Llama-3-8B", "microsoft/phi-2")
    for method in METHODS if name in PLAIN
]  # fmt: skip
every = pytest.mark.parametrize(("name", "method"), CASES)


def single(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def alike(one: Rotation, other: Rotation) -> None:
    """Equal to float32 in short and long texts, factors included."""
    assert (one.dims, one.head_dim) == (other.dims, other.head_dim)
    for length in (1, 4096, 4097, one.context or 1, 1_000_000):
        assert [single(each) for each in one.at(length)] == pytest.approx(
            [single(each) for each in other.at(length)], rel=1e-7, abs=0
        )
    assert one.attention_factor == pytest.approx(other.attention_factor, rel=1e-12)


def same(config: dict[str, Any], changed: dict[str, Any]) -> None:
    """Two configurations of one model rotate alike, layer by layer, and promise the same length."""
    mine, theirs = read_config(config), read_config(changed)
    assert mine.context == theirs.context
    assert mine.score_factor == pytest.approx(theirs.score_factor)
    assert mine.position_scale == theirs.position_scale
    assert len(mine.layers) == len(theirs.layers) > 0
    for left, right in dict.fromkeys(zip(mine.layers, theirs.layers, strict=True)):
        assert (left.rotation is None) == (right.rotation is None)
        if left.rotation is not None and right.rotation is not None:
            one, other = mine.rotations[left.rotation], theirs.rotations[right.rotation]
            assert one is not None and other is not None
            alike(one, other)
            assert one.trained == other.trained or one.rope_type == "linear"


# Files


@every
@pytest.mark.parametrize("engine", ["transformers", "transformers4", "mlx"])
def test_a_file_reads_as_the_configuration_that_it_was_made_of(name: str, method: str | None, engine: str) -> None:
    config = config_of(name, method)
    form = settings(config)[engine]
    assert form.patch is not None
    only_here = [each for each in form.missing if "rotate differently" in each or "proportional" in each]
    if only_here and engine != "transformers":
        return  # said in a sentence, and nothing of it is in the file
    changed = apply(config, form.patch)
    same(config, changed)
    assert not {each.name for each in read_config(changed).warnings} - {each.name for each in read_config(config).warnings}


@every
def test_transformers_itself_rotates_so(name: str, method: str | None) -> None:
    pytest.importorskip("transformers")
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = config_of(name, method)
    form, reading = settings(config)["transformers"], read_config(config)
    assert form.exact, form.missing
    changed = copy.deepcopy(apply(config, form.patch or {}))
    model_type = changed.pop("model_type")
    if model_type not in CONFIG_MAPPING:
        assert reading.model_type not in TYPES_OF_5_23
        return
    made = AutoConfig.for_model(model_type, **changed).get_text_config(decoder=True)
    for kind, found in reading.rotations.items():
        own = getattr(made, "rope_parameters", {})
        own = own[kind] if kind else own
        if found is None or not own:
            assert found is None or model_type == "gptj"
            continue
        assert own["rope_type"] == found.rope_type
        for length in (1, 1_000_000):
            if found.rope_type == "default":
                want = [own["rope_theta"] ** (-2 * plane / found.dims) for plane in range(found.planes)]
                factor = 1.0
            else:
                table, factor = ROPE_INIT_FUNCTIONS[found.rope_type](
                    made, "cpu", seq_len=length, **({"layer_type": kind} if kind else {})
                )
                want = table.tolist()
            assert list(found.at(length)) == pytest.approx(want, rel=3e-6, abs=0)
            if model_type != "deepseek_v4":  # which leaves the factor out, in its own module
                assert found.attention_factor == pytest.approx(factor, rel=1e-9)


# Servers


def overridden(config: dict[str, Any], engine: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """What a server makes of the file that transformers has loaded: vLLM sets objects, SGLang merges rope parameters."""
    loaded = apply(config, settings(config)["transformers"].patch or {})
    part = read_config(config).source and next((key for key in ("text_config",) if key in overrides), None)
    inner = loaded[part] if part else loaded
    for key, value in (overrides[part] if part else overrides).items():
        before = inner.get(key)
        merges = engine == "sglang" and isinstance(before, dict) and isinstance(value, dict)
        inner[key] = {**before, **value} if merges and before is not None else value
    return loaded


@every
@pytest.mark.parametrize(
    ("engine", "flag", "length"),
    [("vllm", "--hf-overrides", "--max-model-len"), ("sglang", "--json-model-override-args", "--context-length")],
)
def test_the_overrides_of_a_server_read_so(name: str, method: str | None, engine: str, flag: str, length: str) -> None:
    wanted = config_of(name, method)
    form, before = settings(wanted)[engine], config_of(name)
    words = shlex.split(form.text)  # as a shell would
    assert words[-len(form.flags):] == list(form.flags)
    overrides = json.loads(words[words.index(flag) + 1])
    same(wanted, overridden(before, engine, overrides))
    if context := read_config(wanted).context:
        assert words[words.index(length) + 1] == str(context)


def test_sglang_gets_its_own_name_for_the_factor() -> None:
    form = settings(extended(LLAMA, "yarn", 4.0, attention_factor=1.0))["sglang"]
    own = json.loads(form.flags[1])["rope_parameters"]
    assert own["attn_factor"] * (0.1 * math.log(4) + 1) == pytest.approx(1.0)


# llama.cpp, by a reader of its own


def ggml(
    dims: int, base: float, kind: str, factor: float, trained: int, fast: float, slow: float, divisors: list[float] | None
) -> list[float]:
    """Frequencies as `ggml_rope_cache_init` has them, pair by pair."""

    def corrected(turns: float) -> float:
        return dims * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    out = []
    low = max(0, math.floor(corrected(fast))) if kind == "yarn" else 0
    high = min(dims - 1, math.ceil(corrected(slow))) if kind == "yarn" else 0
    for pair in range(dims // 2):
        extrapolated = base ** (-2 * pair / dims) / (divisors[pair] if divisors else 1.0)
        interpolated = extrapolated if kind == "none" else extrapolated / factor
        mix = 1 - min(1, max(0, (pair - low) / max(0.001, high - low))) if kind == "yarn" else 0.0
        out.append(interpolated * (1 - mix) + extrapolated * mix)
    return out


def flags_of(form: Any) -> dict[str, str]:
    words = shlex.split(form.text)[3:]
    assert words == list(form.flags)
    return dict(zip(words[::2], words[1::2], strict=True))


def full(config: dict[str, Any]) -> Rotation:
    """The rotation of layers that see everything."""
    turning = read_config(config).rotations
    found = next(one for kind, one in turning.items() if one is not None and "sliding" not in kind)
    assert found is not None
    return found


@every
def test_the_flags_of_llama_cpp_read_so(name: str, method: str | None) -> None:
    config = config_of(name, method)
    form, one = settings(config)["llama.cpp"], full(config)
    given = flags_of(form)
    assert float(given["--rope-freq-base"]) == one.base
    if one.rope_type not in ("default", "linear", "yarn"):
        assert not form.exact and "--rope-scaling" not in given
        return
    got = ggml(
        one.dims, float(given["--rope-freq-base"]), given["--rope-scaling"], float(given.get("--rope-scale", 1)),
        int(given.get("--yarn-orig-ctx", 0)), float(given.get("--yarn-beta-fast", 32)),
        float(given.get("--yarn-beta-slow", 1)), None,
    )  # fmt: skip
    if not one.parameters.get("truncate", True):
        assert any("rounds the ramp" in each for each in form.missing)
        off = max(abs(b / a - 1) for a, b in zip(one.at(one.context), got, strict=True))
        assert f"up to {100 * off:.1f} % off" in " ".join(form.missing)
        return
    assert got == pytest.approx(one.at(one.context), rel=1e-7)


@every
def test_the_keys_of_a_gguf_file_read_so(name: str, method: str | None) -> None:
    config = config_of(name, method)
    form, one = settings(config)["gguf"], full(config)
    arch = next(iter(form.keys)).partition(".")[0]
    keys = {key.removeprefix(f"{arch}."): value for key, value in form.keys.items()}
    assert keys["rope.freq_base"] == one.base and keys["rope.dimension_count"] == one.dims
    assert all(f"--override-kv {key}=" in form.text for key in form.keys)
    if one.rope_type == "dynamic":
        assert any("--rope-freq-base" in each for each in form.missing)
        return
    for length in (1, 1_000_000):
        which = "rope_factors_long" if length > keys.get("rope.scaling.original_context_length", 0) else "rope_factors_short"
        divisors = form.tensors.get("rope_freqs.weight") or form.tensors.get(f"{which}.weight")
        kind = keys["rope.scaling.type"]
        got = ggml(
            one.dims, keys["rope.freq_base"], "none" if kind == "longrope" else kind,
            keys.get("rope.scaling.factor", 1.0), keys.get("rope.scaling.original_context_length", 0),
            keys.get("rope.scaling.yarn_beta_fast", 32.0), keys.get("rope.scaling.yarn_beta_slow", 1.0),
            list(divisors) if divisors else None,
        )  # fmt: skip
        if one.parameters.get("truncate", True):
            assert got == pytest.approx(one.at(length), rel=1e-7, abs=1e-29)
    # What multiplies cosines and sines in llama-context.cpp.
    reached = 1.0
    if one.rope_type == "yarn":
        s, below = one.parameters["factor"], one.parameters.get("mscale_all_dim")
        reached = 0.1 * math.log(s) + 1
        if "rope.scaling.yarn_log_multiplier" in keys:
            assert arch == "deepseek2" or arch == "deepseek32"
            assert keys["rope.scaling.yarn_log_multiplier"] == pytest.approx(0.1 * below)
            reached = 1.0
    reached *= keys.get("rope.scaling.attn_factor", 1.0)
    assert reached == pytest.approx(one.attention_factor, rel=1e-9)
    local = read_config(config).rotations.get("sliding_attention")
    if local is not None:
        assert keys["rope.freq_base_swa"] == local.base


INEXACT = {
    "transformers": set(),
    "vllm": set(),
    "sglang": set(),
}  # fmt: skip


def test_what_can_not_be_said_is_what_is_known_here() -> None:
    """Which published rotations no form expresses: a sentence too many would be as wrong as one too few."""
    found: dict[str, set[str]] = {}
    for name in ROTATING:
        for engine, form in settings(published()[name]["config"]).items():
            found.setdefault(engine, set())
            if not form.exact:
                found[engine].add(name)
            for sentence in (*form.missing, *form.notes, form.tried):
                assert sentence.isprintable() and "  " not in sentence, sentence
    print({engine: sorted(names) for engine, names in found.items()})
    for engine, names in INEXACT.items():
        assert found[engine] == names
