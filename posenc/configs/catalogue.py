"""Configurations of published models, with where each was read."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).parent / "published.json"


@cache
def _published() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return models


def published() -> dict[str, dict[str, Any]]:
    """The positional fields of published configurations, by the name of the model on the Hugging Face Hub.

    Returns:
        For each model "source", where its config.json was read, and "config", the fields. Other fields are left out.

    Example:
        >>> from posenc.configs import read_config
        >>> print(read_config(published()["meta-llama/Meta-Llama-3.1-8B"]["config"]).rotations[""].never_turned)
        29
    """
    return {name: dict(one) for name, one in _published().items()}
