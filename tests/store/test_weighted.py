"""What was left out by a draw is in every figure: those that stayed stand for the rest."""

import math
import random

import pytest

from llmeval_sdk.store.weighted import Sample, Thinned


@pytest.mark.parametrize("seed", range(20))
def test_a_percentile_is_that_of_all_values(seed):
    """It is the first value below which its share of all values lies; an interval has no ground."""
    rng, sample, repeated = random.Random(seed), Sample(), []
    for _ in range(rng.choice((1, 2, 30, 400))):
        value, times = rng.randrange(50), rng.choice((1, 1, 3, 10))
        sample.add(value, times)
        repeated += [value] * times
    repeated.sort()
    found = sample.percentiles(1.0)
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        if sample.further:
            assert value == repeated[max(math.ceil(share * len(repeated) - 1e-9) - 1, 0)]
    assert not (sample.further and found.p95_interval)


def test_the_intervals_of_totals_cover_the_truth():
    """Of 95 % intervals of a count and of a cost, about 95 % hold what was there."""
    rng, covered = random.Random(3), [0, 0]
    costs = [rng.expovariate(100) for _ in range(2_000)]
    chances = [rng.choice((1.0, 0.5, 0.2)) for _ in costs]
    for _ in range(400):
        thinned, count, cost = Thinned(), 0.0, 0.0
        for number, (usd, chance) in enumerate(zip(costs, chances, strict=True)):
            if rng.random() < chance:
                count, cost = count + 1 / chance, cost + usd / chance
                if chance < 1:
                    thinned.add(f"{number}", chance, 1, usd)
        of_count, of_cost = thinned.intervals(count, cost)
        covered[0] += of_count[0] <= len(costs) <= of_count[1]
        covered[1] += of_cost[0] <= sum(costs) <= of_cost[1]
    assert all(0.92 <= part / 400 <= 0.98 for part in covered), covered
