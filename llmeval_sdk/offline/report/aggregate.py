"""The content of a report: its rows, the sums over them, and the metrics that the sums give.

Aggregates of parts of a data set merge, in any order, and give the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any, NamedTuple

from llmeval_sdk.evaluation.scoring import ABSTAINED, LOST, NO_ANSWER
from llmeval_sdk.model import Evaluation, Usage, is_stand_in, values
from llmeval_sdk.offline.report.row import PROBABILITY, Output, ReportMetrics, Row, contributions
from llmeval_sdk.pipeline.stats import ExporterStats
from llmeval_sdk.statistics.mean import Estimate, mean_of_all


_UNIT = 2.0**-64
"""Amounts are held in this unit, so that no sum of them is too large for a float. It is a power of
two: only amounts below 1e-288 lose digits by it."""
_MAX_PARTS = 512


class ExactSum:
    """The exact sum of floats: it is rounded only when it is read.

    A float sum depends on the order in which rows are finished, and so would a report. `fsum`
    rounds the exact sum once. Here what was added is kept, and now and then replaced by the fewest
    floats with the same exact sum.
    """

    __slots__ = ("_parts",)

    def __init__(self, amount: float = 0.0) -> None:
        self._parts = [amount * _UNIT] if amount else []

    def add(self, amount: float) -> None:
        """Add an amount, which has to be finite."""
        parts = self._parts
        parts.append(amount * _UNIT)
        if len(parts) > _MAX_PARTS:
            self._shorten()

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self._parts += other._parts
        self._shorten()

    @property
    def total(self) -> float:
        """The sum, rounded once; infinite where it is too large for a float."""
        return fsum(self._parts) / _UNIT

    def mean(self, count: int) -> float:
        """Return the sum divided by a count."""
        return fsum(self._parts) / count / _UNIT

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        self._shorten()
        other._shorten()
        return self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<sum {self.total:g}>"

    def _shorten(self) -> None:
        """Replace the parts by the sum, what its rounding left out, and so on to the last digit."""
        parts, shorter = self._parts, []
        while rounded := fsum(parts):
            shorter.append(rounded)
            parts.append(-rounded)
        self._parts = shorter


@dataclass(slots=True)
class EvaluatorTally:
    """What one evaluator said, summed up."""

    rated: int = 0
    sums: dict[str, ExactSum] = field(default_factory=dict)
    """Sum over the rated rows, by aggregate path."""
    squares: dict[str, ExactSum] = field(default_factory=dict)
    """Sum of the squares, by aggregate path."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why the others have no value: ``missing: response``, ``timeout`` …"""
    failed: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """What those that failed failed of, by type."""
    unrated_parts: ExactSum = field(default_factory=ExactSum)
    """Of the rated rows, the shares of chunks that could not be rated, summed up."""
    cached: int = 0
    """Verdicts of earlier runs."""
    stood_in: int = 0
    """How many were rated by a stand-in by rules, and by no model."""
    probable: int = 0
    """How many of the rated rows have a probability, which decision models give."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest value, where values are numbers."""
    tokens: Usage = field(default_factory=Usage)
    """The tokens that were used, without their cost."""
    dollars: ExactSum | None = None
    """What they cost; ``None`` where no price is known."""
    seconds: ExactSum = field(default_factory=ExactSum)

    @property
    def not_applicable(self) -> int:
        """How many rows the evaluator does not apply to; it has no value for them by right."""
        return self.reasons.total() - self.failed - self.unanswered

    @property
    def unanswered(self) -> int:
        """How many rows the evaluator could not rate because their answer got lost."""
        return self.reasons[LOST_ANSWER]

    @property
    def usage(self) -> Usage:
        """The tokens that were used, and their cost."""
        return replace(self.tokens, cost_usd=None if self.dollars is None else self.dollars.total)

    def add(self, evaluation: Evaluation) -> None:
        """Take in one evaluation."""
        if evaluation.usage is not None:
            self._spend(evaluation.usage)
        if evaluation.duration is not None:
            self.seconds.add(evaluation.duration)
        value = evaluation.value
        if value is None:
            if evaluation.error is not None:
                self.failed += 1
                self.errors[evaluation.error.type] += 1
            self.reasons[_reason(evaluation)] += 1
            return
        self.rated += 1
        self.probable += evaluation.probability is not None
        metadata = evaluation.metadata
        if metadata:
            self.stood_in += is_stand_in(evaluation)
            self.cached += "cached" in metadata
            failed, ratings = metadata.get("failed"), metadata.get("ratings")
            if type(failed) is int and isinstance(ratings, (list, tuple)) and ratings:
                self.unrated_parts.add(min(1.0, failed / len(ratings)))
        if type(value) is float:
            self.low = value if self.low is None or value < self.low else self.low
            self.high = value if self.high is None or value > self.high else self.high
        for path, amount in contributions(evaluation).items():
            _sum_of(self.sums, path).add(amount)
            _sum_of(self.squares, path).add(min(amount * amount, _LARGEST))

    def means(self) -> dict[str, float]:
        """Return the mean by path, over the rows that have a value."""
        return {path: amount.mean(self._count(path)) for path, amount in self.sums.items()}

    def estimates(self) -> dict[str, Estimate]:
        """Return the mean by path with its 95 % interval, where the sums of squares are known."""
        is_share = self.low is None or self.high is None or 0 <= self.low <= self.high <= 1
        means = {
            path: mean_of_all(
                self._count(path), amount.total, self.squares[path].total,
                bounds=(0.0, 1.0) if is_share or path.endswith(PROBABILITY) else None,
            )
            for path, amount in self.sums.items()
            if path in self.squares
        }  # fmt: skip
        return {path: mean for path, mean in means.items() if mean is not None}

    def _count(self, path: str) -> int:
        return self.probable if path.endswith(PROBABILITY) else self.rated

    def _spend(self, usage: Usage) -> None:
        self.tokens += replace(usage, cost_usd=None)
        if usage.cost_usd is not None:
            self.dollars = self.dollars or ExactSum()
            self.dollars.add(usage.cost_usd)

    def merge(self, other: EvaluatorTally) -> None:
        """Take in what another part of the data gave."""
        self.rated += other.rated
        self.failed += other.failed
        self.errors.update(other.errors)
        self.unrated_parts.merge(other.unrated_parts)
        self.cached += other.cached
        self.stood_in += other.stood_in
        self.probable += other.probable
        self.seconds.merge(other.seconds)
        for mine, theirs in ((self.sums, other.sums), (self.squares, other.squares)):
            for path, amount in theirs.items():
                _sum_of(mine, path).merge(amount)
        self.reasons.update(other.reasons)
        self.tokens += other.tokens
        if other.dollars is not None:
            self.dollars = self.dollars or ExactSum()
            self.dollars.merge(other.dollars)
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        self.low, self.high = min(lows, default=None), max(highs, default=None)


LOST_ANSWER = "no answer"
"""Why an evaluator that needs an answer has no value for a row whose answer got lost."""
ASKED = "asked"
"""The key of `Aggregate.answers` for rows that should have an answer, whether they have or not."""
NO_ANSWER_SHARE = "no_answer/percentage"
"""The metric: the share of the rows without an answer, though the app neither raised nor said that
it abstains."""
ABSTAINED_SHARE = "abstained/percentage"
"""The metric, where there are any: the share of rows for which the app said that it abstains."""
ANSWER_METRICS = (NO_ANSWER_SHARE, ABSTAINED_SHARE)

_LARGEST = 1e300
"""The largest square that is added up: the sum stays finite, and its interval is wide."""


def _sum_of(sums: dict[str, ExactSum], path: str) -> ExactSum:
    known = sums.get(path)
    if known is None:
        known = sums[path] = ExactSum()
    return known


def _reason(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return evaluation.error.type
    missing_answer = evaluation.metadata.get(NO_ANSWER)
    if missing_answer is not None:
        return ABSTAINED if missing_answer == ABSTAINED else LOST_ANSWER
    lacking = evaluation.metadata.get("missing_inputs")
    return f"missing: {lacking}" if lacking else "not applicable"


@dataclass(slots=True)
class Aggregate:
    """What all rows say together. Add rows, or merge the aggregates of parts."""

    rows: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Rows on which the model raised, by type."""
    tallies: dict[str, EvaluatorTally] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    """Rows on which the model did not raise, by their answer: ``given``, ``abstained`` or ``lost``;
    and under `ASKED` those that should have one."""

    def add(self, row: Row) -> None:
        """Take in one row."""
        self.rows += 1
        if row.error is not None:
            self.errors[row.error.type] += 1
        else:
            self.answers[row.answer] += 1
            if row.record.response is not None or _is_missed(row):
                self.answers[ASKED] += 1
        for name, evaluation in row.evaluations.items():
            tally = self.tallies.get(name)
            if tally is None:
                tally = self.tallies[name] = EvaluatorTally()
            tally.add(evaluation)

    def merge(self, other: Aggregate) -> None:
        """Take in what another part of the data gave."""
        self.rows += other.rows
        self.errors.update(other.errors)
        self.answers.update(other.answers)
        for name, tally in other.tallies.items():
            self.tallies.setdefault(name, EvaluatorTally()).merge(tally)

    def put_in_order(self, evaluators: Iterable[str]) -> None:
        """Order what was counted: by the order of the evaluators, and the most frequent first.

        Until then the order is that in which rows happened to be finished.
        """
        places = {name: place for place, name in enumerate(evaluators)}
        last = len(places)
        names = sorted(self.tallies, key=lambda name: (places.get(name, last), name))
        self.tallies = {name: self.tallies[name] for name in names}
        self.errors = _most_frequent_first(self.errors)
        for tally in self.tallies.values():
            tally.reasons = _most_frequent_first(tally.reasons)
            tally.errors = _most_frequent_first(tally.errors)
            tally.sums = dict(sorted(tally.sums.items()))
            tally.squares = dict(sorted(tally.squares.items()))

    def metrics(self) -> dict[str, float]:
        """Return the means and shares by path, over the rows that have a value."""
        means = {
            path: mean for tally in self.tallies.values() for path, mean in tally.means().items()
        }
        return {**means, **{path: share.mean for path, share in self.answer_shares().items()}}

    @property
    def answerable(self) -> int:
        """How many rows have or might have an answer: those on which the model did not raise."""
        return sum(self.answers[state] for state in ("given", ABSTAINED, LOST))

    def answer_shares(self) -> dict[str, Estimate]:
        """Return the shares of rows without an answer and of those that abstained, by path.

        There is none where no answer was asked for, as in a data set of retrievals: no app was
        called, no row has an answer, and no evaluator missed it.
        """
        answers = self.answers
        asked = answers["given"] + answers[ABSTAINED] + answers[ASKED]
        rows = self.answerable
        counted = zip(ANSWER_METRICS, (answers[LOST], answers[ABSTAINED]), strict=True)
        shares = {
            path: mean_of_all(rows, float(count), float(count), bounds=(0.0, 1.0))
            for path, count in counted
            if asked and (count or path == NO_ANSWER_SHARE)
        }
        return {path: share for path, share in shares.items() if share is not None}

    def counts(self) -> dict[str, dict[str, int]]:
        """Return, by evaluator, how many rows were evaluated, not applicable, lost or failed."""
        return {
            name: {
                "evaluated": tally.rated,
                "not_applicable": tally.not_applicable,
                "no_answer": tally.unanswered,
                "failed": tally.failed,
            }
            for name, tally in self.tallies.items()
        }

    def usage(self) -> Usage:
        """Return what all judges used together."""
        return sum((tally.usage for tally in self.tallies.values()), Usage())

    def to_plain(self) -> dict[str, Any]:
        """Write it as JSON has it."""
        return {
            "rows": self.rows,
            "errors": self.errors,
            "answers": self.answers,
            "tallies": {
                name: {
                    "rated": tally.rated,
                    "sums": {path: amount.total for path, amount in tally.sums.items()},
                    "squares": {path: amount.total for path, amount in tally.squares.items()},
                    "reasons": tally.reasons,
                    "failed": tally.failed,
                    "errors": tally.errors,
                    "unrated_parts": tally.unrated_parts.total,
                    "cached": tally.cached,
                    "stood_in": tally.stood_in,
                    "probable": tally.probable,
                    "low": tally.low,
                    "high": tally.high,
                    "usage": [
                        tally.usage.input_tokens,
                        tally.usage.output_tokens,
                        tally.usage.total_tokens,
                        tally.usage.cost_usd,
                    ],
                    "seconds": tally.seconds.total,
                }
                for name, tally in self.tallies.items()
            },
        }


def _is_missed(row: Row) -> bool:
    """Say whether an evaluator missed the answer of a row."""
    return any(NO_ANSWER in each.metadata for each in row.evaluations.values())


def _most_frequent_first(counts: Counter[str]) -> Counter[str]:
    return Counter(dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))))


_NOT_OF_A_TALLY = ("usage", "distrusted")
"""The second was counted when verdicts had signatures."""


def from_plain(plain: Mapping[str, Any]) -> Aggregate:
    """Read what `Aggregate.to_plain` wrote."""
    tallies = {}
    for name, saved in plain["tallies"].items():
        *tokens, dollars = saved["usage"]
        rest = {key: amount for key, amount in saved.items() if key not in _NOT_OF_A_TALLY}
        tallies[name] = replace(
            EvaluatorTally(**rest),
            sums={path: ExactSum(amount) for path, amount in saved["sums"].items()},
            squares={path: ExactSum(amount) for path, amount in saved["squares"].items()},
            reasons=Counter(saved["reasons"]),
            errors=Counter(saved["errors"]),
            unrated_parts=ExactSum(saved["unrated_parts"]),
            tokens=Usage(*tokens),
            dollars=None if dollars is None else ExactSum(dollars),
            seconds=ExactSum(saved["seconds"]),
        )
    return Aggregate(plain["rows"], Counter(plain["errors"]), tallies, Counter(plain["answers"]))


class RunFacts(NamedTuple):
    """What is known of the run that made a report."""

    data: str = ""
    """The name of the data set, such as that of its file."""
    judge: str | None = None
    """The judge model, if judges ran."""
    created_ns: int = 0
    """When the run began, in nanoseconds since the epoch; 0 where that is not known."""


def run_of(header: Mapping[str, object]) -> RunFacts:
    """Read what the header of a report says of its run, whatever a stranger wrote there."""
    data, judge, created = (header.get(name) for name in RunFacts._fields)
    return RunFacts(
        data if isinstance(data, str) else "",
        judge if isinstance(judge, str) else None,
        created if type(created) is int and 0 < created < 1 << 63 else 0,
    )


@dataclass(frozen=True, slots=True)
class ReportContents:
    """What a report is made of; everything that writes a report needs no more of it.

    `Report` says what each field is.
    """

    rows: Sequence[Row]
    aggregate: Aggregate = field(default_factory=Aggregate)
    experiment: str = ""
    evaluators: tuple[str, ...] = ()
    skipped: int = 0
    problems: tuple[str, ...] = ()
    delivery: Mapping[str, ExporterStats] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    run: RunFacts = field(default_factory=RunFacts)

    @property
    def metrics(self) -> dict[str, float]:
        """Means, or shares in 0..1, by path, such as ``context_relevance/average``."""
        return ReportMetrics(self.aggregate.metrics())

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows were ``evaluated``, ``not_applicable`` or ``failed``, by evaluator."""
        return self.aggregate.counts()

    @property
    def reasons(self) -> dict[str, dict[str, int]]:
        """Why rows have no value, such as ``missing: response`` or ``timeout``, by evaluator."""
        return {name: dict(tally.reasons) for name, tally in self.aggregate.tallies.items()}

    @property
    def errors(self) -> dict[str, int]:
        """The number of rows on which ``model`` raised, by the type of the exception."""
        return dict(self.aggregate.errors)

    @property
    def judge_usage(self) -> Usage:
        """The tokens that the judges used, and their cost if the model's price is known."""
        return self.aggregate.usage()


def directions(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what the header of a report says of the evaluators that declare what is better."""
    declared = {name: better for name in names if (better := values.declared(name))}
    return {values.BETTER: declared} if declared else {}
