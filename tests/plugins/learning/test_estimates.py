"""Estimates over all traffic stay right when the risk that they lean on learns in between."""

import random
from statistics import mean, stdev

from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.plugins.learning.fits import FitState, Source, advanced
from llmeval_sdk.plugins.learning.fitting import Outcome, risk_of
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.mean import assisted_mean


JUDGE = Source("groundedness", "1", "gpt-4o")
SEEDS, RECORDS, SHARE = 40, 1_200, 0.2


def stream(seed):
    """Serve records whose risk learns from the verdicts so far; return estimate, interval, truth.

    Each score is fixed before its verdict: the one that decided on judging is the one recorded.
    """
    draw, quota, state = (
        random.Random(seed),
        Quota(SHARE, default_control(SHARE)),
        FitState(),
    )
    outcomes, scores, judged = [], [], []
    for seq in range(1, RECORDS + 1):
        shipped, feature = draw.gauss(-1, 1), draw.gauss(0, 1)
        good = float(draw.random() >= risk_of(-2.5 + 0.4 * shipped + 1.5 * feature))
        weights = state.in_use and state.in_use.weights
        score = weights.risk(shipped, (feature,)) if weights else risk_of(shipped)
        scores.append(score)
        ruling = quota.decide(score, f"{draw.getrandbits(64):x}")
        if ruling.run:
            judged.append((good, ruling.probability, score))
            outcomes.append(Outcome(seq, shipped, (feature,), 1 - good, ruling.probability))
            if len(outcomes) % 25 == 0:
                state = _finished(advanced(state, JUDGE, outcomes, 1.0))
    values, chances, predicted = zip(*judged, strict=True)
    return assisted_mean(values, chances, predicted, scores), state.in_use is not None


def _finished(slices):
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def test_the_mean_has_no_bias_and_its_interval_covers():
    """Forty streams in which the risk changes while they run: right on average, and covered."""
    draw = random.Random(99)
    truth = 1 - mean(
        risk_of(-2.5 + 0.4 * draw.gauss(-1, 1) + 1.5 * draw.gauss(0, 1)) for _ in range(200_000)
    )
    estimates, learned = zip(*map(stream, range(SEEDS)), strict=True)
    assert sum(learned) > 0.8 * SEEDS
    errors = [each.mean - truth for each in estimates]
    assert abs(mean(errors)) < 3 * stdev(errors) / SEEDS**0.5
    covered = sum(each.low <= truth <= each.high for each in estimates)
    assert covered >= 0.9 * SEEDS
