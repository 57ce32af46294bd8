"""What people would say: the judge's mistakes of both kinds are put right, and the interval says so."""

import math
import random

import pytest

from benchmarks.quality import labels as script
from llmeval_sdk.statistics import (
    Calibration,
    Estimate,
    Labelled,
    calibrated,
    corrected_mean,
    difference,
)


def test_a_judge_that_is_too_kind_is_put_right():
    """It passes all; people fail a fifth of what it passes, and the mean follows them."""
    labelled = [Labelled(1.0, float(place % 5 > 0), 0.5) for place in range(100)]
    found = corrected_mean([1.0] * 400, [0.5] * 400, labelled)
    assert found.estimate.mean == pytest.approx(0.8)
    assert found.estimate.low < 0.8 < found.estimate.high < 0.95
    assert found.off == pytest.approx(-0.2)
    assert found.passed_wrongly == pytest.approx(0.2)
    assert found.failed_wrongly is None


def test_labels_weigh_the_inverse_of_the_chance_they_were_chosen_with():
    """Mistakes that were looked for do not count as if they were common."""
    looked_for = [Labelled(1.0, 0.0, 0.5, 1.0)] * 10
    at_random = [Labelled(1.0, 1.0, 0.5, 0.1)] * 19
    found = corrected_mean([1.0] * 200, [0.5] * 200, [*looked_for, *at_random])
    assert found.estimate.mean == pytest.approx(190 / 200)


def test_few_labels_correct_nothing():
    """With fewer than twenty there is no correction, and without verdicts none either."""
    assert corrected_mean([1.0] * 50, [1.0] * 50, [Labelled(1.0, 0.0, 1.0)] * 19) is None
    assert corrected_mean([], [], []) is None


def test_no_mistake_among_few_labels_is_no_proof():
    """Forty right verdicts leave room for mistakes."""
    labelled = [Labelled(1.0, 1.0, 1.0)] * 40
    found = corrected_mean([1.0] * 400, [1.0] * 400, labelled)
    assert found.estimate.mean == 1
    assert found.estimate.low < 0.985


def test_intervals_contain_what_people_would_say():
    """Fewer runs than `make quality` makes; the judge's own interval misses more than half."""
    found = script.simulate(script.JUDGES[0], seeds=25, records=2_000)
    for count, got in found.items():
        assert got.covered >= 0.83, count
        assert got.naive < 0.5


def test_a_difference_keeps_the_asymmetry_of_its_parts():
    """Against Newcombe's published example 56/70 - 48/80: 0.0524 to 0.3339."""
    found = difference(Estimate(0.8, 0.6918, 0.8770), Estimate(0.6, 0.4905, 0.7003))
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-3)
    assert found.is_clear


def test_probabilities_are_calibrated_and_few_labels_change_nothing():
    """A judge that exaggerates is corrected by 500 labels; 49 leave it as it is."""
    rng = random.Random(3)
    probabilities, labels = [], []
    for _ in range(500):
        logit = rng.gauss(0, 1.2)
        labels.append(float(rng.random() < 1 / (1 + math.exp(-logit))))
        probabilities.append(1 / (1 + math.exp(-(1.8 * logit + 0.8))))
    fitted = calibrated(probabilities, labels)
    assert abs(fitted(1 / (1 + math.exp(-0.8))) - 0.5) < 0.08
    assert fitted.slope < 0.85
    assert calibrated(probabilities[:49], labels[:49]) == Calibration(labels=49)
