"""What a gate in CI decides on: bounds on metrics, a comparison with a baseline, and failures.

A bound only counts when the evaluator rated enough of the rows that had its inputs.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.scoring import ABSTAINED, LOST
from llmeval_sdk.offline.report.aggregate import ABSTAINED_SHARE, ANSWER_METRICS, LOST_ANSWER
from llmeval_sdk.offline.report.compare import NOTHING_COMPARED, describe_change
from llmeval_sdk.offline.report.row import Output, metric_called, metric_paths
from llmeval_sdk.offline.report.summary import STOOD_IN, stood_in
from llmeval_sdk.text.terminal import plural


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.aggregate import ReportContents
    from llmeval_sdk.offline.report.compare import Comparison


MIN_RATED = 0.9
"""Share of the rows with an evaluator's inputs that it must rate for its metrics to count."""


def below(
    report: ReportContents, at_least: Mapping[str, float], min_rated: float = MIN_RATED
) -> dict[str, float | None]:
    """See `Report.below`.

    The share of a category that never occurred is 0. A metric of an evaluator that rated no row, or
    too few of those that had its inputs, has no value, and misses every bound.
    """
    return _missed(report, at_least, min_rated, float.__lt__)


def above(
    report: ReportContents, at_most: Mapping[str, float], min_rated: float = MIN_RATED
) -> dict[str, float | None]:
    """See `Report.above`; what `below` says of metrics without a value holds here too."""
    return _missed(report, at_most, min_rated, float.__gt__)


def _missed(
    report: ReportContents,
    bounds: Mapping[str, float],
    min_rated: float,
    is_beyond: Callable[[float, float], bool],
) -> dict[str, float | None]:
    """Return the metrics that are beyond their bound, or have no value."""
    _check_share(min_rated)
    missed: dict[str, float | None] = {}
    for path, bound in bounds.items():
        name = _owner(report, path)
        value = None if _too_few(report, name, min_rated) else _value(report, path, name)
        if value is None or is_beyond(float(value), float(bound)):
            missed[path] = value
    return missed


def _value(report: ReportContents, path: str, name: str) -> float | None:
    """Return a metric; raises `ConfigurationError` where its evaluator has none of this path."""
    if path in ANSWER_METRICS:
        return _share_of_answers(report, path)
    tally = report.aggregate.tallies.get(name)
    if tally is None or not tally.rated:
        return None
    value = report.metrics.get(path)
    if value is None and not _is_category(path, name):
        raise _no_metric(path, report.outputs)
    return value or 0.0


def _share_of_answers(report: ReportContents, path: str) -> float | None:
    """Return a share of rows; a data set in which nobody abstained has none of it in its report."""
    shares = report.aggregate.answer_shares()
    if path == ABSTAINED_SHARE and path not in shares and shares:
        return 0.0
    return shares[path].mean if path in shares else None


def _check_share(min_rated: float) -> None:
    """Refuse a share outside 0..1; raises `ConfigurationError`."""
    if not 0 <= min_rated <= 1:
        raise ConfigurationError(f"min_rated is a share of rows, from 0 to 1, not {min_rated:g}")


def check_paths(paths: Iterable[str], outputs: Mapping[str, Output]) -> None:
    """Refuse a metric that none of these evaluators can have, before anything is paid for.

    Raises:
        ConfigurationError: naming the nearest path.
    """
    for path in paths:
        if _owner_of(path, outputs) is None:
            raise _no_metric(path, outputs)


def _owner_of(path: str, outputs: Mapping[str, Output]) -> str | None:
    """Find the evaluator that can have a metric; a share of answers belongs to none."""
    path = metric_called(path)
    if path in ANSWER_METRICS:
        return path.partition("/")[0]
    return next(
        (
            name
            for name, output in outputs.items()
            for known in metric_paths(name, output)
            if known == path or (known == f"{name}/*/percentage" and _is_category(path, name))
        ),
        None,
    )


def _owner(report: ReportContents, path: str) -> str:
    path = metric_called(path)
    for name, tally in report.aggregate.tallies.items():
        if path in tally.sums:
            return name
    name = _owner_of(path, report.outputs) or ""
    if not name:
        raise _no_metric(path, report.outputs)
    return name


def _is_category(path: str, name: str) -> bool:
    word = path.removeprefix(f"{name}/").removesuffix("/percentage")
    return path == f"{name}/{word}/percentage" and word not in ("", "rating", "*")


def _no_metric(path: str, outputs: Mapping[str, Output]) -> ConfigurationError:
    known: dict[str, str] = {}
    paths = [
        (name, full) for name, output in outputs.items() for full in metric_paths(name, output)
    ]
    if paths:
        paths += [(path.partition("/")[0], path) for path in ANSWER_METRICS]
    for name, full in paths:
        shown = full.replace("*", "CATEGORY")
        short = full.rpartition(f"{name}/")[2]
        for spelt in (shown, name, f"{name}/{short}", f"{name}/{full.rpartition('/')[2]}"):
            known.setdefault(spelt, shown)
    close = difflib.get_close_matches(path, known, n=1, cutoff=0.5)
    hint = (
        f"did you mean {known[close[0]]!r}?"
        if close
        else (f"this run has {', '.join(dict.fromkeys(known.values())) or 'no evaluator'}")
    )
    return ConfigurationError(f"no metric {path!r}: {hint}")


def _rated_share(report: ReportContents, name: str) -> float | None:
    """Return the share of the rows with an evaluator's inputs that it rated.

    A row whose answer got lost had them, and is not rated. A row of which some chunks could not be
    rated counts in part. ``None`` where no row had inputs.
    """
    tally = report.aggregate.tallies.get(name)
    rows = 0 if tally is None else tally.rated + tally.failed + tally.unanswered
    if tally is None or not rows:
        return None
    return (tally.rated - tally.unrated_parts.total) / rows


def _too_few(report: ReportContents, name: str, min_rated: float) -> bool:
    """Say whether an evaluator rated so few rows that its metrics do not count."""
    share = _rated_share(report, name)
    return share is not None and share < min_rated


class _MetricBound(NamedTuple):
    """What is asked of one metric, and how that is told."""

    value: float
    min_rated: float
    asked: str
    beyond: str

    def __str__(self) -> str:
        return f"{self.asked} {self.value:g}"


def _describe_too_few(report: ReportContents, name: str, min_rated: float) -> str:
    """Say how many rows an evaluator rated, how many are needed, and why others were not."""
    tally = report.aggregate.tallies[name]
    share = _rated_share(report, name) or 0.0
    unrated = tally.errors + Counter({LOST_ANSWER: tally.unanswered})
    reasons = ", ".join(f"{reason} ({times:,})" for reason, times in unrated.most_common(3))
    why = f": {reasons}" if reasons else ""
    parts = " or lost their answer" if tally.unanswered else ""
    parts += " in part" if tally.unrated_parts.total else ""
    return (
        f"{name} rated {tally.rated:,} of the "
        f"{tally.rated + tally.failed + tally.unanswered:,} rows that had its inputs{parts}, "
        f"{share:.0%} where at least {min_rated:.0%} is asked for{why}"
    )


def _describe_missed(
    report: ReportContents, path: str, value: float | None, bound: _MetricBound
) -> str:
    """Say how a bound was missed, with how many rows speak for it."""
    name = _owner(report, path)
    if _too_few(report, name, bound.min_rated):
        return f"{path} does not count: {_describe_too_few(report, name, bound.min_rated)}"
    if value is None:
        return f"{path} has no value ({bound} is asked for): {_why(report, name)}"
    return f"{path} is {value:.4g}, {bound.beyond} {bound.value:g} {_spoken_for(report, path)}"


def _spoken_for(report: ReportContents, path: str) -> str:
    """Say how many rows a metric is over, and how many it is not."""
    if path in ANSWER_METRICS:
        answers = report.aggregate.answers
        lost, abstained = answers[LOST], answers[ABSTAINED]
        rows = plural(report.aggregate.answerable, "row")
        parts = [rows, f"{lost:,} without an answer", f"{abstained:,} abstained"]
        return f"({', '.join(parts if abstained else parts[:2])})"
    counts = report.counts.get(_owner(report, path), {})
    rated = counts.get("evaluated", 0)
    parts = [f"{rated:,} row{'' if rated == 1 else 's'} rated"]
    parts += [f"{counts['failed']:,} failed"] if counts.get("failed") else []
    parts += [f"{counts['no_answer']:,} without an answer"] if counts.get("no_answer") else []
    lacking = counts.get("not_applicable", 0)
    parts += [f"{lacking:,} not applicable"] if lacking else []
    by = f", {STOOD_IN}" if _owner(report, path) in stood_in(report) else ""
    return f"({', '.join(parts)}){by}"


def _why(report: ReportContents, name: str) -> str:
    reasons = report.reasons.get(name)
    if not reasons:
        return "no row was evaluated"
    return ", ".join(f"{times:,} rows: {reason}" for reason, times in reasons.items())


@dataclass(frozen=True, slots=True)
class ReportGate:
    """What is asked of a report."""

    at_least: Mapping[str, float] = field(default_factory=dict)
    """The least value of metrics, by path."""
    compared: Comparison | None = None
    min_rated: float = MIN_RATED
    """The least share of rows that each evaluator must rate of those that have its inputs."""
    at_most: Mapping[str, float] = field(default_factory=dict)
    """The greatest value of metrics, by path."""

    @property
    def decides(self) -> bool:
        """Whether anything was asked; else every row decides by itself."""
        return bool(self.at_least or self.at_most) or self.asks_all

    @property
    def asks_all(self) -> bool:
        """Whether every evaluator has to rate enough rows, and not only those with a bound."""
        return self.compared is not None or self.min_rated > MIN_RATED


class Check(NamedTuple):
    """One thing that a gate looks at."""

    word: Literal["ok", "FAILED", "WORSE", "LOST"]
    said: str
    name: str
    """What JUnit calls it."""
    evaluator: str | None = None
    """Whose metric it is about."""

    @property
    def passed(self) -> bool:
        """Whether it lets a change through."""
        return self.word == "ok"


def checks(report: ReportContents, gate: ReportGate) -> list[Check]:
    """Return what was asked of a report and how it went, failures first.

    Errors of the app and an exhausted budget count as failures even if nothing was asked.
    """
    done = [
        *_bounds(report, gate),
        *_rated(report, gate),
        *_against(report, gate),
        *_budget(report),
        *_errors(report),
    ]
    return sorted(done, key=lambda check: check.passed)


def _bounds(report: ReportContents, gate: ReportGate) -> Iterator[Check]:
    lower = below(report, gate.at_least, gate.min_rated)
    upper = above(report, gate.at_most, gate.min_rated)
    for bounds, missed, sign, asked, beyond in (
        (gate.at_least, lower, ">=", "at least", "below"),
        (gate.at_most, upper, "<=", "at most", "above"),
    ):
        for path, value in bounds.items():
            bound = _MetricBound(value, gate.min_rated, asked, beyond)
            name, owner = f"{path} {sign} {value:g}", _owner_of(path, report.outputs)
            if path in missed:
                message = _describe_missed(report, path, missed[path], bound)
                yield Check("FAILED", message, name, owner)
            else:
                said = f"{path} is {report.metrics.get(path, 0.0):.4g}, {bound}"
                yield Check("ok", f"{said} {_spoken_for(report, path)}", name, owner)


def _rated(report: ReportContents, gate: ReportGate) -> Iterator[Check]:
    """Check that evaluators without a bound, which was checked already, rated enough rows."""
    bound = {_owner_of(path, report.outputs) for path in (*gate.at_least, *gate.at_most)}
    for name in report.aggregate.tallies if gate.asks_all else ():
        if name not in bound and _too_few(report, name, gate.min_rated):
            message = _describe_too_few(report, name, gate.min_rated)
            yield Check("FAILED", message, f"{name} rates {gate.min_rated:.0%} of rows", name)


def _against(report: ReportContents, gate: ReportGate) -> Iterator[Check]:
    compared = gate.compared
    if compared is None:
        return
    is_well = True
    for change in compared.worse:
        owner = _owner_of(change.path, report.outputs)
        yield Check("WORSE", describe_change(change), f"{change.path} no worse", owner)
        is_well = False
    for name in compared.lost:
        message = f"{name} rated rows before, and none of them now"
        yield Check("LOST", message, f"{name} rates rows", name)
        is_well = False
    for name in dict.fromkeys((*compared.unrated, *compared.gone)):
        unrated, gone = compared.unrated.get(name, 0), compared.gone.get(name, 0)
        before = compared.rated_before.get(name, 0) + gone
        if name not in compared.lost and 1 - (unrated + gone) / before < gate.min_rated:
            rows = f"{unrated + gone:,} of the {before:,} rows that it rated before"
            why = f": {gone:,} of them are not in the data now" if gone else ""
            message = f"{name} does not rate {rows}{why}"
            yield Check("LOST", message, f"{name} rates what it rated before", name)
            is_well = False
    if compared.is_empty:
        yield Check("FAILED", NOTHING_COMPARED, "a metric is compared")
        is_well = False
    if is_well:
        rows = plural(compared.pairs, "row")
        missing = sum(compared.unrated.values()) + sum(compared.gone.values())
        rows += f", {plural(missing, 'rating')} of before missing" if missing else ""
        message = f"no metric surely got worse than in the baseline ({rows})"
        yield Check("ok", message, "no metric is worse")


_UNPAID = {
    "over_budget": "the budget was used up",
    "no_ledger": "the ledger of the budget could not be used",
}


def _budget(report: ReportContents) -> Iterator[Check]:
    for name, tally in report.aggregate.tallies.items():
        for reason, why in _UNPAID.items():
            if times := tally.errors[reason]:
                message = f"{why}: {plural(times, 'judgement')} of {name} not made"
                yield Check("FAILED", message, f"the budget is enough for {name}", name)


def _errors(report: ReportContents) -> Iterator[Check]:
    if report.errors:
        rows = plural(sum(report.errors.values()), "row")
        yield Check("FAILED", f"the model raised on {rows}", "the model answers every row")
