"""How often the interval of what people would say contains it, by the number of labels.

Each run draws requests of which one in ten is bad in people's eyes, judges a fifth of them by the
real `Quota` with a judge that errs both ways, has some of the judged ones labelled at random, and
corrects the judge's mean. The naive interval takes the judge's word.

The bars are for the coverage of all judges together. A coverage is itself an estimate: over 40 seeds
an interval that covers exactly 95 % is seen to cover less than 93 % or more than 98 % in one case
out of five. So each is printed with its own 95 % interval. A bar is met where the
coverage lies in it and missed where all of that interval lies outside. In between so few seeds
cannot tell, and the table says so; those of `make quality-full` can.
Run: python -m benchmarks.quality.labels [--seeds 200] [--records 4000]
"""

from __future__ import annotations

import argparse
import random
from math import sqrt
from statistics import mean, median
from typing import NamedTuple

from benchmarks.quality.sampling import SHARE, Judgement, requests
from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.labels import Labelled, corrected_mean
from llmeval_sdk.statistics.mean import Estimate, assisted_mean


class Judge(NamedTuple):
    """A judge's mistakes."""

    finds: float
    """Part of the bad answers that it fails."""
    passes: float
    """Part of the good answers that it passes."""


JUDGES = (Judge(0.7, 0.9), Judge(0.9, 0.95), Judge(0.5, 0.98))
LABELS = (50, 100, 300)
BARS = {50: (0.93, 1.0), 100: (0.93, 0.98), 300: (0.93, 0.98)}
UNDECIDED = "undecided, too few seeds to tell"


class Coverage(NamedTuple):
    """What many runs come to, for one number of labels."""

    covered: float
    naive: float
    width: float


class JudgedStream(NamedTuple):
    """Requests of which a judge that errs has rated a share."""

    judged: list[Judgement]
    verdicts: list[float]
    chances: list[float]
    mean: Estimate
    """What the judge would say of all requests."""


def judged_stream(judge: Judge, rng: random.Random, *, records: int, bad: float) -> JudgedStream:
    """Draw requests, choose a share of them by the real `Quota`, and let a judge rate these."""
    stream = list(requests(rng, Quota(SHARE, default_control(SHARE)), bad, records))
    judged = [request for request in stream if request.chance]
    verdicts = [
        float(rng.random() >= judge.finds if request.bad else rng.random() < judge.passes)
        for request in judged
    ]
    chances = [request.chance or 1.0 for request in judged]
    estimate = assisted_mean(
        verdicts, chances, [each.risk for each in judged], [each.risk for each in stream]
    )
    assert estimate is not None
    return JudgedStream(judged, verdicts, chances, estimate)


def simulate(judge: Judge, *, seeds: int, records: int, bad: float = 0.1) -> dict[int, Coverage]:
    """Run one judge over many streams."""
    found: dict[int, list[tuple[bool, bool, float]]] = {count: [] for count in LABELS}
    for seed in range(seeds):
        rng = random.Random(seed)
        judged, verdicts, chances, raw = judged_stream(judge, rng, records=records, bad=bad)
        for count in LABELS:
            chosen = rng.sample(range(len(judged)), count)
            labelled = [Labelled(verdicts[i], float(not judged[i].bad), chances[i]) for i in chosen]
            correction = corrected_mean(verdicts, chances, labelled, mean=raw.mean)
            said = correction.estimate
            truth = 1 - bad
            found[count].append(
                (said.low <= truth <= said.high, raw.low <= truth <= raw.high, said.width)
            )
    return {
        count: Coverage(
            mean(row[0] for row in rows), mean(row[1] for row in rows), median(r[2] for r in rows)
        )
        for count, rows in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--records", type=int, default=4_000)
    args = parser.parse_args()
    print(f"{args.seeds} seeds of {args.records} requests, 10 % bad, 20 % judged; 95 % intervals")
    print("| judge finds / passes | labels | coverage | the judge's own interval | median width |")
    print("| --- | --- | --- | --- | --- |")
    pooled: dict[int, list[float]] = {count: [] for count in LABELS}
    naive = []
    for judge in JUDGES:
        for count, got in simulate(judge, seeds=args.seeds, records=args.records).items():
            pooled[count].append(got.covered)
            naive.append(got.naive)
            print(
                f"| {judge.finds:.0%} / {judge.passes:.0%} | {count} | {got.covered:.1%} |"
                f" {got.naive:.1%} | {got.width:.3f} |",
                flush=True,
            )
    outcomes = {"met" if max(naive) < 0.5 else "missed"}
    for count in LABELS:
        runs = args.seeds * len(JUDGES)
        covered = mean(pooled[count])
        low, high = wilson(covered, runs)
        outcomes.add(against(BARS[count], covered, low, high))
        print(f"{count} labels: {covered:.1%} of {runs} runs covered ({low:.1%} to {high:.1%})")
    verdict = next(each for each in ("missed", UNDECIDED, "met") if each in outcomes)
    print("50 labels >= .93, more .93-.98, naive < .5:", verdict)
    raise SystemExit(verdict == "missed")


def against(bar: tuple[float, float], covered: float, low: float, high: float) -> str:
    """Say whether a coverage and its interval meet a bar, miss it, or cannot tell."""
    least, most = bar
    if least <= covered <= most:
        return "met"
    return "missed" if high < least or low > most else UNDECIDED


def wilson(share: float, runs: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z = 1.96
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * sqrt(share * (1 - share) / runs + (z / runs) ** 2 / 4)
    return middle - half, middle + half


if __name__ == "__main__":
    main()
