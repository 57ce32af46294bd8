"""How often two equal versions look different, and how late a worse one shows: simulated months.

Requests come at 1,000 a day, half of them to each version, 20 % judged by the real `Quota`; one in
ten is bad, the risk score's AUROC is 0.80. Two thirds are of an easy kind (5 % bad), a third of a
hard one (20 % bad). The interval is looked at every hour for 30 days. In the A/A test the versions
are equal; in the test of mixes they are equal too, and the second gets twice as many hard requests.
Run: python -m benchmarks.quality.versions [--seeds 200]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Hashable, Iterator
from math import exp, sqrt
from statistics import mean, median

from benchmarks.quality.sampling import LIFT, SHARE
from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.mean import Seen
from llmeval_sdk.statistics.standardised import Standardised, Tally, standardised_difference


PER_DAY, DAYS, ALPHA = 1_000, 30, 0.05
BAD = {"easy": 0.05, "hard": 0.20}
HARD = 1 / 3


def looks(
    seed: int, *, drop: float = 0.0, hard: tuple[float, float] = (HARD, HARD), days: int = DAYS
) -> Iterator[Standardised | None]:
    """Yield what is seen hour by hour; the second version is worse by ``drop``."""
    rng = random.Random(seed)
    quotas = {kind: Quota(SHARE, default_control(SHARE)) for kind in BAD}
    versions: tuple[dict[Hashable, Tally], dict[Hashable, Tally]] = ({}, {})
    for hour in range(24 * days):
        for _ in range((hour + 1) * PER_DAY // 24 - hour * PER_DAY // 24):
            version = rng.random() < 0.5
            kind = "hard" if rng.random() < hard[version] else "easy"
            bad = rng.random() < BAD[kind] + (drop if version else 0.0)
            risk = 1 / (1 + exp(1.5 - rng.gauss(LIFT if bad else 0.0, 1)))
            decision = quotas[kind].decide(risk, f"{rng.getrandbits(64):x}")
            verdict = float(not bad) if decision.run else None
            tally = versions[version].setdefault(kind, Tally())
            tally.add(Seen(verdict, decision.probability or 1.0, risk))
        yield standardised_difference(*versions)


def alarm_rate(seeds: int, hard: tuple[float, float] = (HARD, HARD), days: int = DAYS) -> float:
    """Return in which part of the months two equal versions looked different at any hour."""
    return mean(
        any(look is not None and look.difference.is_clear for look in looks(seed, hard=hard, days=days))
        for seed in range(seeds)
    )  # fmt: skip


def delays(seeds: int, drop: float) -> list[float]:
    """Return after how many days a worse version is seen to be worse; 30 where it is not."""
    found = []
    for seed in range(seeds):
        hours = (
            hour
            for hour, look in enumerate(looks(50_000 + seed, drop=drop), 1)
            if look is not None and look.difference.is_clear
        )
        found.append(next(hours, 24 * DAYS) / 24)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    args = parser.parse_args()
    missed = False
    print(f"{args.seeds} seeds, 30 days of hourly looks, 1,000 requests a day, 20 % judged")
    for what, hard in (("equal versions", (HARD, HARD)), ("the second gets more hard ones", (HARD, 2 * HARD))):  # fmt: skip
        rate = alarm_rate(args.seeds, hard)
        spread = 1.96 * sqrt(max(rate * (1 - rate), 1 / args.seeds / 4) / args.seeds)
        print(f"{what}: alarm in {rate:.1%} ± {spread:.1%} of months (at most 5 %)", flush=True)
        missed |= rate - spread > ALPHA
    few = max(args.seeds // 5, 5)
    for drop in (0.05, 0.10):
        late = delays(few, drop)
        print(
            f"second version worse by {100 * drop:.0f} points: seen after {median(late):.1f} days"
            f" (median of {few})",
            flush=True,
        )
    print("missed" if missed else "met")
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
