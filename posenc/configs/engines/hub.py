"""Forms of a config.json: transformers 5 and 4, MLX, and the overrides of vLLM and SGLang.

References:
    transformers 5.23, `modeling_rope_utils.py`; 4.57.6, the same and its configurations; vLLM 0.33.0, `config/model.py`
    (`_apply_dict_overrides`) and `model_executor/layers/rotary_embedding`; SGLang 0.5.23, `srt/utils/hf_transformers/
    config.py` and `srt/layers/rotary_embedding`; mlx-lm 0.32.2, `models/rope_utils.py` and the classes beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc.configs import tables
from posenc.configs.engines.form import Form, as_json, shell
from posenc.configs.engines.known import (
    MLX_CALLED,
    MLX_PARAMETERS,
    MLX_PLAIN,
    MLX_SCALES,
    MLX_SHARES,
    OLD_NAMES,
    SINCE_5,
    UNSCALED,
    WHOLE_ROPE_POSITIONS,
)
from posenc.configs.engines.wanted import Wanted
from posenc.configs.fields import CONTEXT
from posenc.configs.parameters import bases_by_layer
from posenc.configs.remarks import Patch, merged, patch
from posenc.configs.rotation import Rotation, mscale

TRUNCATE = "truncate"
PROMISED = "max_position_embeddings"


class Command(NamedTuple):
    """How a server is started: its command, and the flags for overrides and for the length."""

    start: tuple[str, ...]
    overrides: str
    length: str


VLLM = Command(("vllm", "serve", "MODEL"), "--hf-overrides", "--max-model-len")
SGLANG = Command(
    ("python", "-m", "sglang.launch_server", "--model-path", "MODEL"), "--json-model-override-args", "--context-length"
)


def transformers(model: Wanted) -> Form:
    """The config.json of transformers 5: one object, `rope_parameters`."""
    missing, given = _shared(model), rope_parameters(model)
    if any(kind.startswith("layer ") for kind in model.kinds):
        return _untouched(model, "transformers", missing)
    new: dict[str, Any] = {"rope_parameters": given}
    return _file(model, "transformers", new, missing, TRIED["transformers"])


def transformers4(model: Wanted) -> Form:
    """The config.json of transformers 4: `rope_theta` beside `rope_scaling`."""
    missing = _shared(model)
    if model.model_type in SINCE_5:
        missing.append(
            f"transformers 4 has no class for {model.model_type}, which came with version 5: use transformers 5, or "
            "the code that stands beside the weights"
        )
    new, more = beside(model, "transformers 4")
    return _file(model, "transformers4", new, [*missing, *more], TRIED["transformers4"])


def vllm(model: Wanted) -> Form:
    """The flags of vLLM: `--hf-overrides` replaces `rope_parameters` as a whole, so all of it is written."""
    missing = _shared(model)
    notes = [
        "an override of rope_scaling, as older pages write it, replaces rope_parameters in vLLM and takes rope_theta "
        "with it: then the base is 10000",
    ]
    for one in model.turning:
        missing += _one_table(one, "vLLM")
        if (
            one.rope_type == "yarn"
            and "mrope_section" in one.parameters
            and model.model_type not in WHOLE_ROPE_POSITIONS
        ):
            missing.append(
                "vLLM enlarges the table of a model with mrope_section four times and computes YaRN's ramp for four "
                "times the trained length: write original_max_position_embeddings divided by 4 into the override"
            )
        if one.rope_type == "longrope":
            notes.append(
                "vLLM chooses between short and long factors once, by --max-model-len: leave it at the trained "
                "length for short texts"
            )
        missing += _no_factor(one, "vLLM")
    given = rope_parameters(model)
    missing += _beside_kinds(model, given, "vLLM")
    return _overrides(model, "vllm", given, VLLM, missing, notes)


def sglang(model: Wanted) -> Form:
    """The flags of SGLang: `--json-model-override-args` is merged into `rope_parameters`."""
    missing, notes, given = _shared(model), [], rope_parameters(model)
    for one, parameters in _sets(model, given):
        if one.rope_type == "yarn" and one.parameters.get("attention_factor") is not None:
            # It multiplies what mscale would be by attn_factor, and does not read attention_factor.
            parameters["attn_factor"] = one.attention_factor / _sglang_factor(one)
        missing += _one_table(one, "SGLang")
        if one.rope_type == "longrope":
            notes.append("SGLang chooses between short and long factors once, by --context-length")
        missing += _no_factor(one, "SGLang")
    missing += _beside_kinds(model, given, "SGLang")
    notes.append(
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is needed where --context-length exceeds what SGLang derives "
        "from the file"
    )
    return _overrides(model, "sglang", given, SGLANG, missing, notes)


def mlx(model: Wanted) -> Form:
    """The config.json of mlx-lm: each class reads its own fields, and many read no scaling at all."""
    called = MLX_CALLED.get(model.model_type, model.model_type)
    missing: list[str] = _shared(model)
    if called not in MLX_SCALES | MLX_PLAIN:
        missing.append(f"mlx-lm has no class for {model.model_type or 'a file without model_type'} that was read here")
    if called in MLX_PARAMETERS:
        new: dict[str, Any] = {"rope_parameters": rope_parameters(model)}
    else:
        new, more = beside(model, "MLX")
        missing += more
        if isinstance(new.get("rope_scaling"), dict):
            new["rope_scaling"].setdefault("type", new["rope_scaling"].get("rope_type"))  # it looks for type first
    for one, parameters in _sets(model, new.get("rope_parameters") or new.get("rope_scaling") or {}):
        missing += _mlx(one, called, parameters)
    return _file(model, "mlx", new, list(dict.fromkeys(missing)), TRIED["mlx"])


def _mlx(one: Rotation, called: str, parameters: dict[str, Any]) -> list[str]:
    """What mlx-lm does otherwise with one kind of layer."""
    out = []
    if called in MLX_PLAIN and one.rope_type != "default":
        out.append(
            f"the class {called} of mlx-lm rotates by rope_theta alone, and reads over rope_type {one.rope_type!r} "
            f"without a word: {_static(one)}"
        )
    if one.dims != one.head_dim and called not in MLX_SHARES and one.rope_type != "proportional":
        out.append(
            f"{one.dims} of {one.head_dim} channels rotate, but the class {called} of mlx-lm was not seen to read a "
            "share"
        )
    if called not in MLX_SCALES:
        return out
    if called == "phi3" and one.rope_type not in ("default", "longrope", "linear"):
        out.append(
            f"the class phi3 of mlx-lm knows longrope and linear, and switches {one.rope_type} off: write its "
            "divisors as longrope"
        )
    if one.rope_type == "yarn":
        if not one.parameters.get(TRUNCATE, True):
            out.append(_rounded(one, "mlx-lm"))
        above, below = parameters.get("mscale", 1.0), parameters.get("mscale_all_dim", 0.0)
        factor = parameters["factor"]
        if factor > 1 and not math.isclose(mscale(factor, above) / mscale(factor, below), one.attention_factor):
            parameters["mscale"] = (one.attention_factor - 1) / (0.1 * math.log(factor))  # it reads no attention_factor
            parameters["mscale_all_dim"] = 0.0
    if one.rope_type == "longrope":
        out.append(
            "mlx-lm reads long_factor for texts of any length, and short_factor nowhere: take a file without "
            "rope_scaling for texts within the trained length"
        )
    return out


# What transformers 5 and its kin read: rope_parameters


def rope_parameters(model: Wanted) -> dict[str, Any]:
    """The object `rope_parameters`, by kind of layer where there are several."""
    if [*model.kinds] == [""]:
        return dict(model.kinds[""] or {})
    out: dict[str, Any] = {kind: dict(one) if one is not None else None for kind, one in model.kinds.items()}
    for kind in [*out]:
        if out[kind] and TRUNCATE in out[kind]:
            out[TRUNCATE] = out[kind].pop(TRUNCATE)  # it is read beside the kinds
    return out


def _sets(model: Wanted, given: dict[str, Any]) -> list[tuple[Rotation, dict[str, Any]]]:
    """Each rotation with its parameters, whether they are given by kind or for all."""
    return [
        (one, given[kind] if isinstance(given.get(kind), dict) else given)
        for kind, one in model.reading.rotations.items()
        if one is not None
    ]


# What transformers 4 and most classes of mlx-lm read: fields beside each other


def beside(model: Wanted, engine: str) -> tuple[dict[str, Any], list[str]]:
    """`rope_theta`, `rope_scaling` and the share of a head, with what they can't say."""
    named = [*model.kinds] != [""]
    by_layer = bases_by_layer(model.fields)
    missing: list[str] = []
    base, part = OLD_NAMES.get(model.model_type, ("rope_theta", "partial_rotary_factor"))
    new: dict[str, Any] = {"rope_scaling": None}
    if named and by_layer is None:
        return {}, [
            f"the kinds of layers, {', '.join(model.kinds)}, rotate differently, and {engine} has one rope_scaling "
            "for all of them: use transformers 5, or an engine that reads rope_parameters"
        ]
    scaled = tables.SCALED_LAYERS.get(model.model_type, ("full_attention",))
    for kind, parameters in model.kinds.items():
        if parameters is None:
            continue
        field = by_layer[kind][0] if by_layer is not None and kind in by_layer else base
        new[field] = parameters["rope_theta"]
        if "partial_rotary_factor" in parameters and parameters["rope_type"] != "proportional":
            new[part] = parameters["partial_rotary_factor"]
        rest = {key: value for key, value in parameters.items() if key not in ("rope_theta", "partial_rotary_factor")}
        if parameters["rope_type"] == "proportional":
            missing.append(
                f"rope_type 'proportional' is not known to {engine}: use transformers 5, or write its divisors as "
                "longrope"
            )
        elif rest != {"rope_type": "default"}:
            if named and kind not in scaled:
                missing.append(f"{engine} has no field for the scaling of {kind}: leave it to transformers 5")
            else:
                new["rope_scaling"] = rest
    if model.model_type == "phi3" and new["rope_scaling"]:
        new["rope_scaling"] = _three(new["rope_scaling"])
    return new, missing


def _three(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Phi-3's class in transformers 4 and in mlx-lm refuses more than these fields, and takes the lengths beside
    them."""
    if parameters["rope_type"] != "longrope":
        return dict(parameters)
    return {"type": "longrope", "short_factor": parameters["short_factor"], "long_factor": parameters["long_factor"]}


# Common to all


def _shared(model: Wanted) -> list[str]:
    """What no config.json says, whoever reads it."""
    out = []
    if model.model_type in UNSCALED and any(one.rope_type != "default" or one.base != 1e4 for one in model.turning):
        out.append(
            f"the class of {model.model_type} reads rotary_dim alone: its base stays 10000, unscaled, so use another "
            "implementation"
        )
    inner = model.fields.all.get("attn_config")
    elsewhere = inner.get("rope_theta") if isinstance(inner, Mapping) else None
    if elsewhere is not None and any(one.base != elsewhere for one in model.turning):
        out.append(
            f"rope_theta is {elsewhere} in attn_config, which transformers 4 and mlx-lm read and version 5 reads "
            "over: write rope_theta beside model_type before you translate the file"
        )
    if any(kind.startswith("layer ") for kind in model.kinds):
        out.append("each layer has its own base, layer_rope_theta, which no engine but the model's own code reads")
    return out


def _one_table(one: Rotation, engine: str) -> list[str]:
    """Rope type "dynamic", whose frequencies change with the length of a text, and servers compute once."""
    if one.rope_type != "dynamic":
        return []
    return [
        f"{engine} computes one table when it starts, so frequencies don't change with the length of a text: use "
        "yarn, or transformers for 'dynamic'"
    ]


def _beside_kinds(model: Wanted, given: Mapping[str, Any], engine: str) -> list[str]:
    """truncate: transformers reads it beside the kinds of layers, and servers inside them."""
    if TRUNCATE not in given or [*model.kinds] == [""]:
        return []
    return [
        f"{engine} looks for truncate inside a kind of layers and transformers beside the kinds: move it in the "
        "override"
    ]


def _no_factor(one: Rotation, engine: str) -> list[str]:
    """Rope type "proportional" has a factor in transformers alone."""
    if one.rope_type != "proportional" or one.parameters.get("factor", 1.0) == 1.0:
        return []
    return [f"{engine} reads no factor for rope_type 'proportional': use transformers"]


def _rounded(one: Rotation, engine: str) -> str:
    """truncate: false where somebody rounds all the same, with what it changes."""
    frequencies = one.at(one.context)
    rounded = Rotation(**{**vars_of(one), "parameters": {**one.parameters, TRUNCATE: True}}).at(one.context)
    worst = max(abs(b / a - 1) for a, b in zip(frequencies, rounded, strict=True) if a)
    return (
        f"{engine} rounds the ramp of YaRN whatever truncate says, so frequencies are up to {100 * worst:.1f} % off: "
        "use an engine that reads truncate, or expect that difference"
    )


def vars_of(one: Rotation) -> dict[str, Any]:
    """The fields of a rotation, without what was computed from them."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _static(one: Rotation) -> str:
    """What to do where nothing scales."""
    if one.rope_type in ("dynamic", "linear", "yarn", "llama3") and one.parameters.get("factor"):
        base = one.base * one.parameters["factor"] ** (one.dims / (one.dims - 2)) if one.dims > 2 else one.base
        return f"a larger rope_theta, {base:.0f}, is NTK-aware scaling by the same factor, another method"
    return "use another engine"


def _sglang_factor(one: Rotation) -> float:
    above, below = one.parameters.get("mscale"), one.parameters.get("mscale_all_dim")
    factor = one.parameters["factor"]
    return mscale(factor, above) / mscale(factor, below) if above is not None and below is not None else mscale(factor)


def _promised(model: Wanted) -> dict[str, int]:
    """The length, under the name that the file has for it."""
    return {} if model.context is None else {model.fields.name(*CONTEXT) or PROMISED: model.context}


def _file(model: Wanted, engine: str, new: dict[str, Any], missing: list[str], tried: str) -> Form:
    """Fields of a config.json, as JSON to paste and as a merge patch."""
    if not new:
        return _untouched(model, engine, missing)
    new = {**new, **_promised(model)}
    outer = model.fields.whole("original_max_position_embeddings")
    if outer is not None:
        new["original_max_position_embeddings"] = outer
    away = [name for name in model.old_fields if new.get(name) is None]
    shown = {name: value for name, value in new.items() if value is not None}
    notes = []
    if engine.startswith("transformers") and model.model_type not in tables.TYPES_OF_5_23:
        notes.append(
            f"transformers {tables.TRANSFORMERS} has no class for {model.model_type or 'a file without model_type'}: "
            "code beside the weights decides what it reads"
        )
    if away:
        notes.append(f"take away what it replaces: {', '.join(away)}")
    if model.fields.part:
        notes.append(f"the fields belong into {model.fields.part}")
    change: Patch = {}
    for name in (*away, *shown):
        before: Any = model.fields.all.get(name)
        value: Any = shown.get(name)
        now = _instead(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
        change = merged(change, patch(model.fields.where(name), now))
    return Form(engine, as_json(shown, 1), change, missing=tuple(missing), notes=tuple(notes), tried=tried)


def _instead(before: Mapping[str, Any], now: Mapping[str, Any]) -> Patch:
    """The patch that makes one object of another, whatever it holds."""
    out: dict[str, Any] = {key: None for key in before if key not in now}
    for key, value in now.items():
        inner = before.get(key)
        out[key] = _instead(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return out


def _untouched(model: Wanted, engine: str, missing: list[str]) -> Form:
    """The settings as they are in the file, where the engine has no others."""
    names = ("layer_rope_theta", *model.old_fields)
    shown = {name: model.fields.all[name] for name in names if model.fields.all.get(name) is not None}
    return Form(engine, as_json(shown, 1), {}, missing=tuple(missing), tried=TRIED[engine])


def _overrides(
    model: Wanted, engine: str, given: dict[str, Any], command: Command, missing: list[str], notes: list[str]
) -> Form:
    """A command that starts a server with overrides for the configuration."""
    if any(kind.startswith("layer ") for kind in model.kinds):
        return Form(engine, shell(command.start), missing=tuple(missing), tried=TRIED[engine])
    inner: dict[str, Any] = {"rope_parameters": given, **_promised(model)}
    overrides = as_json(patch(model.fields.where(), inner) if model.fields.part else inner)
    flags = (command.overrides, overrides, *((command.length, str(model.context)) if model.context else ()))
    once = tuple(dict.fromkeys(notes))
    return Form(
        engine, shell(command.start, flags), flags=flags, missing=tuple(missing), notes=once, tried=TRIED[engine]
    )


TRIED = {
    "transformers": "read back by transformers 5.23 for every published model that it has a class for",
    "transformers4": "read back by transformers 4.57.6 for every published model that it has a class for",
    "vllm": "vLLM's get_rope, given these parameters on a CPU, made the same table; no server was started",
    "sglang": "SGLang's get_rope, given these parameters on a CPU, made the same table; no server was started",
    "mlx": "mlx-lm built its own classes from such files for 42 published models on a CPU, with the same frequencies "
    "(Llama 4's class was read alone)",
}
"""How each form was given to its engine."""
