"""The claims as data, from the page that tests them: what is said, who says it, the verdict, its size and its rule.

Everything is read off the built page: its tables have statement, source, verdict and size, as its cells computed
them, and the code on the page has the rule. So nothing is decided twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from bs4 import Tag

from press.pages import article, spaced

VERDICTS = ("holds", "holds if", "does not hold", "open")
INTERVAL = re.compile(r"([+\-−]?\d+(?:\.\d+)?) \(([+\-−]?\d+(?:\.\d+)?) to ([+\-−]?\d+(?:\.\d+)?)\)(?: (nats))?")
COLUMNS = ["no.", "scheme", "what is said", "said in", "decided by", "verdict"]
#: Those of the table of what does not hold: its verdict is in its title, and the last column has the reason.
FAILED = ["no.", "scheme", "what is said", "said in", "but"]
#: What the page's rules compare with, by their names in its code.
CONSTANTS = ("LIMIT", "KEPT", "SINK")


def claims(page: str) -> dict[str, Any]:
    """The claims of the built page.

    Args:
        page: The HTML of `chapters/claims`.

    Returns:
        "constants" of the rules, and "claims". Each claim has "number", "scheme" (or "any"), "statement", "source",
        "verdict", "reason" (the condition, or what was found, in words), "intervals" (each with "estimate", "low",
        "high", and "unit" or ""), "anchor" (where on the page the test is) and "rule": "by" training, running,
        timing or nothing yet, the "expression" that decides, and the "code" of the functions that it calls.

    Raises:
        LookupError: If the page has no table of verdicts, or a verdict is none of the four.
    """
    tree = article(page)
    rules, found = Rules(tree), []
    for row, fails in rows(tree):
        number, scheme, statement, source, *by, last = row.find_all("td")
        said, reason, link = "does not hold", spaced(last), number.find("a")
        if not fails:
            marked = last.find("em")
            said = spaced(marked) if isinstance(marked, Tag) else ""
            reason = reason.partition(said)[2].lstrip(": ") if said else ""
        if said not in VERDICTS or not isinstance(link, Tag):
            raise LookupError(f"claim {spaced(number)} has no verdict that is one of {', '.join(VERDICTS)}, or no link")
        rule = rules.of(spaced(number))
        if by:  # the table says it
            rule["by"] = spaced(by[0]) if spaced(by[0]) in ("training", "timing", "nothing yet") else "running"
        found.append(
            {
                "number": spaced(number),
                "scheme": spaced(scheme),
                "statement": spaced(statement),
                "source": spaced(source),
                "verdict": said,
                "reason": reason,
                "intervals": list(intervals(reason)),
                "rule": rule,
                "anchor": str(link.get("href", "")).rpartition("#")[2],
            }
        )
    if not found:
        raise LookupError(f"the page of claims has no table with the columns {', '.join(COLUMNS)}")
    return {"constants": rules.constants, "claims": found}


def rows(tree: Tag) -> Iterator[tuple[Tag, bool]]:
    """The rows of the tables of verdicts, and whether a row is of the table of what does not hold."""
    for table in tree.find_all("table"):
        heads = [spaced(head) for head in table.select("thead th")]
        if heads in (COLUMNS, FAILED):
            yield from ((row, heads == FAILED) for row in table.select("tbody tr"))


def intervals(reason: str) -> Iterator[dict[str, Any]]:
    """The 95 % intervals in a text, such as "+0.11 (+0.09 to +0.14) nats at 16 L"."""
    for found in INTERVAL.finditer(reason):
        estimate, low, high = (float(number.replace("−", "-")) for number in found.groups()[:3])
        yield {"estimate": estimate, "low": low, "high": high, "unit": found[4] or ""}


class Rules:
    """What decides each claim, in the code of the page: `RULES` for what was trained, `settle` for what a cell runs."""

    def __init__(self, tree: Tag) -> None:
        self.trained, self.run = dict[str, str](), dict[str, str]()
        self.functions, self.constants = dict[str, str](), dict[str, float]()
        for pre in tree.select("div.cell_input pre"):
            source = pre.get_text()
            try:
                program = ast.parse(source)
            except SyntaxError:  # a magic of IPython
                continue
            for node in ast.walk(program):
                self.read(node, source)

    def read(self, node: ast.AST, source: str) -> None:
        if isinstance(node, ast.FunctionDef):
            self.functions.setdefault(node.name, ast.get_source_segment(source, node) or "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if name in CONSTANTS and isinstance(value, ast.Constant):
                self.constants[name] = float(str(value.value))
            elif name == "RULES" and isinstance(value, ast.Dict):
                for key, rule in zip(value.keys, value.values, strict=True):
                    if isinstance(key, ast.Constant):
                        self.trained[str(key.value)] = ast.unparse(rule)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "settle" and len(node.args) == 2:
            number, found = node.args
            if isinstance(number, ast.Constant):
                self.run[str(number.value)] = ast.unparse(found)

    def of(self, number: str) -> dict[str, str]:
        by = "training" if number in self.trained else "running"
        expression = self.trained.get(number) or self.run.get(number, "")
        called = dict.fromkeys(name for name in re.findall(r"\b(\w+)\(", expression) if name in self.functions)
        code = "\n\n\n".join(self.functions[name] for name in called)
        return {"by": by, "expression": expression, "code": code}
