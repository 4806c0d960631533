"""What a field of a configuration becomes in a tiny model: a table of names.

Two hundred families name their sizes in some hundred ways, and few need a rule of their own. The first rule whose
pattern matches a field's whole name decides; a field without a rule keeps its value. Small sizes are chosen so that
every mechanism still has work to do in a text of two dozen tokens: a window of 8 closes, a selection of 12 keys drops
some, four heads share two keys.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LAYERS = "layers"  # as many as were chosen
LAST = "last layer"
VOCABULARY = 99
ROWS = 256  # of a table of positions
WINDOW = 8


class Rule(NamedTuple):
    """Fields with such names get this value; None leaves them alone."""

    names: str
    value: int | str | None
    why: str


RULES = (
    # Names of tokens
    Rule(r"(bos|cls)_token_id|decoder_start_token_id", 1, "inside the small vocabulary"),
    Rule(r"(eos|sep|eod)_token_id", 2, "inside the small vocabulary"),
    Rule(r"pad_token_id", 0, "texts of the audit have no 0"),
    Rule(r"(forced_|mask_|unk_|lang_).*", None, "not used by a forward pass"),
    Rule(r".*_token_(id|index)", VOCABULARY - 1, "an image or a sound, which no text of the audit holds"),
    Rule(r"type_vocab_size", 2, "kinds of segments, not tokens"),
    Rule(r".*vocab_size.*|.*_vocab", VOCABULARY, "the table of tokens"),
    # What looks like a size and is none
    Rule(
        r"axial_.*|num_codebooks|num_(mtp|nextn).*|n_layers_per.*|.*_layers_per_.*|num_ln.*|num_conv.*|num_bins"
        r"|num_labels|chunk_size_feed_forward",
        None,
        "counts that other fields depend on",
    ),
    # Heads
    Rule(
        r"num_key_value_heads|num_kv_heads|swa_num_key_value_heads|indexer_kv_heads|num_query_groups"
        r"|linear_num_key_heads",
        2,
        "two queries share a key",
    ),
    Rule(r"n_mamba_heads", 2, "of a state"),
    Rule(r"mamba_n_heads|mamba_num_heads", 8, "of a state: 8 × 16 = twice the width"),
    Rule(r"linear_num_value_heads", 4, "of linear attention"),
    Rule(r"index(er)?_n_heads", 32, "with 4, the scores of a small index are all 0 and the selection is a tie"),
    Rule(r".*attention_heads|n_heads?|num_heads|attention_heads|linear_num_heads", 4, "of attention"),
    Rule(r"qk_rope_head_dim|qk_nope_head_dim|rotary_dim", 8, "half of a head turns"),
    Rule(
        r"mamba_(d_head|head_?dim)|.*head_dim|kv_channels|dim_head|d_kv|d_head|attention_head_(dim|size)"
        r"|mamba_headdim|v_dim|d_rel",
        16,
        "the width of a head",
    ),
    # Experts
    Rule(r"first_k_dense_replace|num_dense_layers|moe_layer_start_index", 1, "one layer without experts"),
    Rule(r"moe_layer_end_index", LAST, "experts up to the last layer"),
    Rule(r".*experts?_per_tok(en)?|moe_topk|moe_k|top_k_experts|num_experts_per_token", 2, "experts that a token sees"),
    Rule(r"n_shared_experts|(moe_)?num_shared_experts|shared_expert.*rank", 1, "experts that all tokens see"),
    Rule(r"num_local_experts|num_experts|n_routed_experts|moe_num_experts|zero_expert_num", 4, "experts in all"),
    Rule(r"num_expert_group|n_group|topk_group", 1, "groups of experts"),
    Rule(r"mamba_d_ssm", 128, "8 × 16, as the heads of the state"),
    Rule(r"num_kv_shared_layers", 0, "each layer has keys of its own: two layers are too few to share"),
    # Widths
    Rule(
        r"projection_size|.*intermediate.*size.*|.*ffn_dim|n_inner|d_ff|dff|dim_ff|ffn_hidden_size"
        r"|expert_ffn_hidden_size|feed_forward_size|d_inner|block_ffn_size",
        96,
        "inside the feed-forward part",
    ),
    Rule(
        r"embedding_size|input_embedding_size|output_embedding_size|word_embed_proj_dim"
        r"|(attention_|backbone_|router_|cross_attention_)?hidden_size|hidden_dim|n_embd|d_model|embed(ding)?_dim"
        r"|emb_dim|lru_width|.*_embed_dim|hidden_size_per_layer_input|dim_model_base",
        64,
        "the width: 4 heads of 16",
    ),
    Rule(
        r".*lora_rank|laurel_rank|adapter_rank|gated_norm_rank|time_step_rank|mamba_dt_rank|hc_lowrank",
        16,
        "narrow places",
    ),
    Rule(r"num_hidden_layers|n_layers?|num_layers|(num_)?(en|de)coder_layers|num_blocks", LAYERS, "one of each kind"),
    # Places
    Rule(
        r"max_position_embeddings|original_max_position_embeddings|n_positions|n_ctx|max_seq_len"
        r"|max_(source|target)_positions|model_max_length|context_length",
        ROWS,
        "rows of a table",
    ),
    Rule(
        r"window_size|attention_window_size|sliding_window(_size)?|local_attention|attention_chunk_size"
        r"|keep_window_size",
        WINDOW,
        "closes within the texts of the audit",
    ),
    Rule(r"index_topk|indexer_budget", 12, "keys that a sparse layer picks: fewer than a text has"),
    Rule(r"(mamba_d|ssm)_state(_size)?|state_size", 16, "the state of a recurrence"),
    Rule(r"(mamba_)?n_?groups", 1, "of the state"),
    Rule(r"(mamba_)?chunk_size|block_size", 16, "a scan in pieces: a text has two"),
    # Which layers are of another kind
    Rule(
        r"(attn_layer|expert_layer|global_attn_every_n|layer_group|no_rope_layer|interleave_moe_layer)_?"
        r"(period|interval|layers|size|step)?",
        2,
        "every second layer",
    ),
    Rule(r"(attn|expert)_layer_offset", 1, "from the second layer on"),
    # Towers for images and sounds, which the audit does not use
    Rule(r"num_mel_bins", 16, "of a tower for sound"),
    Rule(r"prompt_length", 4, "of a prefix"),
    Rule(r"depth", 1, "of a tower for images"),
    Rule(r"image_size", 28, "two patches of 14"),
    Rule(r"rel_extent", 64, "distances that a learned profile knows"),
)

_COMPILED = tuple((re.compile(rule.names), rule) for rule in RULES)
# Sizes that a class leaves open (None) and computes from others, which would then be too large
OPEN = re.compile(r".*(index_topk|experts|head_dim|_head|n_inner|rank).*")
COUNT_OF_LAYERS = re.compile(r"num_hidden_layers|n_layers?|num_layers|decoder_layers|num_decoder_layers|num_blocks")
KEY_HEADS = re.compile(r"num_key_value_heads|num_kv_heads|swa_num_key_value_heads")
HEAD_WIDTHS = re.compile(r"(v_|qk_rope_|qk_nope_)?head_dim|kv_channels|rotary_dim|d_kv|attention_head_dim")
TABLE_ROWS = re.compile(r"max_position_embeddings|original_max_position_embeddings|model_max_length|max_seq_len")


def rule(name: str) -> Rule | None:
    """The first rule for a field of that name.

    Example:
        >>> rule("num_key_value_heads").value
        2
        >>> rule("mask_token_id").value is None
        True
    """
    return next((row for pattern, row in _COMPILED if pattern.fullmatch(name)), None)
