"""What the book needs to find out while it is built: a Sphinx extension.

- The launch buttons follow the git remote, so that a fork's book opens the fork's notebooks.
- So do commands that install the package: they name a place, OWNER/REPOSITORY, for the address.
- Tables of what was checked are set from `chapters/checked`, where the tests keep them.
- MathJax is copied into the page's own folder: a page asks no other host for anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pybtex.plugin
from cards import tags
from docutils import nodes
from execution import NotebookError
from myst_nb.sphinx_ import HideCodeCellNode  # type: ignore[import-untyped]
from pybtex.style import template
from pybtex.style.formatting.unsrt import Style as Unsorted
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from stamp import key

from posenc.pictures.table import Table

ROOT = Path(__file__).resolve().parents[2]
PLACE = "https://github.com/OWNER/REPOSITORY"
logger = logging.getLogger(__name__)


def git(*arguments: str) -> str:
    """What git answers, or nothing: no git, no repository and no such setting are the same here."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def repository() -> tuple[str, str] | None:
    """The address and the branch that links lead to; None where there is no public remote."""
    if "GITHUB_REPOSITORY" in os.environ:
        address = f"https://github.com/{os.environ['GITHUB_REPOSITORY']}"
    else:
        remote = git("remote", "get-url", "origin")
        found = re.fullmatch(r"(?:.*@|.*://)(?:[^@/]*@)?(github\.com|gitlab\.com)[:/](.+?)/(.+?)(?:\.git)?/?", remote)
        if not found:
            return None
        address = "https://{}/{}/{}".format(*found.groups())
    head = git("symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    here = os.environ.get("GITHUB_REF_NAME", "") if os.environ.get("GITHUB_REF_TYPE") == "branch" else ""
    return address, here or head or git("branch", "--show-current") or "main"


def link(app: Sphinx, config: Config) -> None:
    """Launch buttons and links to the repository, or none at all."""
    theme, found = config.html_theme_options, repository()
    if found is None:
        theme["launch_buttons"] = {}
        theme["repository_url"] = ""
        return
    theme["repository_url"], theme["repository_branch"] = found
    theme["use_repository_button"] = theme["use_issues_button"] = True
    if "github.com" not in found[0]:
        theme["launch_buttons"].pop("colab_url", None)  # Colab opens notebooks from GitHub only


def sources(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Have the pages of sources made anew with the package: viewcode would keep its first analysis of each module."""
    if getattr(env, "book_key", None) != key():
        env._viewcode_modules = {}
        env.book_key = key()
    if "chapters/api" in docnames:  # which may link to other lines now, though no module is newer than its page
        shutil.rmtree(Path(app.outdir) / "_modules", ignore_errors=True)


def restyled(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> set[str]:
    """All pages, if a style or script of the book has changed: Sphinx copies none while no page is out of date."""
    copies = Path(app.outdir) / "_static"
    files = [file for file in (ROOT / "chapters/assets").rglob("*") if file.is_file()]
    same = all(
        (copy := copies / file.relative_to(ROOT / "chapters/assets")).exists()
        and copy.read_bytes() == file.read_bytes()
        for file in files
    )
    return set() if same else set(env.found_docs)


PARTS = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "a11y/assistive-mml.js",
)
"""Of MathJax, what each page loads; `loader` in _config.yml names the same."""


def mathjax(app: Sphinx) -> None:
    """Copy the part of MathJax that the pages use: 1.6 MB, of which a page loads some 0.2 MB, compressed.

    It is 3.2.2, the last of version 3: Sphinx 7, which jupyter-book 1 needs, writes settings for versions 2 and 3 only.
    """
    if app.builder.format != "html":
        return
    for name in (ICONS, THEME):  # Sphinx is about to copy the theme's own
        (Path(app.outdir) / name).unlink(missing_ok=True)
    source, target = ROOT / "node_modules/mathjax/es5", Path(app.outdir) / "_static/mathjax"
    if not source.is_dir():
        raise ExtensionError("MathJax is not there: run `python hatch_build.py`, which fetches it, and build again")
    fonts, extensions = "output/chtml/fonts/woff-v2", "input/tex/extensions"
    names = [*PARTS, *(f"{fonts}/{path.name}" for path in (source / fonts).glob("*.woff"))]
    (target / fonts).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.parent / "LICENSE", target / "LICENSE")
    names += [f"{extensions}/{path.name}" for path in (source / extensions).glob("*.js") if path.stem != "all-packages"]
    for name in names:
        file = target / name
        if not file.exists() or file.stat().st_size != (source / name).stat().st_size:
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, file)


def bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|i - j| in a docstring is a distance, and not a substitution of reStructuredText."""
    for n, line in enumerate(lines):
        parts = line.split("`")
        lines[n] = "`".join(part if k % 2 else part.replace("|", r"\|") for k, part in enumerate(parts))


class Addressed(SphinxTransform):
    """In a command that installs the package, the address of this repository, where it is known."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for literal in [each for each in self.document.findall(nodes.literal_block) if PLACE in each.astext()]:
            if found := repository():
                literal.rawsource = literal.astext().replace(PLACE, found[0])
                literal.children = [nodes.Text(literal.rawsource)]


class Checked(SphinxDirective):
    """`{checked} contract`: the table that the tests keep in `chapters/checked/contract.json`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = ROOT / "chapters/checked" / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        if not path.exists():
            raise self.error(f"{path.relative_to(ROOT)} is not there: run make checked, which writes it")
        kept = json.loads(path.read_text(encoding="utf-8"))
        rows = [[f"*{cell}*" if cell in QUIET else cell for cell in row] for row in kept["rows"]]
        upright = " pe-upright" if len(kept["columns"]) > 10 else ""
        table = Table(kept["columns"], rows, caption=kept["caption"])
        return [nodes.raw("", table.html(f"pe-checked{upright}"), format="html")]


QUIET = ("refuses", "not run")  # set in italics, so that the eye finds them among the others


class PanelFirst(SphinxPostTransform):
    """A panel comes before its code, which is folded: a reader sees the idea move, and then how it is made."""

    default_priority = 201  # after myst-nb has folded the inputs of cells that ask for it
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code" or len(cell.children) < 2:
                continue
            code, *rest = cell.children
            if not any('class="pe-panel' in raw.astext() for part in rest for raw in part.findall(nodes.raw)):
                continue
            if not isinstance(code, HideCodeCellNode):
                inner, code = code, HideCodeCellNode(classes=["above-input"])
                code.append(inner)
            name(code, "The function and the call")
            cell.children = []
            cell.extend([*rest, code])


class FoldsNamed(SphinxPostTransform):
    """A fold of code says what is in it, and how much: a chapter has forty, and a screen reader lists them by name."""

    default_priority = 200  # after myst-nb has made them, before PanelFirst
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for fold in self.document.findall(HideCodeCellNode):
            both = any(part.get("nb_element") == "cell_code_output" for part in fold.children)
            name(fold, "Code and output" if both else "Code")


def name(fold: HideCodeCellNode, what: str) -> None:
    """Gives a fold of code one name, open and shut, with the number of lines."""
    lines = next(fold.findall(nodes.literal_block)).astext().count("\n") + 1
    fold["prompt_show"] = fold["prompt_hide"] = f"{what}, {lines} line{'s' if lines > 1 else ''}"


class PanelLinks(SphinxTransform):
    """A link such as #explore-NAME?theta=0.4 leads to a panel, which is in no document until its cell has run."""

    default_priority = 870  # before MyST looks for a heading of that name

    def apply(self, **kwargs: Any) -> None:
        for link in self.document.findall(nodes.reference):
            if link.get("id_link") and link["refuri"].startswith("#explore-"):
                del link["id_link"]


class PanelsThere(SphinxPostTransform):
    """Warns of links to panels or controls that the page does not have."""

    default_priority = 202
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        panels: dict[str, set[str]] = {}
        for raw in self.document.findall(nodes.raw):
            for name, data in re.findall(
                r'class="pe-panel[^"]*" id="([^"]+)">.*?class="pe-data">(.*?)</script>', raw.astext(), re.S
            ):
                panels[name] = {control["name"] for control in json.loads(data)["controls"]}
        for link in self.document.findall(nodes.reference):
            uri = link.get("refuri", "")
            if not uri.startswith("#explore-"):
                continue
            name, _, query = uri[1:].partition("?")
            if name not in panels:
                logger.warning("this page has no panel %s: it has %s", name, ", ".join(panels) or "none", location=link)
            elif wrong := [
                key for key in parse_qs(query, keep_blank_values=True) if key.removeprefix("pin.") not in panels[name]
            ]:
                logger.warning("the panel %s has no control %s", name, ", ".join(wrong), location=link)


class Entries(Unsorted):
    """Entries in the order of their authors; the text cites by author and year, so no label is shown."""

    default_sorting_style = "author_year_title"

    def format_title(self, entry: Any, which_field: str, as_sentence: bool = True) -> Any:
        """The title as its authors capitalise it."""
        title = template.field(which_field)
        return template.sentence[title] if as_sentence else title


class Citations(AuthorYearReferenceStyle):
    """Citations by author and year, in round brackets."""

    def __post_init__(self) -> None:
        for bracket in (self.bracket_textual, self.bracket_parenthetical, self.bracket_year):
            bracket.left, bracket.right = "(", ")"
        super().__post_init__()


# Names, signs and spaces of code have the colour of the text around them: they are half of its elements. Neighbours of
# one colour are one element.
COLOURLESS = re.compile(r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>')
NESTED = re.compile(r'<span class="([^"]*)"><span class="pre">([^<]*)</span></span>')  # in signatures
PARENTHESIS = re.compile(r'<span class="sig-paren">([()])</span>')
# A fold of code has one name, and the element says whether it is open.
TWICE = re.compile(
    r'<summary aria-label="[^"]*">\s*<p class="collapsed admonition-title">([^<]*)</p>\s*'
    r'<p class="expanded admonition-title">\1</p>\s*</summary>'
)
NEIGHBOURS = re.compile(r'<span class="(\w+)">([^<]*)</span><span class="\1">(?=[^<]*</span>)')


def plainer(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Takes out of a page the elements of code that no style tells from plain text, and what is read aloud in vain.

    The sign beside a heading, which links to it, is for the mouse. A style hides it, but not from a screen reader if
    the section isn't laid out yet.
    """
    if "body" in context:
        body = COLOURLESS.sub(r"\1", context["body"])
        while body != (joined := NEIGHBOURS.sub(r'<span class="\1">\2', body)):
            body = joined
        body = NESTED.sub(r'<span class="\1 pre">\2</span>', body)
        body = PARENTHESIS.sub(r"\1", body)
        body = TWICE.sub(r'<summary><p class="admonition-title">\1</p></summary>', body)
        body = body.replace('<a class="headerlink"', '<a aria-hidden="true" tabindex="-1" class="headerlink"')
        context["body"] = body


def site(app: Sphinx) -> None:
    """Where the address of the site is known, a site map and previews for those who share a link."""
    owner, _, name = os.environ.get("GITHUB_REPOSITORY", "").partition("/")
    address = os.environ.get("BOOK_URL") or (f"https://{owner}.github.io/{name}/" if name else "")
    if not address:
        return
    app.config.html_baseurl = address.rstrip("/") + "/"
    app.setup_extension("sphinx_sitemap")
    app.setup_extension("sphinxext.opengraph")
    app.config.sitemap_url_scheme = "{link}"
    app.config.ogp_site_url = app.config.html_baseurl
    app.config.ogp_social_cards = {"enable": False}


ICONS = "_static/scripts/fontawesome.js"
THEME = "_static/scripts/pydata-sphinx-theme.js"
STOPS = re.compile(r',"complete"===document\.readyState\?(\w+)\(\):window\.addEventListener\("load",\1\)(?=\}\)\(\);)')
"""How the theme's script ends: it measures all that may scroll, also what isn't laid out yet, at once and again after
each change of the page. That holds a long chapter up for a tenth of a second each time. book.js does it bit by bit."""
ENTRANCE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={page}">
<title>{title}</title>
{tags}<p><a href="{page}">{title}</a></p>
</html>
"""
LOST = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>No such position</title>
<link rel="icon" href="{base}_static/favicon.svg">
<style>
  body {{ margin: 18vh auto; max-width: 34rem; padding: 0 1.2rem; font: 1.1rem/1.5 Charter, Georgia, serif; }}
  body {{ color: #1d2329; background: #fff; }}
  h1 {{ font-size: 1.7rem; }} code {{ color: #b34f00; }} a {{ color: #2f4f8f; }}
  @media (prefers-color-scheme: dark) {{
    body {{ color: #dde2e8; background: #14171b; }} code {{ color: #ee8a45; }} a {{ color: #9cb6ee; }}
  }}
</style>
<h1>No such position</h1>
<p><code>IndexError</code>: this table has no row for the address that you asked for. It was mistyped, or the page has
moved.</p>
<p><a href="{base}{page}">{title}</a> has all chapters, and the <a href="{base}search.html">search</a> looks through
them.</p>
</html>
"""

MOVED = {"frontier": ("deployed", "Positions in models that ship, and in papers: this chapter has become two")}
"""Chapters that have another address now, by their old stem: the new one, and what a reader is told."""


def without_stops(script: Path) -> None:
    """Takes the measuring of what scrolls out of the theme's script."""
    if not script.is_file():  # another theme
        return
    text, count = STOPS.subn("", script.read_text(encoding="utf-8"))
    if count:
        script.write_text(text, encoding="utf-8")
    elif "scrollWidth" in text and '"load"' in text:
        raise ExtensionError(f"{script.name} measures what scrolls in another way: `STOPS` in book.py has to follow")


def finish(app: Sphinx, exception: Exception | None) -> None:
    """An entrance at the top of the site; and the theme's icon script (1.5 MB) makes room, book.css draws the icons."""
    faults = (app.warningiserror or app.keep_going) and app._warncount  # -W --keep-going sets the latter only
    if faults or (exception is not None and not isinstance(exception, NotebookError)):
        # Sphinx would find nothing to do the next time, and report success: a page with a fault is read again.
        (Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    page = f"{app.config.root_doc}.html"
    address, title = app.config.html_baseurl, app.config.html_title
    about = f'<meta property="og:title" content="{title}" />\n<meta property="og:url" content="{address}" />\n'
    shown = about + tags(address, Path(page).stem, title, title) if address else ""
    (out / "index.html").write_text(ENTRANCE.format(page=page, title=title, tags=shown), encoding="utf-8")
    if address:  # a page that is not there may have been looked for in any folder
        base = urlsplit(address).path or "/"
        (out / "404.html").write_text(LOST.format(base=base, page=page, title=title), encoding="utf-8")
    else:
        (out / "404.html").unlink(missing_ok=True)
    (out / ICONS).write_text("/* The icons are in book.css. */\n", encoding="utf-8")
    without_stops(out / THEME)
    modules = {"index", *(name.replace(".", "/") for name in getattr(app.env, "_viewcode_modules", ()))}
    for folder, known in (("chapters", app.env.found_docs), ("_modules", {f"_modules/{name}" for name in modules})):
        for path in (out / folder).rglob("*.html"):  # of a chapter or a module that is gone, or has another name
            if path.relative_to(out).with_suffix("").as_posix() not in known:
                path.unlink()
    for old, (stem, title) in MOVED.items():  # links to it from elsewhere go on
        if f"chapters/{stem}" in app.env.found_docs:
            leads_on = ENTRANCE.format(page=f"{stem}.html", title=title, tags="")
            (out / f"chapters/{old}.html").write_text(leads_on, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    pybtex.plugin.register_plugin("pybtex.style.formatting", "book", Entries)
    register_plugin("sphinxcontrib.bibtex.style.referencing", "book", Citations)
    # A change of this file reads all pages again.
    app.add_config_value("book_version", hashlib.sha256(Path(__file__).read_bytes()).hexdigest(), "env")
    app.add_directive("checked", Checked)
    app.add_post_transform(FoldsNamed)
    app.add_post_transform(PanelFirst)
    app.add_transform(Addressed)
    app.add_transform(PanelLinks)
    app.add_post_transform(PanelsThere)
    site(app)
    app.connect("config-inited", link)
    app.connect("builder-inited", mathjax)
    app.connect("autodoc-process-docstring", bars)
    app.connect("env-before-read-docs", sources)
    app.connect("env-get-outdated", restyled)
    app.connect("html-page-context", plainer, priority=900)
    app.connect("build-finished", finish, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
