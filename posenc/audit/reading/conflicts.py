"""Fields that contradict each other, or that nobody reads: one sentence each, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posenc.audit import tables
from posenc.audit.reading.fields import HEADS, LAYERS, WINDOW, Fields
from posenc.audit.reading.layers import Layer, key_heads
from posenc.audit.reading.rope import own, reads_rotary_dim, rope_type, sets
from posenc.audit.reading.rotation import ALLOWED, ANYWHERE, NEEDED, Rotation

OF_TYPES = {"llama_4_scaling_beta": tables.POSITION_SCALED, "max_position_embeddings": {"ministral3", "mistral4"}}
LABELS = {"deepseek_v4": {"main", "compress"}, "lfm3": {"full_attention", "sliding_attention"}}
ROPE_FIELDS = ("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_pct", "rotary_dim")


def conflicts(
    fields: Fields, scheme: str, layers: Sequence[Layer], rotations: Mapping[str, Rotation | None]
) -> list[str]:
    """All warnings of one configuration."""
    found = list(_layers(fields, layers))
    if scheme == "rope":
        found += [*_beside(fields), *_nested(fields)]
        for kind, parameters in sets(fields).items():
            if parameters is not None and not kind.startswith("layer "):
                found += _set(fields, kind, parameters, rotations.get(kind))
    else:
        found += _unread(fields, scheme)
    return [*dict.fromkeys([*found, *_classes(fields)])]


def _beside(fields: Fields) -> Iterator[str]:
    """Fields beside the rope parameters that say the same thing differently."""
    new, old = fields.table("rope_parameters"), fields.table("rope_scaling")
    if new and old and fields.model_type not in tables.SCALED_LAYERS:
        yield "rope_scaling stands beside rope_parameters and is read in their place: keep rope_parameters alone."
    inner = own(fields)
    theta, beside = inner.get("rope_theta"), fields.get("rope_theta", "rotary_emb_base")
    if theta is not None and beside is not None and theta != beside:
        yield (
            f"rope_theta is {beside:g} beside the rope parameters and {theta:g} in them, and the latter counts: "
            f"write one of them."
        )
    part, dims = (
        fields.get("partial_rotary_factor", "rotary_pct") or inner.get("partial_rotary_factor"),
        fields.get("rotary_dim"),
    )
    if fields.get("qk_rope_head_dim") is not None:
        if part is not None and part != 1 and fields.model_type != "deepseek_v4":
            yield (
                f"partial_rotary_factor is {part:g}, but qk_rope_head_dim, {fields.get('qk_rope_head_dim')}, already "
                f"is the part that rotates: leave partial_rotary_factor out, so that nobody multiplies by it."
            )
    elif part is not None and dims is not None:
        head = fields.get("head_dim", "kv_channels")
        if head and int(head * part) != dims:
            yield (
                f"rotary_dim is {dims} and partial_rotary_factor {part:g} of {head} channels, {int(head * part)}; "
                f"transformers reads partial_rotary_factor: write one of them."
            )
    elif dims is not None and not reads_rotary_dim(fields):
        yield (
            f"rotary_dim is {dims}, but the class of {fields.model_type!r} in transformers {tables.TRANSFORMERS} does "
            f"not read it and rotates all of a head: write partial_rotary_factor."
        )
    inside, outside = inner.get("original_max_position_embeddings"), fields.get("original_max_position_embeddings")
    if inside is not None and outside is not None and inside != outside:
        yield (
            f"original_max_position_embeddings is {outside} beside the rope parameters and {inside} in them, and the "
            f"former counts: write one of them."
        )


def _nested(fields: Fields) -> Iterator[str]:
    """Rope parameters by kind of layer, whose names must be those of the layers."""
    named = {key for key, value in own(fields).items() if isinstance(value, Mapping)}
    kinds = set(map(str, fields.sequence("layer_types") or ())) | LABELS.get(fields.model_type, set())
    if named and kinds and not named & kinds:
        yield (
            f"rope_parameters has {min(named)!r}, but layer_types has {', '.join(map(repr, sorted(kinds)))}: use the "
            f"names of layer_types."
        )


def _set(fields: Fields, kind: str, parameters: Mapping[str, Any], rotation: Rotation | None) -> Iterator[str]:
    """One set of rope parameters."""
    of, name = (f" of {kind}" if kind else ""), rope_type(parameters)
    old, new = parameters.get("type"), parameters.get("rope_type")
    if old is not None and new is not None and old != new:
        yield f"type is {old!r} beside rope_type {new!r}{of}, and rope_type counts: leave type out."
    allowed = ANYWHERE | set(NEEDED[name]) | ALLOWED[name]
    for key in parameters:
        if key in allowed or fields.model_type in OF_TYPES.get(key, ()) or key == "finetuned":
            continue
        readers = [other for other in NEEDED if key in NEEDED[other] or key in ALLOWED[other]]
        if key == "original_max_position_embeddings" and name in ("default", "linear", "dynamic", "proportional"):
            continue  # read here as the trained length, and harmless there
        if readers:
            yield f"{key} is not read by rope_type {name!r}{of}, only by {', '.join(map(repr, readers))}: leave it out."
        else:
            version = tables.TRANSFORMERS
            yield f"{key}{of} is no rope parameter that transformers {version} reads: leave it out or correct its name."
    if "truncate" in parameters and kind and name == "yarn" and not parameters["truncate"]:
        yield f"truncate{of} is looked for beside the kinds of layers and not in them, so it stays true: put it there."
    if rotation is None:
        return
    read = rotation.parameters
    factor, before, context = read.get("factor"), read.get("original_max_position_embeddings"), rotation.context
    if name != "default" and factor is not None and factor < 1:
        yield f"factor is {factor:g}{of}, below 1, so positions move apart: write how many times longer texts become."
    if name in ("yarn", "longrope") and parameters.get("factor") is not None and before and context:
        ratio = context / before
        if ratio == 1:
            yield (
                f"factor is {factor:g}{of}, but max_position_embeddings still is the trained length, {context}: write "
                f"{before * factor:.0f}, or servers cut texts there."
            )
        elif abs(ratio / factor - 1) > 1e-6:
            yield (
                f"factor is {factor:g}{of}, but max_position_embeddings / original_max_position_embeddings is "
                f"{context} / {before} = {ratio:g}, and factor counts: make them agree."
            )
    if name == "yarn":
        fast, slow = read.get("beta_fast") or 32, read.get("beta_slow") or 1
        if fast < slow:
            yield (
                f"beta_fast is {fast:g}{of}, below beta_slow, {slow:g}, but it is for planes that turn more often: "
                f"exchange them."
            )
        above, below = read.get("mscale"), read.get("mscale_all_dim")
        if "attention_factor" in parameters and (above or below):
            yield f"attention_factor{of} counts, and mscale beside it is not read: leave mscale and mscale_all_dim out."
        elif bool(above) != bool(below):
            yield (
                f"{'mscale' if above else 'mscale_all_dim'} stands alone{of}, but cosines and sines need both: add the "
                f"other, or leave it out."
            )
    if name == "llama3" and read["low_freq_factor"] > read["high_freq_factor"]:
        yield f"low_freq_factor is above high_freq_factor{of}: exchange them."
    if name == "llama3" and context and before and before >= context:
        yield (
            f"original_max_position_embeddings is {before}{of}, not below max_position_embeddings, {context}: write "
            f"the length of texts before the scaling."
        )
    if rotation.dims % 2:
        yield f"{rotation.dims} channels rotate{of}, an odd number: change partial_rotary_factor or head_dim."


def _layers(fields: Fields, layers: Sequence[Layer]) -> Iterator[str]:
    """Lists by layer, windows and heads."""
    count = fields.whole(*LAYERS)
    for name in ("layer_types", "no_rope_layers", "layers_block_type", "layer_rope_theta", "hybrid_layer_pattern"):
        listed = fields.sequence(name)
        if listed and count and len(listed) != count:
            yield f"{name} has {len(listed)} entries, but there are {count} layers: write one entry for each layer."
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str) and count and len(pattern) != count:
        yield f"hybrid_override_pattern has {len(pattern)} letters, but there are {count} layers: write one for each."
    for kind in ("sliding", "chunked"):
        if any(layer.kind == kind and layer.window is None for layer in layers) and fields.get(*WINDOW) is None:
            field = "sliding_window" if kind == "sliding" else "attention_chunk_size"
            yield f"there are {kind} layers, but no {field}: add it, or make them full."
    if fields.get("use_sliding_window") is True and fields.get("sliding_window") is None:
        yield "use_sliding_window is true, but sliding_window is missing: add its length, or set it to false."
    heads, keys = fields.whole(*HEADS), key_heads(fields)
    if heads and keys and heads % keys:
        yield f"{heads} heads cannot share {keys} heads of keys evenly: correct num_key_value_heads."


def _unread(fields: Fields, scheme: str) -> Iterator[str]:
    """Rope fields of a model that does not rotate."""
    given = [name for name in ROPE_FIELDS if fields.get(name)]
    if (
        not given or "position_embedding_type" in fields.all or "use_mem_rope" in fields.all
    ):  # a switch, which may be turned on again
        return
    why = "alibi is true" if scheme == "alibi" else "the model does not rotate"
    yield f"{given[0]} is not read, because {why}: leave it out."


def _classes(fields: Fields) -> Iterator[str]:
    """What classes of transformers store and do not read."""
    attention, version = fields.all.get("attn_config"), tables.TRANSFORMERS
    if not isinstance(attention, Mapping):
        return
    if fields.model_type == "dbrx" and attention.get("rope_theta") is not None:
        theta, inner = attention["rope_theta"], own(fields).get("rope_theta")
        if inner != theta:
            yield (
                f"attn_config.rope_theta is {theta:g}, but transformers {version} rotates with {inner or 10_000:g}: "
                f'add rope_parameters {{"rope_type": "default", "rope_theta": {theta:g}}}.'
            )
    if fields.model_type == "mpt":
        for name, usual in (("alibi", True), ("alibi_bias_max", 8)):
            if attention.get(name, usual) != usual:
                yield (
                    f"attn_config.{name} is {attention[name]}, but transformers {version} does not read it and uses "
                    f"{usual}: load the model with its own code."
                )
