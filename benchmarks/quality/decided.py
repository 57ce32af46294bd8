"""Simulations of a decision model: its calibration by few labels, and what a cascade is worth.

No model is asked: what stands in for the models is said in each function. `make bench-decisions`
prints both; ``python -m benchmarks.quality.decided [--quick]`` prints them alone.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass
from statistics import NormalDist, fmean, median

from benchmarks.measures import Table
from llmeval_sdk.evaluation.escalation import CONTROL_RATE, HIGH, LOW
from llmeval_sdk.statistics import Calibration, calibrated, reliability


LABELS, OTHERS = 200, 2_000


# -- calibration ----------------------------------------------------------------------------------


def judged(seed, count, slope=1.8, bias=0.8):
    """Draw what a judge says of answers, and whether they are good.

    Its logit is the true one times ``slope`` plus ``bias``; most true probabilities lie near 0
    or 1, and about two thirds of the answers are good.
    """
    draw = random.Random(seed)
    said, labels = [], []
    for _ in range(count):
        true = min(max(draw.betavariate(0.8, 0.4), 1e-4), 1 - 1e-4)
        said.append(_expit(slope * math.log(true / (1 - true)) + bias))
        labels.append(float(draw.random() < true))
    return said, labels


def _expit(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def error(calibration, seed, **judge):
    """Return the expected calibration error on answers that were not used to fit."""
    said, labels = judged(1_000_000 + seed, OTHERS, **judge)
    return reliability([calibration(p) for p in said], labels).calibration_error


def calibration(table, seeds):
    """Print what 200 labels make of a biased judge, and of one that is calibrated."""
    perfect = {"slope": 1.0, "bias": 0.0}
    alone = Calibration()
    raw = median(error(alone, seed) for seed in range(seeds))
    floor = median(error(alone, seed, **perfect) for seed in range(seeds))
    fitted = median(error(calibrated(*judged(seed, LABELS)), seed) for seed in range(seeds))
    kept = fmean(calibrated(*judged(seed, LABELS, **perfect)).is_identity for seed in range(seeds))
    table.row(f"simulated: calibration error on {OTHERS} others, as judged", f"{raw:.3f}")
    table.row("simulated: that of a perfect judge", f"{floor:.3f}")
    table.row(
        f"simulated: after {LABELS} labels, median of {seeds} seeds",
        f"{fitted:.3f}",
        "<= .040",
        ok=fitted <= 0.04,
    )
    table.row(
        f"simulated: seeds of {seeds} that leave a calibrated judge as it is",
        f"{kept:.1%}",
        ">= 93%",
        ok=kept >= 0.93,
    )


# -- the cascade ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """What the simulation of a cascade assumes; each can be set on the command line."""

    bad: float = 0.1
    """Share of the requests whose answer is bad. An assumption."""
    # 165 agent questions by grounded-ai: gpt-6-luna .836, Jev .891, Claude Sonnet 4.6 .897.
    decision_accuracy: float = 0.836
    judge_accuracy: float = 0.897
    # gpt-6-luna: $0.10 per million input tokens, output free (tokenrail 0.6, 26 October 2026).
    decision_price: float = 0.10
    # Claude Sonnet: $3 in, $15 out (llmeval_sdk/judges/models/prices.json).
    judge_price_in: float = 3.0
    judge_price_out: float = 15.0
    tokens_in: int = 1_500
    """Of the rubric and a record with five chunks. An assumption, as the next."""
    tokens_out: int = 120
    """Of a rationale and a rating."""
    alike: float = 0.5
    """Correlation of the two models' mistakes: 1 would be the same doubts. An assumption."""
    requests: int = 200_000
    """How many are simulated."""


def add_inputs(parser):
    """Let every input be given on the command line."""
    for name, value in vars(Inputs()).items():
        is_accuracy = name.endswith("_accuracy")
        least = 0.5 if is_accuracy else 1 if name == "requests" else 0
        most = 1 if is_accuracy or name in ("bad", "alike") else math.inf
        option = "--" + name.replace("_", "-")
        parser.add_argument(
            option, type=_number(type(value), least, most), default=value, help=f"default {value}"
        )


def _number(kind, least, most):
    def number(text):
        value = kind(text)
        if not least <= value <= most:
            limits = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a number of {limits}, not {text}")
        return value

    return number


@dataclass
class Way:
    """One way to judge requests: what it spent and what it said of them."""

    name: str
    usd: float = 0.0
    judged: int = 0
    caught: int = 0
    false: int = 0

    def add(self, is_bad, *, called_bad, usd, is_judged=False):
        """Count one request."""
        self.usd += usd
        self.judged += is_judged
        self.caught += called_bad and is_bad
        self.false += called_bad and not is_bad


def ways(inputs, *, low=LOW, high=HIGH, control=CONTROL_RATE, share=0.2, seed=19):
    """Simulate each way on the same requests; return the ways and the number of bad requests.

    Each model sees the truth through normal noise, so much that its accuracy on as many good as bad
    answers is the published one. A decision's probability of "good" is the one that belongs to what
    it saw, on as many good as bad answers; a judge model says yes or no. A cascade takes the judge
    model's word where it was asked, else the decision's.
    """
    draw = random.Random(seed)
    normal = NormalDist()
    sees = [normal.inv_cdf(min(accuracy, 1 - 1e-9)) for accuracy in _accuracies(inputs)]
    decision_usd, judge_usd = prices(inputs)
    everything, some, alone, cascade = found = [
        Way("LLM judge on all"),
        Way(f"LLM judge on a random {share:.0%}"),
        Way("decision on all"),
        Way(f"cascade, judge at {low:g} to {high:g} and {control:.0%} control"),
    ]
    bad = 0
    for _ in range(inputs.requests):
        is_bad = draw.random() < inputs.bad
        bad += is_bad
        side = -1 if is_bad else 1
        noise = draw.gauss(0, 1)
        other = inputs.alike * noise + math.sqrt(1 - inputs.alike**2) * draw.gauss(0, 1)
        probability = _expit(2 * sees[0] * (side * sees[0] + noise))
        decided, judge_says_bad = probability < 0.5, side * sees[1] + other < 0
        everything.add(is_bad, called_bad=judge_says_bad, usd=judge_usd, is_judged=True)
        if draw.random() < share:
            some.add(is_bad, called_bad=judge_says_bad, usd=judge_usd, is_judged=True)
        alone.add(is_bad, called_bad=decided, usd=decision_usd)
        if low <= probability <= high or draw.random() < control:
            usd = decision_usd + judge_usd
            cascade.add(is_bad, called_bad=judge_says_bad, usd=usd, is_judged=True)
        else:
            cascade.add(is_bad, called_bad=decided, usd=decision_usd)
    return found, bad


def _accuracies(inputs):
    return inputs.decision_accuracy, inputs.judge_accuracy


def prices(inputs):
    """Return what one decision and one judgement cost in USD."""
    judge = inputs.tokens_in * inputs.judge_price_in + inputs.tokens_out * inputs.judge_price_out
    return inputs.tokens_in * inputs.decision_price / 1e6, judge / 1e6


def cascade(arguments):
    """Print the ways side by side."""
    inputs = Inputs(**{name: getattr(arguments, name) for name in vars(Inputs())})
    found, bad = ways(inputs)
    print(
        "\nA SIMULATION, not a measurement: no model was asked. Per 1,000 requests, "
        f"{inputs.bad:.0%} of them bad;\naccuracy of the decision {inputs.decision_accuracy:g}, "
        f"of the LLM judge {inputs.judge_accuracy:g}, correlation of their mistakes "
        f"{inputs.alike:g};\neach of these and the prices is an option (--help)."
    )
    print(f"{'':<48}{'USD':>8}{'LLM calls':>11}{'bad caught':>12}{'false alarms':>14}")
    for way in found:
        per = 1_000 / inputs.requests
        caught = f"{way.caught / bad:.0%}" if bad else "–"
        print(
            f"{way.name:<48}{way.usd * per:>8.2f}{way.judged * per:>11.0f}{caught:>12}"
            f"{way.false * per:>14.0f}"
        )


def main():
    parser = argparse.ArgumentParser(description="Simulations of a decision model.")
    parser.add_argument("--quick", action="store_true")
    add_inputs(parser)
    arguments = parser.parse_args()
    table = Table()
    calibration(table, 60 if arguments.quick else 300)
    cascade(arguments)
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
