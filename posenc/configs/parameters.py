"""From the fields of a configuration to the rotation of each kind of layer, as transformers 5.23 reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc.configs import tables
from posenc.configs.fields import BASE, MOST_CHANNELS, SHARE, Fields, number, whole
from posenc.configs.layers import head_size, kind_of
from posenc.configs.remarks import Path, Unreadable, dotted, merged, patch, plain, shown
from posenc.configs.rotation import ALLOWED, ANYWHERE, NEEDED, SCALINGS, Rotation

RENAMED = {"su": "longrope", "mrope": "default"}
"""Rope types of earlier versions."""

READ = ANYWHERE.union(*NEEDED.values(), *ALLOWED.values())
"""Rope parameters that any rope type reads, which are no kinds of layers."""

MOST_ROTATIONS = 256
"""Different rotations in one configuration, beyond which it is refused."""

NUMBERS = (
    "factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "low_freq_factor",
    "high_freq_factor", "partial_rotary_factor", "rope_theta",
)  # fmt: skip
"""Rope parameters that are numbers."""

POSITIVE = {"attention_factor": 1e6, "low_freq_factor": 1e6, "high_freq_factor": 1e6}
NOT_NEGATIVE = {"beta_fast": 1e6, "beta_slow": 1e6, "mscale": 1e3, "mscale_all_dim": 1e3}
"""Rope parameters that would make frequencies meaningless beyond a range, with its end."""


def own(fields: Fields) -> Mapping[str, Any]:
    """The rope parameters that count: `rope_scaling` if it holds anything, else `rope_parameters`."""
    return fields.table("rope_scaling") or fields.table("rope_parameters")


def own_name(fields: Fields) -> str:
    """Which field `own` reads."""
    return "rope_scaling" if fields.table("rope_scaling") else "rope_parameters"


def sets(fields: Fields) -> dict[str, Mapping[str, Any] | None]:
    """The rope parameters by kind of layer; by "" if all layers share them; None where a kind does not rotate."""
    given = own(fields)
    nested = {plain(key, 80): value for key, value in given.items() if isinstance(value, Mapping)}
    if nested:
        _few(fields, own_name(fields), len(nested))
        still = {plain(key, 80): None for key, value in given.items() if value is None and key not in READ}
        return {**nested, **still}
    if (by_layer := bases_by_layer(fields)) is not None:
        scaled = tables.SCALED_LAYERS.get(fields.model_type, ("full_attention",))
        return {
            kind: {**(given if kind in scaled else {}), "rope_theta": fields.number(field) or base}
            for kind, (field, base) in by_layer.items()
        }
    if listed := fields.sequence("layer_rope_theta"):  # 0 for a layer that does not rotate
        where = [fields.where("layer_rope_theta", f"[{n}]") for n in range(len(listed))]
        bases = [number(each, at, fields.source) for each, at in zip(listed, where, strict=True)]
        _few(fields, "layer_rope_theta", len(set(bases)))
        each_set = {base: {**given, "rope_theta": base} if base else None for base in bases}
        return {f"layer {layer}": each_set[base] for layer, base in enumerate(bases)}
    return {"": given}


def bases_by_layer(fields: Fields) -> Mapping[str, tuple[str, float]] | None:
    """Where each kind of layer has its base, and the base without one; None if all layers share theirs."""
    fields_by_kind = tables.BY_LAYER.get(fields.model_type)
    if fields_by_kind is None and fields.get("rope_local_base_freq") is not None:
        fields_by_kind = tables.BY_LAYER["gemma3_text"]
    if fields_by_kind is None and fields.get("local_rope_theta") is not None:
        fields_by_kind = tables.BY_LAYER["modernbert-decoder"]
    return fields_by_kind


def _few(fields: Fields, name: str, count: int) -> None:
    if count > MOST_ROTATIONS:
        raise Unreadable(
            "many-rotations",
            f"{fields.at(name)} has {count} rotations, but no more than {MOST_ROTATIONS} are read: write one for each "
            f"kind of layer",
            patch(fields.where(name), None),
        )


def place(fields: Fields, kind: str, *names: str) -> Path:
    """Where the rope parameters of a kind of layer stand in the file."""
    given, where = own(fields), own_name(fields)
    if isinstance(given.get(kind), Mapping):
        return fields.where(where, kind, *names)
    return fields.where(where, *names)


def _place_of_base(fields: Fields, kind: str) -> Path:
    """Where the base of a kind of layer stands."""
    if kind.startswith("layer "):
        return fields.where("layer_rope_theta", f"[{kind.removeprefix('layer ')}]")
    if (by_layer := bases_by_layer(fields)) is not None and kind in by_layer and not own(fields).get(kind):
        return fields.where(by_layer[kind][0])
    return place(fields, kind, "rope_theta")


def rope_type(parameters: Mapping[str, Any]) -> str:
    """The rope type of one set of parameters. `rope_type` counts before `type`."""
    name = parameters.get("rope_type") or parameters.get("type") or "default"
    if name in ("su", "yarn") and "short_factor" in parameters:
        return "longrope"  # as the first configurations of Phi-3 called it
    return RENAMED.get(name, name) if isinstance(name, str) else shown(name)


def base(fields: Fields, parameters: Mapping[str, Any], where: Path = ("rope_theta",)) -> tuple[float, str]:
    """The base of one set of parameters, and where it stands: "" if the model type's default counts."""
    theta = number(parameters.get("rope_theta"), where, fields.source)
    if theta is not None:
        return theta, "rope_parameters"
    beside = fields.name(*BASE)
    if beside:
        return fields.number(beside) or 0.0, beside
    return tables.BASES.get(fields.model_type, 10_000.0), ""


def share(
    fields: Fields, parameters: Mapping[str, Any], head_dim: int, where: Path = ("partial_rotary_factor",)
) -> tuple[float, str]:
    """The share of a head that rotates, and the field that says so: "" if the model type's default counts."""
    factor = number(parameters.get("partial_rotary_factor"), where, fields.source)
    if factor is not None:
        return factor, "partial_rotary_factor"
    field = fields.name(*SHARE)
    if field:
        return fields.number(field) or 0.0, field
    if fields.get("rotary_dim") is not None and reads_rotary_dim(fields):
        return (fields.whole("rotary_dim", most=MOST_CHANNELS) or 0) / head_dim, "rotary_dim"
    return tables.ROTATED.get(fields.model_type, 1.0), ""


def reads_rotary_dim(fields: Fields) -> bool:
    """Whether `rotary_dim` counts: for three classes of transformers, and for code that is not part of it."""
    return fields.model_type in tables.READ_ROTARY_DIM or fields.model_type not in tables.TYPES_OF_5_23


def rotations(fields: Fields, trained: int | None) -> list[tuple[str, Mapping[str, Any], Rotation | None]]:
    """Kinds of layers, their rope parameters, and their rotation, None for one that does not rotate.

    Empty if the configuration does not say how many channels a head has.
    """
    by_parameters: dict[int, Rotation | None] = {}  # layers with the same parameters share a rotation
    rows: list[tuple[str, Mapping[str, Any], Rotation | None]] = []
    for kind, parameters in sets(fields).items():
        if parameters is None:
            rows.append((kind, {}, None))
            continue
        if not kind.startswith("layer ") or id(parameters) not in by_parameters:
            by_parameters[id(parameters)] = rotation(fields, kind, parameters, trained)
        if by_parameters[id(parameters)] is None:
            return []
        rows.append((kind, parameters, by_parameters[id(parameters)]))
    return rows


def rotation(fields: Fields, kind: str, parameters: Mapping[str, Any], trained: int | None) -> Rotation | None:
    """The rotation of one kind of layer, or None if the configuration does not say how many channels a head has.

    Raises:
        ValueError: If the rope type is not known, lacks a parameter, or a parameter is not what it should be.
    """
    name, source = rope_type(parameters), fields.source
    nested = bool(kind) and not kind.startswith("layer ")
    if name not in SCALINGS:
        known = ", ".join(map(repr, SCALINGS))
        where = fields.where(own_name(fields)) if not nested else place(fields, kind)
        raise Unreadable(
            "no-rope-type",
            f"{fields.at(*where[len(fields.where()) :], 'rope_type')} is {shown(name)}, but transformers "
            f"{tables.TRANSFORMERS} knows {known}: write one of them"
            + (", or use posenc.schemes.grid.GridRoPE for images" if name == "axial" else ""),
            patch((*where, "rope_type")),
        )
    head_dim = fields.whole("qk_rope_head_dim", least=0, most=MOST_CHANNELS)
    latent = head_dim is not None  # keys of position have channels of their own, and all of them rotate
    if head_dim is None:
        head_dim = head_size(fields, kind_of(kind) if nested else "any")
    if not head_dim:
        return None
    theta, note = base(fields, parameters, place(fields, kind, "rope_theta"))
    if theta <= 1:
        where = _place_of_base(fields, kind) if note == "rope_parameters" else fields.where(note)
        raise Unreadable(
            "no-base",
            f"{dotted(where)} in {source} is {theta}: write a base above 1, such as 10000.0",
            patch(where, 10_000.0),
        )
    context = fields.context()
    read = _read(fields, kind, name, parameters, nested, context)
    part, partly = 1.0, "" if latent or name == "proportional" else "share"
    if partly:
        part, partly = share(fields, parameters, head_dim, place(fields, kind, "partial_rotary_factor"))
    said = partly or "partial_rotary_factor"
    where = fields.where(said) if parameters.get(said) is None else place(fields, kind, said)
    if not 0 < part <= 1:
        raise Unreadable(
            "no-share",
            f"{dotted(where)} in {source} is {part:g}: write the share of a head's channels that rotates, above 0 and "
            "up to 1",
            patch(where),
        )
    dims = int(round(head_dim * part, 6))
    if not dims:
        raise Unreadable(
            "no-channel",
            f"{dotted(where)} in {source} is {part:g} of {head_dim} channels, less than one: write a larger share",
            patch(where),
        )
    if name == "longrope":
        _check_divisors(fields, kind, read, dims)
    before = whole(read.get("original_max_position_embeddings"), "original_max_position_embeddings", source)
    return Rotation(
        kind=kind,
        head_dim=head_dim,
        dims=dims,
        base=theta,
        rope_type=name,
        parameters={**read, "rope_theta": theta},
        trained=trained or before or (None if name == "linear" else context),  # "linear" does not say it
        context=context,
        assumed=_assumed(fields, note),
        beside=max((head_size(fields, kind_of(kind) if kind else "any") or head_dim) - head_dim, 0) if latent else 0,
    )


def _assumed(fields: Fields, of_base: str) -> tuple[str, ...]:
    """What stands in no field, and in no class that is known either."""
    if fields.model_type in tables.TYPES_OF_5_23 or fields.model_type in tables.BESIDE_WEIGHTS:
        return ()
    return () if of_base else ("rope_theta",)


def _read(
    fields: Fields, kind: str, name: str, parameters: Mapping[str, Any], nested: bool, context: int | None
) -> dict[str, Any]:
    """The parameters that the rope type reads, with what transformers fills in: lengths, and a factor from them."""
    original = "original_max_position_embeddings"
    checked = {*NEEDED[name], *ALLOWED[name], *NUMBERS, original}  # below; the others are only kept
    read = {
        key: value
        for key, value in parameters.items()
        if value is not None and (key in checked or (key in ANYWHERE and _is_plain(value)))
    }
    unread = set(NUMBERS) - {*NEEDED[name], *ALLOWED[name], *ANYWHERE}
    for key in NUMBERS:
        number(read.get(key), place(fields, kind, key), fields.source)
    for key, most in {**POSITIVE, **NOT_NEGATIVE}.items():
        if key in read and (not 0 <= read[key] <= most or (key in POSITIVE and not read[key])):
            raise Unreadable(
                "out-of-range",
                f"{dotted(place(fields, kind, key))} in {fields.source} is {shown(read[key])}: write a number "
                f"{'above' if key in POSITIVE else 'from'} 0 and up to {most:g}, or leave it out",
                patch(place(fields, kind, key), None) if key not in NEEDED[name] else patch(place(fields, kind, key)),
            )
    if nested and isinstance(own(fields).get(kind), Mapping):  # transformers looks for it beside the kinds of layers
        read.pop("truncate", None)
        if name == "yarn" and own(fields).get("truncate") is not None:
            read["truncate"] = own(fields)["truncate"]
    if not isinstance(read.get("truncate", True), bool | int):
        raise Unreadable(
            "no-truncate",
            f"truncate in {fields.source} is {shown(read['truncate'])}: write true or false",
            patch(place(fields, kind, "truncate"), True),
        )
    for key in unread & set(read):
        del read[key]
    outer = fields.whole(original)
    if outer is not None and not nested:
        read[original] = outer  # Phi-3 has it there, and it counts before the inner one
    elif name in ("yarn", "longrope", "llama3") and context is not None:
        read.setdefault(original, context)
    least = 2 if name == "longrope" else 1  # its attention factor divides by the logarithm of the length
    before = whole(read.get(original), place(fields, kind, original), fields.source, least)
    if name in ("yarn", "longrope") and "factor" not in read and context and before:
        read["factor"] = context / before
    if name == "dynamic" and context is not None:
        read["max_position_embeddings"] = context
    if name == "proportional":
        read["partial_rotary_factor"] = share(fields, parameters, 1, place(fields, kind, "partial_rotary_factor"))[0]
        if not 0 <= read["partial_rotary_factor"] <= 1:
            raise Unreadable(
                "no-share",
                f"{read['partial_rotary_factor']:g} of a head's channels would rotate by {fields.source}: write a "
                f"partial_rotary_factor from 0 to 1",
                patch(place(fields, kind, "partial_rotary_factor")),
            )
    if fields.model_type == "deepseek_v4" and name == "yarn":
        read["attention_factor"] = 1.0
    _check_needed(fields, kind, name, read)
    if "factor" in read and name != "default" and not 1e-6 <= read["factor"] <= 1e9:
        raise Unreadable(
            "no-factor",
            f"{dotted(place(fields, kind, 'factor'))} in {fields.source} is {shown(read['factor'])}: write how many "
            f"times longer texts become, such as 8.0",
            patch(place(fields, kind, "factor")),
        )
    return read


def _is_plain(value: Any) -> bool:
    """Whether a parameter is a finite number, a word, or a list of them: what else there is, nobody reads."""
    if isinstance(value, list | tuple):
        flat = not any(isinstance(each, list | tuple) for each in value)
        return flat and len(value) <= MOST_CHANNELS and all(map(_is_plain, value))
    return isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value))


def _check_needed(fields: Fields, kind: str, name: str, read: Mapping[str, Any]) -> None:
    """All parameters are there that the rope type cannot do without."""
    original, promised = "original_max_position_embeddings", "max_position_embeddings"
    needed = [*NEEDED[name], *["factor"] * (name == "longrope" and "attention_factor" not in read)]
    missing = [key for key in needed if key not in read]
    if not missing:
        return
    where = {key: fields.where(key) if key == promised else place(fields, kind, key) for key in missing}
    remedies = [merged(*map(patch, where.values()))]
    if name in ("yarn", "longrope") and "factor" in missing:  # it follows from two lengths
        lengths = {key: at for key, at in where.items() if key != "factor"}
        lengths |= {promised: fields.where(promised), original: place(fields, kind, original)}
        remedies.append(merged(*map(patch, lengths.values())))
    single, at = len(missing) == 1, fields.source
    at = at if missing == [promised] else f"the rope parameters of {at}"
    raise Unreadable(
        "needs",
        f"{' and '.join(missing)} {'is' if single else 'are'} missing, which rope_type {name!r} needs: add "
        f"{missing[0] if single else 'them'} to {at}",
        *remedies,
    )


def _check_divisors(fields: Fields, kind: str, read: Mapping[str, Any], dims: int) -> None:
    """The divisors of "longrope", one for each plane."""
    planes = (dims + 1) // 2
    for key in ("short_factor", "long_factor"):
        value, where = read[key], place(fields, kind, key)
        numbers = isinstance(value, list | tuple) and all(
            isinstance(each, int | float) and not isinstance(each, bool) and 1e-6 <= each <= 1e9 for each in value
        )
        if not numbers or len(value) != planes:
            size = f"{len(value)} entries" if isinstance(value, list | tuple) else shown(value)
            raise Unreadable(
                "no-divisors",
                f"{dotted(where)} in {fields.source} has {size} for {planes} planes that rotate: write a positive "
                f"divisor for each",
                patch(where),
            )
