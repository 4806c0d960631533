"""Tables of what was checked: tests compute them, `chapters/checked/` keeps them, the book shows them.

`make checked` writes them again. A test run compares its own tables with those that are kept, and fails if they differ.
"""

from __future__ import annotations

import json
from pathlib import Path

import posenc.pictures.table
from tests.kept import NOT_RUN

KEPT = Path(__file__).resolve().parents[1] / "chapters/checked"
MEASURED = "largest difference"  # a column that rounding decides: its bound is tested, its digits are not


class Table(posenc.pictures.table.Table):
    """A table of strings that is kept as JSON; the first cell of a row is its name."""

    def __init__(self, caption: str, columns: list[str], rows: list[list[str]]) -> None:
        super().__init__(columns, rows, caption=caption)

    @classmethod
    def read(cls, name: str) -> Table | None:
        path = KEPT / f"{name}.json"
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def write(self, name: str) -> None:
        head = {"caption": self.caption, "columns": self.columns}
        text = json.dumps(head, ensure_ascii=False, indent=1)[:-2]  # a row for each line, for the sake of diffs
        rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in self.rows)
        KEPT.mkdir(exist_ok=True)
        (KEPT / f"{name}.json").write_text(f'{text},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")

    def text(self, width: int | None = None) -> str:
        """For a terminal: long heads of columns become numbers."""
        if sum(map(len, self.columns)) < 100:
            return super().text(width)
        legend = [f"{n} {column}" for n, column in enumerate(self.columns[1:], 1)]
        lines = [self.caption, *("  " + ", ".join(legend[n : n + 6]) for n in range(0, len(legend), 6)), ""]
        heads = [self.columns[0], *map(str, range(1, len(self.columns)))]
        return "\n".join([*lines, posenc.pictures.table.Table(heads, self.rows).text(width)])

    def differences(self, kept: Table | None) -> list[str]:
        """Cells that are not as they were kept, in words, except those that were measured, or not run here or there."""
        if kept is None:
            return ["no table is kept"]
        here, there = self._cells(), kept._cells()
        return [
            f"{row}, {column}: {here.get((row, column), 'gone')}, kept was {there.get((row, column), 'nothing')}"
            for row, column in dict.fromkeys([*here, *there])
            if here.get((row, column)) != there.get((row, column))
            and NOT_RUN not in (here.get((row, column)), there.get((row, column)))
        ]

    def _cells(self) -> dict[tuple[str, str], str]:
        return {
            (row[0], column): cell
            for row in self.rows
            for column, cell in zip(self.columns, row, strict=True)
            if column != MEASURED
        }
