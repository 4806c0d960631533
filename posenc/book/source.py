"""Python source made shorter for a page: no checks of input, short docstrings, no long lines; valid Python still.

Layout and comments stay: `ast` says which lines go, and `tokenize` where a long line may be broken.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from itertools import pairwise

WIDTH = 88  # characters in a line of code on a page
_CHECK = re.compile(r"(^|\.)(_check|_?check_\w+|require_\w+)(\.|$)")
_PRAGMA = re.compile(r"\s*#\s*(fmt:|noqa|type: ignore).*")
_OPERATORS = {
    "and", "or", "if", "else", "for", "+", "-", "*", "/", "//", "%", "@", "|", "&", "^",
    "==", "!=", "<", ">", "<=", ">=",
}  # fmt: skip
_FSTRING = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)  # since Python 3.12


def shorten(source: str, width: int = WIDTH) -> tuple[str, bool]:
    """Leaves out checks of input and all but the first paragraph of docstrings, and breaks lines longer than `width`.

    A statement is a check if it calls a function named `require_…` or `check_…`, or one of a module `_check`.

    Args:
        source: Python source that can be parsed.
        width: The greatest number of characters in a line. Only a word or a string may be longer. Default: 88.

    Returns:
        The shorter source, and whether anything was left out.

    Example:
        >>> print(shorten("def half(x):\\n    _check_even(x)\\n    return x / 2")[0])
        def half(x):
            return x / 2
    """
    lines = source.splitlines()
    edits = _Edits(lines, width)
    edits.visit(ast.parse(source))
    kept: list[str] = []
    after_check = False
    for number, line in enumerate(lines, 1):
        new = edits.new.get(number, [line])
        if after_check and not line.strip() and not kept[-1].strip():
            continue  # of the blank lines on both sides of a check, one stays
        after_check = not new
        kept += new
    return "\n".join(_wrapped(_without_pragmas(kept), width)).strip("\n"), edits.left_out


class _Edits(ast.NodeVisitor):
    """Lines to replace, by their numbers: each by a list of new lines, which is empty for a line that goes."""

    def __init__(self, lines: list[str], width: int) -> None:
        self.lines, self.width = lines, width
        self.new: dict[int, list[str]] = {}
        self.left_out = False

    def generic_visit(self, node: ast.AST) -> None:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(node, name, None)
            if isinstance(suite, list) and suite and all(map(self._goes, suite)):
                if isinstance(node, ast.If) and not node.orelse:
                    continue  # the whole statement goes, with the suite that it is in
                first = suite[0].lineno
                indent = " " * suite[0].col_offset
                for statement in suite:
                    self._remove(statement)
                self.new[first] = [f"{indent}pass"]
            elif isinstance(suite, list):
                for statement in filter(self._goes, suite):
                    self._remove(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self._cut(node)

    def _goes(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return bool(_CHECK.search(ast.unparse(node.value.func)))
        return isinstance(node, ast.If) and not node.orelse and all(map(self._goes, node.body))

    def _remove(self, node: ast.stmt) -> None:
        self.left_out = True
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            self.new[number] = []

    def _cut(self, node: ast.Expr) -> None:
        """The first paragraph of a docstring, as it is laid out if its lines are short enough."""
        first, last = node.lineno, node.end_lineno or node.lineno
        indent = " " * node.col_offset
        text = "\n".join(self.lines[first - 1 : last]).strip()
        quotes = re.match(r'\w*("""|\'\'\'|"|\')', text)
        if quotes is None or not text.endswith(quotes[1]):
            return
        inner = text[quotes.end() : -len(quotes[1])].strip()
        paragraph, *rest = re.split(r"\n\s*\n", inner, maxsplit=1)
        self.left_out = self.left_out or bool(rest)
        lines = [indent + line.strip() for line in f"{quotes[0]}{paragraph}{quotes[1]}".split("\n")]
        if any(len(line) > self.width for line in lines):
            joined = " ".join(line.strip() for line in lines)
            lines = textwrap.wrap(
                joined,
                self.width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        if len(lines) > 1 and len(quotes[1]) < 3:
            return  # a string with single quotes cannot go over several lines
        self.new |= {number: [] for number in range(first, last + 1)}
        self.new[first] = lines


def _without_pragmas(lines: list[str]) -> list[str]:
    """Comments for tools, such as `# fmt: skip`, say nothing to a reader."""
    for token in reversed(_tokens(lines)):
        if token.type == tokenize.COMMENT and _PRAGMA.fullmatch(token.string):
            row = token.start[0] - 1
            lines[row] = lines[row][: token.start[1]].rstrip()
            if not lines[row]:
                del lines[row]
    return lines


def _wrapped(lines: list[str], width: int) -> list[str]:
    row = 0
    while row < len(lines):
        if len(lines[row]) > width and (broken := _broken(lines, row, width)):
            lines[row : row + 1] = broken
            row -= broken[0].lstrip().startswith("#")  # the code is below the comment, and may be long still
        row += 1
    return lines


def _broken(lines: list[str], row: int, width: int) -> list[str] | None:
    """A long line in two or more, or None if there is no place to break it."""
    line = lines[row]
    indent = " " * (len(line) - len(line.lstrip()))
    before, depths, tokens = _depths(lines, row)
    if not tokens:
        return None  # within a string of several lines
    if tokens[-1].type == tokenize.COMMENT:
        start = tokens[-1].start[1]
        words = line[start:].lstrip("# ")
        lead = f"{indent}# "
        comment = textwrap.wrap(words, max(width, len(lead) + 20), initial_indent=lead, subsequent_indent=lead)
        return comment if len(tokens) == 1 else [*comment, line[:start].rstrip()]
    if pair := _longest_pair(tokens, depths, before, width):
        start, end = pair
        return [line[:start].rstrip(), f"{indent}    {line[start:end].strip()}", indent + line[end:]]
    places = []
    for n, (left, right) in enumerate(pairwise(tokens)):
        sign = left.string in ("(", "[", "{", ",") or (right.string in _OPERATORS and left.string not in _OPERATORS)
        if sign and len(indent) < left.end[1] <= width - 2 * (depths[n] == 0) and right.string not in ")]}":
            places.append((depths[n], left.end[1], right.start[1]))
    if places:
        depth = min(place[0] for place in places)
        _, end, start = max(place for place in places if place[0] == depth)
        deeper = indent if 0 < before == depth else indent + "    "
        return [line[:end].rstrip() + " \\" * (depth == 0), deeper + line[start:]]
    return _split_string(line, width, before, tokens, indent)


def _longest_pair(
    tokens: list[tokenize.TokenInfo], depths: list[int], before: int, width: int
) -> tuple[int, int] | None:
    """Where the longest contents of a pair of brackets begin and end, if they are most of a line that has to go."""
    pairs = []
    for n, token in enumerate(tokens):
        if token.string in ("(", "[", "{") and depths[n] == before + 1 and token.end[1] <= width:
            closing = next((k for k in range(n + 1, len(tokens)) if depths[k] == before), None)
            if closing is not None:
                pairs.append((token.end[1], tokens[closing].start[1]))
    start, end = max(pairs, key=lambda pair: pair[1] - pair[0], default=(0, 0))
    return (start, end) if end - start > 24 else None


def _split_string(
    line: str, width: int, before: int, tokens: list[tokenize.TokenInfo], indent: str
) -> list[str] | None:
    """A string within brackets becomes two below one another; brackets are put around one that ends a statement."""
    strings = [token for token in tokens if token.type == tokenize.STRING]
    long = max(strings, key=lambda token: len(token.string), default=None)
    if long is None or not (opening := re.match(r"(\w*)(['\"])(?!\2)", long.string)):
        return None
    if before == 0:
        start = long.start[1]
        return [line[:start] + "(", f"{indent}    {line[start:]}", f"{indent})"] if long is tokens[-1] else None
    prefix, quote = opening[1], opening[2]
    spaces, depth = [], 0
    for n, letter in enumerate(long.string):
        depth += "f" in prefix.lower() and {"{": 1, "}": -1}.get(letter, 0)
        if letter == " " and depth == 0 and long.start[1] + n < width - 2:
            spaces.append(long.start[1] + n + 1)
    if not spaces:
        return None
    return [line[: spaces[-1]] + quote, f"{indent}{prefix}{quote}{line[spaces[-1] :]}"]


def _depths(lines: list[str], row: int) -> tuple[int, list[int], list[tokenize.TokenInfo]]:
    """The number of open brackets before a line and after each of its tokens, and these tokens."""
    depth, before, depths, out = 0, 0, [], []
    for token in _tokens(lines):
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        if token.end[0] - 1 < row:
            before = depth
        elif token.start[0] - 1 == row == token.end[0] - 1:
            depths.append(depth)
            out.append(token)
    return before, depths, out


def _tokens(lines: list[str]) -> list[tokenize.TokenInfo]:
    """The tokens that are words, signs, strings or comments; a formatted string is one token in all versions."""
    out: list[tokenize.TokenInfo] = []
    opened: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == _FSTRING[0]:
            opened.append(token)
        elif token.type == _FSTRING[1]:
            first = opened.pop()
            if not opened:
                text = _between(lines, first.start, token.end)
                out.append(tokenize.TokenInfo(tokenize.STRING, text, first.start, token.end, first.line))
        elif not opened and token.string.strip() and token.type != tokenize.ENDMARKER:
            out.append(token)
    return out


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    whole = [lines[start[0] - 1][start[1] :], *lines[start[0] : end[0] - 1], lines[end[0] - 1][: end[1]]]
    return "\n".join(whole)
