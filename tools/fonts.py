"""Makes the book's fonts: `python tools/fonts.py FOLDER`, after `npm install` of these packages in that folder.

    @fontsource-variable/source-serif-4@5.3.1
    @fontsource-variable/source-sans-3@5.3.0
    @fontsource-variable/source-code-pro@5.3.0

Of Adobe's Source family a page needs Latin letters, Greek ones where there are any, and weights from 400 to 700. Their
licence reserves the name "Source" for the whole fonts, so these have names of their own. It takes fonttools and brotli,
which the book does without: what is made here stands in chapters/assets/fonts.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "chapters/assets/fonts"
WEIGHTS = (400, 700)
FEATURES = ["kern", "liga", "mark", "mkmk", "ccmp", "locl", "lnum", "tnum"]
LATIN = [
    *range(0x20, 0x7F), *range(0xA0, 0x100), 0x131, 0x152, 0x153, *range(0x2009, 0x2012), 0x2013, 0x2014, 0x2018,
    0x2019, 0x201A, 0x201C, 0x201D, 0x201E, 0x2020, 0x2022, 0x2026, 0x202F, 0x2032, 0x2033, 0x2044, 0x20AC, 0x2122,
    0x2191, 0x2193, 0x2212,
]  # fmt: skip
GREEK = list(range(0x391, 0x3CA))
FONTS = {
    "serif": ("source-serif-4", "normal", "Book Serif"),
    "serif-italic": ("source-serif-4", "italic", "Book Serif"),
    "sans": ("source-sans-3", "normal", "Book Sans"),
    "code": ("source-code-pro", "normal", "Book Code"),
}


def main(folder: Path) -> None:
    TARGET.mkdir(exist_ok=True)
    for name, (package, style, family) in FONTS.items():
        source = folder / "node_modules/@fontsource-variable" / package
        for part, letters in (("latin", LATIN), ("greek", GREEK)):
            data = subset(source / f"files/{package}-{part}-wght-{style}.woff2", letters, family)
            path = TARGET / (f"{name}.woff2" if part == "latin" else f"{name}-greek.woff2")
            path.write_bytes(data)
            print(f"{path.name}: {len(data):,} bytes")
        licence = (source / "LICENSE").read_text(encoding="utf-8")
        (TARGET / f"{package}.txt").write_text(LICENCE.format(family=family, licence=licence), encoding="utf-8")


LICENCE = """\
{family} is a part of a font of Adobe's Source family: its Latin and Greek letters in weights from 400 to 700, made by
tools/fonts.py. Copyright 2010-2023 Adobe (http://www.adobe.com/), with Reserved Font Name 'Source'.

{licence}"""


def subset(path: Path, letters: list[int], family: str) -> bytes:
    """A variable font with these letters and weights alone, under another name, as woff2."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont
    from fontTools.varLib.instancer import instantiateVariableFont

    font = again(instantiateVariableFont(TTFont(path, recalcTimestamp=False), {"wght": WEIGHTS}))
    options = Options(layout_features=FEATURES, hinting=False, notdef_outline=True, name_IDs=[0, 1, 2, 3, 4, 6, 13, 14])
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=letters)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6):
            record.string = family.replace(" ", "") if record.nameID == 6 else family
    font.flavor = "woff2"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def again(font: Any) -> Any:
    """The font as it is read from its own bytes: what was limited is then gone from all tables."""
    from fontTools.ttLib import TTFont

    font.flavor, out = None, io.BytesIO()
    font.save(out)
    out.seek(0)
    return TTFont(out, recalcTimestamp=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
