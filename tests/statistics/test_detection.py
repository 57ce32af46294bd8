"""How well a score finds what is bad: AUROC, errors in a share, what is right of the rest."""

import random

import pytest

from llmeval_sdk.statistics import accuracy_at, auroc, caught_at, caught_below
from llmeval_sdk.statistics.detection import wilson


def drawn(rng, count, share=0.2, shift=1.2):
    """Return scores and whether each record is bad; bad ones have higher scores."""
    bad = [rng.random() < share for _ in range(count)]
    return [rng.gauss(shift * is_bad, 1) for is_bad in bad], bad


def test_the_area_is_that_of_mann_and_whitney():
    """Ties count half."""
    from scipy.stats import mannwhitneyu  # it takes a second to load

    rng = random.Random(1)
    risks, bad = drawn(rng, 300)
    risks = [round(risk, 1) for risk in risks]
    high = [risk for risk, is_bad in zip(risks, bad, strict=True) if is_bad]
    low = [risk for risk, is_bad in zip(risks, bad, strict=True) if not is_bad]
    expected = mannwhitneyu(high, low).statistic / (len(high) * len(low))
    assert auroc(risks, bad).value == pytest.approx(expected)


def test_the_intervals_cover_what_they_say():
    """In 19 of 20 draws the true figure lies inside, within what chance explains."""
    rng = random.Random(2)
    truth_area = auroc(*drawn(rng, 200_000)).value
    truth_share = accuracy_at(0.8, *drawn(rng, 200_000)).value
    rounds, areas, shares = 600, 0, 0
    for _ in range(rounds):
        risks, bad = drawn(rng, 200)
        area, share = auroc(risks, bad), accuracy_at(0.8, risks, bad)
        areas += area.low <= truth_area <= area.high
        shares += share.low <= truth_share <= share.high
    assert areas / rounds > 0.92
    assert shares / rounds > 0.92


@pytest.mark.parametrize(
    ("risks", "bad", "value"),
    [([0.1, 0.9], [False, True], 1.0), ([0.9, 0.1], [False, True], 0.0), ([0.5] * 4, [True, False] * 2, 0.5)],
)  # fmt: skip
def test_extremes_have_an_interval_too(risks, bad, value):
    """A perfect order of few records is not certain."""
    area = auroc(risks, bad)
    assert area.value == value
    assert area.high - area.low > 0.3


def test_where_all_records_are_alike_there_is_no_area():
    """Nothing can be ranked, but all of them are right or wrong."""
    assert auroc([0.1, 0.2], [False, False]) is None
    assert accuracy_at(0.8, [0.1] * 10, [False] * 10).value == 1.0
    assert accuracy_at(0.8, [0.1] * 10, [True] * 10).value == pytest.approx(0.0)
    assert accuracy_at(0.8, [], []) is None


def test_the_riskiest_are_taken_first():
    """In whatever order the records come; those of one risk count by the part that is taken."""
    risks, bad = [0.1, 0.9, 0.5, 0.2, 0.8], [False, True, False, True, False]
    assert caught_at(0.2, risks, bad) == 0.5
    assert caught_at(0.8, risks, bad) == 1.0
    assert caught_at(0.2, risks, bad, [4.0, 1.0, 1.0, 1.0, 3.0]) == 0.5
    assert caught_at(0.25, [0.5] * 4, [True, False] * 2) == 0.25


def test_the_interval_of_a_share_is_wilsons():
    """As published for 8 of 10 (Agresti and Coull 1998 among others)."""
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_a_score_that_is_turned_round_has_the_mirrored_interval():
    """The area and both ends are what is left to 1."""
    risks, bad = drawn(random.Random(5), 200)
    found, turned = auroc(risks, bad), auroc([-risk for risk in risks], bad)
    assert 0.5 < found.low < found.value < found.high < 1
    mirrored = 1 - turned.value, 1 - turned.high, 1 - turned.low
    assert mirrored == pytest.approx((found.value, found.low, found.high))


def test_a_record_at_the_bound_is_not_below_it():
    """Neither is it called bad, nor does it count as flagged."""
    caught = caught_below([0.2, 0.5, 0.5, 0.9], [0, 0, 1, 1], 0.5)
    assert (caught.recall, caught.flagged) == (0.5, 0.25)
