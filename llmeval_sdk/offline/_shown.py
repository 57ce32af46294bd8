"""What pages show of saved reports: of each in a list, of one of them, and of two compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from llmeval_sdk.model import Evaluation, Failure
from llmeval_sdk.offline.report.compare import Change
from llmeval_sdk.offline.report.contents import RunFacts
from llmeval_sdk.offline.report.pairs import MOST_TEXT
from llmeval_sdk.offline.report.summary import MetricLine
from llmeval_sdk.statistics.mean import Estimate


class EvaluatorMean(NamedTuple):
    """What one evaluator says over a whole report."""

    evaluator: str
    path: str
    mean: float
    low: float | None
    """The 95 % interval of the mean; ``None`` in reports of releases that did not keep it."""
    high: float | None
    rated: int


@dataclass(frozen=True, slots=True)
class SavedReport:
    """One report of a folder, or the reason why it cannot be read."""

    name: str
    """The name of its file or folder, which identifies it."""
    changed_ns: int
    """When the file was last changed, in nanoseconds since the epoch."""
    problem: str = ""
    """Why it cannot be read; the fields below are then empty."""
    experiment: str = ""
    run: RunFacts = RunFacts()  # noqa: RUF009 - it is immutable
    rows: int | None = None
    """How many rows it has; ``None`` if the run did not finish."""
    raised: int = 0
    """On how many rows the model raised."""
    answers: tuple[EvaluatorMean, ...] = ()
    """The share of rows without an answer, and that of rows on which the app abstained; empty in
    reports of earlier releases, and where no answer was asked for."""
    scores: tuple[EvaluatorMean, ...] = ()
    cost_usd: float | None = None
    """What the judges cost, if their price is known."""
    tokens: int = 0
    """What the judges used."""

    @property
    def time_ns(self) -> int:
        """When the run began, else when its file was last changed."""
        return self.run.created_ns or self.changed_ns


class Listing(NamedTuple):
    """The newest reports of a folder."""

    reports: tuple[SavedReport, ...]
    left_out: int
    """How many older ones are not listed."""


class ShownRow(NamedTuple):
    """One row as a page shows it."""

    id: str
    texts: Mapping[str, str]
    """Request, answer and what was expected, by the names of the columns."""
    error: Failure | None
    """What the model raised on it."""
    evaluations: Mapping[str, Evaluation]
    """Those that say anything."""
    most_text: int = MOST_TEXT
    """How many characters of a text are shown."""


class ShownPair(NamedTuple):
    """One row of two reports as a page shows it."""

    before: ShownRow
    after: ShownRow
    steps: Mapping[str, float | None]
    """By how much each evaluator got better, or worse if that is negative; see `step_of`."""


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """One report as a page shows it."""

    headline: str
    problems: tuple[str, ...]
    lines: tuple[tuple[MetricLine, Estimate | None], ...]
    """The metrics with their intervals."""
    worst: tuple[ShownRow, ...]
    rows: int
    about: SavedReport


@dataclass(frozen=True, slots=True)
class ComparedReports:
    """Two reports as a page shows them."""

    changes: tuple[Change, ...]
    worse: frozenset[str]
    """The metrics that surely got worse, seen together."""
    lost: tuple[str, ...]
    unrated: Mapping[str, int]
    """How many rows evaluators rated before and do not rate now."""
    pairs: int
    only_before: int
    only_after: int
    regressed: int
    changed: int
    rows: tuple[ShownPair, ...]
    """The worst changes first."""
