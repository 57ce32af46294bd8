"""What `llmeval accept` promises and how much it accepts, over many draws of labels.

Each run draws labels at random from an app of which 8 % of the values are wrong and whose score has an
AUROC of .90 (two normal distributions), sets the threshold, and looks at what is truly wrong below
it, which the distributions say exactly. An oracle knows the truth and accepts all that the target
allows; an acceptance is given as a share of its. Where nothing is promised, nothing is accepted.

A second table is about a tenant with a third of the traffic and 16 % wrong values, where 8 % of all
are: its threshold from labels drawn in the group, from those of its values that were drawn over all
traffic, and the threshold of all traffic, which promises nothing of the tenant alone.

Run: python -m benchmarks.quality.acceptance [--runs 500]
"""

from __future__ import annotations

import argparse
import random
from math import sqrt
from statistics import NormalDist, mean
from typing import NamedTuple

from llmeval_sdk.statistics.acceptance import LabelledScore, sure_acceptance


AUROC, WRONG = 0.90, 0.08
SHIFT = sqrt(2) * NormalDist().inv_cdf(AUROC)
"""How far apart the two distributions of the score stand."""
RIGHT_SCORES, WRONG_SCORES = NormalDist(0, 1), NormalDist(SHIFT, 1)
TRAFFIC = 5_000
ERRORS, LABELS = (0.01, 0.02, 0.05), (300, 1_000)
SURE_BARS = {(300, 0.05): 0.70, (1_000, 0.02): 0.55}
"""The least mean acceptance, as a share of the oracle's."""
GROUP, GROUP_WRONG = 1 / 3, 0.16
"""The tenant's share of the traffic, and how many of its values are wrong; 4 % of the others are."""
GROUP_LABELS, GROUP_ERROR = 1_500, 0.05


class Truth(NamedTuple):
    """What is accepted below a threshold, and what of it is wrong, as shares of all values."""

    accepted: float
    wrong: float


class Cell(NamedTuple):
    """What many runs come to for one target and number of labels."""

    acceptance: float
    """The mean share of the traffic that is accepted, divided by the oracle's."""
    nothing: float
    """The share of the runs without a promise."""
    broken: float
    """The share of the runs in which more than the target is wrong."""


def truth_below(threshold: float | None, rate: float = WRONG) -> Truth:
    """Return what the distributions say of a threshold where a share of the values is wrong."""
    if threshold is None:
        return Truth(0.0, 0.0)
    wrong = rate * WRONG_SCORES.cdf(threshold)
    return Truth((1 - rate) * RIGHT_SCORES.cdf(threshold) + wrong, wrong)


def wrong_of_accepted(truth: Truth) -> float:
    """Return the share of the accepted values that is wrong, which the promise bounds."""
    return truth.wrong / truth.accepted if truth.accepted else 0.0


def oracle(error: float, rate: float = WRONG) -> float:
    """Return the share that somebody who knows the truth accepts."""
    low, high = -8.0, 8.0 + SHIFT
    for _ in range(60):
        middle = (low + high) / 2
        if wrong_of_accepted(truth_below(middle, rate)) <= error:
            low = middle
        else:
            high = middle
    return truth_below(low, rate).accepted


def draw(rng: random.Random, rate: float = WRONG) -> LabelledScore:
    """Draw one value with its score and whether it is wrong."""
    wrong = rng.random() < rate
    return LabelledScore(rng.gauss(SHIFT if wrong else 0.0, 1.0), wrong)


def simulate(runs: int, count: int, error: float) -> Cell:
    """Set the threshold many times over."""
    truths: list[Truth] = []
    for run in range(runs):
        rng = random.Random(f"{run}/{count}")
        traffic = [draw(rng).score for _ in range(TRAFFIC)]
        labels = [draw(rng) for _ in range(count)]
        truths.append(truth_below(sure_acceptance(traffic, labels, error).threshold))
    return summary(truths, error)


def simulate_group(runs: int) -> dict[str, Cell]:
    """Set sure thresholds for a tenant many times over, by where their labels were drawn."""
    others = (WRONG - GROUP * GROUP_WRONG) / (1 - GROUP)
    outcomes: dict[str, list[Truth]] = {"the group": [], "all, its part": [], "all, as it is": []}
    for run in range(runs):
        rng = random.Random(f"group/{run}")

        def drawn(count: int, rng: random.Random = rng) -> list[tuple[bool, LabelledScore]]:
            is_own = [rng.random() < GROUP for _ in range(count)]
            return [(own, draw(rng, GROUP_WRONG if own else others)) for own in is_own]

        traffic, over_all = drawn(TRAFFIC), drawn(GROUP_LABELS)
        scores = [value.score for _, value in traffic]
        of_group = [value.score for own, value in traffic if own]
        part = [value for own, value in over_all if own]
        inside = [draw(rng, GROUP_WRONG) for _ in range(round(GROUP_LABELS * GROUP))]
        for name, among, labels in (
            ("the group", of_group, inside),
            ("all, its part", of_group, part),
            ("all, as it is", scores, [value for _, value in over_all]),
        ):
            threshold = sure_acceptance(among, labels, GROUP_ERROR).threshold
            outcomes[name].append(truth_below(threshold, GROUP_WRONG))
    return {name: summary(truths, GROUP_ERROR, GROUP_WRONG) for name, truths in outcomes.items()}


def summary(truths: list[Truth], error: float, rate: float = WRONG) -> Cell:
    """Put the runs together."""
    return Cell(
        mean(truth.accepted for truth in truths) / oracle(error, rate),
        mean(not truth.accepted for truth in truths),
        mean(wrong_of_accepted(truth) > error for truth in truths),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    print(f"{runs} runs, {WRONG:.0%} wrong, AUROC {AUROC:.2f}, {TRAFFIC:,} values of traffic")
    print("| labels | target | of the oracle's | no promise | exceeded | bars |")
    print("| --- | --- | --- | --- | --- | --- |")
    missed = False
    for count in LABELS:
        for error in ERRORS:
            cell = simulate(runs, count, error)
            least = SURE_BARS.get((count, error), 0.0)
            bars = {f"exceeded <= 5%: {cell.broken:.1%}": cell.broken <= 0.05}
            if least:
                bars[f"acceptance >= {least:.0%}"] = cell.acceptance >= least
            if (count, error) == (300, 0.01):
                bars["promises nothing"] = cell.nothing == 1
            missed |= not all(bars.values())
            print(row(count, error, cell, bars), flush=True)
    missed |= print_group(runs)
    raise SystemExit(missed)


def print_group(runs: int) -> bool:
    """Print the second table, and return whether a bar is missed."""
    print(
        f"\nA tenant with {GROUP:.0%} of the traffic and {GROUP_WRONG:.0%} wrong values,"
        f" {GROUP_LABELS:,} labels over all or {round(GROUP_LABELS * GROUP)} in the group,"
        f" at most {GROUP_ERROR:.0%} wrong of the accepted"
    )
    print("| labels drawn over | of the oracle's | no promise | exceeded in the group | bar |")
    print("| --- | --- | --- | --- | --- |")
    missed = False
    for name, cell in simulate_group(runs).items():
        bar = "none: the promise is about the mixture"
        if name != "all, as it is":
            missed |= cell.broken > 0.05
            bar = "exceeded <= 5% " + ("**missed**" if cell.broken > 0.05 else "met")
        print(
            f"| {name} | {cell.acceptance:.2f} | {cell.nothing:.2f} | {cell.broken:.1%} | {bar} |",
            flush=True,
        )
    return missed


def row(count: int, error: float, cell: Cell, bars: dict[str, bool]) -> str:
    """Write one line of the table."""
    outcomes = "; ".join(f"{bar} {'met' if met else '**missed**'}" for bar, met in bars.items())
    return (
        f"| {count:,} | {error:.0%} | {cell.acceptance:.2f} | {cell.nothing:.2f} |"
        f" {cell.broken:.1%} | {outcomes} |"
    )


if __name__ == "__main__":
    main()
