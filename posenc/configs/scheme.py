"""Which scheme a configuration describes, and the numbers of schemes other than RoPE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from posenc.configs import tables
from posenc.configs.fields import Fields, number, whole
from posenc.configs.parameters import own, own_name
from posenc.configs.remarks import plain, shown

BUCKETS = ("relative_attention_num_buckets", "position_bias_num_buckets", "num_buckets")
DISTANCE = ("relative_attention_max_distance", "position_bias_max_distance", "relative_max_distance")
STATES = ("state_size", "ssm_state_size", "mamba_d_state", "linear_attn_config", "conv_kernel")
POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx")


NAMED = (
    ("rot", "rope"), ("rope", "rope"), ("alibi", "alibi"), ("sin", "sinusoidal"), ("relative", "learned_relative"),
    ("nope", "nope"), ("none", "nope"), ("absolute", "learned"), ("learn", "learned"),
)  # fmt: skip
"""Words in a field that names the scheme, such as `position_embedding_type`, and the scheme."""

SAYS = ("position_embedding_type", "position_embeddings_type", "positional_embedding_type", "pos_emb_type")
"""Fields that name the scheme."""

ROTATES = (
    "rope_theta", "rotary_emb_base", "rotary_dim", "rotary_pct", "rotary_emb_fraction", "rope_ratio",
    "qk_rope_head_dim", "global_rope_theta", "local_rope_theta", "layer_rope_theta", "default_theta",
)  # fmt: skip
"""Fields that only a rotation has."""


def scheme(fields: Fields) -> tuple[str, str]:
    """The scheme, by the stem of its file in `posenc` where it has one, and the field that said so."""
    attention, model_type = fields.all.get("attn_config"), fields.model_type
    if fields.flag("alibi"):
        return "alibi", "alibi is true"
    if isinstance(attention, Mapping) and attention.get("alibi"):
        return "alibi", "attn_config.alibi is true"
    if fields.get("mla_use_nope") or fields.get("qk_rope_head_dim") == 0:
        return "nope", "mla_use_nope is true" if fields.get("mla_use_nope") else "qk_rope_head_dim is 0"
    if model_type in tables.SCHEMES:
        return tables.SCHEMES[model_type], f"model_type {model_type}, whose fields do not say it"
    if model_type in tables.DISENTANGLED and fields.get("relative_attention"):
        return "learned_relative", "relative_attention"
    if name := fields.name("rel_extent", "d_rel"):
        return "learned_relative", name
    if name := fields.name(*BUCKETS):
        return "t5", name
    if named := _named(fields):
        return named
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
    if name := fields.name(*ROTATES):
        return "rope", name
    if (
        model_type in tables.BASES
        or model_type in tables.ROTATED
        or model_type in tables.BY_LAYER
        or model_type in tables.ROTATING
    ):
        return "rope", f"model_type {model_type}, whose class rotates by default"
    name = fields.name(*POSITIONS)
    if model_type in tables.LEARNED:
        return "learned", f"model_type {model_type}, whose class has a table" + (f" ({name})" if name else "")
    if hint := _hint(fields):
        return "unknown", f"{hint} names a rotation, but no known field describes it"
    if states := fields.name(*STATES):
        return "nope", f"{states}, and nothing about positions"
    if name:
        return "unknown", f"{name} is only a length, and no field says how positions enter"
    return "unknown", "no field about positions"


def _named(fields: Fields) -> tuple[str, str] | None:
    """The scheme by a field that names it."""
    field = fields.name(*SAYS)
    if not field:
        empty = "position_embedding_type" in fields.all and own(fields)  # GraniteMoeHybrid: null turns rotations off
        return ("nope", "position_embedding_type is None") if empty else None
    value = fields.get(field)
    known = next((name for word, name in NAMED if word in value.lower()), "") if isinstance(value, str) else ""
    why = f"{field} is {shown(value)}"
    if known == "learned" and fields.model_type not in tables.LEARNED:
        rotates = fields.name("rope_scaling", "rope_parameters", *ROTATES)
        if rotates:
            return "unknown", f"{why}, and {rotates} is there as well"
    return (known or "unknown", why if known else f"{why}, which is not a known scheme")


def _hint(fields: Fields) -> str:
    """A field whose name or value speaks of a rotation, though none that is known here."""
    for name, value in fields.all.items():
        words = (str(name).lower(), value.lower() if isinstance(value, str) and len(value) < 80 else "")
        if value not in (None, False, 0, 0.0) and value != {} and any("rotary" in w or "rope" in w for w in words):
            if "type" in name and name == "model_type":
                continue
            return plain(name)
    return ""


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
    count = fields.context()
    if name not in ("learned", "sinusoidal", "learned and t5", "axial") or count is None:
        return None
    if fields.model_type in tables.FROM_PADDING:
        padding = fields.whole("pad_token_id", least=0)
        return count, count - (1 if padding is None else padding) - 1
    return count + tables.OFFSET_ROWS.get(fields.model_type, 0), count


def buckets(fields: Fields) -> tuple[int, int | None] | None:
    """How many buckets T5's bias has, and the distance from which on all offsets share the last one."""
    count = fields.whole(*BUCKETS)
    return None if count is None else (count, fields.whole(*DISTANCE))  # of T5 and its kin


@dataclass(frozen=True)
class PositionScale:
    """Queries grow with their position, as in Llama 4: 1 + beta · ln(1 + ⌊(i + first) / floor⌋).

    Args:
        layers: The layers that it is for: "all", or "without rotation".
        beta: How much they grow.
        floor: Positions up to which they do not, in tokens.
        first: 1 where positions are counted from 1.
        smooth: Whether the quotient is not rounded down: 1 + beta · ln(max((i + first) / floor, 1)).

    Example:
        >>> PositionScale("all", 0.1, 8192).at(0)
        1.0
    """

    layers: str
    beta: float
    floor: int
    first: int = 0
    smooth: bool = False

    def at(self, position: int) -> float:
        """What the query at this position is multiplied by.

        Args:
            position: The position, from 0.

        Returns:
            The factor.

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
    inner, at = own(fields), (own_name(fields), "llama_4_scaling_beta")
    beta = number(inner.get("llama_4_scaling_beta"), fields.where(*at), fields.source)
    original = inner.get("original_max_position_embeddings")
    floor = whole(original, fields.where(at[0], "original_max_position_embeddings"), fields.source)
    if fields.model_type in tables.POSITION_SCALED and beta and floor:
        return PositionScale("all", beta, floor)
    if fields.get("log_scaling_n_floor"):
        alpha, floor = fields.number("log_scaling_alpha"), fields.whole("log_scaling_n_floor")
        return PositionScale("without a window", alpha or 0.0, floor or 1, 1, smooth=True)
    return None
