"""A baseline for CI: failures that are known pass, new ones fail, and those that are gone are named.

Standard library only, so that a fixture of pytest and the command can share it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc._atomic import atomic
from posenc.audit.verdict import Finding, Verdict


@dataclass(frozen=True)
class Changes:
    """What became of a report beside its baseline.

    Example:
        >>> row = Finding("step", "?", Verdict.FAILS, 1.0, "No mask.")
        >>> changes([row], {"rows": "Rows share something."}).passed
        False
    """

    new: tuple[Finding, ...]
    """What fails, and is not in the baseline."""
    known: tuple[Finding, ...]
    """What fails, and is."""
    fixed: tuple[str, ...]
    """What is in the baseline and fails no more."""
    unasked: tuple[str, ...]
    """What is in the baseline and has no answer now, so that nothing is known of it."""

    @property
    def passed(self) -> bool:
        """Whether nothing fails that did not fail before."""
        return not self.new

    def __str__(self) -> str:
        lines = [f"new: {finding}" for finding in self.new]
        if self.known:
            lines.append(f"known: {', '.join(f.name for f in self.known)}")
        if self.fixed:
            lines.append(f"fixed: {', '.join(self.fixed)}. Take {'it' if len(self.fixed) == 1 else 'them'} out of it.")
        if self.unasked:
            lines.append(f"not asked any more: {', '.join(self.unasked)}")
        return "\n".join(lines) or "as in the baseline: nothing fails"


def changes(findings: Any, known: Mapping[str, str]) -> Changes:
    """Compares findings with the causes of known failures, by name of the test.

    Args:
        findings: A report, or its rows.
        known: The cause by the name of each test that fails, as `read_baseline` returns them.

    Returns:
        What is new, known, fixed, and not asked any more.
    """
    rows = {finding.name: finding for finding in findings}
    bad = [finding for finding in rows.values() if not finding.passed]
    gone = [name for name in known if name not in rows or rows[name].passed]
    unasked = [name for name in gone if name not in rows or not rows[name].asked or rows[name].verdict == Verdict.BLIND]
    return Changes(
        tuple(f for f in bad if f.name not in known),
        tuple(f for f in bad if f.name in known),
        tuple(name for name in gone if name not in unasked),
        tuple(unasked),
    )


def read_baseline(path: str | os.PathLike[str]) -> dict[str, str]:
    """The causes of known failures by the names of their tests.

    Args:
        path: A file that `write_baseline` wrote.

    Returns:
        A dict.

    Raises:
        ValueError: If there is no such file, or it is no baseline; the message says how one is written.
    """
    how = "write one with --write-baseline FILE, or report.to_baseline(path)"
    try:
        whole = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"there is no baseline {os.fspath(path)}: {how}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is no baseline, since it is not JSON: {how}") from error
    known = whole.get("known failures") if isinstance(whole, dict) else None
    if not isinstance(known, dict) or not all(isinstance(each, str) for pair in known.items() for each in pair):
        raise ValueError(f'{os.fspath(path)} is no baseline, since it has no "known failures": {how}')
    return known


def write_baseline(findings: Any, path: str | os.PathLike[str], model: str = "") -> str:
    """Writes what fails today, with its causes.

    Args:
        findings: A report, or its rows.
        path: The file, written whole or not at all.
        model: What was audited, for readers. Default: "".

    Returns:
        The text.
    """
    known = {finding.name: finding.meaning for finding in findings if not finding.passed}
    text = json.dumps({"model": model, "known failures": known}, indent=1, ensure_ascii=False) + "\n"
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")
    return text
