"""Keeps the first screen of a page where it is while it loads.

MathJax comes late, and TeX is several times as wide as the formula that is made of it, so lines would break anew.
Formulas at the top of a page are told how wide they will be, and book.css keeps that room until they are set.
"""

from __future__ import annotations

import html
import re
from string import ascii_letters
from typing import Any

from sphinx.application import Sphinx

FIRST = 60  # formulas: no first screen has more
INLINE = re.compile(r'<span class="math notranslate nohighlight">\\\((.*?)\\\)</span>', re.DOTALL)
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}^_]|[^\s{}^_\\]")
SCRIPT = 0.71  # the size of an index or an exponent
SIZE = 1.073  # that of MathJax's letters beside the book's

LETTERS = (  # of TeX's mathematical italic, in thousandths of an em
    "A750 B759 C760 D828 E764 F749 G786 H888 I504 J633 K889 L681 M1051 N888 O763 P751 Q791 R759 S645 T704 U767 V769 "
    "W1048 X852 Y763 Z723 a529 b429 c433 d520 e466 f490 g477 h576 i345 j412 k521 l298 m878 n600 o485 p503 q446 r451 "
    "s469 t361 u572 v485 w716 x572 y490 z465 \\alpha640 \\beta566 \\gamma518 \\delta444 \\epsilon406 \\zeta438 "
    "\\theta469 \\lambda583 \\mu603 \\nu494 \\pi570 \\rho517 \\sigma571 \\tau437 \\varphi654 \\omega622 \\Delta833"
)
GROUPS = {  # of other signs, in em, with the space around where there is some
    0.0: (
        r"\q \k \v \p \left \right \big \Big \bigl \bigr \displaystyle \! \mathrm \text \mathbf \mathbb "
        r"\operatorname \boldsymbol \vec \hat \bar \tilde \overline"
    ),
    0.28: r". : | \lvert \rvert ! ' \: \| / \, \i",
    0.4: r"( ) [ ] \langle \rangle \{ \} \ell \e °",
    0.45: r", ; \; \lfloor \rfloor \lceil \rceil",
    0.5: "0 1 2 3 4 5 6 7 8 9",
    0.72: r"\Omega \Phi \Lambda \R \C \cdot \sqrt \T",
    1.05: r"\sum \prod \infty \dots \ldots \cdots \quad \lim \max \min \top \ln",
    1.22: r"+ - \times \pm \oplus \odot \star \ast \cup",
    1.33: (
        r"= < > \le \ge \leq \geq \ne \neq \approx \equiv \sim \in \to \leftarrow \rightarrow \mapsto \propto "
        r"\Rightarrow \mid \colon"
    ),
    1.5: r"\log \sin \cos \exp \arcsin \ll \gg",
    2.9: r"\softmax",
}
WIDTHS = {each.rstrip("0123456789"): int(each.lstrip("\\" + ascii_letters)) / 1000 for each in LETTERS.split()}
WIDTHS |= {sign: width for width, signs in GROUPS.items() for sign in signs.split(" ")}


def width(tex: str) -> float:
    """About how wide an inline formula is, in em of the text around it.

    Args:
        tex: The formula, as TeX, without its delimiters.

    Returns:
        The sum of the widths of letters and of the space around relations. Half the book's formulas differ by 2 %.
    """
    total, scale, scripts = 0.0, 1.0, []
    pending = False  # an index or an exponent begins
    for token in TOKEN.findall(tex):
        if token in "^_":
            pending = True
        elif token == "{":
            scripts.append(scale)
            scale *= SCRIPT if pending else 1
            pending = False
        elif token == "}":
            scale = scripts.pop() if scripts else 1.0
        else:
            each = WIDTHS.get(token, 0.55)
            small = scale * (SCRIPT if pending else 1)
            total += small * (min(each, 0.78) if small < 1 and each > 1.1 else each)
            pending = pending and not each  # \p_{i}: a colour is no letter
    return SIZE * total


def room(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Tell the formulas at the top of a page how wide they will be."""

    def told(match: re.Match[str]) -> str:
        wide = f' style="--pe-wide:{width(html.unescape(match[1])):.2f}em"'
        return match[0].replace(' nohighlight"', f' nohighlight"{wide}', 1)

    if "body" in context:
        context["body"] = INLINE.sub(told, context["body"], count=FIRST)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", room)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
