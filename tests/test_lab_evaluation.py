"""posenc.lab.evaluation: what is measured is what its docstrings say, token by token, and nothing stays behind."""

import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from posenc import ENCODINGS, Encoding, Memory, NoPE, Plan, RoPE, attention_weights
from posenc.lab import evaluation, tasks
from posenc.lab.evaluation import (
    accuracy,
    attention_of,
    bins,
    extrapolation,
    generalisation,
    losses,
    nonoverlapping,
    sliding,
    window_losses,
)
from posenc.transformer.model import Step, Transformer

VOCABULARY, LAYERS, HEADS = 13, 2, 2


def make(encoding="alibi", **options) -> Transformer:
    """A model with weights large enough for every token to matter to every other."""
    sizes = dict(vocabulary=VOCABULARY, layers=LAYERS, model_dim=8, heads=HEADS, hidden=8, length=256)
    model = Transformer(**{**sizes, "encoding": encoding, **options})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model


def draw(*shape: int) -> Tensor:
    return torch.randint(VOCABULARY, shape)


def text(length: int = 400) -> Tensor:
    return draw(length).to(torch.uint8)


def surprise(model: Transformer, before: Tensor, token: Tensor) -> float:
    """The loss of one token after others (n,): a pass for itself."""
    with torch.no_grad():
        return -model(before[None])[0, -1].double().log_softmax(-1)[token].item()


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


class Watch(NoPE):
    """NoPE that notes how much it was asked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []
        self.modes: list[tuple[bool, bool]] = []

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        self.asked.append((q.shape[0], q.shape[2]))
        self.modes.append((self.training, torch.is_grad_enabled()))
        return q


class Short(NoPE):
    """NoPE that serves so many positions, and no more."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        if int(pos.max()) >= self.length:
            raise ValueError(f"position {int(pos.max())} has no row: there are {self.length}; use fewer")
        return x


class Overflow(NoPE):
    """NoPE whose numbers end somewhere."""

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return torch.where(pos[..., None] < 20, x, torch.nan)


# Losses


@pytest.mark.parametrize("segment", [None, 1, 3, 9, 20])
@pytest.mark.parametrize("name", ENCODINGS)
def test_each_token_is_scored_by_those_before_it(name, segment):
    model, tokens = make(name), draw(2, 10)
    found = losses(model, tokens, segment=segment)
    assert found.shape == (2, 9) and found.dtype == torch.float32 and not found.requires_grad
    expected = [[surprise(model, row[: t + 1], row[t + 1]) for t in range(9)] for row in tokens]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=2e-5)


def test_a_memory_goes_on_from_what_it_holds():
    model, tokens = make("transformer_xl"), draw(2, 13)
    whole = losses(model, tokens)
    memory = Memory(12)
    parts = [losses(model, tokens[:, a : b + 1], memory=memory) for a, b in ((0, 5), (5, 7), (7, 12))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-5)
    assert len(memory) == 12
    short = losses(model, tokens, memory=Memory(2), segment=3)  # the first segment is whole, the second misses a token
    torch.testing.assert_close(short[:, :3], whole[:, :3], rtol=0, atol=1e-5)
    assert (short - whole)[:, 3:].abs().amin() > 1e-6


@given(length=st.integers(1, 6), cuts=st.integers(1, 4), rows=st.integers(1, 3))
def test_windows_that_do_not_overlap_start_from_nothing(length, cuts, rows):
    model, spans = make(), draw(rows, length * cuts + 1)
    found = nonoverlapping(model, spans, length)
    expected = mean(
        surprise(model, row[n - n % length : n + 1], row[n + 1]) for row in spans for n in range(length * cuts)
    )
    assert found == pytest.approx(expected, abs=1e-5)
    assert nonoverlapping(model, spans, length, segment=2) == pytest.approx(expected, abs=1e-5)


@given(stride=st.integers(1, 3), more=st.integers(0, 5), chunks=st.integers(1, 3), spare=st.integers(0, 3))
def test_windows_that_slide_see_the_tokens_before_each_chunk(stride, more, chunks, spare):
    length, span = stride + more, stride * chunks
    context = more + spare
    model, regions = make(), draw(2, context + span + 1)
    expected = []
    for row in regions:
        for n in range(context, context + span):  # token n predicts n + 1
            chunk = context + (n - context) // stride * stride
            expected.append(surprise(model, row[chunk - more : n + 1], row[n + 1]))
    found = sliding(model, regions, length, stride, context)
    assert found == pytest.approx(mean(expected), abs=1e-5)
    assert sliding(model, regions, length, stride, context, segment=2) == pytest.approx(mean(expected), abs=1e-5)


def test_windows_that_slide_by_their_length_do_not_overlap():
    model, regions = make(), draw(3, 5 + 12 + 1)
    assert sliding(model, regions, 4, 4, 5) == nonoverlapping(model, regions[:, 5:], 4)


def test_the_difference_of_both_is_context_and_nothing_else():
    """What does not look at others scores the same, whatever stands before."""
    model, regions = make(), draw(3, 6 + 16 + 1)
    for block in model.blocks:
        nn.init.zeros_(block.out.weight)
    assert sliding(model, regions, 8, 2, 6) == pytest.approx(nonoverlapping(model, regions[:, 6:], 8), abs=1e-6)


@pytest.mark.parametrize("segment", [None, 2])
def test_with_a_memory_text_streams_past(segment):
    model, (length, stride, context) = make("transformer_xl"), (7, 4, 5)
    regions = draw(2, context + 8 + 1)
    piece = segment or stride
    expected = []
    for row in regions:
        memory, start = Memory(length - piece), context % piece
        for n in range(start, context + 8, piece):
            with torch.no_grad():
                logits = model(row[None, n : n + piece], memory=memory)[0].log_softmax(-1)
            expected += [-logits[i, row[n + i + 1]].item() for i in range(piece) if n + i >= context]
    assert len(expected) == 16
    found = sliding(model, regions, length, stride, context, memory=True, segment=segment)
    assert found == pytest.approx(mean(expected), abs=1e-5)


def test_a_memory_of_everything_is_one_full_pass():
    model, regions = make("transformer_xl"), draw(2, 4 + 8 + 1)
    found = sliding(model, regions, 12, 4, 8, memory=True)  # the chunks lie at the end of one window
    torch.testing.assert_close(found, losses(model, regions)[:, 8:].mean().item(), rtol=0, atol=1e-5)


def test_losses_by_position_are_means_over_windows():
    model, windows = make(), draw(5, 8)
    expected = [mean(surprise(model, row[: t + 1], row[t + 1]) for row in windows) for t in range(7)]
    for segment in (None, 3):
        found = window_losses(model, windows, segment).mean(0)
        torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("length", "segment"), [(64, None), (64, 16), (8, None)])
def test_memory_is_bounded(length, segment, monkeypatch):
    monkeypatch.setitem(evaluation.PAIRS, "cpu", 1024)
    watch = Watch()
    window_losses(make(watch), draw(10, length + 1), segment)
    rows, queries = (max(column) for column in zip(*watch.asked, strict=True))
    assert queries == (segment or length)
    assert rows == min(10, max(1, 1024 // (length * queries)))
    assert sum(b * q for b, q in watch.asked) == 10 * length * LAYERS  # and nothing is computed twice


def test_the_model_is_left_as_it_was():
    watch = Watch()
    model = make(watch, dropout=0.5).train()
    model.blocks[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    attributes = [set(vars(module)) for module in model.modules()]
    tokens, held_out = draw(2, 9), text()
    drawn = torch.get_rng_state()
    assert torch.equal(losses(model, tokens), losses(model, tokens))  # without dropout
    extrapolation(model, held_out, 4, windows=2, slid=1, longest=2)
    attention_of(model, tokens)
    assert torch.equal(drawn, torch.get_rng_state())
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert [set(vars(module)) for module in model.modules()] == attributes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert set(watch.modes) == {(False, False)}
    with pytest.raises(ValueError, match="position"):
        losses(make(Short(3)).train(), draw(1, 9))
    assert torch.is_grad_enabled()


def test_bfloat16_is_used_only_if_it_is_asked_for():
    model, tokens = make(), draw(2, 9)
    exact, found = losses(model, tokens), losses(model, tokens, autocast=True)
    assert found.dtype == torch.float32
    assert 1e-5 < (found - exact).abs().max() < 0.5
    assert losses(model.bfloat16(), tokens).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda m: losses(m, draw(5)), r"use \(B, T \+ 1\)"),
        (lambda m: losses(m, draw(2, 1)), "at least 2 in a row"),
        (lambda m: losses(m, draw(2, 4), segment=0), "segment is 0: use 1 or more"),
        (lambda m: nonoverlapping(m, draw(2, 12), 4), "11 tokens are no whole number of steps of 4: use a multiple"),
        (lambda m: nonoverlapping(m, draw(2, 3), 4), "2 tokens are no whole number"),
        (lambda m: sliding(m, draw(2, 5), 4, 2, 4), "0 tokens are no whole number"),
        (lambda m: sliding(m, draw(2, 3), 4, 2, 4), "-2 tokens are no whole number"),
        (lambda m: sliding(m, draw(2, 13), 4, 5, 4), "stride is 5: use 1 to 4"),
        (lambda m: sliding(m, draw(2, 13), 4, 0, 4), "stride is 0: use 1 to 4"),
        (lambda m: sliding(m, draw(2, 13), 6, 2, 2), r"context is 2.* 6 .* 4"),
        (lambda m: sliding(m, draw(2, 13), 4, 2, 5), r"7 tokens .* 2"),
        (lambda m: extrapolation(m, text(), 6), r"trained is 6.*multiple of 4"),
        (lambda m: extrapolation(m, text(), 4, longest=12), r"longest is 12.*power of two"),
        (lambda m: extrapolation(m, text(), 4, windows=2, slid=3), r"slid is 3.* 1 to 2"),
        (lambda m: extrapolation(m, text(), 4, slid=0), r"slid is 0.* 1 to 32"),
        (lambda m: extrapolation(m, text(60), 4), "take more text"),
    ],
)
def test_what_does_not_fit_is_refused(call, remedy):
    with pytest.raises(ValueError, match=remedy):
        call(make())


# Extrapolation


@pytest.mark.parametrize(("name", "memory"), [("alibi", False), ("transformer_xl", True)])
def test_extrapolation_is_made_of_these_losses(name, memory):
    model, held_out = make(name), text()
    found = extrapolation(model, held_out, 8, memory=memory, windows=4, slid=2, longest=4)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    of_texts = found["nonoverlapping"][0]["texts"]
    wanted = [nonoverlapping(model, one[None], 8) for one in evaluation.corpus.regions(held_out, 32, 24, 4)[:, 24:]]
    assert of_texts == pytest.approx(wanted, abs=1e-5)
    assert (found["trained"], found["memory"], found["windows"], found["slid"]) == (8, memory, 4, 2)
    regions = evaluation.corpus.regions(held_out, 32, 24, 4)
    spans, some = regions[:, 24:], regions[[0, 2]]
    assert [entry["length"] for entry in found["nonoverlapping"]] == [8, 16, 32]
    for cut, slid, attention in zip(found["nonoverlapping"], found["sliding"], found["attention"], strict=True):
        length = cut["length"]
        for entry, count in ((cut, 4), (slid, 2)):
            texts = entry.pop("texts")
            assert len(texts) == count and sum(texts) / count == pytest.approx(entry["loss"], abs=1e-6)
        assert cut == dict(
            length=length, tokens=128, loss=pytest.approx(nonoverlapping(model, spans, length), abs=1e-5)
        )
        assert slid == dict(
            length=length,
            stride=length // 4,
            tokens=64,
            nonoverlapping=pytest.approx(nonoverlapping(model, some[:, 24:], length), abs=1e-5),
            loss=pytest.approx(sliding(model, some, length, length // 4, 24, memory=memory, segment=8), abs=1e-5),
        )
        part = some[:, 24 : 24 + length]
        assert attention["length"] == length
        for key, measured in zip(("distance", "entropy"), attention_of(model, part), strict=True):
            torch.testing.assert_close(torch.tensor(attention[key]), measured, rtol=0, atol=1e-4)
    expected = window_losses(model, spans).mean(0)
    for entry in found["by_position"]:
        a, b = entry["from"], entry["to"]
        assert entry["tokens"] == 4 * (b - a)
        assert entry["loss"] == pytest.approx(expected[a:b].mean().item(), abs=1e-5)
    total = sum(entry["loss"] * entry["tokens"] for entry in found["by_position"]) / 128
    assert total == pytest.approx(found["nonoverlapping"][-1]["loss"], abs=1e-5)


def test_a_position_without_a_row_is_reported_and_not_hidden():
    found = extrapolation(make("learned", length=8), text(), 4, windows=2, slid=1, longest=4)
    why = "position 15 is beyond the table's 8: a learned table cannot extrapolate"
    assert found["nonoverlapping"][-1] == dict(length=16, loss=None, why=why)
    assert [entry["loss"] is None for entry in found["nonoverlapping"]] == [False, False, True]
    assert found["sliding"][-1] == dict(length=16, stride=4, nonoverlapping=None, loss=None, why=why)
    assert [entry["loss"] is None for entry in found["sliding"]] == [False, False, True]
    assert found["attention"][-1] == dict(length=16, distance=None, entropy=None, why=why)
    for entry in found["by_position"]:
        served = entry["to"] <= 8
        assert (entry["loss"] is not None) == served and entry.get("why") == (None if served else why)
        assert not served or entry["tokens"] == 4 * (entry["to"] - entry["from"])  # of 2 · 16 / 8 windows
    json.dumps(found, allow_nan=False)


def test_a_stream_needs_more_positions_than_a_window():
    found = extrapolation(make(Short(8)), text(), 4, memory=True, windows=2, slid=1, longest=2)
    assert all(entry["loss"] is not None for entry in found["nonoverlapping"])
    for entry in found["sliding"]:
        assert entry["loss"] is None and entry["why"] == "position 13 has no row: there are 8"
        assert entry["nonoverlapping"] is not None


def test_a_loss_that_is_no_number_is_reported():
    found = extrapolation(make(Overflow()), text(), 16, windows=2, slid=1, longest=2)
    json.dumps(found, allow_nan=False)
    why = "the weights are not finite numbers"
    assert [entry.get("why") for entry in found["attention"]] == [None, why]
    assert (found["attention"][1]["distance"], found["attention"][1]["entropy"]) == (None, None)
    why = "the loss is not a finite number"
    assert [entry.get("why") for entry in found["nonoverlapping"]] == [None, why]
    assert [entry.get("why") for entry in found["sliding"]] == [None, why]
    for entry in found["by_position"]:  # a weight of 0 times NaN is NaN, so it spreads in its segment of 16
        assert (entry["loss"] is None) == (entry["to"] > 16) == (entry.get("why") == why)


def test_other_errors_are_raised():
    class Broken(Encoding):
        def embed(self, x: Tensor, pos: Tensor) -> Tensor:
            raise ValueError("nothing fits: use another")

    with pytest.raises(ValueError, match="nothing fits"):
        extrapolation(make(Broken()), text(), 4, windows=2, slid=1, longest=2)
    with pytest.raises(ValueError, match="past"):
        extrapolation(make("alibi", causal=False), text(), 4, windows=2, slid=1, longest=2)


def test_keys_that_depend_on_the_whole_text_are_computed_at_once():
    """Frequencies that follow the length, as dynamic scaling has it."""

    def stretched(head_dim: int, **sizes: int) -> Encoding:
        return RoPE(head_dim, freq=lambda pos: torch.tensor([3.0, 1.0]) / (1 + pos.max()))

    model, held_out = make(stretched), text()
    assert model.encoding().raw_keys
    found = extrapolation(model, held_out, 4, windows=2, slid=1, longest=4)
    spans = evaluation.corpus.regions(held_out, 16, 12, 2)[:, 12:]
    assert found["nonoverlapping"][-1]["loss"] == pytest.approx(nonoverlapping(model, spans, 16), abs=1e-5)
    by_segments = nonoverlapping(model, spans, 16, segment=4)
    assert by_segments != pytest.approx(nonoverlapping(model, spans, 16), abs=1e-4)


@given(eighth=st.integers(1, 8), doublings=st.integers(0, 4))
def test_bins_are_eighths_and_then_eighths_of_a_doubling(eighth, doublings):
    trained = 8 * eighth
    found = bins(trained, trained << doublings)
    assert [b for _, b in found[:-1]] == [a for a, _ in found[1:]]
    assert found[0][0] == 0 and found[-1][1] == trained << doublings
    assert [b for _, b in found[:8]] == [n * eighth for n in range(1, 9)]
    edges = {b for _, b in found}
    assert {trained << n for n in range(doublings + 1)} <= edges  # no bin lies on both sides of a length
    assert all(b / a < 1.2 for a, b in found[8:])
    assert len(found) <= 8 + 8 * doublings


def test_bins_of_the_presets():
    assert bins(4, 8) == list(pairwise([0, 1, 2, 3, 4, 5, 6, 7, 8]))
    found = bins(128, 2048)
    assert found[:9] == [*((16 * n, 16 * n + 16) for n in range(8)), (128, 140)]
    assert len(found) == 40


def test_results_are_small():
    model = make("learned", length=128, layers=1)
    found = extrapolation(model, text(5000), 128, windows=1, slid=1, longest=16)
    assert len(json.dumps(found)) < 20_000


# Tasks


class Oracle(nn.Module):
    """Knows the rest of each sequence by its question, but for what is spoilt."""

    def __init__(self, tokens: Tensor, wrong: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.tokens, self.wrong, self.modes = tokens, wrong, set()

    def forward(self, tokens: Tensor, pos: Tensor | None = None) -> Tensor:
        self.modes.add((self.training, torch.is_grad_enabled()))
        if pos is not None:
            return torch.zeros(1, 1, tasks.VOCABULARY)
        here = [int((self.tokens[:, :-1] == row).all(1).nonzero()[0]) for row in tokens]
        said = torch.where(self.wrong, (self.tokens + 1) % tasks.VOCABULARY, self.tokens)[here, 1:]
        return nn.functional.one_hot(said, tasks.VOCABULARY).float()


@pytest.mark.parametrize("task", tasks.TASKS)
@pytest.mark.parametrize("pairs", [2**18, 100])
def test_accuracy_counts_answers_without_a_mistake_and_tokens(task, pairs, monkeypatch):
    monkeypatch.setitem(evaluation.PAIRS, "cpu", pairs)
    tokens, answer = tasks.sample(task, 6, 20, torch.Generator().manual_seed(5))
    wrong = torch.rand(tokens.shape) < 0.2
    model = Oracle(tokens, wrong)
    found = accuracy(model, task, 6, 20, torch.Generator().manual_seed(5))
    exact = mean(not any(w and a for w, a in zip(*row, strict=True)) for row in zip(wrong, answer, strict=True))
    share = mean(not w for w, a in zip(wrong.flatten(), answer.flatten(), strict=True) if a)
    assert 0 < exact < share < 1
    unended = pytest.approx(found["unended"])
    assert found == dict(length=6, count=20, exact=pytest.approx(exact), unended=unended, tokens=pytest.approx(share))
    ends = tokens == tasks.EOS
    but = accuracy(Oracle(tokens, wrong & ends), task, 6, 20, torch.Generator().manual_seed(5))
    assert but["unended"] == 1
    assert (but["exact"] < 1) == bool((ends & answer).any())
    assert found["exact"] <= found["unended"] < 1
    assert model.modes == {(False, False)} and model.training
    right = accuracy(Oracle(tokens, wrong & ~answer), task, 6, 20, torch.Generator().manual_seed(5))
    assert (right["exact"], right["tokens"]) == (1, 1)


def test_a_coupled_addition_is_asked_at_its_positions():
    model, seen = make("rope", vocabulary=tasks.VOCABULARY), []
    model.register_forward_pre_hook(lambda module, arguments: seen.append(arguments))
    accuracy(model, "addition", 4, 3, torch.Generator().manual_seed(0), coupled=True)
    assert seen[-1][1].tolist() == tasks.coupled(4)[:-1].tolist()
    assert len(seen[-1][1]) == seen[-1][0].shape[1]
    accuracy(model, "addition", 4, 3, torch.Generator().manual_seed(0))
    assert seen[-1][1] is None


def test_exact_match_is_that_of_greedy_decoding():
    torch.manual_seed(1)
    model = Transformer(tasks.VOCABULARY, layers=2, model_dim=32, heads=2)
    optimizer, generator = torch.optim.AdamW(model.parameters(), 1e-2), torch.Generator().manual_seed(1)
    for _ in range(50):
        tokens, answer = tasks.sample("copy", 2, 64, generator)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1])[answer[:, 1:]], tokens[:, 1:][answer[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = accuracy(model, "copy", 2, 50, torch.Generator().manual_seed(2))
    tokens, answer = tasks.sample("copy", 2, 50, torch.Generator().manual_seed(2))
    question = int((~answer[0]).sum())
    written = model.generate(tokens[:, :question], tokens.shape[1] - question)
    assert 0 < found["exact"] < 1
    assert found["exact"] == pytest.approx((written == tokens).all(1).float().mean().item())


def test_generalisation_goes_beyond_what_was_trained():
    model = make("nope", vocabulary=tasks.VOCABULARY)
    found = generalisation(model, "reverse", 8, count=3)
    assert [entry["length"] for entry in found] == list(range(2, 33, 2))
    assert found == generalisation(model, "reverse", 8, count=3)
    assert [entry["length"] for entry in generalisation(model, "copy", 2, count=2, longest=2)] == [1, 2, 3, 4]
    assert generalisation(model, "copy", 64, count=1, longest=2)[-1]["length"] == 128
    recall = generalisation(model, "recall", 32, count=1)
    assert [entry["length"] for entry in recall] == list(range(8, 65, 8))  # as many keys as there are
    json.dumps(found, allow_nan=False)


def test_a_task_that_is_too_long_for_a_table_is_reported():
    model = make("learned", vocabulary=tasks.VOCABULARY, length=17)
    found = generalisation(model, "copy", 4, count=2)
    for entry in found:  # ⟨copy, n letters, =, n letters; the end is not read
        served = 2 * entry["length"] + 3 <= 17
        assert (entry["exact"] is not None) == (entry["tokens"] is not None) == served
        assert served or (entry["why"].startswith("position ") and entry["why"].endswith("cannot extrapolate"))
    assert {entry["exact"] is None for entry in found} == {True, False}


# Attention


def weights_of(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """The weights of each layer, (B, H, L, L), by the model's own attention asked with one-hot values."""
    pos, x, found = torch.arange(tokens.shape[1]), model.embedding(tokens) * 8**0.5, []
    x = model.encoding().embed(x, pos)
    for n, block in enumerate(model.blocks):
        encoding, h = model.encoding(n), block.attention_norm(x)
        q, k = (part.unflatten(-1, (HEADS, 4)).transpose(1, 2) for part in (block.query(h), block.key(h)))
        found.append(attention_weights(encoding.query(q, pos), encoding.key(k, pos), encoding, pos, pos))
        x = block(x, Step(model.config, Plan(pos)), encoding)
    return found


@pytest.mark.parametrize("segment", [None, 3])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_is_that_of_the_last_quarter(name, shared, segment):
    model, tokens = make(name, shared=shared).double(), draw(2, 11)
    with torch.no_grad():
        layers = weights_of(model, tokens)
    distance, entropy = torch.zeros(2, LAYERS, HEADS).double()
    for n, weights in enumerate(layers):
        for head in range(HEADS):
            rows = [(row, i) for b in range(2) for i, row in enumerate(weights[b, head].tolist()) if i >= 8]
            distance[n, head] = mean(sum(a * (i - j) for j, a in enumerate(row)) for row, i in rows)
            entropy[n, head] = mean(-sum(a * math.log(a) for a in row if a) for row, _ in rows)
    expected = torch.stack((distance, entropy))
    torch.testing.assert_close(attention_of(model, tokens, segment), expected, rtol=0, atol=1e-6)


def test_attention_that_tells_nothing_apart_is_uniform():
    model = make("nope", backend="sdpa")
    for block in model.blocks:
        nn.init.zeros_(block.query.weight)
    tokens = draw(1, 16)
    queries = range(12, 16)
    distance, entropy = attention_of(model, tokens).tolist()
    assert distance == [[pytest.approx(mean(i / 2 for i in queries))] * 2] * 2
    assert entropy == [[pytest.approx(mean(math.log(i + 1) for i in queries))] * 2] * 2


@pytest.mark.cuda
def test_it_runs_where_the_model_is(device):
    model = make("rope").to(device)
    found = extrapolation(model, text(), 4, windows=2, slid=1, longest=2, autocast=device == "cuda")
    assert found["nonoverlapping"][-1]["loss"] > 0
    assert accuracy(make(vocabulary=tasks.VOCABULARY).to(device), "copy", 3, 4, torch.Generator())["tokens"] >= 0
