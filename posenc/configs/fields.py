"""From a file, a folder, a dict or a configuration object to fields that can be trusted to be numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.configs.remarks import Path as Where
from posenc.configs.remarks import Unreadable, dotted, patch, plain, shown

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
BASE = ("rope_theta", "rotary_emb_base", "default_theta")
SHARE = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")

MOST_LAYERS, MOST_CHANNELS, MOST_TOKENS = 100_000, 65_536, 10**9
"""Sizes beyond which a configuration is refused: reading it would take all memory, or for ever."""

LARGEST, SMALLEST = 1e30, 1e-30
"""Between these a number may lie, unless it is 0: no base, factor or length is beyond them."""

DEEPEST = 8


class Fields:
    """The fields of one configuration, the text part alone, with checks of what they hold.

    Args:
        raw: The fields, as the file has them.
        source: What a message calls the file.
        outer: The fields around the text part, if there are several parts.
        part: Where the text part stands in the file: names with dots between them, or "".
    """

    def __init__(
        self, raw: Mapping[str, Any], source: str, outer: Mapping[str, Any] | None = None, part: str = ""
    ) -> None:
        self.all, self.source, self.outer, self.part = raw, source, outer or {}, part

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

    def where(self, *names: str) -> Where:
        """The way to a field from the top of the file, through the part that reads text."""
        return (*filter(None, self.part.split(".")), *names)

    def number(self, *names: str) -> float | None:
        """The first of these fields, which must be a finite number."""
        return number(self.get(*names), self.where(self.name(*names)), self.source)

    def whole(self, *names: str, least: int = 1, most: int = MOST_TOKENS) -> int | None:
        """The first of these fields, which must be a whole number from `least` to `most`."""
        return whole(self.get(*names), self.where(self.name(*names)), self.source, least, most)

    def count(self) -> int | None:
        """How many layers there are."""
        return self.whole(*LAYERS, most=MOST_LAYERS)

    def heads(self) -> int | None:
        """How many query heads a layer has."""
        return self.whole(*HEADS, most=MOST_CHANNELS)

    def context(self) -> int | None:
        """How many tokens a text may have."""
        value = self.get(*CONTEXT)
        endless = isinstance(value, int | float) and not isinstance(value, bool) and 1e29 < value < 1.1e30
        return None if endless else self.whole(*CONTEXT)  # 10^30 is a tokenizer's word for "no limit"

    def flag(self, name: str) -> bool:
        """A field that is true or false; false where it is missing."""
        value = self.all.get(name)
        if value is None or isinstance(value, bool | int):
            return bool(value)
        raise Unreadable(
            "no-flag",
            f"{self.at(name)} is {shown(value)}: write true or false",
            patch(self.where(name), True),
            patch(self.where(name), False),
        )

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that holds further fields; empty where it is missing or null."""
        value = self.all.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise Unreadable(
                "no-object",
                f"{self.at(name)} is {shown(value)}, but it holds fields by name: write an object, or null",
                patch(self.where(name), None),
            )
        return value

    def sequence(self, name: str, most: int = MOST_LAYERS) -> list[Any] | None:
        """A field that holds one entry for each layer."""
        value = self.all.get(name)
        if value is None or isinstance(value, str):
            return None
        if not isinstance(value, list | tuple):
            raise Unreadable(
                "no-list",
                f"{self.at(name)} is {shown(value)}, but it has one entry for each layer: write a list, or leave it "
                f"out",
                patch(self.where(name), None),
            )
        if len(value) > most:
            raise Unreadable(
                "long-list",
                f"{self.at(name)} has {len(value)} entries, but no more than {most} are read: write one entry for "
                f"each layer",
                patch(self.where(name), None),
            )
        return list(value)

    def wholes(self, name: str) -> list[int] | None:
        """A field that holds whole numbers, one for each layer or the layers that it is for."""
        values = self.sequence(name)
        if values is None:
            return None
        return [whole(each, self.where(name, f"[{n}]"), self.source, 0) or 0 for n, each in enumerate(values)]

    def at(self, *names: str) -> str:
        """A field and its file, for messages."""
        return f"{dotted(self.where(*names))} in {self.source}"


def number(value: Any, where: Where | str, source: str) -> float | None:
    """A finite number, or None for None.

    Raises:
        ValueError: If it is a string, a truth value, a list, not finite, or larger than any number of a configuration.

    Example:
        >>> number("1e4", "rope_theta", "it")
        Traceback (most recent call last):
        posenc.configs.remarks.Unreadable: rope_theta in it is '1e4', a string: write the number without quotes
    """
    if value is None:
        return None
    where = (where,) if isinstance(where, str) else where
    at = f"{dotted(where)} in {source}"
    if isinstance(value, str):
        raise Unreadable(
            "quoted", f"{at} is {shown(value)}, a string: write the number without quotes", patch(where, _number(value))
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable("no-number", f"{at} is {shown(value)}: write a number", patch(where))
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(
            "not-finite", f"{at} is {value}, which is no length, base or factor: write a finite number", patch(where)
        )
    if abs(value) > LARGEST or 0 < abs(value) < SMALLEST:
        raise Unreadable(
            "no-size",
            f"{at} is {shown(value)}, which is no length, base or factor: write a number between {SMALLEST:g} and "
            f"{LARGEST:g}",
            patch(where),
        )
    return value


def _number(value: str) -> Any:
    """The number that a string holds, or a question mark."""
    try:
        number = float(value)
        return "?" if not math.isfinite(number) else int(number) if number == int(number) else number
    except ValueError:
        return "?"


def whole(value: Any, where: Where | str, source: str, least: int = 1, most: int = MOST_TOKENS) -> int | None:
    """A whole number from `least` to `most`, or None for None."""
    rounded = number(value, where, source)
    if rounded is None:
        return None
    where = (where,) if isinstance(where, str) else where
    at = f"{dotted(where)} in {source}"
    if rounded != int(rounded) or rounded < least:
        raise Unreadable(
            "not-whole",
            f"{at} is {shown(value)}: write a whole number of at least {least}",
            patch(where),
        )
    if rounded > most:
        raise Unreadable(
            "too-large",
            f"{at} is {shown(value)}, but no more than {most} are read: write a whole number up to that",
            patch(where),
        )
    return int(rounded)


def load(config: Any) -> Fields:
    """The fields of the part that reads text.

    Args:
        config: A path of a config.json or of the folder that holds it, a mapping, an object with `to_dict()`, or one
            whose attributes are the fields.

    Raises:
        FileNotFoundError: If there is no such file, or the folder holds no config.json.
        ValueError: If the file is not JSON, or does not hold an object.
        TypeError: If the argument is none of these.
    """
    if isinstance(config, Mapping):
        return _text(config, "the configuration")
    if isinstance(config, str | Path):
        return _file(Path(config).expanduser())
    raw = None if isinstance(config, type) else _fields_of(config)
    if raw is None:
        raise TypeError(f"config is a {type(config).__name__}: pass a folder, a config.json, a dict or a configuration")
    return _text(raw, type(config).__name__ if hasattr(config, "to_dict") else "the configuration")


def _file(path: Path) -> Fields:
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise FileNotFoundError(f"{plain(path)} has no config.json: pass the folder of a model, or the file itself")
        path = path / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file or folder {plain(path)}: pass a folder with a config.json, or the file"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{plain(path)} is not text in UTF-8: pass a config.json") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{plain(path)} is not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise ValueError(f"{plain(path)} is nested too deeply to be a configuration: pass a config.json") from None
    except ValueError:  # a number of thousands of digits
        raise ValueError(f"{plain(path)} holds a number with too many digits: pass a config.json") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{plain(path)} holds a {type(content).__name__}, but a configuration is an object: pass a config.json"
        )
    return _text(content, plain(path))


def _fields_of(config: Any) -> Mapping[str, Any] | None:
    """The fields of an object: what its `to_dict` returns, or its attributes if they are those of a configuration."""
    if callable(getattr(config, "to_dict", None)):
        content = config.to_dict()
        return content if isinstance(content, Mapping) else None
    names = [name for name in dir(config) if not name.startswith("_")]
    known = {"model_type", "text_config", "rope_scaling", "rope_parameters", *BASE, *HIDDEN, *LAYERS, *HEADS, *HEAD_DIM}
    if not known & set(names):
        return None
    values = {name: getattr(config, name, None) for name in names}
    return {name: value for name, value in values.items() if not callable(value)}


def _text(raw: Mapping[str, Any], source: str) -> Fields:
    """The innermost part that reads text. `decoder` counts only where no layers stand beside it."""
    outer = raw
    parts: list[str] = []
    while True:
        names = [name for name in INNER if isinstance(raw.get(name), Mapping) and raw[name]]
        if any(name in raw for name in LAYERS):
            names = [name for name in names if name in ("text_config", "llm_config", "language_config")]
        if not names:
            return Fields(raw, source, outer if parts else None, ".".join(parts))
        if len(parts) == DEEPEST:
            raise ValueError(f"{source} has {names[0]} inside {'.'.join(parts)}, more than {DEEPEST} deep: flatten it")
        parts.append(names[0])
        raw = raw[names[0]]
