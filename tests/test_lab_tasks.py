"""posenc.lab.tasks: what the sequences say is right, read from their text."""

import hashlib
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc.lab import tasks
from posenc.lab.tasks import BOS, EOS, KEYS, LETTERS, QUERIES, SEP, SYMBOLS, TASKS, VOCABULARY, add, sample, text

every = pytest.mark.parametrize("task", TASKS)


def drawn(task: str, length: int = 5, count: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    return sample(task, length, count, torch.Generator().manual_seed(seed))


def marked(tokens: Tensor, answer: Tensor) -> str:
    """What has to be predicted, as text."""
    return text(tokens[answer])


# What the sequences say


@given(st.integers(1, 40))
def test_coupled_positions_bring_together_what_makes_a_digit(length):
    tokens, _ = drawn("addition", length, 1)
    places, written = tasks.coupled(length).tolist(), text(tokens[0])
    assert len(places) == tokens.shape[1]
    at = {place: [n for n, p in enumerate(places) if p == place] for place in range(1, length + 1)}
    first, second, equals = 2, 3 + length, 3 + 2 * length
    for place, (a, b, before) in ((place, found[-3:]) for place, found in at.items()):
        assert a == first + length - place and b == second + length - place
        assert before == equals + place - 1  # the next token is this place of the sum
    assert len(written) > length


def test_an_addition_without_digits_has_no_positions():
    with pytest.raises(ValueError, match=r"length is 0.* 1 digit"):
        tasks.coupled(0)


@given(st.sampled_from(TASKS[:2]), st.integers(1, 70), st.integers(1, 3), st.integers(0, 99))
def test_a_word_is_copied_or_reversed(task, length, count, seed):
    for row, answer in zip(*drawn(task, length, count, seed), strict=True):
        word, reply = re.fullmatch(rf"⟨{task} ([a-p]+)=([a-p]+)⟩", text(row)).groups()
        assert len(word) == length
        assert reply == (word if task == "copy" else word[::-1])
        assert marked(row, answer) == reply + "⟩"


@given(st.integers(1, 70), st.integers(1, 3), st.integers(0, 99))
def test_numbers_are_added(length, count, seed):
    for row, answer in zip(*drawn("addition", length, count, seed), strict=True):
        a, b, total = re.fullmatch(r"⟨addition (\d+)\+(\d+)=(\d+)⟩", text(row)).groups()
        assert len(a) == len(b) == length and len(total) == length + 1
        assert int(total[::-1]) == int(a) + int(b)  # the last digit first
        assert marked(row, answer) == total + "⟩"


@given(st.integers(1, KEYS), st.integers(1, 3), st.integers(0, 99))
def test_values_are_recalled_by_their_keys(length, count, seed):
    for row, answer in zip(*drawn("recall", length, count, seed), strict=True):
        pairs, asked = re.fullmatch(r"⟨recall ((?: [A-H][1-8][a-p])+)=((?: [A-H][1-8][a-p])+)", text(row)).groups()
        value = {pair[:2]: pair[2] for pair in pairs.split()}
        assert len(value) == length  # no key twice
        queries = [query[:2] for query in asked.split()]
        assert len(set(queries)) == len(queries) == min(length, QUERIES)
        assert asked == "".join(f" {query}{value[query]}" for query in queries)
        assert marked(row, answer) == "".join(value[query] for query in queries)


@every
@given(st.integers(1, KEYS), st.integers(1, 4), st.integers(0, 99))
def test_task_and_length_fix_the_number_of_tokens(task, length, count, seed):
    tokens, answer = drawn(task, length, count, seed)
    question = {"copy": length, "reverse": length, "addition": 2 * length + 1, "recall": 2 * length}[task]
    reply = {"addition": length + 2, "recall": 2 * min(length, QUERIES)}.get(task, length + 1)
    assert tokens.shape == answer.shape == (count, 2 + question + 1 + reply)
    assert tokens.dtype == torch.int64 and answer.dtype == torch.bool
    assert tokens.min() >= 0 and tokens.max() < VOCABULARY
    assert not answer[:, : 2 + question + 1].any()
    assert (answer == answer[0]).all()


@every
def test_an_answer_is_asked_for(task):
    tokens, _ = drawn(task)
    assert (tokens[:, 0] == BOS).all()
    assert ((tokens == SEP).sum(1) == 1).all()
    assert ((tokens == EOS).sum(1) == (task != "recall")).all()


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 9), min_size=n, max_size=n)] * 2)))
def test_addition_carries_through_any_number_of_digits(numbers):
    a, b = numbers
    total = int("".join(map(str, a))) + int("".join(map(str, b)))
    assert add(torch.tensor(a), torch.tensor(b)).tolist() == [int(c) for c in str(total).zfill(len(a) + 1)]


# What is drawn


@pytest.mark.parametrize(("task", "kinds"), [("copy", LETTERS), ("reverse", LETTERS), ("addition", 10)])
def test_all_letters_and_digits_are_as_likely_in_every_place(task, kinds):
    count, length = 8_000, 4
    tokens, _ = drawn(task, length, count)
    places = [*range(2, 6), *(range(7, 11) if task == "addition" else ())]
    for place in places:
        often = tokens[:, place].unique(return_counts=True)[1]
        assert len(often) == kinds
        assert (often - count / kinds).abs().max() < 5 * (count / kinds) ** 0.5


def test_all_keys_are_as_likely_and_every_pair_is_asked_for():
    count, length = 8_000, QUERIES + 2
    tokens, _ = drawn("recall", length, count)
    end = 2 + 2 * length
    keys, values, queries = tokens[:, 2:end:2], tokens[:, 3:end:2], tokens[:, end + 1 :: 2]
    for often, expected in (
        (keys[:, 0].unique(return_counts=True)[1], count / KEYS),
        (values[:, 5].unique(return_counts=True)[1], count / LETTERS),
        *(((keys == queries[:, n : n + 1]).sum(0), count / length) for n in range(QUERIES)),
    ):
        assert len(often) == round(count / expected)
        assert (often - expected).abs().max() < 5 * expected**0.5


def test_the_two_numbers_are_drawn_apart():
    tokens, _ = drawn("addition", 12, 50)
    assert (tokens[:, 2:14] != tokens[:, 15:27]).any(1).all()


@every
def test_one_seed_draws_the_same_and_another_does_not(task):
    first, second, other = (drawn(task, 6, 4, seed)[0] for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert len(first.unique(dim=0)) == 4
    generator = torch.Generator().manual_seed(3)
    sample(task, 6, 4, generator)
    assert not torch.equal(sample(task, 6, 4, generator)[0], first)


@every
def test_no_other_generator_is_touched(task):
    before = torch.get_rng_state()
    drawn(task)
    assert torch.equal(torch.get_rng_state(), before)


# What the docstring claims


@every
@settings(max_examples=10)
@given(st.integers(1, 6), st.integers(0, 99))
def test_all_right_given_the_right_ones_is_what_greedy_decoding_gets_right(task, length, seed):
    """A model is a function of what it has read; this one is right in seven of ten cases."""

    def likeliest(read: list[int], right: int) -> int:
        chance = hashlib.sha256(repr(read).encode()).digest()[0]
        return right if chance < 0.7 * 256 else (right + 1) % VOCABULARY

    for row, answer in zip(*drawn(task, length, 20, seed), strict=True):
        tokens, asked = row.tolist(), answer.tolist()
        at_once = all(likeliest(tokens[:n], tokens[n]) == tokens[n] for n in range(len(tokens)) if asked[n])
        written: list[int] = []
        for n in range(len(tokens)):
            written.append(likeliest(written, tokens[n]) if asked[n] else tokens[n])
        assert (written == tokens) == at_once


# How it is read


def test_every_token_is_read_as_something_else():
    assert len(SYMBOLS) == len(set(SYMBOLS)) == VOCABULARY
    assert text(torch.arange(VOCABULARY)) == "".join(SYMBOLS)


def test_symbols_stand_where_the_constants_say():
    assert [SYMBOLS[n] for n in (BOS, EOS, SEP, tasks.PLUS)] == ["⟨", "⟩", "=", "+"]
    assert [SYMBOLS[tasks.TASK + n].strip() for n in range(len(TASKS))] == list(TASKS)
    assert [SYMBOLS[n] for n in (tasks.DIGIT, tasks.LETTER, tasks.KEY)] == ["0", "a", " A1"]


def test_a_batch_is_read_line_by_line():
    tokens, _ = drawn("copy", 3, 2)
    assert text(tokens) == f"{text(tokens[0])}\n{text(tokens[1])}"


# Bad input


def test_a_task_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"'sort'.*copy, reverse"):
        drawn("sort")


@every
@pytest.mark.parametrize(("length", "count"), [(0, 1), (-1, 1), (1, 0)])
def test_nothing_to_do_is_refused(task, length, count):
    with pytest.raises(ValueError, match="at least 1"):
        drawn(task, length, count)


def test_more_pairs_than_keys_are_refused():
    drawn("recall", KEYS)
    with pytest.raises(ValueError, match="at most 64"):
        drawn("recall", KEYS + 1)
