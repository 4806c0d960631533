"""Writes down what a screen reader finds on pages of the built book, and walks through them by the Tab key.

Each page is opened from disk in headless Chromium without a network, with every fold open. `NAME.txt` has a line for
each paragraph, heading, control, formula and row of a table, in reading order and with its role, name and state, from
the accessibility tree; formulas are read from their MathML. At its end stand the stops of the Tab key. Faults are
listed, and make the command fail: a control without a name, a picture without words, a table without header cells, a
stop without a visible focus, and a Tab key that doesn't come to the end.

    python tools/aloud.py rope alibi [--book _build/html] [--out _build/aloud]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser import ARGUMENTS, DESK, MATHJAX_DONE, WALK, chromium  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PATIENCE = 300_000  # milliseconds: a machine may be busy
MOST = 3000  # presses of Tab
# Sections out of sight are laid out, since a reader who comes there has them so.
OPEN = """async () => {
  document.head.append(Object.assign(document.createElement("style"),
    { textContent: ".bd-article section > section { content-visibility: visible !important }" }));
  document.querySelectorAll("article details").forEach(fold => { fold.open = true; });
  document.querySelectorAll("article button[aria-expanded=false]:is(.pe-unfold, .toggle-button, .pe-further)")
    .forEach(button => button.click());
}"""
#: What has the focus, whether one sees that it has it, and whether it had it before.
STOP = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return null;
  const style = getComputedStyle(here);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
  const name = here.ariaLabel || here.labels?.[0]?.textContent || here.title || here.textContent;
  const stays = here === globalThis.stopped;
  globalThis.stopped = here;
  return [here.tagName.toLowerCase(), name.trim().replace(/\\s+/g, " ").slice(0, 80), ring, stays];
}"""
BLOCKS = {
    "paragraph", "heading", "listitem", "button", "slider", "textbox", "combobox", "checkbox", "table", "row", "term",
    "definition", "image", "group", "region", "figure", "navigation", "complementary", "DisclosureTriangle", "status",
    "alert", "note", "article", "main", "banner", "contentinfo", "list", "DescriptionList", "progressbar", "Pre",
    "LayoutTable", "Figcaption", "form", "search",
}  # fmt: skip
CONTROLS = {"button", "slider", "textbox", "combobox", "checkbox", "link", "DisclosureTriangle", "radio", "spinbutton"}
SPOKEN = {"DisclosureTriangle": "fold", "textbox": "edit", "image": "graphic", "StaticText": "", "combobox": "choice"}
#: How a formula is read, by the kind of its MathML.
READ: dict[str, Callable[..., str]] = {
    "MathMLFraction": lambda a, b: f"{a} over {b}" if simple(a, b) else f"fraction {a} over {b} end fraction",
    "MathMLSup": lambda a, b: f"{a} to the {b}" if simple(b) else f"{a} to the power of {b} end power",
    "MathMLSub": lambda a, b: f"{a} sub {b}" if simple(b) else f"{a} sub {b} end sub",
    "MathMLSubSup": lambda a, b, c: f"{a} sub {b} to the {c}" if simple(b, c) else f"{a} sub {b} to the {c} end power",
    "MathMLUnder": lambda a, b: f"{a} under which {b}",
    "MathMLOver": lambda a, b: f"{a} with {b} above",
    "MathMLUnderOver": lambda a, b, c: f"{a} from {b} to {c} of",
    "MathMLSquareRoot": lambda *all: f"square root of {' '.join(all)} end root",
    "MathMLRoot": lambda a, b: f"root {b} of {a} end root",
    "MathMLTableRow": lambda *all: f"row {', '.join(all)};",
}


def simple(*parts: str) -> bool:
    return all(len(part.split()) == 1 for part in parts)


class Reader:
    """The accessibility tree of a page, read from its beginning to its end."""

    def __init__(self, nodes: list[dict[str, Any]], attributes: dict[int, dict[str, str]]) -> None:
        self.by = {node["nodeId"]: node for node in nodes}
        self.attributes = attributes
        self.lines: list[str] = []
        self.faults: list[str] = []
        self.line = ""
        self.read(nodes[0])
        self.end()

    def children(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What is read below a node; what is ignored counts for its children."""
        for child in (self.by[key] for key in node.get("childIds", ()) if key in self.by):
            if child["ignored"] or child["role"]["value"] == "none":
                yield from self.children(child)
            else:
                yield child

    def end(self) -> None:
        if self.line.strip():
            self.lines.append(" ".join(self.line.split()))
        self.line = ""

    def fault(self, what: str) -> None:
        near = next((line for line in reversed(self.lines) if line.startswith("heading")), "the beginning")
        self.faults.append(f"{what}, after {near}")

    def read(self, node: dict[str, Any]) -> None:
        role, name = node["role"]["value"], node.get("name", {}).get("value", "").strip()
        if role in ("InlineTextBox", "ListMarker"):
            return
        if role == "StaticText":
            self.line += node["name"]["value"]
        elif role == "MathMLMath":
            self.line += f" formula {self.formula(node)} "
        elif role in CONTROLS:
            self.control(node, role, name)
        elif role == "image":
            if not name:
                self.fault("a picture without words")
            self.line += f" graphic: {name or 'unnamed'} "
        elif role in ("table", "grid"):
            self.table(node, name)
        elif role == "row":
            cells = [(cell["role"]["value"], self.text(cell)) for cell in self.children(node)]
            self.end()
            self.lines.append(
                "  row: " + " | ".join(f"header {text}" if "header" in of else text for of, text in cells)
            )
        else:
            self.block(node, role, name)

    def block(self, node: dict[str, Any], role: str, name: str) -> None:
        """Something that stands on lines of its own; of a heading its text is the name."""
        if role not in BLOCKS:
            for child in self.children(node):
                self.read(child)
            return
        self.end()
        level = next((each["value"]["value"] for each in node.get("properties", ()) if each["name"] == "level"), "")
        if role == "heading":
            self.lines.append(f"heading {level}: {self.text(node)}")
            return
        if role in ("term", "definition"):
            self.line = f"{role}: "
        elif role in ("list", "DescriptionList"):
            self.lines.append(f"list of {sum(1 for _ in self.children(node))}")
        elif role == "listitem":
            self.line = "• "
        elif name and role != "paragraph":
            self.lines.append(f"{role}: {name}")
        for child in self.children(node):
            self.read(child)
        self.end()

    def control(self, node: dict[str, Any], role: str, name: str) -> None:
        own = self.attributes.get(node.get("backendDOMNodeId", -1), {})
        kept = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
        said = [SPOKEN.get(role, role), name or "unnamed"]
        if "pressed" in kept:
            said[0] = "switch"
        if role in ("slider", "textbox", "combobox", "spinbutton"):
            said.append(f"= {own.get('aria-valuetext') or node.get('value', {}).get('value', '')}")
        if "expanded" in kept:
            said.append("expanded" if kept["expanded"] else "collapsed")
        said += [state for state in ("pressed", "checked", "disabled") if kept.get(state) in (True, "true")]
        about = node.get("description", {}).get("value", "")
        if about:
            said.append(f"({about})")
        if not name:
            self.fault(f"a {said[0]} without a name")
        if about and about == name:
            self.fault(f"a {said[0]} that says {name!r} twice")
        words = " ".join(said)
        if role == "link" or self.line.strip():  # within a sentence
            self.line += f" [{words}] "
        else:
            self.end()
            self.lines.append(words)

    def table(self, node: dict[str, Any], name: str) -> None:
        rows = [each for each in self.deep(node) if each["role"]["value"] == "row"]
        columns = max((sum(1 for _ in self.children(row)) for row in rows), default=0)
        heads = [each for row in rows for each in self.children(row) if "header" in each["role"]["value"]]
        self.end()
        self.lines.append(f"table{f' {name}' if name else ''}, {len(rows)} rows, {columns} columns")
        if not heads:
            self.fault(f"a table {name!r} without header cells")
        for row in rows:
            self.read(row)

    def deep(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for child in self.children(node):
            yield child
            yield from self.deep(child)

    def text(self, node: dict[str, Any]) -> str:
        """What is read of a node, on one line."""
        kept = self.line, self.lines
        self.line, self.lines = "", []
        for child in self.children(node):
            self.read(child)
        self.end()
        found = " ".join(self.lines)
        self.line, self.lines = kept
        return found

    def formula(self, node: dict[str, Any]) -> str:
        role = node["role"]["value"]
        if role == "StaticText":
            return str(node["name"]["value"])
        parts = [part for part in map(self.formula, self.children(node)) if part.strip("\u2061 ")]
        known = READ.get(role)
        try:
            return known(*parts) if known else " ".join(parts)
        except TypeError:  # a part of it is empty
            return " ".join(parts)


def attributes(page: Page, session: Any) -> dict[int, dict[str, str]]:
    """The attributes of every element, by its number in the accessibility tree."""
    found: dict[int, dict[str, str]] = {}
    heap = [session.send("DOM.getDocument", {"depth": -1})["root"]]
    while heap:
        node = heap.pop()
        given = node.get("attributes", [])
        found[node["backendNodeId"]] = dict(zip(given[::2], given[1::2], strict=True))
        heap += node.get("children", [])
    return found


def stops(page: Page) -> tuple[list[str], list[str]]:
    """Where the Tab key stops, from the top to the end of the page, and what is wrong with that."""
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    lines: list[str] = []
    faults: list[str] = []
    for _ in range(MOST):
        page.keyboard.press("Tab")
        found = page.evaluate(STOP)
        if found is None:
            return lines, faults
        tag, name, ring, stays = found
        lines.append(f"{tag}: {name}")
        if not ring:
            faults.append(f"a stop without a visible focus: {tag} {name}")
        if stays:
            return lines, [*faults, f"the Tab key stays at {tag} {name}"]
    return lines, [*faults, f"{MOST} presses of Tab don't come to the end"]


def aloud(context: BrowserContext, address: str) -> tuple[list[str], list[str]]:
    """What is read of a page, and its faults."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    session = context.new_cdp_session(page)
    page.goto(address)
    page.wait_for_function(MATHJAX_DONE)
    page.evaluate(OPEN)
    page.evaluate(WALK)
    page.wait_for_timeout(3000)  # panels that have come alive
    page.wait_for_function(MATHJAX_DONE)
    reader = Reader(session.send("Accessibility.getFullAXTree")["nodes"], attributes(page, session))
    tabbed, faults = stops(page)
    page.close()
    lines = [*reader.lines, "", f"{len(tabbed)} stops of the Tab key:", *tabbed]
    return lines, [*reader.faults, *faults]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="+", help="names such as rope")
    parser.add_argument("--book", type=Path, default=ROOT / "_build/html", help="the built book")
    parser.add_argument("--out", type=Path, default=ROOT / "_build/aloud", help="where the texts go")
    given = parser.parse_args()
    files = {name: given.book.resolve() / "chapters" / f"{name}.html" for name in given.chapters}
    if missing := [str(file) for file in files.values() if not file.is_file()]:
        sys.exit(f"not built: {', '.join(missing)}: run make book, or name a built book with --book")
    path = chromium()
    if path is None:
        sys.exit("there is no Chromium: install Debian's chromium, or run `playwright install chromium`")
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    faulty = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        context = browser.new_context(viewport=DESK, offline=True)
        for name, file in files.items():
            lines, faults = aloud(context, file.as_uri())
            (given.out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            words = len(re.findall(r"\w+", " ".join(lines)))
            print(f"{given.out / name}.txt: {len(lines)} lines, {words} words, {len(faults)} faults", flush=True)
            for fault in faults:
                print(f"  {fault}")
            faulty |= bool(faults)
        browser.close()
    sys.exit(faulty)


if __name__ == "__main__":
    main()
