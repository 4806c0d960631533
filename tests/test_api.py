"""The code on the page of the API runs, with what it asserts."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "chapters/api.md"


def test_the_code_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 1
    assert "assert " in blocks[0]
    assert max(map(len, blocks[0].splitlines())) <= 88
    exec(compile(blocks[0], PAGE.name, "exec"), {"__name__": "page"})
