"""What was found, for people: a property, a report, a comparison."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from posenc import _check
from posenc._properties.found import FAILS, HOLDS, NOT_APPLICABLE
from posenc._properties.wishes import WISHES
from posenc.notebook import book_mode

if TYPE_CHECKING:
    from posenc.plot import Picture


@dataclass(frozen=True)
class Property:
    """One wish and what was found: `holds`, `fails` or `does not apply`, with the number that decided."""

    name: str
    wish: str
    verdict: str
    value: float
    """The measured number; `conditions` says of what."""
    finding: str
    """One sentence with the numbers; where the wish fails, the counter-example."""
    conditions: str
    """What was compared, on how many tokens, within which tolerance."""
    definition: str
    _draw: Callable[[str], Picture] = field(repr=False, compare=False)

    @property
    def counter_example(self) -> str:
        """The finding if the wish fails, else nothing."""
        return self.finding if self.verdict == FAILS else ""

    def __bool__(self) -> bool:
        return self.verdict == HOLDS

    def __repr__(self) -> str:
        return f"{self.name}: {self.verdict}; {self.finding}"

    def figure(self) -> Picture:
        """The measurement as a picture; matplotlib is imported now and not before."""
        return self._draw(self.finding)


class Report:
    """The properties of one encoding, in the order of `WISHES`; `report["unique"]` is one of them."""

    def __init__(self, name: str, facts: dict[str, str], note: str, properties: dict[str, Property]) -> None:
        self.name, self.facts, self.note, self._properties = name, facts, note, properties

    def __getitem__(self, name: str) -> Property:
        _check.one_of(name, self._properties, "property")
        return self._properties[name]

    def __iter__(self) -> Iterator[Property]:
        return iter(self._properties.values())

    def __len__(self) -> int:
        return len(self._properties)

    def __repr__(self) -> str:
        lines = [f"{self.name}: " + "; ".join(f"{name} {value}" for name, value in self.facts.items())]
        lines += textwrap.wrap(self.note, 110)
        for found in self:
            head = f"{found.name:<13}  {found.verdict:<14}  "
            lines += textwrap.wrap(found.finding, 110, initial_indent=head, subsequent_indent=" " * len(head))
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if book_mode():
            rows = [[found.name, found.wish, found.verdict, found.finding] for found in self]
            facts = "; ".join(f"{name} {value}" for name, value in self.facts.items())
            head = ["property", "wish", "verdict", "what was found"]
            bundle["text/html"] = html_table(f"{self.name}, measured", head, rows, f"{facts}. {self.note}")
        return bundle


class Comparison:
    """Reports of several encodings side by side; `comparison["rope"]` is one of them."""

    def __init__(self, reports: dict[str, Report]) -> None:
        self.reports = reports

    def __getitem__(self, name: str) -> Report:
        _check.one_of(name, self.reports, "encoding")
        return self.reports[name]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports.values())

    def __len__(self) -> int:
        return len(self.reports)

    def rows(self) -> list[list[str]]:
        """A row for each property, whose name comes first, with a verdict for each encoding."""
        rows = [[wish, *(report[wish].verdict for report in self)] for wish in WISHES]
        return rows + [[fact, *(report.facts[fact] for report in self)] for fact in ("doors", "parameters")]

    def __repr__(self) -> str:
        short = {HOLDS: "yes", FAILS: "no", NOT_APPLICABLE: "–"}
        lines = [["", *self.reports], *([short.get(cell, cell) for cell in row] for row in self.rows())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if book_mode():
            caption = "Which wishes each encoding meets, measured"
            bundle["text/html"] = html_table(caption, ["property", *self.reports], self.rows())
        return bundle


def html_table(caption: str, head: list[str], rows: list[list[str]], below: str = "") -> str:
    """A table whose first row and first column are its headers, in a box that scrolls by itself."""
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        cells = cells.replace(f"<td>{FAILS}</td>", f"<td><strong>{FAILS}</strong></td>")  # not by colour
        body += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    note = f"<p>{html.escape(below)}</p>" if below else ""
    return (
        f'<div class="pe-properties" role="group" aria-label="{html.escape(caption)}" tabindex="0" '
        f'style="overflow-x: auto"><table class="table"><caption>{html.escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )
