"""What a model type means for its positions where its configuration does not say it.

Everything here is what the classes of transformers 5.23 do; a test compares the defaults with those of the classes.
Where a field says the same thing, the field is read and the table is not.
"""

from __future__ import annotations

from typing import Any


def words(text: str) -> frozenset[str]:
    """The words of a text, as tables of names are written."""
    return frozenset(text.split())


TRANSFORMERS = "5.23"
"""The version of transformers whose classes these tables describe."""

SCHEMES: dict[str, str] = {
    "bloom": "alibi", "mpt": "alibi",
    "codegen": "rope", "flint": "rope", "gptj": "rope", "recurrent_gemma": "rope", "roformer": "rope",
    "ctrl": "sinusoidal", "marian": "sinusoidal", "musicgen": "sinusoidal", "musicgen_decoder": "sinusoidal",
    "musicgen_melody": "sinusoidal", "musicgen_melody_decoder": "sinusoidal", "pegasus": "sinusoidal",
    "xglm": "sinusoidal",
    "cpmant": "t5", "mpnet": "learned and t5", "prophetnet": "learned and t5",
    "inkling_text": "learned_relative", "inkling2_text": "learned_relative",
    "reformer": "axial", "xlnet": "transformer_xl",
    "falcon_mamba": "nope", "jamba": "nope", "kimi_linear": "nope", "mamba": "nope", "mamba2": "nope",
    "nemotron_h": "nope", "rwkv": "nope", "xlstm": "nope", "zamba": "nope",
}  # fmt: skip
"""Schemes of model types whose fields say nothing, or look like those of another scheme."""

BASES: dict[str, float] = {
    "apertus": 12e6, "bailing_hybrid": 6e6, "bitnet": 5e5, "blt": 5e5, "cohere": 5e5, "cwm": 1e6, "ernie4_5": 5e5,
    "ernie4_5_moe": 5e5, "flex_olmo": 5e5, "gpt_oss": 150e3, "helium": 1e5, "hy_v3": 11_158_840.0, "lfm2": 1e6,
    "lfm2_moe": 1e6, "llama4_text": 5e5, "longcat_flash": 1e7, "minimax": 1e6, "minimax_m2": 5e6,
    "minimax_m3_vl_text": 5e6, "ministral3": 1e6, "mixtral": 1e6, "mllama_text_model": 5e5, "phimoe": 1e6,
    "smollm3": 2e6, "solar_open": 1e6, "olmo3": 5e5,
    "emu3_text_model": 1e6, "gte": 160e3, "jina_embeddings_v3": 2e4, "nomic_bert": 1e3,
}  # fmt: skip
"""The base of a model type, where it is not 10000 and the configuration leaves it out."""

ROTATED: dict[str, float] = {
    "bamba": 0.5, "glm": 0.5, "glm4": 0.5, "glm4_moe": 0.5, "gpt_neox": 0.25, "nemotron": 0.5, "persimmon": 0.5,
    "phi": 0.5, "qwen3_5_moe_text": 0.25, "qwen3_5_text": 0.25, "qwen3_next": 0.25, "recurrent_gemma": 0.5,
    "stablelm": 0.25, "mimo_v2_flash": 0.334, "deepseek_v4": 0.125,
}  # fmt: skip
"""The share of a head that rotates, where it is not all and the configuration leaves it out."""

BY_LAYER: dict[str, dict[str, tuple[str, float]]] = {
    "gemma3_text": {"full_attention": ("rope_theta", 1e6), "sliding_attention": ("rope_local_base_freq", 1e4)},
    "gemma3n_text": {"full_attention": ("rope_theta", 1e6), "sliding_attention": ("rope_local_base_freq", 1e4)},
    "modernbert-decoder": {
        "full_attention": ("global_rope_theta", 160e3),
        "sliding_attention": ("local_rope_theta", 1e4),
    },
    "modernbert": {"full_attention": ("global_rope_theta", 160e3), "sliding_attention": ("local_rope_theta", 1e4)},
    "olmo3": {"full_attention": ("rope_theta", 5e5), "sliding_attention": ("rope_theta", 5e5)},
    "mimo_v2_flash": {"full_attention": ("rope_theta", 5e6), "sliding_attention": ("swa_rope_theta", 1e4)},
    "deepseek_v4": {"main": ("rope_theta", 1e4), "compress": ("compress_rope_theta", 160e3)},
}
"""Model types with a rotation for each kind of layer: the field of its base, and its base without one."""

SCALED_LAYERS: dict[str, tuple[str, ...]] = {
    "gemma3_text": ("full_attention",),
    "gemma3n_text": ("full_attention",),
    "olmo3": ("full_attention",),
    "mimo_v2_flash": (),
    "deepseek_v4": ("compress",),
    "modernbert": ("full_attention", "sliding_attention"),
    "modernbert-decoder": ("full_attention", "sliding_attention"),
}
"""Which of them `rope_scaling` beside the bases is for."""

_LLAMA_3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}  # fmt: skip
_GEMMA_4 = {
    "sliding_attention": {"rope_theta": 1e4},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "apertus": {**_LLAMA_3, "rope_theta": 12e6, "factor": 8.0},
    "beam": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": None},
    "cwm": {**_LLAMA_3, "rope_theta": 1e6, "factor": 16.0},
    "dots3_note_text": {
        "sliding_attention": {"rope_theta": 5e4, "partial_rotary_factor": 0.25},
        "indexed_attention": {"rope_theta": 8e7, "partial_rotary_factor": 0.25},
    },
    "gemma4_text": _GEMMA_4, "gemma4_unified_text": _GEMMA_4,
    "gpt_oss": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                "original_max_position_embeddings": 4096, "rope_theta": 150e3},
    "laguna": {
        "full_attention": {"rope_theta": 5e5, "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_theta": 1e4},
    },
    "lfm3": {
        "sliding_attention": {"rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    },
    "mellum": {"full_attention": {"rope_theta": 5e5}, "sliding_attention": {"rope_theta": 1e4}},
    "ministral3": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384,
                   "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0,
                   "llama_4_scaling_beta": 0.1},
    "neomme": {
        "full_attention": {"rope_theta": 1e6, "partial_rotary_factor": 0.25}, "sliding_attention": {"rope_theta": 1e4},
    },
    "ultrabert": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": {"rope_theta": 2_560_000.0}},
    "zaya": {
        "hybrid": {"rope_theta": 5e6, "partial_rotary_factor": 0.5},
        "hybrid_sliding": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
}  # fmt: skip
"""All rope parameters of a model type whose configuration has none, where they are more than a base and a share."""

PATTERNS: dict[str, str] = {
    "afmoe": "sssf", "beam": "sssssf", "cohere2": "sssf", "cohere2_moe": "sssf", "cwm": "fsss", "exaone4": "sssf",
    "exaone_moe": "sssf", "flint": "sfss", "gemma2": "sf", "gemma3_text": "sssssf", "gemma3n_text": "ssssf",
    "gemma4_text": "sssssf", "gemma4_unified_text": "sssssf", "gpt_oss": "sf", "granite_swa": "fsss",
    "granitemoe_swa": "fsss", "kolibri1": "ssssf", "mimo_v2_flash": "sssssf", "modernbert-decoder": "fss",
    "modernbert": "fss", "neomme": "sssssf", "ultrabert": "ssf", "olmo3": "sssf", "vaultgemma": "sf",
    "minimax": "fl", "olmo_hybrid": "lllf",
    "qwen3_5_text": "lllf", "qwen3_5_moe_text": "lllf", "qwen3_next": "lllf", "bailing_hybrid": "lllllf",
    "llama4_text": "cccf", "laguna": "f", "mellum": "f",
}  # fmt: skip
"""The kinds of a model's layers, repeated, where the configuration leaves them out: sliding, full, linear, chunked."""

NEED_LAYER_TYPES = {"deepseek_v4", "dots3_note_text", "lfm3", "qwen4_exp_text"}
"""Model types whose layers follow no pattern that is repeated, so that a configuration without their list is not read
further."""

LAST_FULL = {"beam", "flint", "gemma4_text", "gemma4_unified_text", "neomme"}
"""Model types whose last layer sees everything, whatever the pattern says."""

FIRST_FULL = {"flint", "mimo_v2_flash"}
"""Model types whose first layer sees everything, whatever the pattern says."""

FULL_WITHOUT_ROPE = {"afmoe", "beam", "cohere2", "cohere2_moe", "exaone4", "exaone_moe", "flint", "kolibri1"}
"""Model types whose layers without a window do not rotate."""

ROTATING: frozenset[str] = words("""
    afmoe arcee aria_text axk1 axk2 beam cohere2 cohere2_moe dbrx deepseek_v2 deepseek_v3 deepseek_v32 diffllama doge
    dots1 dots3_note_text emu3_text_model esmc eurobert exaone4 exaone_moe falcon falcon_h1 gemma gemma2 gemma4_text
    gemma4_unified_text glm4_moe_lite glm_moe_dsa gpt_neox_japanese granite granite_swa granitemoe granitemoe_swa
    granitemoeshared hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v4 hyperclovax internlm3 iquestcoder jais2 jetmoe
    kolibri1 laguna lfm3 llama mellum minicpm3 ministral mistral moshi nanochat neomme olmo olmo2 olmo_hybrid olmoe
    phi3 phi4_multimodal qwen2 qwen2_moe qwen3 qwen3_moe qwen4_exp_text seed_oss starcoder2 ultrabert vaultgemma youtu
    zaya kimi_k2 phi-msft RefinedWeb RefinedWebModel
""")
"""Model types that rotate though a configuration may say nothing of it, as that of Llama 2; beside those of `BASES`,
`ROTATED` and `BY_LAYER`."""

BESIDE_WEIGHTS = {"kimi_k2", "phi-msft", "RefinedWeb", "RefinedWebModel"}
"""Model types of `ROTATING` whose code stood beside their weights: Kimi K2, Phi 2 and Falcon as they were first
called."""

LEARNED: frozenset[str] = words("""
    albert bart bert bert-generation big_bird bigbird_pegasus biogpt blenderbot blenderbot-small camembert convbert
    data2vec-text deberta deberta-v2 distilbert electra ernie esm flaubert fnet git gpt2 gpt_bigcode gpt_neo ibert
    layoutlm longformer luke mbart megatron-bert mobilebert mra mvp nystromformer openai-gpt opt perceiver plbart
    rembert roberta roberta-prelayernorm roc_bert squeezebert tapas trocr whisper xlm xlm-roberta xlm-roberta-xl xmod
    yoso
""")
"""Model types whose classes have a table of positions, unless a field says otherwise."""

DISENTANGLED = {"deberta", "deberta-v2"}
"""Model types that learn a vector for each offset if `relative_attention` is true."""

READS_POSITION_TYPE = {"esm"}
"""Model types of `LEARNED` whose classes still read `position_embedding_type`."""

INTERLEAVED = {
    "axk1", "axk2", "bailing_hybrid", "blt", "codegen", "cohere", "cohere2",
    "cohere2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4",
    "dots3_note", "ernie4_5", "ernie4_5_moe", "glm", "glm4", "glm4_moe_lite",
    "glm_moe_dsa", "gptj", "helium", "llama4", "llama4_text", "longcat_flash",
    "mistral4", "mistral_large4", "moonshine", "moonshine_streaming",
    "openai_privacy_filter", "roformer", "youtu",
}  # fmt: skip
"""Model types whose code in transformers 5.23 pairs neighbouring channels."""

INTERLEAVED_BESIDE_WEIGHTS = {"kimi_k2"}
"""Model types whose code stands beside their weights and does: Kimi K2's is that of DeepSeek-V3."""

SCORES_TIMES_MSCALE = {
    "axk1", "axk2", "bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa",
    "hy_v4", "kimi_k2", "longcat_flash", "minicpm3", "mistral4", "youtu",
}  # fmt: skip
"""Model types that multiply all scores by the square of the factor of `mscale_all_dim`."""

POSITION_SCALED = {"ministral3", "mistral4"}
"""Model types that read `llama_4_scaling_beta` of their rope parameters."""

READ_ROTARY_DIM = {"codegen", "gptj", "minimax_m2"}
"""Model types whose classes read `rotary_dim`."""

OFFSET_ROWS: dict[str, int] = {
    "bart": 2, "bigbird_pegasus": 0, "biogpt": 2, "mbart": 2, "mvp": 2, "opt": 2, "plbart": 2, "trocr": 2,
}  # fmt: skip
"""Rows that a table of positions has beyond `max_position_embeddings`, before the row of the first token."""

FROM_PADDING = {
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "longformer",
    "luke",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
}
"""Model types that count positions from `pad_token_id` + 1, and so cannot use the first rows."""

KNOWN_PARTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                    "max_position_embeddings": 131_072, "hidden_size": 2304, "num_hidden_layers": 26},
    "gemma2": {"head_dim": 256}, "gemma": {"head_dim": 256},
    "qwen3": {"head_dim": 128},
    "gptj": {"rotary_dim": 64}, "codegen": {"rotary_dim": 64},
}  # fmt: skip
"""Sizes that a class fills in, of model types whose published files are known to leave them out."""

ENCODERS: frozenset[str] = words("""
    albert convbert deberta deberta-v2 distilbert esm esmc eurobert flaubert fnet funnel gte ibert jina_embeddings_v3
    layoutlm longformer luke mobilebert modernbert modernvbert mpnet mra neomme nomic_bert nystromformer perceiver
    squeezebert tapas ultrabert ultravbert yoso
""")
"""Masked language models of transformers 5.23 that are no causal ones: tokens see both ways, and there is no cache."""

TYPES_OF_5_23: frozenset[str] = ENCODERS | words("""
    afmoe apertus arcee aria_text axk1 axk2 bailing_hybrid bamba bart beam bert bert-generation big_bird
    bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom blt camembert codegen cohere cohere2 cohere2_moe
    cohere_compass_text cpmant ctrl cwm data2vec-text dbrx deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 diffllama
    doge dots1 dots3_note dots3_note_text electra emu3 ernie ernie4_5 ernie4_5_moe exaone4 exaone_moe falcon falcon_h1
    falcon_mamba flex_olmo flint fuyu gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_text
    gemma4_unified gemma4_unified_text git glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa got_ocr2 gpt-sw3 gpt2
    gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe granitemoe_swa
    granitemoehybrid granitemoeshared helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax
    inkling2_text inkling_text internlm3 iquestcoder jais2 jamba jetmoe kimi_linear kolibri1 laguna lfm2 lfm2_moe lfm3
    llama llama4 llama4_text longcat_flash mamba mamba2 marian mbart megatron-bert mellum mimo_v2_flash minicpm3
    minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mixtral mllama modernbert-decoder moshi
    moss_transcribe_diarize mpt musicgen musicgen_melody mvp nanochat nemotron nemotron_h olmo olmo2 olmo3 olmo_hybrid
    olmoe openai-gpt opt pegasus persimmon phi phi3 phi4_multimodal phimoe plbart prophetnet qwen2 qwen2_moe qwen3
    qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen4_exp qwen4_exp_text recurrent_gemma
    reformer rembert roberta roberta-prelayernorm roc_bert roformer rwkv seed_oss smollm3 solar_open stablelm
    starcoder2 trocr vaultgemma whisper xglm xlm xlm-roberta xlm-roberta-xl xlnet xlstm xmod youtu zamba zamba2 zaya
""")
"""Causal and masked language models of transformers 5.23. Others are read by their fields alone, and the reading says
so."""
