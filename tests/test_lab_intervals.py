"""posenc.lab.intervals: intervals hold what they promise, as often as they promise it."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.lab.intervals import Interval, crossed, over_seeds, student, wilson


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # from tables of Student's distribution
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980), (1e5, 1.960)],
)
def test_students_quantiles_are_those_of_the_tables(freedom, quantile):
    assert student(freedom) == pytest.approx(quantile, abs=6e-4)


def test_degrees_of_freedom_below_one_are_refused():
    with pytest.raises(ValueError, match=r"freedom is 0\.5.* 1 or more"):
        student(0.5)


@pytest.mark.parametrize(
    ("seeds", "texts", "parts"),
    [(3, 64, (1, 1, 1)), (3, 64, (0.1, 1, 0.5)), (3, 64, (1, 0, 0)), (3, 64, (0, 0, 1)), (2, 16, (0.3, 1, 1))],
)
def test_an_interval_holds_the_truth_about_as_often_as_it_says(seeds, texts, parts):
    """Seeds, texts and the rest differ by `parts`; the truth is 0."""
    generator = torch.Generator().manual_seed(0)
    held, times = 0, 1000
    for _ in range(times):
        seed, text, rest = (torch.randn(size, generator=generator) for size in ((seeds, 1), (1, texts), (seeds, texts)))
        found = crossed(parts[0] * seed + parts[1] * text + parts[2] * rest)
        held += found.low <= 0 <= found.high
    assert 0.925 <= held / times <= 1


def test_an_interval_is_no_wider_than_it_must_be_where_texts_alone_differ():
    generator, values = torch.Generator().manual_seed(0), torch.zeros(3, 64, dtype=torch.float64)
    values += torch.randn(64, generator=generator)
    found, error = crossed(values), values[0].std().item() / math.sqrt(64)
    assert found.mean == pytest.approx(values[0].mean().item())
    assert (found.high - found.low) / 2 == pytest.approx(student(63) * error, rel=1e-6)


def test_a_single_seed_and_no_differences_at_all():
    values = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    found, half = crossed(values), student(2) * values.std().item() / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half))
    assert crossed([[2.0, 2.0], [2.0, 2.0]]) == Interval(2.0, 2.0, 2.0)


@pytest.mark.parametrize("values", [torch.zeros(3), torch.zeros(3, 1), torch.zeros(0, 4)])
def test_values_of_another_shape_are_refused(values):
    with pytest.raises(ValueError, match=r"shape .*\(seeds, texts\)"):
        crossed(values)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_ends_solve_his_equation(trial):
    """At each end p the share lies 1.96 standard errors of p away, unless the end is 0 or 1."""
    successes, count = trial
    found, share = wilson(successes, count), Fraction(successes, count)
    assert found.mean == float(share)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    for end in (found.low, found.high):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(float(share) - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / count), rel=1e-5)


def test_more_successes_than_trials_are_refused():
    for successes, count in ((2, 1), (-1, 3), (0, 0)):
        with pytest.raises(ValueError, match=r"successes in .* trials"):
            wilson(successes, count)


def test_an_interval_is_written_as_it_is_asked_for():
    effect = Interval(-0.1234, -0.3, 0.05)
    assert f"{effect:+.3f}" == "-0.123 (-0.300 to +0.050)"
    assert str(effect) == f"{effect}" == "-0.12 (-0.30 to 0.05)"
    assert not effect.clear
    assert Interval(1, 0.5, 2).clear and Interval(-1, -2, -0.5).clear


@pytest.mark.parametrize(
    ("values", "mean", "half"),  # by hand: the quantile of the table, times the deviation over the root of the count
    [([0.3, 0.5], 0.4, 12.7062 * 0.1), ([1.0, 2.0, 4.5], 2.5, 4.30265 * (3.25 / 3) ** 0.5), ([0.1] * 4, 0.1, 0.0)],
)
def test_an_interval_over_seeds_alone_is_students(values, mean, half):
    found = over_seeds(values)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=1e-4)


def test_one_seed_has_no_interval():
    with pytest.raises(ValueError, match=r"1 number.* two or more"):
        over_seeds([0.3])
