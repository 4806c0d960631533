"""posenc.configs: one reader for RoPE.from_config and the audit, its remedies applied, and files that nobody meant."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import posenc
from posenc import RoPE
from posenc.configs import Reading, Remark, Rotation, Unreadable, apply, published, read_config, rotation, tables
from posenc.configs.rotation import SCALINGS, plain, search
from posenc.schemes.rope_config import ROPE_TYPES
from posenc.schemes.scaling import longrope_attention_factor, yarn_attention_factor

PACKAGE = Path(posenc.__file__).parent
CONFIGS = sorted((PACKAGE / "configs").rglob("*.py"))
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 32, "max_position_embeddings": 131_072, "rope_theta": 500_000.0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64}


# The standard library alone, and names that wait until they are used


def fresh(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


BLOCKED = "import sys; sys.modules.update(dict.fromkeys(('torch', 'numpy', 'transformers', 'matplotlib', 'IPython')))\n"


def test_a_configuration_is_read_where_nothing_but_python_is_installed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "rope_scaling": LLAMA_3}), encoding="utf-8")
    fresh(f"""{BLOCKED}
import posenc, posenc.audit, posenc.audit.config
from posenc.audit import Reading, read_config
from posenc.configs import published
reading = read_config({str(tmp_path)!r})
assert isinstance(reading, Reading) and reading.rotations[""].never_turned == 29
assert "8192" in str(reading) and reading.to_dict() and posenc.audit.config.read_config is read_config
assert all(read_config(one["config"]).source for one in published().values())
assert "RoPE" in dir(posenc) and "audit" in dir(posenc.audit) and posenc.__version__
try:
    posenc.RoPE
except ImportError as error:
    assert "torch" in str(error)
else:
    raise AssertionError("torch was there")
""")


NAMES = """
import posenc, posenc._attention.call, posenc._explore, posenc._properties, posenc.schemes.alibi
import posenc.schemes.sinusoidal
from posenc import alibi, attention, explore, properties, sinusoidal
for name in ("alibi", "attention", "explore", "properties", "sinusoidal"):
    assert type(getattr(posenc, name)).__name__ == "function", name
    assert "posenc." + name not in sys.modules
assert posenc.attention is attention and attention.__module__ == "posenc._attention.call"
assert posenc.schemes.rope.RoPE is posenc.RoPE and posenc.configs.read_config
"""


def test_a_name_is_the_function_whatever_was_imported_before_and_no_more_is_imported_than_is_used() -> None:
    fresh(f"""
import sys
import posenc, posenc.audit, posenc.configs
assert not {{name for name in sys.modules if name.partition(".")[0] in ("torch", "numpy", "matplotlib")}}
from posenc import RoPE
assert "torch" in sys.modules and not sys.modules.keys() & {{"posenc.transformer.model", "posenc.pictures.plot"}}
{NAMES}
for name in ("Rope", "nothing", "_nothing"):
    try:
        getattr(posenc, name)
    except AttributeError as error:
        assert name in str(error)
    else:
        raise AssertionError(name)
""")


def test_a_star_takes_every_name() -> None:
    fresh(f"""
import sys
import posenc.transformer.model
from posenc import *
import posenc
for name in posenc.__all__:
    assert eval(name) is getattr(posenc, name), name
assert set(posenc.__all__) <= set(dir(posenc))
{NAMES}
""")


@pytest.mark.parametrize("module", ["posenc", "posenc.audit"])
def test_type_checkers_are_told_the_same_names(module: str) -> None:
    """What stands under `if TYPE_CHECKING` is what a name becomes when it is used."""
    file = PACKAGE.joinpath(*module.split(".")[1:], "__init__.py")
    blocks = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    (block,) = [node for node in blocks if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"]
    said = {alias.name: node.module for node in block.body for alias in node.names if isinstance(node, ast.ImportFrom)}
    there = importlib.import_module(module)
    assert set(said) == set(there.__all__)
    for name, home in said.items():
        if home != "posenc":
            assert getattr(there, name) is getattr(importlib.import_module(home), name), name


def test_the_modules_of_configs_import_nothing_but_each_other() -> None:
    assert len(CONFIGS) > 9
    for file in CONFIGS:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else names
            for name in names:
                assert name.startswith("posenc.configs") or name.partition(".")[0] in sys.stdlib_module_names, file.name


# One truth: what the reader finds is what RoPE.from_config makes


def frequencies_of(rope: RoPE, length: int) -> torch.Tensor:
    return rope.freq if isinstance(rope.freq, torch.Tensor) else rope.freq(torch.tensor(length))


def assert_same(rope: RoPE, rotation: Rotation) -> None:
    for length in (1, rotation.trained or 4096, (rotation.trained or 4096) + 1, 1_000_000):
        want = torch.tensor(rotation.at(length), dtype=torch.float64).float()
        torch.testing.assert_close(frequencies_of(rope, length), want, rtol=1e-6, atol=0)
    assert math.isclose(rope.attention_factor, rotation.attention_factor, rel_tol=1e-12)
    assert (rope.head_dim, rope.rotary_dim) == (rotation.head_dim, rotation.dims)


@pytest.mark.parametrize("name", published())
def test_every_published_rotation_goes_through_both_entry_points(name: str) -> None:
    config = published()[name]["config"]
    reading = read_config(config)
    if reading.scheme != "rope":
        with pytest.raises(ValueError, match=rf"describes no rotation: its scheme is '{reading.scheme}', because of"):
            RoPE.from_config(config)
        return
    for number, layer in enumerate(reading.layers):
        if layer.rotation is None:
            if layer.kind in ("full", "sliding", "chunked"):
                with pytest.raises(ValueError, match=rf"layer {number}, .*does not rotate: use NoPE"):
                    RoPE.from_config(config, layer=number)
            continue
        rotation = reading.rotations[layer.rotation]
        assert rotation is not None
        rope = RoPE.from_config(config, layer=number)
        assert_same(rope, rotation)
        assert rope.layout == reading.layout
        if number > 8:
            break
    for kind, rotation in reading.rotations.items():
        if kind and rotation is not None:
            assert_same(RoPE.from_config(config, layer_type=kind), rotation)
    attending = {layer.rotation for layer in reading.layers if layer.kind not in ("linear", "mlp", "cross")}
    if len(attending) == 1:
        (rotation,) = reading.rotations.values()
        assert rotation is not None
        assert_same(RoPE.from_config(config), rotation)
    else:
        with pytest.raises(ValueError, match=r"layer_type is None, and .* rotations by kind of layer .*layer=0 to"):
            RoPE.from_config(config)


def test_published_rotations_are_those_of_the_functions_of_transformers() -> None:
    """Not by way of the reader: by the class's own parameters, and the functions that its module calls."""
    pytest.importorskip("transformers")
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    compared = 0
    for name, one in published().items():
        raw, reading = one["config"], read_config(one["config"])
        if raw["model_type"] not in CONFIG_MAPPING or reading.scheme != "rope":
            continue
        fields = copy.deepcopy({key: value for key, value in raw.items() if key != "model_type"})
        made = AutoConfig.for_model(raw["model_type"], **fields).get_text_config(decoder=True)
        for kind, found in reading.rotations.items():
            if found is None:
                continue
            own = getattr(made, "rope_parameters", {})  # GPT-J has none: its module makes sines by itself
            own = own[kind] if kind else own
            if not own:
                continue
            for length in (1, 1_000_000):
                if own["rope_type"] == "default":
                    exponents = torch.arange(0, found.dims, 2, dtype=torch.float64) / found.dims
                    want, factor = own["rope_theta"] ** -exponents, 1.0
                else:
                    make = ROPE_INIT_FUNCTIONS[own["rope_type"]]
                    want, factor = make(made, "cpu", seq_len=length, **({"layer_type": kind} if kind else {}))
                rope = RoPE.from_config(raw, layer=next(n for n, l in enumerate(reading.layers) if l.rotation == kind))
                torch.testing.assert_close(frequencies_of(rope, length), want.float(), rtol=3e-6, atol=0)
                if reading.model_type != "deepseek_v4":  # which leaves the factor out, in its own module
                    assert math.isclose(rope.attention_factor, factor, rel_tol=1e-9), name
            compared += 1
    assert compared > 40


def test_there_are_57_published_rotations() -> None:
    readings = [read_config(one["config"]) for one in published().values()]
    assert sum(one is not None for each in readings for one in each.rotations.values()) == 57


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("XiaomiMiMo/MiMo-V2-Flash", {"full_attention": 5e6, "sliding_attention": 1e4}),
        ("deepseek-ai/DeepSeek-V4-Flash", {"main": 1e4, "compress": 16e4, "compressed_sparse_attention": 16e4}),
        ("allenai/Olmo-3.1-32B-Instruct", {"full_attention": 5e5, "sliding_attention": 5e5}),
    ],
)
def test_models_whose_layers_differ_say_which_kinds_there_are(name: str, kinds: dict[str, float]) -> None:
    config = published()[name]["config"]
    with pytest.raises(ValueError, match="rotations by kind of layer") as caught:
        RoPE.from_config(config)
    with pytest.raises(ValueError, match="layer_type is 'global', and"):
        RoPE.from_config(config, layer_type="global")
    for kind, base in kinds.items():
        assert kind in str(caught.value) or name.startswith("deepseek")
        assert read_config(config).rotation(kind).base == base
    olmo = [RoPE.from_config(published()["allenai/Olmo-3.1-32B-Instruct"]["config"], layer=n) for n in (0, 3)]
    assert [one.attention_factor for one in olmo] == [1.0, 1.2079441541679836]


@pytest.mark.parametrize(
    ("fields", "arguments", "words"),
    [
        ({"model_type": "smollm3"}, {}, r"32 'full_attention', of which 24 rotate\): pass layer=0 to 31"),
        ({"model_type": "smollm3"}, {"layer_type": "full_attention"}, r"layers of type 'full_attention' differ"),
        ({"model_type": "smollm3"}, {"layer": 3}, r"layer 3, 'full_attention', does not rotate: use NoPE\(\)"),
        (
            {"model_type": "cohere2", "sliding_window": 4096},
            {},
            r"8 'full_attention', of which none rotate\): pass layer_type='sliding_attention' or",
        ),
        ({"model_type": "cohere2", "sliding_window": 9}, {"layer_type": "full_attention"}, r"do not rotate: use NoPE"),
        ({}, {"layer": 32}, r"layer is 32, but the configuration has layers 0 to 31"),
        ({}, {"layer": -1}, r"layer is -1, but the configuration has layers 0 to 31"),
        ({}, {"layer_type": "sliding_attention"}, r"one rotation for all layers: leave it out"),
        ({"num_hidden_layers": None}, {"layer": 0}, r"does not say how many layers there are: add num_hidden_layers"),
        ({"layer_rope_theta": [1e4, 0] * 16, "rope_theta": None}, {}, r"pass layer=0 to 31"),
        ({"layer_rope_theta": [0] * 32, "rope_theta": None}, {}, r"no layer of the configuration rotates: use NoPE"),
        ({"alibi": True}, {}, r"describes no rotation: its scheme is 'alibi', because of alibi is true"),
    ],
)
def test_a_configuration_whose_layers_differ_says_what_to_do(
    fields: dict[str, Any], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        RoPE.from_config({**LLAMA, **fields}, **arguments)


def test_a_kind_of_layer_may_be_named_where_all_are_alike_and_a_layer_by_its_number() -> None:
    for arguments in ({}, {"layer_type": "full_attention"}, {"layer": 31}):
        assert RoPE.from_config(LLAMA, **arguments).base == 5e5
    cohere = {**LLAMA, "model_type": "cohere2", "sliding_window": 4096}
    for arguments in ({"layer_type": "sliding_attention"}, {"layer": 0}):
        assert RoPE.from_config(cohere, **arguments).layout == "interleaved"


def test_files_folders_and_parts_are_read_by_from_config_too(tmp_path: Path) -> None:
    whole = {"model_type": "wrapper", "text_config": {**LLAMA, "rope_theta": 7e5}}
    (tmp_path / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    for config in (whole, tmp_path, str(tmp_path / "config.json"), SimpleNamespace(**whole)):
        assert RoPE.from_config(config).base == 7e5
    with pytest.raises(TypeError, match="config is a int"):
        RoPE.from_config(7)


def test_text_of_a_model_with_three_axes_rotates_by_one_position() -> None:
    own = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    assert RoPE.from_config({**LLAMA, "rope_theta": None, "rope_parameters": own}).base == 1e6
    (note,) = read_config({**LLAMA, "rope_theta": None, "rope_parameters": own}).notes
    assert note.name == "m-rope" and "posenc.schemes.grid.MRoPE" in note


LISTS = {"short_factor": [1.0 + 0.1 * t for t in range(16)], "long_factor": [1.0 + 2.0 * t for t in range(16)]}
NUMBERS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"factor": 4.0}, {"factor": 1.0}],
    "dynamic": [{"factor": 2.0, "max_position_embeddings": 4096}, {"factor": 1.0, "max_position_embeddings": 4096}],
    "yarn": [
        {"factor": 4.0, "original_max_position_embeddings": 4096},
        {"factor": 32.0, "original_max_position_embeddings": 512, "truncate": False, "beta_fast": 16, "beta_slow": 2},
        {"factor": 32.0, "original_max_position_embeddings": 512, "beta_fast": 1, "beta_slow": 1},
        {"factor": 8.0, "original_max_position_embeddings": 40},
    ],
    "longrope": [{**LISTS, "original_max_position_embeddings": 4096, "factor": 2.0}],
    "llama3": [
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024},
        {"factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 1024},
    ],
    "proportional": [{"partial_rotary_factor": 0.3}, {"partial_rotary_factor": 0.5, "factor": 8.0}, {}],
}


@pytest.mark.parametrize("base", [1e2, 1e4, 1.5e5])
@pytest.mark.parametrize("kind", ROPE_TYPES)
def test_the_formulas_without_torch_are_those_of_scaling(kind: str, base: float) -> None:
    assert set(NUMBERS) == set(ROPE_TYPES) == set(SCALINGS) - {"default"}
    freq = posenc.frequencies(32, base, dtype=torch.float64)
    for parameters in NUMBERS[kind]:
        scaled = ROPE_TYPES[kind](freq, {"rope_theta": base, **parameters})
        for length in (1, 4096, 4097, 50_000):
            want = SCALINGS[kind](plain(32, base), {"rope_theta": base, **parameters}, length)
            found = scaled if isinstance(scaled, torch.Tensor) else scaled(torch.tensor(length))
            torch.testing.assert_close(found.double(), torch.tensor(want, dtype=torch.float64), rtol=1e-6, atol=0)


def test_the_attention_factors_without_torch_are_those_of_scaling() -> None:
    for factor in (1.0, 4.0, 40.0):
        for weight in (0.4, 1.0):
            both = {**YARN, "factor": factor, "mscale": weight, "mscale_all_dim": 0.7}
            want = yarn_attention_factor(factor, weight) / yarn_attention_factor(factor, 0.7)
            assert math.isclose(read_config({**LLAMA, "rope_scaling": both}).rotation().attention_factor, want)
        long = {**LONG, "factor": factor, "original_max_position_embeddings": 4096}
        want = longrope_attention_factor(factor, 4096)
        assert math.isclose(read_config({**LLAMA, "rope_scaling": long}).rotation().attention_factor, want)


@pytest.mark.parametrize("dims", [2, 8, 64, 128])
@pytest.mark.parametrize("base", [1.5, 100.0, 1e4, 1e6, 1e12])
def test_the_search_skips_nothing_that_is_negative(dims: int, base: float) -> None:
    theta = torch.tensor(plain(dims, base), dtype=torch.float64)
    sums = theta.outer(torch.arange(1, 20_001, dtype=torch.float64)).cos().sum(0)
    negative = (sums < 0).nonzero()
    want = int(negative[0]) + 1 if len(negative) else None
    assert search(plain(dims, base), 20_000) == (want, want or 20_000)


def test_a_search_that_would_take_minutes_stops_and_says_where() -> None:
    found, where = search(plain(128, 1e6), 10**9, most=128 * 50)
    assert found is None and 0 < where < 10**6


# The classes of transformers


GONE = {
    "rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_dim", "rotary_pct",
    "rotary_emb_base", "layer_types",
}  # fmt: skip
OUTSIDE = {"got_ocr2", "moss_transcribe_diarize"}  # whose outer class gives the inner one another base


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    """The default configuration of each model type that the reader claims to know."""
    pytest.importorskip("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found = {}
    for name in sorted(tables.TYPES_OF_5_23):
        if name in CONFIG_MAPPING:
            config = CONFIG_MAPPING[name]()
            config = config if name == "deepseek_v4" else config.get_text_config(decoder=True)
            found[name] = {**config.to_dict(), "max_position_embeddings": 131_072}
    return found


def _rotations(reading: Reading) -> dict[str, Any]:
    return {
        kind: one and (one.head_dim, one.dims, one.base, one.rope_type, one.frequencies, one.attention_factor)
        for kind, one in reading.rotations.items()
    }


def test_what_a_file_leaves_out_is_what_the_class_fills_in(classes: dict[str, Any]) -> None:
    """The whole configuration of a class, and the same without a word about rotations and kinds of layers."""
    for name, config in classes.items():
        whole = read_config(config)
        bare = read_config({key: value for key, value in config.items() if key not in GONE})
        assert bare.scheme == whole.scheme, name
        if name in OUTSIDE:
            continue
        assert _rotations(bare) == _rotations(whole), name
        if config.get("model_type") in tables.NEED_LAYER_TYPES:
            assert not bare.layers and any(note.name == "no-kinds-said" for note in bare.notes), name
        elif bare.scheme == "rope":
            turning = [layer.rotation for layer in bare.layers]
            assert turning == [layer.rotation for layer in whole.layers], name


MARKS = {
    "rope": r"apply_rotary|[Rr]otary_?[Ee]mb|rotary_pos",
    "learned": r"nn\.Embedding\([^)]*(?:position|n_positions|n_ctx)|PositionalEmbedding\b|position_embeddings? = ",
    "alibi": r"alibi",
    "sinusoidal": r"[Ss]inusoid|pos_encoding",
    "t5": r"position_bias|relative_attention_bias",
}
SAME_CODE = {"gpt-sw3", "ibert", "perceiver"}  # a file of another model, or of another name


def test_the_code_of_each_class_has_what_the_reader_says_and_nothing_that_it_denies(classes: dict[str, Any]) -> None:
    import transformers
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    models = Path(transformers.__file__).parent / "models"
    read = 0
    for name, config in classes.items():
        reading = read_config(config)
        files = sorted((models / model_type_to_module_name(config["model_type"])).glob("modeling_*.py"))
        if not files or name in SAME_CODE or config["model_type"] != name:
            continue
        code = "\n".join(file.read_text(encoding="utf-8") for file in files)
        if reading.scheme in MARKS:
            assert re.search(MARKS[reading.scheme], code), (name, reading.scheme)
        if reading.scheme == "learned" and name not in tables.READS_POSITION_TYPE:
            assert not re.search(MARKS["rope"], code), name
        if "learned" in reading.scheme and name != "trocr":  # whose sinusoids alone count from there
            assert bool(re.search(r"padding_idx \+ 1|\+ padding_idx", code)) is (name in tables.FROM_PADDING), name
        read += 1
    assert read > 150


def test_layouts_of_text_parts_are_those_of_their_models() -> None:
    assert read_config({**LLAMA, "model_type": "dots3_note_text", "layer_types": ["full_attention"] * 32}).layout == (
        "interleaved"
    )
    assert read_config({"model_type": "cohere2_vision", "text_config": {**LLAMA, "model_type": "cohere2"}}).layout == (
        "interleaved"
    )
    assert read_config(published()["moonshotai/Kimi-K2-Instruct"]["config"]).layout == "interleaved"
    assert read_config(LLAMA).layout == "half"


# Encoders, and what cannot be known

ESM = {
    "model_type": "esm", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96,
    "max_position_embeddings": 1026, "vocab_size": 33, "pad_token_id": 1, "token_dropout": True, "mask_token_id": 32,
}  # fmt: skip
MODERN = {
    "model_type": "modernbert", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
    "intermediate_size": 96, "local_attention": 8, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "vocab_size": 99, "pad_token_id": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        ({**ESM, "position_embedding_type": "rotary"}, "rope"),
        ({**ESM, "position_embedding_type": "absolute"}, "learned"),
        (MODERN, "rope"),
        ({"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_emb_base": 1000}, "rope"),
        ({"model_type": "new", "position_embedding_type": "rope", "rope_theta": 160e3}, "rope"),
        ({"model_type": "xlm-roberta", "position_embedding_type": "rotary"}, "rope"),
        ({"model_type": "somebert", "position_embedding_type": "alibi", "max_position_embeddings": 8192}, "alibi"),
        ({"model_type": "bert", "position_embedding_type": "relative_key_query"}, "learned_relative"),
        ({"model_type": "deberta-v2", "relative_attention": True, "max_position_embeddings": 512}, "learned_relative"),
        ({"model_type": "deberta-v2", "relative_attention": False, "max_position_embeddings": 512}, "learned"),
        ({"model_type": "distilbert", "sinusoidal_pos_embds": True, "max_position_embeddings": 512}, "sinusoidal"),
        ({"model_type": "mpnet", "relative_attention_num_buckets": 32}, "learned and t5"),
        ({"model_type": "bert", "max_position_embeddings": 512}, "learned"),
        ({"model_type": "somebert", "max_position_embeddings": 512}, "unknown"),
        ({"model_type": "somebert", "max_position_embeddings": 512, "use_rotary": True}, "unknown"),
        ({"model_type": "somebert", "max_position_embeddings": 512, "pos_emb": "rotary"}, "unknown"),
        ({"model_type": "somebert", "max_position_embeddings": 512, "other_properties": True}, "unknown"),
        ({"model_type": "somebert", "position_embedding_type": "fourier"}, "unknown"),
        ({"model_type": "somebert", "position_embedding_type": "absolute", "rotary_emb_base": 1e4}, "unknown"),
        ({"model_type": "somebert", "position_embedding_type": "absolute"}, "learned"),
        ({"model_type": "vicuna", "max_position_embeddings": 2048, "hidden_size": 64}, "unknown"),
    ],
)
def test_a_table_is_read_where_there_is_one_and_unknown_is_said_where_nothing_says_it(
    config: dict[str, Any], scheme: str
) -> None:
    reading = read_config(config)
    assert reading.scheme == scheme, reading.why
    assert "model_type" in reading.why or any(name in reading.why for name in config) or "no field" in reading.why


@pytest.mark.parametrize("config", [{**ESM, "position_embedding_type": "rotary"}, MODERN], ids=["esm", "modernbert"])
def test_encoders_rotate_as_their_classes_do(config: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    from transformers import AutoConfig, AutoModelForMaskedLM

    fields = {key: value for key, value in config.items() if key != "model_type"}
    made = AutoConfig.for_model(config["model_type"], **copy.deepcopy(fields))
    model = AutoModelForMaskedLM.from_config(made)
    own = [buffer for key, buffer in model.named_buffers() if key.endswith("inv_freq") and "original" not in key]
    for written in (config, made):
        found = [torch.tensor(one.frequencies) for one in read_config(written).rotations.values() if one is not None]
        assert len(own) == len(found) > 0
        for each in own:
            assert any(torch.allclose(each, one, rtol=1e-6) for one in found)


def test_windows_of_encoders_reach_as_far_ahead_as_back() -> None:
    pytest.importorskip("transformers")
    from transformers import AutoConfig, AutoModelForMaskedLM

    reading = read_config(MODERN)
    assert [(layer.kind, layer.window, layer.back) for layer in reading.layers[:2]] == [
        ("full", None, None),
        ("sliding", 9, 4),
    ]
    assert "9 (4 on each side)" in str(reading) and "cache" not in str(reading)
    fields = {key: value for key, value in MODERN.items() if key not in ("model_type", "num_hidden_layers")}
    made = AutoConfig.for_model("modernbert", **fields, num_hidden_layers=1, layer_types=["sliding_attention"])
    model = AutoModelForMaskedLM.from_config(made, attn_implementation="eager").eval()
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        before, after = model(tokens).logits, model(torch.where(torch.arange(20) == 10, 50, tokens)).logits
    moved = (before - after).abs().amax(-1)[0].nonzero().flatten().tolist()
    assert moved == list(range(10 - 4, 10 + 4 + 1))


def test_a_field_that_a_class_no_longer_reads_is_a_warning() -> None:
    (warning,) = read_config({"model_type": "bert", "position_embedding_type": "relative_key"}).warnings
    assert warning.name == "position-type" and "does not read it" in warning


# Remedies: each is applied to the file that caused it, and the file is then right


def base(want: float) -> Callable[[Reading], bool]:
    return lambda reading: reading.rotation().base == want


def yarn(trained: int, factor: float, context: int) -> Callable[[Reading], bool]:
    """The rotation is YaRN from `trained` tokens, and the promise is as long as the factor allows."""

    def right(reading: Reading) -> bool:
        one = reading.rotation()
        wanted = SCALINGS["yarn"](
            plain(128, 5e5),
            {"factor": factor, "original_max_position_embeddings": trained, "rope_theta": 5e5},
            context,
        )
        return one.frequencies == wanted and (one.trained, one.context) == (trained, context)

    return right


def dims(want: int) -> Callable[[Reading], bool]:
    return lambda reading: reading.rotation().dims == want


def read_as(**want: Any) -> Callable[[Reading], bool]:
    return lambda reading: {key: reading.rotation().parameters.get(key) for key in want} == want


def layers(want: int) -> Callable[[Reading], bool]:
    return lambda reading: len(reading.layers) == want


def anything(_: Reading) -> bool:
    return True


SWA = {"layer_types": ["sliding_attention"] * 32}
NESTED = {"rope_parameters": {"full_attention": {**YARN, "truncate": False}}, "layer_types": ["full_attention"] * 32}
LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "partial_rotary_factor": 0.334}

# For each remark: what is written into Llama's file, what its author knows, and what is true after each remedy.
REMEDIES: dict[str, list[tuple[dict[str, Any], dict[str, Any], list[Callable[[Reading], bool]]]]] = {
    "both-forms": [
        ({"rope_scaling": YARN, "rope_parameters": LLAMA_3}, {},
         [yarn(32_768, 4.0, 131_072), read_as(rope_type="llama3", factor=8.0)]),
    ],
    "two-bases": [({"rope_parameters": {"rope_theta": 1e4}}, {}, [base(1e4), base(5e5)])],
    "two-originals": [
        ({"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 8192},
          "original_max_position_embeddings": 32_768}, {}, [yarn(32_768, 4.0, 131_072), yarn(8192, 16.0, 131_072)]),
    ],
    "latent-part": [(LATENT, {}, [dims(64)])],
    "two-parts": [({"partial_rotary_factor": 0.5, "rotary_dim": 32, "head_dim": 128}, {}, [dims(64), dims(32)])],
    "rotary-dim": [({"model_type": "minimax", "rotary_dim": 64}, {}, [dims(64)])],
    "no-kinds": [
        ({"rope_parameters": {"sliding": {"rope_theta": 1e4}, "full": {"rope_theta": 1e6}}, "rope_theta": None,
          "layer_types": ["full_attention", "sliding_attention"] * 16, "sliding_window": 512}, {},
         [lambda r: (r.rotation("full_attention").base, r.rotation("sliding_attention").base) == (1e6, 1e4)]),
    ],
    "two-types": [({"rope_scaling": {**YARN, "type": "linear"}}, {}, [yarn(32_768, 4.0, 131_072)])],
    "other-rope-type": [
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta_fast": 32}}, {}, [read_as(factor=2.0)]),
        ({"rope_scaling": {**LLAMA_3, "truncate": False}}, {}, [read_as(factor=8.0)]),
    ],
    "no-parameter": [
        ({"rope_scaling": {**YARN, "scale": 4}}, {}, [yarn(32_768, 4.0, 131_072)]),
        ({"rope_scaling": {**YARN, "beta_fst": 16.0}}, {}, [read_as(beta_fast=16.0), yarn(32_768, 4.0, 131_072)]),
    ],
    "truncate-inside": [(NESTED, {}, [lambda r: r.rotation().parameters["truncate"] is False])],
    "small-factor": [
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, {"factor": 2.0}, [read_as(factor=2.0)]),
    ],
    "no-original": [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, {},
         [yarn(32_768, 4.0, 131_072), yarn(131_072, 4.0, 524_288)]),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 3.0}}, {}, [yarn(131_072, 3.0, 393_216)]),
        ({"rope_scaling": {"rope_type": "yarn"}}, {"original_max_position_embeddings": 32_768},
         [yarn(32_768, 4.0, 131_072)]),
        ({"rope_scaling": {key: LLAMA_3[key] for key in list(LLAMA_3)[:-1]}},
         {"original_max_position_embeddings": 8192}, [read_as(original_max_position_embeddings=8192, factor=8.0)]),
        ({"rope_scaling": {**LONG, "factor": 32.0}}, {},
         [read_as(original_max_position_embeddings=4096), read_as(original_max_position_embeddings=131_072)]),
        ({"model_type": "wrapper", "text_config": {**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0}}}, {},
         [yarn(32_768, 4.0, 131_072), yarn(131_072, 4.0, 524_288)]),
    ],
    "not-longer": [
        ({"rope_scaling": YARN, "max_position_embeddings": 32_768}, {}, [yarn(32_768, 4.0, 131_072)]),
    ],
    "no-ratio": [
        ({"rope_scaling": {**YARN, "factor": 8.0}}, {}, [yarn(32_768, 8.0, 262_144), yarn(32_768, 4.0, 131_072)]),
        ({"rope_scaling": YARN, "max_position_embeddings": 40_960}, {},
         [yarn(32_768, 4.0, 131_072), yarn(32_768, 1.25, 40_960)]),
        ({"rope_scaling": YARN, "max_position_embeddings": 16_384}, {}, [yarn(32_768, 4.0, 131_072)]),
    ],
    "betas": [
        ({"rope_scaling": {**YARN, "beta_fast": 1, "beta_slow": 32}}, {}, [yarn(32_768, 4.0, 131_072)]),
    ],
    "mscale-unread": [
        ({"rope_scaling": {**YARN, "attention_factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}}, {},
         [lambda r: r.rotation().attention_factor == 1.0]),
    ],
    "mscale-alone": [
        ({"rope_scaling": {**YARN, "mscale": 0.7}}, {"mscale_all_dim": 0.7},
         [yarn(32_768, 4.0, 131_072), lambda r: r.rotation().attention_factor == 1.0]),
        ({"rope_scaling": {**YARN, "mscale_all_dim": 0.7}}, {"mscale": 0.7},
         [yarn(32_768, 4.0, 131_072), lambda r: r.rotation().attention_factor == 1.0]),
    ],
    "freq-factors": [
        ({"rope_scaling": {**LLAMA_3, "low_freq_factor": 4.0, "high_freq_factor": 1.0}}, {},
         [read_as(low_freq_factor=1.0, high_freq_factor=4.0)]),
    ],
    "llama3-original": [
        ({"rope_scaling": {**LLAMA_3, "original_max_position_embeddings": 131_072}},
         {"original_max_position_embeddings": 8192}, [read_as(original_max_position_embeddings=8192)]),
    ],
    "odd": [
        ({"partial_rotary_factor": 0.12}, {"partial_rotary_factor": 0.125}, [dims(16)]),
        ({"head_dim": 127}, {"head_dim": 128}, [dims(128)]),
        ({"rope_parameters": {"partial_rotary_factor": 0.12, "rope_theta": 5e5}, "rope_theta": None},
         {"partial_rotary_factor": 0.125}, [dims(16)]),
    ],
    "list-length": [
        ({"layer_types": ["full_attention"] * 31}, {"layer_types": ["full_attention"] * 32}, [layers(32), layers(31)]),
        ({"no_rope_layers": [1, 0]}, {"no_rope_layers": [1, 0] * 16}, [layers(32), layers(2)]),
    ],
    "pattern-length": [
        ({"hybrid_override_pattern": "M*"}, {"hybrid_override_pattern": "M*" * 16}, [layers(32), layers(2)]),
    ],
    "no-window": [(SWA, {"sliding_window": 512}, [anything, lambda r: r.kinds == {"full": 32}])],
    "no-sliding-window": [
        ({"use_sliding_window": True}, {"sliding_window": 512},
         [lambda r: r.kinds == {"sliding": 32}, lambda r: r.kinds == {"full": 32}]),
    ],
    "key-heads": [({"num_key_value_heads": 5}, {"num_key_value_heads": 8}, [lambda r: r.key_heads == 8])],
    "no-rotation": [
        ({"alibi": True}, {}, [lambda r: r.scheme == "alibi"]),
        ({"mla_use_nope": True, "rope_scaling": YARN}, {}, [lambda r: r.scheme == "nope"]),
    ],
    "dbrx-base": [
        ({"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}, "rope_theta": None}, {}, [base(5e5)]),
    ],
    # what cannot be read
    "quoted": [
        ({"rope_theta": "10000"}, {}, [base(1e4)]),
        ({"rope_scaling": {**YARN, "factor": "4"}}, {}, [yarn(32_768, 4.0, 131_072)]),
        ({"rope_theta": "ten thousand"}, {"rope_theta": 1e4}, [base(1e4)]),
        ({"text_config": {**LLAMA, "rope_theta": "7e5"}}, {}, [base(7e5)]),
    ],
    "no-number": [({"rope_theta": True}, {"rope_theta": 1e4}, [base(1e4)])],
    "not-finite": [({"rope_theta": math.nan}, {"rope_theta": 1e4}, [base(1e4)])],
    "no-size": [
        ({"rope_theta": 10**400}, {"rope_theta": 1e4}, [base(1e4)]),
        ({"rope_theta": 1e300}, {"rope_theta": 1e4}, [base(1e4)]),
    ],
    "not-whole": [({"num_hidden_layers": 2.5}, {"num_hidden_layers": 2}, [layers(2)])],
    "too-large": [
        ({"num_hidden_layers": 10**9}, {"num_hidden_layers": 2}, [layers(2)]),
        ({"compress_ratios": [0, 10**12], "sliding_window": 128}, {"compress_ratios": [0, 4]}, [layers(2)]),
    ],
    "no-flag": [
        ({"alibi": "yes", "rope_theta": None}, {}, [lambda r: r.scheme == "alibi", base(1e4)]),
    ],
    "no-object": [({"rope_scaling": "yarn"}, {}, [base(5e5)])],
    "no-list": [({"layer_types": {"full": 32}}, {}, [layers(32)])],
    "long-list": [({"layer_types": ["full_attention"] * 100_001}, {}, [layers(32)])],
    "long-pattern": [({"hybrid_override_pattern": "M" * 100_001}, {}, [layers(32)])],
    "no-name": [({"layer_types": [7, "sliding_attention"] * 16, "sliding_window": 512}, {}, [layers(32)])],
    "no-block": [({"attention_types": [1]}, {}, [layers(32)])],
    "long-blocks": [({"attention_types": [[["global"], 10**5], [["local"], 10**5]]}, {}, [layers(32)])],
    "no-head": [
        ({"hidden_size": 10**8, "num_attention_heads": 2, "num_key_value_heads": 2}, {"hidden_size": 256}, [dims(128)]),
    ],
    "many-rotations": [({"layer_rope_theta": [1e4 + n for n in range(300)]}, {}, [base(5e5)])],
    "no-rope-type": [
        ({"rope_scaling": {"rope_type": "ntk", "factor": 2.0}}, {"rope_type": "linear"}, [read_as(factor=2.0)]),
        ({"rope_scaling": {"rope_type": ["yarn"], "factor": 2.0}}, {"rope_type": "linear"}, [read_as(factor=2.0)]),
    ],
    "no-base": [
        ({"rope_theta": -1.0}, {}, [base(1e4)]),
        ({"rope_parameters": {"rope_theta": 0.5}, "rope_theta": None}, {}, [base(1e4)]),
        ({"model_type": "gemma3_text", "rope_local_base_freq": 0.5, "rope_theta": 1e6, "head_dim": 64}, {},
         [lambda r: r.rotation("sliding_attention").base == 1e4]),
    ],
    "no-share": [
        ({"partial_rotary_factor": 1.5}, {"partial_rotary_factor": 0.5}, [dims(64)]),
        ({"rope_parameters": {"partial_rotary_factor": -1, "rope_theta": 5e5}, "rope_theta": None},
         {"partial_rotary_factor": 0.5}, [dims(64)]),
        ({"rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 2}}, {"partial_rotary_factor": 0.5},
         [lambda r: r.rotation().still == 32]),
    ],
    "no-channel": [({"partial_rotary_factor": 0.001}, {"partial_rotary_factor": 0.5}, [dims(64)])],
    "out-of-range": [
        ({"rope_scaling": {**YARN, "beta_fast": -1}}, {}, [yarn(32_768, 4.0, 131_072)]),
        ({"rope_scaling": {**YARN, "attention_factor": 0}}, {}, [yarn(32_768, 4.0, 131_072)]),
        ({"rope_scaling": {**LLAMA_3, "low_freq_factor": 0}}, {"low_freq_factor": 1.0}, [read_as(low_freq_factor=1.0)]),
    ],
    "no-truncate": [({"rope_scaling": {**YARN, "truncate": "no"}}, {}, [yarn(32_768, 4.0, 131_072)])],
    "needs": [
        ({"rope_scaling": {"rope_type": "linear"}}, {"factor": 2.0}, [read_as(factor=2.0)]),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": None},
         {"max_position_embeddings": 4096}, [read_as(factor=2.0)]),
        ({"rope_scaling": {**LONG, "original_max_position_embeddings": 4096}, "max_position_embeddings": None},
         {"factor": 32.0, "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096},
         [read_as(factor=32.0), read_as(factor=32.0)]),
        ({"rope_scaling": {"rope_type": "yarn"}, "max_position_embeddings": None},
         {"factor": 4.0, "original_max_position_embeddings": 32_768, "max_position_embeddings": 131_072},
         [anything, yarn(32_768, 4.0, 131_072)]),
    ],
    "no-factor": [
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, {"factor": 2.0}, [read_as(factor=2.0)]),
    ],
    "no-divisors": [
        ({"rope_scaling": {**LONG, "short_factor": [1.0], "factor": 32.0, "original_max_position_embeddings": 4096}},
         {"short_factor": [1.0] * 64}, [read_as(factor=32.0)]),
    ],
    # what is not said
    "no-head-size": [
        ({"hidden_size": None}, {"head_dim": 128, "hidden_size": 4096, "num_attention_heads": 32}, [dims(128)] * 2),
    ],
    "no-layers": [({"num_hidden_layers": None}, {"num_hidden_layers": 32}, [layers(32)])],
    "no-kinds-said": [
        ({"model_type": "lfm3"}, {"layer_types": ["conv", "full_attention"] * 16}, [layers(32)]),
    ],
    "no-type": [({"model_type": None}, {"model_type": "llama"}, [lambda r: not r.notes])],
    "no-base-said": [
        ({"rope_theta": None}, {}, [lambda r: base(1e4)(r) and not r.notes]),
        ({"model_type": "vicuna", "rope_theta": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
         {"rope_theta": 1e6}, [base(1e6)]),
    ],
    "no-share-said": [
        ({"model_type": "gpt_neox", "rope_theta": 1e4}, {}, [lambda r: dims(32)(r) and not r.notes]),
    ],
}  # fmt: skip

NO_FILE = {
    "mpt-unread", "position-type",  # another program, not another file
    "part", "other-type", "filled", "rope-filled", "linear-length", "m-rope", "no-memory",  # how it was read
}  # fmt: skip


def test_every_remark_is_in_the_table_of_remedies() -> None:
    """A new sentence of the reader comes with a file that causes it."""
    code = "\n".join(file.read_text(encoding="utf-8") for file in CONFIGS)
    names = set(re.findall(r'(?:Remark|Unreadable)\(\s*"([a-z0-9-]+)"', code))
    assert names == set(REMEDIES) | NO_FILE
    assert len(re.findall(r"\b(?:Remark|Unreadable)\(", code)) - 2 >= len(names)  # two are the classes


def filled(remedy: Any, knows: dict[str, Any]) -> Any:
    """A remedy with its question marks answered."""
    if not isinstance(remedy, dict):
        return remedy
    return {key: knows[key] if value == "?" else filled(value, knows) for key, value in remedy.items()}


def said(config: dict[str, Any], name: str) -> Remark | Unreadable:
    try:
        reading = read_config(config)
    except Unreadable as error:
        return error
    assert not reading.warnings or {each.name for each in reading.warnings} == {name}, reading.warnings
    (found,) = {each for each in (*reading.warnings, *reading.notes) if each.name == name}
    return found


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, n, id=f"{name}-{n}") for name in REMEDIES for n in range(len(REMEDIES[name]))]
)
def test_each_remedy_puts_the_file_right_that_caused_it(name: str, case: int) -> None:
    fields, knows, truths = REMEDIES[name][case]
    whole = "text_config" in fields or ("model_type" in fields and "text_config" in fields)
    config = fields if whole else {key: value for key, value in {**LLAMA, **fields}.items() if value is not None}
    before = copy.deepcopy(config)
    found = said(config, name)
    assert found.name == name
    assert len(found.remedies) == len(truths), found.remedies
    for remedy, true in zip(found.remedies, truths, strict=True):
        again = read_config(apply(config, filled(remedy, knows)))
        assert again.warnings == (), (remedy, again.warnings)
        assert true(again), (remedy, again)
        assert name not in {each.name for each in again.notes}
    assert str(config) == str(before)


def test_the_remedy_for_a_missing_original_length_never_asks_for_more_than_was_meant() -> None:
    """Raising the promised length alone would ask for sixteen times the trained one."""
    config = {**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    (warning,) = read_config(config).warnings
    assert "original_max_position_embeddings is missing" in warning and "32768" in warning
    for remedy in warning.remedies:
        assert "original_max_position_embeddings" in remedy["rope_scaling"]
        one = read_config(apply(config, dict(remedy))).rotation()
        assert one.trained is not None and one.context == 4 * one.trained
    (known,) = read_config(config, trained=32_768).warnings
    assert known.remedies == ({"rope_scaling": {"original_max_position_embeddings": 32_768}},)


def test_transformers_reads_a_repaired_file_as_the_reader_does() -> None:
    pytest.importorskip("transformers")
    from transformers import Gemma3TextConfig, LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = {**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    (warning,) = read_config(config).warnings
    for remedy in warning.remedies:
        fields = apply(config, dict(remedy))
        made = LlamaConfig(**{key: copy.deepcopy(fields[key]) for key in fields if key != "model_type"})
        want, factor = ROPE_INIT_FUNCTIONS["yarn"](made, "cpu")
        one = read_config(fields).rotation()
        torch.testing.assert_close(torch.tensor(one.frequencies), want, rtol=2e-6, atol=0)
        assert math.isclose(one.attention_factor, factor)
    own = {**YARN, "truncate": False, "rope_theta": 1e6}
    inside = {"full_attention": own, "sliding_attention": {"rope_theta": 1e4}}
    config = {"head_dim": 64, "max_position_embeddings": 131_072, "rope_parameters": inside}
    (warning,) = read_config({"model_type": "gemma3_text", **config}).warnings
    (remedy,) = warning.remedies
    fields = apply(config, dict(remedy))
    want, _ = ROPE_INIT_FUNCTIONS["yarn"](Gemma3TextConfig(**copy.deepcopy(fields)), "cpu", layer_type="full_attention")
    found = read_config({"model_type": "gemma3_text", **fields}).rotation("full_attention")
    torch.testing.assert_close(torch.tensor(found.frequencies), want, rtol=2e-6, atol=0)


def test_remarks_are_sentences_that_can_be_copied_and_kept() -> None:
    reading = read_config({**LLAMA, "rope_parameters": {"rope_theta": 1e4}})
    for again in (copy.deepcopy(reading), pickle.loads(pickle.dumps(reading))):
        assert again.warnings == reading.warnings and again.warnings[0].remedies == reading.warnings[0].remedies
    with pytest.raises(Unreadable) as caught:
        read_config({**LLAMA, "rope_theta": "1e4"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.remedies == caught.value.remedies == ({"rope_theta": 10_000},)
    assert json.loads(json.dumps(reading.to_dict()))["remedies"]["two-bases"][0] == {"rope_theta": None}


# Files that nobody meant


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rope_theta": 10**400}, "rope_theta"),
        ({"hidden_size": 10**400}, "hidden_size"),
        ({"rope_theta": 10**6000}, "rope_theta"),
        ({"rope_scaling": LONG, "max_position_embeddings": None}, "original_max_position_embeddings"),
        ({"linear_attn_config": {"full_attn_layers": 3}}, "linear_attn_config.full_attn_layers"),
        ({"compress_ratios": [[1]]}, r"compress_ratios\[0\]"),
        ({"compress_ratios": [{}]}, r"compress_ratios\[0\]"),
        ({"attention_types": [1]}, "attention_types"),
        ({"attention_types": [[["global"], "9"]]}, "attention_types"),
        ({"sliding_window_pattern": 10**19, "sliding_window": 512}, "sliding_window_pattern"),
        ({"model_type": "dbrx", "attn_config": {"rope_theta": {}}}, "attn_config.rope_theta"),
        ({"model_type": "dbrx", "attn_config": {"rope_theta": "500000"}}, "attn_config.rope_theta"),
        ({"attn_config": {"kv_n_heads": "su"}}, "attn_config.kv_n_heads"),
        ({"per_layer_config": {"3": {"num_key_value_heads": "su"}}}, "per_layer_config.3.num_key_value_heads"),
        ({"per_layer_config": [1]}, "per_layer_config"),
        ({"attn_layer_indices": ["a"]}, "attn_layer_indices"),
        ({"layer_rope_theta": ["a"]}, r"layer_rope_theta\[0\]"),
        ({"layer_types": [[1]]}, "layer_types"),
        ({"rope_scaling": {**YARN, "mscale": -3}}, "rope_scaling.mscale"),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": "4096"}}, "rope_scaling.original_max"),
        ({"rope_scaling": {"rope_type": {}, "type": []}, "rope_theta": [1]}, "rope_theta"),
        ({"rope_scaling": {**LONG, "original_max_position_embeddings": 1}}, "original_max_position_embeddings"),
        ({"model_type": "mistral4", "rope_scaling": {**YARN, "llama_4_scaling_beta": "x"}}, "llama_4_scaling_beta"),
        ({"model_type": "deepseek_v3", "rope_scaling": {**YARN, "mscale_all_dim": [1]}}, "mscale_all_dim"),
        # sizes without end
        ({"head_dim": 10**10}, "head_dim"),
        ({"hidden_size": 10**12}, "hidden_size"),
        ({"max_position_embeddings": 10**15, "rope_theta": 1e9}, "max_position_embeddings"),
        ({"num_hidden_layers": 3 * 10**6}, "num_hidden_layers"),
        ({"layer_types": ["full_attention"] * 10**6}, "layer_types"),
        ({"attention_types": [[["global"], 10**9]]}, "attention_types"),
        ({"model_type": "bloom", "num_attention_heads": 10**9}, "num_attention_heads"),
        ({"layer_rope_theta": [1e4 + n for n in range(10_000)]}, "layer_rope_theta"),
        ({"rope_parameters": {f"k{n}": {"rope_theta": 1e4} for n in range(1000)}}, "rope_parameters"),
    ],
)
def test_what_no_configuration_holds_is_refused_by_the_name_of_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        read_config({**LLAMA, **fields})
    message = str(caught.value)
    assert len(message) < 400 and "\n" not in message and message.isprintable()
    assert ": " in message  # and the remedy


def test_files_that_python_itself_cannot_read_are_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text, words in (
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 100_000, "nested too deeply"),
        (f'{{"rope_theta": {"9" * 5000}}}', "too many digits"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=words):
            read_config(file)
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())  # with the mark that Windows puts before UTF-8
    assert read_config(file).model_type == "llama"
    round_and_round: dict[str, Any] = {"model_type": "a"}
    round_and_round["text_config"] = round_and_round
    with pytest.raises(ValueError, match="deep"):
        read_config(round_and_round)


def test_the_largest_that_is_read_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "MOST_COSINES", 100_000)
    reading = read_config({
        **LLAMA, "num_hidden_layers": 100_000, "head_dim": 65_536, "max_position_embeddings": 10**9,
        "layer_rope_theta": [1e30] * 100_000, "rope_theta": None,
    })  # fmt: skip
    assert len(reading.layers) == 100_000 and str(reading)
    assert read_config({**LLAMA, "max_position_embeddings": int(1e30)}).context is None  # a tokenizer's "no limit"


HOSTILE = "\x1b]0;pwned\x07\x1b[31m\u202e\u2066evil\n\x00"


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "model_type": HOSTILE},
        {**LLAMA, "rope_scaling": {**YARN, HOSTILE: 1}},
        {**LLAMA, "rope_theta": None, "rope_parameters": {HOSTILE: {"rope_theta": 1e4}}},
        {**LLAMA, "layer_types": [HOSTILE] * 32},
        {**LLAMA, "position_embedding_type": HOSTILE, "rope_theta": None},
        {**LLAMA, "hybrid_override_pattern": HOSTILE},
        {HOSTILE + "_rotary": 1, "max_position_embeddings": 9},
        {"text_config": {**LLAMA, "model_type": HOSTILE}},
        {**LLAMA, "torch_dtype": HOSTILE},
        {**LLAMA, "rope_scaling": {**YARN, "type": HOSTILE}},
        {**LLAMA, "rotary_dim": 64, "model_type": HOSTILE},
    ],
)
def test_no_escape_code_reaches_a_terminal(config: dict[str, Any]) -> None:
    reading = read_config(config)
    for text in (str(reading), *reading.warnings, *reading.notes, reading.model_type, reading.why):
        assert all(each.isprintable() or each == "\n" for each in text), text
    for refused in ({**LLAMA, "rope_theta": HOSTILE}, {**LLAMA, "rope_scaling": {"rope_type": HOSTILE}}):
        with pytest.raises(ValueError, match="rope") as caught:
            read_config(refused)
        assert str(caught.value).isprintable()
    with pytest.raises(ValueError, match="layer_type is") as caught:
        RoPE.from_config(LLAMA, layer_type=HOSTILE)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], {"a": math.nan}, [[[1]]]])
def test_json_never_holds_what_json_does_not_have(value: Any) -> None:
    for key in ("d_model", "mrope_section", "finetuned", "mrope_interleaved"):
        own = {**YARN, "original_max_position_embeddings": 128, key: value}
        reading = read_config({**LLAMA, "max_position_embeddings": 512, "rope_scaling": own})
        assert json.loads(json.dumps(reading.to_dict(), allow_nan=False))


# Fuzzing

FIELDS = sorted({
    key
    for one in published().values()
    for part in (one["config"], one["config"].get("text_config", {}))
    for own in (part, part.get("rope_scaling") or {}, part.get("rope_parameters") or {})
    for key in own
} | {
    "alibi", "attention_types", "attn_layer_period", "attn_layer_offset", "rope_local_base_freq", "local_rope_theta",
    "position_embedding_type", "num_kv_shared_layers", "per_layer_config", "layer_rope_theta", "block_types",
    "no_rope_layer_interval", "index_topk", "log_scaling_n_floor", "relative_attention_num_buckets", "swa_head_dim",
    "rotary_emb_fraction", "truncate", "mrope_section", "llama_4_scaling_beta", "window_size", "local_attention",
})  # fmt: skip
WORDS = [
    "yarn", "linear", "dynamic", "longrope", "llama3", "proportional", "default", "su", "axial", "rotary", "nope",
    "sliding_attention", "full_attention", "linear_attention", "LLLG", "M-M*", "", "\x1b[31m", "1e4", *tables.BY_LAYER,
    *tables.DEFAULTS, *tables.POSITION_SCALED, "esm", "bert", "dbrx", "mpt", "xlnet", "falcon",
]  # fmt: skip
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(WORDS),
    st.sampled_from([0, -1, 1, 2, 3, 7, 64, 128, 4096, 10**9, 10**19, 10**400]),
    st.sampled_from([0.0, 0.5, 1e-310, 1.0000001, 4.0, 1e308]),
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.integers(),
    st.floats(),
)
VALUES = st.recursive(
    ODD,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.sampled_from(WORDS)), inner, max_size=4),
        st.builds(lambda value, times: [value] * times, inner, st.sampled_from([24, 32, 48])),
    ),
    max_leaves=6,
)


@st.composite
def mutated(draw: Any) -> dict[str, Any]:
    """A published configuration in which some fields hold something else, are gone, or stand in another place."""
    config = copy.deepcopy(published()[draw(st.sampled_from(sorted(published())))]["config"])
    for _ in range(draw(st.integers(1, 3))):
        place, key = config, draw(st.sampled_from(FIELDS))
        for name in ("text_config", "rope_scaling", "rope_parameters", "attn_config", "linear_attn_config"):
            if isinstance(place.get(name), dict) and draw(st.booleans()):
                place = place[name]
        if draw(st.booleans()):
            place[key] = draw(VALUES)
        else:
            place.pop(draw(st.sampled_from([*place, key])), None)
    return config


def asked(function: Callable[[], Any]) -> tuple[Any, str]:
    """What a function returns, or the message of the error that it documents."""
    try:
        return function(), ""
    except ValueError as error:
        return None, str(error)


@settings(max_examples=300, derandomize=True, deadline=None, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
@example({"rope_scaling": LONG, "head_dim": 128, "rope_theta": 1e4})
@example({"head_dim": 64, "rope_theta": 2.0, "max_position_embeddings": 10**9})
@given(st.one_of(mutated(), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8)))
def test_whatever_a_file_holds_it_is_read_or_refused_in_a_sentence(config: dict[str, Any]) -> None:
    reading, message = asked(lambda: read_config(config))
    assert message.isprintable() and len(message) < 600 and (":" in message or not message)
    if reading is None:
        return
    with mock.patch.object(rotation, "MOST_COSINES", 5000):
        text = str(reading)
        assert json.dumps(reading.to_dict(), allow_nan=False)
    assert all(each.isprintable() or each == "\n" for each in text)
    for each in reading.warnings:
        assert each.endswith(".") and ": " in each
        for remedy in each.remedies:
            apply(config, dict(remedy))
    rope, message = asked(lambda: RoPE.from_config(config))
    assert message.isprintable()
    if rope is not None:
        assert_same(rope, reading.rotation())
