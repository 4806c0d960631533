"""Results for people to read: a property, a report of one encoding, a comparison of several."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from posenc._properties.checks import require_name
from posenc._properties.result import FAILS, HOLDS, NOT_APPLICABLE
from posenc._properties.wishes import WISHES
from posenc.book.notebook import book_mode
from posenc.pictures.table import Table

if TYPE_CHECKING:
    from posenc.pictures.plot import Picture

WIDTH = 110  # characters in a line of a report


@dataclass(frozen=True)
class Property:
    """One wish for an encoding and the result of its measurement. It is true if the wish holds.

    Example:
        >>> from posenc import NoPE, properties
        >>> found = properties(NoPE(), length=16)["unique"]
        >>> bool(found), found.verdict, found.value
        (False, 'fails', 0.0)
        >>> print(found.counter_example)
        the query at 8 cannot tell key 7 from key 8; its 16 keys are all of one kind
    """

    name: str
    """Its name in `WISHES`."""
    wish: str
    """The wish in words."""
    verdict: str
    """`holds`, `fails` or `does not apply`."""
    value: float
    """The number that decided; `conditions` says what was measured. NaN if nothing was."""
    finding: str
    """One sentence with the numbers. If the wish fails, it is a counter-example."""
    conditions: str
    """The inputs that were compared, how many there were, and the tolerance."""
    definition: str
    """The exact statement that was tested."""
    _draw: Callable[[str], Picture] = field(repr=False, compare=False)

    @property
    def counter_example(self) -> str:
        """The finding if the wish fails, otherwise an empty string."""
        return self.finding if self.verdict == FAILS else ""

    def __bool__(self) -> bool:
        return self.verdict == HOLDS

    def __repr__(self) -> str:
        return f"{self.name}: {self.verdict}; {self.finding}"

    def figure(self) -> Picture:
        """Draws the measurement.

        Returns:
            A picture whose text equivalent is the finding. Matplotlib is imported here and not earlier.
        """
        return self._draw(self.finding)


class Report:
    """The properties of one encoding, in the order of `WISHES`. `properties` makes it.

    `report["unique"]` is one `Property`, iteration gives all of them, and `len` counts them. A report shows itself as
    aligned text in a notebook and as a table in the book.

    Attributes:
        name: The name of the encoding.
        facts: Its doors, parameters, bytes, positions and backends, in words.
        note: The sizes and the precision of the measurement, in a sentence.

    Example:
        >>> from posenc import RoPE, properties
        >>> report = properties(RoPE(16), length=16)
        >>> report.facts["doors"], report["relative"].verdict
        ('query, key', 'holds')
    """

    def __init__(self, name: str, facts: dict[str, str], note: str, properties: dict[str, Property]) -> None:
        self.name, self.facts, self.note, self._properties = name, facts, note, properties

    def __getitem__(self, name: str) -> Property:
        require_name(name, self._properties, "property")
        return self._properties[name]

    def __iter__(self) -> Iterator[Property]:
        return iter(self._properties.values())

    def __len__(self) -> int:
        return len(self._properties)

    def table(self) -> Table:
        """A row for each property: its name, the wish, the verdict and the finding."""
        rows = [[result.name, result.wish, _strong(result.verdict), result.finding] for result in self]
        columns = ["property", "wish", "verdict", "what was found"]
        return Table(columns, rows, caption=f"{self.name}, measured", note=f"{self._told()}. {self.note}")

    def _told(self) -> str:
        return "; ".join(f"{name} {value}" for name, value in self.facts.items())

    def __repr__(self) -> str:
        rows = Table(["", "", ""], [[result.name, result.verdict, result.finding] for result in self])
        return "\n".join([f"{self.name}: {self._told()}", *textwrap.wrap(self.note, WIDTH), rows.text(WIDTH)])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self)} | ({"text/html": self.table().html()} if book_mode() else {})


class Comparison:
    """Reports of several encodings side by side. `compare` makes it.

    `comparison["rope"]` is one `Report`, iteration gives all of them, and `len` counts them.

    Attributes:
        reports: The reports by name.

    Example:
        >>> from posenc import NoPE, RoPE, compare
        >>> both = compare({"nope": NoPE(), "rope": RoPE(16)}, length=16)
        >>> [report["relative"].verdict for report in both]
        ['holds', 'holds']
        >>> both.rows()[0]
        ['unique', 'fails', 'holds']
    """

    def __init__(self, reports: dict[str, Report]) -> None:
        self.reports = reports

    def __getitem__(self, name: str) -> Report:
        require_name(name, self.reports, "encoding")
        return self.reports[name]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports.values())

    def __len__(self) -> int:
        return len(self.reports)

    def rows(self) -> list[list[str]]:
        """A row for each property, then rows for doors and parameters.

        Returns:
            Lists of strings with the name of the property first, then one verdict for each encoding.
        """
        rows = [[wish, *(report[wish].verdict for report in self)] for wish in WISHES]
        return rows + [[fact, *(report.facts[fact] for report in self)] for fact in ("doors", "parameters")]

    def table(self) -> Table:
        """A column for each encoding, and a row for each property with the verdicts in full."""
        rows = [[_strong(cell) for cell in row] for row in self.rows()]
        return Table(["property", *self.reports], rows, caption="Which wishes each encoding meets, measured")

    def __repr__(self) -> str:
        short = {HOLDS: "yes", FAILS: "no", NOT_APPLICABLE: "–"}
        return Table(["", *self.reports], [[short.get(cell, cell) for cell in row] for row in self.rows()]).text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self)} | ({"text/html": self.table().html()} if book_mode() else {})


def _strong(cell: str) -> str:
    """A failure stands out by its weight and not by a colour."""
    return f"**{cell}**" if cell == FAILS else cell
