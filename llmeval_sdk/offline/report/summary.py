"""A report's metrics as rows of a table, shared by what is printed and what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk._terminal import number


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.report import Report


class Line(NamedTuple):
    """One metric, or an evaluator without any."""

    path: str
    value: float | None
    rated: int
    failed: int
    not_applicable: int
    why: str
    """Why rows have no value, the most frequent reasons first."""
    evaluator: str
    stood_in: bool = False
    """Whether a stand-in by rules rated rows, and no model."""


STOOD_IN = "by a stand-in, no model"


def stood_in(report: Report) -> list[str]:
    """Return the evaluators whose ratings, or some of them, are those of a stand-in by rules."""
    return [name for name, tally in report.aggregate.tallies.items() if tally.stood_in]


def lines(report: Report) -> list[Line]:
    """Return a line for each metric, in the order of the evaluators."""
    found = []
    for name, tally in report.aggregate.tallies.items():
        said = [f"{reason} ({times:,})" for reason, times in tally.reasons.most_common(3)]
        rest = sum(tally.reasons.values()) - tally.failed
        about = (tally.rated, tally.failed, rest, "; ".join(said), name, bool(tally.stood_in))
        paths = sorted(tally.sums.items(), key=lambda each: (-each[1], each[0]))
        found += [Line(path, amount / tally.rated, *about) for path, amount in paths]
        if not paths:
            found.append(Line(name, None, *about))
    return found


def headline(report: Report) -> str:
    """Say how many rows there are, what went wrong, and what it cost."""
    parts = [plural(len(report.rows), "row")]
    rules = stood_in(report)
    if rules:
        parts.append(f"{', '.join(rules)} rated {STOOD_IN}")
    if report.errors:
        kinds = ", ".join(f"{kind} {times:,}" for kind, times in report.errors.items())
        parts.append(f"the model raised on {sum(report.errors.values()):,} ({kinds})")
    for name, tally in report.aggregate.tallies.items():
        if tally.failed:
            kinds = ", ".join(f"{kind} {times:,}" for kind, times in tally.errors.most_common(3))
            why = f" ({kinds})" if kinds else ""
            parts.append(f"{name} failed on {plural(tally.failed, 'row')}{why}")
    if report.skipped:
        parts.append(f"{plural(report.skipped, 'bad row')} skipped")
    usage = report.judge_usage
    if usage.total_tokens:
        cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ", price unknown"
        parts.append(f"judges used {usage.total_tokens:,} tokens{cost}")
    cached = sum(tally.cached for tally in report.aggregate.tallies.values())
    if cached:
        parts.append(f"{plural(cached, 'verdict')} of earlier runs")
    distrusted = sum(tally.distrusted for tally in report.aggregate.tallies.values())
    if distrusted:
        parts.append(f"{plural(distrusted, 'kept verdict')} without our signature judged anew")
    return "; ".join(parts)


def plural(count: int, noun: str) -> str:
    """Count something: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown(value: float | None) -> str:
    """Return a metric's value as people read it."""
    return "-" if value is None else f"{value:.3f}" if abs(value) <= 1 else number(value)
