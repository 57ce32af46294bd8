"""What learning from 200 verdicts does to `groundedness_risk` in an app it has never seen.

Each labelled set is such an app: the shipped weights (models and background table) are fitted anew
without it. Then 200 of its labels come in as verdicts, in random order, and the SDK's own state
fits weights, checks them on later verdicts and brings them into use or not. The AUROC is measured
on answers that were not among the verdicts, with and without what was learned. Verdicts are drawn
uniformly, and as the SDK draws them: a share of a stream by the real `Quota`, which leans towards
the risky, so that the weights of outcomes matter.
Run: python benchmarks/quality/learned_risk.py --data ../shared/data [--draws 40]
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple, TypeVar

import risk_fit
from risk_data import ANSWER_SETS, Row, answers, auroc, paragraphs

from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.heuristics.risk import _features, groundedness
from llmeval_sdk.plugins.learning.fits import FEWEST, LATER, FitState, Source, advanced
from llmeval_sdk.plugins.learning.fitting import Outcome, Slices, fitted, logit_of
from llmeval_sdk.statistics.allocation import default_control


VERDICTS, STREAM, MOST_STREAMED = 200, 1_000, 0.7
STEP = 25
"""New verdicts between two looks of the worker."""
TRAINED, MEAN_BAR, WORST_BAR = 0.025, -0.01, -0.03
JUDGE = Source("people", "1", "labels")

T = TypeVar("T")


class Answer(NamedTuple):
    """One answer as the shipped weights see it."""

    bad: int
    risk: float
    features: tuple[float, ...] | None
    """``None`` for an answer that claims nothing."""


class Drawn(NamedTuple):
    """Verdicts with their chances in the order of their arrival, and the answers without."""

    verdicts: list[Answer]
    chances: list[float]
    rest: list[Answer]


class Result(NamedTuple):
    """What the draws of one set come to."""

    gain: float
    worst: float
    """The mean gain of the worst tenth of the draws."""
    used: float


def unfamiliar(folder: Path) -> dict[str, list[Answer]]:
    """Score each set by weights that were fitted without it."""
    sets = {name: answers(folder, name) for name in ANSWER_SETS}
    texts = paragraphs(folder)
    first, *others = ANSWER_SETS
    rest = [_spanned(row) for name in others for row in sets[name]]
    scored = {}
    for names, rows in (((first,), rest), (others, sets[first])):
        table = risk_fit.background([r.context for r in rows] + texts, [r.answer for r in rows])
        prepared = risk_fit.training(rows)
        models = risk_fit.stack(risk_fit.measured(prepared, table), prepared)
        for name in names:
            scored[name] = [
                _answer(row.label, found, models)
                for row, found in zip(sets[name], risk_fit.measured(sets[name], table), strict=True)
            ]
    return scored


def _spanned(row: Row) -> Row:
    """Mark the whole of a bad answer as bad where the set does not say which part is."""
    whole = ((0, len(row.answer)),)
    return replace(row, spans=whole) if row.label and not row.spans else row


def _answer(label: int, found, models) -> Answer:
    risk, _, features = groundedness.score(found, models)
    vector = tuple(features[name] for name in _features.RESPONSE_FEATURES) if features else None
    return Answer(label, risk, vector)


def uniformly(pool: Sequence[Answer], draw: random.Random) -> Drawn:
    """Draw verdicts at random."""
    mixed = draw.sample(pool, len(pool))
    return Drawn(mixed[:VERDICTS], [1.0] * VERDICTS, mixed[VERDICTS:])


def as_allocated(pool: Sequence[Answer], draw: random.Random) -> Drawn:
    """Let the SDK choose 200 answers of a stream; the rest is what never was in the stream."""
    mixed = draw.sample(pool, len(pool))
    length = min(STREAM, int(MOST_STREAMED * len(pool)))
    share = min(0.95, VERDICTS / length)
    quota = Quota(share, default_control(share))
    verdicts, chances = [], []
    for answer in mixed[:length]:
        decision = quota.decide(answer.risk, f"{draw.getrandbits(64):x}")
        if decision.run:
            verdicts.append(answer)
            chances.append(decision.probability)
    return Drawn(verdicts, chances, mixed[length:])


def run(
    pool: Sequence[Answer], draws: int, choose: Callable[[Sequence[Answer], random.Random], Drawn]
) -> Result:
    """Learn from many draws."""
    gains, used = [], 0
    for seed in range(draws):
        drawn = choose(pool, random.Random(seed))
        state = learned(drawn)
        labels = [answer.bad for answer in drawn.rest]
        before = [answer.risk for answer in drawn.rest]
        after = before
        if state.in_use is not None:
            used += 1
            weights = state.in_use.weights
            after = [
                each.risk
                if each.features is None
                else weights.risk(logit_of(each.risk), each.features)
                for each in drawn.rest
            ]
        gains.append(auroc(labels, after) - auroc(labels, before))
    gains.sort()
    return Result(mean(gains), mean(gains[: max(1, draws // 10)]), used / draws)


def learned(drawn: Drawn) -> FitState:
    """Let the SDK learn from verdicts as they come in."""
    outcomes = [
        Outcome(place, logit_of(answer.risk), answer.features, float(answer.bad), chance)
        for place, (answer, chance) in enumerate(zip(drawn.verdicts, drawn.chances, strict=True), 1)
        if answer.features is not None
    ]
    state = FitState()
    for count in [*range(FEWEST, len(outcomes), STEP), len(outcomes)]:
        state = finished(advanced(state, JUDGE, outcomes[:count], now=0.0))
    return state


def finished(slices: Slices[T]) -> T:
    """Do all slices of a piece of work at once."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def cost(pool: Sequence[Answer]) -> None:
    """Print what fits cost."""
    known = [answer for answer in pool if answer.features is not None]
    for count in (VERDICTS, 1_000):
        outcomes = [
            Outcome(place, logit_of(each.risk), each.features or (), float(each.bad), 1.0)
            for place, each in enumerate(known[:count], 1)
        ]
        slices, longest, begun = fitted(outcomes), 0.0, time.thread_time()
        while True:
            start = time.thread_time()
            if next(slices, slices) is slices:
                break
            longest = max(longest, time.thread_time() - start)
        total = time.thread_time() - begun
        print(
            f"A fit on {count:,} verdicts: {1000 * total:.0f} ms of processor time, in slices of at"
            f" most {1000 * longest:.1f} ms"
        )


def tenth_bad(pool: Sequence[Answer]) -> list[Answer]:
    """Leave out bad answers until one in ten is bad."""
    good = [answer for answer in pool if not answer.bad]
    bad = [answer for answer in pool if answer.bad]
    return good + random.Random(0).sample(bad, len(good) // 9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--draws", type=int, default=40)
    options = parser.parse_args()
    sets = unfamiliar(options.data)
    print(
        f"\n## Risk that learns: {VERDICTS} verdicts of an app that the shipped weights never saw,"
        f" {options.draws} draws; a fit is checked on {LATER} later verdicts\n"
    )
    print("| verdicts | set | answers | shipped AUROC | mean gain | worst tenth | in use |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    met = True
    for kind, choose in (("uniform", uniformly), ("the SDK's allocation", as_allocated)):
        pools = dict(sets)
        if choose is as_allocated:
            pools["ragtruth_qa, 10 % bad"] = tenth_bad(sets["ragtruth_qa"])
        for name, pool in pools.items():
            result = run(pool, options.draws, choose)
            least = TRAINED if name == "ragtruth_qa" else MEAN_BAR
            met = met and result.gain >= least and result.worst >= WORST_BAR
            shipped = auroc([each.bad for each in pool], [each.risk for each in pool])
            print(
                f"| {kind} | {name} | {len(pool):,} | {shipped:.3f} | {result.gain:+.3f} |"
                f" {result.worst:+.3f} | {result.used:.0%} |",
                flush=True,
            )
    cost(sets["ragtruth_qa"])
    print(
        f"RAGTruth >= {TRAINED:+}, no mean below {MEAN_BAR}, no worst tenth below {WORST_BAR}:",
        "met" if met else "missed",
    )
    raise SystemExit(not met)


if __name__ == "__main__":
    main()
