"""From TeX to what a page can build: MathML as plain lists, with places for the present numbers."""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree.ElementTree import Element

from posenc.pictures.views import PLACE

FIRST = 7_000_001  # numbers that stand for places while the formula is converted


def tree(tex: str) -> list[Any]:
    """A formula as [tag, attributes, children]; a place of a number has the attribute "place", a name or an index."""
    from latex2mathml.converter import convert_to_element

    places: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        places.append(match[1])
        return f"{{{FIRST + len(places) - 1}}}"

    return _listed(convert_to_element(re.sub(PLACE, numbered, tex), display="block"), places)


def markup(node: list[Any], numbers: dict[str, str]) -> str:
    """The HTML of a formula with these numbers in its places."""
    tag, attributes, children = node
    if "place" in attributes:
        return f"<mn>{html.escape(numbers[attributes['place']])}</mn>"
    inner = "".join(html.escape(c) if isinstance(c, str) else markup(c, numbers) for c in children)
    given = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>{inner}</{tag}>"


def _listed(element: Element, places: list[str]) -> list[Any]:
    text = html.unescape(element.text or "").strip()
    tag = element.tag.rpartition("}")[2]
    if tag == "mn" and text.isdigit() and 0 <= int(text) - FIRST < len(places):
        return ["mn", {"place": places[int(text) - FIRST]}, []]
    children: list[Any] = [_listed(child, places) for child in element]
    # A browser would take letters from another part of Unicode, which no font of a text has.
    italic = {"class": "pe-italic"} if tag == "mi" and len(text) == 1 and "mathvariant" not in element.attrib else {}
    return [tag, {**element.attrib, **italic}, [text, *children] if text else children]
