"""posenc.lab.planted: what is planted occurs twice, as far apart as it should, and everything else stays."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.lab.planted import (
    CUE,
    DIGITS,
    END,
    KINDS,
    LENGTH,
    OPENING,
    STOP,
    SYMBOLS,
    pair,
    periodic,
    plant,
    put,
    strings,
)


def made(seed=0):
    return torch.Generator().manual_seed(seed)


def occurrences(row: bytes) -> tuple[bytes, list[int]]:
    """A string of the alphabet of either kind that occurs twice, and where."""
    for at in range(len(row) - LENGTH + 1):
        piece = row[at : at + LENGTH]
        if b"." not in piece and row.find(piece, at + 1) > 0:
            return piece, [at, row.find(piece, at + 1)]
    return b"", []


def test_strings_are_of_their_kind():
    copies, keys = ([bytes(row) for row in strings(kind, 200, made()).tolist()] for kind in KINDS)
    assert all(len(each) == LENGTH for each in copies + keys)
    assert set(b"".join(copies)) == set(SYMBOLS)
    assert all(each.startswith(OPENING) and each.endswith(END) for each in keys)
    assert set(b"".join(each[CUE["key"] : STOP["key"]] for each in keys)) == set(DIGITS)
    assert len(set(copies)) == 200 and len(set(keys)) > 190
    with pytest.raises(ValueError, match="copy, key"):
        strings("needle", 1, made())


@pytest.mark.parametrize(("length", "farthest"), [(129, 116), (129, 12), (60, 48), (24, 12)])
def test_a_planted_string_occurs_twice_and_the_rest_stays(length, farthest):
    text = torch.full((400, length), ord("."))
    found = plant(text, 1.0, farthest, made())
    distances, kinds = set(), set()
    for row in found.tolist():
        string, places = occurrences(bytes(row))
        assert len(places) == 2
        distances.add(places[1] - places[0])
        kinds.add(string.startswith(OPENING))
        rest = set(range(length)) - {place + n for place in places for n in range(LENGTH)}
        assert all(row[place] == ord(".") for place in rest)
    assert min(distances) == LENGTH and max(distances) == farthest and kinds == {True, False}


def test_a_share_of_rows_is_planted():
    text = torch.full((2000, 60), ord("."))
    found = plant(text, 0.3, 40, made())
    assert 0.25 < (found != text).any(1).float().mean() < 0.35
    assert torch.equal(plant(text, 0.0, 40, made()), text)


@pytest.mark.parametrize("farthest", [11, 49])
def test_what_does_not_fit_is_refused(farthest):
    with pytest.raises(ValueError, match=r"farthest is \d+.* 12 to 48"):
        plant(torch.zeros(2, 60, dtype=torch.long), 0.5, farthest, made())


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_differs_in_the_first_string_only(kind):
    text = torch.full((50, 70), ord("."))
    same, other, answer = pair(text, kind, made())
    assert torch.equal(same[:, LENGTH : 2 * LENGTH], same[:, -LENGTH:])
    assert (other[:, LENGTH : 2 * LENGTH] != other[:, -LENGTH:]).any(1).all()
    elsewhere = torch.arange(70)[(torch.arange(70) < LENGTH) | (torch.arange(70) >= 2 * LENGTH)]
    assert torch.equal(same[:, elsewhere], other[:, elsewhere])
    alphabet = DIGITS if kind == "key" else SYMBOLS
    assert set(same[:, answer].flatten().tolist()) <= set(alphabet)
    assert answer.stop - answer.start == (5 if kind == "key" else 9)


def test_put_writes_where_it_is_told():
    found = put(torch.zeros(2, 20, dtype=torch.long), torch.arange(1, 25).view(2, 12), torch.tensor([0, 8]))
    assert found[0].tolist() == [*range(1, 13), *[0] * 8]
    assert found[1].tolist() == [*[0] * 8, *range(13, 25)]


@given(st.integers(0, 99), st.integers(LENGTH, 60))
def test_a_periodic_row_repeats_its_beginning_and_others_stay(seed, longest):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.zeros(40, 80, dtype=torch.long)
    found = periodic(tokens, 0.5, longest, generator)
    periods = set()
    for row in found:
        if row.any():
            period = next(n for n in range(1, 80) if bool((row[n:] == row[:-n]).all()))
            assert LENGTH <= period <= longest
            assert set(row.tolist()) <= set(SYMBOLS)
            periods.add(period)
        else:
            assert (row == 0).all()
    assert 5 <= int((found != 0).any(1).sum()) <= 35
    assert len(periods) > 1 or longest == LENGTH


def test_a_period_shorter_than_a_string_is_refused():
    with pytest.raises(ValueError, match=r"longest is 5.* 12 or more"):
        periodic(torch.zeros(1, 20, dtype=torch.long), 1.0, 5, torch.Generator())
