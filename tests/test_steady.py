"""What keeps the first screen of a page where it is: the widths of formulas, and which panel keeps room."""

from __future__ import annotations

import pytest

from posenc._explore.sphinx import _first
from tests.browser import extension

steady = extension("steady")

MEASURED = {  # in em, in Chromium, as MathJax 3.2.2 sets them beside the book's letters
    "M": 1.129,
    r"\theta_t": 0.865,
    r"H_k \le H": 3.762,
    r"\Delta = \q{i} - \k{j}": 4.452,
    r"W_q, W_k, W_v": 5.373,
    r"\sum_j \alpha_{ij} = 1": 5.034,
    r"x_i \leftarrow x_i + \p{p_i}": 5.802,
}


@pytest.mark.parametrize("tex", MEASURED)
def test_a_formula_is_told_about_how_wide_it_will_be(tex: str) -> None:
    assert steady.width(tex) == pytest.approx(MEASURED[tex], rel=0.12)


def test_only_formulas_at_the_top_are_told_and_stay_what_they_are() -> None:
    formula = r'<span class="math notranslate nohighlight">\(a &lt; b\)</span>'
    context = {"body": formula * (steady.FIRST + 1)}
    steady.room(None, "", "", context, None)
    assert context["body"].count("--pe-wide") == steady.FIRST
    assert context["body"].startswith(
        f'<span class="math notranslate nohighlight" style="--pe-wide:{steady.width("a < b"):.2f}em">'
    )
    assert context["body"].endswith(formula)
    assert context["body"].count(r"\(a &lt; b\)</span>") == steady.FIRST + 1


def test_the_panel_before_the_first_section_keeps_room_and_no_other_does() -> None:
    for kind in ("pe-panel", "pe-panel pe-learn"):
        panel = f'<figure class="{kind}" id="a">'
        marked = panel.replace("pe-panel", "pe-panel pe-first")
        assert _first(f"<h1></h1>{panel}{panel}<h2></h2>{panel}") == f"<h1></h1>{marked}{panel}<h2></h2>{panel}"
    for kind in ("pe-panel pe-dump", "pe-panel pe-learn pe-reading"):
        assert "pe-first" not in _first(f'<figure class="{kind}" id="a"><h2></h2>')
    assert "pe-first" not in _first('<h2></h2><figure class="pe-panel" id="a">')
