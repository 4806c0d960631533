"""The fonts that ship with the book: small enough, complete, licensed, under names that their licence allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[1]
FONTS = ROOT / "chapters/assets/fonts"
CSS = (ROOT / "chapters/assets/book.css").read_text(encoding="utf-8")
FACES = re.findall(r'@font-face \{ font-family: "([^"]+)"; src: url\("([^"]+)"\)([^}]*)\}', CSS)


def test_a_page_loads_150_kilobytes_of_fonts_at_most() -> None:
    assert sum(path.stat().st_size for path in FONTS.glob("*.woff2")) < 150_000


def test_every_face_is_there_and_every_file_is_used() -> None:
    assert {f"fonts/{path.name}" for path in FONTS.glob("*.woff2")} == {url for _, url, _ in FACES}
    assert CSS.count("@font-face") == len(FACES)
    for family, _, rest in FACES:
        assert "font-display: fallback" in rest
        assert re.search(rf'--pst-font-family-\w+: "{family}", [\w"-]+', CSS), family  # and what stands behind it


def test_their_licences_ship_and_their_reserved_name_is_not_used() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FONTS.glob("*.txt")]
    assert len(texts) == 3
    for text in texts:
        assert "SIL OPEN FONT LICENSE" in text.upper() and "Reserved Font Name 'Source'" in text
    assert not [family for family, _, _ in FACES if "Source" in family]


def letters() -> str:
    """The letters of all pages: Latin, Greek, digits and marks."""
    found = set()
    for path in (ROOT / "chapters").glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                found |= set(re.sub(r"\$[^$]*\$", "", "".join(cell["source"])))
    return "".join(sorted(c for c in found if c.isprintable() and (ord(c) < 0x250 or 0x391 <= ord(c) <= 0x3C9)))


@pytest.mark.parametrize("name", ["serif", "serif-italic", "sans", "code"])
def test_they_have_the_letters_of_the_book(name: str) -> None:
    has = {c for part in ("", "-greek") for c in TTFont(FONTS / f"{name}{part}.woff2").getBestCmap()}
    assert [c for c in letters() if ord(c) not in has] == []
