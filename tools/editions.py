"""Puts the books of releases online beside the newest.

    python tools/editions.py _build/html FOLDER

FOLDER has the pages of each release as a ZIP that is named by its tag, such as v0.2.0.zip, whose pages then are in
`_build/html/v0.2.0`. Writes `editions.html`, a list of them, newest first, and a link to it at the end of the first
page. The workflow *publish* runs this; a book on a disk has one edition, and no such page.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from html import escape
from pathlib import Path

TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
FIRST = "chapters/index.html"
LINK = '<p class="pe-editions"><a href="../editions.html">Earlier editions of this book</a></p>'
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Editions · Positional Encodings</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 1.1rem/1.6 Georgia, serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }}
</style>
<h1>Editions</h1>
<ul>
<li><a href="{first}">the newest</a>, of the branch main</li>
{rows}
</ul>
</html>
"""


def add(html: Path, folder: Path) -> list[str]:
    """Adds the books of releases to a built one.

    Args:
        html: The folder of the newest book's pages, which is changed.
        folder: The folder with a ZIP for each release.

    Returns:
        The tags, newest first.

    Raises:
        ValueError: If there is no book in `html`, or a ZIP has another name than a tag's, no first page, or a file that
            would lie outside.
    """
    first = html / FIRST
    if not first.exists():
        raise ValueError(f"{html} has no {FIRST}: build the book first")
    found: list[tuple[tuple[int, ...], Path]] = []
    for path in folder.glob("*.zip"):
        if not (match := TAG.fullmatch(path.stem)):
            raise ValueError(f"{path.name} is not named by a tag: name it as v0.2.0.zip is")
        found.append((tuple(map(int, match.groups())), path))
    tags = [path.stem for _, path in sorted(found, reverse=True)]
    for tag in tags:
        with zipfile.ZipFile(folder / f"{tag}.zip") as pages:
            names = pages.namelist()
            if FIRST not in names:
                raise ValueError(f"{tag}.zip has no {FIRST}: pack the folder's content, not the folder")
            inside = (html / tag).resolve()
            if wrong := [name for name in names if not (inside / name).resolve().is_relative_to(inside)]:
                raise ValueError(f"{tag}.zip has {wrong[0]}, which would lie outside of {inside.name}")
            pages.extractall(inside)
    if tags:
        rows = "\n".join(f'<li><a href="{escape(tag)}/{FIRST}">{escape(tag[1:])}</a></li>' for tag in tags)
        (html / "editions.html").write_text(PAGE.format(first=FIRST, rows=rows), encoding="utf-8")
        text = first.read_text(encoding="utf-8")
        if LINK not in text:
            first.write_text(text.replace("</article>", f"{LINK}\n</article>", 1), encoding="utf-8")
    return tags


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("html", type=Path, help="the pages of the newest book, such as _build/html")
    parser.add_argument("folder", type=Path, help="a ZIP for each release, named by its tag")
    given = parser.parse_args(arguments)
    try:
        tags = add(given.html, given.folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"editions beside the newest: {', '.join(tags) or 'none yet'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
