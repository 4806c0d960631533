"""The audit of models that are right, of models that are odd, and of input that is bad."""

from __future__ import annotations

import copy
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from handmade import GPT, T5, Encoder, Llama, State
from torch import Tensor, nn

from posenc import ENCODINGS, RoPE, Transformer, exercises
from posenc.audit import Adapter, Refused, Report, adapt, audit, run
from posenc.audit.checks import CHECKS, measure
from posenc.audit.measures import Measures
from posenc.audit.probe import Measurement, Probe
from posenc.audit.weights import randomise

PLAIN = ("again", "neighbours", "fresh", "future", "prefix", "order", "reach", "constant")  # of tokens alone
ABSOLUTE = ("sinusoidal", "learned")


def verdicts(report: Report, verdict: str) -> list[str]:
    return [finding.name for finding in report if finding.verdict == verdict]


def one(model: Any, test: str, **options: Any) -> Any:
    return audit(model, only=[test], **options)[test]


# ---- no false alarm --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        *[pytest.param(name, {}, id=name) for name in sorted(ENCODINGS)],
        *[pytest.param(name, {"window": 7}, id=f"{name}-window") for name in ("alibi", "learned", "rope", "t5")],
        *[pytest.param(name, {"every_layer": True}, id=f"{name}-every") for name in ABSOLUTE],
    ],
)
def test_no_false_alarm_on_the_contract_s_encodings(encoding: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    report = audit(Transformer(99, layers=2, model_dim=64, encoding=encoding, length=2048, **options), more=True)
    assert not report.failures, str(report)
    shift = report["shift"]
    assert shift.verdict == ("property" if encoding in ABSOLUTE else "pass")
    assert report["step"].verdict == report["chunks"].verdict == report["left_pad"].verdict == "pass"
    assert report["crop"].verdict == ("does not apply" if "window" in options else "pass")
    assert report["order"].off is not None and report["order"].off > 0.01


@pytest.mark.parametrize("kind", [GPT, Llama, T5])
def test_no_false_alarm_on_models_by_hand(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    report = audit(kind(), more=True)
    assert not report.failures, str(report)
    assert not verdicts(report, "error")
    absolute = kind is GPT
    properties = ["constant", "shift", "packed_ids"] if absolute else ["packed_ids"]
    assert verdicts(report, "property") == properties
    passed = verdicts(report, "pass")
    assert {"step", "step_left", "chunks", "reorder", "crop", "rows", "left_pad", "stretch", "gradient"} <= set(passed)


def test_an_encoder_sees_all_and_no_other_test_fails_for_it() -> None:
    report = audit(Encoder())
    assert not report.failures, str(report)
    assert report["future"].verdict == report["prefix"].verdict == "property"
    assert "need a causal mask" in report["future"].cause
    assert report["right_pad"].verdict == report["left_pad_ids"].verdict == "pass"


def test_a_function_of_each_token_alone_has_no_order_and_nothing_fails() -> None:
    report = audit(lambda tokens: nn.functional.one_hot(tokens, 30).float())
    assert not report.failures, str(report)
    assert report["order"].verdict == report["reach"].verdict == "property"
    assert report["shift"].verdict == "does not apply"


class Recurrent(nn.Module):
    """No positions, and a state that passes through everything."""

    recurrent = True

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.cell, self.head = nn.Embedding(99, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 99)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.cell(self.tokens(tokens))[0])

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.cell(self.tokens(tokens), state)
        return self.head(x), state


def test_recurrence_is_no_mistake() -> None:
    report = audit(Recurrent())
    assert not report.failures, str(report)
    assert report["constant"].verdict == "property"
    assert report["step"].verdict == report["chunks"].verdict == "pass"


class Offset(nn.Module):
    """Counts from 2 where no positions are given, as RoBERTa does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = GPT()

    def forward(self, tokens: Tensor, position_ids: Tensor | None = None) -> Tensor:
        return self.inner(tokens, torch.arange(2, 2 + tokens.shape[1])[None] if position_ids is None else position_ids)


def test_counting_from_another_number_is_a_property_with_its_number() -> None:
    found = one(Offset(), "arange")
    assert found.verdict == "property"
    assert "The model counts from 2" in found.cause


class OffsetWithCache(GPT):
    """Counts real tokens from 2, and its cache goes on from there."""

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        pos = super().place(tokens, state, positions, mask)
        return pos if positions is not None else pos + 2


@pytest.mark.parametrize("kind", [Offset, OffsetWithCache])
def test_no_false_alarm_on_a_model_that_counts_from_another_number(kind: type[nn.Module]) -> None:
    report = audit(kind(), more=True)
    assert not report.failures, str(report)
    assert report["arange"].verdict == "property"
    cached = ("step", "step_ids", "step_left", "chunks_ids", "reorder")
    assert {report[name].verdict for name in cached} == {"pass" if kind is OffsetWithCache else "does not apply"}


class Warm(Llama):
    """Queries grow with their position."""

    scales = "a temperature that grows with the position"

    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        q, k = super().rotate(q, k, pos)
        return q * (1 + 0.1 * (pos + 1).log())[:, None, :, None], k


def test_what_a_model_says_of_itself_is_believed() -> None:
    found = one(Warm(), "shift")
    assert found.verdict == "property"
    assert "a temperature that grows with the position" in found.cause
    encoder = Encoder()
    encoder.causal = True
    found = one(encoder, "future")
    assert found.verdict == "fails"
    assert "the model says that it is causal" in found.cause


def test_a_window_is_told_by_its_reach() -> None:
    window = Transformer(99, layers=2, model_dim=32, encoding="rope", window=5)
    assert "logits of the next 8 of 119" in one(window, "reach").cause  # two layers of four tokens each


# ---- what the model may be -------------------------------------------------------------------------------------------


def test_positions_of_one_axis_are_found_to_be_so() -> None:
    class OneAxis(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Llama()

        def forward(self, idx: Tensor, pos: Tensor | None = None) -> tuple[None, Tensor]:
            if pos is not None and pos.ndim != 1:
                raise ValueError("positions are (L,)")
            return None, self.inner(idx, None if pos is None else pos[None])

    report = audit(OneAxis(), only=["arange", "shift", "rows"])
    assert report["arange"].verdict == report["shift"].verdict == "pass"
    assert report["rows"].verdict == "does not apply"


@pytest.mark.parametrize("turned", [False, True])
def test_a_mask_that_is_true_for_padding_is_found_to_be_so(turned: bool) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Llama()

        def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            assert mask is None or mask.dtype == torch.bool
            return self.inner(tokens, positions, mask if mask is None or not turned else ~mask)

    assert audit(Masked(), only=["left_pad", "rows"]).passed


def test_a_mask_of_another_kind_is_no_mask_of_real_tokens() -> None:
    def square(tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and mask.shape != (tokens.shape[1], tokens.shape[1]):
            raise RuntimeError("(L, L)")
        return nn.functional.one_hot(tokens, 20).float()

    found = one(square, "left_pad")
    assert found.verdict == "does not apply"
    assert "not a mask of real tokens" in found.cause


def test_a_cache_that_is_an_argument_of_forward_is_used() -> None:
    class Past(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Llama()

        def forward(
            self, tokens: Tensor, past: State | None = None, use_cache: bool = False
        ) -> tuple[Tensor, State] | Tensor:
            out = self.inner.step(tokens, past)
            return out if use_cache else out[0]

    report = audit(Past(), only=["step", "chunks", "step_ids"])
    assert report["step"].verdict == report["chunks"].verdict == "pass"
    assert report["step_ids"].verdict == "does not apply"


def test_positions_that_forward_needs_are_made() -> None:
    class Needs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Llama()

        def forward(self, idx: Tensor, input_pos: Tensor, mask: Tensor) -> Tensor:
            return self.inner(idx, input_pos.view(1, -1).expand_as(idx), mask)

    report = audit(Needs())
    assert not report.failures, str(report)
    assert report["shift"].verdict == report["left_pad"].verdict == "pass"


def test_targets_are_given_where_there_is_one_row_of_logits_without() -> None:
    class Last(nn.Module):
        """As nanoGPT."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = GPT()

        def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
            logits = self.inner(idx)
            if targets is None:
                return logits[:, [-1]], None
            return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    report = audit(Last())
    assert not report.failures, str(report)
    assert report["prefix"].verdict == "pass"


def test_running_statistics_stay_as_they_are() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.norm, self.head = nn.Embedding(40, 8), nn.BatchNorm1d(8), nn.Linear(8, 40)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.norm(self.tokens(tokens).transpose(1, 2)).transpose(1, 2))

    model = Normed().train()
    audit(model, only=["neighbours"])
    assert model.norm.num_batches_tracked == 0 and model.norm.training


def test_an_adapter_of_one_s_own_is_used_as_it_is() -> None:
    class Mine:
        takes_positions, takes_mask, vocabulary = True, False, 50
        module = Llama(50)

        def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            if mask is not None:
                raise Refused("takes no mask")
            return self.module(tokens, positions)

    mine = Mine()
    assert isinstance(mine, Adapter)
    assert adapt(mine) is mine
    before = Mine.module.head.weight.clone()
    report = audit(mine)
    assert not report.failures
    assert report["left_pad"].verdict == "does not apply"
    assert torch.equal(before, Mine.module.head.weight)


def test_a_method_of_a_module_is_asked_about_a_copy_of_it() -> None:
    model = Llama()
    before = [p.clone() for p in model.parameters()]
    assert one(model.forward, "shift").off < 1e-9  # in float64
    assert all(map(torch.equal, before, model.parameters()))


def test_variants_that_heal_a_failing_test_are_named() -> None:
    class Windowed:
        takes_positions = takes_mask = False
        vocabulary, module = 30, None

        def __init__(self, n: int) -> None:
            self.n = n

        def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            extra = 0 if tokens.shape[1] <= self.n else tokens[:, -1:, None]
            return nn.functional.one_hot(tokens, 30).double() + extra

        def variants(self) -> dict[str, Any]:
            return {"a window of 64": Windowed(64)}

    found = one(Windowed(8), "future")
    assert found.verdict == "fails"
    assert found.cause.startswith("It passes with a window of 64, the rest unchanged.")
    assert found.look.startswith("where the window is applied")


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_the_model_stays_as_it_is() -> None:
    model = Llama().train()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.random.get_rng_state()
    audit(model, more=True)
    assert model.training
    assert all(
        torch.equal(before[name], each) and each.dtype == torch.float32 for name, each in model.state_dict().items()
    )
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_model_without_parameters() -> None:
    class Counts(nn.Module):
        """How many tokens of each kind there were."""

        def forward(self, tokens: Tensor) -> Tensor:
            return nn.functional.one_hot(tokens, 40).double().cumsum(1)

    report = audit(Counts(), more=True)
    assert not report.failures, str(report)
    assert report.facts["parameters"] == 0
    assert report["gradient"].verdict == report["far"].verdict == "does not apply"


def test_weights_on_the_meta_device_are_no_weights() -> None:
    with torch.device("meta"):
        model = Llama()
    with pytest.raises(ValueError, match="on the meta device and have no values"):
        audit(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_audited_in_double(dtype: torch.dtype) -> None:
    model = Llama().to(dtype)
    report = audit(model, only=["shift", "step"])
    assert report.passed
    assert report.facts["dtype"] == "float64"
    assert next(model.parameters()).dtype == dtype


def test_a_kernel_without_float64_is_audited_in_float32() -> None:
    class Single(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            x = super().enter(tokens, pos)
            if x.dtype == torch.float64:
                raise RuntimeError("expected scalar type Float")
            return x

    report = audit(Single(), only=["shift", "step"])
    assert report.passed
    assert report.facts["dtype"] == "float32"
    assert any("In float32" in note for note in report.notes)


def test_a_test_without_float64_is_run_in_float32() -> None:
    class Single(Llama):
        def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
            if mask is not None and self.head.weight.dtype == torch.float64:
                raise RuntimeError("not implemented for Double")
            return super().see(lq, lk, mask)

    report = audit(Single(), only=["shift", "left_pad"])
    assert report["left_pad"].verdict == "pass"
    assert any("left_pad" in note for note in report.notes)


def test_a_model_that_raises_in_one_test_is_told_there_and_the_others_go_on() -> None:
    class NoBatch(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            if len(tokens) > 1:
                raise ZeroDivisionError("one text only")
            return super().enter(tokens, pos)

    report = audit(NoBatch())
    assert report["neighbours"].verdict == "error"
    assert "the others went on: ZeroDivisionError: one text only" in report["neighbours"].cause
    assert not report.passed
    assert report["step"].verdict == "pass"


def test_what_a_model_prints_is_left_out_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    class Talks(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            print("shape", tokens.shape)
            return super().enter(tokens, pos)

    report = audit(Talks(), only=["again"])
    assert capsys.readouterr().out == ""
    assert any("The model printed" in note for note in report.notes)


class Dropout(Llama):
    def __init__(self, always: bool) -> None:
        super().__init__()
        self.drop, self.always = nn.Dropout(0.2), always

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        x = super().enter(tokens, pos)
        return nn.functional.dropout(x, 0.2, training=True) if self.always else self.drop(x)


def test_a_random_model_is_said_to_be_so_first_and_nothing_is_concluded() -> None:
    report = audit(Dropout(always=True))
    assert [finding.name for finding in report.failures] == ["again"] == [next(iter(report)).name]
    assert "The model is random" in report["again"].cause
    assert set(verdicts(report, "does not apply")) == {f.name for f in report} - {"again"}


def test_dropout_of_a_model_in_training_mode_is_switched_off_in_the_copy() -> None:
    report = audit(Dropout(always=False).train(), only=["again", "step"])
    assert report.passed
    assert any("in training mode, with dropout" in note for note in report.notes)


def test_a_vocabulary_of_one() -> None:
    report = audit(Llama(1))
    assert not report.failures, str(report)
    assert report["future"].verdict == "does not apply"
    assert "the vocabulary has one token" in report["future"].cause.lower()
    assert report["shift"].verdict == "pass"


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_small_vocabulary(size: int) -> None:
    report = audit(Llama(size))
    assert not report.failures, str(report)
    assert report["future"].verdict == "pass"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda tokens: tokens.float()[:, 0], r"returns \(1,\).*return logits \(B, L, V\)"),
        (lambda tokens: nn.functional.one_hot(tokens, 9), "int64: return logits"),
        (lambda tokens: nn.functional.one_hot(tokens, 9).float()[:, -1:], "a row for each token"),
        (lambda tokens: None, "returns None: return logits"),
        (lambda tokens: "words", "returns str"),
        (lambda tokens, labels: tokens, "cannot be called with two tokens"),
        ("model", "str cannot be called"),
        (nn.Linear(3, 3), "cannot be called with two tokens"),
    ],
    ids=["vector", "integers", "last", "none", "text", "arguments", "string", "linear"],
)
def test_what_is_no_model_is_refused_in_a_sentence(model: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        audit(model)


@pytest.mark.parametrize("where", ["all", "late"])
def test_logits_that_are_not_finite_are_told_first(where: str) -> None:
    def broken(tokens: Tensor) -> Tensor:
        out = nn.functional.one_hot(tokens, 20).float()
        out[:, 0 if where == "all" else 3 :] = float("nan")
        return out

    report = audit(broken)
    assert [finding.name for finding in report.failures] == ["again"]
    assert ("100%" if where == "all" else "88%") in report["again"].cause


def test_nan_in_one_call_fails_that_test() -> None:
    class Infinite(Llama):
        """Rows that see nothing become NaN, and NaN times a weight of 0 is NaN."""

        def attend(self, q: Tensor, k: Tensor, v: Tensor, see: Tensor, bias: Tensor | float = 0.0) -> Tensor:
            scores = (q @ k.transpose(-1, -2)).masked_fill(~see, float("-inf"))
            return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    report = audit(Infinite(), only=["shift", "left_pad"])
    assert report["shift"].passed
    assert report["left_pad"].verdict == "fails"
    assert "not finite" in report["left_pad"].cause


def test_a_model_that_cannot_be_copied_is_audited_as_it_is() -> None:
    class Held(Llama):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("cannot pickle a lock")

    model = Held()
    before = model.head.weight.clone()
    report = audit(model, only=["shift", "step"])
    assert report.passed
    assert torch.equal(before, model.head.weight)
    assert any("cannot be copied" in note for note in report.notes)


def test_a_short_table_gets_a_short_text() -> None:
    report = audit(GPT(length=16))
    assert report.facts["tokens"] == 16
    assert "A text of 24 tokens raises an error, so this one has 16." in report.notes
    assert report["step"].verdict == "pass"
    assert report["fresh"].verdict == report["shift"].verdict == "does not apply"


def test_a_table_that_ends_soon_gets_a_small_shift() -> None:
    report = audit(GPT(length=40))
    assert not report.failures, str(report)
    assert report["shift"].verdict == "property"


def test_slow_tests_are_stopped_and_told() -> None:
    class Slow(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            time.sleep(0.02)
            return super().enter(tokens, pos)

    found = one(Slow(), "step", seconds=0.1)
    assert found.verdict == "timed out" and found.passed and not found.asked
    assert "Stopped after 0.1 s: nothing is known" in found.cause


def test_names_of_tests_and_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"no test 'stepp': use step"):
        audit(Llama(), only=["stepp"])
    with pytest.raises(ValueError, match="use 8 or more"):
        audit(Llama(), tokens=3)


def test_progress_tells_each_test_once() -> None:
    told: list[tuple[str, int, int]] = []
    report = audit(Recurrent(), only=["future", "again"], progress=lambda *said: told.append(said))
    assert told == [("again", 0, 2), ("future", 1, 2)] and [f.name for f in report] == ["again", "future"]


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_new_weights_let_the_audit_see_what_usual_ones_hide() -> None:
    class Small(Llama):
        def __init__(self) -> None:
            super().__init__()
            for name, p in self.named_parameters():
                if p.ndim == 2 and name != "tokens.weight":
                    nn.init.normal_(p, std=0.02)

    own, drawn = (one(Small(), "order", randomise=r).off for r in (False, True))
    assert drawn > 10 * own
    report = audit(Small(), randomise=False, only=["order"])
    assert report.facts["weights"] == "as they are"
    assert any("hides bugs" in note for note in report.notes)


def test_what_is_no_weight_is_not_drawn() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.linear = nn.Embedding(50, 64), nn.Linear(64, 64)
            self.sines = nn.Parameter(torch.ones(9, 64), requires_grad=False)
            self.norm, self.router = nn.LayerNorm(64), nn.Linear(64, 4, bias=False)

    parts = Parts()
    before = {name: p.clone() for name, p in parts.named_parameters()}
    randomise(parts, seed=1)
    same = {name for name, p in parts.named_parameters() if torch.equal(p, before[name])}
    assert same == {"sines", "norm.weight", "router.weight", "linear.bias"}
    assert (
        abs(float(parts.linear.weight.detach().std()) - 1 / 8) < 0.02
        and abs(float(parts.tokens.weight.detach().std()) - 1) < 0.1
    )


@pytest.mark.parametrize(
    "name",
    ["A_log", "dt_proj", "D", "time_decay", "gate_log", "router", "gate.weight", "lambda_q1", "sinks", "hc_head",
     "altup_scale", "recurrent_gate", "input_gate", "recurrent_param", "fgate", "igate", "inv_freq", "slopes"],
)  # fmt: skip
def test_decays_gates_and_frequencies_are_not_drawn(name: str) -> None:
    """Drawn anew, a decay of a state space may make it grow without bounds."""
    part = nn.Module()
    owner = part
    *outer, last = name.split(".")
    for each in outer:
        owner.add_module(each, nn.Module())
        owner = owner.get_submodule(each)
    kept = torch.arange(1.0, 33).reshape(2, 16).log1p()
    owner.register_parameter(last, nn.Parameter(kept.clone()))
    part.register_parameter("other", nn.Parameter(kept.clone()))
    model = nn.Module()
    model.add_module("mixer", part)
    randomise(model)
    assert torch.equal(model.get_parameter(f"mixer.{name}"), kept)
    assert not torch.equal(part.other, kept)


def test_tables_that_were_made_smaller_in_vain_become_as_large_as_they_were() -> None:
    class Faint(nn.Module):
        """The smaller the table of tokens, the less of the order is in the logits: there is no norm after it."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(99, 32)

        def forward(self, tokens: Tensor) -> Tensor:
            x = nn.functional.pad(self.words(tokens), (0, 67))
            return x + 1e-3 * (x.square() * torch.arange(tokens.shape[1])[:, None]).cumsum(1)

    probe = Probe(adapt(Faint().double()))
    table = probe.adapter.module.words.weight.clone()  # type: ignore[union-attr]
    seen = measure("order", probe).off
    assert seen is not None and 0 < seen < run.LIVELY
    livelier = run._livelier(probe, tokens=probe.n)
    assert torch.equal(livelier.adapter.module.words.weight, table)  # type: ignore[union-attr]
    assert measure("order", livelier).off == pytest.approx(seen)


def test_a_frozen_model_gets_new_weights_but_keeps_its_sines() -> None:
    model = Llama().requires_grad_(False)
    before = model.head.weight.clone()
    model.register_parameter(
        "table",
        nn.Parameter(
            Transformer(9, model_dim=64, encoding="sinusoidal")
            .encoding()
            .embed(torch.zeros(1, 40, 64), torch.arange(40))[0],
            requires_grad=False,
        ),
    )
    table = model.get_parameter("table").clone()
    randomise(model)
    assert not torch.equal(before, model.head.weight)
    assert torch.equal(table, model.get_parameter("table"))


# ---- the rest --------------------------------------------------------------------------------------------------------


def test_every_test_has_a_question_and_rows_come_in_order() -> None:
    assert all(check.question.endswith("?") for check in CHECKS.values() if not check.partner)
    names = [name for name, check in CHECKS.items() if not check.partner]
    assert names[:3] == ["again", "neighbours", "fresh"] and names.index("future") < names.index("step")


def test_an_exercise_checks_your_model() -> None:
    assert repr(exercises.check("your_model", Recurrent())).startswith("your_model: all ")

    class Shifted(Llama):
        def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
            return self.turn(q, pos), k

    found = exercises.check("your_model", Shifted())
    assert not found
    assert found.failed.startswith("shift: ")
    assert "Look at the rotation" in found.counter_example
    assert max(map(len, str(found).split("\n"))) <= exercises.WIDTH
    assert "your_model" not in exercises.names()
    with pytest.raises(ValueError, match="did you mean your_model"):
        exercises.check("your_modle", Recurrent())


def test_any_encoding_object_may_be_in_the_transformer() -> None:
    make: Callable[..., Any] = lambda head_dim, **_: RoPE(head_dim, base=100.0)  # noqa: E731
    assert audit(Transformer(60, layers=2, model_dim=32, encoding=make), only=["shift", "step", "crop"]).passed


# ---- what a model may do to itself, to its inputs and to the program ------------------------------------------------


class NoPadding(Llama):
    """Does not know of padding: `left_pad` fails."""

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        return super().see(lq, lk, None)


class Erases(NoPadding):
    """Also sets its tokens to 0 when it is done with them."""

    def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        out = super().forward(tokens, positions, mask)
        tokens.mul_(0)
        return out


class ErasesAll(Llama):
    def forward(self, tokens: Tensor, positions: Tensor | None = None, padding_mask: Tensor | None = None) -> Tensor:
        out = super().forward(tokens, positions, padding_mask)
        for each in (tokens, positions, padding_mask):
            if each is not None:
                each.zero_()
        return out


class ErasesInSteps(Llama):
    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, Any]:
        out = super().step(tokens, state, positions, mask)
        if state is not None:
            tokens.zero_()
        return out


class OneBuffer(NoPadding):
    """Returns the same memory at every call."""

    def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        out = super().forward(tokens, positions, mask)
        kept = self.__dict__.setdefault("kept", {}).setdefault((out.shape, out.dtype), torch.empty_like(out))
        return kept.copy_(out)


@pytest.mark.parametrize("kind", [Erases, OneBuffer])
def test_a_model_that_changes_its_inputs_or_outputs_is_blamed_for_nothing_else(kind: type[nn.Module]) -> None:
    want = audit(NoPadding())
    found = audit(kind())
    assert want["left_pad"].verdict == "fails"
    rest = {finding.name: finding.verdict for finding in want if finding.name != "inputs"}
    assert {finding.name: finding.verdict for finding in found if finding.name != "inputs"} == rest
    assert found["inputs"].verdict == ("fails" if kind is Erases else "pass")


@pytest.mark.parametrize(
    ("kind", "names"),
    [(Erases, "tokens"), (ErasesAll, "tokens, positions and padding_mask"), (ErasesInSteps, "tokens"), (Llama, "")],
)
def test_inputs_that_a_call_changes_are_named(kind: type[nn.Module], names: str) -> None:
    found = one(kind(), "inputs")
    assert found.verdict == ("fails" if names else "pass"), found
    assert f"changes its {names} in place: 100% of the entries" in found.cause or not names


def test_inputs_of_a_function_and_of_an_adapter_are_looked_at() -> None:
    def function(tokens: Tensor) -> Tensor:
        out = nn.functional.one_hot(tokens, 30).float()
        tokens[:, 0] = 7
        return out

    class Mine:
        takes_positions = takes_mask = False
        vocabulary, module = 30, None
        logits = staticmethod(lambda tokens, positions=None, mask=None: function(tokens))

    for model in (function, Mine()):
        found = one(model, "inputs")
        assert found.verdict == "fails" and "4% of the entries" in found.cause


class ItsOwnCopy(Llama):
    def __deepcopy__(self, memo: Any) -> Any:
        return self


class SharedTable(Llama):
    """A copy has the same table of tokens, as where a large frozen part is not copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self.tokens.weight)] = self.tokens.weight
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made


class SharedPart(Llama):
    """A copy has the same submodule, and that has a switch and no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.0)

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self.drop)] = self.drop
        return SharedTable.__deepcopy__.__get__(self)(memo)


@pytest.mark.parametrize(
    ("kind", "words"), [(ItsOwnCopy, "the module itself"), (SharedTable, "tokens.weight"), (SharedPart, "drop")]
)
@pytest.mark.parametrize("where", ["model", "method", "reference", "adapter"])
def test_a_model_whose_copy_shares_something_stays_as_it_is(kind: type[Llama], words: str, where: str) -> None:
    model = kind().train()
    before = {name: each.clone() for name, each in model.state_dict().items()}

    class Mine:
        takes_positions, takes_mask, vocabulary, module = True, False, 99, model

        def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            return self.module(tokens, positions)

    asked: dict[str, Any] = {"model": model, "method": model.forward, "adapter": Mine(), "reference": Llama()}
    report = audit(asked[where], reference=model if where == "reference" else None, only=["again", "far", "shift"])
    assert any("cannot be copied" in note and words in note for note in report.notes), report.notes
    assert report["shift"].passed
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())
    assert {each.dtype for each in model.state_dict().values()} == {torch.float32}
    assert all(each.training for each in model.modules())
    if where != "reference":
        assert report["far"].verdict == "does not apply" and "annot be copied" in report["far"].cause


def test_the_caller_s_own_module_is_not_called() -> None:
    class Notes(Llama):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.seen: list[Any] = []

        def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
            self.calls += 1
            self.seen.append(tokens.shape)
            return super().forward(tokens, positions, mask)

    model, reference = Notes(), Notes()
    audit(model, only=["again", "reference"], reference=reference)
    for each in (model, reference):
        assert each.calls == 0 and each.seen == []


def test_there_is_one_copy_at_a_time() -> None:
    alive: list[int] = []
    there: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    class Counted(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            there.add(self)
            alive.append(len(there))
            return super().enter(tokens, pos)

    audit(Counted(), only=["again", "shift"])
    assert max(alive) == 1


class Ends(Llama):
    """Ends the program at a call, or where something is given."""

    def __init__(self, at: int = 0, given: str = "") -> None:
        super().__init__()
        self.calls, self.at, self.given = 0, at, given

    def step(self, tokens: Tensor, state: Any, positions: Any = None, mask: Any = None) -> tuple[Tensor, Any]:
        self.calls += 1
        if self.calls == self.at or locals().get(self.given) is not None:
            sys.exit(0)
        return super().step(tokens, state, positions, mask)


@pytest.mark.parametrize(
    ("given", "raised"),
    [("state", "step"), ("positions", "arange"), ("mask", "left_pad"), ("positions", "shift"), ("mask", "right_pad")],
)
def test_a_model_that_ends_the_program_in_one_test_is_told_there(given: str, raised: str) -> None:
    report = audit(Ends(given=given))
    assert report[raised].verdict == "error"
    assert "the model ends the program, SystemExit(0)" in report[raised].cause
    assert report["future"].verdict == "pass" and not report.passed


def test_a_model_that_ends_the_program_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot be called with two tokens.*ends the program, SystemExit\(0\)"):
        audit(Ends(at=1))
    with pytest.raises(ValueError, match=r"cannot be called with two tokens.*ends the program, SystemExit\(0\)"):
        audit(Llama(), reference=Ends(at=1), only=["reference"])

    class Copied(Llama):
        def __deepcopy__(self, memo: Any) -> Any:
            sys.exit(3)

    assert any("cannot be copied (3)" in note for note in audit(Copied(), only=["again"]).notes)


@pytest.mark.parametrize("at", range(2, 12))
def test_no_call_of_a_model_ends_the_audit(at: int) -> None:
    model = Ends(at=at)
    try:
        report = audit(model, only=["future", "shift", "step"])
    except ValueError as error:
        said = str(error)
    else:
        assert not report.passed
        said = str(report)
    assert "ends the program, SystemExit(0)" in " ".join(said.split())


def test_two_audits_in_threads_leave_the_program_as_it_was() -> None:
    models, reports, begin = [Llama(), Recurrent()], [], threading.Barrier(2)
    before = (sys.stdout, sys.stderr, torch.random.get_rng_state(), list(warnings.filters))
    inside: list[int] = [0, 0]

    def enter(module: nn.Module, given: Any) -> None:
        inside[0] += 1
        inside[1] = max(inside)
        time.sleep(1e-3)
        inside[0] -= 1

    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: enter(module, given) if isinstance(module, Llama | Recurrent) else None
    )

    def work(model: nn.Module) -> None:
        begin.wait()
        reports.append(audit(model, only=["again", "future", "step"]))

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        handle.remove()
    assert [report.passed for report in reports] == [True, True]
    assert inside == [0, 1]  # one model at a time
    after = (sys.stdout, sys.stderr, torch.random.get_rng_state(), list(warnings.filters))
    assert after[0] is before[0] and after[1] is before[1] and torch.equal(after[2], before[2])
    assert after[3] == before[3]


# ---- never green where nothing was seen -----------------------------------------------------------------------------


def broken_at_the_end(tokens: Tensor) -> Tensor:
    return nn.functional.one_hot(tokens, 20).float().cumsum(1) / (tokens.shape[1] < 3)


@pytest.mark.parametrize(
    ("model", "cause"),
    [(broken_at_the_end, "not finite"), (Dropout(always=True), "is random"), (Ends(at=9), "SystemExit")],
    ids=["nan", "random", "ends"],
)
def test_chosen_tests_that_cannot_be_compared_are_no_success(model: Any, cause: str) -> None:
    report = audit(model, only=["future", "shift", "order"])
    assert not report.passed and [finding.name for finding in report.failures][:1] == ["again"]
    assert cause in report["again"].cause
    with pytest.raises(AssertionError):
        report.require()
    with pytest.raises(AssertionError, match="so nothing can be compared"):
        report.require("future")


def test_tests_that_do_not_apply_are_no_success() -> None:
    report = audit(lambda tokens: nn.functional.one_hot(tokens, 30).float(), only=["step", "shift"])
    assert report["step"].passed and not report.tried and not report.passed
    assert "no test applies; not asked: shift, step" in repr(report)
    with pytest.raises(AssertionError, match="step does not apply"):
        report.require()
    with pytest.raises(ValueError, match="only names no test"):
        audit(Llama(), only=[])


def test_a_model_too_slow_to_be_asked_twice_is_not_said_to_be_random() -> None:
    class Slow(Llama):
        def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
            time.sleep(0.01)
            return super().enter(tokens, pos)

    report = audit(Slow(), only=["future", "again"], seconds=1e-3)
    assert {finding.verdict for finding in report} == {"timed out"} and not report.passed
    assert all("Stopped after 0.001 s" in finding.cause for finding in report)


def test_a_test_that_took_its_time_does_not_end_those_after_it() -> None:
    """The text is read anew where a model keeps what a longer one left; that call is not the last test's."""
    measures = Measures(Probe(adapt(lambda tokens: nn.functional.one_hot(tokens, 30).float())))
    measures._known["fresh"] = Measurement("fresh", 1.0)
    measures.probe.deadline = 0.0
    assert measures["future"].off == 0.0
