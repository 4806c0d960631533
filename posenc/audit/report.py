"""What the audit found: a table for terminals and notebooks, JSON, and one HTML file for a bug report."""

from __future__ import annotations

import html
import json
import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc._atomic import atomic
from posenc.audit.baseline import Changes, changes, read_baseline, write_baseline
from posenc.audit.verdict import Finding, Verdict
from posenc.configs.printable import in_json, printable
from posenc.pictures.table import Table

WIDTH = 118
AREAS = {
    "positions": ("arange", "shift", "stretch"),
    "padding": ("right_pad", "left_pad", "left_pad_ids", "rows"),
    "a cache": ("step", "step_ids", "step_left", "chunks", "chunks_ids", "reorder", "crop"),
    "generation": ("generate", "generate_left", "generate_nocache", "static", "beams"),
    "packing": ("packed_ids", "packed_default"),
}
"""What tests are about, in a word."""
STRIP = "In strips, a dot is a token whose logits agree, and an x one whose logits do not."


@dataclass(frozen=True)
class Report:
    """The findings of one audit, in order. Shown as a table.

    Example:
        >>> from posenc import Transformer
        >>> from posenc.audit import audit
        >>> audit(Transformer(50, layers=1, model_dim=32), only=["future"]).summary
        'nothing fails; 1 passes'
    """

    findings: tuple[Finding, ...]
    """A row for each test."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What was audited and how: model, parameters, dtype, device, weights, tokens, seed, tolerance, time, versions."""
    notes: tuple[str, ...] = ()
    """What a reader of the table has to know, such as what cannot be seen with these weights."""

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"there is no test {name!r} in this report: it has {', '.join(f.name for f in self.findings)}")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def tried(self) -> bool:
        """Whether any test has an answer. Where none has, nothing is known of the model."""
        return any(finding.asked for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether nothing fails, and something was tried."""
        return self.tried and all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What fails, or raised."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def require(self, *names: str) -> None:
        """Raises AssertionError unless these tests ran and nothing is wrong; of all tests, if none is named.

        A test that is named and does not apply, or ran out of time, is not passed: nothing is known.

        Args:
            *names: Names of tests. Default: all that apply, and one has to apply.

        Raises:
            AssertionError: With what fails, what it means, and where to look.
            KeyError: If the report has no test of a name.
        """
        wanted = [self[name] for name in names] or list(self.findings)
        missing = [f for f in wanted if (names or not self.tried) and not f.asked]
        wrong = [f for f in wanted if not f.passed or f in missing]
        if wrong or not self.findings:
            raise AssertionError("\n".join(map(str, wrong)) or "the report has no tests")

    def against(self, baseline: str | os.PathLike[str]) -> Changes:
        """What is new, known and fixed beside a file of known failures.

        Args:
            baseline: A file that `to_baseline` wrote.

        Returns:
            Its `passed` says whether nothing fails that did not fail before; print it for the rest.
        """
        return changes(self.findings, read_baseline(baseline))

    def to_baseline(self, path: str | os.PathLike[str]) -> str:
        """Writes what fails today into a file of known failures.

        Args:
            path: The file, written whole or not at all.

        Returns:
            The text.
        """
        return write_baseline(self.findings, path, str(self.facts.get("model", "")))

    def table(self) -> Table:
        """The report as a table.

        Returns:
            A row for each test that was asked, failures first, with what it means and where to look. Below stand the
            tests that were not asked, and why.
        """
        shown = [f for f in self._sorted() if f.verdict != Verdict.NOT_APPLICABLE]
        rows = [(f.name, f.verdict.value, f.size or None, printable(_told(f))) for f in shown]
        caption = printable(f"{self.facts.get('model', 'model')}: {self.summary}")
        columns = ["test", "verdict", "off", "what it means, and where to look"]
        return Table(columns, rows, caption=caption, note=printable(" ".join(self._remarks())))

    def _remarks(self) -> list[str]:
        """What stands below the table."""
        strip = [STRIP] if any(f.places for f in self.findings) else []
        return [*strip, *self.notes, *self._left_out()]

    def _sorted(self) -> list[Finding]:
        """Failures first, then what follows from them, and the rest as it was asked."""
        return sorted(self.findings, key=lambda f: 2 if f.passed else int(f.follows))

    def _left_out(self) -> list[str]:
        """Which tests were not asked, by the reason."""
        reasons: dict[str, list[str]] = {}
        for f in self.findings:
            if f.verdict == Verdict.NOT_APPLICABLE:
                reasons.setdefault(f.cause.rstrip("."), []).append(f.name)
        if not reasons:
            return []
        told = "; ".join(f"{', '.join(names)} ({why[:1].lower()}{why[1:]})" for why, names in reasons.items())
        return [f"Not asked: {told}."]

    @property
    def summary(self) -> str:
        """How many tests there are and which fail, in one line, and what is not known."""
        count = {verdict: sum(f.verdict == verdict for f in self.findings) for verdict in Verdict}
        bad = [f.name for f in self.failures]
        words = {
            Verdict.PASS: ("passes", "pass"),
            Verdict.PROPERTY: ("is a property of the scheme", "are properties of the scheme"),
        }
        rest = [f"{count[verdict]} {forms[count[verdict] > 1]}" for verdict, forms in words.items() if count[verdict]]
        fail = "fails" if len(bad) == 1 else "fail"
        named = [f.name for f in self.failures if not f.follows] or bad
        failing = ", ".join(named) + (f", and {len(bad) - len(named)} that follow" if len(named) < len(bad) else "")
        begin = f"{len(bad)} of {len(self.findings)} tests {fail} ({failing})" if bad else self._good()
        return "; ".join([begin, *([", ".join(rest)] if rest else []), *self._unknown()])

    def _good(self) -> str:
        """What may be said where nothing fails: not more than was asked."""
        if not self.tried:
            return "no test applies"
        answered = all((f.asked or f.idle) and f.verdict != Verdict.BLIND for f in self.findings)
        return "nothing fails" if answered else "nothing fails of what was asked"

    def _unknown(self) -> list[str]:
        """What is not known of the model, in words."""
        names = {v: [f.name for f in self.findings if f.verdict == v and not f.idle] for v in Verdict}
        said = []
        if blind := names[Verdict.BLIND]:
            said.append(f"nearly blind with these weights ({', '.join(blind)})")
        if slow := names[Verdict.TIMED_OUT]:
            said.append(f"timed out: {', '.join(slow)}")
        if left := names[Verdict.NOT_APPLICABLE]:
            there = {f.name for f in self.findings}
            areas = {words: {*tests} & there for words, tests in AREAS.items()}
            whole = {words: tests for words, tests in areas.items() if len(tests) > 1 and tests <= {*left}}
            rest = [name for name in left if not any(name in tests for tests in whole.values())]
            few = rest if len(rest) <= 4 else [f"{len(rest)} more"]
            said.append(f"not asked: {', '.join([*whole, *few])}")
        return said

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All of it as JSON.

        Args:
            path: A file to write as well, whole or not at all.

        Returns:
            The text.
        """
        rows = [
            {
                "name": f.name,
                "question": f.question,
                "verdict": f.verdict.value,
                "passed": f.passed,
                "off": f.off if f.off is None or math.isfinite(f.off) else str(f.off),
                "cause": f.cause,
                "look": f.look,
                "first": f.first,
                "places": f.places,
                "reproduction": f.reproduction,
            }
            for f in self.findings
        ]
        whole = {
            "passed": self.passed,
            "summary": self.summary,
            **self.facts,
            "notes": list(self.notes),
            "findings": rows,
        }
        text = in_json(json.dumps(whole, indent=1, ensure_ascii=False)) + "\n"
        return written(text, path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page that needs nothing else, to be attached to a bug report.

        Args:
            path: A file to write as well, whole or not at all.

        Returns:
            The text.
        """
        title = f"Positional audit of {self.facts.get('model', 'a model')}"
        return written(page(title, self.summary, self._rows_html(), self._remarks(), self.facts), path)

    def _rows_html(self) -> str:
        body = "".join(
            f'<tr class="{f.verdict.name.lower()}"><th scope="row">{html.escape(f.name)}</th>'
            f"<td>{f.verdict.value}</td><td>{f.size}</td><td>{html.escape(f.question)}"
            + (f"<br>{html.escape(f.cause)}" if f.cause else "")
            + (f"<br><b>Look at:</b> {html.escape(f.look)}" if f.look else "")
            + (f"<br>{html.escape(_strip(f))}" if f.places else "")
            + (f"<details><summary>In plain torch</summary><pre>{html.escape(f.reproduction)}</pre></details>"
               if f.reproduction else "")
            + "</td></tr>\n"
            for f in self._sorted() if f.verdict != Verdict.NOT_APPLICABLE
        )  # fmt: skip
        head = "".join(f'<th scope="col">{name}</th>' for name in ("test", "verdict", "off", "question and cause"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"

    def text(self, width: int = WIDTH) -> str:
        """The table for a terminal.

        Args:
            width: The greatest number of characters in a line. Default: 118.

        Returns:
            Lines of text.
        """
        lines = self.table().text(width).split("\n")
        return "\n".join(
            part for line in lines for part in (textwrap.wrap(line, width) if len(line) > width else [line])
        )

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = self.table()._repr_mimebundle_()
        return {**bundle, "text/plain": repr(self)}


def _strip(f: Finding) -> str:
    """The tokens that were compared, and the first that is wrong."""
    if f.first is None:
        return ""
    wrong = f.places.count("x")
    return f"{wrong} of {len(f.places)} tokens differ, from token {f.first} on: {f.places}"


def _told(f: Finding) -> str:
    """What a row means, with the tokens that are wrong."""
    return " ".join(filter(None, (f.meaning, _strip(f))))


STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;"
    "padding:.4rem .6rem;border-bottom:1px solid #ccc}td:nth-child(3){text-align:right;white-space:nowrap}"
    ".fails td:nth-child(2),.error td:nth-child(2){color:#a30000;font-weight:bold}.pass td:nth-child(2){color:#006100}"
    ".blind td:nth-child(2),.timed_out td:nth-child(2){color:#7a4b00;font-weight:bold}"
    "pre{overflow:auto;font-size:.85rem}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{font-weight:bold}dd{margin:0}"
)


def page(title: str, summary: str, table: str, notes: Iterable[str], facts: Mapping[str, Any]) -> str:
    """An HTML page that needs nothing else.

    Args:
        title: Of the page.
        summary: What stands below it.
        table: HTML, or "".
        notes: Paragraphs below the table.
        facts: What was looked at, and how.
    """
    told = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    rows = "".join(f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items())
    return printable(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{html.escape(title)}</h1><p><strong>{html.escape(summary)}.</strong></p>\n{table}\n{told}"
        f"<dl>{rows}</dl></body></html>\n"
    )


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """A text, which goes into a file as well if there is one, whole or not at all."""
    if path is not None:
        with atomic(path) as part:
            part.write_text(text, encoding="utf-8")
    return text
