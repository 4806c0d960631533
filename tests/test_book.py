"""The built book in a real browser: it opens from disk and over http, is accessible, light and narrow enough."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from posenc._explore.explorer import Explorer
from posenc._explore.kept import kept
from tests.browser import DAILY, DESK, ROOT, Contexts, Opened, each_page
from tests.panels import differences

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BUDGET = 1_000_000  # bytes, compressed, before the runtime of the panels and their large graphs
MODELS = 850_000  # bytes, compressed, of a trained model that is loaded when it is chosen
GRAPHS = 700_000  # bytes, compressed, of the large graphs of one panel
SHIFT = 0.02  # of a page while it opens, from disk: cumulative layout shift
NODES = 15_200  # elements of a page as it opens, formulas and the first panel included
PHONE = {"width": 390, "height": 844}
AXE = ROOT / "node_modules/axe-core/axe.min.js"
ASIDE = re.compile("/posenc/(runtime|graphs/)")
TEXTS = (".html", ".css", ".js", ".svg", ".json")
Open = Callable[..., Opened]


def contents() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


CONTENTS = contents()
CHAPTERS = [page for page in CONTENTS if (ROOT / f"{page}.ipynb").exists()]
PAGES = [*CONTENTS, "search", "genindex", "_modules/posenc/schemes/rope"]
FONTS = sorted((ROOT / "chapters/assets/fonts").glob("*.woff2"))
SAMPLES = ["chapters/index", "chapters/race", "search", "_modules/posenc/schemes/rope"]


# ---- files -----------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page names (ids), what it leads to and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.icons: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        self.icons |= set(re.findall(r"\bfa-(?!solid\b|brands\b|lg\b)[a-z-]+", found.get("class", "")))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload") and "href" in found:
            self.loads.append(found["href"])
        if "src" in found:
            self.loads.append(found["src"])


def test_the_pages_of_each_day_are_pages_of_the_book() -> None:
    assert set(DAILY) <= set(PAGES)
    assert set(SAMPLES) <= set(DAILY)


@pytest.fixture(scope="module")
def pages(book: Path) -> dict[Path, Links]:
    return {path: Links(path) for path in sorted(book.rglob("*.html")) if "_static" not in path.parts}


def test_the_first_page_leads_to_the_first_chapter(book: Path) -> None:
    assert "chapters/index.html" in (book / "index.html").read_text(encoding="utf-8")


def test_links_and_anchors_lead_somewhere(pages: dict[Path, Links]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link} is not there")
            fragment = unquote(address.fragment)
            name = (
                fragment.split("?")[0] if fragment.startswith("explore-") else fragment
            )  # then what a panel is to show
            if target in pages and name and name not in pages[target].names:
                broken.append(f"{path.name}: {link} names nothing")
    assert not broken


def test_pages_load_files_of_the_book_only(pages: dict[Path, Links]) -> None:
    wrong = []
    for path, page in pages.items():
        for load in page.loads:
            address = urlsplit(load)
            if address.scheme == "data":
                continue
            if address.scheme or address.netloc or not (path.parent / unquote(address.path)).exists():
                wrong.append(f"{path.name}: {load}")
    assert not wrong


def test_every_icon_is_drawn(book: Path, pages: dict[Path, Links]) -> None:
    """The theme's icon script is not shipped; an icon that book.css does not draw would be a square."""
    style = (book / "_static/book.css").read_text(encoding="utf-8")
    used = set().union(*(page.icons for page in pages.values()))
    assert used
    assert {icon for icon in used if not re.search(rf"\.{icon}\b[^{{]*{{ --icon", style)} == set()


def test_styles_ask_no_other_host(book: Path) -> None:
    found = [
        f"{path.name}: {address}"
        for path in (book / "_static").rglob("*.css")
        for address in re.findall(r"(?:url\(|@import )[\"']?(https?:[^\"')]+)", path.read_text(encoding="utf-8"))
    ]
    assert not found


# ---- the browser -----------------------------------------------------------------------------------------------------


def address(base: str, page: str) -> str:
    return f"{base}/{page}.html"


WRONG_WIDTH = """[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1
  && getComputedStyle(e).visibility === 'visible').slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
CUT = """[...document.querySelectorAll('.bd-article .math')].filter(e => e.scrollWidth > e.clientWidth + 1
  && !['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).slice(0, 5).map(e => e.textContent)"""
BARE = "[...document.querySelectorAll('.math')].filter(e => !e.querySelector('mjx-container')).length"
SHIFTS = """window.shifts = []; new PerformanceObserver(list => shifts.push(...list.getEntries()))
  .observe({ type: "layout-shift", buffered: true });"""
SHIFTED = """async () => {  // by how much the page has moved until its first panel is drawn, and what moved most
  const panel = document.querySelector("figure.pe-panel:not(.pe-learn, .pe-reading)"), late = Date.now() + 20000;
  const seen = panel && panel.getBoundingClientRect().top < innerHeight;
  while (seen && !panel.classList.contains("pe-live") && Date.now() < late) await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  const most = shifts.toSorted((a, b) => b.value - a.value)[0]?.sources ?? [];
  const words = most.map(({ node }) => String(node?.outerHTML ?? node?.data).slice(0, 120));
  return [shifts.reduce((sum, { value }) => sum + value, 0), words];
}"""
OPEN_ALL = """() => {  // sections of depth and practice
  const all = document.querySelector(".pe-unfold-all");
  if (document.querySelector(".pe-fold[hidden]")) all.click();
}"""
UNFOLD = """() => {
  document.querySelectorAll("details").forEach(e => e.open = true);
  document.querySelectorAll(".toggle-hidden").forEach(e => e.classList.remove("toggle-hidden"));
}"""
# A chapter has some 20,000 elements, and axe looks at each of them and at all that is around it. Most are words of
# code, rows of numbers, marks of pictures and signs of formulas. Words differ in a few ways only: in their own classes
# and styles, and in those of all that is around them; rows likewise. The first of each kind stays. Marks have no words,
# and signs of formulas are hidden from screen readers: axe has nothing to say of them. What is read aloud stays, and
# so does the first formula of each kind.
THIN = """() => {
  const kinds = new Set();
  const copy = kind => kinds.has(kind) || !kinds.add(kind);
  const around = e => !e || e === document.body ? "" : (e.localName === "section" ? "" :
    `${e.localName} ${e.getAttribute("class")} ${e.getAttribute("style")} < `) + around(e.parentElement);
  for (const word of document.querySelectorAll(":is(pre, .sig) :is(span, em):not(:has(*), [id])"))
    if (!word.textContent.trim() || copy(around(word))) word.replaceWith(word.textContent);
  for (const row of document.querySelectorAll("tbody tr:not(:has([id], a, input, button))"))
    if (copy(around(row) + row.innerHTML.replace(/>[^<]+/g, ">"))) row.remove();
  const marks = "svg :is(path, rect, circle, line, image, use):not(:has(*), [tabindex], [role], [aria-label])";
  document.querySelectorAll(marks).forEach(mark => mark.remove());
  document.querySelectorAll("mjx-math[aria-hidden=true]").forEach(formula => formula.replaceChildren());
  document.querySelectorAll("mjx-assistive-mml math").forEach(aloud => aloud.replaceChildren(aloud.textContent));
  for (const formula of document.querySelectorAll("mjx-container")) {
    const kind = ["role", "tabindex", "aria-label", "aria-hidden"].map(name => formula.hasAttribute(name));
    if (formula.textContent.trim() && copy(`${kind} ${around(formula)}`)) formula.replaceWith(formula.textContent);
  }
}"""
# Contrast follows from the style of an element and those of what is around it. Text of one look has one contrast, so
# that axe measures the first of each look, unless an earlier page has it too; likewise links, which have to differ from
# the words around them. Returns the looks that are measured.
LOOKS = """([theme, known]) => {
  const look = new Map(), kinds = new Set(known), before = kinds.size;
  const style = e => {
    if (!e) return ["", ""];
    if (look.has(e)) return look.get(e);
    const s = getComputedStyle(e), [above, path] = style(e.parentElement);
    const own = [s.color, s.backgroundColor, s.backgroundImage, s.opacity, s.fontSize, s.fontWeight, s.textShadow,
      s.filter, s.mixBlendMode, s.display === "none", s.visibility].join(" ");
    look.set(e, [own, own === above ? path : `${path} < ${own}`]);
    return look.get(e);
  };
  const short = path => {  // 64 bits
    let a = 1, b = 2;
    for (let i = 0; i < path.length; i++) {
      a = Math.imul(a ^ path.charCodeAt(i), 2654435761);
      b = Math.imul(b ^ path.charCodeAt(i), 1597334677);
    }
    return `${a} ${b}`;
  };
  for (const e of document.body.querySelectorAll("*")) {
    const text = e.matches("input, select, textarea")
      || [...e.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    const kind = text && short(style(e)[1]);
    if (text && !kinds.has(kind)) e.setAttribute(`data-${theme}`, kinds.add(kind).size);
    if (theme === "dark" || !e.matches("a[href]")) continue;
    const amid = e.parentElement.textContent.trim().length > e.textContent.trim().length, s = getComputedStyle(e);
    const link = short([amid, s.textDecorationLine, s.borderBottomStyle, s.fontStyle, style(e)[1]].join(" "));
    if (!kinds.has(link)) e.setAttribute("data-link", kinds.add(link).size);
  }
  return [...kinds].slice(before);
}"""
# Only what is measured stays, and what is around it: where elements are on the page, which axe has to know to compare
# a colour with what is behind it or beside it, takes most of its time.
MEASURED = """() => {
  const measured = ":is([data-light], [data-dark], [data-link])";
  const stays = e => e.matches(measured) || e.querySelector(measured) || e.closest("[data-link]")
    || e.parentElement.querySelector(":scope > [data-link]");  // words beside a link
  [...document.body.querySelectorAll("*")].filter(e => !stays(e)).forEach(e => e.remove());
}"""
COLOURED = """async () => {  // once every colour has passed into that of the theme
  await new Promise(requestAnimationFrame);
  const passing = () => document.getAnimations().filter(each => each instanceof CSSTransition);
  while (passing().length) await Promise.allSettled(passing().map(each => each.finished));
}"""
FIRST = """async () => {
  const figure = document.querySelector("figure.pe-panel"), { panel, learning } = figure;
  figure.scrollIntoView();
  const bottom = part => part.getBoundingClientRect().bottom + scrollY;
  if (learning) return bottom(learning.race?.host ?? figure.querySelector(".pe-still"));
  for (const late = Date.now() + 20000; !panel.tensors && Date.now() < late;) await new Promise(requestAnimationFrame);
  const { stage, frame } = panel.views[0].parts?.[0] ?? panel.views[0];
  if (!frame) return bottom(stage);
  return stage.getBoundingClientRect().top + scrollY + frame.plot.top + frame.plot.height;
}"""
# Sections out of sight are neither laid out nor painted, and cut off what is too wide for them: this shows them whole.
WHOLE = ".bd-article section > section { content-visibility: visible !important }"
ARRANGED = "() => new Promise(painted => requestAnimationFrame(() => requestAnimationFrame(painted)))"
AXE_RUN = """async ([theme, options]) => {
  axe.configure({ rules: [{ id: "color-contrast", selector: `[data-${theme}]` },
    { id: "link-in-text-block", selector: "[data-link]" }] });
  const found = await axe.run(document, { ...options, resultTypes: ["violations"], preload: false,
    selectors: false });
  return found.violations.map(({ id, help, nodes }) =>
    `${id}: ${help}: ` + nodes.slice(0, 5).map(node => node.html.slice(0, 200)).join(" and "));
}"""
CONTRAST, LINKS = "color-contrast", "link-in-text-block"
THEMES = ("light", "dark")


def accessible(opened: Opened, seen: dict[str, set[str]] | None = None) -> dict[str, list[str]]:
    """What axe-core finds, by theme: in light; and in dark, where only colours differ, lack of contrast.

    Text is not measured if its look is one that was `seen` in this theme. The looks of a page without lack of contrast
    join them. Takes the page apart.
    """
    page, seen = opened.page, {theme: set() for theme in THEMES} if seen is None else seen

    def turn(theme: str) -> None:
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        page.evaluate(COLOURED)

    page.add_style_tag(content=WHOLE)
    page.evaluate(UNFOLD)
    page.evaluate(THIN)
    page.add_script_tag(path=AXE)
    turn("light")
    later = {rule: {"enabled": False} for rule in (CONTRAST, LINKS)}
    found = {"light": page.evaluate(AXE_RUN, ["light", {"rules": later}]), "dark": []}
    looks = {}
    for theme in THEMES:
        turn(theme)
        looks[theme] = page.evaluate(LOOKS, [theme, sorted(seen[theme])])
    page.evaluate(MEASURED)
    for theme, rules in (("dark", [CONTRAST]), ("light", [CONTRAST, LINKS])):
        if looks[theme]:
            turn(theme)
            lacks = page.evaluate(AXE_RUN, [theme, {"runOnly": rules}])
            found[theme] += lacks
            seen[theme].update(() if lacks else looks[theme])
    return found


@dataclass
class Visit:
    """What one visit to a page from disk finds: as wide as a phone, then as a desk; in light, then in dark."""

    problems: list[str]
    shift: float  # by how much the page moves while it opens, as Chromium counts
    moved: list[str]
    nodes: int  # elements, as the page opens
    files: set[str]  # loaded until the page has been read to its end
    width: int
    wide: list[str]
    cut: list[str]
    formulas: int
    bare: int
    wrong: list[str]
    panels: float | Exception
    """The largest difference from torch when every control moved, or what went wrong."""
    first: float
    """Where the first picture of the first panel ends, in pixels from the top of the page."""
    lacks: dict[str, list[str]]
    """What axe finds in each theme."""


def explorers(book: Path, page: str) -> dict[str, Explorer]:
    """The panels of a page, as the build kept them."""
    found = kept(book.parent / "explorers" / page.removeprefix("chapters/")) if page in CHAPTERS else {}
    trains = page in CHAPTERS and (book / f"{page}.html").read_text(encoding="utf-8").count("pe-learn")
    assert bool(found or trains) == (page in CHAPTERS), f"{page} has no explorer"
    return found


@pytest.fixture(scope="session")
def seen() -> dict[str, set[str]]:
    """What text looks like on the pages that were visited, by theme."""
    return {theme: set() for theme in THEMES}


@pytest.fixture(scope="module")
def visit(request: pytest.FixtureRequest, book: Path, browser: Browser, seen: dict[str, set[str]]) -> Iterator[Visit]:
    """The page is opened once, and each of its tests looks at what was found."""
    contexts, clean = Contexts(browser, f"visit-{request.param}"), False
    try:
        opened = contexts.open(
            address(book.as_uri(), request.param), SHIFTS, viewport=PHONE, has_touch=True, color_scheme="light",
            offline=True,
        )  # fmt: skip
        page = opened.page
        shift, moved = page.evaluate(SHIFTED)
        nodes = page.evaluate("document.querySelectorAll('*').length")
        page.evaluate(OPEN_ALL)
        opened.walk()
        whole = page.add_style_tag(content=WHOLE)
        width, wide, cut = (page.evaluate(what) for what in ("document.scrollingElement.scrollWidth", WRONG_WIDTH, CUT))
        formulas, bare = page.locator(".math").count(), page.evaluate(BARE)
        wrong = page.locator("mjx-merror").all_text_contents()
        files = local(opened.requested, book.as_uri())
        whole.evaluate("style => style.remove()")
        page.set_viewport_size(DESK)
        page.evaluate(ARRANGED)
        first = page.evaluate(FIRST) if request.param in CHAPTERS else 0.0
        panels: float | Exception = 0.0
        try:
            panels = differences(page, explorers(book, request.param))
        except Exception as error:
            panels = error
        problems = list(opened.problems)
        lacks = accessible(opened, seen)
        found = Visit(
            problems, shift, moved, nodes, files, width, wide, cut, formulas, bare, wrong, panels, first, lacks
        )
        faults = (problems, width > PHONE["width"], cut, bare, wrong, isinstance(panels, Exception), *lacks.values())
        clean = not any(faults)
        yield found
    finally:
        contexts.close(keep=not clean)


def each(pages: list[str]) -> pytest.MarkDecorator:
    """A test for each of these pages. One worker takes all tests of a page (conftest.py), and visits it once."""
    return pytest.mark.parametrize("visit", each_page(pages), indirect=True)


def local(addresses: list[str], base: str) -> set[str]:
    """The files behind these addresses, in the folder of the book; those that panels load aside."""
    paths = (unquote(each.split("?")[0].split("#")[0]) for each in addresses if each.startswith(base))
    return {path.removeprefix(unquote(base)).lstrip("/") for path in paths if not ASIDE.search(path)}


def weight(book: Path, files: set[str]) -> int:
    return sum(compressed(book / path) for path in files)


@cache
def compressed(path: Path) -> int:
    content = path.read_bytes()
    return len(gzip.compress(content, 6)) if path.suffix in TEXTS else len(content)


@each(PAGES)
def test_opens_from_disk(visit: Visit) -> None:
    assert not visit.problems


@each(PAGES)
def test_nothing_moves_while_it_opens(visit: Visit) -> None:
    assert visit.shift <= SHIFT, visit.moved


@pytest.mark.pages
def test_nothing_moves_on_a_slow_machine(book: Path, open_page: Open) -> None:
    opened = open_page("about:blank", SHIFTS, viewport=PHONE, offline=True)  # a still picture arrives piece by piece
    page = opened.page
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
    page.goto(address(book.as_uri(), "chapters/shaw"), wait_until="load", timeout=90_000)
    shift, moved = page.evaluate(SHIFTED)
    assert shift <= SHIFT, moved


@each(PAGES)
def test_keeps_its_budget(book: Path, visit: Visit) -> None:
    assert any(path.endswith(".css") for path in visit.files)
    assert weight(book, visit.files) <= BUDGET, f"{weight(book, visit.files):,} bytes: {sorted(visit.files)}"


@each(PAGES)
def test_has_few_elements(visit: Visit) -> None:
    assert visit.nodes <= NODES


def test_large_graphs_stand_apart_and_keep_their_budget(book: Path) -> None:
    scripts = list((book / "_static/posenc/graphs").glob("*.js"))
    pages = {page.name: page.read_text(encoding="utf-8") for page in (book / "chapters").glob("*.html")}
    apart = {name for text in pages.values() for name in re.findall(r'"apart": "(\w+)"', text)}
    models = {
        name
        for text in pages.values()
        for held in re.findall(r'"apart": \{([^}]*)\}', text)
        for name in re.findall(r': "(\w+)"', held)
    }
    assert apart and models
    assert {script.stem for script in scripts} == apart | models
    assert max(compressed(script) for script in scripts if script.stem in apart) <= GRAPHS
    assert max(compressed(script) for script in scripts if script.stem in models) <= MODELS


@each(PAGES)
def test_fits_a_phone(visit: Visit) -> None:
    assert visit.width <= PHONE["width"], visit.wide


@each(PAGES)
def test_a_phone_cuts_off_no_formula(visit: Visit) -> None:
    assert not visit.cut


@each(CONTENTS)
def test_mathematics_is_set(visit: Visit, request: pytest.FixtureRequest) -> None:
    page = request.node.callspec.id
    plain = ("chapters/index", "chapters/bibliography", "chapters/checks", "chapters/api_audit")
    assert visit.formulas > 0 or page in plain
    assert visit.bare == 0
    assert not visit.wrong


@each(CHAPTERS)
def test_every_control_moves_and_the_page_equals_torch(
    visit: Visit, record_property: Callable[[str, object], None]
) -> None:
    if isinstance(visit.panels, Exception):
        raise visit.panels
    print(f"largest difference from torch {visit.panels:.1e}")
    record_property("largest difference from torch", visit.panels)


#: Its first screen is a table of needs, and the panel of the base comes next.
NEEDS = "chapters/choosing"


@each(CHAPTERS)
def test_the_first_panel_stands_on_the_first_screen(visit: Visit, request: pytest.FixtureRequest) -> None:
    assert visit.first <= DESK["height"] * (2 if request.node.callspec.id == NEEDS else 1)


@each(CHAPTERS)
@pytest.mark.usefixtures("visit")
def test_panels_speak_in_words(book: Path, request: pytest.FixtureRequest) -> None:
    for explorer in explorers(book, request.node.callspec.id).values():
        assert 0 < len(explorer.caption) <= 140
        for control in explorer.controls:
            assert not re.search(r"^[a-z]\d?$|\bdim\b|_", explorer.label(control.name))


@each(CHAPTERS)
@pytest.mark.usefixtures("visit")
def test_a_panel_stands_before_its_code_which_is_folded(book: Path, request: pytest.FixtureRequest) -> None:
    text = (book / f"{request.node.callspec.id}.html").read_text(encoding="utf-8")
    cells = [cell for cell in re.split(r'<div class="cell(?= |")', text) if 'class="pe-panel' in cell]
    assert cells
    for cell in cells:
        figure, fold, code = (cell.index(part) for part in ("<figure", "<details", 'class="highlight'))
        assert figure < fold < code
        assert re.match(r'<details class="[^"]*">', cell[fold:])  # and not open
        assert re.search(r"<summary><p[^>]*>The function and the call, \d+ lines</p></summary>", cell[fold:code])


@each(PAGES)
def test_is_accessible_in_light(visit: Visit) -> None:
    assert not visit.lacks["light"]


@each(PAGES)
def test_has_contrast_in_dark(visit: Visit) -> None:
    assert not visit.lacks["dark"]


def test_axe_finds_one_fault_among_copies(book: Path, open_page: Open) -> None:
    """Faults that are in one place each, among all that is alike, are found: in code, in both themes, and elsewhere."""
    opened = open_page(address(book.as_uri(), "chapters/choosing"), color_scheme="light")
    opened.page.evaluate(
        """() => {
          // axe judges no contrast of a single character
          const words = [...document.querySelectorAll("pre span:not(:has(*))")]
            .filter(e => /\\w\\w/.test(e.textContent));
          words.at(-1).classList.add("pale");
          words.at(-2).classList.add("dim");
          const cells = [...document.querySelectorAll("tbody td, tbody td *")].filter(e => !e.children.length);
          cells.at(-1).classList.add("faint");
          document.querySelector("article p").insertAdjacentHTML("beforeend", "<img src='data:,'>");
          // nor a link with an element in it
          const links = [...document.querySelectorAll("article p > a:not(:has(*))")];
          const amid = e => e.checkVisibility() && e.parentElement.textContent.length > 2 * e.textContent.length
            && !e.parentElement.querySelector("img"); // beside a picture axe does not judge a link
          links.find(amid).classList.add("hid");
          document.head.insertAdjacentHTML("beforeend", `<style>[data-theme=light] .pale { color: #ddd !important }
            [data-theme=dark] .faint { opacity: 0.2 }
            [data-theme=dark] .dim { color: #444 !important }
            .hid, .hid * { color: #333 !important; text-decoration: none !important }</style>`);
        }"""
    )
    light, dark = accessible(opened).values()
    assert [found.split(":")[0] for found in sorted(light)] == ["color-contrast", "image-alt", "link-in-text-block"]
    assert "pale" in sorted(light)[0]
    assert [found.split(":")[0] for found in dark] == ["color-contrast"]
    assert "dim" in dark[0]
    assert "faint" in dark[0]


@each(SAMPLES)
def test_over_http_the_same_files_are_loaded(
    visit: Visit, server: str, open_page: Open, request: pytest.FixtureRequest
) -> None:
    opened = open_page(address(server, request.node.callspec.id))
    opened.page.evaluate(OPEN_ALL)
    opened.walk()
    opened.page.add_style_tag(content=WHOLE)
    opened.page.evaluate(ARRANGED)
    opened.page.evaluate("document.fonts.ready.then(() => true)")
    fonts = {path for path in visit.files if "/fonts/" in path}  # over http some are fetched ahead
    assert local(opened.requested, server) - visit.files <= {f"_static/fonts/{path.name}" for path in FONTS}
    assert visit.files - fonts <= local(opened.requested, server)
    assert not opened.problems


def test_code_has_no_elements_without_a_colour_of_their_own(book: Path) -> None:
    page = (book / "chapters/rope.html").read_text(encoding="utf-8")
    assert '<span class="k">def</span>' in page
    assert not re.findall(r'<span class="(?:n|nn|o|p|w)">', page)
    assert not re.findall(r'<span class="(\w+)">[^<]*</span><span class="\1">[^<]*</span>', page)


def test_the_colours_of_the_notation_reach_the_formulas(book: Path, open_page: Open) -> None:
    opened = open_page(address(book.as_uri(), "chapters/notation"))
    for name in ("query", "key", "value", "position"):
        text, formula = (opened.page.locator(f"{kind}.tex-{name}").first for kind in ("span", "mjx-container *"))
        colours = {element.evaluate("e => getComputedStyle(e).color") for element in (text, formula)}
        assert len(colours) == 1
        assert colours != {opened.page.locator("body").evaluate("e => getComputedStyle(e).color")}


def test_what_is_wider_than_its_column_is_a_stop_of_the_tab_key_wherever_it_is(book: Path, open_page: Open) -> None:
    page = open_page(address(book.as_uri(), "chapters/race"), viewport=PHONE).page
    stops = """() => {
      const boxes = [...document.querySelectorAll("div.highlight pre, div.cell_output pre, div.math")];
      const wide = boxes.filter(box => box.scrollWidth > box.clientWidth + 1);
      return [wide.length, wide.filter(box => box.tabIndex !== 0).length, boxes.length - wide.length,
              boxes.filter(box => !wide.includes(box) && box.tabIndex === 0).length];
    }"""
    page.wait_for_function(f"({stops})()[1] === 0")
    page.add_style_tag(content="div.highlight pre { font-size: 3px !important; }")
    page.evaluate("dispatchEvent(new Event('resize'))")
    page.wait_for_function(f"({stops})()[3] === 0")
    wide, missed, narrow, idle = page.evaluate(stops)
    assert narrow and not missed and not idle
    page.set_viewport_size({"width": 240, "height": 800})
    page.wait_for_function(f"({stops})()[0] > {wide} && ({stops})()[1] === 0")


def test_a_new_reader_gets_the_system_s_light_or_dark(book: Path, open_page: Open) -> None:
    for theme in ("light", "dark"):
        opened = open_page(address(book.as_uri(), "search"), color_scheme=theme)
        assert opened.page.evaluate("document.documentElement.dataset.theme") == theme


def test_search_finds_sections_and_lands_on_them(server: str, open_page: Open) -> None:
    opened = open_page(f"{server}/search.html?q=dynamic+ntk+stale+keys")
    opened.page.wait_for_selector("#search-results li a")
    opened.page.locator("#search-results li a").first.click()
    opened.page.wait_for_url("**/chapters/scaling.html?highlight=*#dynamic-scaling-and-keys-that-go-stale")
    opened.page.wait_for_function("CSS.highlights.get('pe-found')?.size")
    assert opened.page.locator("#dynamic-scaling-and-keys-that-go-stale .pe-fold").is_visible()
    assert not opened.problems


@pytest.mark.parametrize("word", ["constructor", "__proto__"])
def test_search_for_what_every_object_has_ends_as_for_any_other_word(word: str, server: str, open_page: Open) -> None:
    opened = open_page(f"{server}/search.html?q={word}")
    opened.page.wait_for_function("document.querySelector('#search-status').textContent")
    assert not opened.page.locator("#search-results li a[href*=undefined]").count()
    assert not opened.problems


def test_numbers_with_evidence_are_buttons_with_a_proof(book: Path) -> None:
    text = (book / "chapters/alibi.html").read_text(encoding="utf-8")
    assert re.search(r'<span class="pe-evidence"><button[^>]*>\s*<span>by [\d.]+ nats at most</span></button>', text)
    assert 'class="pe-proof" id="evidence-1"' in text and 'class="pe-notes"' in text


def test_search_from_disk_raises_no_error(book: Path, open_page: Open) -> None:
    opened = open_page(book.as_uri() + "/search.html?q=equivariance")
    opened.page.wait_for_selector("#search-results li a")
    opened.page.wait_for_timeout(500)
    assert not opened.problems
