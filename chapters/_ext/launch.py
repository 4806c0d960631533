"""The live form of each notebook, which launch buttons open: a Sphinx extension.

The sources are MyST, which JupyterLab, Colab and code hosts show as it is written. So each chapter is also written as a
notebook in plain Markdown, with its pictures, into `_build/live`. `publish.yml` pushes these to a branch of their own,
where Colab and Binder find them; LIVE_BRANCH names it, and a build without it leaves the buttons at the sources. What
a reader downloads from a page is the live form without pictures.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from press import live
from sphinx.application import Sphinx

#: From the folder of downloads, `_sources/chapters`, to the top of the site.
UP = "../../"


def folder(app: Sphinx) -> Path:
    """Where the notebooks with their pictures are: beside the site, which has no room for them."""
    return Path(app.outdir).parent / "live"


def beside(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Write a page that is a notebook in its live form."""
    source = Path(app.env.doc2path(page)) if doctree is not None else Path()
    if doctree is None or app.builder.format != "html" or source.suffix != ".ipynb":
        return
    cells = (node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code")
    made = live.notebook(
        page,
        f"<article>{context['body']}</article>",
        nbformat.read(source, as_version=4),
        [node["cell_index"] for node in cells],
        commands=app.config.mathjax3_config["tex"]["macros"],
        site=app.config.html_baseurl or UP,
    )
    path = folder(app) / f"{page}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, path)


def buttons(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Have the buttons open the live form, on the branch that has it."""
    branch, theme = os.environ.get("LIVE_BRANCH", ""), app.config.html_theme_options
    for group in context.get("header_buttons", ()) if branch else ():
        if group.get("label") == "launch-buttons":
            for button in group["buttons"]:
                button["url"] = at(button["url"], theme.get("repository_branch", ""), branch)


def at(url: str, old: str, new: str) -> str:
    """The address of a launch button with another branch: in Binder's it ends the path, in Colab's it follows "blob".

    Example:
        >>> at("https://colab.research.google.com/github/o/b/blob/main/chapters/rope.ipynb", "main", "live")
        'https://colab.research.google.com/github/o/b/blob/live/chapters/rope.ipynb'
    """
    return re.sub(rf"(/blob/|/v2/g[hl]/[^?]*/){re.escape(old)}(?=[/?])", rf"\g<1>{new}", url, count=1)


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Offer the live form for download in place of the source; take away notebooks that are gone."""
    if exception is not None or app.builder.format != "html":
        return
    for path in (folder(app) / "chapters").glob("*.ipynb"):
        if f"chapters/{path.stem}" not in app.env.found_docs:
            path.unlink()
            continue
        offered = Path(app.outdir) / "_sources/chapters" / path.name
        nbformat.write(live.light(nbformat.read(path, as_version=4)), offered)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", beside, priority=940)  # when the body is as it will be
    app.connect("html-page-context", buttons, priority=945)  # when the theme has made its buttons
    app.connect("build-finished", finish, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
