"""What a share catches and how well it measures, by the control rate: streams whose truth is known.

Each run draws requests of which one in ten is bad and whose risk has an AUROC of 0.80, spends a
share by the real `Quota`, and estimates the mean from what was judged with the risk as its model.
Run: python -m benchmarks.quality.sampling [--seeds 500] [--records 1000]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from math import exp, sqrt
from statistics import NormalDist, mean, median, stdev
from typing import NamedTuple

from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.mean import assisted_mean


LIFT = NormalDist().inv_cdf(0.80) * sqrt(2)
"""By how many standard deviations the risk of bad answers is higher, for an AUROC of 0.80."""
SHARE, BAD = 0.2, 0.1
BARS = {"caught": (0.48, 1.0), "width": (0.0, 0.10), "coverage": (0.93, 0.98)}


class Judgement(NamedTuple):
    """One request: its risk, whether it is bad, and the chance it was judged with, if it was."""

    risk: float
    bad: bool
    chance: float | None


class Outcome(NamedTuple):
    """What the runs of one control rate come to."""

    caught: list[float]
    widths: list[float]
    covered: list[bool]
    spent: list[float]


def requests(rng: random.Random, quota: Quota, bad_share: float, count: int) -> Iterator[Judgement]:
    """Draw requests and let the quota decide which are judged."""
    for _ in range(count):
        bad = rng.random() < bad_share
        risk = 1 / (1 + exp(1.5 - rng.gauss(LIFT if bad else 0.0, 1)))
        decision = quota.decide(risk, f"{rng.getrandbits(64):x}")
        yield Judgement(risk, bad, decision.probability if decision.run else None)


def simulate(control: float, *, seeds: int, records: int, share: float = SHARE) -> Outcome:
    """Run one control rate over many streams."""
    outcome = Outcome([], [], [], [])
    for seed in range(seeds):
        rng = random.Random(seed)
        stream = list(requests(rng, Quota(share, control), BAD, records))
        judged = [each for each in stream if each.chance is not None]
        estimate = assisted_mean(
            [float(not each.bad) for each in judged],
            [each.chance or 1.0 for each in judged],
            [each.risk for each in judged],
            [each.risk for each in stream],
        )
        assert estimate is not None
        outcome.caught.append(
            sum(each.bad for each in judged) / (sum(each.bad for each in stream) or 1)
        )
        outcome.widths.append(estimate.width)
        outcome.covered.append(estimate.low <= 1 - BAD <= estimate.high)
        outcome.spent.append(len(judged) / records)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--records", type=int, default=1_000)
    args = parser.parse_args()
    default = default_control(SHARE)
    print(
        f"{args.seeds} seeds of {args.records} requests, AUROC 0.80, {BAD:.0%} bad, share {SHARE}"
    )
    print("| control_rate | caught (95 % interval) | median width | coverage of 0.9 | judged |")
    print("| --- | --- | --- | --- | --- |")
    missed = False
    for control in (0.02, 0.05, 0.08, default, 0.12, 0.2):
        got = simulate(control, seeds=args.seeds, records=args.records)
        caught, spread = mean(got.caught), 1.96 * stdev(got.caught) / sqrt(args.seeds)
        found = {"caught": caught, "width": median(got.widths), "coverage": mean(got.covered)}
        mark = " (default)" if control == default else ""
        print(
            f"| {control:g}{mark} | {caught:.1%} ± {spread:.1%} | {found['width']:.3f} |"
            f" {found['coverage']:.1%} | {mean(got.spent):.1%} |",
            flush=True,
        )
        if control == default:
            missed = any(not low <= found[name] <= high for name, (low, high) in BARS.items())
    print("default: caught >= 48 %, width <= .10, coverage .93-.98:", "missed" if missed else "met")
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
