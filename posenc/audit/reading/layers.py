"""The kinds of a model's layers: full, sliding, chunked, linear; which of them rotate, and what they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.audit import tables
from posenc.audit.reading.fields import CONTEXT, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, WINDOW, Fields

LETTERS = {"s": "sliding_attention", "f": "full_attention", "l": "linear_attention", "c": "chunked_attention"}
RECURRENT = {"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"}


@dataclass(frozen=True)
class Layer:
    """One layer.

    Args:
        name: Its kind, as the configuration calls it.
        kind: "full", "sliding", "chunked", "linear", "compressed", "cross", or "mlp" for a layer that mixes no tokens.
        window: How many tokens it sees, the present one included; None for all.
        rotation: The key of its rotation, or None if it does not rotate.
        numbers: What it keeps in a cache for each token that it can still see, or None if that is not known.
    """

    name: str
    kind: str
    window: int | None = None
    rotation: str | None = None
    numbers: int | None = None


def kind_of(name: str) -> str:
    """The kind of a layer by the name that a configuration gives it."""
    low = name.lower()
    for kind, words in (
        ("sliding", ("sliding", "local")),
        ("chunked", ("chunk",)),
        ("compressed", ("compress",)),
        ("linear", ("linear", "mamba", "recurrent", "conv", "kda", "ssm")),
        ("cross", ("cross",)),
        ("mlp", ("moe", "mlp")),
    ):
        if any(word in low for word in words):
            return kind
    return "full"


def names(fields: Fields) -> list[str]:
    """The name of each layer's kind, as transformers would call it; empty if the number of layers is not known."""
    count = fields.whole(*LAYERS)
    for field in ("layer_types", "layers_block_type", "attention_layers"):
        if found := fields.sequence(field):
            return [str(each) for each in found]
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):  # Nemotron-H: M, *, -, E
        of = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        return [of.get(letter, letter) for letter in pattern]
    if count is None:
        return []
    return _by_ratio(fields) or _by_list(fields, count) or _by_interval(fields, count) or _by_window(fields, count)


def _by_ratio(fields: Fields) -> list[str]:
    """DeepSeek-V4: how many tokens each layer compresses to one; entries beyond the layers are for extra heads."""
    of = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    found = fields.sequence("compress_ratios") or []
    return [of.get(ratio, "heavily_compressed_attention") for ratio in found][: fields.whole(*LAYERS)]


def _by_list(fields: Fields, count: int) -> list[str]:
    """Fields that name the layers of one kind, or a number for each layer."""
    for field, other in (("attn_type_list", "linear_attention"), ("hybrid_layer_pattern", "full_attention")):
        if found := fields.sequence(field):
            one = "full_attention" if other == "linear_attention" else "sliding_attention"
            return [one if each else other for each in found]
    linear = fields.table("linear_attn_config")
    if "full_attn_layers" in linear:  # counted from 1
        full = set(linear["full_attn_layers"])
        return ["full_attention" if layer in full else "linear_attention" for layer in range(1, count + 1)]
    for field in ("attn_layer_indices", "full_attn_idxs"):
        if (found := fields.sequence(field)) is not None:
            return ["full_attention" if layer in found else "linear_attention" for layer in range(count)]
    if found := fields.sequence("attention_types"):  # GPT-Neo: [[["global", "local"], 12]]
        return [name for block, times in found for _ in range(times) for name in block]
    if found := fields.sequence("block_types"):  # RecurrentGemma
        return [str(found[layer % len(found)]) for layer in range(count)]
    if found := fields.sequence("attn_layers"):  # Reformer
        return [str(each) for each in found]
    if found := fields.sequence("cross_attention_layers"):
        return ["cross_attention" if layer in found else "full_attention" for layer in range(count)]
    return []


def _by_interval(fields: Fields, count: int) -> list[str]:
    """Fields that give a period, and the patterns of model types."""
    period = fields.whole("attn_layer_period")
    if period:
        offset = fields.whole("attn_layer_offset", least=0) or 0
        return ["full_attention" if layer % period == offset else "linear_attention" for layer in range(count)]
    pattern = tables.PATTERNS.get(fields.model_type, "")
    own = fields.get("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    if isinstance(own, str):  # EXAONE: "LLLG"
        pattern = own.lower().replace("l", "s").replace("g", "f")
    elif own:
        every = fields.whole("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers") or 1
        pattern = "f" + "s" * (every - 1) if pattern.startswith("f") else "s" * (every - 1) + "f"
    interval = fields.whole("full_attention_interval")
    if interval:
        pattern = "l" * (interval - 1) + "f"
    if "s" in pattern and window(fields) is None:
        pattern = ""
    found = [LETTERS.get(pattern[layer % len(pattern)], "full_attention") for layer in range(count)] if pattern else []
    if found and fields.model_type in tables.LAST_FULL:
        found[-1] = "full_attention"
    if found and fields.model_type in tables.FIRST_FULL:
        found[0] = "full_attention"
    return found


def _by_window(fields: Fields, count: int) -> list[str]:
    """No field tells layers apart: all are recurrent, all have the window, or all see everything."""
    if fields.model_type in RECURRENT:
        return ["linear_attention"] * count
    if window(fields) is None:
        return ["full_attention"] * count
    full = 0
    if fields.get("use_sliding_window") and fields.get("max_window_layers") is not None:
        full = fields.whole("max_window_layers", least=0) or 0  # Qwen: the layers from there on have the window
    return ["full_attention" if layer < full else "sliding_attention" for layer in range(count)]


def window(fields: Fields) -> int | None:
    """How many tokens a layer with a window sees, or None if windows are off or no shorter than the context."""
    if fields.get("use_sliding_window") is False or (fields.get(*WINDOW) or 0) in (0, -1):
        return None
    found = fields.whole(*WINDOW)
    if fields.name(*WINDOW) == "local_attention" and found:
        return found // 2  # ModernBERT counts both sides
    if fields.name(*WINDOW) == "local_attn_chunk_length" and found:
        return found * (1 + (fields.whole("local_num_chunks_before", least=0) or 0))  # the own chunk and those before
    context = fields.whole(*CONTEXT)
    return None if found and context and found >= context else found


def layers(fields: Fields, rotations: Mapping[str, Any]) -> tuple[Layer, ...]:
    """All layers, with their rotation among `rotations` (whose value is None where layers of that kind do not rotate).

    Args:
        fields: The fields of the configuration.
        rotations: Rotations by the name of a kind of layer, or by "" for all; empty if the scheme is not RoPE.
    """
    found = names(fields)
    turning = _turning(fields, found)
    width = window(fields)
    shared = fields.whole("num_kv_shared_layers", least=0) or 0
    out = []
    for layer, name in enumerate(found):
        kind = kind_of(name)
        wide = width if kind == "sliding" else fields.whole("attention_chunk_size") if kind == "chunked" else None
        numbers = 0 if layer >= len(found) - shared else kept(fields, name, kind, layer)
        rotation = _rotation(name, kind, layer, rotations) if turning[layer] else None
        out.append(Layer(name, kind, wide, rotation, numbers))
    return tuple(out)


def _turning(fields: Fields, found: list[str]) -> list[bool]:
    """Which layers rotate, if the scheme is RoPE."""
    turning = [kind_of(name) not in ("linear", "mlp", "cross") for name in found]
    listed, every = fields.sequence("no_rope_layers"), fields.get("no_rope_layer_interval")
    if listed is None and (every or fields.model_type in ("llama4_text", "smollm3")):
        every = fields.whole("no_rope_layer_interval") or 4
        listed = [(layer + 1) % every for layer in range(len(found))]
    if listed:  # 1 stands for a layer that rotates
        turning = [turn and bool(own) for turn, own in zip(turning, listed, strict=False)] + turning[len(listed) :]
    if bases := fields.sequence("layer_rope_theta"):
        turning = [turn and bool(base) for turn, base in zip(turning, bases, strict=False)] + turning[len(bases) :]
    if fields.model_type in tables.FULL_WITHOUT_ROPE and any(kind_of(name) == "sliding" for name in found):
        turning = [turn and kind_of(name) != "full" for turn, name in zip(turning, found, strict=True)]
    return turning


ALSO_CALLED = {
    "sliding": ("sliding_attention", "main", "hybrid_sliding"),
    "full": ("full_attention", "hybrid", "indexed_attention"),
    "compressed": ("compress",),
    "chunked": ("chunked_attention",),
}


def _rotation(name: str, kind: str, layer: int, rotations: Mapping[str, Any]) -> str | None:
    keys = (f"layer {layer}", name, *ALSO_CALLED.get(kind, ()), "")
    key = next((key for key in keys if key in rotations), None)
    return key if key is not None and rotations[key] is not None else None


def kept(fields: Fields, name: str, kind: str, layer: int) -> int | None:
    """How many numbers a layer keeps for a token: keys and values of its key heads, or a latent vector (MLA).

    None where it is not a fixed number for each token (compressed attention) or sizes are missing. What a recurrent
    layer keeps does not grow with the text, so it counts as 0 here.
    """
    if kind in ("linear", "mlp", "cross"):
        return 0
    if kind == "compressed":
        return None
    index = _index(fields, name, layer)
    latent = fields.whole("kv_lora_rank")
    if latent is not None:
        twice = 2 if fields.model_type == "longcat_flash" else 1  # two attentions in each of its layers
        return twice * (latent + (fields.whole("qk_rope_head_dim", least=0) or 0) + index)
    if fields.model_type == "xlnet":
        return fields.whole(*HIDDEN)  # its memory holds what enters a layer
    heads, key, value = key_heads(fields, kind), head_size(fields, kind), fields.whole("v_head_dim")
    if kind == "sliding":
        value = fields.whole("swa_v_head_dim", "v_head_dim")
    return heads * (key + (value or key)) + index if heads and key else None


def _index(fields: Fields, name: str, layer: int) -> int:
    """The key by which a sparse indexer finds a token; layers that share an indexer keep none."""
    types = fields.sequence("indexer_types") or []
    if not ("index" in name or fields.get("index_topk")) or (layer < len(types) and types[layer] == "shared"):
        return 0
    return fields.whole("index_head_dim", "indexer_head_dim") or 0


def key_heads(fields: Fields, kind: str = "full") -> int | None:
    """Heads of keys and values in a layer of this kind."""
    attention = fields.all.get("attn_config")
    own = attention.get("kv_n_heads") if isinstance(attention, Mapping) else None
    if kind == "sliding" and fields.get("swa_num_key_value_heads"):
        return fields.whole("swa_num_key_value_heads")
    if kind == "full" and fields.get("num_global_key_value_heads") and fields.get("attention_k_eq_v"):
        return fields.whole("num_global_key_value_heads")
    if kind == "full" and (full := _of_full_layers(fields, "num_key_value_heads")):
        return full
    if fields.get("multi_query") and not fields.get("new_decoder_architecture"):
        return 1
    if fields.model_type in ("falcon", "bloom") and not fields.get("new_decoder_architecture"):
        return fields.whole(*HEADS)
    return int(own) if own else fields.whole(*KV_HEADS) or fields.whole(*HEADS)


def _of_full_layers(fields: Fields, name: str) -> int | None:
    """A size of the layers without a window, as transformers writes sizes that are not the same in all layers."""
    sizes = [one.get(name) for one in fields.table("per_layer_config").values() if isinstance(one, Mapping)]
    return next((int(size) for size in sizes if size is not None), None)


def head_size(fields: Fields, kind: str = "full") -> int | None:
    """Channels of a head in a layer of this kind, or None if the configuration does not say."""
    if kind == "full" and fields.get("global_head_dim"):
        return fields.whole("global_head_dim")
    if kind == "full" and (own := _of_full_layers(fields, "head_dim")):
        return own
    if kind == "sliding" and fields.get("swa_head_dim"):
        return fields.whole("swa_head_dim")
    content = fields.whole("qk_nope_head_dim", least=0)
    if content is not None:
        return content + (fields.whole("qk_rope_head_dim", least=0) or 0)
    found = fields.whole(*HEAD_DIM)
    if found is not None:
        return found
    hidden, heads = fields.whole(*HIDDEN), fields.whole(*HEADS)
    return hidden // heads if hidden and heads else None
