"""Which scheme a configuration describes, and the numbers of schemes other than RoPE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from posenc.audit import tables
from posenc.audit.reading.fields import CONTEXT, Fields
from posenc.audit.reading.rope import own

BUCKETS = ("relative_attention_num_buckets", "position_bias_num_buckets", "num_buckets")
DISTANCE = ("relative_attention_max_distance", "position_bias_max_distance", "relative_max_distance")
STATES = ("state_size", "ssm_state_size", "mamba_d_state", "linear_attn_config", "conv_kernel")
POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx")


def scheme(fields: Fields) -> tuple[str, str]:
    """The scheme, by the stem of its file in `posenc` where it has one, and the field that said so."""
    attention, kind = fields.all.get("attn_config"), fields.get("position_embedding_type")
    if fields.get("alibi"):
        return "alibi", "alibi is true"
    if isinstance(attention, Mapping) and attention.get("alibi"):
        return "alibi", "attn_config.alibi is true"
    if fields.get("mla_use_nope") or fields.get("qk_rope_head_dim") == 0:
        return "nope", "mla_use_nope is true" if fields.get("mla_use_nope") else "qk_rope_head_dim is 0"
    if fields.model_type in tables.SCHEMES:
        return tables.SCHEMES[fields.model_type], f"model_type {fields.model_type}, whose fields do not say it"
    if name := fields.name("rel_extent", "d_rel"):
        return "learned_relative", name
    if name := fields.name(*BUCKETS):
        return "t5", name
    if kind == "nope" or (kind is None and "position_embedding_type" in fields.all and own(fields)):
        return "nope", f"position_embedding_type is {kind!r}"
    if kind in ("alibi", "absolute"):
        return {"alibi": "alibi", "absolute": "learned"}[kind], f"position_embedding_type is {kind!r}"
    if fields.get("axial_pos_embds"):
        return "axial", "axial_pos_embds"
    if fields.get("use_mem_rope") is False:
        return "nope", "use_mem_rope is false"
    for flag in ("sinusoidal_embeddings", "sinusoidal_pos_embds"):
        if fields.get(flag):
            return "sinusoidal", flag
    if fields.get("use_learned_position_embeddings") is False:
        return "sinusoidal", "use_learned_position_embeddings is false"
    if name := next((name for name in ("rope_scaling", "rope_parameters") if fields.table(name)), ""):
        return "rope", name
    if name := fields.name(
        "rope_theta", "rotary_emb_base", "rotary_dim", "rotary_pct", "rope_ratio", "qk_rope_head_dim"
    ):
        return "rope", name
    if fields.model_type in tables.BASES or fields.model_type in tables.ROTATED or fields.model_type in ROPE_TYPES:
        return "rope", f"model_type {fields.model_type}, whose class rotates by default"
    if name := fields.name(*STATES):
        return "nope", f"{name}, and nothing about positions"
    if name := fields.name(*POSITIONS):
        return "learned", f"{name}, and nothing about a rotation"
    return "unknown", "no field about positions"


ROPE_TYPES = {
    "deepseek_v2", "deepseek_v3", "falcon", "gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "kimi_k2",
    "llama", "mistral", "mixtral", "modernbert-decoder", "olmo", "olmo2", "phi3", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "RefinedWeb", "RefinedWebModel", "starcoder2", "zaya", "laguna", "mellum", "lfm3", "dbrx", "cohere2",
}  # fmt: skip
"""Model types that rotate with the base of their class where a configuration names none, as that of Llama 2."""


def slopes(heads: int) -> tuple[float, ...]:
    """ALiBi's slopes, one for each head, by the rule of the authors' code.

    Example:
        >>> slopes(4)
        (0.25, 0.0625, 0.015625, 0.00390625)
    """
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return tuple(first + between[: heads - power])


def rows(fields: Fields, name: str) -> tuple[int, int] | None:
    """The rows of a table of positions, and how many tokens can use it; None without a table."""
    count = fields.whole(*CONTEXT)
    if name not in ("learned", "sinusoidal", "learned and t5", "axial") or count is None:
        return None
    if fields.model_type in tables.FROM_PADDING:
        padding = fields.whole("pad_token_id", least=0)
        return count, count - (1 if padding is None else padding) - 1
    return count + tables.OFFSET_ROWS.get(fields.model_type, 0), count


def buckets(fields: Fields) -> tuple[int, int | None] | None:
    """How many buckets T5's bias has, and the distance from which on all offsets share the last one."""
    count = fields.whole(*BUCKETS)
    return None if count is None else (count, fields.whole(*DISTANCE))


@dataclass(frozen=True)
class PositionScale:
    """Queries grow with their position, as in Llama 4: 1 + beta · ln(1 + ⌊(i + first) / floor⌋).

    Args:
        layers: The layers that it is for: "all", or "without rotation".
        beta: How much they grow.
        floor: Positions up to which they do not, in tokens.
        first: 1 where positions are counted from 1.
        smooth: Whether the quotient is not rounded down: 1 + beta · ln(max((i + first) / floor, 1)).
    """

    layers: str
    beta: float
    floor: int
    first: int = 0
    smooth: bool = False

    def at(self, position: int) -> float:
        """What the query at this position is multiplied by.

        Example:
            >>> round(PositionScale("all", 0.1, 8192, 1).at(131_071), 4)
            1.2833
        """
        ratio = (position + self.first) / self.floor
        return 1 + self.beta * (math.log(max(ratio, 1)) if self.smooth else math.log(1 + math.floor(ratio)))


def position_scale(fields: Fields) -> PositionScale | None:
    """How queries grow with their position, or None if they do not."""
    if fields.model_type == "llama4_text" and fields.get("attn_temperature_tuning") is not False:
        return PositionScale(
            "without rotation", fields.number("attn_scale") or 0.1, fields.whole("floor_scale") or 8192, 1
        )
    beta, floor = own(fields).get("llama_4_scaling_beta"), own(fields).get("original_max_position_embeddings")
    if fields.model_type in tables.POSITION_SCALED and beta and floor:
        return PositionScale("all", beta, floor)
    if fields.get("log_scaling_n_floor"):
        alpha, floor = fields.number("log_scaling_alpha"), fields.whole("log_scaling_n_floor")
        return PositionScale("without a window", alpha or 0.0, floor or 1, 1, smooth=True)
    return None
