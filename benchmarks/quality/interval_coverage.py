"""How often the 95 % intervals of `llmeval report` contain the truth: simulations of known truth.

Each run draws traffic whose share of good answers is known, scores its risk by a heuristic that is
informative, useless or plainly wrong, spends a share by the real `Quota`, and estimates from what
was judged. Run: python -m benchmarks.quality.interval_coverage [--runs 1000] [--records 4000] [--control 0.02]
"""

import argparse
import math
import random
from statistics import mean
from typing import NamedTuple

from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.mean import assisted_mean, population_mean


class Case(NamedTuple):
    name: str
    bad: float
    """Share of bad answers."""
    lift: float
    """By how many standard deviations the risk of bad answers is higher; below 0 it misleads."""
    rate: float | None = None
    """Sample at random at this rate, instead of spending a share of 20 % by risk."""
    drift: float = 0.0
    """By how many standard deviations the risk of all answers rises over the run."""


CASES = (
    Case("useful heuristic, 10 % bad", 0.1, 1.2),
    Case("useful heuristic, 30 % bad", 0.3, 1.2),
    Case("useless heuristic, 10 % bad", 0.1, 0.0),
    Case("useless heuristic, 30 % bad", 0.3, 0.0),
    Case("misleading heuristic, 10 % bad", 0.1, -1.2),
    Case("misleading heuristic, 30 % bad", 0.3, -1.2),
    Case("useful heuristic that drifts, 20 % bad", 0.2, 1.2, drift=3.0),
    Case("random 20 %, useful heuristic, 20 % bad", 0.2, 1.2, rate=0.2),
)


class Result(NamedTuple):
    coverage: float
    bias: float
    raw_bias: float
    width: float
    coverage_assisted: float
    width_assisted: float
    spend: float


def simulate(
    case: Case, *, runs: int, records: int, assisted: bool, control: float = 0.02, seed: int = 1
) -> Result:
    """Return what many runs of one case come to."""
    rng = random.Random(seed)
    truth = 1 - case.bad
    hits, hits_assisted, means, raws, widths, widths_assisted, spent = 0, 0, [], [], [], [], 0
    for run in range(runs):
        quota = Quota(0.2, control)
        values, chances, predicted, everywhere = [], [], [], []
        for number in range(records):
            bad = rng.random() < case.bad
            odds = rng.gauss(case.lift * bad + case.drift * number / records, 1)
            risk = 1 / (1 + math.exp(-odds))
            everywhere.append(risk)
            if case.rate is None:
                decision = quota.decide(risk, f"{seed}-{run}-{number}")
                runs_now, chance = decision.run, decision.probability
            else:
                runs_now, chance = rng.random() < case.rate, case.rate
            if runs_now:
                values.append(float(not bad))
                chances.append(chance)
                predicted.append(risk)
        found = population_mean(values, chances)
        hits += found.low <= truth <= found.high
        means.append(found.mean)
        raws.append(mean(values))
        widths.append(found.width)
        spent += len(values)
        if assisted:
            best = assisted_mean(values, chances, predicted, everywhere)
            hits_assisted += best.low <= truth <= best.high
            widths_assisted.append(best.width)
    return Result(
        hits / runs, mean(means) - truth, mean(raws) - truth, mean(widths),
        hits_assisted / runs, mean(widths_assisted or [0.0]), spent / runs / records,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=4_000)
    parser.add_argument("--control", type=float, default=default_control(0.2), help="control rate")
    parser.add_argument("--case", type=int, action="append", help="only these, from 0")
    args = parser.parse_args()
    print(
        f"{args.runs} runs of {args.records} records, control rate {args.control:g}; coverage of 95 % intervals"
    )
    print("| case | judged | raw bias | bias | coverage | width | with free score | width |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for place, case in enumerate(CASES):
        if args.case and place not in args.case:
            continue
        got = simulate(
            case, runs=args.runs, records=args.records, assisted=True, control=args.control
        )
        print(
            f"| {case.name} | {got.spend:.1%} | {got.raw_bias:+.3f} | {got.bias:+.4f} |"
            f" {got.coverage:.1%} | {got.width:.3f} | {got.coverage_assisted:.1%} |"
            f" {got.width_assisted:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
