"""The built book in a real browser: it opens from disk and over http, is accessible, light and narrow enough."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.browser import ROOT, Opened

BUDGET = 1_500_000  # bytes, compressed, before the runtime of the panels
PHONE = {"width": 390, "height": 844}
AXE = ROOT / "node_modules/axe-core/axe.min.js"
TEXTS = (".html", ".css", ".js", ".svg", ".json")
Open = Callable[..., Opened]


def contents() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


CONTENTS = contents()
PAGES = [*CONTENTS, "search", "genindex", "_modules/posenc/rope"]


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
            elif target in pages and address.fragment and unquote(address.fragment) not in pages[target].names:
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


@pytest.mark.parametrize("page", PAGES)
def test_opens_from_disk(book: Path, open_page: Open, page: str) -> None:
    opened = open_page(address(book.as_uri(), page))
    opened.walk()
    assert not opened.problems


@pytest.mark.parametrize("page", PAGES)
def test_opens_over_http_within_its_budget(book: Path, server: str, open_page: Open, page: str) -> None:
    opened = open_page("about:blank")
    opened.host = server.removeprefix("http://")
    loaded: set[str] = set()
    opened.page.on("response", lambda response: loaded.add(urlsplit(response.url).path))
    opened.page.goto(address(server, page), wait_until="load")
    opened.settle()
    weight = sum(compressed(book / path.lstrip("/")) for path in loaded if "/posenc/runtime" not in path)
    assert weight <= BUDGET, f"{weight:,} bytes: {sorted(loaded)}"
    opened.walk()
    assert not opened.problems


def compressed(path: Path) -> int:
    content = path.read_bytes()
    return len(gzip.compress(content, 6)) if path.suffix in TEXTS else len(content)


@pytest.mark.parametrize("page", CONTENTS)
def test_mathematics_is_set(book: Path, open_page: Open, page: str) -> None:
    opened = open_page(address(book.as_uri(), page))
    formulas = opened.page.locator(".math")
    bare = opened.page.evaluate(
        "[...document.querySelectorAll('.math')].filter(e => !e.querySelector('mjx-container')).length"
    )
    wrong = opened.page.locator("mjx-merror").all_text_contents()
    assert formulas.count() > 0 or page in ("chapters/index", "chapters/bibliography", "chapters/checks")
    assert bare == 0
    assert not wrong


def test_the_colours_of_the_notation_reach_the_formulas(book: Path, open_page: Open) -> None:
    opened = open_page(address(book.as_uri(), "chapters/notation"))
    for name in ("query", "key", "value", "position"):
        text, formula = (opened.page.locator(f"{kind}.tex-{name}").first for kind in ("span", "mjx-container *"))
        colours = {element.evaluate("e => getComputedStyle(e).color") for element in (text, formula)}
        assert len(colours) == 1
        assert colours != {opened.page.locator("body").evaluate("e => getComputedStyle(e).color")}


@pytest.mark.parametrize("page", PAGES)
def test_is_accessible(book: Path, open_page: Open, page: str) -> None:
    """axe-core finds nothing in light; in dark, where only colours differ, no lack of contrast."""
    opened = open_page(address(book.as_uri(), page), color_scheme="light")
    opened.walk()
    opened.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")  # folded text counts too
    opened.page.add_script_tag(path=AXE)
    told = []
    for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        opened.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        opened.page.wait_for_timeout(200)
        run = "options => axe.run(document, {...options, resultTypes: ['violations']}).then(found => found.violations)"
        for found in opened.page.evaluate(run, options):
            told.append(f"{theme}: {found['id']}: {found['help']}: {found['nodes'][0]['html'][:200]}")
    assert not told


def test_a_new_reader_gets_the_system_s_light_or_dark(book: Path, open_page: Open) -> None:
    for theme in ("light", "dark"):
        opened = open_page(address(book.as_uri(), "chapters/index"), color_scheme=theme)
        assert opened.page.evaluate("document.documentElement.dataset.theme") == theme


@pytest.mark.parametrize("page", PAGES)
def test_fits_a_phone(book: Path, open_page: Open, page: str) -> None:
    opened = open_page(address(book.as_uri(), page), viewport=PHONE, has_touch=True)
    opened.walk()
    width = opened.page.evaluate("document.scrollingElement.scrollWidth")
    wide = opened.page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && getComputedStyle(e).visibility === 'visible').slice(0, 5).map(e => e.outerHTML.slice(0, 120))"
    )
    assert width <= PHONE["width"], wide
    cut = opened.page.evaluate(
        "[...document.querySelectorAll('.bd-article .math')].filter(e => e.scrollWidth > e.clientWidth + 1"
        " && !['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).slice(0, 5).map(e => e.textContent)"
    )
    assert not cut, f"formulas that a phone cuts off: {cut}"


def test_search_finds(server: str, open_page: Open) -> None:
    opened = open_page(f"{server}/search.html?q=equivariance")
    opened.page.wait_for_selector("#search-results li a")
    assert not opened.problems


def test_search_from_disk_raises_no_error(book: Path, open_page: Open) -> None:
    opened = open_page(book.as_uri() + "/search.html?q=equivariance")
    opened.page.wait_for_selector("#search-results li a")
    opened.page.wait_for_timeout(500)
    assert not opened.problems


# ---- what the build finds out by itself ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    spec = importlib.util.spec_from_file_location("book_extension", ROOT / "chapters/_ext/book.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clone(extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """git, in an empty repository that the extension takes for the book's."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_REF_NAME", "GITHUB_REF_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    extension.git("init", "--initial-branch=trunk")
    return extension.git


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/owner/book.git", "https://github.com/owner/book"),
        ("https://github.com/owner/book", "https://github.com/owner/book"),
        ("https://token@github.com/owner/book.git", "https://github.com/owner/book"),
        ("git@github.com:owner/book.git", "https://github.com/owner/book"),
        ("ssh://git@gitlab.com/owner/book.git", "https://gitlab.com/owner/book"),
        ("https://example.org/owner/book.git", None),
        ("/srv/book.git", None),
        (None, None),
    ],
)
def test_links_follow_the_remote(
    extension: ModuleType, clone: Callable[..., str], remote: str | None, expected: str | None
) -> None:
    if remote:
        clone("remote", "add", "origin", remote)
    assert extension.repository() == (expected and (expected, "trunk"))


def test_a_workflow_knows_its_repository_and_branch(
    extension: ModuleType, clone: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/fork")
    monkeypatch.setenv("GITHUB_REF_TYPE", "branch")
    monkeypatch.setenv("GITHUB_REF_NAME", "try")
    assert extension.repository() == ("https://github.com/owner/fork", "try")


def test_launch_buttons_need_a_repository(extension: ModuleType, clone: Callable[..., str]) -> None:
    def buttons() -> dict[str, str]:
        config = SimpleNamespace(html_theme_options={"launch_buttons": {"binderhub_url": "b", "colab_url": "c"}})
        extension.link(None, config)
        return config.html_theme_options["launch_buttons"]

    assert buttons() == {}
    clone("remote", "add", "origin", "https://gitlab.com/owner/book")
    assert buttons() == {"binderhub_url": "b"}
    clone("remote", "set-url", "origin", "https://github.com/owner/book")
    assert buttons() == {"binderhub_url": "b", "colab_url": "c"}


def test_an_edit_in_the_package_changes_the_key(
    extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    source = tmp_path / "posenc/deep/rope.py"
    source.parent.mkdir(parents=True)
    keys = []
    for text in ("a = 1\n", "a = 1\n", "a = 2\n"):
        source.write_text(text, encoding="utf-8")
        keys.append(extension.key())
    source.rename(source.with_name("other.py"))
    keys.append(extension.key())
    (tmp_path / "posenc/results.json").write_text("{}", encoding="utf-8")  # which chapters read
    keys.append(extension.key())
    for weights in (b"one", b"two"):  # which pages show
        (tmp_path / "posenc/weights.safetensors").write_bytes(weights)
        keys.append(extension.key())
    assert keys[0] == keys[1]
    assert len(set(keys)) == 6


def test_the_present_cache_and_the_newest_others_are_kept(
    extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    home, present = tmp_path / ".jupyter_cache", extension.key()
    for age, name in enumerate((*"abcdef", present)):  # a is the newest, the present one the oldest
        (home / name).mkdir(parents=True)
        os.utime(home / name, (1e9 - age, 1e9 - age))
    config = SimpleNamespace()
    extension.cache(SimpleNamespace(outdir=tmp_path / "html"), config)
    assert config.nb_execution_cache_path == str(home / present)
    others = list("abcdef")[: extension.CACHES_KEPT - 1]
    assert sorted(path.name for path in home.iterdir()) == sorted([present, *others])


def test_a_build_with_warnings_is_not_taken_for_done(extension: ModuleType, tmp_path: Path) -> None:
    pickle = tmp_path / "environment.pickle"
    for strict, warnings, kept in ((True, 1, False), (True, 0, True), (False, 1, True)):
        pickle.touch()
        builder = SimpleNamespace(format="text")
        app = SimpleNamespace(warningiserror=strict, _warncount=warnings, doctreedir=tmp_path, builder=builder)
        extension.finish(app, None)
        assert pickle.exists() == kept


def test_git_that_fails_is_no_error(extension: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    assert extension.git("remote", "get-url", "nowhere") == ""

    def missing(*arguments: object, **options: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert extension.git("status") == ""
