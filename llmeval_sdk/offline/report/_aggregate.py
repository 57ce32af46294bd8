"""Evaluations of many rows -> metrics by path. Parts of a data set merge, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmeval_sdk.model import Evaluation, Usage, is_stand_in
from llmeval_sdk.offline.report._outputs import PROBABILITY, contributions
from llmeval_sdk.offline.report.row import Row


@dataclass(slots=True)
class EvaluatorTally:
    """What one evaluator said, summed up."""

    rated: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    """Sum over the rated rows, by aggregate path."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why the others have no value: ``missing: response``, ``timeout`` …"""
    failed: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """What those that failed failed of, by type."""
    unrated_parts: float = 0.0
    """Of the rated rows, the shares of chunks that could not be rated, summed up."""
    cached: int = 0
    """Verdicts of earlier runs."""
    stood_in: int = 0
    """How many were rated by a stand-in by rules, and by no model."""
    distrusted: int = 0
    """Verdicts that were judged anew, since the kept ones were not signed with our key."""
    probable: int = 0
    """How many of the rated rows have a probability, which decision models give."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest value, where values are numbers."""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    def add(self, evaluation: Evaluation) -> None:
        """Take in one evaluation."""
        if "distrusted_cache" in evaluation.metadata:
            self.distrusted += 1
        if evaluation.usage is not None:
            self.usage += evaluation.usage
        if evaluation.duration is not None:
            self.seconds += evaluation.duration
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
                self.unrated_parts += min(1.0, failed / len(ratings))
        if type(value) is float:
            self.low = value if self.low is None or value < self.low else self.low
            self.high = value if self.high is None or value > self.high else self.high
        for path, amount in contributions(evaluation).items():
            self.sums[path] += amount  # type: ignore[assignment]  # a Counter holds floats too

    def merge(self, other: EvaluatorTally) -> None:
        """Take in what another part of the data gave."""
        self.rated += other.rated
        self.failed += other.failed
        self.errors.update(other.errors)
        self.unrated_parts += other.unrated_parts
        self.cached += other.cached
        self.distrusted += other.distrusted
        self.stood_in += other.stood_in
        self.probable += other.probable
        self.seconds += other.seconds
        for path, amount in other.sums.items():
            self.sums[path] += amount
        self.reasons.update(other.reasons)
        self.usage += other.usage
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        self.low, self.high = min(lows, default=None), max(highs, default=None)


def _reason(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return evaluation.error.type
    lacking = evaluation.metadata.get("missing_inputs")
    return f"missing: {lacking}" if lacking else "not applicable"


@dataclass(slots=True)
class Aggregate:
    """What all rows say together. Add rows, or merge the aggregates of parts."""

    rows: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Rows on which the model raised, by type."""
    tallies: dict[str, EvaluatorTally] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Take in one row."""
        self.rows += 1
        if row.error is not None:
            self.errors[row.error.type] += 1
        for name, evaluation in row.evaluations.items():
            tally = self.tallies.get(name)
            if tally is None:
                tally = self.tallies[name] = EvaluatorTally()
            tally.add(evaluation)

    def merge(self, other: Aggregate) -> None:
        """Take in what another part of the data gave."""
        self.rows += other.rows
        self.errors.update(other.errors)
        for name, tally in other.tallies.items():
            self.tallies.setdefault(name, EvaluatorTally()).merge(tally)

    def metrics(self) -> dict[str, float]:
        """Return the means and shares by path, over the rows that have a value."""
        return {
            path: amount / (tally.probable if path.endswith(PROBABILITY) else tally.rated)
            for tally in self.tallies.values()
            for path, amount in tally.sums.items()
        }

    def counts(self) -> dict[str, dict[str, int]]:
        """Return, by evaluator, how many rows were evaluated, not applicable and failed."""
        return {
            name: {
                "evaluated": tally.rated,
                "not_applicable": sum(tally.reasons.values()) - tally.failed,
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
            "tallies": {
                name: {
                    "rated": tally.rated,
                    "sums": tally.sums,
                    "reasons": tally.reasons,
                    "failed": tally.failed,
                    "errors": tally.errors,
                    "unrated_parts": tally.unrated_parts,
                    "cached": tally.cached,
                    "distrusted": tally.distrusted,
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
                    "seconds": tally.seconds,
                }
                for name, tally in self.tallies.items()
            },
        }


def from_plain(plain: Mapping[str, Any]) -> Aggregate:
    """Read what `Aggregate.to_plain` wrote."""
    tallies = {name: EvaluatorTally(**each) for name, each in plain["tallies"].items()}
    for name, tally in tallies.items():
        tallies[name] = replace(
            tally,
            sums=Counter(tally.sums),
            reasons=Counter(tally.reasons),
            errors=Counter(tally.errors),
            usage=Usage(*plain["tallies"][name]["usage"]),
        )
    return Aggregate(plain["rows"], Counter(plain["errors"]), tallies)
