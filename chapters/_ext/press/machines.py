"""What a program reads at the top of the site: an index, the pages as Markdown, claims and findings as JSON, a skill.

`llms.txt` is an index in the form of https://llmstxt.org: a title, a summary, and lists of links with a line each.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from press.claims import claims
from press.pages import HOME, Page

HERE = Path(__file__).parent
SKILL = "SKILL.md"
CLAIMS = "chapters/claims"
LONGEST = 240  # characters of a line that says what a page is about
HOW = (
    "Pages are Markdown with formulas in TeX. Panels are told in words at their default settings, and a number with "
    "evidence has its exact value and interval in a footnote. Code is Python and needs the package `posenc`. Each page "
    "is also there as HTML, with panels that compute: the address ends in .html."
)
DATA = {
    "claims.json": "Statements about positional encodings, each with its source, verdict, effect, interval and rule.",
    "findings.json": "Positional bugs in published libraries: the cause, where it is, and code that shows it again.",
    "census.json": "The causal language models of transformers, each asked all questions of the audit.",
    "ports.json": "What `compare` says of ports that others wrote, right ones and with mistakes made on purpose.",
    SKILL: "How to audit a model and compare a port with its reference, with commands and exit codes.",
}


def index(title: str, pages: Iterable[Page], said: dict[str, str], base: str = "") -> str:
    """The text of llms.txt.

    Args:
        title: Of the book.
        pages: In the order of the book.
        said: What each page is about, by its name.
        base: The address of the site, with a slash at its end. Default: links are relative.
    """
    lines = [f"# {title}", "", f"> {said[HOME]}", "", HOW, ""]
    lines += [f"Start with [the first page]({base}{HOME}.md).", ""]
    part = None
    for page in pages:
        if page.name == HOME:
            continue
        if page.part != part:
            part = page.part
            lines += ["", f"## {part or 'Pages'}", ""]
        about = said.get(page.name, "")
        lines.append(f"- [{page.heading}]({base}{page.name}.md)" + (f": {about}" if about else ""))
    lines += ["", "## Data", ""]
    lines += [f"- [{name}]({base}{name}): {about}" for name, about in DATA.items()]
    return "\n".join(line for n, line in enumerate(lines) if line or lines[n - 1]) + "\n"


def about(text: str) -> str:
    """What a page in Markdown is about: the sentences that it begins with, as many as fit in a line."""
    blocks = [block for block in text.split("\n\n")[1:] if not re.match(r"[#>`|<$\-\d]", block)]
    if not blocks:
        return ""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)|\[\^\d+\]", r"\1", re.sub(r"\s+", " ", blocks[0]))
    cut = plain[:LONGEST]
    ends = [found.end() for found in re.finditer(r"[.?!:](?= |$)", cut)]
    return cut[: ends[-1]].rstrip(":") if ends else f"{cut.rpartition(' ')[0]} …" if len(plain) > LONGEST else plain


def write(out: Path, title: str, pages: list[Page], base: str = "") -> None:
    """Write the index and the data; the pages are there.

    Args:
        out: The folder of the built book, with a `.md` for each page.
        title: Of the book.
        pages: In the order of the book.
        base: The address of the site, where it is known. Default: links are relative.

    Raises:
        LookupError: If the page of claims has no tables of verdicts.
    """
    said = {page.name: about((out / f"{page.name}.md").read_text(encoding="utf-8")) for page in pages}
    (out / "llms.txt").write_text(index(title, pages, said, base), encoding="utf-8")
    found = claims((out / f"{CLAIMS}.html").read_text(encoding="utf-8"))
    page = f"{base}{CLAIMS}.html"
    dump(out / "claims.json", {"page": page, "posenc": metadata.version("posenc"), **found})
    shutil.copyfile(HERE / SKILL, out / SKILL)
    evidence(out)


def evidence(out: Path) -> None:
    """What `posenc_evidence` keeps: the census, findings in other libraries with their code, and ports compared."""
    from posenc_evidence import findings, libraries

    shutil.copyfile(Path(findings.__file__).parent / "census.json", out / "census.json")
    shutil.copyfile(libraries.HERE / "ports.json", out / "ports.json")
    fields = ("name", "title", "architectures", "where", "sees", "test", "control", "known", "positional")
    shown = []
    for bug in findings.BUGS.values():
        row = {field: getattr(bug, field) for field in fields}
        repair = bug.repair
        row["repair"] = repair and {"target": repair.target, "line": repair.line, "instead": repair.instead}
        shown.append(row)
    others = [{**row, "code": libraries.code(row["name"])} for row in libraries.findings()]
    kinds = libraries.KINDS
    dump(
        out / "findings.json",
        {"kinds": kinds, "libraries": others, "transformers": {"version": findings.VERSION, "findings": shown}},
    )


def dump(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
