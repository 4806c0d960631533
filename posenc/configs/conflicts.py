"""Fields that contradict each other, or that nobody reads: one sentence each, with the remedy.

A remedy is a JSON merge patch for the file. Where the file does not say which of two fields is meant there are two.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posenc.configs import tables
from posenc.configs.fields import CONTEXT, HEAD_DIM, LAYERS, SHARE, WINDOW, Fields, number, whole
from posenc.configs.layers import Layer, head_size, key_heads, kind_of
from posenc.configs.parameters import own, own_name, place, reads_rotary_dim, rope_type, sets
from posenc.configs.remarks import UNKNOWN, Patch, Path, Remark, merged, patch, plain, shown
from posenc.configs.rotation import ALLOWED, ANYWHERE, NEEDED, Rotation
from posenc.configs.scheme import SAYS

OF_TYPES = {"llama_4_scaling_beta": tables.POSITION_SCALED, "max_position_embeddings": {"ministral3", "mistral4"}}
LABELS = {"deepseek_v4": {"main", "compress"}, "lfm3": {"full_attention", "sliding_attention"}}
ROPE_FIELDS = ("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_pct", "rotary_dim")
ORIGINAL = "original_max_position_embeddings"
MOST = 50
"""Warnings that are given; a file with more of them is no configuration."""


def conflicts(
    fields: Fields,
    scheme: str,
    layers: Sequence[Layer],
    rotations: Mapping[str, Rotation | None],
    trained: int | None = None,
) -> list[Remark]:
    """All warnings of one configuration.

    Args:
        fields: The configuration.
        scheme: Its scheme.
        layers: Its layers.
        rotations: Its rotations.
        trained: The length of texts before any scaling, if it is known.
    """
    remarks = list(_layers(fields, layers))
    if scheme == "rope":
        remarks += [*_beside(fields), *_nested(fields)]
        for name, parameters in sets(fields).items():
            if parameters is not None and not name.startswith("layer "):
                remarks += _set(fields, name, parameters)
                if (one := rotations.get(name)) is not None:
                    remarks += _numbers(fields, name, parameters, one, trained)
    else:
        remarks += _unread(fields, scheme)
    return [*dict.fromkeys([*remarks, *_classes(fields, scheme)])][:MOST]


def _length(value: float) -> int | float:
    """A length or factor without a needless point."""
    return int(value) if value == int(value) else value


def _beside(fields: Fields) -> Iterator[Remark]:
    """Fields beside the rope parameters that say the same thing differently."""
    new, old = fields.table("rope_parameters"), fields.table("rope_scaling")
    if new and old and fields.model_type not in tables.SCALED_LAYERS:
        yield Remark(
            "both-forms",
            "rope_scaling is read and rope_parameters beside it is not: move the fields of rope_scaling there, or "
            "leave it out.",
            merged(
                patch(fields.where("rope_scaling"), None), patch(fields.where("rope_parameters"), _instead(new, old))
            ),
            patch(fields.where("rope_scaling"), None),
        )
    inner, name = own(fields), fields.name("rope_theta", "rotary_emb_base")
    theta, beside = inner.get("rope_theta"), fields.number(name) if name else None
    if theta is not None and beside is not None and theta != beside:
        yield Remark(
            "two-bases",
            f"{name} is {beside:g} beside the rope parameters and {theta:g} in them, and the latter is used: write "
            "one of them.",
            patch(fields.where(name), None),
            merged(patch(place(fields, "", "rope_theta"), beside), patch(fields.where(name), None)),
        )
    yield from _parts(fields, inner)
    inside = whole(inner.get(ORIGINAL), place(fields, "", ORIGINAL), fields.source)
    outside = fields.whole(ORIGINAL)
    if inside is not None and outside is not None and inside != outside:
        yield Remark(
            "two-originals",
            f"{ORIGINAL} is {outside} beside the rope parameters and {inside} in them, and the former is used: write "
            "one of them.",
            patch(place(fields, "", ORIGINAL), None),
            patch(fields.where(ORIGINAL), None),
        )


def _instead(old: Mapping[str, Any], new: Mapping[str, Any]) -> Patch:
    """The patch that makes one object of another."""
    return {**{key: None for key in old if key not in new}, **new}


def _parts(fields: Fields, inner: Mapping[str, Any]) -> Iterator[Remark]:
    """The share of a head that rotates, said twice or where it is not read."""
    beside = fields.name("partial_rotary_factor", "rotary_pct")
    part = fields.number(beside) if beside else None
    at = fields.where(beside) if part else place(fields, "", "partial_rotary_factor")
    part = part or number(inner.get("partial_rotary_factor"), at, fields.source)
    dims = fields.whole("rotary_dim")
    if fields.get("qk_rope_head_dim") is not None:
        if part is not None and part != 1 and fields.model_type != "deepseek_v4":
            yield Remark(
                "latent-part",
                f"partial_rotary_factor is {part:g}, but qk_rope_head_dim, "
                f"{fields.whole('qk_rope_head_dim', least=0)}, already is the part that rotates: leave "
                "partial_rotary_factor out, so that nobody multiplies by it.",
                patch(at, None),
            )
    elif part is not None and dims is not None:
        head = head_size(fields, "any")
        if fields.name(*HEAD_DIM) and head and int(head * part) != dims:
            yield Remark(
                "two-parts",
                f"rotary_dim is {dims} and partial_rotary_factor {part:g} of {head} channels, {int(head * part)}; "
                f"transformers reads partial_rotary_factor: write one of them.",
                patch(fields.where("rotary_dim"), None),
                merged(patch(at, dims / head), patch(fields.where("rotary_dim"), None)),
            )
    elif dims is not None and not reads_rotary_dim(fields):
        head = head_size(fields, "any")
        yield Remark(
            "rotary-dim",
            f"rotary_dim is {dims}, but the class of {plain(fields.model_type, 80)!r} in transformers "
            f"{tables.TRANSFORMERS} does not read it and rotates all of a head: write partial_rotary_factor.",
            merged(
                patch(fields.where("partial_rotary_factor"), dims / head if head else UNKNOWN),
                patch(fields.where("rotary_dim"), None),
            ),
        )


def _nested(fields: Fields) -> Iterator[Remark]:
    """Rope parameters by kind of layer, whose names must be those of the layers."""
    named = {key: value for key, value in own(fields).items() if isinstance(value, Mapping)}
    kinds = set(map(str, fields.sequence("layer_types") or ())) | LABELS.get(fields.model_type, set())
    if named and kinds and not named.keys() & kinds:
        of = {kind_of(name): name for name in sorted(kinds)}
        renamed = {name: named[key] for key in named if (name := of.get(kind_of(str(key))))}
        yield Remark(
            "no-kinds",
            f"{own_name(fields)} has {shown(min(map(str, named)))}, but layer_types has "
            f"{', '.join(shown(name) for name in sorted(kinds)[:8])}: use the names of layer_types.",
            patch(place(fields, ""), {**dict.fromkeys(named), **renamed}),
        )


def _set(fields: Fields, set_name: str, parameters: Mapping[str, Any]) -> Iterator[Remark]:
    """The names in one set of rope parameters."""
    of, name = (f" of {set_name}" if set_name else ""), rope_type(parameters)
    old, new = parameters.get("type"), parameters.get("rope_type")
    if old is not None and new is not None and old != new:
        yield Remark(
            "two-types",
            f"type is {shown(old)} beside rope_type {shown(new)}{of}, and rope_type is used: leave type out.",
            patch(place(fields, set_name, "type"), None),
        )
    allowed = ANYWHERE | set(NEEDED[name]) | ALLOWED[name]
    for key in parameters:
        if key in allowed or fields.model_type in OF_TYPES.get(key, ()) or key == "finetuned":
            continue
        readers = [other for other in NEEDED if key in NEEDED[other] or key in ALLOWED[other]]
        if key == ORIGINAL and name in ("default", "linear", "dynamic", "proportional"):
            continue  # read here as the trained length, and harmless there
        away = patch(place(fields, set_name, str(key)), None)
        if readers:
            yield Remark(
                "other-rope-type",
                f"{key} is not read by rope_type {name!r}{of}, only by {', '.join(map(repr, readers))}: leave it out.",
                away,
            )
            continue
        near = difflib.get_close_matches(str(key), sorted(allowed), n=1, cutoff=0.92)
        meant = [alias for alias in near if parameters.get(alias) is None]
        yield Remark(
            "no-parameter",
            f"{plain(key, 80)}{of} is no rope parameter that transformers {tables.TRANSFORMERS} reads: "
            + (f"write {meant[0]}, or leave it out." if meant else "leave it out or correct its name."),
            *[merged(patch(place(fields, set_name, alias), parameters[key]), away) for alias in meant],
            away,
        )
    inside = parameters.get("truncate") if isinstance(own(fields).get(set_name), Mapping) and name == "yarn" else None
    if inside is not None and (not inside or own(fields).get("truncate") is not None):
        yield Remark(
            "truncate-inside",
            f"truncate{of} is not read inside a kind of layers, but beside the kinds: move it there.",
            merged(
                patch(place(fields, set_name, "truncate"), None), patch(place(fields, "", "truncate"), bool(inside))
            ),
        )


def _numbers(
    fields: Fields, set_name: str, parameters: Mapping[str, Any], rotation: Rotation, trained: int | None
) -> Iterator[Remark]:
    """The numbers of one set of rope parameters."""
    of, name, read = (f" of {set_name}" if set_name else ""), rotation.rope_type, rotation.parameters
    factor, before, context = read.get("factor"), read.get(ORIGINAL), rotation.context
    given = parameters.get("factor") is not None
    if name != "default" and given and factor is not None and factor < 1:
        yield Remark(
            "small-factor",
            f"factor is {factor:g}{of}, below 1, so positions move apart: write how many times longer texts become.",
            patch(place(fields, set_name, "factor")),
        )
    nested = isinstance(own(fields).get(set_name), Mapping)
    has_original = parameters.get(ORIGINAL) is not None or (fields.get(ORIGINAL) is not None and not nested)
    if name in ("yarn", "longrope", "llama3") and not has_original and context:
        yield _without_original(fields, set_name, of, name, factor if given else None, context, trained)
    elif name in ("yarn", "longrope") and given and factor is not None and factor >= 1 and before and context:
        yield from _ratio(fields, set_name, of, factor, before, context)
    if name == "yarn":
        yield from _yarn(fields, set_name, of, parameters, read)
    if name == "llama3" and read["low_freq_factor"] > read["high_freq_factor"]:
        yield Remark(
            "freq-factors",
            f"low_freq_factor is above high_freq_factor{of}: exchange them.",
            merged(
                patch(place(fields, set_name, "low_freq_factor"), read["high_freq_factor"]),
                patch(place(fields, set_name, "high_freq_factor"), read["low_freq_factor"]),
            ),
        )
    if name == "llama3" and has_original and context and before and before >= context:
        yield Remark(
            "llama3-original",
            f"{ORIGINAL} is {before}{of}, not below max_position_embeddings, {context}: write the length of texts "
            "before the scaling.",
            _original(fields, set_name),
        )
    if rotation.dims % 2:
        beside = fields.name(*SHARE, "rotary_dim")
        yield Remark(
            "odd", f"{rotation.dims} channels rotate{of}, an odd number: change partial_rotary_factor or head_dim.",
            patch(fields.where(beside) if beside else place(fields, set_name, "partial_rotary_factor")
                  if parameters.get("partial_rotary_factor") else fields.where(fields.name(*HEAD_DIM) or "head_dim")),
        )  # fmt: skip


def _original(fields: Fields, set_name: str, value: Any = UNKNOWN) -> Patch:
    """Writes the trained length where it counts."""
    inside = isinstance(own(fields).get(set_name), Mapping) or fields.get(ORIGINAL) is None
    return patch(place(fields, set_name, ORIGINAL) if inside else fields.where(ORIGINAL), value)


def _promised(fields: Fields) -> Path:
    """Where the length stands that the model promises."""
    return fields.where(fields.name(*CONTEXT))


def _without_original(
    fields: Fields, set_name: str, of: str, name: str, factor: float | None, context: int, trained: int | None
) -> Remark:
    """The length before scaling is missing, so the length that is promised is taken for it.

    Whoever raised `max_position_embeddings` and whoever did not leave the same file, so both readings are given.
    """
    start = f"{ORIGINAL}{of} is missing, so max_position_embeddings, {context}, is taken for the length before scaling"
    if trained is not None:
        return Remark("no-original", f"{start}: add {ORIGINAL}, {trained}.", _original(fields, set_name, trained))
    if factor is None or factor <= 1 or name == "llama3":
        return Remark("no-original", f"{start}: add {ORIGINAL}.", _original(fields, set_name))
    long = _length(context * factor)
    short = context / factor
    remedies: list[Patch] = [merged(_original(fields, set_name, context), patch(_promised(fields), long))]
    if short == int(short) and short >= 2:
        remedies.insert(0, _original(fields, set_name, int(short)))
        meant = (
            f"add {ORIGINAL}, {int(short)}, if {context} is the length after scaling; if it was trained, add {context}"
        )
    else:
        meant = f"add {ORIGINAL}; if {context} was trained, add that"
    return Remark("no-original", f"{start}: {meant}, and write max_position_embeddings {long}.", *remedies)


def _ratio(fields: Fields, set_name: str, of: str, factor: float, before: int, context: int) -> Iterator[Remark]:
    """The factor, and the two lengths that it should lie between."""
    ratio, long = context / before, _length(before * factor)
    if abs(ratio / factor - 1) <= 1e-6:
        return
    longer = patch(_promised(fields), long if isinstance(long, int) else round(long))
    if ratio == 1:
        yield Remark(
            "not-longer",
            f"factor is {factor:g}{of}, but max_position_embeddings still is the trained length, {context}: write "
            f"{long}, or servers cut texts there.",
            longer,
        )
        return
    smaller = [patch(place(fields, set_name, "factor"), ratio)] if ratio > 1 else []
    yield Remark(
        "no-ratio",
        f"factor is {factor:g}{of}, but max_position_embeddings / {ORIGINAL} is {context} / {before} = {ratio:g}, and "
        f"factor is used: write max_position_embeddings {long}" + (f", or factor {ratio:g}." if smaller else "."),
        longer,
        *smaller,
    )


def _yarn(
    fields: Fields, set_name: str, of: str, parameters: Mapping[str, Any], read: Mapping[str, Any]
) -> Iterator[Remark]:
    """The ramp and the temperature of YaRN."""
    fast, slow = read.get("beta_fast") or 32, read.get("beta_slow") or 1
    if fast < slow:
        yield Remark(
            "betas",
            f"beta_fast is {fast:g}{of}, below beta_slow, {slow:g}, but beta_fast is for planes that turn more often: "
            "exchange them.",
            merged(
                patch(place(fields, set_name, "beta_fast"), slow), patch(place(fields, set_name, "beta_slow"), fast)
            ),
        )
    above, below = read.get("mscale"), read.get("mscale_all_dim")
    both = [patch(place(fields, set_name, each), None) for each in ("mscale", "mscale_all_dim")]
    if parameters.get("attention_factor") is not None and (above or below):
        if fields.model_type not in tables.SCORES_TIMES_MSCALE or not below:
            yield Remark(
                "mscale-unread",
                f"attention_factor{of} is used, and mscale beside it is not: leave mscale and mscale_all_dim out.",
                merged(*both),
            )
    elif bool(above) != bool(below):
        there, missing = ("mscale", "mscale_all_dim") if above else ("mscale_all_dim", "mscale")
        yield Remark(
            "mscale-alone",
            f"{there} is given alone{of}, but cosines and sines need both: add the other, or leave it out.",
            patch(place(fields, set_name, there), None),
            patch(place(fields, set_name, missing)),
        )


def _layers(fields: Fields, layers: Sequence[Layer]) -> Iterator[Remark]:
    """Lists by layer, windows and heads."""
    count, name_of_count = fields.count(), fields.name(*LAYERS)
    for name in ("layer_types", "no_rope_layers", "layers_block_type", "layer_rope_theta", "hybrid_layer_pattern"):
        listed = fields.sequence(name)
        if listed and count and len(listed) != count:
            yield Remark(
                "list-length",
                f"{name} has {len(listed)} entries, but there are {count} layers: write one entry for each layer, or "
                f"{name_of_count} {len(listed)}.",
                patch(fields.where(name)),
                patch(fields.where(name_of_count), len(listed)),
            )
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str) and count and len(pattern) != count:
        yield Remark(
            "pattern-length",
            f"hybrid_override_pattern has {len(pattern)} letters, but there are {count} layers: write one for each, or "
            f"{name_of_count} {len(pattern)}.",
            patch(fields.where("hybrid_override_pattern")),
            patch(fields.where(name_of_count), len(pattern)),
        )
    for word in ("sliding", "chunked"):
        if any(layer.kind == word and layer.window is None for layer in layers) and fields.get(*WINDOW) is None:
            field = "sliding_window" if word == "sliding" else "attention_chunk_size"
            full = ["full_attention" if layer.kind == word else layer.name for layer in layers]
            named = fields.name("layer_types", "layers_block_type", "attention_layers")
            yield Remark(
                "no-window",
                f"there are {word} layers, but no {field}: add it, or make them full.",
                patch(fields.where(field)),
                *[patch(fields.where(named), full)] * bool(named),
            )
    if fields.get("use_sliding_window") is True and fields.get("sliding_window") is None:
        yield Remark(
            "no-sliding-window",
            "use_sliding_window is true, but sliding_window is missing: add its length, or set it to false.",
            patch(fields.where("sliding_window")),
            patch(fields.where("use_sliding_window"), False),
        )
    heads, keys = fields.heads(), key_heads(fields)
    if heads and keys and heads % keys:
        yield Remark(
            "key-heads",
            f"{heads} heads cannot share {keys} heads of keys evenly: correct num_key_value_heads.",
            patch(fields.where("num_key_value_heads")),
        )


def _unread(fields: Fields, scheme: str) -> Iterator[Remark]:
    """Rope fields of a model that does not rotate."""
    given = [name for name in ROPE_FIELDS if fields.get(name)]
    switch = any(name in fields.all for name in (*SAYS, "use_mem_rope"))  # which may turn the rotation on again
    if not given or switch or scheme == "unknown":
        return
    why = "alibi is true" if scheme == "alibi" else "the model does not rotate"
    single = len(given) == 1
    yield Remark(
        "no-rotation",
        f"{' and '.join(given)} {'is' if single else 'are'} not read, because {why}: leave "
        f"{'it' if single else 'them'} out.",
        merged(*[patch(fields.where(name), None) for name in given]),
    )


def _classes(fields: Fields, scheme: str) -> Iterator[Remark]:
    """What classes of transformers store and do not read."""
    version, model_type, field = tables.TRANSFORMERS, fields.model_type, fields.name(*SAYS)
    if field and model_type in tables.LEARNED - tables.READS_POSITION_TYPE and scheme != "learned":
        yield Remark(
            "position-type",
            f"{field} is {shown(fields.get(field))}, but the class of {model_type!r} in transformers {version} does "
            "not read it and adds a table: load the model with its own code, or with a version that reads it.",
        )
    attention = fields.all.get("attn_config")
    if not isinstance(attention, Mapping):
        return
    if model_type == "dbrx" and attention.get("rope_theta") is not None:
        theta = number(attention["rope_theta"], fields.where("attn_config", "rope_theta"), fields.source) or 0.0
        inner = own(fields).get("rope_theta")
        if inner != theta:
            yield Remark(
                "dbrx-base",
                f"attn_config.rope_theta is {theta:g}, but transformers {version} rotates with {inner or 10_000:g}: "
                f'add rope_parameters {{"rope_type": "default", "rope_theta": {theta:g}}}.',
                patch(fields.where("rope_parameters"), {"rope_type": "default", "rope_theta": theta}),
            )
    if model_type == "mpt":
        for name, usual in (("alibi", True), ("alibi_bias_max", 8)):
            if attention.get(name, usual) != usual:
                yield Remark(
                    "mpt-unread",
                    f"attn_config.{name} is {shown(attention[name])}, but transformers {version} does not read it and "
                    f"uses {usual}: load the model with its own code.",
                )
