"""Writes the PDF, the EPUB or the sheets of exercises: `python -m press pdf`, with chapters/_ext on PYTHONPATH."""

from __future__ import annotations

import argparse
import datetime
import html
import os
import sys
from pathlib import Path

import yaml

from press import epub, exercises, forms, pdf, symbols
from press.forms import NAME
from press.pages import HTML, ROOT, Page, book
from press.sheets import Sheet, sheet


def main(arguments: list[str] | None = None) -> int:
    """Write what is asked for beside the built book, and say where it is. The status is 1 if that cannot be done."""
    command = argparse.ArgumentParser(prog="press", description="The built book as PDF, EPUB, or sheets of exercises.")
    command.add_argument("form", choices=("pdf", "epub", "sheet"))
    command.add_argument("--book", type=Path, default=HTML, help="the folder of the built book (default: _build/html)")
    command.add_argument("--only", nargs="*", help="names of chapters, such as rope (default: all)")
    command.add_argument("--live", default=os.environ.get("BOOK_URL", ""), help="the address of the book on the web")
    args = command.parse_args(arguments)
    try:
        for path in write(args.form, args.book, args.only or [], args.live):
            print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
        forms.offer(args.book)
    except (FileNotFoundError, LookupError, ValueError, pdf.CannotPrint, epub.CannotConvert) as error:
        print(f"the {args.form} is not written: {error}", file=sys.stderr)
        return 1
    return 0


def write(form: str, out: Path, only: list[str], live: str) -> list[Path]:
    """Write one form of the book.

    Args:
        form: "pdf", "epub" or "sheet".
        out: The folder of the built book, where the form is put.
        only: Names of chapters; all of them if there are none.
        live: The address of the book on the web, or "".

    Raises:
        LookupError: If there is no chapter of a name.
    """
    pages = book(out)
    if unknown := [name for name in only if f"chapters/{name}" not in {page.name for page in pages}]:
        raise LookupError(f"there is no chapter {unknown[0]}: use a name such as rope")
    pages = [page for page in pages if not only or page.name.removeprefix("chapters/") in only]
    live = f"{live.rstrip('/')}/" if live else ""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    title, author = config["title"], config["author"]
    work = out.parent / "paper"
    if form == "epub":
        target = out / f"{NAME}.epub"
        made = [set_(page, out, pages, live, epub.address, epub.NOTE) for page in pages]
        pages, made = indexed(pages, made, epub.address, paged=False)
        colours = epub.colours((out / "_static/pygments.css").read_text(encoding="utf-8"))
        epub.make(pages, made, target, title=title, author=author, about=about(live), colours=colours)
        return [target]
    made = [set_(page, out, pages, live, pdf.address) for page in pages]
    if form == "sheet":
        return exercises.make(out, pages, made, work, NAME)
    pages, made = indexed(pages, made, pdf.address, paged=True)
    target = out / f"{NAME}.pdf"
    pdf.make(out, pages, made, target, work, title=title, author=author, about=about(live))
    return [target]


def set_(page: Page, out: Path, pages: list[Page], live: str, address: pdf.Address, notes: str = "") -> Sheet:
    text = (out / f"{page.name}.html").read_text(encoding="utf-8")
    known, paged = {each.name for each in pages}, address is pdf.address
    return sheet(page, text, known, address=address, live=live, notes=notes, paged=paged)


def indexed(
    pages: list[Page], sheets: list[Sheet], address: pdf.Address, paged: bool
) -> tuple[list[Page], list[Sheet]]:
    """The pages with an index of symbols behind them, where notation is among them."""
    index = symbols.sheet(pages, sheets, address, paged)
    return ([*pages, symbols.PAGE], [*sheets, index]) if index else (pages, sheets)


def about(live: str) -> str:
    """The last lines of the title page."""
    from posenc._version import __version__

    where = f'The pages whose panels move are at <a href="{html.escape(live)}">{html.escape(live)}</a>.' if live else ""
    today = datetime.date.today().strftime("%-d %B %Y") if os.name != "nt" else str(datetime.date.today())
    code = "Code is printed where the text needs it; what draws pictures and checks sentences is on the pages."
    return f"Version {__version__}, {today}. {code} {where}"


if __name__ == "__main__":
    sys.exit(main())
