"""Evidence against a bound: rarely false, soon there, and the same after a restart."""

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality import alarms
from llmeval_sdk.statistics.mean import Seen
from llmeval_sdk.statistics.sequence import Evidence


HOUR = alarms.HOUR_NS


def test_at_the_bound_alarms_are_rare():
    """Of four months at the bound, looked at each hour, at most one reaches the level of 5 %.

    At 5 % each, two or more would happen in 1.4 % of such fours; the full count is `make quality`.
    """
    assert sum(top >= 20 for top in alarms.false_alarms(4)) <= 1


@pytest.mark.parametrize("mishap", alarms.MISHAPS, ids=lambda mishap: mishap.name)
def test_at_the_bound_alarms_are_rare_whatever_goes_wrong(mishap):
    """A judge that dies and verdicts that arrive late raise no more false alarms than usual."""
    highest = [max(alarms.told_evidence(seed, 20, mishap)) for seed in range(2)]
    assert sum(top >= 20 for top in highest) <= 1


def test_a_drop_is_found_within_days():
    """Ten points within a day and a half, in the median of a few streams."""
    late = sorted(alarms.delays(3, 0.10, {1: 20.0}, days=13)[1])
    assert late[len(late) // 2] <= 1.5


@pytest.mark.parametrize("verdicts_a_day", alarms.TENANT_BARS)
def test_a_tenant_that_fell_is_found_among_fifty(verdicts_a_day):
    """By 25 points, with few verdicts a day, in the median of some tenants."""
    delays = sorted(alarms.tenant_delays(9, verdicts_a_day))
    assert delays[len(delays) // 2] <= alarms.TENANT_BARS[verdicts_a_day]


def test_fifty_tenants_at_the_bound_raise_hardly_an_alarm():
    """The promise of 5 % of months holds over all of them together; here is one month."""
    assert alarms.false_tenant_months(1, 20) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.02, 1.0),
    st.floats(0.5, 0.95),
    st.floats(0.05, 1.0),
)
def test_no_bet_can_lose_everything(least, bound, predicted):
    """However unlucky the verdicts and however small a chance, the wealth stays above zero."""
    evidence = Evidence(bound)
    rng = random.Random(4)
    for hour in range(30):
        seen = [Seen(1.0, least, predicted * rng.random()) for _ in range(5)]
        seen += [Seen(None, 1.0, rng.random()) for _ in range(20)]
        evidence.add(hour * HOUR, 1.0, seen)
        assert all(part > 0 for part in evidence.wealth)


def test_a_fair_game_does_not_grow():
    """At the bound the mean of the evidence after two days stays near what was put in."""
    rng = random.Random(11)
    totals = []
    for _ in range(300):
        evidence = Evidence(0.8)
        for hour in range(48):
            seen = []
            for _ in range(6):
                chance = rng.choice((0.1, 0.5, 1.0))
                judged = rng.random() < chance
                seen.append(Seen(float(rng.random() < 0.8) if judged else None, chance))
            evidence.add(hour * HOUR, 1.0, seen)
        totals.append(evidence.total)
    assert sum(totals) / len(totals) == pytest.approx(48 / 720, rel=0.5)


def test_it_says_when_the_change_began():
    """After forty good hours and eight bad ones, the start is within some hours of the change."""
    rng = random.Random(2)
    evidence = Evidence(0.9)
    for hour in range(48):
        bad = 0.05 if hour < 40 else 0.5
        evidence.add(hour * HOUR, 1.0, [Seen(float(rng.random() > bad)) for _ in range(30)])
    assert evidence.total > 20
    assert evidence.since_ns is not None
    assert abs(evidence.since_ns / HOUR - 40) <= 3


def test_it_goes_on_where_it_stopped():
    """Written as JSON and read again between two hours, nothing changes."""
    rng = random.Random(5)
    straight, broken = Evidence(0.9), Evidence(0.9)
    for hour in range(20):
        seen = [Seen(float(rng.random() > 0.2), 0.5, rng.random()) for _ in range(20)]
        straight.add(hour * HOUR, 1.0, seen)
        broken = Evidence.from_plain(json.loads(json.dumps(broken.as_plain())))
        broken.add(hour * HOUR, 1.0, seen)
    assert broken == straight


def test_constant_scores_and_empty_hours_are_no_trouble():
    """A judge that always says yes gathers no evidence; hours without traffic change nothing."""
    evidence = Evidence(0.9)
    for hour in range(100):
        evidence.add(hour * HOUR, 1.0, [Seen(1.0, 0.2, 0.5)] * 10 if hour % 2 else [])
    assert evidence.total < 1
    assert evidence.since_ns is None


@pytest.mark.parametrize("chance", [1.0, 0.5])
def test_the_evidence_of_a_first_period_by_hand(chance):
    """Three gamblers bet on drops of 5, 10 and 25 points, each record multiplies what they have.

    An hour brings one part in 720 of a wealth; what was not judged counts as the bound.
    """
    values, bound = [1.0] * 12 + [0.0] * 8, 0.8
    evidence = Evidence(bound)
    evidence.add(HOUR, 1.0, [Seen(value, chance) for value in values] + [Seen(None, chance)] * 9)
    variance = bound * (1 - bound) / chance
    total, gains = 0.0, []
    for drop, part in ((0.05, 0.6), (0.10, 0.25), (0.25, 0.15)):
        stake = drop / (variance + drop**2)
        gain = math.prod(1 - stake * (value - bound) / chance for value in values)
        gains.append(math.log(gain))
        total += part * gain / 720
    assert evidence.judged == 20
    assert evidence.total == pytest.approx(total)
    assert evidence.gains == pytest.approx(gains)
    assert evidence.since_ns == HOUR
    assert evidence.variance() == pytest.approx(
        sum(((value - bound) / chance) ** 2 for value in values) / 29
    )


def test_what_points_to_no_drop_says_of_no_time_that_it_began():
    """Good verdicts lose the bets; the next bad ones begin anew."""
    evidence = Evidence(0.8)
    evidence.add(HOUR, 1.0, [Seen(1.0)] * 20)
    assert evidence.since_ns is None
    evidence.add(2 * HOUR, 1.0, [Seen(0.0)] * 20)
    assert evidence.since_ns == 2 * HOUR


def test_a_period_of_very_many_requests_keeps_its_evidence():
    """Neither does a product overflow nor is it lost: logarithms add up to the same."""
    whole, parts = Evidence(0.8), Evidence(0.8)
    bad = [Seen(0.0)] * 4_000
    whole.add(HOUR, 1.0, bad)
    parts.add(HOUR, 1.0, bad[:10])
    assert all(math.isfinite(gain) for gain in whole.gains)
    assert whole.gains == pytest.approx([400 * gain for gain in parts.gains])
    good = Evidence(0.8)
    good.add(HOUR, 1.0, [Seen(1.0)] * 40_000)
    assert all(math.isfinite(gain) and gain < -700 for gain in good.gains)


def test_a_free_score_that_predicts_makes_contributions_alike():
    """From the second period on, by a line through the judged requests of those before."""
    plain, helped = Evidence(0.8), Evidence(0.8)
    rng = random.Random(8)
    for hour in range(1, 6):
        for evidence, has_score in ((plain, False), (helped, True)):
            rows = [(rng.random(), rng.random() < 0.5) for _ in range(300)]
            seen = [
                Seen(x if judged else None, 0.5, x if has_score else None) for x, judged in rows
            ]
            evidence.add(hour * HOUR, 1.0, seen)
    past = helped.past
    assert helped.variance() < 0.9 * plain.variance()
    middle, centre = past.x / past.weight, past.y / past.weight
    slope = (past.xy / past.weight - middle * centre) / (past.xx / past.weight - middle**2)
    assert slope == pytest.approx(1.0)
    assert past.weight < 5 * 300
