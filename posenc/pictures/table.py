"""One table for terminals, notebooks, tests and the book: rows and columns in, text, HTML or Markdown out."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posenc.book.notebook import book_mode

EMPTY = "–"  # stands for None
LONG = 12  # rows from which on the book lets a reader sort a table
_NUMBER = re.compile(r"[-+−±<>≤≥≈~]*\.?\d.*|nan|[-+−]?inf")


class Table:
    """Rows under named columns, shown as aligned text in a notebook and as an HTML table in the book.

    Columns of numbers are aligned to the right, all others to the left. The first column names the rows.

    Args:
        columns: The names of the columns. A mapping from name to format, such as `{"length": "d", "loss": ".3f"}`,
            also says how numbers are written. Without a format, floats get four significant digits. The format
            `"z.2f"` writes a small negative number as 0.00 and not as -0.00.
        rows: A sequence of cells for each row: numbers, strings, tensors with one element, or None for "–". Strings
            stay as they are. In HTML, text between backticks becomes code, and stars around a cell emphasise it.
        caption: One line that says what the table shows.
        note: A sentence that stands below the table.

    Raises:
        ValueError: If a row has more or fewer cells than there are columns, or a number does not fit its format.

    Example:
        >>> Table({"length": "d", "loss": ".2f"}, [(128, 1.254), (1024, None)], caption="Loss by length")
        Loss by length
        length  loss
           128  1.25
          1024     –
    """

    def __init__(
        self,
        columns: Sequence[str] | Mapping[str, str],
        rows: Iterable[Sequence[Any]],
        *,
        caption: str = "",
        note: str = "",
    ) -> None:
        self.columns = list(columns)
        self.caption, self.note = caption, note
        formats = list(columns.values()) if isinstance(columns, Mapping) else [""] * len(self.columns)
        self.values = [[_plain(cell) for cell in row] for row in rows]
        for row in self.values:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row has {len(row)} cells and there are {len(self.columns)} columns "
                    f"({', '.join(self.columns)}): give one cell for each column, such as None; the row is {row}"
                )
        self.rows = [[_written(cell, form) for cell, form in zip(row, formats, strict=True)] for row in self.values]
        """The cells as they are shown."""

    def text(self, width: int | None = None) -> str:
        """Aligned lines: the caption, the names of the columns unless all are empty, and the rows.

        Args:
            width: The greatest number of characters in a line. The last column is wrapped to keep it; without a
                width nothing is wrapped.

        Returns:
            Lines of text, without a new line at the end.
        """
        rows = [[_unmarked(cell) for cell in row] for row in self.rows]
        lines = [self.columns, *rows] if any(self.columns) else rows
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = self._numeric()
        out = [self.caption] if self.caption else []
        for line in lines:
            cells = [c.rjust(n) if r else c.ljust(n) for c, n, r in zip(line, widths, right, strict=True)]
            joined = "  ".join(cells).rstrip()
            if width is None or len(joined) <= width:
                out.append(joined)
            else:
                head = "".join(cell + "  " for cell in cells[:-1])
                out += textwrap.wrap(line[-1], width, initial_indent=head, subsequent_indent=" " * len(head))
        return "\n".join([*out, *([self.note] if self.note else [])])

    def html(self, classes: str = "") -> str:
        """A `<table>` with caption and headers, escaped, in a box that scrolls by itself where the page is narrow.

        Args:
            classes: Further classes of the table, for a style sheet. A table of 12 rows or more also has the class
                `pe-sortable`, and its numbers as data, so that the page can sort it.

        Returns:
            HTML.
        """
        right, sortable = self._numeric(), len(self.rows) >= LONG
        names = " ".join(["table", *([classes] if classes else []), *(["pe-sortable"] if sortable else [])])
        align = [' class="pe-number"' if number else "" for number in right]
        top = "".join(  # a corner without a name is no header
            f'<th scope="col"{a}>{html.escape(name)}</th>' if name else f"<td{a}></td>"
            for name, a in zip(self.columns, align, strict=True)
        )
        body = ""
        for cells, values in zip(self.rows, self.values, strict=True):
            body += "<tr>"
            for n, (cell, value, a) in enumerate(zip(cells, values, align, strict=True)):
                tag, scope = ("td", "") if n else ("th", ' scope="row"')
                number = isinstance(value, int | float) and not isinstance(value, bool)
                data = f' data-value="{value!r}"' if sortable and number else ""
                body += f"<{tag}{scope}{a}{data}>{_marked(cell)}</{tag}>"
            body += "</tr>"
        caption = html.escape(self.caption)
        return (
            f'<div class="pe-table" tabindex="0" style="overflow-x: auto"><table class="{names}">'
            + (f"<caption>{caption}</caption>" if caption else "")
            + f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
            + (f"<p>{html.escape(self.note)}</p>" if self.note else "")
        )

    def markdown(self) -> str:
        """The table in GitHub's Markdown, below its caption.

        Returns:
            Lines of Markdown.
        """
        lines = [self.columns, ["--:" if number else "---" for number in self._numeric()], *self.rows]
        table = "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)
        return "\n\n".join(part for part in (_untagged(self.caption), table, _untagged(self.note)) if part)

    def _numeric(self) -> list[bool]:
        """Which columns hold numbers, and at least one."""
        return [
            any(map(_NUMBER.fullmatch, column))
            and all(cell in ("", EMPTY) or _NUMBER.fullmatch(cell) for cell in column)
            for column in ([row[n] for row in self.rows] for n in range(len(self.columns)))
        ]

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": self.text()}
        if book_mode():
            bundle["text/html"] = self.html()
        return bundle


def _plain(cell: Any) -> Any:
    """Tensors and arrays with one element become numbers."""
    return cell.item() if hasattr(cell, "item") else cell


def _written(cell: Any, form: str) -> str:
    if cell is None:
        return EMPTY
    if isinstance(cell, str):
        return cell
    if not form and isinstance(cell, float):
        form = ".4g"
    try:
        return format(cell, form)
    except (ValueError, TypeError):
        raise ValueError(f"{cell!r} cannot be written with the format {form!r}: use another, such as .3f") from None


def _marked(cell: str) -> str:
    """HTML of a cell: words between backticks are code, and stars around a cell emphasise it."""
    if (stars := _stars(cell)) and len(cell) > 2 * stars:
        tag = "strong" if stars == 2 else "em"
        return f"<{tag}>{_marked(cell[stars:-stars])}</{tag}>"
    parts = [html.escape(part) for part in cell.split("`")]
    if len(parts) % 2 == 0:
        return html.escape(cell)
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _escaped(cell: str) -> str:
    """Markdown of a cell: a bar does not end it, and text is no HTML tag."""
    return _untagged(cell.replace("|", r"\|"))


def _untagged(text: str) -> str:
    """Markdown of a text in which nothing but code between backticks is taken as it is."""
    parts = text.split("`")
    code = len(parts) % 2 == 1  # every backtick has its other one
    return "`".join(part if code and n % 2 else part.replace("<", r"\<") for n, part in enumerate(parts))


def _unmarked(cell: str) -> str:
    stars = _stars(cell)
    return cell[stars:-stars] if stars else cell


def _stars(cell: str) -> int:
    """How many stars stand around all of a cell: 0, 1 or 2."""
    return next((n for n in (2, 1) if len(cell) > 2 * n and cell[:n] == "*" * n == cell[-n:] and cell[n] != "*"), 0)
