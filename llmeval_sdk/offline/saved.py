"""The saved reports of a folder, for the viewer: what each says, and two of them compared.

Files may be broken or come from a stranger. Whatever is wrong with one is said in a sentence of its
own, and the other files are shown.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from llmeval_sdk.errors import DataError, LlmevalError
from llmeval_sdk.offline.report.aggregate import Aggregate, RunFacts, from_plain, run_of
from llmeval_sdk.offline.report.compare import Comparison, compare
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.offline.report.row import PROBABILITY, Row
from llmeval_sdk.offline.report.storage import RUN, file_ends, folder_ends
from llmeval_sdk.offline.report.summary import MetricLine, headline, lines, worst
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
    """The share of rows without an answer, and that of rows on which the app abstained; empty where
    no answer was asked for."""
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


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """One report as a page shows it."""

    headline: str
    problems: tuple[str, ...]
    lines: tuple[tuple[MetricLine, Estimate | None], ...]
    """The metrics with their intervals."""
    worst: tuple[Row, ...]
    rows: int
    about: SavedReport


MAX_REPORTS = 200
"""How many of a folder's reports are listed: the newest."""
_MAX_ENTRIES = 10_000
"""How many entries of a folder are looked at."""
MAX_WORST = 25
_SUFFIX = ".jsonl"


class SavedReports:
    """The reports in a folder: files of JSON lines, and folders that runs on Ray wrote.

    Args:
        folder: It need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[tuple[str, Any], SavedReport] = {}

    def listed(self, *, seconds: float = 1.0) -> Listing:
        """Read the newest reports, for a limited time. The next call reads those that are left."""
        deadline = time.monotonic() + seconds
        candidates = sorted(self._candidates(), key=lambda each: (-each[1], each[0]))
        reports, read = [], {}
        for name, changed_ns, mark in candidates[:MAX_REPORTS]:
            known = self._read.get((name, mark))
            if known is None and time.monotonic() > deadline:
                late = "There was no time to read it; reload the page."
                reports.append(SavedReport(name, changed_ns, late))
                continue
            known = known or self._summary(name, changed_ns)
            read[name, mark] = known
            reports.append(known)
        self._read = read
        reports.sort(key=lambda each: -each.time_ns)
        return Listing(tuple(reports), max(0, len(candidates) - MAX_REPORTS))

    def has_any(self) -> bool:
        """Say whether the folder has anything that may be a report."""
        return any(True for _ in self._candidates())

    def names(self) -> list[str]:
        """Return the names of all that may be a report."""
        return sorted(name for name, _, _ in self._candidates())

    def mark(self, name: str) -> Any:
        """Return what changes whenever a report does.

        Raises:
            DataError: the folder has no report with this name.
        """
        for candidate, _, mark in self._candidates():
            if candidate == name:
                return mark
        raise DataError(f"there is no report {name!r:.120} in {self.folder}")

    def opened(self, name: str, tick: Callable[[int], None]) -> OpenedReport:
        """Read one report; ``tick`` is told of each row.

        Raises:
            LlmevalError: the report cannot be read; the message says why.
        """
        with readable(name):
            report = self._load(name)

            def rows_with_ticks() -> Iterator[Row]:
                for row in report.rows:
                    tick(1)
                    yield row

            rows = worst(rows_with_ticks(), MAX_WORST)
            estimates = _estimates(report.aggregate)
            metrics = [(line, estimates.get((line.evaluator, line.path))) for line in lines(report)]
            return OpenedReport(
                headline(report),
                report.problems,
                tuple(metrics),
                tuple(rows),
                len(report.rows),
                self._summary(name, 0),
            )

    def compared(self, now: str, before: str, tick: Callable[[int], None]) -> Comparison:
        """Compare two reports as `Report.compare` does; ``tick`` is told of each row that was read.

        Raises:
            LlmevalError: a report cannot be read, or they have no row in common.
        """
        with readable(before):
            baseline = self._load(before)
        with readable(now):
            report = self._load(now)
        with readable(f"{before} or {now}"):
            return compare(report, baseline, tick=tick)

    def size(self, name: str) -> int | None:
        """Return how many rows a report says it has."""
        return next((each.rows for each in self._read.values() if each.name == name), None)

    def _load(self, name: str) -> Report:
        self.mark(name)
        return Report.load(self.folder / name)

    def _candidates(self) -> Iterator[tuple[str, int, Any]]:
        """Yield name, time and mark of all that may be a report; pipes and devices never are."""
        try:
            entries = self.folder.iterdir()
            for _, path in zip(range(_MAX_ENTRIES), entries, strict=False):
                file = path / RUN if path.is_dir() else path
                if path.suffix != _SUFFIX and file == path:
                    continue
                try:
                    status = file.stat()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    mark = status.st_ino, status.st_size, status.st_mtime_ns
                    yield path.name, status.st_mtime_ns, mark
        except OSError:
            return

    def _summary(self, name: str, changed_ns: int) -> SavedReport:
        path = self.folder / name
        try:
            with readable(name):
                header, end = folder_ends(path) if path.is_dir() else file_ends(path)
                if end is None:
                    return SavedReport(
                        name, changed_ns, experiment=str(header.get("experiment", ""))[:200],
                        run=run_of(header),
                    )  # fmt: skip
                aggregate = from_plain(end["end"])
                usage = aggregate.usage()
                return SavedReport(
                    name,
                    changed_ns,
                    "",
                    str(header.get("experiment", ""))[:200],
                    run_of(header),
                    int(aggregate.rows),
                    int(sum(aggregate.errors.values())),
                    tuple(_answers(aggregate)),
                    tuple(_scores(aggregate)),
                    usage.cost_usd,
                    usage.total_tokens or 0,
                )
        except LlmevalError as error:
            return SavedReport(name, changed_ns, str(error))


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn any failure inside the block into a `DataError` that names the report."""
    try:
        yield
    except LlmevalError:
        raise
    except Exception as error:  # whatever a broken file leads to
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{name:.120} is damaged and cannot be read ({why:.200})") from None


def _scores(aggregate: Aggregate) -> Iterator[EvaluatorMean]:
    """Yield one metric of each evaluator: of categories, the most frequent one."""
    for name, tally in aggregate.tallies.items():
        means = tally.means()
        paths = [path for path in means if not path.endswith(PROBABILITY)]
        if paths:
            path = max(paths, key=lambda each: means[each])
            estimate = tally.estimates().get(path)
            low, high = (None, None) if estimate is None else (estimate.low, estimate.high)
            yield EvaluatorMean(str(name), str(path), means[path], low, high, int(tally.rated))


def _answers(aggregate: Aggregate) -> Iterator[EvaluatorMean]:
    for path, share in aggregate.answer_shares().items():
        name = path.partition("/")[0]
        yield EvaluatorMean(name, path, share.mean, share.low, share.high, aggregate.answerable)


def _estimates(aggregate: Aggregate) -> dict[tuple[str, str], Estimate]:
    shares = aggregate.answer_shares()
    return {(path.partition("/")[0], path): share for path, share in shares.items()} | {
        (name, path): estimate
        for name, tally in aggregate.tallies.items()
        for path, estimate in tally.estimates().items()
    }
