"""From a published configuration to the arguments of RoPE: `RoPE.from_config` reads it here.

A configuration is a config.json, or an object such as a PretrainedConfig of
transformers. Its `rope_parameters` (before transformers 5: `rope_theta` beside
`rope_scaling`) say how the model rotates. The rope types and their rules are those of
transformers, modeling_rope_utils.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc._require import require_rotary_dim
from posenc.layout import Layout
from posenc.scaling import (
    dynamic_ntk,
    interpolate,
    llama3,
    longrope,
    longrope_attention_factor,
    p_rope,
    yarn,
    yarn_attention_factor,
)
from posenc.sinusoidal import frequencies

Scaled = tuple[Tensor | Callable[[Tensor], Tensor], float]
"""Frequencies, or a function of the length that returns them, and the attention factor."""

PARAMETERS = {
    "rope_type", "type", "rope_theta", "partial_rotary_factor", "factor",
    "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
    "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor",
    "low_freq_factor", "high_freq_factor", "finetuned",
}  # fmt: skip
"""The rope parameters that are understood. Another one may change the rotation, so it is refused."""

INTERLEAVED = {
    "axk1", "axk2", "bailing_hybrid", "blt", "codegen", "cohere", "cohere2",
    "cohere2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4",
    "dots3_note", "ernie4_5", "ernie4_5_moe", "glm", "glm4", "glm4_moe_lite",
    "glm_moe_dsa", "gptj", "helium", "llama4", "llama4_text", "longcat_flash",
    "mistral4", "mistral_large4", "moonshine", "moonshine_streaming",
    "openai_privacy_filter", "roformer", "youtu",
}  # fmt: skip
"""Model types whose code in transformers 5.23 pairs neighbouring channels."""


class Parameters(dict[str, Any]):
    """Rope parameters by name. One that is needed and not there is an error with a remedy."""

    def __missing__(self, name: str) -> Any:
        where = "the configuration" if name in ("rope_theta", "max_position_embeddings") else "its rope parameters"
        default = " (10000.0 for most models)" if name == "rope_theta" else ""
        raise ValueError(
            f"{name} is missing, which rope_type {self.get('rope_type', 'default')!r} needs: "
            f"add {name}{default} to {where}"
        )


def rope_arguments(
    config: Mapping[str, Any] | object,
    layer_type: str | None = None,
    layout: Layout | None = None,
) -> dict[str, Any]:
    """The keyword arguments of `RoPE` that a published configuration describes.

    Args:
        config: The contents of config.json, or an object with the same attributes.
        layer_type: Which rotation, if the configuration has one for each type of layer.
        layout: The layout of the weights; default: that of transformers for this model
            type.

    Returns:
        head_dim, base, rotary_dim, layout, and where they differ from RoPE's defaults
        freq and attention_factor.

    Raises:
        ValueError: If a key is missing, or a rope type or parameter is not known.

    Example:
        >>> rope_arguments({"hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 1e6})
        {'head_dim': 128, 'base': 1000000.0, 'rotary_dim': 128, 'layout': 'half'}
    """
    parameters = _parameters(config, layer_type)
    rope_type, base = parameters["rope_type"], parameters["rope_theta"]
    head_dim = _head_dim(config, layer_type)
    rotary_dim = parameters.get("rotary_dim") or int(head_dim * parameters.get("partial_rotary_factor", 1))
    if rope_type == "proportional":  # the other channels have frequency 0
        rotary_dim = head_dim
    require_rotary_dim(rotary_dim, head_dim)
    arguments = {"head_dim": head_dim, "base": base, "rotary_dim": rotary_dim}
    arguments["layout"] = layout or _layout(config)
    if rope_type != "default":
        # Float64 until the frequencies are final, so that no ramp begins one pair too late.
        freq = frequencies(rotary_dim, base, dtype=torch.float64, device="cpu")
        scaled, attention_factor = ROPE_TYPES[rope_type](freq, parameters)
        arguments["freq"] = scaled.float() if isinstance(scaled, Tensor) else scaled
        arguments["attention_factor"] = attention_factor
    return arguments


# The rope types: from frequencies (rotary_dim/2,) and rope parameters to what RoPE takes


def _linear(freq: Tensor, parameters: Parameters) -> Scaled:
    return interpolate(freq, parameters["factor"]), 1.0


def _dynamic(freq: Tensor, parameters: Parameters) -> Scaled:
    trained, factor = parameters["max_position_embeddings"], parameters["factor"]
    return partial(dynamic_ntk, freq.float(), trained=trained, factor=factor), 1.0


def _yarn(freq: Tensor, parameters: Parameters) -> Scaled:
    trained, factor = parameters["original_max_position_embeddings"], _factor(parameters)
    scaled = yarn(
        freq, factor, trained, form="code",
        beta_fast=parameters.get("beta_fast", 32), beta_slow=parameters.get("beta_slow", 1),
        truncate=parameters.get("truncate", True),
    )  # fmt: skip
    if "attention_factor" in parameters:
        return scaled, parameters["attention_factor"]
    above, below = parameters.get("mscale"), parameters.get("mscale_all_dim")
    if above and below:  # the model multiplies its scores by the square of what is divided by
        return scaled, yarn_attention_factor(factor, above) / yarn_attention_factor(factor, below)
    return scaled, yarn_attention_factor(factor)


def _longrope(freq: Tensor, parameters: Parameters) -> Scaled:
    trained = parameters["original_max_position_embeddings"]
    short, long = parameters["short_factor"], parameters["long_factor"]
    scaled = partial(longrope, freq.float(), short=short, long=long, trained=trained)
    if "attention_factor" in parameters:
        return scaled, parameters["attention_factor"]
    return scaled, longrope_attention_factor(max(_factor(parameters), 1.0), trained)


def _llama3(freq: Tensor, parameters: Parameters) -> Scaled:
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    trained = parameters["original_max_position_embeddings"]
    return llama3(freq, parameters["factor"], low, high, trained), 1.0


def _proportional(freq: Tensor, parameters: Parameters) -> Scaled:
    scaled = p_rope(freq, parameters.get("partial_rotary_factor", 1.0))
    return interpolate(scaled, parameters.get("factor", 1.0)), 1.0


def _factor(parameters: Parameters) -> float:
    """How many times longer texts become, as given or from the two lengths."""
    if "factor" in parameters:
        return float(parameters["factor"])
    return float(parameters["max_position_embeddings"] / parameters["original_max_position_embeddings"])


ROPE_TYPES: dict[str, Callable[[Tensor, Parameters], Scaled]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


# What a configuration says, in its several forms


def _read(config: Mapping[str, Any] | object, *names: str) -> Any:
    """The first of these keys or attributes that the configuration has."""
    for name in names:
        found = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if found is not None:
            return found
    return None


def _parameters(config: Mapping[str, Any] | object, layer_type: str | None) -> Parameters:
    """The rope parameters of the layers that are meant, completed by keys beside them."""
    forms = _forms(config)
    if layer_type not in forms:
        choices = ", ".join(repr(name) for name in forms if name)
        raise ValueError(
            f"layer_type is {layer_type!r}, and the configuration has "
            + (f"rotations for {choices}: use one of these" if choices else "one rotation for all layers: leave it out")
        )
    own = forms[layer_type]
    if own is None:
        raise ValueError(f"layers of type {layer_type!r} do not rotate: use NoPE() for them")
    beside = {
        "rope_theta": _read(config, "rope_theta", "rotary_emb_base", "default_theta"),
        "partial_rotary_factor": _read(config, "partial_rotary_factor", "rotary_pct"),
        "max_position_embeddings": _read(config, "max_position_embeddings"),
        "rotary_dim": _read(config, "rotary_dim"),
    }
    given = {name: value for name, value in own.items() if value is not None}
    _check_known(given)
    found = Parameters({name: value for name, value in beside.items() if value is not None} | given)
    rope_type = given.get("rope_type") or given.get("type") or "default"
    if rope_type in ("su", "yarn") and "short_factor" in given:
        rope_type = "longrope"  # as the first configurations of Phi-3 called it
    _check_rope_type(rope_type)
    found["rope_type"] = rope_type
    trained = _read(config, "original_max_position_embeddings")  # Phi-3 has it here, and it counts
    if trained is not None and layer_type is None:
        found["original_max_position_embeddings"] = trained
    elif "max_position_embeddings" in found:
        found.setdefault("original_max_position_embeddings", found["max_position_embeddings"])
    return found


def _forms(config: Mapping[str, Any] | object) -> dict[str | None, Mapping[str, Any] | None]:
    """The rope parameters by type of layer; by None, if all layers share them."""
    own = _read(config, "rope_parameters") or _read(config, "rope_scaling") or {}
    nested = {name: value for name, value in own.items() if isinstance(value, Mapping)}
    if nested:
        return {**nested, **{name: None for name, value in own.items() if value is None}}
    local = _read(config, "rope_local_base_freq")  # Gemma 3: only the full layers are scaled
    if local is not None:
        return {"full_attention": own, "sliding_attention": {"rope_theta": local}}
    local = _read(config, "local_rope_theta")  # ModernBERT: all layers are
    if local is not None:
        full = {"rope_theta": _read(config, "global_rope_theta")}
        return {"full_attention": {**own, **full}, "sliding_attention": {**own, "rope_theta": local}}
    return {None: own}


def _head_dim(config: Mapping[str, Any] | object, layer_type: str | None) -> int:
    """The channels of a head that carry position. They may depend on the type of layer."""
    if layer_type is not None:
        config = _layer_config(config, layer_type)
    found = _read(config, "qk_rope_head_dim", "head_dim")
    if layer_type == "full_attention":
        found = _read(config, "global_head_dim") or found  # Gemma 4
    if found is None:
        width, heads = _read(config, "hidden_size"), _read(config, "num_attention_heads")
        if width is None or heads is None:
            inner = _read(config, "text_config") is not None
            remedy = "pass its text_config" if inner else "add head_dim, or hidden_size and num_attention_heads"
            raise ValueError(f"the configuration does not say how many channels a head has: {remedy}")
        found = width // heads
    return int(found)


def _layer_config(config: Mapping[str, Any] | object, layer_type: str) -> Mapping[str, Any] | object:
    """The configuration of one type of layer, where transformers keeps sizes for each layer."""
    if not isinstance(config, Mapping):
        try:
            return config.per_layer_config[layer_type]  # type: ignore[attr-defined]
        except (AttributeError, KeyError, TypeError, ValueError):
            return config
    sizes, types = config.get("per_layer_config"), list(config.get("layer_types") or ())
    if not sizes or layer_type not in types:
        return config
    of_layer = {int(layer): changed for layer, changed in sizes.items()}
    return {**config, **of_layer.get(types.index(layer_type), {})}


def _layout(config: Mapping[str, Any] | object) -> Layout:
    """How the code of transformers pairs channels for this model."""
    own = _read(config, "rope_interleave")
    if own is None:
        own = _read(config, "model_type") in INTERLEAVED
    return "interleaved" if own else "half"


def _check_known(given: Mapping[str, Any]) -> None:
    """All rope parameters are understood, so that none is ignored silently."""
    if "mrope_section" in given:
        raise ValueError(
            f"mrope_section shares the frequencies out to three axes, which RoPE does not have: use "
            f"posenc.grid.MRoPE(head_dim, {given['mrope_section']}, base, …), or leave it out for text alone"
        )
    unknown = sorted(set(given) - PARAMETERS)
    if unknown:
        raise ValueError(
            f"rope parameter {unknown[0]!r} is not known: leave it out if the rotation does not depend on it, "
            f"or compute the frequencies and use RoPE(head_dim, freq=…)"
        )


def _check_rope_type(name: str) -> None:
    """A rope type is one of those of transformers."""
    if name != "default" and name not in ROPE_TYPES:
        axial = ", or posenc.grid.GridRoPE, for images" if name == "axial" else ""
        raise ValueError(
            f"rope_type is {name!r}: use 'default', {', '.join(map(repr, ROPE_TYPES))}{axial}, "
            f"or compute the frequencies and use RoPE(head_dim, freq=…)"
        )
