"""What a gate in CI decides on: bounds on metrics, a comparison with a baseline, and failures.

A bound only counts when the evaluator rated enough of the rows that had its inputs.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from llmeval_sdk._terminal import plural
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.offline.report._aggregate import LOST_ANSWER
from llmeval_sdk.offline.report._outputs import Output, metric_called, metric_paths
from llmeval_sdk.offline.report.compare import NOTHING_COMPARED, describe_change
from llmeval_sdk.offline.report.summary import STOOD_IN, stood_in


if TYPE_CHECKING:
    from llmeval_sdk.offline.report._report import Report
    from llmeval_sdk.offline.report.compare import Comparison


MIN_RATED = 0.9
"""Share of the rows with an evaluator's inputs that it must rate for its metrics to count."""


def below(
    report: Report, at_least: Mapping[str, float], min_rated: float = MIN_RATED
) -> dict[str, float | None]:
    """See `Report.below`.

    The share of a category that never occurred is 0. A metric of an evaluator that rated no row, or
    too few of those that had its inputs, has no value, and misses every bound.
    """
    _check_share(min_rated)
    metrics = report.metrics
    missed: dict[str, float | None] = {}
    for path, bound in at_least.items():
        name = _owner(report, path)
        tally = report.aggregate.tallies.get(name)
        value = None
        if tally is not None and tally.rated:
            value = metrics.get(path)
            if value is None and not _is_category(path, name):
                raise _no_metric(path, report.outputs)
            value = value or 0.0
        if value is None or value < bound or _too_few(report, name, min_rated):
            missed[path] = None if _too_few(report, name, min_rated) else value
    return missed


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
    """Find the evaluator that can have a metric."""
    path = metric_called(path)
    return next(
        (
            name
            for name, output in outputs.items()
            for known in metric_paths(name, output)
            if known == path or (known == f"{name}/*/percentage" and _is_category(path, name))
        ),
        None,
    )


def _owner(report: Report, path: str) -> str:
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
    for name, output in outputs.items():
        for full in metric_paths(name, output):
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


def _rated_share(report: Report, name: str) -> float | None:
    """Return the share of the rows with an evaluator's inputs that it rated.

    A row whose answer got lost had them, and is not rated. A row of which some chunks could not be
    rated counts in part. ``None`` where no row had inputs.
    """
    tally = report.aggregate.tallies.get(name)
    rows = 0 if tally is None else tally.rated + tally.failed + tally.unanswered
    if tally is None or not rows:
        return None
    return (tally.rated - tally.unrated_parts.total) / rows


def _too_few(report: Report, name: str, min_rated: float) -> bool:
    """Say whether an evaluator rated so few rows that its metrics do not count."""
    share = _rated_share(report, name)
    return share is not None and share < min_rated


def _describe_too_few(report: Report, name: str, min_rated: float) -> str:
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
    report: Report, path: str, value: float | None, bound: float, min_rated: float = MIN_RATED
) -> str:
    """Say how a bound was missed, with how many rows speak for it."""
    name = _owner(report, path)
    if _too_few(report, name, min_rated):
        return f"{path} does not count: {_describe_too_few(report, name, min_rated)}"
    if value is None:
        return f"{path} has no value (at least {bound:g} is asked for): {_why(report, name)}"
    return f"{path} is {value:.4g}, below {bound:g} {_spoken_for(report, path)}"


def _spoken_for(report: Report, path: str) -> str:
    """Say how many rows a metric is over, and how many it is not."""
    counts = report.counts.get(_owner(report, path), {})
    rated = counts.get("evaluated", 0)
    parts = [f"{rated:,} row{'' if rated == 1 else 's'} rated"]
    parts += [f"{counts['failed']:,} failed"] if counts.get("failed") else []
    parts += [f"{counts['no_answer']:,} without an answer"] if counts.get("no_answer") else []
    lacking = counts.get("not_applicable", 0)
    parts += [f"{lacking:,} not applicable"] if lacking else []
    by = f", {STOOD_IN}" if _owner(report, path) in stood_in(report) else ""
    return f"({', '.join(parts)}){by}"


def _why(report: Report, name: str) -> str:
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

    @property
    def decides(self) -> bool:
        """Whether anything was asked; else every row decides by itself."""
        return bool(self.at_least) or self.asks_all

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


def checks(report: Report, gate: ReportGate) -> list[Check]:
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


def _bounds(report: Report, gate: ReportGate) -> Iterator[Check]:
    missed = below(report, gate.at_least, gate.min_rated)
    for path, bound in gate.at_least.items():
        name, owner = f"{path} >= {bound:g}", _owner_of(path, report.outputs)
        if path in missed:
            message = _describe_missed(report, path, missed[path], bound, gate.min_rated)
            yield Check("FAILED", message, name, owner)
        else:
            value = report.metrics.get(path, 0.0)
            over = _spoken_for(report, path)
            yield Check("ok", f"{path} is {value:.4g}, at least {bound:g} {over}", name, owner)


def _rated(report: Report, gate: ReportGate) -> Iterator[Check]:
    """Check that evaluators without a bound, which was checked already, rated enough rows."""
    bound = {_owner_of(path, report.outputs) for path in gate.at_least}
    for name in report.aggregate.tallies if gate.asks_all else ():
        if name not in bound and _too_few(report, name, gate.min_rated):
            message = _describe_too_few(report, name, gate.min_rated)
            yield Check("FAILED", message, f"{name} rates {gate.min_rated:.0%} of rows", name)


def _against(report: Report, gate: ReportGate) -> Iterator[Check]:
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
    for name, count in compared.unrated.items():
        before = compared.rated_before[name]
        if name not in compared.lost and 1 - count / before < gate.min_rated:
            message = f"{name} does not rate {count:,} of the {before:,} rows that it rated before"
            yield Check("LOST", message, f"{name} rates what it rated before", name)
            is_well = False
    if compared.is_empty:
        yield Check("FAILED", NOTHING_COMPARED, "a metric is compared")
        is_well = False
    if is_well:
        rows = plural(compared.pairs, "row")
        unrated = sum(compared.unrated.values())
        rows += f", {plural(unrated, 'rating')} of before missing" if unrated else ""
        message = f"no metric surely got worse than in the baseline ({rows})"
        yield Check("ok", message, "no metric is worse")


def _budget(report: Report) -> Iterator[Check]:
    for name, tally in report.aggregate.tallies.items():
        times = tally.errors["over_budget"]
        if times:
            message = f"the budget was used up: {plural(times, 'judgement')} of {name} not made"
            yield Check("FAILED", message, f"the budget is enough for {name}", name)


def _errors(report: Report) -> Iterator[Check]:
    if report.errors:
        rows = plural(sum(report.errors.values()), "row")
        yield Check("FAILED", f"the model raised on {rows}", "the model answers every row")
