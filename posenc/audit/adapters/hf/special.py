"""The few architectures that rules by name do not reach, and what they need.

`default` are keywords without which the class of the configuration cannot be made; `small` are sizes and lists that
hang together in a way no rule can know; `switch` is the only shape to try.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Special:
    """What one architecture needs besides the rules."""

    why: str
    small: dict[str, Any] = field(default_factory=dict)
    default: dict[str, Any] = field(default_factory=dict)
    switch: dict[str, Any] | None = None


_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
_INDEX = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16,
    "indexer_compress_ratio": 4, "ngram_vocab_size_base": 99,
}  # fmt: skip
_FOUR = ["linear_attention", "hybrid", "linear_attention", "hybrid"]

SPECIAL = {
    "bamba": Special("names the layers with attention by number", {"attn_layer_indices": [1]}),
    "cohere_compass_text": Special(
        "has no rotary parameters by default",
        default={"rope_parameters": {"full_attention": _SECTIONS, "sliding_attention": _SECTIONS}},
    ),
    "led": Special("has a window for each layer", {"attention_window": 8}),
    "longformer": Special("has a window for each layer", {"attention_window": 8}),
    "esm": Special("leaves its tokens open", {"vocab_size": 99, "pad_token_id": 0, "mask_token_id": 98}),
    "layoutlmv3": Special("puts its width together from those of boxes", {"coordinate_size": 12, "shape_size": 8}),
    "lilt": Special("has boxes of six coordinates, which share its width", {"hidden_size": 96}),
    "distilbert": Special("calls its width dim", {"dim": 64, "hidden_dim": 96}),
    "moonshine_streaming": Special("reads heads of keys from a field that it lacks", {"num_key_value_heads": 4}),
    "dbrx": Special(
        "cannot be made by default: rope_theta of the attention has no value",
        {"attn_config": {"kv_n_heads": 2}},
        default={"attn_config": {"rope_theta": 500000.0, "kv_n_heads": 2, "clip_qkv": 8.0}},
    ),
    "granitemoehybrid": Special(
        "has no layer with attention by default",
        default={"layer_types": ["mamba", "attention"] * 16},
    ),
    "lfm2_moe": Special(
        "has no list of kinds by default", default={"layer_types": ["conv", "full_attention"] * 16}
    ),
    "mamba2": Special("has heads of a state under the name of attention's", {"num_heads": 8}),
    "qwen4_exp": Special("has an index whose sizes hang together", {"text_config": _INDEX}),
    "qwen4_exp_text": Special("has an index whose sizes hang together", _INDEX),
    "reformer": Special(
        "has a table in two factors, and chunks",
        {
            "axial_pos_embds_dim": (32, 32), "axial_pos_shape": (16, 16), "attn_layers": ["local", "local"],
            "num_hidden_layers": 2, "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8,
        },
    ),
    "xlstm": Special("has a state whose width follows from factors",
                     {"num_heads": 4, "qk_dim_factor": 1.0, "v_dim_factor": 1.0, "chunk_size": 16}),
    "xmod": Special("answers only in a language that was chosen", {"default_language": "en_XX"}),
    "zamba": Special(
        "shares one block of attention among layers, at twice the width",
        {
            "attn_layer_period": 2, "attn_layer_offset": 1, "attention_hidden_size": 128, "attention_head_dim": 32,
            "num_hidden_layers": 4, "layers_block_type": _FOUR, "num_attention_heads": 4, "num_key_value_heads": 4,
        },
        switch={"lists": False},
    ),
    "zamba2": Special(
        "shares one block of attention among layers, at twice the width",
        {
            "n_mamba_heads": 8, "mamba_headdim": 16, "mamba_expand": 2, "mamba_ngroups": 1, "num_key_value_heads": 4,
            "attention_hidden_size": 128, "attention_head_dim": 32,
        },
    ),
    "zaya": Special("its router knows one expert for each token", {"num_experts_per_tok": 1}),
}  # fmt: skip

# What an audit of a text model cannot ask, and why
NOT_ASKED = {
    "blt": "reads bytes in patches, and its configuration has no number of layers for a cache",
    "dots3_note": "its parts for images and text must agree in width",
    "gemma3n": "its part for images needs the library timm",
    "gemma4_assistant": "a draft model, without keys of its own",
    "gemma4_unified_assistant": "a draft model, without keys of its own",
    "musicgen": "streams of sound",
    "musicgen_melody": "streams of sound",
}

# Encoders of texts that are no masked language models: the model type by class
BARE = {
    "AltCLIPTextModel": "altclip_text_model", "BertForSequenceClassification": "bert", "BertModel": "bert",
    "BlipTextModel": "blip_text_model", "CLIPTextModel": "clip_text_model", "ChineseCLIPTextModel":
    "chinese_clip_text_model", "ClapTextModel": "clap_text_model", "EmbeddingGemma2TextModel":
    "embedding_gemma2_text", "FlavaTextModel": "flava_text_model", "LayoutLMv3Model": "layoutlmv3", "LiltModel":
    "lilt", "LongT5EncoderModel": "longt5", "MPNetModel": "mpnet", "MT5EncoderModel": "mt5", "MarkupLMModel":
    "markuplm", "ModernBertForTokenClassification": "modernbert", "OpenAIPrivacyFilterModel":
    "openai_privacy_filter", "RobertaForQuestionAnswering": "roberta", "Siglip2TextModel": "siglip2_text_model",
    "SiglipTextModel": "siglip_text_model", "SplinterModel": "splinter", "T5EncoderModel": "t5", "UMT5EncoderModel":
    "umt5", "VisualBertModel": "visual_bert", "XLNetModel": "xlnet",
}  # fmt: skip
COMPOSED = {"encoder-decoder", "speech-encoder-decoder"}  # made of two models that somebody chooses

# A token sees what follows it, though the class is listed among causal language models
TWO_WAY = {
    "cpmant": "a prefix sees itself whole",
    "xlnet": "all tokens see one another unless a permutation is given",
}

# What padding does to a text that no mask undoes
PADS = {
    "convbert": "a convolution reaches from padding into the text",
    "reformer": "the first chunk of a two-way row looks at the last one, where padding takes the place of the text",
    "funnel": "tokens are pooled in pairs, which are counted from the first row, with padding among them",
    "mobilebert": "the embedding of a token has those of its neighbours in it, padding among them",
    "nystromformer": "landmarks are means over parts of the row, with padding among them",
}

IGNORES_MASK = {
    "cpmant": "takes attention_mask for the sake of a pipeline, and does nothing with it",
    "rwkv": "takes attention_mask, and warns that it does nothing with it",
}

MASK_WITHOUT_CACHE = {"git": "widens the mask of a cached call over an image, which a text alone does not have"}

NO_POSITIONS = {"whisper": "position_ids reach its decoder by **kwargs alone, and generate does not know of them"}

# Turns by positions, and yet does not tell packed documents apart by them
NO_PACKING = {"deepseek_v4": "compresses blocks that are counted from the first row of memory"}

SCALES = {
    "beam": "layers without rotation scale queries by (1 + position / 2048) ** 0.1",
    "deepseek_v4": "it compresses blocks that are counted from the first row of memory",
    "ministral3": "llama_4_scaling_beta scales queries by the logarithm of their position",
    "recurrent_gemma": "its state begins anew where a position is 0",
}

# Fields that are read where the tiny model cannot show it
_V4 = "no layer of the tiny model is of that kind, or rope_parameters is given"
READ_ELSEWHERE = {
    ("cpmant", "position_bias_max_distance"): "read at distances beyond 256",
    ("cohere2_moe", "prefix_dense_sliding_window_pattern"): "read where layers are made from patterns",
    ("deepseek_v4", "rope_theta"): _V4,
    ("deepseek_v4", "compress_rope_theta"): _V4,
    ("deepseek_v4", "rope_parameters.main.rope_theta"): _V4,
    (
        "dots3_note_text",
        "rope_parameters.indexed_attention.partial_rotary_factor",
    ): "qk_rope_head_dim is the rotary part",
    ("qwen2_moe", "max_window_layers"): "read where more than one layer in turn has a window",
    ("xlm", "sinusoidal_embeddings"): "read when weights are drawn",
}
