"""The audit: questions that find positional bugs in anybody's model, seen from outside.

Tokens, positions, mask and cache go in, and logits come out. Most questions compare two ways to the same logits: with a
cache and without, padded and not, beside other texts and alone. `python -m posenc.audit --help` has a command.
"""

from __future__ import annotations

from posenc.audit.adapter import Adapter, Refused
from posenc.audit.called import adapt
from posenc.audit.config import Reading, read_config
from posenc.audit.report import Report
from posenc.audit.run import audit
from posenc.audit.verdict import Finding, Verdict

__all__ = ["Adapter", "Finding", "Reading", "Refused", "Report", "Verdict", "adapt", "audit", "read_config"]
