"""Means over all traffic: right where it can be calculated, and honest in simulations."""

from math import sqrt

import pytest

from llmeval_sdk.statistics.mean import assisted_mean, mean_of_all, population_mean, quantile


@pytest.fixture
def t():
    """Student's distribution, which takes a second to load."""
    from scipy.stats import t

    return t


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


def test_the_quantile_is_students(t):
    """Against the published table at 3, 10 and 100 degrees of freedom."""
    for df, exact in ((3, 3.182), (10, 2.228), (100, 1.984)):
        assert quantile([1.0] * (df + 1)) == pytest.approx(exact, rel=0.01)
    for df, within in ((4, 5e-4), (5, 2e-4), (10, 1e-5), (30, 1e-7)):
        assert quantile([1.0] * (df + 1)) == pytest.approx(t.ppf(0.975, df), rel=within)


def test_few_records_are_not_fitted():
    """With an effective size below 50 the free score is not used, whatever it promises."""
    values = [0.0, 1.0] * 10
    assert assisted_mean(values, [0.5] * 20, values, values * 2).method == "weighted"


@pytest.mark.parametrize("copies", [2, 15, 60])
def test_the_interval_is_the_one_that_the_module_describes(copies, t):
    """Two records are added at the ends of the scale, 0.4 to 0.7 times as heavy as the heaviest."""
    values, chances = [1.0, 0.0, 1.0, 1.0] * copies, [0.5, 0.1, 1.0, 0.25] * copies
    weights = [1 / chance for chance in chances]
    records = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    added = (0.4 + 0.3 * min(1.0, 50 / records) ** 2) * max(weights)
    padded = [*zip(values, weights, strict=True), (0.0, added), (1.0, added)]
    total = sum(weight for _, weight in padded)
    centre = sum(value * weight for value, weight in padded) / total
    spread = sqrt(sum((weight * (value - centre)) ** 2 for value, weight in padded))
    half = t.ppf(0.975, records - 1) * spread / total
    found = population_mean(values, chances)
    assert found.low == pytest.approx(max(centre - half, 0.0), rel=2e-3)
    assert found.high == pytest.approx(min(centre + half, 1.0), rel=2e-3)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.0, 3.0), None])
def test_where_all_are_scored_their_sums_say_the_same(bounds):
    """The mean and both ends, with a scale and without one."""
    values = [0.1, 0.9, 0.4, 0.4, 1.0, 0.0, 0.7]
    found = mean_of_all(7, sum(values), sum(value**2 for value in values), bounds=bounds)
    expected = population_mean(values, [1.0] * 7, bounds=bounds)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    assert mean_of_all(0, 0.0, 0.0) is None
