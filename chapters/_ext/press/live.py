"""A chapter as a notebook that reads well where nothing knows the book's Markdown: JupyterLab, Colab, a code host.

The words come from the built page, so numbers, citations and references are filled in; the code comes from the source,
cell by cell and unchanged. Outputs are what the page shows: words and tables as Markdown, drawings as PNG.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import nbformat
from bs4 import Tag
from nbformat import NotebookNode

from press.markdown import Writer, linked
from press.pages import classes, drawn, local, resolved, soup, spaced
from press.pictures import Shot, png

MARK = re.compile("\ue000([a-z]+)(?: ([^\ue001]*))?\ue001")
DEFINED = re.compile(r"\\def\\([A-Za-z]+)(#1)?\{(.*?)\}(?=\\def|\$)")
#: Classes of sections that a page folds after their first paragraph.
FOLDED = {"depth", "practice"}
CODE_HIDDEN, ALL_HIDDEN = "hide-input", "hide-cell"
INTRODUCTION = (
    "*This is the chapter as a notebook. Run its cells from the top: the panels then compute in its kernel. On "
    "[the page]({page}) they move without one.*"
)
REST = "Notes"  # the heading of what follows the last solution, if it has no title of its own
EVIDENCE = "Evidence behind the numbers of this page"


def mark(kind: str, name: object = "") -> str:
    """A place in the Markdown of a page where a cell begins or ends."""
    return f"\ue000{kind}{f' {name}' if name != '' else ''}\ue001"


def notebook(
    name: str,
    page: str,
    source: NotebookNode,
    indices: Sequence[int],
    *,
    commands: Mapping[str, str | list[Any]],
    site: str,
) -> NotebookNode:
    """The live form of a chapter.

    Args:
        name: Of the page, such as "chapters/rope".
        page: Its HTML.
        source: The notebook that it was built from.
        indices: Which cell of the notebook each cell of the page is.
        commands: The book's own commands of TeX.
        site: The address of the top of the book, with a slash at its end; a relative one counts from the notebook.

    Raises:
        LookupError: If the cells of the page are not those of the notebook in their order.
    """
    tree, drawings = drawn(page)
    cells = [cell for cell in tree.select("div.cell") if isinstance(cell, Tag)]
    if len(cells) != len(indices) or list(indices) != sorted(set(indices)):
        raise LookupError(f"{name} shows {len(cells)} cells of code, and its notebook has {len(indices)} for them")
    outputs: dict[int, Tag] = {}
    for cell, index in zip(cells, indices, strict=True):
        outputs[index] = cell
        cell.replace_with(soup(f'<div class="pe-mark">cell {index}</div>'))
    for section in tree.select(", ".join(f"section.{kind}" for kind in sorted(FOLDED))):
        first = section.find("p", recursive=False)
        if isinstance(first, Tag):
            first.insert_after(soup('<div class="pe-mark">cut</div>'))
    for solution in tree.select("div.solution"):
        after = solution.find_next_sibling()
        if isinstance(after, Tag) and after.name != "section" and not classes(after) & {"exercise", "solution"}:
            title = re.match(r"\W*(\w+)[.:]", after.get_text())
            after.insert_before(soup(f'<div class="pe-mark">end {title[1] if title else REST}</div>'))
    shorthands = next((cell.source for cell in source.cells if cell.source.startswith(r"$\def")), "")
    writer = LiveWriter({**commands, **coloured(shorthands)}, name, site, drawings)
    text = writer.page(tree)
    return Binder(source, writer, outputs).bound(text)


def coloured(shorthands: str) -> dict[str, str | list[Any]]:
    r"""The commands that a notebook defines for itself, in colours by name where the book has classes.

    Example:
        >>> coloured(r"$\def\q#1{\textcolor{royalblue}{#1}}\def\e{\mathrm{e}}$")
        {'q': ['\\textcolor{royalblue}{#1}', 1], 'e': '\\mathrm{e}'}
    """
    return {name: [meaning, 1] if argument else meaning for name, argument, meaning in DEFINED.findall(shorthands)}


class LiveWriter(Writer):
    """Markdown for notebooks: folds are folds, links are absolute, pictures are pictures, evidence is at its number."""

    def __init__(self, commands: Mapping[str, str | list[Any]], name: str, site: str, drawings: list[str]) -> None:
        self.name, self.site, self.drawings = name, site, drawings
        super().__init__(commands, f"{site}{name}.html")
        self.special = {"pe-mark": self.marked, **self.special}

    def page(self, tree: Tag) -> str:
        text = self.inside(tree)
        if self.notes:
            listed = "\n".join(f"{n}. {note}" for n, note in enumerate(self.notes, 1))
            text += f"\n\n{mark('fold')}\n\n## {EVIDENCE}\n\n{mark('cut')}\n\n{listed}"
        return text

    def marked(self, element: Tag) -> str:
        """A mark that was put into the tree; where folds end that have no heading after them, it is one."""
        kind, _, name = element.get_text().partition(" ")
        return f"{mark('head')}\n\n{self.heading(name)}" if kind == "end" else mark(kind, name)

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def headed(self, element: Tag, said: str, names: list[str]) -> str:
        kind = "fold" if classes(element) & FOLDED else "head"
        anchors = "".join(f'<a id="{name}"></a>' for name in names)
        return "\n\n".join(filter(None, (mark(kind), anchors, said)))

    def anchored(self, element: Tag, text: str) -> str:
        """An anchor belongs to the cell that its block begins."""
        found = MARK.match(text)
        if found and found[1] == "cell":
            return text
        rest = super().anchored(element, text[found.end() :].lstrip("\n") if found else text)
        return f"{found[0]}\n\n{rest}" if found else rest

    def details_(self, element: Tag) -> str:
        summary = element.find("summary")
        if not isinstance(summary, Tag) or "hide" in classes(element):
            return super().details_(element)
        said = self.plain(summary)
        summary.decompose()
        return fold(said, self.inside(element))

    def box(self, element: Tag) -> str:
        """A box that is folded on the page is folded here; with code in it, it is a section that can be."""
        kinds, title = classes(element), element.find("p", class_="admonition-title")
        if "exercise" in kinds:
            return f"{mark('head')}\n\n{super().box(element)}"
        if element.name == "details" or "dropdown" not in kinds or not isinstance(title, Tag):
            return super().box(element)
        if element.find(class_="pe-mark"):
            said = self.words(title)
            title.decompose()
            return f"{mark('fold')}\n\n{self.heading(said)}\n\n{mark('cut')}\n\n{self.inside(element)}"
        said = self.plain(title)
        title.decompose()
        return fold(said, self.inside(element))

    def plain(self, element: Tag) -> str:
        """A line as HTML without elements, as the title of a fold is: its formulas stay TeX."""
        for formula in element.select(".math"):
            formula.replace_with(f"${self.tex(formula)}$")
        return html.escape(spaced(element), quote=False)

    # ---- text in a line ----------------------------------------------------------------------------------------------

    def inline(self, node: Any) -> str:
        if isinstance(node, Tag) and node.name == "img" and node.get("src"):
            return f"![{node.get('alt', '')}]({self.place(str(node['src']))})"
        return super().inline(node)

    def link(self, element: Tag, text: str) -> str:
        address = str(element.get("href", ""))
        if not text.strip() or not address or "/glossary.html#term-" in f"/{address}":
            return text
        return linked(text, self.place(address))

    def place(self, address: str) -> str:
        """Where a link leads: a heading stays in the notebook, a panel and all else is of the built book."""
        if not local(address):
            return address
        path, hash_, anchor = address.partition("#")
        if path:
            return self.site + resolved(self.name, path) + hash_ + anchor
        return f"{self.live}#{anchor}" if anchor.startswith(("explore-", "learn-", "play-", "identify-")) else address

    def evidence(self, element: Tag) -> str:
        words = super().evidence(element).partition("[^")[0]
        proof = element.find(class_="pe-proof")
        assert isinstance(proof, Tag)
        said = html.escape(spaced(proof).partition(". See ")[0])  # a title has no links
        return f'<abbr title="{said}">{words}</abbr><sup>{len(self.notes)}</sup>'

    # ---- outputs -----------------------------------------------------------------------------------------------------

    def outputs(self, cell: Tag) -> Iterator[NotebookNode]:
        """What the page shows below a cell, for hosts that run nothing."""
        for part in cell.select(".cell_output > .output"):
            kinds = classes(part)
            if "stream" in kinds:
                yield nbformat.v4.new_output("stream", text=part.get_text().strip("\n") + "\n")
            elif "text_plain" in kinds:
                yield shown({"text/plain": part.get_text().strip("\n")})
            else:
                shots = [Shot(self.drawings[int(str(each["n"]))]) for each in part.find_all("pe-drawing")]
                for named in part.find_all(id=True):  # nothing leads into an output, which the next run replaces
                    del named["id"]
                words = self.inside(part)
                if words:
                    yield shown({"text/markdown": words, "text/plain": words})
                if shots:
                    said = " ".join(shot.words for shot in shots)
                    yield shown({"image/png": base64.b64encode(png(shots)).decode(), "text/plain": said})


def shown(data: dict[str, str]) -> NotebookNode:
    return nbformat.v4.new_output("display_data", data=data)


def fold(title: str, text: str) -> str:
    """Markdown that opens on a click. The empty lines have it read as Markdown inside the HTML."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


class Binder:
    """Puts the words of a page and the code of its notebook together as cells."""

    def __init__(self, source: NotebookNode, writer: LiveWriter, outputs: dict[int, Tag]) -> None:
        self.source, self.writer, self.shown = source, writer, outputs
        self.cells: list[NotebookNode] = []
        self.collapsed: list[str] = []
        self.next = 0  # the first cell of the source that is not bound yet
        self.count = 0

    def bound(self, text: str) -> NotebookNode:
        """The notebook whose words are this Markdown, with marks where cells begin."""
        parts = MARK.split(text)
        self.words(parts[0])
        for kind, name, words in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if kind == "cell":
                self.code(int(name))
            self.words(words, folded=kind == "fold")
        self.code(len(self.source.cells) - 1)
        first = next(cell for cell in self.cells if cell.cell_type == "markdown")
        first.source += "\n\n" + INTRODUCTION.format(page=self.writer.live)
        metadata = {"kernelspec": dict(self.source.metadata.kernelspec), "language_info": {"name": "python"}}
        if self.collapsed:
            metadata["colab"] = {"collapsed_sections": self.collapsed}
        return nbformat.v4.new_notebook(cells=self.cells, metadata=metadata)

    def words(self, text: str, folded: bool = False) -> None:
        """A cell of Markdown. JupyterLab and Colab fold what follows a heading, as the page does."""
        if not text.strip():
            return
        cell = nbformat.v4.new_markdown_cell(text.strip("\n"), id=f"words-{len(self.cells)}")
        if folded:
            cell.metadata = {"jp-MarkdownHeadingCollapsed": True, "id": cell.id}
            self.collapsed.append(cell.id)
        self.cells.append(cell)

    def code(self, last: int) -> None:
        """The cells of code up to one of the page, those included that the page does not show."""
        for index in range(self.next, last + 1):
            source = self.source.cells[index]
            if source.cell_type != "code":
                continue
            self.count += 1
            tags = source.metadata.get("tags", [])
            metadata: dict[str, Any] = {}
            hidden = {"remove-cell", ALL_HIDDEN} & set(tags)
            if hidden or CODE_HIDDEN in tags:
                metadata = {"jupyter": {"source_hidden": True}, "cellView": "form"}
                if ALL_HIDDEN in tags:
                    metadata["jupyter"]["outputs_hidden"] = True
            outputs = list(self.writer.outputs(self.shown[index])) if index in self.shown else []
            cell = nbformat.v4.new_code_cell(source.source, id=source.id, metadata=metadata, outputs=outputs)
            cell.execution_count = self.count
            self.cells.append(cell)
        self.next = max(self.next, last + 1)


def light(made: NotebookNode) -> NotebookNode:
    """The same notebook without pictures, for whoever is going to run it."""
    copy = nbformat.from_dict(made)
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if "image/png" not in output.get("data", {})]
    return copy
