"""Drags every grip of every panel of the built book, lets it go, and writes a table of what moved when.

For each grip, in headless Chromium: it is taken where it lies uppermost, moved, and held until the panel has answered;
then it is let go, and the panel rests. A row names the controls that moved while it was held, those that moved after it
was let go, and by how many pixels the grip jumped then. A grip moves nothing but its own controls, and nothing once it
has been let go: rows in which that fails are counted at the end, and make the command fail.

    python tools/grips.py [--book _build/html] [--out _build/grips.md] [CHAPTER …]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser import ARGUMENTS, DESK, chromium  # noqa: E402
from tests.panels import RESTORE, live, settled  # noqa: E402
from tests.test_explore_hands import RESTS  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

WAYS = ((34, -22), (-34, 22))  # pixels: the other way where a control is at its end
JUMP = 1.0  # pixels
POINTS = 8  # at which a grip is taken, until something moves
PATIENCE = 300_000  # milliseconds: a machine may be busy
PANELS = "figure.pe-panel:not(.pe-learn, .pe-dump)"
VIEWS = "panel.all.flatMap(view => view.parts ?? [view])"
GRIPS = f"""id => {{
  const {{ panel }} = document.getElementById(id);
  return {VIEWS}.flatMap((view, v) => view.handles.map(({{ controls, index }}, h) => {{
    const what = view.head.textContent || view.spec.y || view.spec.kind;
    const which = index === undefined ? controls.slice(0, 2).join(", ") : view.label(index);
    return [v, h, controls, `${{what}}: ${{which}}`];
  }}));
}}"""
# What is folded would never come alive.
UNFOLD = """() => {
  document.querySelector(".pe-unfold-all")?.click();
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const fold of document.querySelectorAll(".toggle-hidden")) fold.classList.remove("toggle-hidden");
}"""
# Points at which a grip is uppermost, within its box and along its outline: parts of a curve may not depend on its
# controls.
TAKEN = f"""([id, v, h]) => {{
  const {{ panel }} = document.getElementById(id), view = {VIEWS}[v], {{ node }} = view.handles[h];
  view.frame.svg.scrollIntoView({{ block: "center" }});
  const shapes = node instanceof SVGGeometryElement ? [node] : [...node.querySelectorAll("path, line, circle")];
  const parts = [10, 6, 14, 4, 16, 2, 18, 8, 12, 1, 19, 3, 5, 7, 9, 11, 13, 15, 17, 0, 20];
  const along = shapes.flatMap(shape => parts.map(part => {{
    const point = shape.getPointAtLength(shape.getTotalLength() * part / 20);
    const {{ x, y }} = point.matrixTransform(shape.getScreenCTM());
    return [x, y];
  }}));
  const {{ left, top, width, height }} = node.getBoundingClientRect();
  const within = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5]].map(([x, y]) => [left + x * width, top + y * height]);
  return [...within, ...along].filter(([x, y]) => node.contains(document.elementFromPoint(x, y)));
}}"""
STATE = f"""([id, v, h]) => {{
  const {{ panel }} = document.getElementById(id), view = {VIEWS}[v];
  const {{ left, top, right, bottom }} = view.handles[h].node.getBoundingClientRect();
  const from = view.frame.svg.getBoundingClientRect();
  return [{{ ...panel.values }}, [left - from.left, top - from.top, right - from.left, bottom - from.top]];
}}"""


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before if before[name] != after[name]]


def drag(
    page: Page, panel: str, grip: list[int], way: tuple[int, int], nth: int
) -> tuple[list[str], list[str], float] | None:
    """What moved while a grip was held, what moved afterwards, and how far it jumped; None: it can't be taken there."""
    given = [panel, *grip]
    points = page.evaluate(TAKEN, given)
    if nth >= len(points):
        return None
    point = points[nth]
    begun, _ = page.evaluate(STATE, given)
    page.mouse.move(*point)
    page.mouse.down()
    for share in (0.25, 0.5, 0.75, 1.0):
        page.mouse.move(point[0] + share * way[0], point[1] + share * way[1])
        settled(page, panel)
    page.evaluate(RESTS, panel)
    held, there = page.evaluate(STATE, given)
    page.mouse.up()
    page.evaluate(RESTS, panel)
    settled(page, panel)
    left, rests = page.evaluate(STATE, given)
    return moved(begun, held), moved(held, left), max(abs(a - b) for a, b in zip(there, rests, strict=True))


def rows(page: Page, chapter: str) -> Iterator[tuple[list[str], bool]]:
    """The rows of a chapter, and of each whether it is as it should be."""
    page.evaluate(UNFOLD)
    for panel in page.eval_on_selector_all(PANELS, "all => all.map(panel => panel.id)"):
        live(page, panel)
        for v, h, controls, name in page.evaluate(GRIPS, panel):
            found = None
            for nth, way in itertools.product(range(POINTS), WAYS):
                page.evaluate(RESTORE)
                live(page, panel)
                tried = drag(page, panel, [v, h], way, nth)
                found = tried or found
                if tried is None or tried[0]:
                    break
            start = [chapter, panel.removeprefix("explore-"), name]
            if found is None:
                yield [*start, "covered", "", ""], False
                continue
            during, after, jump = found
            good = bool(during) and set(during) <= set(controls) and not after and jump <= JUMP
            yield [*start, ", ".join(during) or "nothing", ", ".join(after) or "nothing", f"{jump:.1f}"], good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="these alone")
    parser.add_argument("--book", type=Path, default=ROOT / "_build/html", help="the built book")
    parser.add_argument("--out", type=Path, default=ROOT / "_build/grips.md", help="where the table goes")
    given = parser.parse_args()
    pages = sorted((given.book.resolve() / "chapters").glob("*.html"))
    if given.chapters:
        pages = [page for page in pages if page.stem in given.chapters]
    if not pages:
        sys.exit(f"{given.book} has no such chapters: run make book, or name a built book with --book")
    path = chromium()
    if path is None:
        sys.exit("there is no Chromium: install Debian's chromium, or run `playwright install chromium`")
    from playwright.sync_api import sync_playwright

    head = ["page", "panel", "grip", "moved while held", "moved after", "jump, pixels"]
    table = [head, ["---"] * len(head)]
    wrong = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for page in pages:
            if 'id="explore-' not in page.read_text(encoding="utf-8"):
                continue
            context = browser.new_context(viewport=DESK, reduced_motion="reduce")
            opened = context.new_page()
            opened.set_default_timeout(PATIENCE)
            opened.goto(page.as_uri())
            for row, good in rows(opened, page.stem):
                table.append(row)
                wrong += not good
                print(" | ".join(row) + ("" if good else "   <-"), flush=True)
            context.close()
        browser.close()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(f"| {' | '.join(row)} |\n" for row in table), encoding="utf-8")
    print(f"{len(table) - 2} grips, {wrong} of them not as they should be; the table is in {given.out}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
