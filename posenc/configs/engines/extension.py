"""A longer context, written into a configuration that has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc.configs.engines.hub import transformers
from posenc.configs.engines.wanted import Wanted, wanted
from posenc.configs.fields import CONTEXT
from posenc.configs.remarks import apply, merged, patch, plain
from posenc.configs.rotation import ALLOWED, NEEDED

METHODS = ("linear", "ntk", "dynamic", "yarn", "llama3", "longrope")
ORIGINAL = "original_max_position_embeddings"
USUAL: dict[str, dict[str, float]] = {"llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0}}


def extended(
    config: Any, method: str, factor: float | None = None, *, trained: int | None = None, **parameters: Any
) -> dict[str, Any]:
    """A configuration for texts that are `factor` times as long as those of training.

    Layers with a window keep their frequencies, since they never see a far offset.

    Args:
        config: As `read_config` takes it, without a scaling of its own.
        method: "linear" (interpolation), "ntk" (a larger base), "dynamic", "yarn", "llama3" or "longrope".
        factor: How many times longer texts become, above 1.
        trained: The length of texts in training, in tokens. Default: the length that the file promises.
        parameters: Further rope parameters of the method, such as `beta_fast` for "yarn" or the lists `short_factor`
            and `long_factor` for "longrope".

    Returns:
        The fields as a new dict, in the form of transformers 5. `settings` writes them for other engines.

    Raises:
        FileNotFoundError, TypeError: As `read_config`.
        ValueError: If the file does not rotate or has a scaling already, if the method is not known, or if a parameter
            is not one of its own or not what it should be.

    Example:
        >>> from posenc.configs import published, read_config
        >>> qwen = extended(published()["Qwen/Qwen3-8B"]["config"], "yarn", 4.0, trained=32_768)
        >>> qwen["rope_parameters"]["factor"], qwen["max_position_embeddings"]
        (4.0, 131072)
        >>> read_config(qwen).at(131_072).new_planes[""]
        []

    References:
        Chen et al. (2023) for "linear", bloc97 (2023) for "ntk", emozilla (2023) for "dynamic", Peng et al. (2024) for
        "yarn", Ding et al. (2024) for "longrope".
    """
    model = wanted(config)
    if method not in METHODS:
        raise ValueError(f"method is {plain(method)!r}: use one of {', '.join(map(repr, METHODS))}")
    if factor is None or not isinstance(factor, int | float) or not 1 < factor < 1e6:
        raise ValueError(f"factor is {factor}: use how many times longer texts become, a number above 1 such as 4.0")
    length = trained if trained is not None else model.context
    if length is None:
        raise ValueError(f"{model.fields.source} does not say how long texts in training were: pass trained=…")
    if not isinstance(length, int) or isinstance(length, bool) or length < 2:
        raise ValueError(f"trained is {length}, but it is a length in tokens: use 2 or more")
    rope_type = "default" if method == "ntk" else method
    allowed = (set(NEEDED[rope_type]) | ALLOWED[rope_type]) - {"factor", ORIGINAL, "max_position_embeddings"}
    if method == "ntk":
        allowed = set()
    for name in parameters:
        if name not in allowed:
            raise ValueError(
                f"{plain(name)} is no parameter of {method!r}: "
                + (f"use {', '.join(sorted(allowed))}" if allowed else "leave it out")
            )
    own: dict[str, Any] = {"rope_type": rope_type, **USUAL.get(method, {}), **parameters}
    if method != "ntk":
        own["factor"] = factor
    if method in ("yarn", "llama3", "longrope"):
        own[ORIGINAL] = length
    return _written(model, own, method, float(factor), length)


def _written(model: Wanted, own: Mapping[str, Any], method: str, factor: float, length: int) -> dict[str, Any]:
    """The configuration with these parameters for all layers without a window."""
    kinds: dict[str, dict[str, Any] | None] = {}
    far = {kind for kind, one in model.reading.rotations.items() if one is not None and one.reach is None}
    if not far:
        raise ValueError(f"every layer of {model.fields.source} that rotates has a window: nothing sees a far offset")
    for kind, given in model.kinds.items():
        if given is None or kind not in far:
            kinds[kind] = given
            continue
        if given["rope_type"] not in ("default", "proportional") or given.get("factor", 1.0) != 1.0:
            raise ValueError(
                f"{model.fields.source} has a scaling already, rope_type {given['rope_type']!r}: take it away first "
                "if the weights were not trained with it, and leave it alone if they were"
            )
        if given["rope_type"] == "proportional":
            raise ValueError(
                f"rope_type 'proportional' of {model.fields.source} has no form with {method!r}: write its divisors "
                "as 'longrope' by hand"
            )
        dims = model.rotation(kind).dims
        kinds[kind] = {**given, **own}
        if method == "ntk":
            if dims <= 2:
                raise ValueError("'ntk' needs more than one plane, since the fastest stays as it is: use 'linear'")
            kinds[kind] = {**given, "rope_theta": given["rope_theta"] * factor ** (dims / (dims - 2))}
    promised = model.fields.name(*CONTEXT) or "max_position_embeddings"
    long = length if method == "dynamic" else math.floor(length * factor)
    fields = type(model.fields)(
        {**model.fields.all, promised: long}, model.fields.source, model.fields.outer, model.fields.part
    )
    change = transformers(Wanted(fields, model.reading, kinds)).patch or {}
    change = merged(change, patch(model.fields.where(promised), long))
    if model.fields.get(ORIGINAL) is not None:
        change = merged(change, patch(model.fields.where(ORIGINAL), length))
    out = apply(whole(model), change)
    wanted(out)  # raises where a parameter is not what it should be
    return out


def whole(model: Wanted) -> dict[str, Any]:
    """The file with its text part where it stands in it."""
    return dict(model.fields.outer) if model.fields.part else dict(model.fields.all)
