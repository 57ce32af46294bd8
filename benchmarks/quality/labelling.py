"""How many fewer labels it takes when they are chosen, for the same width by the same estimator.

Streams and judges are those of `labels`: one request in ten is bad, a fifth is judged by the real
`Quota`. Either labels go to judged records at random, or to those that `choose` draws. Widths fall
with the root of the number of labels, so the ratio of labels is the square of that of widths.
Run: python -m benchmarks.quality.labelling [--seeds 100] [--records 4000]
"""

from __future__ import annotations

import argparse
import random
from statistics import mean, median

from benchmarks.quality.labels import JUDGES, Judge, judged_stream
from llmeval_sdk.statistics.labels import Candidate, Labelled, choose, corrected_mean


BAD, BAR = 0.1, 1.3


def simulate(
    judge: Judge, count: int, *, seeds: int, records: int
) -> tuple[list[float], list[float], float, float]:
    """Return the widths of random and of chosen labels, the chosen ones' coverage and mean error."""
    at_random, chosen, covered, errors = [], [], [], []
    for seed in range(seeds):
        rng = random.Random(seed)
        judged, verdicts, chances, raw = judged_stream(judge, rng, records=records, bad=BAD)

        def labelled(place: int, chance: float | None) -> Labelled:
            return Labelled(verdicts[place], float(not judged[place].bad), chances[place], chance)  # noqa: B023

        rows = [labelled(place, None) for place in rng.sample(range(len(judged)), count)]
        uniform = corrected_mean(verdicts, chances, rows, mean=raw.mean)
        candidates = [
            Candidate(str(place), verdicts[place], chances[place], each.risk)
            for place, each in enumerate(judged)
        ]
        choices = choose(candidates, count, key=str(seed))
        rows = [labelled(int(each.id), each.chance) for each in choices]
        drawn = corrected_mean(verdicts, chances, rows, mean=raw.mean)
        assert uniform is not None
        assert drawn is not None
        at_random.append(uniform.estimate.width)
        chosen.append(drawn.estimate.width)
        covered.append(drawn.estimate.low <= 1 - BAD <= drawn.estimate.high)
        errors.append(drawn.estimate.mean - (1 - BAD))
    return at_random, chosen, mean(covered), mean(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--records", type=int, default=4_000)
    args = parser.parse_args()
    print(f"{args.seeds} seeds of {args.records} requests, 10 % bad, 20 % judged")
    print(
        "| judge finds / passes | labels | width at random | chosen | labels saved | coverage | bias |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios, coverage = [], []
    for judge in JUDGES:
        for count in (100, 200):
            uniform, drawn, covered, bias = simulate(
                judge, count, seeds=args.seeds, records=args.records
            )
            ratios.append((median(uniform) / median(drawn)) ** 2)
            coverage.append(covered)
            print(
                f"| {judge.finds:.0%} / {judge.passes:.0%} | {count} | {median(uniform):.3f} |"
                f" {median(drawn):.3f} | {ratios[-1]:.2f} times | {covered:.1%} | {bias:+.4f} |",
                flush=True,
            )
    met = mean(ratios) >= BAR and mean(coverage) >= 0.93
    print(f"{mean(ratios):.2f} times fewer labels, {mean(coverage):.1%} covered:", end=" ")
    print("met" if met else "missed")
    raise SystemExit(not met)


if __name__ == "__main__":
    main()
