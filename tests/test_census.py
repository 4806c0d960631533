"""The chapter on the census: what it prints of transformers is run again, and ten of its rows are computed anew."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from posenc_evidence import census
from torch import nn

from posenc import frequencies, rotate
from posenc.audit import audit

CHAPTER = Path(__file__).resolve().parents[1] / "chapters/census.ipynb"
SAMPLE = ("llama", "gpt2", "bloom", "roberta", "prophetnet", "bamba", "mamba", "gpt_neo", "gpt_oss", "gemma2")


def test_the_census_is_read_with_its_sentences() -> None:
    kept = census.results()
    rows = {row["name"]: row for row in kept["rows"]}
    verdict, off, cause, look = rows["bamba"]["tests"]["step"]
    assert verdict == "fails" and off > 0.1 and "step_ids" in cause and "positions" in look
    assert all(len(test) == 4 for row in rows.values() for test in row.get("tests", {}).values())
    assert set(kept["questions"]) >= set(rows["llama"]["tests"])


@pytest.mark.parametrize("name", SAMPLE)
def test_a_row_of_the_census_is_the_same_again(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    kept = census.results()
    if transformers.__version__ != kept["transformers"]:
        pytest.skip(f"the census is of transformers {kept['transformers']}")
    row, again = next(row for row in kept["rows"] if row["name"] == name), census.one(name)
    assert again["scheme"] == row["scheme"]
    found = {q: test[0] for q, test in again["tests"].items()}
    other = {q: (test[0], found.get(q)) for q, test in row["tests"].items() if found.get(q) != test[0]}
    assert not other, f"not as in the census, {other}: if that is meant, run make census, and read the chapter on it"
    new = {q: found[q] for q in found.keys() - row["tests"].keys() if found[q] != "pass"}  # asked since then
    assert not new, f"the census was not asked {', '.join(new)}: run make census, and read the chapter on it"
    assert {field: said[0] for field, said in again["knobs"].items()} == {
        f: said[0] for f, said in row["knobs"].items()
    }
    for question, test in row["tests"].items():
        if test[0] == "fails" and test[1] is not None:
            assert again["tests"][question][1] == pytest.approx(test[1], rel=0.1), question


# ---- code that the chapter prints ------------------------------------------------------------------------------------


def blocks() -> list[str]:
    """The code in the text of the chapter; the first is the preamble of all others."""
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("number", range(1, len(blocks())))
def test_what_a_piece_of_code_prints_is_what_its_comments_say(number: int) -> None:
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != census.results()["transformers"]:
        pytest.skip("the chapter is about another version")
    from posenc.audit.adapters.hf.tiny import quiet

    preamble, code = blocks()[0], blocks()[number]
    printed, names = io.StringIO(), {}  # type: ignore[var-annotated]
    with quiet(), torch.random.fork_rng(devices=[]), torch.no_grad(), redirect_stdout(printed):
        exec(compile(preamble + code, f"block {number}", "exec"), names)
    found = [float(line) for line in printed.getvalue().split()]
    said = [float(value) for value in re.findall(r"(?:^|\)  )# ([\d.]+)$", code, re.M)]
    assert found and len(found) == len(said)
    for one, other in zip(found, said, strict=True):
        assert one == pytest.approx(other, rel=0.2, abs=1e-3)


def test_every_finding_has_its_code_and_its_lines() -> None:
    from posenc_evidence.findings import BUGS

    text = CHAPTER.read_text(encoding="utf-8")
    for bug in BUGS.values():
        assert any(where in text for where in bug.where), bug.name
        for thread in re.findall(r"#(\d{5})", bug.known):
            assert thread in text, f"{bug.name}: {thread}"


@pytest.mark.parametrize(("kind", "label", "least"), [("encoder", "two-ways", 60), ("encoder-decoder", "halves", 30)])
def test_what_the_chapter_says_of_encoders_is_what_their_file_has(kind: str, label: str, least: int) -> None:
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    (section,) = ["".join(c["source"]) for c in cells if "".join(c["source"]).startswith(f"(census-{label})=")]
    ran = [row for row in census.results(kind)["rows"] if "tests" in row]
    wrong = {
        (row["name"], name)
        for row in ran
        for name, test in row["tests"].items()
        if test[0] == "fails" and not test[2].startswith("It follows")
    }
    assert f"{len(ran)} {kind}s" in section and len(ran) >= least
    said = set()
    for classes, tests in re.findall(r"^\| (`[^|]+) \| (\*[^|]+) \|", section, re.M):
        said |= {
            (name, test) for name in re.findall(r"`(\w+)`", classes) for test in re.findall(r"\*([\w.]+)\*", tests)
        }
    assert said == wrong
    sound = len(ran) - len({name for name, _ in wrong})
    assert kind == "encoder" or f"In {sound} of them no test fails" in section


# ---- weights of the audit --------------------------------------------------------------------------------------------


class Plain(nn.Module):
    """Rotary attention without a norm before it: a smaller table of tokens makes it more uniform."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out, self.qk = nn.Embedding(99, 32), nn.Linear(32, 99), nn.Linear(32, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        pos = torch.arange(x.shape[1])[None]
        q, k = (rotate(y, pos, frequencies(32)) for y in self.qk(x).chunk(2, -1))
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = (q @ k.mT / 32**0.5).masked_fill(~seen, -torch.inf)
        return self.out(x + scores.softmax(-1) @ x)


def test_tables_stay_where_smaller_ones_make_attention_more_uniform() -> None:
    """Without a norm, a smaller table of tokens would hide what the audit looks for."""
    sizes = []
    for seed in range(4):  # biases are those that the module came with
        torch.manual_seed(seed)
        sizes.append(audit(Plain(), only=["order"])["order"].off)
    assert min(sizes) > 0.01, sizes
