"""Numbers that carry their proof: the role `evidence` shows what `posenc.book.evidence` kept under a name in a cell.

The sentence has the words. Hover, focus or a tap opens the exact value, how it was found, and a link to the table. On
paper and without scripts the words have a raised number, and the page ends with the notes.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from myst_nb.core.variables import RetrievalError  # type: ignore[import-untyped]
from myst_nb.ext.glue.utils import retrieve_glue_data  # type: ignore[import-untyped]
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from posenc.book.numbers import MIME

logger = logging.getLogger(__name__)


class Number(nodes.inline):
    """The words of a sentence, `number` in its page, and their proof, the last child."""


class Proof(nodes.inline):
    """What opens beside the words."""


class Notes(nodes.container):
    """The proofs of a page once more, for paper and for readers without scripts."""


class EvidenceRole(SphinxRole):
    """The role; a name that no cell of the page has kept is a warning."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            kept = retrieve_glue_data(self.inliner.document, self.text).data
            held: dict[str, str] = kept[MIME]
        except (RetrievalError, KeyError):
            logger.warning(
                "no cell of this page keeps the number %s with its evidence: posenc.book.evidence(%r, …) does",
                self.text, self.text, location=self.get_location(),
            )  # fmt: skip
            return [nodes.inline("", f"[{self.text}]")], []
        return [Number("", "", nodes.inline("", held["words"]), *self.proof(held), name=self.text)], []

    def proof(self, held: dict[str, str]) -> list[nodes.Node]:
        said = held["exact"] + (f", {held['about']}" if held["about"] else "")
        parts: list[nodes.Node] = [nodes.Text(said)]
        if held["link"]:
            target = addnodes.pending_xref(
                "", nodes.inline("", "where it is measured"), refdomain="std", reftype="ref", reftarget=held["link"],
                refdoc=self.env.docname, refexplicit=True, refwarn=True,
            )  # fmt: skip
            parts += [nodes.Text(". See "), target]
        return [Proof("", "", *parts, nodes.Text("."))]


class Numbered(SphinxTransform):
    """Numbers the evidence of a page, and adds its notes at the end."""

    default_priority = 860

    def apply(self, **kwargs: Any) -> None:
        found = list(self.document.findall(Number))
        if not found:
            return
        listed = nodes.enumerated_list(enumtype="arabic", prefix="", suffix=".")
        for count, number in enumerate(found, 1):
            number["number"] = count
            proof = next(iter(number.findall(Proof)))
            listed += nodes.list_item("", nodes.paragraph("", "", *(child.deepcopy() for child in proof.children)))
        section = next(iter(self.document.findall(nodes.section)), self.document)
        section += Notes("", nodes.paragraph("", "Evidence behind the numbers of this page"), listed)


def visit_number(self: Any, node: Number) -> None:
    key = f"evidence-{node['number']}"
    words, proof = node.children
    self.body.append('<span class="pe-evidence">')
    self.body.append(f'<button type="button" aria-expanded="false" aria-describedby="{key}">')
    words.walkabout(self)
    self.body.append(f'</button><sup aria-hidden="true">{node["number"]}</sup>')
    self.body.append(f'<span class="pe-proof" id="{key}" role="note" popover="manual">')
    for child in proof.children:
        child.walkabout(self)
    self.body.append("</span></span>")
    raise nodes.SkipNode


def visit_notes(self: Any, node: Notes) -> None:
    self.body.append('<aside class="pe-notes" aria-label="Evidence">')


def depart_notes(self: Any, node: Notes) -> None:
    self.body.append("</aside>")


def plain(self: Any, node: nodes.Node) -> None:
    """Other builders, such as the one that checks links, take the children as they are."""


def skipped(self: Any, node: nodes.Node) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(Number, html=(visit_number, plain), text=(plain, plain), latex=(plain, plain))
    app.add_node(Proof, html=(plain, plain), text=(skipped, None), latex=(skipped, None))
    app.add_node(Notes, html=(visit_notes, depart_notes), text=(plain, plain), latex=(plain, plain))
    app.add_role("evidence", EvidenceRole())
    app.add_transform(Numbered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
