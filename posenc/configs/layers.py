"""The kinds of a model's layers: full, sliding, chunked, linear; which of them rotate, and what they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.configs import tables
from posenc.configs.fields import (
    HEAD_DIM,
    HIDDEN,
    KV_HEADS,
    MOST_CHANNELS,
    MOST_LAYERS,
    WINDOW,
    Fields,
    whole,
)
from posenc.configs.remarks import Unreadable, patch, plain, shown

LETTERS = {"s": "sliding_attention", "f": "full_attention", "l": "linear_attention", "c": "chunked_attention"}
RECURRENT = {"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"}


@dataclass(frozen=True)
class Layer:
    """One layer.

    Args:
        name: Its kind, as the configuration calls it.
        kind: "full", "sliding", "chunked", "linear", "compressed", "cross", or "mlp" for a layer that mixes no tokens.
        window: How many tokens it sees, the present one included; None for all.
        both_sides: Whether the window reaches as far ahead as back, as in encoders.
        rotation: The key of its rotation, or None if it does not rotate.
        numbers: What it keeps in a cache for each token that it can still see, or None if that is not known.

    Example:
        >>> Layer("sliding_attention", "sliding", window=4096).back
        4095
    """

    name: str
    kind: str
    window: int | None = None
    rotation: str | None = None
    numbers: int | None = None
    both_sides: bool = False

    @property
    def back(self) -> int | None:
        """How far back the farthest token lies that it sees; None for all of them.

        Example:
            >>> Layer("", "sliding", 128).back, Layer("", "sliding", 129, both_sides=True).back
            (127, 64)
        """
        return None if self.window is None else (self.window - 1) // (2 if self.both_sides else 1)


def kind_of(name: str) -> str:
    """The kind of a layer by the name that a configuration gives it."""
    low = name.lower()
    for result, words in (
        ("sliding", ("sliding", "local")),
        ("chunked", ("chunk",)),
        ("compressed", ("compress",)),
        ("linear", ("linear", "mamba", "recurrent", "conv", "kda", "ssm")),
        ("cross", ("cross",)),
        ("mlp", ("moe", "mlp")),
    ):
        if any(word in low for word in words):
            return result
    return "full"


def names(fields: Fields) -> list[str]:
    """The name of each layer's kind, as transformers would call it; empty if the number of layers is not known."""
    count = fields.count()
    for field in ("layer_types", "layers_block_type", "attention_layers"):
        if values := fields.sequence(field):
            return _strings(fields, field, values)
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):  # Nemotron-H: M, *, -, E
        if len(pattern) > MOST_LAYERS:
            raise Unreadable(
                "long-pattern",
                f"{fields.at('hybrid_override_pattern')} has {len(pattern)} letters, but no more than {MOST_LAYERS} "
                "are read: write one for each layer",
                patch(fields.where("hybrid_override_pattern"), None),
            )
        of = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        return [of.get(letter, plain(letter)) for letter in pattern]
    if count is None:
        return []
    if fields.model_type in tables.NEED_LAYER_TYPES and not fields.get("compress_ratios"):
        return []
    return _by_ratio(fields) or _by_list(fields, count) or _by_interval(fields, count) or _by_window(fields, count)


def _strings(fields: Fields, field: str, values: list[Any]) -> list[str]:
    wrong = next((n for n, entry in enumerate(values) if not isinstance(entry, str)), None)
    if wrong is not None:
        raise Unreadable(
            "no-name",
            f"{fields.at(field)} has {shown(values[wrong])} for layer {wrong}, but it names the kind of each layer: "
            "write a string such as 'full_attention'",
            patch(fields.where(field), [entry if isinstance(entry, str) else "full_attention" for entry in values]),
        )
    return [plain(entry, 80) for entry in values]


def _by_ratio(fields: Fields) -> list[str]:
    """DeepSeek-V4: how many tokens each layer compresses to one; entries beyond the layers are for extra heads."""
    of = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    ratios = fields.wholes("compress_ratios") or []
    return [of.get(ratio, "heavily_compressed_attention") for ratio in ratios][: fields.count()]


def _by_list(fields: Fields, count: int) -> list[str]:
    """Fields that name the layers of one kind, or a number for each layer."""
    for field, other in (("attn_type_list", "linear_attention"), ("hybrid_layer_pattern", "full_attention")):
        if values := fields.sequence(field):
            one = "full_attention" if other == "linear_attention" else "sliding_attention"
            return [one if each else other for each in values]
    linear = fields.table("linear_attn_config")
    if "full_attn_layers" in linear:  # counted from 1
        inner = Fields(linear, fields.source, part=".".join(fields.where("linear_attn_config")))
        full = set(inner.wholes("full_attn_layers") or ())
        return ["full_attention" if layer in full else "linear_attention" for layer in range(1, count + 1)]
    for field in ("attn_layer_indices", "full_attn_idxs"):
        if (which := fields.wholes(field)) is not None:
            full = set(which)
            return ["full_attention" if layer in full else "linear_attention" for layer in range(count)]
    if values := fields.sequence("attention_types"):  # GPT-Neo: [[["global", "local"], 12]]
        return _blocks(fields, values)
    for field in ("block_types", "attn_layers"):  # RecurrentGemma repeats its list, and Reformer does not
        if values := fields.sequence(field):
            kinds = _strings(fields, field, values)
            return [kinds[layer % len(kinds)] for layer in range(count)] if field == "block_types" else kinds
    if (which := fields.wholes("cross_attention_layers")) is not None and which:
        cross = set(which)
        return ["cross_attention" if layer in cross else "full_attention" for layer in range(count)]
    return []


def _blocks(fields: Fields, blocks: list[Any]) -> list[str]:
    """GPT-Neo's list of blocks, each with how many times it is repeated."""
    kinds: list[str] = []
    for block in blocks:
        pair = isinstance(block, list | tuple) and len(block) == 2 and isinstance(block[0], list | tuple)
        if not pair or not all(isinstance(name, str) for name in block[0]):
            raise Unreadable(
                "no-block",
                f"{fields.at('attention_types')} has {shown(block)}, but it lists blocks and how often each is "
                "repeated: "
                f'write [[["global", "local"], 12]]',
                patch(fields.where("attention_types"), None),
            )
        times = whole(block[1], fields.where("attention_types"), fields.source, 0, MOST_LAYERS) or 0
        if len(kinds) + times * len(block[0]) > MOST_LAYERS:
            raise Unreadable(
                "long-blocks",
                f"{fields.at('attention_types')} makes more than {MOST_LAYERS} layers: write how often each block is "
                f"repeated",
                patch(fields.where("attention_types"), None),
            )
        kinds += [plain(name, 80) for name in block[0]] * times
    return kinds


def _by_interval(fields: Fields, count: int) -> list[str]:
    """Fields that give a period, and the patterns of model types."""
    period = fields.whole("attn_layer_period", most=MOST_LAYERS)
    if period:
        offset = fields.whole("attn_layer_offset", least=0, most=MOST_LAYERS) or 0
        return ["full_attention" if layer % period == offset else "linear_attention" for layer in range(count)]
    pattern = tables.PATTERNS.get(fields.model_type, "")
    every = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    own = fields.get(*every)
    if isinstance(own, str):  # EXAONE: "LLLG"
        pattern = own[:MOST_LAYERS].lower().replace("l", "s").replace("g", "f")
    elif own:
        step = fields.whole(*every, most=MOST_LAYERS) or 1
        pattern = "f" + "s" * (step - 1) if pattern.startswith("f") else "s" * (step - 1) + "f"
    interval = fields.whole("full_attention_interval", most=MOST_LAYERS)
    if interval:
        pattern = "l" * (interval - 1) + "f"
    if "s" in pattern and window(fields) is None:
        pattern = ""
    kinds = [LETTERS.get(pattern[layer % len(pattern)], "full_attention") for layer in range(count)] if pattern else []
    if kinds and fields.model_type in tables.LAST_FULL:
        kinds[-1] = "full_attention"
    if kinds and fields.model_type in tables.FIRST_FULL:
        kinds[0] = "full_attention"
    return kinds


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
    name = fields.name(*WINDOW)
    if fields.get("use_sliding_window") is False or not name or fields.get(name) in (0, -1):
        return None
    size = fields.whole(name)
    if size is None:
        return None
    if both_sides(fields):  # as far ahead as back
        size = 1 + 2 * (size // 2 if name == "local_attention" else size)
    elif name == "local_attention":
        size = size // 2 or 1  # ModernBERT's decoder counts both sides, and sees one
    elif name == "local_attn_chunk_length":
        return size * (1 + (fields.whole("local_num_chunks_before", least=0) or 0))  # the own chunk and those before
    context = fields.context()
    return None if context and size >= (2 * context if both_sides(fields) else context) else size


def both_sides(fields: Fields) -> bool:
    """Whether tokens see what comes after them."""
    return fields.model_type in tables.ENCODERS


def layers(fields: Fields, rotations: Mapping[str, Any]) -> tuple[Layer, ...]:
    """All layers, in order; empty if their number is not known.

    Args:
        fields: The configuration.
        rotations: The rotation by kind of layer, None for a kind that does not rotate.
    """
    kinds = names(fields)
    turning = _turning(fields, kinds)
    width = window(fields)
    shared = fields.whole("num_kv_shared_layers", least=0, most=MOST_LAYERS) or 0
    wide = {"sliding": width, "chunked": fields.whole("attention_chunk_size")}
    sharing = fields.sequence("indexer_types") or []
    sizes: dict[str, int | None] = {}  # by name: all layers of a name keep the same, but for keys of indexers
    out = []
    for layer, name in enumerate(kinds):
        kind = kind_of(name)
        if name not in sizes:
            sizes[name] = kept(fields, kind)
        numbers = sizes[name]
        if layer >= len(kinds) - shared or both_sides(fields):
            numbers = 0
        elif numbers is not None and kind not in ("linear", "mlp", "cross"):
            numbers += 0 if sharing[layer : layer + 1] == ["shared"] else index(fields, name)
        rotation = _rotation(name, kind, layer, rotations) if turning[layer] else None
        out.append(Layer(name, kind, wide.get(kind), rotation, numbers, kind == "sliding" and both_sides(fields)))
    return tuple(out)


def _turning(fields: Fields, kinds: list[str]) -> list[bool]:
    """Which layers rotate, if the scheme is RoPE."""
    turning = [kind_of(name) not in ("linear", "mlp", "cross") for name in kinds]
    listed: list[Any] | None = fields.sequence("no_rope_layers")
    every = fields.whole("no_rope_layer_interval", least=0, most=MOST_LAYERS)
    if listed is None and (every or fields.model_type in ("llama4_text", "smollm3")):
        every = every or 4
        listed = [(layer + 1) % every for layer in range(len(kinds))]
    if listed:  # 1 stands for a layer that rotates
        turning = [turn and bool(own) for turn, own in zip(turning, listed, strict=False)] + turning[len(listed) :]
    if bases := fields.sequence("layer_rope_theta"):
        turning = [turn and bool(base) for turn, base in zip(turning, bases, strict=False)] + turning[len(bases) :]
    if fields.model_type in tables.FULL_WITHOUT_ROPE and any(kind_of(name) == "sliding" for name in kinds):
        turning = [turn and kind_of(name) != "full" for turn, name in zip(turning, kinds, strict=True)]
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


def kept(fields: Fields, kind: str) -> int | None:
    """How many numbers a layer keeps for a token: keys and values of its key heads, or a latent vector (MLA).

    None where it is not a fixed number for each token (compressed attention) or sizes are missing. What a recurrent
    layer keeps does not grow with the text, so it counts as 0 here. The key of an indexer is not in it.
    """
    if kind in ("linear", "mlp", "cross"):
        return 0
    if kind == "compressed":
        return None
    latent = fields.whole("kv_lora_rank", most=MOST_CHANNELS)
    if latent is not None:
        twice = 2 if fields.model_type == "longcat_flash" else 1  # two attentions in each of its layers
        return twice * (latent + (fields.whole("qk_rope_head_dim", least=0, most=MOST_CHANNELS) or 0))
    if fields.model_type == "xlnet":
        return fields.whole(*HIDDEN)  # its memory holds what enters a layer
    heads, key = key_heads(fields, kind), head_size(fields, kind)
    value = fields.whole(*(("swa_v_head_dim",) if kind == "sliding" else ()), "v_head_dim", most=MOST_CHANNELS)
    return heads * (key + (value or key)) if heads and key else None


def index(fields: Fields, name: str) -> int:
    """Channels of the key by which a sparse indexer finds a token; 0 without one."""
    if not ("index" in name or fields.get("index_topk")):
        return 0
    return fields.whole("index_head_dim", "indexer_head_dim", most=MOST_CHANNELS) or 0


def key_heads(fields: Fields, kind: str = "full") -> int | None:
    """Heads of keys and values in a layer of this kind."""
    attention = fields.all.get("attn_config")
    if kind == "sliding" and fields.get("swa_num_key_value_heads"):
        return fields.whole("swa_num_key_value_heads", most=MOST_CHANNELS)
    if kind == "full" and fields.get("num_global_key_value_heads") and fields.get("attention_k_eq_v"):
        return fields.whole("num_global_key_value_heads", most=MOST_CHANNELS)
    if kind == "full" and (full := _of_full_layers(fields, "num_key_value_heads")):
        return full
    if fields.get("multi_query") and not fields.get("new_decoder_architecture"):
        return 1
    if fields.model_type in ("falcon", "bloom") and not fields.get("new_decoder_architecture"):
        return fields.heads()
    if isinstance(attention, Mapping) and attention.get("kv_n_heads"):
        where = fields.where("attn_config", "kv_n_heads")
        return whole(attention["kv_n_heads"], where, fields.source, most=MOST_CHANNELS)
    return fields.whole(*KV_HEADS, most=MOST_CHANNELS) or fields.heads()


def _of_full_layers(fields: Fields, name: str) -> int | None:
    """A size of the layers without a window, as transformers writes sizes that are not the same in all layers."""
    for layer, own_fields in fields.table("per_layer_config").items():
        if isinstance(own_fields, Mapping) and own_fields.get(name) is not None:
            where = fields.where("per_layer_config", str(layer), name)
            return whole(own_fields[name], where, fields.source, most=MOST_CHANNELS)
    return None


def head_size(fields: Fields, kind: str = "full") -> int | None:
    """Channels of a head in a layer of this kind, or None if the configuration does not say."""
    if kind == "full" and fields.get("global_head_dim"):
        return fields.whole("global_head_dim", most=MOST_CHANNELS)
    if kind == "full" and (own := _of_full_layers(fields, "head_dim")):
        return own
    if kind == "sliding" and fields.get("swa_head_dim"):
        return fields.whole("swa_head_dim", most=MOST_CHANNELS)
    content = fields.whole("qk_nope_head_dim", least=0, most=MOST_CHANNELS)
    if content is not None:
        return content + (fields.whole("qk_rope_head_dim", least=0, most=MOST_CHANNELS) or 0)
    size = fields.whole(*HEAD_DIM, most=MOST_CHANNELS)
    if size is not None:
        return size
    hidden, heads = fields.whole(*HIDDEN), fields.heads()
    if not hidden or not heads:
        return None
    if hidden // heads > MOST_CHANNELS or hidden < heads:
        raise Unreadable(
            "no-head",
            f"{fields.at(fields.name(*HIDDEN))} is {hidden} for {heads} heads, {hidden // heads} channels each, but a "
            f"head has 1 to {MOST_CHANNELS}: correct one of them",
            patch(fields.where(fields.name(*HIDDEN))),
        )
    return hidden // heads
