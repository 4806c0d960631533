"""What engines know of a model type, read from their sources; the versions stand in `VERSIONS`.

llama.cpp was read at commit 0c1e570 (as llama-cpp-python 0.3.36 ships it), with gguf-py 0.19.0 beside it; the others as
their packages are. What is not in these tables is not known here, and a form says so.
"""

from __future__ import annotations

from posenc.configs.tables import words

VERSIONS = {
    "transformers": "5.23",
    "transformers4": "4.57.6",
    "vllm": "0.33.0",
    "sglang": "0.5.23",
    "llama.cpp": "commit 0c1e570",
    "gguf": "0.19.0",
    "ollama": "commit fb30760, with llama.cpp b10488",
    "mlx": "mlx-lm 0.32.2",
}
"""The version of each engine that was read."""

SINCE_5: frozenset[str] = words("""
    afmoe axk1 axk2 bailing_hybrid beam cohere2_moe cohere_compass_text cwm deepseek_v32 deepseek_v4 dots3_note
    dots3_note_text esmc eurobert exaone_moe flint gemma4 gemma4_text gemma4_unified gemma4_unified_text glm4_moe_lite
    glm_moe_dsa granite_swa granitemoe_swa gte hrm_text hy_v3 hy_v4 hyperclovax inkling2_text inkling_text internlm3
    iquestcoder jais2 jina_embeddings_v3 kimi_linear kolibri1 laguna lfm2_moe lfm3 mellum mimo_v2_flash minicpm3
    minimax_m2 minimax_m3_vl_text ministral3 modernvbert moss_transcribe_diarize nanochat nemotron_h neomme nomic_bert
    olmo_hybrid qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp qwen4_exp_text solar_open ultrabert
    ultravbert youtu zaya
""")
"""Language models of transformers 5.23 that its last version 4 does not have."""

OLD_NAMES = {"gpt_neox": ("rotary_emb_base", "rotary_pct")}
"""Where a class of transformers 4 had the base and the share of a head under other names."""

UNSCALED = words("gptj codegen")
"""Classes of transformers that take `rotary_dim` alone: their base is 10000, and nothing scales it."""

ARCHITECTURES: dict[str, str] = {
    "afmoe": "afmoe", "apertus": "apertus", "arcee": "arcee", "bamba": "granitehybrid", "bitnet": "bitnet",
    "cohere": "command-r", "cohere2": "cohere2", "cohere2_moe": "cohere2moe", "dbrx": "dbrx",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2", "deepseek_v32": "deepseek32", "deepseek_v4": "deepseek4", "dots1": "dots1",
    "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe", "exaone4": "exaone4", "exaone_moe": "exaone-moe",
    "falcon": "falcon", "falcon_h1": "falcon-h1", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3",
    "gemma3_text": "gemma3", "gemma3n": "gemma3n", "gemma3n_text": "gemma3n", "gemma4": "gemma4",
    "gemma4_text": "gemma4", "gemma4_unified": "gemma4", "glm": "chatglm", "glm4": "glm4", "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2", "glm_moe_dsa": "glm-dsa", "gpt_neox": "gptneox", "gpt_oss": "gpt-oss",
    "granite": "granite", "granitemoe": "granitemoe", "granitemoehybrid": "granitehybrid",
    "granitemoeshared": "granitemoe", "hunyuan_v1_dense": "hunyuan-dense", "hunyuan_v1_moe": "hunyuan-moe",
    "internlm3": "llama", "iquestcoder": "llama", "jais2": "jais2", "kimi_k2": "deepseek2",
    "kimi_linear": "kimi-linear", "laguna": "laguna", "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "llama": "llama",
    "llama4": "llama4", "llama4_text": "llama4", "mellum": "mellum", "mimo_v2_flash": "mimo2", "minicpm3": "minicpm3",
    "minimax_m2": "minimax-m2", "minimax_m3": "minimax-m3", "ministral3": "mistral3", "mistral": "llama",
    "mixtral": "llama", "nemotron": "nemotron", "olmo": "olmo", "olmo2": "olmo2", "olmo3": "olmo2", "olmoe": "olmoe",
    "phi": "phi2", "phi-msft": "phi2", "phi3": "phi3", "qwen2": "qwen2", "qwen2_moe": "qwen2moe", "qwen3": "qwen3",
    "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_5_moe_text": "qwen35moe", "qwen3_5_text": "qwen35",
    "qwen3_moe": "qwen3moe", "qwen3_next": "qwen3next", "RefinedWeb": "falcon", "RefinedWebModel": "falcon",
    "seed_oss": "seed_oss", "smollm3": "smollm3", "solar_open": "glm4moe", "stablelm": "stablelm",
    "starcoder2": "starcoder2", "youtu": "deepseek2",
}  # fmt: skip
"""What llama.cpp calls the architecture of a model type (conversion/, `model_arch`)."""

READ_DIVISORS = words("""
    apertus arcee cogvlm deci exaone exaone-moe exaone4 falcon-h1 gemma4 granite granitehybrid granitemoe llada llama
    llama4 minicpm mistral3 pangu-embed refact step35
""")
"""Architectures whose loader takes `rope_freqs.weight`, a divisor for each plane (src/models/)."""

READ_LONG_FACTORS = words("""
    apertus deci granite granitemoe llama minicpm minicpm3 mistral3 pangu-embed phi3 phimoe refact step35
""")
"""Architectures whose loader takes `rope_factors_long.weight` and `rope_factors_short.weight`."""

READ_LOCAL_BASE = words("""
    afmoe cohere2 cohere2moe exaone-moe exaone4 gemma2 gemma3 gemma3n gemma4 gpt-oss laguna llama4 mellum mimo2 olmo2
    plamo3 smallthinker step35
""")
"""Architectures that read `rope.freq_base_swa`."""

READ_RAMP = words("grok mistral3")
"""Architectures that read `rope.scaling.yarn_beta_fast` and its siblings, though the converter writes them for all."""

WHOLE_ROPE_POSITIONS = words("""
    qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text qwen3_vl_text qwen3_vl_moe_text qwen4_exp qwen4_exp_text
""")
"""Model types with `mrope_section` whose classes in vLLM keep the trained length as it is (`positions_factor=1`)."""

WHOLE_HEADS = words("llama deci falcon")
"""Architectures that refuse a `rope.dimension_count` below the size of a head (src/llama-model.cpp)."""

LOG_MULTIPLIER = words("deepseek2 deepseek32 mistral3")
"""Architectures that read `rope.scaling.yarn_log_multiplier`, made of `mscale_all_dim`."""

MLX_CALLED = {
    "mistral": "llama", "phi-msft": "phixtral", "kimi_k2": "deepseek_v3", "minimax_m2": "minimax",
    "iquestcoder": "llama", "smollm3": "llama", "llama4_text": "llama4", "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text", "qwen3_5_text": "qwen3_5", "qwen3_5_moe": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5",
}  # fmt: skip
"""Model types that a class of another name serves in mlx-lm: its `MODEL_REMAPPING`, and classes that build on
others."""

MLX_SCALES = words("""
    afmoe apertus bailing_hybrid bailing_moe bailing_moe_linear bitnet deepseek_v2 deepseek_v3 deepseek_v32 dots1
    exaone exaone4 exaone_moe falcon_h1 gemma3_text gemma4_text glm4_moe_lite glm_moe_dsa gpt_oss granite
    granitemoe granitemoehybrid internlm2 internlm3 iquestloopcoder laguna llama llama4 longcat_flash mellum mimo
    minicpm minicpm3 ministral3 nemotron-nas olmo2 olmo3 olmoe phi3 phimoe qwen2 qwen3 qwen3_5 qwen3_next seed_oss
    step3p5 telechat3 youtu_llm
""")
"""Classes of mlx-lm that hand `rope_scaling`, or `rope_parameters`, to `initialize_rope`."""

MLX_PLAIN = words("""
    afm7 baichuan_m1 cohere cohere2 dbrx deepseek ernie4_5 ernie4_5_moe gemma gemma2 gemma3n glm glm4 glm4_moe
    gpt_neox gptj helium hunyuan hunyuan_v1_dense Klear lfm2 lfm2_moe llama4_text mimo_v2_flash minimax mistral4
    mixtral nemotron olmo olmo_hybrid openelm phi phi3small phixtral plamo plamo2 plamo3 qwen qwen2_moe qwen3_moe
    recurrent_gemma stablelm starcoder2
""")
"""Classes of mlx-lm that rotate by the base alone, whatever `rope_scaling` says."""

MLX_PARAMETERS = words("""
    exaone_moe gemma4_text glm_moe_dsa laguna lfm2 lfm2_moe mellum ministral3 mistral4 olmo_hybrid qwen3_5
""")
"""Classes of mlx-lm that read `rope_parameters`, as transformers 5 has them."""

MLX_SHARES = words("""
    bailing_hybrid bailing_moe bailing_moe_linear gemma4_text glm4 glm4_moe glm4_moe_lite gpt_neox gptj laguna
    mimo_v2_flash minimax nemotron phi phi3 phixtral qwen3_5 qwen3_next stablelm step3p5
""")
"""Classes of mlx-lm that read which share of a head rotates."""
