"""The book for programs: a Sphinx extension that writes Markdown beside each page, and an index and data at the top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from press import forms, machines
from press.markdown import markdown
from press.pages import Page
from search import order, title
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
ALTERNATE = '<link rel="alternate" type="text/markdown" href="{name}.md">\n'


def beside(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Write a page as Markdown, and say in its head that it is there."""
    if doctree is None or app.builder.format != "html":
        return
    name = page.rpartition("/")[2]
    context["metatags"] = context.get("metatags", "") + ALTERNATE.format(name=name)
    heading = f"<article>{context['body']}</article>"
    commands = app.config.mathjax3_config["tex"]["macros"]
    path = Path(app.outdir) / f"{page}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(heading, commands, f"{name}.html"), encoding="utf-8")


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write what is at the top of the site; take away pages that are gone."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for path in (out / "chapters").glob("*.md"):
        if f"chapters/{path.stem}" not in app.env.found_docs:
            path.unlink()
    forms.offer(out)
    parts = captions(app)
    pages = [Page(name, *title(app, name), parts.get(name, "")) for name in order(app)]
    try:
        machines.write(out, app.config.html_title, pages, app.config.html_baseurl or "")
    except LookupError as error:
        logger.warning("claims.json is not written: %s", error)


def captions(app: Sphinx) -> dict[str, str]:
    """The part of the book that each page belongs to."""
    root: nodes.document = app.env.get_doctree(app.config.root_doc)
    return {
        str(entry): tree.get("caption") or "" for tree in root.findall(addnodes.toctree) for _, entry in tree["entries"]
    }


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", beside, priority=950)  # when the body is as it will be
    app.connect("build-finished", finish, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
