"""The audit: questions that find positional bugs in anybody's model, seen from outside.

Tokens, positions, mask and cache go in, and logits come out. Most questions compare two ways to the same logits: with a
cache and without, padded and not, beside other texts and alone. `python -m posenc.audit --help` has a command.

A name is imported when it is first used, so that `read_config` needs the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc._lazy import lazy

if TYPE_CHECKING:
    from posenc.audit.adapters.called import adapt
    from posenc.audit.adapters.protocol import Adapter, Refused
    from posenc.audit.baseline import Changes
    from posenc.audit.comparison.asked import compare
    from posenc.audit.comparison.result import Comparison, Difference
    from posenc.audit.identification.asked import identify
    from posenc.audit.identification.biases import FoundBias
    from posenc.audit.identification.panel import identifier
    from posenc.audit.identification.rotation import FoundRotation
    from posenc.audit.report import Report
    from posenc.audit.run import audit
    from posenc.audit.verdict import Finding, Verdict
    from posenc.configs import Reading, read_config

__all__ = [
    "Adapter", "Changes", "Comparison", "Difference", "Finding", "FoundBias", "FoundRotation", "Reading", "Refused",
    "Report", "Verdict", "adapt", "audit", "compare", "identifier", "identify", "read_config",
]  # fmt: skip

_get, _ = lazy(__name__, {
    "posenc.audit.adapters.called": "adapt", "posenc.audit.adapters.protocol": "Adapter Refused",
    "posenc.audit.baseline": "Changes",
    "posenc.audit.comparison.asked": "compare", "posenc.audit.comparison.result": "Comparison Difference",
    "posenc.audit.identification.asked": "identify", "posenc.audit.identification.biases": "FoundBias",
    "posenc.audit.identification.panel": "identifier",
    "posenc.audit.identification.rotation": "FoundRotation",
    "posenc.audit.report": "Report", "posenc.audit.run": "audit", "posenc.audit.verdict": "Finding Verdict",
    "posenc.configs": "Reading read_config",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    return _get(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
