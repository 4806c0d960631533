"""From a published configuration to the arguments of RoPE: `RoPE.from_config` asks here.

`posenc.configs` reads the configuration, as it does for the audit. Here its rope types
become frequencies, or functions of the length, with the functions of `posenc.schemes.scaling`.
The rope types and their rules are those of transformers, modeling_rope_utils.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc._require import require_rotary_dim
from posenc.configs import Reading, Rotation, read_config
from posenc.configs.tables import INTERLEAVED as INTERLEAVED
from posenc.schemes.layout import Layout
from posenc.schemes.scaling import (
    dynamic_ntk,
    interpolate,
    llama3,
    longrope,
    p_rope,
    yarn,
)
from posenc.schemes.sinusoidal import frequencies

Parameters = Mapping[str, Any]
"""Rope parameters by name, as they were read: those that a rope type needs are there."""

Scaled = Tensor | Callable[[Tensor], Tensor]
"""Frequencies, or a function of the length that returns them."""


def rope_arguments(
    config: Mapping[str, Any] | object,
    layer_type: str | None = None,
    layer: int | None = None,
    layout: Layout | None = None,
) -> dict[str, Any]:
    """The keyword arguments of `RoPE` that a published configuration describes.

    Args:
        config: The contents of config.json, its path, or an object with the same
            attributes.
        layer_type: Which rotation, if the layers of the model differ.
        layer: The number of a layer, from 0, in place of its type.
        layout: The layout of the weights; default: that of transformers for this model
            type.

    Returns:
        head_dim, base, rotary_dim, layout, and where they differ from RoPE's defaults
        freq and attention_factor.

    Raises:
        ValueError: If a key is missing, a rope type or parameter is not known, the
            layers that are meant do not rotate, or layers differ and none is named.

    Example:
        >>> rope_arguments({"hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 1e6})
        {'head_dim': 128, 'base': 1000000.0, 'rotary_dim': 128, 'layout': 'half'}
    """
    reading = read_config(config)
    _check_understood(reading)
    rotation = reading.rotation(layer_type, layer=layer)
    _check_base(reading, rotation)
    rotary_dim, base = rotation.dims, rotation.base
    require_rotary_dim(rotary_dim, rotation.head_dim)
    arguments: dict[str, Any] = {
        "head_dim": rotation.head_dim,
        "base": base,
        "rotary_dim": rotary_dim,
    }
    arguments["layout"] = layout or reading.layout
    if rotation.rope_type != "default":
        # Float64 until the frequencies are final, so that no ramp begins one pair too late.
        freq = frequencies(rotary_dim, base, dtype=torch.float64, device="cpu")
        scaled = ROPE_TYPES[rotation.rope_type](freq, rotation.parameters)
        arguments["freq"] = scaled.float() if isinstance(scaled, Tensor) else scaled
        arguments["attention_factor"] = rotation.attention_factor
    return arguments


# The rope types: from frequencies (rotary_dim/2,) and rope parameters to what RoPE takes


def _linear(freq: Tensor, parameters: Parameters) -> Scaled:
    return interpolate(freq, parameters["factor"])


def _dynamic(freq: Tensor, parameters: Parameters) -> Scaled:
    trained, factor = parameters["max_position_embeddings"], parameters["factor"]
    return partial(dynamic_ntk, freq.float(), trained=trained, factor=factor)


def _yarn(freq: Tensor, parameters: Parameters) -> Scaled:
    return yarn(
        freq,
        parameters["factor"],
        parameters["original_max_position_embeddings"],
        form="code",
        beta_fast=parameters.get("beta_fast") or 32,
        beta_slow=parameters.get("beta_slow") or 1,
        truncate=bool(parameters.get("truncate", True)),
    )


def _longrope(freq: Tensor, parameters: Parameters) -> Scaled:
    trained = parameters["original_max_position_embeddings"]
    short, long = parameters["short_factor"], parameters["long_factor"]
    return partial(longrope, freq.float(), short=short, long=long, trained=trained)


def _llama3(freq: Tensor, parameters: Parameters) -> Scaled:
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    factor, trained = (
        parameters["factor"],
        parameters["original_max_position_embeddings"],
    )
    if low == high:  # no ramp: Llama 4 divides all planes below one turn
        turns = trained * freq / (2 * torch.pi)
        return torch.where(turns < low, interpolate(freq, factor), freq)
    return llama3(freq, factor, low, high, trained)


def _proportional(freq: Tensor, parameters: Parameters) -> Scaled:
    scaled = p_rope(freq, parameters.get("partial_rotary_factor", 1.0))
    return interpolate(scaled, parameters.get("factor", 1.0))


ROPE_TYPES: dict[str, Callable[[Tensor, Parameters], Scaled]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def _check_understood(reading: Reading) -> None:
    """All rope parameters are understood, so that none is ignored silently."""
    for remark in reading.warnings:
        if remark.name == "no-parameter":
            raise ValueError(
                f"{remark[:-1]}; or compute the frequencies and use RoPE(head_dim, freq=…)"
            )
        if remark.name == "no-kinds":
            raise ValueError(remark)


def _check_base(reading: Reading, rotation: Rotation) -> None:
    """The base is in the configuration, or it is known which one its class has."""
    if rotation.assumed:
        raise ValueError(
            f"rope_theta is missing, which rope_type {rotation.rope_type!r} needs: add rope_theta (10000.0 for most "
            f"models) to {reading.source}, or its model_type"
        )
