"""How often an alarm is false, and how late it comes when quality drops: simulated months.

Requests come at 1,000 a day, one in ten is bad, the risk score's AUROC is 0.80 and 20 % are judged
by the real `Quota`; the evidence is looked at every hour. At the bound nothing ought to happen for
30 days; or quality stands ten days at the bound and then drops by 5 or 10 points.
Run: python -m benchmarks.quality.alarms [--seeds 100]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from math import sqrt
from statistics import mean, median

from benchmarks.quality.sampling import BAD, SHARE, requests
from llmeval_sdk.estimates.allocation import default_control
from llmeval_sdk.estimates.sequence import Evidence, Seen
from llmeval_sdk.policy.quota import Quota


HOUR_NS, PER_DAY, ALPHA, CALM_DAYS = 3_600_000_000_000, 1_000, 0.05, 10


def evidence(
    seed: int, days: int, drop: float = 0.0, control: float | None = None
) -> Iterator[float]:
    """Yield the evidence hour by hour; quality drops after ten days, if it does."""
    rng = random.Random(seed)
    quota = Quota(SHARE, default_control(SHARE) if control is None else control)
    gathered = Evidence(1 - BAD)
    for hour in range(24 * days):
        bad = BAD + (drop if hour >= 24 * CALM_DAYS else 0.0)
        count = (hour + 1) * PER_DAY // 24 - hour * PER_DAY // 24
        gathered.add(
            hour * HOUR_NS,
            1.0,
            [
                Seen(float(not each.bad) if each.chance else None, each.chance or 1.0, each.risk)
                for each in requests(rng, quota, bad, count)
            ],
        )
        yield gathered.total


def false_alarms(seeds: int, days: int = 30) -> list[float]:
    """Return the highest evidence of each month at the bound."""
    return [max(evidence(seed, days)) for seed in range(seeds)]


def delays(
    seeds: int, drop: float, levels: dict[int, float], days: int = 20
) -> dict[int, list[float]]:
    """Return how many days after the drop each level of evidence is reached; by alerts in a file."""
    found: dict[int, list[float]] = {alerts: [] for alerts in levels}
    for seed in range(seeds):
        course = list(evidence(10_000 + seed, days, drop))
        for alerts, level in levels.items():
            hours = [h for h, total in enumerate(course) if total >= level]
            first = hours[0] + 1 if hours else 24 * days
            if first > 24 * CALM_DAYS:  # an alarm before the drop is no delay
                found[alerts].append(first / 24 - CALM_DAYS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    levels = {alerts: alerts / ALPHA for alerts in (1, 5)}
    missed = False
    highest = false_alarms(args.seeds)
    print(f"{args.seeds} seeds, hourly looks, 1,000 requests a day, 20 % judged")
    for alerts, level in levels.items():
        each = mean(top >= level for top in highest)
        spread = 1.96 * sqrt(max(each * (1 - each), 0.25 / args.seeds) / args.seeds)
        print(
            f"false alarms in 30 days at the bound: {each:.1%} ± {spread:.1%} of alerts in a file"
            f" of {alerts} (at most {ALPHA / alerts:.0%})"
        )
        missed |= each - spread > ALPHA / alerts
    print("| drop | alerts in the file | median delay | 80 % within | bar |")
    print("| --- | --- | --- | --- | --- |")
    for drop, bars in ((0.05, {1: 3.0, 5: 3.5}), (0.10, {1: 1.0, 5: 1.5})):
        for alerts, late in delays(args.seeds, drop, levels).items():
            within = sorted(late)[int(0.8 * len(late))]
            print(
                f"| {100 * drop:.0f} points | {alerts} | {median(late):.2f} days | {within:.1f} |"
                f" {bars[alerts]} |",
                flush=True,
            )
            missed |= median(late) > bars[alerts]
    print("missed" if missed else "met")
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
