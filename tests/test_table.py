"""posenc.pictures.table: one table as text, HTML and Markdown."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from posenc.pictures.table import LONG, Table

COLUMNS = {"scheme": "", "loss": ".3f", "share": ".0%", "tokens": ",d", "said": ""}
ROWS = [
    ["rope", 1.23456, 0.5, 12345, "`a|b`"],
    ["t5", torch.tensor(2.0), None, np.int64(1), "**fails**"],
    ["<b>", float("nan"), 1.0, 3, "*not run*"],
]


def element(table: Table) -> ET.Element:
    return ET.fromstring(f"<body>{table.html()}</body>")


def test_text_is_aligned_and_numbers_stand_on_the_right():
    assert repr(Table(COLUMNS, ROWS, caption="Losses", note="Trained here.")) == (
        "Losses\n"
        "scheme   loss  share  tokens  said\n"
        "rope    1.235    50%  12,345  `a|b`\n"
        "t5      2.000      –       1  fails\n"
        "<b>       nan   100%       3  not run\n"
        "Trained here."
    )


def test_strings_stay_and_floats_without_a_format_are_short():
    table = Table(["n", "x", "y"], ([n, n / 3, f"{n} ±0.1"] for n in (1, 100_000)))
    assert table.rows == [["1", "0.3333", "1 ±0.1"], ["100000", "3.333e+04", "100000 ±0.1"]]
    assert Table({"x": "z.1f"}, [[-0.01]]).rows == [["0.0"]]


def test_a_column_is_right_aligned_only_if_all_of_it_are_numbers():
    lines = Table(["a", "bb", "cc", "dd"], [["1", "–", "x", "-"], ["22", "", "1", "-1"]]).text().splitlines()
    assert lines == [" a  bb  cc  dd", " 1  –   x   -", "22      1   -1"]


def test_the_last_column_is_wrapped_to_a_width():
    words = "one two three four five six"
    text = Table(["", "", ""], [["a", "holds", words], ["bb", "no", "one"]]).text(width=24)
    assert text.splitlines() == ["a   holds  one two three", "           four five six", "bb  no     one"]
    assert Table(["a", "b"], [["1", words]]).text() == f"a  b\n1  {words}"


def test_html_is_a_table_with_headers_and_escaped():
    body = element(Table(COLUMNS, ROWS, caption="A & <b>", note="Note <i>."))
    assert body.find("div/table/caption").text == "A & <b>"
    assert body.find("div").attrib.keys() == {"class", "tabindex", "style"}  # the caption is a name, and is read once
    assert [th.text for th in body.findall(".//thead/tr/th[@scope='col']")] == list(COLUMNS)
    rows = body.findall(".//tbody/tr")
    assert [row.find("th[@scope='row']").text for row in rows] == ["rope", "t5", "<b>"]
    assert [[cell.get("class") for cell in row.findall("td")] for row in rows] == [["pe-number"] * 3 + [None]] * 3
    assert [rows[0].find("td/code").text, rows[1].find("td/strong").text, rows[2].find("td/em").text] == [
        "a|b",
        "fails",
        "not run",
    ]
    assert body.find("p").text == "Note <i>."
    corner = element(Table(["", "a"], [["x", 1]])).find(".//thead/tr")  # without a name it is no header
    assert [(cell.tag, cell.text) for cell in corner] == [("td", None), ("th", "a")]
    bare = element(Table(["a"], [["`odd"]]))
    assert bare.find(".//caption") is None and bare.find("p") is None and bare.find("div").get("role") is None
    assert bare.find(".//tbody/tr/th").text == "`odd"


def test_long_tables_carry_numbers_to_sort_by():
    short, long = (Table({"n": "d", "x": ".1f"}, [(n, n / 7) for n in range(count)]) for count in (LONG - 1, LONG))
    assert "pe-sortable" not in short.html() and "data-value" not in short.html()
    assert element(long).find(".//table").get("class") == "table pe-sortable"
    cells = element(long).findall(".//tbody/tr/td")
    assert [float(cell.get("data-value")) for cell in cells] == [n / 7 for n in range(LONG)]


def test_markdown():
    assert Table(COLUMNS, ROWS[::2], caption="Losses").markdown() == (
        "Losses\n\n"
        "| scheme | loss | share | tokens | said |\n"
        "| --- | --: | --: | --: | --- |\n"
        "| rope | 1.235 | 50% | 12,345 | `a\\|b` |\n"
        "| \\<b> | nan | 100% | 3 | *not run* |"
    )


def test_markdown_has_no_tags_but_those_that_stand_in_code():
    nasty = "`x` <script>alert(1)</script> `"
    shown = Table(["a", nasty], [(nasty, "a|b")], caption="`<i>` <b>", note="<u>").markdown()
    assert "`<i>` \\<b>" in shown and "\\<u>" in shown and r"a\|b" in shown
    assert "<script" not in shown.replace(r"\<", "") and "</script" not in shown.replace(r"\<", "")


def test_text_in_a_notebook_and_html_in_the_book(monkeypatch):
    table = Table(["a"], [["1"]])
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    assert table._repr_mimebundle_() == {"text/plain": "a\n1"}
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert table._repr_mimebundle_() == {"text/plain": "a\n1", "text/html": table.html()}


def test_empty_tables_are_tables():
    assert repr(Table(["a", "b"], [])) == "a  b"
    assert element(Table(["a", "b"], [])).find(".//tbody") is not None
    assert Table(["a", "b"], []).markdown() == "| a | b |\n| --- | --- |"


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"a row has 1 cells and there are 2 columns \(a, b\): .* such as None"):
        Table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match=r"1\.5 cannot be written with the format 'd': use another"):
        Table({"a": "d"}, [[1.5]])
