"""posenc.lab.baselines: n-grams are those that one counts by hand, and every byte has a probability."""

import dataclasses
import json
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.lab.__main__ import main
from posenc.lab.baselines import DISCOUNT, Counts, baselines, counted, keep, read_baselines
from posenc.lab.budgets import PRESETS
from posenc.lab.corpus import Corpus


def likely(text: bytes, context: bytes, byte: int) -> float:
    """Absolute discounting as it is written: from the longest context down."""
    after = Counter(text[i + len(context)] for i in range(len(text) - len(context)) if text[i:].startswith(context))
    shorter = likely(text, context[1:], byte) if context else 1 / 256
    if not after:
        return shorter
    total = sum(after.values())
    return max(after[byte] - DISCOUNT, 0) / total + DISCOUNT * len(after) / total * shorter


def tensor(text: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


@given(st.binary(min_size=4, max_size=40), st.lists(st.binary(min_size=6, max_size=6), min_size=1, max_size=3))
@pytest.mark.parametrize("order", [1, 2, 4])
def test_losses_are_those_of_counting_by_hand(order, text, rows):
    text = bytes(byte % 3 for byte in text)  # few bytes, so that strings occur again
    rows = [bytes(byte % 4 for byte in row) for row in rows]
    found = Counts(tensor(text), order).losses(torch.stack([tensor(row) for row in rows]).long())
    for row, losses in zip(rows, found.tolist(), strict=True):
        by_hand = [-math.log(likely(text, row[max(0, t - order + 1) : t], row[t])) for t in range(1, len(row))]
        assert losses == pytest.approx(by_hand)


def test_probabilities_of_all_bytes_sum_to_one():
    counts = Counts(tensor(b"the cat and the hat and the bat"), 3)
    rows = torch.stack([tensor(b"the" + bytes([byte])) for byte in range(256)]).long()
    assert (-counts.losses(rows)[:, -1]).exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize(("order", "text"), [(0, b"abc"), (9, b"abcdefghijk"), (4, b"abc")])
def test_an_order_that_does_not_fit_is_refused(order, text):
    with pytest.raises(ValueError, match=r"order is|has no string"):
        Counts(tensor(text), order)


def test_baselines_read_the_spans_of_models_and_are_kept(tmp_path, monkeypatch, capsys):
    budget = dataclasses.replace(PRESETS["smoke"].text, length=16, longest=2, windows=2)
    monkeypatch.setitem(PRESETS, "smoke", dataclasses.replace(PRESETS["smoke"], text=budget))
    corpus = Corpus("letters", tensor(b"abcab" * 200), tensor(b"abcab" * 30), digest="0" * 16, files=2)
    found = baselines(corpus, "smoke", progress=False)
    losses = [entry["loss"] for entry in found["ngrams"]]
    assert losses == sorted(losses, reverse=True)  # a longer context tells more of a text that repeats
    assert losses[0] > 1 and losses[-1] < 0.3
    assert [len(entry["texts"]) for entry in found["ngrams"]] == [2] * len(losses)
    assert found["compressed"].keys() == {"gzip", "xz"}
    with pytest.raises(ValueError, match=r"python -m posenc\.lab baselines --preset smoke"):
        read_baselines("smoke", tmp_path)
    keep(found, "smoke", tmp_path)
    again = read_baselines("smoke", tmp_path)
    assert again["provenance"]["corpus"] == "0" * 16
    assert [entry["loss"] for entry in again["ngrams"]] == pytest.approx(losses, rel=1e-4)
    assert counted("smoke", tmp_path) == pytest.approx(min(losses), rel=1e-4)
    assert main(["report", "--experiment", "baselines", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "6-grams" in capsys.readouterr().out


def test_the_command_measures_baselines(tmp_path, capsys):
    text = tmp_path / "text"
    text.mkdir()
    for name in "ab":
        (text / name).write_text("".join(f"line {n} of {name}\n\n" for n in range(2000)))
    what = ["--preset", "smoke", "--corpus", str(text), "--out", str(tmp_path), "--quiet"]
    assert main(["baselines", *what]) == 0
    told = capsys.readouterr().out
    assert "gzip" in told
    assert json.loads((tmp_path / "smoke/baselines.json").read_text())["provenance"]["corpus_name"] == "text"
