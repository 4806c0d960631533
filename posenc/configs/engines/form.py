"""What is handed out: the settings of one engine, and those of all."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posenc.configs.engines.known import VERSIONS
from posenc.configs.printable import in_json, printable
from posenc.configs.remarks import Patch

TITLES = {
    "transformers": "transformers 5",
    "transformers4": "transformers 4",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "gguf": "GGUF keys",
    "ollama": "Ollama",
    "mlx": "MLX",
}
"""Engines by the name that `settings` and the command line give them, with what people call them."""

WIDTH = 88


@dataclass(frozen=True, repr=False)
class Form:
    """The settings of one engine, as text to paste.

    Args:
        engine: One of `TITLES`.
        text: What to paste: JSON for a config.json, a command's flags, or a Modelfile.
        patch: For a config.json: the JSON merge patch that makes the settings of the file those of this engine.
        flags: The flags as a list of arguments, for a shell that quotes them by itself.
        keys: Metadata of a GGUF file, by key.
        tensors: Tensors that a GGUF file needs beside its keys, as lists.
        missing: What the engine can't be told in this form: what, why, and what to do instead; one sentence each.
        notes: What else one should know.
        tried: Whether the form was given to the engine itself, and how.

    Example:
        >>> from posenc.configs import settings
        >>> llama = {"model_type": "llama", "head_dim": 128, "num_hidden_layers": 2, "rope_theta": 1e4,
        ...          "max_position_embeddings": 8192, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
        >>> settings(llama)["llama.cpp"].flags[:6]
        ('--rope-freq-base', '10000', '--rope-scaling', 'linear', '--rope-scale', '2')
    """

    engine: str
    text: str
    patch: Patch | None = None
    flags: tuple[str, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tried: str = ""

    @property
    def exact(self) -> bool:
        """Whether the engine, told so, rotates as the configuration says."""
        return not self.missing

    @property
    def version(self) -> str:
        """The version of the engine whose source was read."""
        return VERSIONS[self.engine]

    def to_dict(self) -> dict[str, Any]:
        """All of it as strings, lists and dicts, for JSON.

        Returns:
            A new dict.
        """
        return {
            "engine": TITLES[self.engine],
            "version": self.version,
            "exact": self.exact,
            "text": self.text,
            "patch": self.patch,
            "flags": list(self.flags),
            "keys": dict(self.keys),
            "tensors": {name: list(values) for name, values in self.tensors.items()},
            "missing": list(self.missing),
            "notes": list(self.notes),
            "tried": self.tried,
        }

    def __str__(self) -> str:
        lines = [f"{TITLES[self.engine]} ({self.version})", *("    " + line for line in self.text.splitlines())]
        for name, sentences in (("can't say", self.missing), ("note", self.notes), ("tried", (self.tried,))):
            for sentence in filter(None, sentences):
                lines += textwrap.wrap(f"  {name}: {sentence}", WIDTH, subsequent_indent="    ", break_long_words=False)
        return printable("\n".join(lines))

    __repr__ = __str__


class Settings(Mapping[str, Form]):
    """The settings of all engines, by name; printed, all of them as text.

    Args:
        forms: One for each engine.

    Example:
        >>> from posenc.configs import published, settings
        >>> print(settings(published()["mistralai/Mistral-7B-v0.1"]["config"])["ollama"].text.splitlines()[-1])
        PARAMETER num_ctx 32768
    """

    def __init__(self, forms: Mapping[str, Form]) -> None:
        self._forms = dict(forms)

    def __getitem__(self, engine: str) -> Form:
        if engine not in self._forms:
            raise KeyError(f"engine is {engine!r}: use one of {', '.join(map(repr, self._forms))}")
        return self._forms[engine]

    def __iter__(self) -> Iterator[str]:
        return iter(self._forms)

    def __len__(self) -> int:
        return len(self._forms)

    def to_json(self) -> str:
        """All forms as JSON.

        Returns:
            A string.
        """
        return in_json(json.dumps({name: form.to_dict() for name, form in self.items()}, indent=1, allow_nan=False))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.values()))

    __repr__ = __str__


def number(value: float) -> str:
    """A number for a flag: whole where it is, and exact otherwise.

    Example:
        >>> number(4.0), number(1e6), number(0.1)
        ('4', '1000000', '0.1')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def shell(start: Sequence[str], flags: Sequence[str] = ()) -> str:
    """A command for a POSIX shell, with each flag and its value on a line.

    Example:
        >>> print(shell(["vllm", "serve", "MODEL"], ["--hf-overrides", '{"a": 1}', "--max-model-len", "8"]))
        vllm serve MODEL \\
          --hf-overrides '{"a": 1}' \\
          --max-model-len 8
    """
    pairs = [shlex.join(flags[n : n + 2]) for n in range(0, len(flags), 2)]
    return " \\\n  ".join([shlex.join(start), *pairs])


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON that a terminal may show."""
    return in_json(json.dumps(value, indent=indent, allow_nan=False))
