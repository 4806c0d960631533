"""posenc.transformer.decoding: what is generated is what full passes say, token by token."""

import pytest
import torch
from torch import Tensor

from posenc import ENCODINGS, Learned
from posenc.transformer.decoding import sample
from posenc.transformer.model import Transformer
from tests.test_model import LENGTH, MODEL, VOCABULARY, close, draw, make

every = pytest.mark.parametrize("name", ENCODINGS)
COUNT = 5


def by_full_passes(model: Transformer, tokens: Tensor, count: int = COUNT) -> Tensor:
    for _ in range(count):
        tokens = torch.cat((tokens, model(tokens)[:, -1:].argmax(-1)), 1)
    return tokens


@every
@pytest.mark.parametrize("options", [{}, dict(window=3, sinks=2), dict(every_layer=True, shared=False)])
def test_greedy_generation_takes_the_likeliest_of_full_passes(name, options):
    model, tokens = make(name, **options), draw(3)
    expected = by_full_passes(model, tokens)
    for chunk in (None, 1, 2, 4, LENGTH, 100):
        assert torch.equal(model.generate(tokens, COUNT, chunk=chunk), expected)


@every
@pytest.mark.parametrize("options", [{}, dict(window=3, sinks=1), dict(window=2)])
def test_prompts_of_different_lengths_are_padded_on_either_side(name, options):
    model, tokens = make(name, **options), draw(4)
    mask = torch.ones(4, LENGTH, dtype=torch.bool)
    mask[0, :4] = mask[1, 6:] = mask[2, :2] = mask[2, 7:] = False
    for chunk in (None, 4):
        found = model.generate(tokens, COUNT, padding_mask=mask, chunk=chunk)
        assert torch.equal(found[:, :LENGTH], tokens)
        for row, real, sequence in zip(found, mask, tokens, strict=True):
            assert torch.equal(row[LENGTH:], by_full_passes(model, sequence[real][None])[0, -COUNT:])


def test_nothing_may_be_added():
    model, tokens = make("rope"), draw()
    assert torch.equal(model.generate(tokens, 0), tokens)
    cache = model.cache()
    model.generate(tokens, 0, cache=cache)
    assert [len(layer) for layer in cache] == [LENGTH] * 2


def test_a_cache_of_your_own_goes_on():
    model, tokens = make("rope"), draw()
    whole, cache = by_full_passes(model, tokens, 7), model.cache()
    first = model.generate(tokens, 4, cache=cache)
    assert torch.equal(first, whole[:, : LENGTH + 4])
    assert [len(layer) for layer in cache] == [LENGTH + 3] * 2  # the last token is not in it
    second = model.generate(first[:, -1:], 3, cache=cache)
    assert torch.equal(second, whole[:, LENGTH + 3 :])
    mask = torch.tensor([[False, False, True], [True, True, True]])
    padded = model.cache()
    model(draw(2, 4), padding_mask=torch.ones(2, 4, dtype=torch.bool), cache=padded)
    model.generate(draw(2, 3), 2, padding_mask=mask, cache=padded)
    assert padded[0].positions[:, 4:].tolist() == [[-1, -1, 4, 5], [4, 5, 6, 7]]


def test_after_the_end_comes_the_end():
    model, tokens = make("rope"), draw(6)
    free = model.generate(tokens, 8)
    eos = int(free[0, LENGTH + 2])
    found = model.generate(tokens, 8, eos=eos)
    for row, other in zip(found[:, LENGTH:].tolist(), free[:, LENGTH:].tolist(), strict=True):
        end = other.index(eos) if eos in other else len(other)
        assert row == other[: end + 1] + [eos] * (8 - end - 1)
    ends = [(row == eos).any().item() for row in free[:, LENGTH:]]
    assert any(ends) and not all(ends)
    cache = model.cache()
    alone = model.generate(tokens[:1], 8, eos=eos, cache=cache)
    assert torch.equal(alone, found[:1])
    assert len(cache[0]) <= LENGTH + 2  # it stops when all have ended


def test_sampling_is_reproducible_and_follows_the_temperature():
    model, tokens = make("rope"), draw(64)

    def drawn(seed: int, **options) -> Tensor:
        return model.generate(tokens, 3, generator=torch.Generator().manual_seed(seed), **options)

    assert torch.equal(drawn(1, temperature=1.0), drawn(1, temperature=1.0))
    assert not torch.equal(drawn(1, temperature=1.0), drawn(2, temperature=1.0))
    greedy = model.generate(tokens, 3)
    assert torch.equal(drawn(1, temperature=1e-4), greedy)
    assert torch.equal(drawn(1, temperature=1.0, top_k=1), greedy)
    assert torch.equal(drawn(1, temperature=1.0, top_p=1e-6), greedy)
    assert not torch.equal(drawn(1, temperature=1.0), greedy)
    torch.manual_seed(3)
    first = model.generate(tokens, 3, temperature=1.0)
    torch.manual_seed(3)
    assert torch.equal(model.generate(tokens, 3, temperature=1.0), first)


@pytest.mark.parametrize(("options", "expected"), [
    ({}, [0.1, 0.4, 0.2, 0.3]),
    (dict(temperature=0.5), [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
    (dict(top_k=2), [0, 4 / 7, 0, 3 / 7]),
    (dict(top_k=9), [0.1, 0.4, 0.2, 0.3]),
    (dict(top_p=0.65), [0, 4 / 7, 0, 3 / 7]),
    (dict(top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
    (dict(top_p=0.3), [0, 1, 0, 0]),
    (dict(top_p=1.0), [0.1, 0.4, 0.2, 0.3]),
    (dict(top_k=3, top_p=0.5), [0, 4 / 7, 0, 3 / 7]),
    (dict(top_k=3, top_p=0.42), [0, 1, 0, 0]),  # of the three that are left, one has 4 / 9
    (dict(temperature=0.0), [0, 1, 0, 0]),
])  # fmt: skip
def test_tokens_are_drawn_as_often_as_their_probability_says(options, expected):
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log().expand(40_000, 4)
    token = sample(logits, **options, generator=torch.Generator().manual_seed(0))
    assert token.shape == (40_000,)
    close(token.bincount(minlength=4) / 40_000, torch.tensor(expected, dtype=torch.float32), atol=0.015)
    assert ((token.bincount(minlength=4) == 0) == (torch.tensor(expected) == 0)).all()


def test_equal_logits_do_not_let_more_through_than_asked():
    assert sample(torch.zeros(500, 6), top_k=2).unique().numel() == 2
    assert sample(torch.zeros(500, 6), top_p=0.5).unique().numel() == 3
    assert sample(torch.zeros(500, 6, dtype=torch.bfloat16)).unique().numel() == 6


def test_the_mode_of_the_model_is_restored_and_dropout_is_off():
    torch.manual_seed(0)
    model, tokens = Transformer(VOCABULARY, layers=1, model_dim=8, heads=2, dropout=0.9), draw()
    for training in (True, False):
        model.train(training)
        assert torch.equal(model.generate(tokens, COUNT), model.generate(tokens, COUNT))
        assert model.training == training
        assert model.blocks[0].dropout.training == training
        with pytest.raises(ValueError, match="top_k is 0"):
            model.generate(tokens, 1, temperature=1.0, top_k=0)
        assert model.training == training
    assert model.generate(tokens, 1).requires_grad is False


def test_too_few_positions_are_noticed_before_anything_is_computed():
    model, tokens = make(Learned(MODEL, LENGTH + 3)), draw()
    assert torch.equal(model.generate(tokens, 4), by_full_passes(model, tokens, 4))  # the fourth is not looked up
    cache = model.cache()
    with pytest.raises(ValueError, match=f"{LENGTH + 3}"):
        model.generate(tokens, 5, cache=cache)
    assert len(cache[0]) == 0
    model.generate(tokens, 0, cache=cache)
    with pytest.raises(ValueError, match=f"{LENGTH + 3}"):
        model.generate(tokens[:, :1], 4, cache=cache)
    assert len(cache[0]) == LENGTH
    model.generate(tokens[:, :1], 3, cache=cache)
    with pytest.raises(ValueError, match=f"{LENGTH + 3}"):
        model.generate(tokens[:, :1], 1, cache=cache)
    assert len(cache[0]) == LENGTH + 3
    mask = torch.arange(LENGTH).expand(2, -1) >= torch.tensor([[2], [4]])
    model.generate(tokens, 6, padding_mask=mask)
    with pytest.raises(ValueError, match=f"{LENGTH + 3}"):
        model.generate(tokens, 7, padding_mask=mask)


def test_the_last_row_of_a_table_is_used():
    model, tokens = make(Learned(MODEL, LENGTH)), draw()
    for count in (0, 1):
        assert model.generate(tokens, count).shape == (2, LENGTH + count)
    cache, mask = model.cache(), torch.arange(6).expand(2, -1) >= torch.tensor([[0], [5]])
    model(tokens[:, :6], padding_mask=mask, cache=cache)  # 6 tokens and 1, then 2 and 6: no sequence has more than 9
    late = torch.arange(6).expand(2, -1) >= torch.tensor([[4], [0]])
    assert model.generate(tokens[:, :6], 2, padding_mask=late, cache=cache).shape == (2, 8)


def test_what_cannot_go_on_is_refused():
    model, tokens = make("rope"), draw()
    half = torch.tensor([[True] * LENGTH, [False] * LENGTH])
    with pytest.raises(ValueError, match="count is -1"):
        model.generate(tokens, -1)
    for options in (dict(tokens=tokens[:, :0]), dict(tokens=tokens[:0]), dict(tokens=tokens, padding_mask=half)):
        with pytest.raises(ValueError, match="real token"):
            model.generate(count=1, **options)
    with pytest.raises(ValueError, match="chunk is 0"):
        model.generate(tokens, 1, chunk=0)
    with pytest.raises(ValueError, match="causal=True"):
        make("rope", causal=False).generate(tokens, 1)
    with pytest.raises(ValueError, match="tokens"):
        model.generate(tokens[0], 1)
    for options, remedy in (
        (dict(temperature=-1.0), "temperature is -1.0"),
        (dict(temperature=float("nan")), "temperature is nan"),
        (dict(top_k=0), "top_k is 0"),
        (dict(top_p=0.0), "top_p is 0.0"),
        (dict(top_p=1.1), "top_p is 1.1"),
    ):
        with pytest.raises(ValueError, match=remedy):
            sample(torch.zeros(1, 3), **options)
