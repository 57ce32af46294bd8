"""Two versions on the same mix of requests: rarely different when equal, soon when not."""

import math
import random

import pytest

from benchmarks.quality import versions
from llmeval_sdk.statistics import Seen, Tally, assisted_mean, standardised_difference


def test_equal_versions_rarely_look_different():
    """Of four weeks of hourly looks at most one shows a difference; months are in `make quality`."""
    assert versions.alarm_rate(4, days=7) <= 0.25


def test_a_worse_version_is_seen_within_days():
    """Ten points within six days, in the median of three streams."""
    assert sorted(versions.delays(3, 0.10))[1] <= 6


def test_a_shift_of_the_mix_is_not_blamed_on_the_version():
    """Both versions are equal in each stratum; the second has more of the hard one."""
    sides = ({}, {})
    rng = random.Random(5)
    for version, hard in ((0, 0.2), (1, 0.8)):
        for _ in range(4_000):
            kind = "hard" if rng.random() < hard else "easy"
            value = float(rng.random() >= (0.4 if kind == "hard" else 0.05))
            sides[version].setdefault(kind, Tally()).add(Seen(value))
    found = standardised_difference(*sides)
    assert found.plain < -0.15
    assert found.due_to_mix == pytest.approx(found.plain, abs=0.05)
    assert not found.difference.is_clear
    assert found.compared == 1.0
    assert found.strata == 2


def test_a_tally_says_what_the_assisted_mean_says():
    """Sums that are kept request by request give the estimate of `assisted_mean`."""
    rng = random.Random(6)
    tally, rows, everywhere = Tally(), [], []
    for _ in range(3_000):
        x = rng.random()
        chance = 0.1 + 0.8 * x
        y = float(rng.random() > x / 2)
        is_judged = rng.random() < chance
        everywhere.append(x)
        tally.add(Seen(y if is_judged else None, chance, x))
        if is_judged:
            rows.append((y, chance, x))
    values, chances, predicted = map(list, zip(*rows, strict=True))
    expected = assisted_mean(values, chances, predicted, everywhere)
    slope = _slope_of(rows)
    assert tally.mean(slope) == pytest.approx(expected.mean)
    assert 2 * 1.96 * tally.variance(slope) ** 0.5 == pytest.approx(expected.width, rel=0.02)


def _slope_of(rows):
    weight = sum(1 / p for _, p, _ in rows)
    middle = sum(x / p for _, p, x in rows) / weight
    centre = sum(y / p for y, p, _ in rows) / weight
    joint = sum((y - centre) * (x - middle) / p for y, p, x in rows)
    return joint / sum((x - middle) ** 2 / p for _, p, x in rows)


def test_nothing_is_said_of_a_few_requests():
    """Below thirty judged of either there is no difference, and what only one has is left out."""
    few, many = Tally(), Tally()
    for number in range(100):
        many.add(Seen(1.0))
        if number < 29:
            few.add(Seen(0.0))
    assert standardised_difference({"a": many}, {"a": few}) is None
    assert standardised_difference({}, {}) is None
    found = standardised_difference({"a": many, "b": many}, {"a": many})
    assert found.compared == pytest.approx(2 / 3)


def _side(rng, worse, scored):
    """Return the strata of a version: a free score that predicts well, and is missing for some."""
    strata = {}
    for number in range(3_000):
        x = rng.random()
        y = float(rng.random() < 0.15 + 0.75 * x - worse)
        # what has no free score is worse than the rest, and judged more often
        is_scored = rng.random() < (scored if y else 1 - 1.5 * (1 - scored))
        chance = 0.15 if is_scored else 0.4
        value = y if rng.random() < chance else None
        seen = Seen(value, chance, x if is_scored else None)
        strata.setdefault(("a", "b")[number % 2], Tally()).add(seen)
    return strata


@pytest.mark.parametrize("scored", [0.97, 0.6])
def test_a_free_score_that_some_requests_lack_covers_and_still_helps(scored):
    """By simulation, the truth is inside at a single look in 95 % and more; others narrow it."""
    rng = random.Random(11)
    inside = narrower = 0
    for _ in range(120):
        sides = [_side(rng, worse, scored) for worse in (0.0, 0.05)]
        found = standardised_difference(*sides)
        half = 1.96 * found.variance**0.5
        inside += abs(found.difference.mean + 0.05) <= half
        for tally in (tally for side in sides for tally in side.values()):
            tally.scored = 0  # as if nothing had a free score
            for name in ("all_x", "all_xx", "wx", "wxx", "wxy", "wwx", "wwxx", "wwxy"):
                setattr(tally, name, 0.0)
            tally.w_scored = tally.wy_scored = tally.ww_scored = tally.wwy_scored = 0.0
        narrower += found.variance < 0.97 * standardised_difference(*sides).variance
    assert inside >= 108
    assert narrower >= 110


def test_a_missing_free_score_is_the_mean_of_the_others():
    """The sums are those of a tally that got the mean, less that mean, of each such request."""
    rng = random.Random(12)
    rows = []
    for _ in range(500):
        x = rng.random() if rng.random() < 0.8 else None
        y = rng.random() if rng.random() < 0.5 else None
        rows.append(Seen(y, 0.2 + 0.6 * rng.random(), x))
    known = [row[2] for row in rows if row[2] is not None]
    middle = sum(known) / len(known)
    partly, filled = Tally(), Tally()
    for value, chance, x in rows:
        partly.add(Seen(value, chance, x))
        filled.add(Seen(value, chance, 0.0 if x is None else x - middle))
    whole = partly.whole()
    for name in ("count", "scored", "all_x", "all_xx", "wx", "wxx", "wxy", "wwx", "wwxx", "wwxy"):
        assert getattr(whole, name) == pytest.approx(getattr(filled, name), abs=1e-9), name
    assert whole.mean(0.7) == pytest.approx(filled.mean(0.7))
    assert whole.variance(0.7) == pytest.approx(filled.variance(0.7))


def test_the_free_score_corrects_each_version_for_what_was_not_judged():
    """Only the good half of the second version is judged; its free scores tell of the other half."""
    first, second = Tally(), Tally()
    for place in range(200):
        x = place / 200
        first.add(Seen(x, 1.0, x))
        second.add(Seen(x if place >= 100 else None, 1.0, x))
    found = standardised_difference({"all": first}, {"all": second})
    assert found.difference.mean == pytest.approx(0.0)
    assert found.plain == pytest.approx(0.0)
    assert found.variance > 0


def test_strata_count_by_how_many_requests_they_hold():
    """Of both versions together, judged or not; small ones are joined or left out."""

    def stratum(good, judged, others=0):
        tally = Tally()
        for place in range(judged):
            tally.add(Seen(float(place < good)))
        for _ in range(others):
            tally.add(Seen(None))
        return tally

    first = {"a": stratum(50, 50), "b": stratum(50, 100, 100), "c": stratum(5, 10)}
    second = {"a": stratum(25, 50), "b": stratum(75, 100, 300), "d": stratum(0, 40)}
    found = standardised_difference(first, second)
    assert found.difference.mean == pytest.approx((100 * -0.5 + 600 * 0.25) / 700)
    assert found.compared == pytest.approx(700 / 750)
    assert found.strata == 2


def test_small_strata_of_each_version_are_joined_on_its_own_side():
    """Ten groups of six requests each are compared as one stratum."""
    sides = ({}, {})
    for group in range(10):
        for side, good in zip(sides, (5, 2), strict=True):
            tally = side.setdefault(group, Tally())
            for place in range(6):
                tally.add(Seen(float(place < good)))
    found = standardised_difference(*sides)
    assert found.strata == 1
    assert found.difference.mean == pytest.approx(-0.5)
    assert found.difference.is_clear


def test_the_interval_may_be_looked_at_any_time():
    """It is the boundary of a normal mixture, narrowest at a standard error of two points."""
    ratios = {}
    for count in (100, 625, 1_250, 2_500, 20_000):
        sides = [Tally(), Tally()]
        for side in sides:
            for place in range(count):
                side.add(Seen(float(place % 2)))
        found = standardised_difference({"all": sides[0]}, {"all": sides[1]})
        information, factor = 1 / found.variance, -2 * math.log(0.05)
        r = 1 / (0.02**2 * (factor + math.log(factor + 1)))
        grown = information + r
        half = math.sqrt(grown * math.log(grown / (r * 0.05**2))) / information
        assert found.difference.high == pytest.approx(min(half, 1.0))
        assert found.difference.low == pytest.approx(-min(half, 1.0))
        ratios[count] = half * math.sqrt(information)
    assert min(ratios, key=ratios.get) == 1_250
