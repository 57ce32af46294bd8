"""What a report holds: rows, sums over them, and what is known of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llmeval_sdk.model import Usage
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.outputs import Output, ReportMetrics
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.pipeline.stats import ExporterStats


class RunFacts(NamedTuple):
    """What is known of the run that made a report."""

    data: str = ""
    """The name of the data set, such as that of its file."""
    judge: str | None = None
    """The judge model, if judges ran."""
    created_ns: int = 0
    """When the run began, in nanoseconds since the epoch; 0 where that is not known."""


def run_of(header: Mapping[str, Any]) -> RunFacts:
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
