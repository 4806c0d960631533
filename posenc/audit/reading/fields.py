"""From a file, a folder, a dict or a configuration object to fields that can be trusted to be numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INNER = ("text_config", "llm_config", "language_config", "thinker_config", "talker_config", "decoder")
"""Where models of several modalities keep the part that reads text."""

HIDDEN = ("hidden_size", "n_embd", "d_model", "embed_dim")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers")
HEADS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
    "num_decoder_attention_heads", "attention_heads",
)  # fmt: skip
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_query_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "attention_head_size", "d_head", "dim_head", "d_kv")
CONTEXT = (
    "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "max_target_positions",
    "model_max_length", "seq_length", "n_ctx",
)  # fmt: skip
WINDOW = (
    "sliding_window", "sliding_window_size", "attention_window_size", "window_size", "local_attention",
    "attention_chunk_size", "local_attn_chunk_length",
)  # fmt: skip


class Fields:
    """The fields of one configuration, the text part alone, with checks of what they hold.

    Args:
        found: The fields.
        source: What a message calls the file.
        outer: The fields around the text part, if there are several parts.
        part: The name of the text part, or "".
    """

    def __init__(
        self, found: Mapping[str, Any], source: str, outer: Mapping[str, Any] | None = None, part: str = ""
    ) -> None:
        self.all, self.source, self.outer, self.part = found, source, outer or {}, part

    @property
    def model_type(self) -> str:
        own, outer = self.all.get("model_type"), self.outer.get("model_type")
        return next((one for one in (own, outer) if isinstance(one, str) and one), "")

    def get(self, *names: str) -> Any:
        """The first of these fields that is there and not null."""
        return next((self.all[name] for name in names if self.all.get(name) is not None), None)

    def name(self, *names: str) -> str:
        """Which of these fields `get` takes, or ""."""
        return next((name for name in names if self.all.get(name) is not None), "")

    def number(self, *names: str) -> float | None:
        """The first of these fields, which must be a finite number."""
        return number(self.get(*names), self.name(*names), self.source)

    def whole(self, *names: str, least: int = 1) -> int | None:
        """The first of these fields, which must be a whole number of at least `least`."""
        return whole(self.get(*names), self.name(*names), self.source, least)

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that holds further fields; empty where it is missing or null."""
        found = self.all.get(name)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            raise ValueError(f"{name} in {self.source} is {found!r}, but it holds fields by name: write an object")
        return found

    def sequence(self, name: str) -> list[Any] | None:
        """A field that holds one entry for each layer."""
        found = self.all.get(name)
        if found is None or isinstance(found, str):
            return None
        if not isinstance(found, list | tuple):
            raise ValueError(f"{name} in {self.source} is {found!r}, but it has one entry for each layer: write a list")
        return list(found)


def number(value: Any, name: str, source: str) -> float | None:
    """A finite number, or None for None.

    Raises:
        ValueError: If it is a string, a truth value, a list, or not finite.

    Example:
        >>> number("10000", "rope_theta", "config.json")
        Traceback (most recent call last):
        ValueError: rope_theta in config.json is '10000', a string: write the number without quotes
    """
    if value is None:
        return None
    if isinstance(value, str):
        raise ValueError(f"{name} in {source} is {value!r}, a string: write the number without quotes")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} in {source} is {value!r}, but it is a number: write one")
    if not math.isfinite(value):
        raise ValueError(f"{name} in {source} is {value}, which is no length, base or factor: write a finite number")
    return value


def whole(value: Any, name: str, source: str, least: int = 1) -> int | None:
    """A whole number of at least `least`, or None for None."""
    found = number(value, name, source)
    if found is None:
        return None
    if found != int(found) or found < least:
        raise ValueError(f"{name} in {source} is {value!r}, but it counts: write a whole number of at least {least}")
    return int(found)


def load(config: Any) -> Fields:
    """The fields of the part that reads text.

    Args:
        config: A path of a config.json or of the folder that holds it, a mapping, or an object with `to_dict()`.

    Raises:
        FileNotFoundError: If there is no such file, or the folder holds no config.json.
        ValueError: If the file is not JSON, or does not hold an object.
        TypeError: If the argument is none of these.
    """
    if hasattr(config, "to_dict") and not isinstance(config, Mapping):
        return _text(config.to_dict(), type(config).__name__)
    if isinstance(config, Mapping):
        return _text(config, "the configuration")
    if not isinstance(config, str | Path):
        raise TypeError(f"config is a {type(config).__name__}: pass a folder, a config.json, a dict or a configuration")
    path = Path(config).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise FileNotFoundError(f"{path} has no config.json: pass the folder of a model, or the file itself")
        path = path / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}: pass a folder with a config.json, or the file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: pass a config.json") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error.msg} in line {error.lineno}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}, but a configuration is an object: pass a config.json")
    return _text(found, str(path))


def _text(found: Mapping[str, Any], source: str) -> Fields:
    """The innermost part that reads text. `decoder` counts only where no layers stand beside it."""
    outer = found
    parts: list[str] = []
    while True:
        names = [name for name in INNER if isinstance(found.get(name), Mapping) and found[name]]
        if any(name in found for name in LAYERS):
            names = [name for name in names if name in ("text_config", "llm_config", "language_config")]
        if not names:
            return Fields(found, source, outer if parts else None, ".".join(parts))
        parts.append(names[0])
        found = found[names[0]]
