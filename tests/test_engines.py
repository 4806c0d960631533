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
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.configs import Rotation, Settings, apply, extended, published, read_config, settings
from posenc.configs.engines import known
from posenc.configs.engines.form import TITLES
from posenc.configs.tables import TYPES_OF_5_23

ROTATING = [name for name, one in published().items() if read_config(one["config"]).scheme == "rope"]
PLAIN = [
    name
    for name in ROTATING
    if {one.rope_type for one in read_config(published()[name]["config"]).rotations.values() if one} == {"default"}
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


@cache
def config_of(name: str, method: str | None = None) -> dict[str, Any]:
    """A published configuration, extended by four where a method is named."""
    config = published()[name]["config"]
    if method is None:
        return config
    return extended(config, method.partition(",")[0], 4.0, trained=4096, **METHODS[method])


@cache
def forms_of(name: str, method: str | None = None) -> Settings:
    return settings(config_of(name, method))


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
    for length in (1, 1_000_000):
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
    form = forms_of(name, method)[engine]
    assert form.patch is not None
    only_here = [each for each in form.missing if "rotate differently" in each or "proportional" in each]
    if only_here and engine != "transformers":
        return  # said in a sentence, and nothing of it is in the file
    changed = apply(config, form.patch)
    same(config, changed)
    assert not {each.name for each in read_config(changed).warnings} - {
        each.name for each in read_config(config).warnings
    }


@every
def test_transformers_itself_rotates_so(name: str, method: str | None) -> None:
    pytest.importorskip("transformers")
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = config_of(name, method)
    form, reading = forms_of(name, method)["transformers"], read_config(config)
    assert form.exact or "dbrx" in name, form.missing
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
    """What a server makes of the loaded file: vLLM sets objects, and SGLang merges rope parameters."""
    loaded = copy.deepcopy(apply(config, settings(config)["transformers"].patch or {}))
    inner = loaded["text_config"] if "text_config" in overrides else loaded
    for key, value in overrides.get("text_config", overrides).items():
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
    form, before = forms_of(name, method)[engine], config_of(name)
    words = shlex.split(form.text.replace("\\\n", ""))  # as a shell would
    assert words[-len(form.flags) :] == list(form.flags)
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
    dims: int,
    base: float,
    kind: str,
    factor: float,
    trained: int,
    fast: float,
    slow: float,
    divisors: list[float] | None,
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
    words = shlex.split(form.text.replace("\\\n", ""))[3:]
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
    form, one = forms_of(name, method)["llama.cpp"], full(config)
    given = flags_of(form)
    if "DeepSeek-V4" in name:
        assert any("kinds" in each for each in form.missing)
        return
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
    form, one = forms_of(name, method)["gguf"], full(config)
    if "DeepSeek-V4" in name:
        assert any("kinds" in each for each in form.missing)
        return
    arch = next(iter(form.keys)).partition(".")[0]
    keys = {key.removeprefix(f"{arch}."): value for key, value in form.keys.items()}
    assert keys["rope.freq_base"] == one.base and keys["rope.dimension_count"] == one.dims
    assert all(f"--override-kv {key}=" in form.text for key in form.keys)
    if one.rope_type == "dynamic":
        assert any("--rope-freq-base" in each for each in form.missing)
        return
    for length in (1, 1_000_000):
        which = (
            "rope_factors_long"
            if length > keys.get("rope.scaling.original_context_length", 0)
            else "rope_factors_short"
        )
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
            assert arch in ("deepseek2", "deepseek32") and below is not None
            assert keys["rope.scaling.yarn_log_multiplier"] == pytest.approx(0.1 * below)
            reached = 1.0
    reached *= keys.get("rope.scaling.attn_factor", 1.0)
    assert reached == pytest.approx(one.attention_factor, rel=1e-9)
    local = read_config(config).rotations.get("sliding_attention")
    if local is not None:
        assert keys["rope.freq_base_swa"] == local.base


SCALED = {name for name in ROTATING if "meta-llama/Meta-Llama-3.1" in name or "Llama-3.2" in name} | {
    "LGAI-EXAONE/EXAONE-4.0-32B", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "google/gemma-4-26B-A4B",
}  # fmt: skip
PHI = {"microsoft/Phi-3.5-mini-instruct", "microsoft/Phi-4-mini-instruct"}
GPT_OSS = {"openai/gpt-oss-120b", "openai/gpt-oss-20b"}
V4 = "deepseek-ai/DeepSeek-V4-Flash"
DBRX = "databricks/dbrx-instruct"  # its base stands where transformers 5 does not look
IN_GGUF = {DBRX, V4, "EleutherAI/gpt-j-6b", *GPT_OSS}
INEXACT = {
    "transformers": {DBRX},
    "transformers4": {DBRX, V4, "deepseek-ai/DeepSeek-V3.2", "google/gemma-4-26B-A4B", "MiniMaxAI/MiniMax-M2.5",
                      "Qwen/Qwen3.5-27B", "XiaomiMiMo/MiMo-V2-Flash", "zai-org/GLM-5"},
    "vllm": {DBRX},
    "sglang": {DBRX},
    "llama.cpp": IN_GGUF | SCALED | PHI,
    "gguf": IN_GGUF | {"moonshotai/Kimi-K2-Instruct"},
    "ollama": IN_GGUF | {"moonshotai/Kimi-K2-Instruct"},
    "mlx": {DBRX, V4, *PHI, *GPT_OSS, "MiniMaxAI/MiniMax-M3", "tiiuae/falcon-7b"},
}  # fmt: skip


def test_what_can_not_be_said_is_what_is_known_here() -> None:
    """Which published rotations no form expresses: a sentence too many would be as wrong as one too few."""
    found: dict[str, set[str]] = {engine: set() for engine in TITLES}
    for name in ROTATING:
        for engine, form in forms_of(name).items():
            if not form.exact:
                found[engine].add(name)
            for sentence in (*form.missing, *form.notes, form.tried):
                assert sentence.isprintable() and "  " not in sentence, sentence
            assert form.tried and str(form).startswith(f"{TITLES[engine]} ({form.version})")
    assert found == INEXACT


@pytest.mark.parametrize(
    ("name", "method", "parameters", "engine", "words"),
    [
        ("Qwen/Qwen3-8B", "dynamic", {}, "llama.cpp", "--rope-freq-base"),
        ("Qwen/Qwen3-8B", "dynamic", {}, "vllm", "one table when it starts"),
        ("Qwen/Qwen3-8B", "dynamic", {}, "sglang", "one table when it starts"),
        ("Qwen/Qwen3-8B", "llama3", {}, "gguf", "loader of qwen3 takes no rope_freqs.weight"),
        ("Qwen/Qwen3-8B", "yarn", {"beta_fast": 16.0}, "gguf", "pass --yarn-beta-fast 16"),
        ("Qwen/Qwen3-8B", "yarn", {"truncate": False}, "llama.cpp", "rounds the ramp of YaRN whatever truncate says"),
        ("Qwen/Qwen3-8B", "yarn", {"truncate": False}, "mlx", "rounds the ramp of YaRN whatever truncate says"),
        ("Qwen/Qwen3-235B-A22B", "yarn", {}, "mlx", "class qwen3_moe of mlx-lm rotates by rope_theta alone"),
        ("google/gemma-3-1b-it", "yarn", {"truncate": False}, "vllm", "truncate inside a kind"),
        ("EleutherAI/gpt-j-6b", "linear", {}, "transformers", "reads rotary_dim alone"),
    ],
)
def test_what_an_engine_can_not_be_told_is_said(
    name: str, method: str, parameters: dict[str, Any], engine: str, words: str
) -> None:
    form = settings(extended(published()[name]["config"], method, 4.0, trained=4096, **parameters))[engine]
    assert not form.exact
    assert any(words in each for each in form.missing), form.missing


def test_yarn_with_positions_of_three_axes_in_vllm() -> None:
    config = {
        "model_type": "qwen2_5_vl_text", "head_dim": 128, "num_hidden_layers": 1, "max_position_embeddings": 32_768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }  # fmt: skip
    form = settings(extended(config, "yarn", 4.0))["vllm"]
    assert any("four times the trained length" in each for each in form.missing)
    assert settings(extended({**config, "model_type": "qwen3_5_text"}, "yarn", 4.0))["vllm"].exact


def test_the_frequency_that_replaces_dynamic_scaling_is_that_of_the_longest_text() -> None:
    config = extended(LLAMA, "dynamic", 4.0)
    sentence = next(each for each in settings(config)["llama.cpp"].missing if "--rope-freq-base" in each)
    base = float(sentence.partition("--rope-freq-base ")[2].split()[0])
    want = read_config(config).rotation().at(4 * 8192)
    assert [base ** (-2 * plane / 128) for plane in range(64)] == pytest.approx(want, rel=1e-5)


# A longer context


def test_an_extension_is_written_where_far_offsets_are_seen() -> None:
    gemma = extended(published()["google/gemma-3-1b-it"]["config"], "yarn", 4.0)
    assert gemma["rope_parameters"]["sliding_attention"] == {"rope_type": "default", "rope_theta": 1e4}
    assert gemma["rope_parameters"]["full_attention"]["rope_type"] == "yarn"
    assert gemma["max_position_embeddings"] == 4 * 32_768
    inner = extended(published()["Qwen/Qwen3.5-27B"]["config"], "linear", 2.0)
    assert inner["text_config"]["max_position_embeddings"] == 524_288
    assert inner["text_config"]["rope_parameters"]["factor"] == 2.0
    assert published()["Qwen/Qwen3.5-27B"]["config"]["text_config"]["rope_parameters"].get("factor") is None


def test_ntk_is_a_larger_base() -> None:
    config = extended(LLAMA, "ntk", 4.0)
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": pytest.approx(5e5 * 4 ** (128 / 126))}
    rotation = read_config(config).rotation()
    assert rotation.at()[0] == 1.0 and rotation.at()[-1] == pytest.approx(rotation.plain[-1])


@pytest.mark.parametrize(
    ("config", "method", "factor", "more", "words"),
    [
        (LLAMA, "pi", 4.0, {}, "method is 'pi': use one of 'linear'"),
        (LLAMA, "yarn", None, {}, "factor is None: use how many times longer"),
        (LLAMA, "yarn", 1.0, {}, "a number above 1"),
        (LLAMA, "yarn", math.nan, {}, "a number above 1"),
        (LLAMA, "yarn", 4.0, {"trained": 1}, "trained is 1, but it is a length"),
        (LLAMA, "yarn", 4.0, {"factors": 2}, "factors is no parameter of 'yarn': use attention_factor"),
        (LLAMA, "ntk", 4.0, {"beta_fast": 2}, "beta_fast is no parameter of 'ntk': leave it out"),
        (LLAMA, "yarn", 4.0, {"beta_fast": -2}, "beta_fast"),
        (LLAMA, "longrope", 4.0, {}, "short_factor"),
        ({k: v for k, v in LLAMA.items() if "max" not in k}, "yarn", 4.0, {}, "pass trained="),
        (
            published()["meta-llama/Llama-3.2-1B"]["config"],
            "yarn",
            4.0,
            {},
            "has a scaling already, rope_type 'llama3'",
        ),
        (published()["google/gemma-4-26B-A4B"]["config"], "yarn", 4.0, {}, "proportional"),
        (
            published()["openai-community/gpt2"]["config"],
            "yarn",
            4.0,
            {},
            "describes no rotation: its scheme is 'learned'",
        ),
    ],
)
def test_an_extension_that_can_not_be_is_refused(
    config: dict[str, Any], method: str, factor: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        extended(config, method, factor, **more)


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="engine is 'vLLM': use one of 'transformers'"):
        settings(LLAMA)["vLLM"]


NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(-2, 10**12), st.floats(), st.just("8.0"), st.just([1.0, 2.0]))
KEYS = ("factor", "rope_theta", "rope_type", "type", "original_max_position_embeddings", "beta_fast", "truncate",
        "attention_factor", "mscale_all_dim", "short_factor", "partial_rotary_factor", "mrope_section")  # fmt: skip
BESIDE = ("max_position_embeddings", "rope_theta", "head_dim", "partial_rotary_factor", "rotary_dim", "model_type",
          "layer_rope_theta", "rope_local_base_freq", "attn_config", "original_max_position_embeddings")  # fmt: skip


@hypothesis.settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(ROTATING),
    inside=st.dictionaries(st.sampled_from(KEYS), NUMBERS | st.sampled_from(["yarn", "linear", "dynamic", "ntk"])),
    beside=st.dictionaries(st.sampled_from(BESIDE), NUMBERS, max_size=2),
)
def test_whatever_the_file_holds_it_is_translated_or_refused(
    name: str, inside: dict[str, Any], beside: dict[str, Any]
) -> None:
    config = {**published()[name]["config"], **beside}
    config["rope_parameters"] = {**(config.get("rope_parameters") or {}), **inside}
    try:
        forms = settings(config)
    except ValueError:
        return
    json.loads(forms.to_json())
    assert str(forms)


# The command


def command(*arguments: str, blocked: str = "") -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.modules['torch'] = None; sys.modules['numpy'] = None; {blocked}"
    run = "from posenc.configs.__main__ import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", f"{start}\n{run}", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_needs_the_standard_library_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    ran = command(str(tmp_path), "--extend", "yarn", "--factor", "4", "--for", "vllm", "--for", "gguf", "--json")
    assert ran.returncode == 0, ran.stderr
    forms = json.loads(ran.stdout)
    assert list(forms) == ["vllm", "gguf"] and forms["gguf"]["keys"]["llama.rope.scaling.factor"] == 4.0


def test_the_command_says_what_it_can_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from posenc.configs.__main__ import main

    assert main(["meta-llama/Llama-3.2-1B", "--for", "llama.cpp"]) == 1
    assert "can't say: no flag takes a divisor" in capsys.readouterr().out
    assert main(["meta-llama/Llama-3.2-1B"]) == 0  # all of them, and what is missing stands in each
    assert capsys.readouterr().out.count("tried:") == len(TITLES)
    assert main(["--list"]) == 0 and "Qwen/Qwen3-8B" in capsys.readouterr().out
    for arguments, words in (
        (["nowhere"], "there is no file or folder nowhere"),
        ([], "say which"),
        (["Qwen/Qwen3-8B", "--factor", "4"], "--factor needs --extend METHOD"),
        (["Qwen/Qwen3-8B", "--extend", "yarn", "--factor", "4", "--set", "beta_fast"], "write NAME=JSON"),
        (["openai-community/gpt2"], "describes no rotation"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1
    with pytest.raises(SystemExit) as left:
        main(["Qwen/Qwen3-8B", "--for", "tgi"])
    assert left.value.code == 2


def test_tables_of_engines_name_what_there_is() -> None:
    assert known.SINCE_5 <= TYPES_OF_5_23
    assert not known.MLX_SCALES & known.MLX_PLAIN
    assert known.MLX_PARAMETERS | known.MLX_SHARES <= known.MLX_SCALES | known.MLX_PLAIN
    assert set(known.MLX_CALLED.values()) <= known.MLX_SCALES | known.MLX_PLAIN
    assert set(known.VERSIONS) == set(TITLES)
    from posenc.configs.engines import FORMS

    assert list(FORMS) == list(TITLES)
