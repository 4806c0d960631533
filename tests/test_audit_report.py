"""The report of an audit: rows, sentences, JSON and a page."""

from __future__ import annotations

import contextlib
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from handmade import Llama, State
from torch import Tensor, nn

from posenc.audit import Finding, Report, Verdict, audit
from posenc.audit.__main__ import main

ROWS = (
    Finding("again", "twice?", Verdict.PASS, 0.0),
    Finding("future", "later tokens?", Verdict.PASS, 3.2e-15),
    Finding("shift", "moved?", Verdict.PROPERTY, 2.51, "Absolute: <so it is> & stays."),
    Finding("step", "cached?", Verdict.FAILS, 0.634, "The first token is wrong (step_ids).", "the cached path"),
    Finding("rows", "padded?", Verdict.ERROR, None, "The model raised: IndexError: index 9 is out of bounds"),
    Finding("crop", "taken back?", Verdict.NOT_APPLICABLE, None, "Cannot crop its cache."),
    Finding("static", "static?", Verdict.NOT_APPLICABLE, None, "Has no generate."),
    Finding("beams", "beams?", Verdict.NOT_APPLICABLE, None, "Has no generate."),
    Finding("left_pad", "nan?", Verdict.FAILS, float("nan"), "Logits are not finite in this call."),
)
REPORT = Report(ROWS, {"model": "Mine <1>", "parameters": 7}, ("In float32.",))


def test_a_finding_is_passed_unless_it_fails_or_raised() -> None:
    assert [f.name for f in REPORT if not f.passed] == ["step", "rows", "left_pad"]
    assert not REPORT.passed
    assert REPORT.failures == (ROWS[3], ROWS[4], ROWS[8])
    assert Report(ROWS[:3]).passed


def test_findings_are_found_by_name() -> None:
    assert REPORT["step"] is ROWS[3]
    assert len(REPORT) == len(ROWS)
    with pytest.raises(KeyError, match="no test 'steps' in this report: it has again, future"):
        REPORT["steps"]


def test_require_raises_with_what_fails_and_where_to_look() -> None:
    REPORT.require("again", "shift")
    with pytest.raises(
        AssertionError, match=r"step fails, off by 0\.63: .*step_ids\)\. Look at the cached path\."
    ) as raised:
        REPORT.require("again", "step")
    assert "rows" not in str(raised.value)
    with pytest.raises(AssertionError, match=r"(?s)step fails.*rows error: The model raised"):
        REPORT.require()
    Report(ROWS[:3] + ROWS[5:8]).require()


def test_what_is_required_must_apply() -> None:
    with pytest.raises(AssertionError, match=r"crop does not apply: Cannot crop its cache\."):
        REPORT.require("crop")


def test_the_table_has_what_applies_and_below_it_the_rest_by_reason() -> None:
    text = repr(REPORT)
    lines = text.split("\n")
    assert lines[0] == (
        "Mine <1>: 3 of 9 tests fail (step, rows, left_pad); 2 pass, 1 is a property of the scheme; not asked: "
        "generation, crop"
    )
    assert "step      fails        0.63  The first token is wrong (step_ids). Look at the cached path." in lines
    assert "again     pass            0" in lines
    assert "future    pass      3.2e-15" in lines
    assert lines[-1] == "In float32. Not asked: crop (cannot crop its cache); static, beams (has no generate)."
    assert max(map(len, lines)) <= 118


def test_the_summary_names_what_others_follow_from() -> None:
    more = tuple(Finding(name, "?", Verdict.FAILS, 1.0, "It follows from `step`.") for name in ("chunks", "crop"))
    assert Report(ROWS[:4] + more).summary.startswith("3 of 6 tests fail (step, and 2 that follow)")


@pytest.mark.parametrize("width", [80, 100])
def test_lines_keep_a_width(width: int) -> None:
    assert max(map(len, REPORT.text(width).split("\n"))) <= width


def test_json_holds_everything_and_is_valid(tmp_path: Path) -> None:
    text = REPORT.to_json(tmp_path / "new" / "report.json")
    assert (tmp_path / "new" / "report.json").read_text(encoding="utf-8") == text

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    whole = json.loads(text, parse_constant=refuse)
    assert whole["passed"] is False and whole["model"] == "Mine <1>" and whole["notes"] == ["In float32."]
    assert [row["name"] for row in whole["findings"]] == [f.name for f in ROWS]
    assert whole["findings"][3]["off"] == 0.634 and whole["findings"][8]["off"] == "nan"
    assert whole["findings"][5] == {
        "name": "crop", "question": "taken back?", "verdict": "does not apply", "passed": True, "off": None,
        "cause": "Cannot crop its cache.", "look": "", "first": None, "places": "", "reproduction": "",
    }  # fmt: skip


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_by_itself_and_is_escaped(tmp_path: Path) -> None:
    text = REPORT.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    page = Page()
    page.feed(text)
    assert page.open == [] and page.links == [] and "script" not in page.tags
    assert page.tags.count("tr") == 1 + len(ROWS) - 3 and "Not asked: crop" in text
    assert "Absolute: &lt;so it is&gt; &amp; stays." in text and "<so it is>" not in text
    assert "Mine &lt;1&gt;" in text and "Look at:</b> the cached path" in text


def test_a_report_of_nothing_is_shown() -> None:
    assert "no test applies" in repr(Report(()))
    assert not Report(()).passed
    with pytest.raises(AssertionError, match="no tests"):
        Report(()).require()
    assert not Report(ROWS[5:8]).passed and Report(ROWS[:1] + ROWS[5:8]).passed


NASTY = "\x1b]0;pwned\x07\x1b[31mred\u202ekcab\x9b1m\u2028\r"


def test_what_cannot_be_seen_is_written_as_an_escape(tmp_path: Path) -> None:
    row = Finding("step", "?", Verdict.ERROR, None, f"The model raised: {NASTY}", f"<b>{NASTY}")
    report = Report((row,), {"model": NASTY, "device": NASTY}, (f"A note {NASTY}",))
    shown = [str(report), report.text(80), str(row), report.table().html(), report.table().markdown()]
    shown += [report.to_html(tmp_path / "x.html"), report.to_json(tmp_path / "x.json")]
    shown += [(tmp_path / name).read_text(encoding="utf-8") for name in ("x.html", "x.json")]
    with pytest.raises(AssertionError) as caught:
        report.require()
    shown.append(str(caught.value))
    for text in shown:
        assert all(c == "\n" or c.isprintable() for c in text), text
    assert "\\x1b" in shown[0]
    assert json.loads(shown[-2])["model"] == NASTY


# ---- tokens, scripts, a baseline -------------------------------------------------------------------------------------


class LateInACache(Llama):
    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, positions, mask) + (1 if state["next"] else 0)


def test_failures_come_first_and_with_the_tokens_that_are_wrong() -> None:
    report = audit(LateInACache(), only=["future", "step", "step_ids"])
    step = report["step"]
    assert step.first == 10 and step.places == "." * 10 + "x" * 14
    lines = report.text().split("\n")
    assert lines[2].startswith("step ") and lines[-1].startswith("In strips, a dot is a token")
    assert "14 of 24 tokens differ, from token 10 on: ..........xxxxxxxxxxxxxx" in " ".join(report.text().split())
    page = report.to_html()
    assert page.index(">step<") < page.index(">future<") and "..........xxxxxxxxxxxxxx" in page
    assert json.loads(report.to_json())["findings"][1]["first"] == 10
    assert report["future"].places == "" and report["future"].first is None


class Ignores(Llama):
    """Mistakes that scripts show: a mask and positions that are ignored, and a cached token one too late."""

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().place(tokens, state, None, None) + (1 if state["next"] else 0)

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return torch.ones(1, 1, lq, lk, dtype=torch.bool)


def ran(script: str, model: nn.Module) -> float:
    """What a script prints, of a model in place of the three dots."""
    assert script.count("model = ...") == 1 and max(map(len, script.split("\n"))) < 120
    scope: dict[str, Any] = {"yours": model.eval()}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script.replace("model = ...", "model = yours"), scope)
    return float(printed.getvalue())


@pytest.mark.parametrize("name", ["future", "right_pad", "left_pad", "left_pad_ids", "step", "step_ids", "chunks"])
def test_a_script_in_plain_torch_shows_what_fails_and_that_it_is_mended(name: str) -> None:
    torch.manual_seed(0)
    script = audit(Ignores(), only=[name], causal=True)[name].reproduction
    assert script.startswith("import torch\n") and "posenc" not in script
    assert ran(script, Ignores()) > 1e-2 > 1e-4 > ran(script, Llama())


def test_a_script_takes_the_names_of_the_model_s_own_arguments() -> None:
    class Cached(nn.Module):
        def __init__(self, late: int) -> None:
            super().__init__()
            self.inner, self.late = Llama(), late

        def forward(
            self, input_ids: Tensor, position_ids: Tensor | None = None, past_key_values: Any = None
        ) -> tuple[Tensor, Any]:
            if position_ids is None and past_key_values is not None:
                position_ids = past_key_values["next"] + self.late + torch.arange(input_ids.shape[1])[None]
            return self.inner.step(input_ids, past_key_values, position_ids)

    script = audit(Cached(1), only=["step"])["step"].reproduction
    assert "past_key_values=state" in script
    assert ran(script, Cached(1)) > 1e-2 > 1e-4 > ran(script, Cached(0))


def test_known_failures_pass_new_ones_fail_and_fixed_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    REPORT.to_baseline(path)
    assert REPORT.against(path).passed and [f.name for f in REPORT.against(path).known] == ["step", "rows", "left_pad"]
    more = Report((*ROWS, Finding("chunks", "?", Verdict.FAILS, 1.0, "A ring.")))
    assert not more.against(path).passed and [f.name for f in more.against(path).new] == ["chunks"]
    fewer = Report((*ROWS[:3], Finding("step", "?", Verdict.PASS, 0.0), Finding("rows", "?", Verdict.TIMED_OUT)))
    changes = fewer.against(path)
    assert changes.passed and changes.fixed == ("step",) and changes.unasked == ("rows", "left_pad")
    assert "fixed: step. Take it out of it." in str(changes) and "not asked any more: rows, left_pad" in str(changes)
    with pytest.raises(ValueError, match="there is no baseline"):
        REPORT.against(tmp_path / "missing.json")
    for text in ("[", "[]", '{"known failures": ["step"]}', '{"known failures": {"step": 1}}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="is no baseline"):
            REPORT.against(path)


def test_the_command_has_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what, path = f"{__name__}:LateInACache", str(tmp_path / "known.json")
    only = [what, "--quiet", "--only", "step,future"]
    assert main([*only, "--baseline", path]) == 2 and "--write-baseline" in capsys.readouterr().err
    assert main([*only, "--write-baseline", path]) == 1
    capsys.readouterr()
    assert main([*only, "--baseline", path]) == 0 and "known: step" in capsys.readouterr().out
    Path(path).write_text('{"known failures": {"future": "?"}}', encoding="utf-8")
    assert main([*only, "--baseline", path]) == 1
    out = capsys.readouterr().out
    assert "new: step fails" in out and "fixed: future" in out


def test_the_fixture_has_a_baseline(posenc_audit: Any, tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    audit(LateInACache(), only=["step"]).to_baseline(path)
    assert not posenc_audit(LateInACache(), only=["step"], baseline=path).passed
    with pytest.warns(UserWarning, match="fixed: step"):
        posenc_audit(Llama(), only=["step"], baseline=path)
    path.write_text('{"known failures": {}}', encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="step fails"):
        posenc_audit(LateInACache(), only=["step"], baseline=path)
