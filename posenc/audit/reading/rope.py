"""From the fields of a configuration to the rotation of each kind of layer, as transformers 5.23 reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.audit import tables
from posenc.audit.reading.fields import CONTEXT, Fields, number, whole
from posenc.audit.reading.layers import head_size, kind_of
from posenc.audit.reading.rotation import NEEDED, SCALINGS, Rotation

RENAMED = {"su": "longrope", "mrope": "default"}
"""Rope types of earlier versions."""


def own(fields: Fields) -> Mapping[str, Any]:
    """The rope parameters that count: `rope_scaling` if it holds anything, else `rope_parameters`."""
    return fields.table("rope_scaling") or fields.table("rope_parameters")


def sets(fields: Fields) -> dict[str, Mapping[str, Any] | None]:
    """The rope parameters by kind of layer; by "" if all layers share them; None where a kind does not rotate."""
    found = own(fields)
    nested = {key: value for key, value in found.items() if isinstance(value, Mapping)}
    if nested:
        return {**nested, **{key: None for key, value in found.items() if value is None}}
    by_layer = tables.BY_LAYER.get(fields.model_type)
    if by_layer is None and fields.get("rope_local_base_freq") is not None:
        by_layer = tables.BY_LAYER["gemma3_text"]
    if by_layer is not None:
        scaled = tables.SCALED_LAYERS.get(fields.model_type, ("full_attention",))
        return {
            kind: {**(found if kind in scaled else {}), "rope_theta": fields.number(field) or base}
            for kind, (field, base) in by_layer.items()
        }
    if bases := fields.sequence("layer_rope_theta"):  # 0 for a layer that does not rotate
        return {f"layer {layer}": {**found, "rope_theta": base} if base else None for layer, base in enumerate(bases)}
    return {"": found}


def rope_type(parameters: Mapping[str, Any]) -> str:
    """The rope type of one set of parameters. `rope_type` counts before `type`."""
    found = parameters.get("rope_type") or parameters.get("type") or "default"
    if found in ("su", "yarn") and "short_factor" in parameters:
        return "longrope"  # as the first configurations of Phi-3 called it
    return RENAMED.get(found, found) if isinstance(found, str) else str(found)


def base(fields: Fields, parameters: Mapping[str, Any]) -> tuple[float, str]:
    """The base of one set of parameters, and where it stands: "" if the model type's default counts."""
    found = number(parameters.get("rope_theta"), "rope_theta", fields.source)
    if found is not None:
        return found, "rope_parameters"
    beside = fields.name("rope_theta", "rotary_emb_base")
    if beside:
        return fields.number(beside) or 0.0, beside
    return tables.BASES.get(fields.model_type, 10_000.0), ""


def share(fields: Fields, parameters: Mapping[str, Any], head_dim: int) -> tuple[float, str]:
    """The share of a head that rotates, and the field that says so: "" if the model type's default counts."""
    found = number(parameters.get("partial_rotary_factor"), "partial_rotary_factor", fields.source)
    if found is not None:
        return found, "partial_rotary_factor"
    field = fields.name("partial_rotary_factor", "rotary_pct")
    if field:
        return fields.number(field) or 0.0, field
    if fields.get("rotary_dim") is not None and reads_rotary_dim(fields):
        return (fields.whole("rotary_dim") or 0) / head_dim, "rotary_dim"
    return tables.ROTATED.get(fields.model_type, 1.0), ""


def reads_rotary_dim(fields: Fields) -> bool:
    """Whether `rotary_dim` counts: for three classes of transformers, and for code that is not part of it."""
    return fields.model_type in tables.READ_ROTARY_DIM or fields.model_type not in tables.TYPES_OF_5_23


def rotation(
    fields: Fields, kind: str, parameters: Mapping[str, Any], nested: bool, trained: int | None
) -> Rotation | None:
    """The rotation of one kind of layer, or None if the configuration does not say how many channels a head has.

    Raises:
        ValueError: If the rope type is not known, lacks a parameter, or a parameter is not what it should be.
    """
    name, source = rope_type(parameters), fields.source
    if name not in SCALINGS:
        known = ", ".join(map(repr, SCALINGS))
        raise ValueError(f"rope_type in {source} is {name!r}, but transformers {tables.TRANSFORMERS} knows {known}")
    head_dim = fields.whole("qk_rope_head_dim", least=0)
    latent = head_dim is not None  # keys of position have channels of their own, and all of them rotate
    if head_dim is None:
        head_dim = head_size(fields, kind_of(kind) if kind else "any")
    if not head_dim:
        return None
    theta, _ = base(fields, parameters)
    if theta <= 1:
        raise ValueError(f"rope_theta in {source} is {theta}: write a base above 1, such as 10000.0")
    context = fields.whole(*CONTEXT)
    read = _read(fields, name, parameters, nested, context)
    part = 1.0 if latent or name == "proportional" else share(fields, parameters, head_dim)[0]
    if not 0 < part <= 1:
        raise ValueError(f"{part:g} of a head's channels would rotate by {source}: write a share above 0 and up to 1")
    found = Rotation(kind, head_dim, int(round(head_dim * part, 6)), theta, name, {**read, "rope_theta": theta})
    _check(found, source)
    return Rotation(
        kind,
        head_dim,
        found.dims,
        theta,
        name,
        found.parameters,
        trained or _trained(fields, name, read, context),
        context,
        beside=max((head_size(fields, kind_of(kind) if kind else "any") or head_dim) - head_dim, 0) if latent else 0,
    )


def _read(
    fields: Fields, name: str, parameters: Mapping[str, Any], nested: bool, context: int | None
) -> dict[str, Any]:
    """The parameters with what transformers fills in: lengths, and a factor that follows from them."""
    read = {key: value for key, value in parameters.items() if value is not None}
    for key in ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "low_freq_factor"):
        number(read.get(key), key, fields.source)
    number(read.get("high_freq_factor"), "high_freq_factor", fields.source)
    outer = fields.whole("original_max_position_embeddings")
    if outer is not None and not nested:
        read["original_max_position_embeddings"] = outer  # Phi-3 has it there, and it counts before the inner one
    elif name in ("yarn", "longrope", "llama3") and context is not None:
        read.setdefault("original_max_position_embeddings", context)
    before = whole(read.get("original_max_position_embeddings"), "original_max_position_embeddings", fields.source)
    if name in ("yarn", "longrope") and "factor" not in read and context and before:
        read["factor"] = context / before
    if name == "dynamic" and context is not None:
        read["max_position_embeddings"] = context
    if name == "proportional":
        read["partial_rotary_factor"] = share(fields, parameters, 1)[0]
    if nested:
        read.pop("truncate", None)  # transformers looks for it beside the kinds of layers
    if fields.model_type == "deepseek_v4" and name == "yarn":
        read["attention_factor"] = 1.0
    for key in NEEDED[name]:
        if key not in read:
            where = fields.source if key == "max_position_embeddings" else f"the rope parameters of {fields.source}"
            raise ValueError(f"rope_type {name!r} needs {key}: add it to {where}")
    return read


def _trained(fields: Fields, name: str, read: Mapping[str, Any], context: int | None) -> int | None:
    """The length of texts before scaling. "linear" does not say it, so it is not guessed."""
    before = whole(read.get("original_max_position_embeddings"), "original_max_position_embeddings", fields.source)
    return before or (None if name == "linear" else context)


def _check(found: Rotation, source: str) -> None:
    """Parameters that would make frequencies meaningless."""
    read = found.parameters
    if "factor" in read and found.rope_type != "default" and not read["factor"] > 0:
        raise ValueError(
            f"factor in {source} is {read['factor']}: write how many times longer texts become, such as 8.0"
        )
    for key in ("short_factor", "long_factor") if found.rope_type == "longrope" else ():
        value = read[key]
        numbers = isinstance(value, list | tuple) and all(
            isinstance(each, int | float) and not isinstance(each, bool) and each > 0 for each in value
        )
        if not numbers or len(value) != found.planes:
            size = len(value) if isinstance(value, list | tuple) else repr(value)
            raise ValueError(
                f"{key} in {source} has {size} entries for {found.planes} planes that rotate: write a positive divisor "
                f"for each"
            )
