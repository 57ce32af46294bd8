"""Means over all traffic: right where it can be calculated, and honest in simulations."""

import pytest

from llmeval_sdk.statistics.mean import assisted_mean, population_mean, quantile


def test_a_rare_record_speaks_for_those_like_it():
    """One judged record of chance 1/4 weighs as much as four of chance 1."""
    found = population_mean([1.0, 0.0, 0.0, 0.0, 0.0], [0.25, 1, 1, 1, 1])
    assert found.mean == 0.5
    assert 0 <= found.low < 0.5 < found.high <= 1


def test_equal_chances_give_the_plain_mean():
    """Sampling at random needs no correction, whatever its rate."""
    values = [0.2, 0.4, 0.9]
    assert population_mean(values, [0.1] * 3).mean == pytest.approx(0.5)
    assert population_mean(values, [0.1] * 3) == population_mean(values, [1.0] * 3)


def test_no_failure_among_few_is_no_proof():
    """Thirty good ones leave room for bad ones; the interval says how much."""
    found = population_mean([1.0] * 30, [0.02] * 30)
    assert found.mean == found.high == 1.0
    assert 0.8 < found.low < 0.97


def test_more_records_narrow_the_interval():
    """A hundred times as many make it about a tenth as wide."""
    few, many = (population_mean([0.0, 1.0] * n, [0.5] * 2 * n) for n in (50, 5_000))
    assert few.width / many.width == pytest.approx(10, rel=0.1)


def test_scores_without_a_scale_are_not_cut():
    """Token counts have means and intervals beyond 1."""
    found = population_mean([100.0, 200.0, 300.0], [1, 1, 1], bounds=None)
    assert found.mean == 200
    assert found.low < 100 < 300 < found.high


def test_nothing_judged_is_nothing_said():
    """There is no mean of nothing."""
    assert population_mean([], []) is None


def test_the_quantile_is_students():
    """Against the published table at 3, 10 and 100 degrees of freedom."""
    for df, exact in ((3, 3.182), (10, 2.228), (100, 1.984)):
        assert quantile([1.0] * (df + 1)) == pytest.approx(exact, rel=0.01)


def test_few_records_are_not_fitted():
    """With an effective size below 50 the free score is not used, whatever it promises."""
    values = [0.0, 1.0] * 10
    assert assisted_mean(values, [0.5] * 20, values, values * 2).method == "weighted"
