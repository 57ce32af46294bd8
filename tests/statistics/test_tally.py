"""Sums say what the requests say of which they are made."""

from random import Random

import pytest

from llmeval_sdk.statistics import Seen, Tally, assisted_mean, population_mean
from llmeval_sdk.statistics.mean import tallied_mean


def close(found):
    return pytest.approx((found.mean, found.low, found.high), rel=1e-9, abs=1e-9)


def requests(rng, count, scale):
    """Return the values and chances of some requests, and free scores of them and of others."""
    xs = [rng.random() for _ in range(count)]
    values = [scale * min(max(x + rng.gauss(0, 0.3), 0.0), 1.0) for x in xs]
    chances = [rng.choice((1.0, 0.05, rng.uniform(0.01, 1.0))) for _ in xs]
    return values, chances, xs, [*xs, *(rng.random() for _ in range(3 * count))]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("has_scores", [True, False])
def test_sums_give_the_estimate_of_the_requests(seed, has_scores):
    """With a free score and without one, of few requests and of many."""
    rng = Random(seed)
    values, chances, predicted, everywhere = requests(rng, rng.choice((1, 2, 40, 400)), 1.0)
    middle = sum(everywhere) / len(everywhere)
    tally = Tally()
    for value, chance, x in zip(values, chances, predicted, strict=True):
        tally.add(Seen(value, chance, x - middle if has_scores else None))
    for x in everywhere[len(values) :]:
        tally.add(Seen(None, 1.0, x - middle if has_scores else None))
    estimate = tallied_mean(tally)
    if has_scores:
        expected = assisted_mean(values, chances, predicted, everywhere)
    else:
        expected = population_mean(values, chances)
    assert (estimate.mean, estimate.low, estimate.high) == close(expected)
    assert estimate.method == expected.method


@pytest.mark.parametrize("seed", range(10))
def test_large_values_lose_no_digits(seed):
    """Values that differ in the tenth digit have an interval all the same."""
    values, chances, _, _ = requests(Random(seed), 300, 1.0)
    values = [1e9 + value for value in values]
    tally = Tally()
    for value, chance in zip(values, chances, strict=True):
        tally.add(Seen(value - 1e9, chance, None))
    estimate = tallied_mean(tally, bounds=None, origin=1e9)
    expected = population_mean(values, chances, bounds=None)
    assert estimate.mean - 1e9 == pytest.approx(expected.mean - 1e9, abs=1e-5)
    assert estimate.width == pytest.approx(expected.width, rel=1e-4)
    assert 0.01 < estimate.width < 1


@pytest.mark.parametrize("x", [0.0, 0.1, 0.7])
def test_a_free_score_that_is_always_the_same_changes_nothing(x):
    """Rounding makes no slope of it."""
    tally = Tally()
    for number in range(200):
        tally.add(Seen(float(number % 3 == 0), 0.3, x))
    assert tallied_mean(tally).method == "weighted"


def test_nothing_judged_has_no_estimate():
    """Requests that were passed over say nothing by themselves."""
    tally = Tally()
    tally.add(Seen(None, 1.0, 0.5))
    assert tallied_mean(tally) is None


@pytest.mark.parametrize("seed", range(5))
def test_scores_that_come_from_elsewhere_make_the_same_tally(seed):
    """A report sums up the free scores of all requests apart from the verdicts, and joins both."""
    rng = Random(seed)
    requests, judged, scored, passed_over = [], Tally(), Tally(), 0
    for _ in range(300):
        x = rng.random() if rng.random() < 0.9 else None
        value = rng.random() if rng.random() < 0.4 else None
        one = Seen(value, rng.choice((1.0, 0.2)), x)
        requests.append(one)
        if value is None:
            passed_over += 1
        else:
            judged.add(one._replace(predictor=None))
        if x is not None:
            scored.add(one)
    known = [one.predictor for one in requests if one.predictor is not None]
    middle, whole = sum(known) / len(known), Tally()
    for one in requests:  # one without a free score gets the mean of the others, here 0
        whole.add(one._replace(predictor=0.0 if one.predictor is None else one.predictor - middle))
    found = tallied_mean(judged.with_scores(scored, passed_over))
    assert found.method == "model-assisted"
    assert (found.mean, found.low, found.high) == close(tallied_mean(whole))
