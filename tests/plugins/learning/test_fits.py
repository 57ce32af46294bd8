"""Weights come into use only where verdicts that they were not fitted on show that they are better."""

import random
from itertools import count

import pytest

from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.plugins.learning.fits import (
    FEWEST,
    LATER,
    PEOPLE,
    FitState,
    Source,
    advanced,
    chosen,
)
from llmeval_sdk.plugins.learning.fitting import (
    HEAVIEST,
    Outcome,
    auroc,
    fitted,
    importance,
    logit_of,
    risk_of,
)
from llmeval_sdk.statistics.allocation import default_control


JUDGE = Source("groundedness", "1", "gpt-4o")
WIDTH = 6


def finished(slices):
    """Do all slices of a piece of work at once."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def outcomes(number, *, seed=0, signal=2.0, first=1, chance=1.0):
    """Draw records whose first feature says more about their verdict than the shipped risk does."""
    draw = random.Random(seed)
    for seq in count(first):
        if seq >= first + number:
            return
        features = tuple(draw.gauss(0, 1) for _ in range(WIDTH))
        shipped = draw.gauss(-0.5, 1)
        truth = 0.5 * shipped + signal * features[0]
        yield Outcome(seq, shipped, features, float(draw.random() < risk_of(truth)), chance)


def ranked(weights, rows):
    """Return the AUROC of the shipped risk and of the learned one."""
    bad, even = [each.bad for each in rows], [1.0] * len(rows)
    learned = [weights.risk(each.logit, each.features) for each in rows]
    return auroc([each.logit for each in rows], bad, even), auroc(learned, bad, even)


def test_a_fit_finds_what_the_shipped_score_misses():
    """From 200 outcomes on, unseen records are ranked much better."""
    before, after = ranked(finished(fitted(list(outcomes(200)))), list(outcomes(2_000, seed=9)))
    assert before < 0.65
    assert after > before + 0.15


def test_without_a_signal_the_shipped_weights_stay_nearly_as_they_are():
    """The penalties keep noise from ranking records anew."""
    before, after = ranked(
        finished(fitted(list(outcomes(200, signal=0)))), list(outcomes(4_000, seed=9, signal=0))
    )
    assert abs(after - before) < 0.03


def test_a_learned_risk_keeps_the_scale_of_the_shipped_one():
    """Rules with a fixed threshold flag about as many records as before."""
    weights = finished(fitted(list(outcomes(300))))
    rows = list(outcomes(3_000, seed=5))
    flagged = [
        sum(risk > 0.6 for risk in risks) / len(rows)
        for risks in (
            [risk_of(each.logit) for each in rows],
            [weights.risk(each.logit, each.features) for each in rows],
        )
    ]
    assert flagged[0] == pytest.approx(flagged[1], abs=0.06)


def test_a_fit_is_cut_into_short_slices():
    """A worker can rest after each of them: none does more than a small part of the work."""
    slices = sum(1 for _ in fitted(list(outcomes(500))))
    assert slices > 200


def test_no_outcome_weighs_more_than_four_that_were_judged_for_certain():
    """And all together they count as much as Kish's effective number of them."""
    rows = [*outcomes(100), *outcomes(100, first=101, chance=0.01)]
    shares = importance(rows)
    assert max(shares) / min(shares) == pytest.approx(HEAVIEST)
    raw = [1.0] * 100 + [HEAVIEST] * 100
    assert sum(shares) == pytest.approx(sum(raw) ** 2 / sum(weight**2 for weight in raw))


def test_outcomes_that_lean_towards_the_risky_teach_as_much():
    """Verdicts of the SDK's own allocation, weighted, serve all traffic: ten streams on average."""
    gains = []
    for seed in range(10):
        draw, quota = random.Random(seed), Quota(0.2, default_control(0.2))
        judged = []
        for row in outcomes(1_000, seed=seed):
            ruling = quota.decide(risk_of(row.logit), f"{draw.getrandbits(64):x}")
            if ruling.run:
                judged.append(row._replace(chance=ruling.probability))
        before, after = ranked(finished(fitted(judged)), list(outcomes(1_000, seed=100 + seed)))
        gains.append(after - before)
    assert sum(gains) / len(gains) > 0.15


def test_a_fit_waits_for_later_outcomes_before_it_is_used():
    """100 outcomes make a candidate, and 50 that it never saw bring it into use."""
    rows = list(outcomes(FEWEST + LATER))
    state = finished(advanced(FitState(), JUDGE, rows[: FEWEST - 1], 1.0))
    assert state == FitState()
    state = finished(advanced(state, JUDGE, rows[:FEWEST], 1.0))
    assert state.in_use is None
    assert state.candidate.until == FEWEST
    waiting = finished(advanced(state, JUDGE, rows[:-1], 2.0))
    assert waiting == state
    state = finished(advanced(state, JUDGE, rows, 3.0))
    assert state.in_use.outcomes == FEWEST
    check = state.in_use.check
    assert (check.outcomes, check.at) == (LATER, 3.0)
    assert check.after > check.before
    assert state.candidate.until == FEWEST + LATER  # the next one begins its wait


def test_a_fit_that_is_no_better_is_refused():
    """What the first outcomes taught and the later ones contradict never comes into use."""
    rows = list(outcomes(FEWEST))
    state = finished(advanced(FitState(), JUDGE, rows, 1.0))
    rows += outcomes(LATER, seed=1, signal=-2.0, first=FEWEST + 1)
    state = finished(advanced(state, JUDGE, rows, 2.0))
    assert state.in_use is None
    assert state.refused.gain <= 0
    assert state.refused.after < state.refused.before


def test_weights_that_have_become_worse_are_withdrawn():
    """When the app changes, the shipped weights come back."""
    rows = list(outcomes(FEWEST + LATER))
    state = FitState()
    for end in (FEWEST, FEWEST + LATER):
        state = finished(advanced(state, JUDGE, rows[:end], 1.0))
    assert state.in_use is not None
    rows += outcomes(LATER, seed=1, signal=-2.0, first=len(rows) + 1)
    state = finished(advanced(state, JUDGE, rows, 2.0))
    assert state.in_use is None
    assert state.refused is not None


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_verdicts_that_are_all_alike_teach_nothing(bad):
    """A constant judge says nothing about which records are bad."""
    rows = [each._replace(bad=bad) for each in outcomes(400)]
    assert finished(advanced(FitState(), JUDGE, rows, 1.0)) == FitState()


def test_a_span_name_has_to_beat_what_is_learned_over_all():
    """Weights of its own are compared with those over all, and not with the shipped ones."""
    every = list(outcomes(600))
    over_all = finished(fitted(every))
    state = finished(advanced(FitState(), JUDGE, every[:300], 1.0, rival=over_all))
    state = finished(advanced(state, JUDGE, every[:360], 2.0, rival=over_all))
    check = state.refused or state.in_use.check
    shipped, _ = ranked(over_all, every[300:360])
    assert check.before > shipped + 0.1


def test_another_version_of_a_judge_is_another_source():
    """A candidate of the old version is dropped, and no fit sees the verdicts of both."""
    newer = JUDGE._replace(version="2")
    state = finished(advanced(FitState(), JUDGE, list(outcomes(FEWEST)), 1.0))
    state = finished(advanced(state, newer, list(outcomes(FEWEST - 1, first=200)), 2.0))
    assert state.candidate is None
    state = finished(advanced(state, newer, list(outcomes(FEWEST, first=200)), 3.0))
    assert state.candidate.source == newer


def test_weights_in_use_stay_until_those_of_the_new_version_have_passed():
    """Meanwhile they are what is best known, and `doctor` names the version they come from."""
    rows = list(outcomes(FEWEST + LATER))
    state = FitState()
    for end in (FEWEST, FEWEST + LATER):
        state = finished(advanced(state, JUDGE, rows[:end], 1.0))
    newer = JUDGE._replace(version="2")
    later = list(outcomes(FEWEST + LATER, seed=3, first=500))
    state = finished(advanced(state, newer, later[:FEWEST], 2.0))
    assert state.in_use.source == JUDGE
    assert state.candidate.source == newer
    state = finished(advanced(state, newer, later, 3.0))
    assert state.in_use.source == newer


def test_people_are_believed_before_judges():
    """With enough labels they are the source; else the judge with most of the latest verdicts."""
    old, new = JUDGE, JUDGE._replace(version="2")
    people = Source("groundedness", "", PEOPLE)
    totals = {(old, "a"): 900, (new, "a"): 60, (new, "b"): 60, (people, "a"): FEWEST - 1}
    latest = {(old, "a"): 100, (new, "a"): 80, (new, "b"): 70}
    assert chosen(latest, totals) == new
    assert chosen(latest, {**totals, (people, "a"): FEWEST}) == people
    assert chosen(latest, {(old, "a"): FEWEST - 1}) is None


def test_auroc_counts_ties_half():
    """As the area under the curve does; without both kinds there is none."""
    assert auroc([1, 2, 3, 4], [0, 0, 1, 1], [1] * 4) == 1.0
    assert auroc([1, 1, 1], [0, 1, 1], [1] * 3) == 0.5
    assert auroc([3, 2, 1], [0, 0, 1], [1, 3, 1]) == 0.0
    assert auroc([1, 2], [1, 1], [1, 1]) is None
    assert logit_of(0.5) == 0
