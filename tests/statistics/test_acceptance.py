"""Thresholds below which no value needs a look: what is promised, and when nothing is."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality import acceptance
from llmeval_sdk.statistics.acceptance import (
    LabelledScore,
    at_most,
    doubt_about_labels,
    has_moved,
    is_exceeded,
    sure_acceptance,
)


def drawn(count: int, seed: int = 1) -> list[LabelledScore]:
    """Draw labels as the benchmark does: 8 % wrong, AUROC .90."""
    rng = random.Random(seed)
    return [acceptance.draw(rng) for _ in range(count)]


TRAFFIC = [each.score for each in drawn(4_000, seed=2)]


def test_the_sure_promise_is_rarely_broken_and_accepts_most_of_what_an_oracle_does():
    """With 300 labels and 5 %; the full count, with its bars, is `make quality`."""
    cell = acceptance.simulate(40, 300, 0.05)
    assert cell.broken <= 0.15
    assert cell.acceptance >= 0.6


def test_the_sure_promise_of_a_group_holds_by_its_labels_and_not_by_those_of_all():
    """Where a tenant has more wrong values than the others; the full count is `make quality`."""
    cells = acceptance.simulate_group(40)
    assert cells["the group"].broken <= 0.1
    assert cells["all, its part"].broken <= 0.1
    assert cells["all, as it is"].broken >= 0.5


def test_the_bound_is_that_of_clopper_and_pearson():
    """No mistake in 59 proves at most 5 %, the usual rule; one in 93 does, and one in 92 does not."""
    assert at_most(0, 59) <= 0.05 < at_most(0, 58)
    assert at_most(1, 93) <= 0.05 < at_most(1, 92)
    assert at_most(3, 3) == at_most(0, 0) == 1.0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.integers(1, 400), st.floats(0.01, 0.5))
def test_what_is_proved_is_never_more_than_what_was_asked(seed, count, error):
    """The bound of a sure promise lies at or below the target, and its counts fit."""
    promise = sure_acceptance(TRAFFIC, drawn(count, seed), error)
    if promise.threshold is None:
        assert promise.reason
        assert promise.of_accepted is None
    else:
        assert promise.of_accepted is not None
        assert promise.of_accepted <= error + 1e-9
        assert promise.of_accepted == at_most(promise.wrong, promise.labels)
        assert promise.share >= 0.5


def test_missing_labels_are_counted_where_more_of_them_would_do():
    """300 labels do not prove 1 %; those that are said to be missing do, without more mistakes."""
    labels = drawn(300)
    safest = sorted(TRAFFIC)[len(TRAFFIC) // 2]
    labels = [each for each in labels if not each.wrong or each.score > safest]
    promise = sure_acceptance(TRAFFIC, labels, 0.01)
    assert promise.threshold is None
    assert promise.missing
    below = sum(each.score <= safest for each in labels)
    enough = (len(labels) + promise.missing) * below // len(labels)
    assert at_most(0, enough) <= 0.01


def test_labels_that_disprove_a_promise_ask_for_no_more_labels():
    """Where more of the safest values are wrong than may be, more labels would not help."""
    rng = random.Random(5)
    labels = [LabelledScore(rng.random(), rng.random() < 0.3) for _ in range(200)]
    promise = sure_acceptance([rng.random() for _ in range(1_000)], labels, 0.02)
    assert promise.threshold is promise.missing is None
    assert "does not prove" in promise.reason


def test_too_few_labels_are_refused_with_how_many_are_missing():
    """Nineteen labels say nothing: one is missing."""
    promise = sure_acceptance(TRAFFIC, drawn(19), 0.05)
    assert promise.threshold is None
    assert promise.missing == 1
    assert "1 more" in promise.reason


@pytest.mark.parametrize("wrong", [False, True])
def test_labels_all_alike_are_refused(wrong):
    """They cannot show that the score tells a wrong value from a right one."""
    labels = [LabelledScore(each.score, wrong) for each in drawn(200)]
    promise = sure_acceptance(TRAFFIC, labels, 0.05)
    assert promise.threshold is None
    assert ("All 200 labels say wrong" if wrong else "say right") in promise.reason


def test_labels_that_contradict_the_score_altogether_are_refused():
    """Wrong where the score is low and right where it is high: somebody mixed up the two."""
    labels = [LabelledScore(place / 100, place < 30) for place in range(100)]
    assert "contradicts the score" in sure_acceptance(TRAFFIC, labels, 0.05).reason
    assert not doubt_about_labels([LabelledScore(0.5, place < 30) for place in range(100)])


def test_what_was_not_checked_is_never_accepted():
    """Values without a score count as traffic, and only those with one are accepted."""
    labels = drawn(400)
    half_scored = [*TRAFFIC, *([None] * 500), *([float("nan")] * 500)]
    promise = sure_acceptance(half_scored, labels, 0.05)
    assert promise.threshold is not None
    assert promise.share <= len(TRAFFIC) / len(half_scored)
    assert sure_acceptance([None] * 100, labels, 0.05).threshold is None
    assert sure_acceptance([], labels, 0.05).threshold is None


def test_one_score_for_all_values_accepts_all_or_nothing():
    """Values that share a score are accepted together, so that no promise hangs on their order."""
    labels = [LabelledScore(0.4, place < 3) for place in range(300)]
    assert sure_acceptance([0.4] * 1_000, labels, 0.05).share == 1.0
    assert sure_acceptance([0.4] * 1_000, labels, 0.005).threshold is None


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, 7.0, float("nan")])
def test_a_target_that_is_no_share_is_an_error(error):
    """A target has to lie between 0 and 1."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        sure_acceptance(TRAFFIC, drawn(300), error)


# What ends a promise.


def test_a_promise_is_exceeded_only_by_proof():
    """One wrong value in a few proves nothing; ten in a hundred prove that 2 % is exceeded."""
    assert not is_exceeded(0, 1_000, 0.02)
    assert not is_exceeded(1, 10, 0.02)
    assert is_exceeded(10, 100, 0.02)


def test_a_promise_that_is_kept_is_seldom_called_exceeded():
    """At the very share that was promised, at most one test in twenty says so."""
    rng = random.Random(8)
    tests = 4_000
    false = sum(
        is_exceeded(sum(rng.random() < 0.02 for _ in range(200)), 200, 0.02) for _ in range(tests)
    )
    assert false / tests <= 0.05 + 3 * (0.05 / tests) ** 0.5


@pytest.mark.parametrize(
    ("before", "count", "now", "now_count", "moved"),
    [
        (0.8, 5_000, 0.6, 500, True),
        (0.8, 5_000, 0.78, 50_000, False),  # too little to matter
        (0.8, 5_000, 0.6, 10, False),  # may be chance
        (0.8, 5_000, 0.8, 0, False),
        (1.0, 300, 1.0, 300, False),
    ],
)
def test_a_share_has_moved_if_it_matters_and_is_no_chance(before, count, now, now_count, moved):
    """Five points at least, and more than chance explains."""
    assert has_moved(before, count, now, now_count) is moved
