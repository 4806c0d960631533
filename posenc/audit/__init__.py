"""The audit: questions that find positional bugs in anybody's model, seen from outside.

Tokens, positions, mask and cache go in, and logits come out. Most questions compare two ways to the same logits: with a
cache and without, padded and not, beside other texts and alone. `python -m posenc.audit --help` has a command.

A name is imported when it is first used, so that `read_config` needs the standard library alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.audit.adapter import Adapter, Refused
    from posenc.audit.called import adapt
    from posenc.audit.report import Report
    from posenc.audit.run import audit
    from posenc.audit.verdict import Finding, Verdict
    from posenc.configs import Reading, read_config

__all__ = ["Adapter", "Finding", "Reading", "Refused", "Report", "Verdict", "adapt", "audit", "read_config"]

_HOME = {
    "Adapter": "posenc.audit.adapter", "Refused": "posenc.audit.adapter", "adapt": "posenc.audit.called",
    "Report": "posenc.audit.report", "audit": "posenc.audit.run", "Finding": "posenc.audit.verdict",
    "Verdict": "posenc.audit.verdict", "Reading": "posenc.configs", "read_config": "posenc.configs",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
        return value
    raise AttributeError(f"module 'posenc.audit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
