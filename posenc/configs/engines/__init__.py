"""One configuration for every engine: what to write into which file, or after which flag.

`settings` translates and `extended` writes a longer context into a file. `hub` has the forms of a config.json, `ggml`
those of llama.cpp, and `known` what was read in the engines' sources, with their versions. Standard library only.
"""

from __future__ import annotations

from typing import Any

from posenc.configs.engines import ggml, hub
from posenc.configs.engines.extension import extended
from posenc.configs.engines.form import Form, Settings
from posenc.configs.engines.wanted import wanted

FORMS = {
    "transformers": hub.transformers,
    "transformers4": hub.transformers4,
    "vllm": hub.vllm,
    "sglang": hub.sglang,
    "llama.cpp": ggml.flags,
    "gguf": ggml.keys,
    "ollama": ggml.modelfile,
    "mlx": hub.mlx,
}


def settings(config: Any) -> Settings:
    """What to write so that each engine rotates as a configuration says.

    Args:
        config: As `read_config` takes it: a folder, a config.json, a dict, or a configuration object.

    Returns:
        A `Form` for each engine, by name; printed, all of them as text to paste. What an engine can't be told is said
        in `missing`, with the reason and what to do.

    Raises:
        FileNotFoundError, TypeError: As `read_config`.
        ValueError: As `read_config`, and if the model does not rotate.

    Example:
        >>> from posenc.configs import extended, published
        >>> qwen = extended(published()["Qwen/Qwen2-7B"]["config"], "yarn", 4.0)
        >>> " ".join(settings(qwen)["llama.cpp"].flags[2:8])
        '--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768'

    References:
        The sources that were read, with their versions, in `posenc.configs.engines.hub` and `.ggml`.
    """
    model = wanted(config)
    return Settings({name: form(model) for name, form in FORMS.items()})


__all__ = ["Form", "Settings", "extended", "settings"]
