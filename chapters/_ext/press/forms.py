"""The first page's links to the forms that were made: a book without them has no link that is dead.

`make pdf`, `make epub` and `make sheet` write beside the pages, when these are there. So the first page has a place for
their links, which is filled whenever a form is made, and whenever the page itself is.
"""

from __future__ import annotations

import re
from pathlib import Path

from press.pages import HOME

NAME = "positional-encodings"
FORMS = {
    f"{NAME}.pdf": "PDF",
    f"{NAME}.epub": "EPUB",
    f"{NAME}-exercises.pdf": "exercises",
    f"{NAME}-solutions.pdf": "exercises with solutions",
}
PLACE = re.compile(r'(<span class="pe-forms">).*?(</span>)', re.S)


def offer(out: Path) -> None:
    """Have the first page lead to the forms that are there, and to no others.

    Args:
        out: The folder of the built book.
    """
    page = out / f"{HOME}.html"
    if not page.exists():
        return
    text = page.read_text(encoding="utf-8")
    up = "../" * HOME.count("/")
    links = [
        f'<a href="{up}{name}">{words}</a> ({file.stat().st_size / 1e6:.1f} MB)'
        for name, words in FORMS.items()
        if (file := out / name).exists()
    ]
    said = f"Made so far: {', '.join(links)}." if links else ""
    changed = PLACE.sub(lambda found: f"{found[1]}{said}{found[2]}", text)
    if changed != text:
        page.write_text(changed, encoding="utf-8")
