"""What the audit found in other people's libraries, each shown again by the library's public interface.

    python -m posenc_evidence.libraries            # the list
    python -m posenc_evidence.libraries NAME       # a draft of the report to its authors, with the code that shows it

A finding is a row of `findings.json` and a file of `reproductions/` that needs that library and torch alone.
`ports.json` has what `posenc.audit.compare` said of ports that others wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KINDS = {
    "wrong": "wrong numbers without a message, in a use that the library offers",
    "raises": "an exception in a use that the library offers",
    "limit": "wrong numbers without a message, in a use that the library itself doesn't make",
}


def findings() -> list[dict[str, Any]]:
    """The findings, in the order of the file.

    Returns:
        For each its "name", "library", "package" and "version", "kind" (see `KINDS`), "title", "row" (the question of
        the audit that found it), "cause", "look", "expected", "actual", "right" (what avoids it), "known" (a public
        thread, or ""), "status", "file" and "printed" (lines that the file prints).

    Example:
        >>> {each["kind"] for each in findings()} == set(KINDS)
        True
    """
    rows: list[dict[str, Any]] = json.loads((HERE / "findings.json").read_text(encoding="utf-8"))["findings"]
    return rows


def ports() -> dict[str, Any]:
    """What `compare` said of ports that others wrote, right ones and with mistakes made on purpose.

    Returns:
        "versions", "date", and "rows" with "port", "mistake", "kinds", "said" and "seconds".

    Example:
        >>> any(row["mistake"] == "none" for row in ports()["rows"])
        True
    """
    found: dict[str, Any] = json.loads((HERE / "ports.json").read_text(encoding="utf-8"))
    return found


def code(name: str) -> str:
    """The file that shows a finding again.

    Args:
        name: Of the finding.

    Raises:
        ValueError: If there is no such finding.
    """
    return (HERE / _finding(name)["file"]).read_text(encoding="utf-8")


def report(name: str) -> str:
    """A draft of the report that a user could send to the authors, in Markdown.

    Args:
        name: Of the finding.

    Raises:
        ValueError: If there is no such finding.

    Example:
        >>> report("torchscale_t5").splitlines()[0]
        "# T5's bias cannot be used with an incremental state"
    """
    row = _finding(name)
    known = f"\n\nRelated, as far as I found: {row['known']}" if row["known"] else ""
    right = f"\n\nIt doesn't happen with: {row['right']}." if row["right"] else ""
    printed = "\n".join(row["printed"])
    return (
        f"# {row['title']}\n\n"
        f"Thank you for {row['library']}. While testing positions and caches I came upon the following, in "
        f"{row['package']} {row['version']} with torch {_torch()}.{known}\n\n"
        f"**Expected.** {row['expected']}\n\n**Actual.** {row['actual']}{right}\n\n"
        f"**To reproduce** (a small model with random weights, on a CPU):\n\n```python\n{code(name)}```\n\n"
        f"It prints\n\n```text\n{printed}\n```\n\n"
        f"**Where it may come from.** {row['cause']} See {row['look']}.\n\n"
        f"I haven't looked at trained weights. I'm glad to test a change.\n"
    )


def _finding(name: str) -> dict[str, Any]:
    for row in findings():
        if row["name"] == name:
            return row
    raise ValueError(f"no finding is called {name!r}: use one of {', '.join(row['name'] for row in findings())}")


def _torch() -> str:
    return str(json.loads((HERE / "findings.json").read_text(encoding="utf-8"))["torch"])
