"""Probabilities are corrected by labels, and left alone where they are right already."""

import random
import statistics

import pytest

from benchmarks.quality.decided import judged
from llmeval_sdk.statistics import (
    calibrated,
    caught_below,
    held_out_losses,
    reliability,
    threshold_for,
)
from llmeval_sdk.statistics.calibration import Calibration


def error_on_others(calibration, seed, **judge):
    said, labels = judged(10_000 + seed, 2_000, **judge)
    return reliability([calibration(p) for p in said], labels).calibration_error


def test_two_hundred_labels_make_a_biased_judge_believable():
    """Logit bias 0.8 and slope 1.8: a median calibration error of at most .04 on 2,000 others."""
    errors = [error_on_others(calibrated(*judged(seed, 200)), seed) for seed in range(25)]
    before = [error_on_others(Calibration(), seed) for seed in range(25)]
    assert statistics.median(errors) <= 0.04 < statistics.median(before)


def test_a_calibrated_judge_is_left_alone():
    """In at least 93 of 100 draws of labels."""
    alike = [calibrated(*judged(seed, 200, slope=1.0, bias=0.0)).is_identity for seed in range(300)]
    assert statistics.fmean(alike) >= 0.93


def test_labels_that_weigh_differently_leave_a_calibrated_judge_alone_too():
    """The riskiest are labelled for certain, the rest with a chance of a tenth."""
    alike = []
    for seed in range(300):
        said, labels = judged(seed, 600, slope=1.0, bias=0.0)
        draw = random.Random(-seed - 1)
        chances = [1.0 if p < 0.5 else 0.1 for p in said]
        kept = [i for i, chance in enumerate(chances) if draw.random() < chance]
        chosen = ([column[i] for i in kept] for column in (said, labels, chances))
        alike.append(calibrated(*chosen).is_identity)
    assert statistics.fmean(alike) >= 0.92


def test_fewer_than_fifty_labels_change_nothing():
    """They would add more error than they remove."""
    assert calibrated(*judged(0, 49)).is_identity
    assert not calibrated(*judged(0, 120)).is_identity
    assert calibrated([0.9] * 49, [0.0] * 49).is_identity
    assert not calibrated([0.9] * 50, [0.0] * 50).is_identity


@pytest.mark.parametrize("said", [[0.5] * 60, [0.0] * 60, [1.0] * 60])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_probability_for_all_and_one_label_for_all(said, label):
    """Never a crash, always a probability."""
    calibration = calibrated(said, [label] * 60)
    assert 0 <= calibration(said[0]) <= 1


def test_the_loss_on_held_out_labels_tells_a_help_from_a_harm():
    """Better for a biased judge; no better where the labels have nothing to do with it."""
    before, after = held_out_losses(*judged(3, 200))
    assert after < before
    draw = random.Random(0)
    said = [draw.random() for _ in range(60)]
    before, after = held_out_losses(said, [float(draw.random() < p) for p in said])
    assert after >= before - 1e-9


def test_the_floor_is_what_a_perfect_judge_shows():
    """So that nobody blames a judge for having few labels."""
    for count in (50, 200, 1_000):
        shown = [reliability(*judged(seed, count, slope=1.0, bias=0.0)) for seed in range(60)]
        floor = statistics.fmean(each.floor for each in shown)
        assert statistics.fmean(each.calibration_error for each in shown) == pytest.approx(
            floor, rel=0.12
        )


def test_scores_by_hand():
    """Two bins, four records."""
    found = reliability([0.1, 0.1, 0.9, 0.9], [0.0, 1.0, 1.0, 1.0])
    assert [each.count for each in found.bins] == [2, 2]
    assert [(each.low, each.high) for each in found.bins] == [(0.1, 0.2), (0.9, 1.0)]
    assert found.brier == pytest.approx((0.01 + 0.81 + 0.01 + 0.01) / 4)
    assert found.calibration_error == pytest.approx(0.5 * 0.4 + 0.5 * 0.1)
    assert reliability([], []) is None


def test_weights_stand_for_those_who_were_not_labelled():
    """A record that had a chance of a tenth counts ten times."""
    found = reliability([0.5, 0.5], [1.0, 0.0], [0.1, 1.0])
    assert found.bins[0].good == pytest.approx(10 / 11)


def test_a_threshold_is_proposed_that_catches_the_wanted_share():
    """The lowest in hundredths; none where nothing was bad."""
    said, labels = [0.2, 0.4, 0.6, 0.8], [0.0, 0.0, 1.0, 1.0]
    best = threshold_for(said, labels, 1.0)
    assert (best.threshold, best.recall, best.flagged) == (0.41, 1.0, 0.5)
    assert caught_below(said, labels, 0.3).recall == 0.5
    low, high = caught_below(said, labels, 0.3).interval
    assert 0 < low < 0.5 < high < 1
    assert threshold_for(said, [1.0] * 4, 0.9) is None


def test_a_steep_map_ends_at_0_and_1():
    """However large the logits are that it makes."""
    steep = Calibration(slope=1_000.0)
    assert (steep(0.0), steep(0.5), steep(1.0)) == (0.0, 0.5, 1.0)
