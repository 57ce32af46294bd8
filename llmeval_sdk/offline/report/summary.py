"""What all forms of a report share: metrics as lines, the worst rows, and the mark of a file."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, values
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.text.terminal import number, plural


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.aggregate import ReportContents


def goodness(evaluation: Evaluation) -> float | None:
    """Return 0 for bad to 1 for good; ``None`` for what is neither, such as a token count."""
    return values.goodness_of(evaluation)


def standing(evaluation: Evaluation) -> values.Standing:
    """Return whether an evaluation without an error is good, fair, bad or neutral."""
    return values.standing_of(evaluation)


def direction(name: str, path: str) -> int:
    """Say whether more of a metric is better (1), or less (-1), or neither (0)."""
    if path.startswith(f"{name}/") and path.endswith("/percentage"):
        good = values.goodness(name, path[len(name) + 1 : -len("/percentage")])
        return 0 if good is None else (good > 0.5) - (good < 0.5)
    return -1 if values.high_is_bad(name) else 1


def failures(row: Row) -> list[Evaluation]:
    """Return what plainly went wrong on a row: a no, a fail, or an evaluator's error."""
    return [
        each for each in row.evaluations.values() if each.error is not None or _is_refusal(each)
    ]


def _is_refusal(evaluation: Evaluation) -> bool:
    """Return whether a yes/no answer is the bad one: a no, or a yes where lower is better."""
    value = evaluation.value
    is_rating = isinstance(value, (bool, str)) and values.number(value) is not None
    return is_rating and values.goodness(evaluation.name, value) == 0


def low(row: Row) -> list[Evaluation]:
    """Return the scores of a row that are bad rather than good."""
    return [each for each in row.evaluations.values() if standing(each) == "bad"]


def worst(
    rows: Iterable[Row], count: int, blamed: Container[str | None] = frozenset()
) -> list[Row]:
    """Return the worst rows, worst first: those that raised, then by failures, then by scores.

    Failures of evaluators that are blamed for a gate come before those of others.
    """
    return heapq.nsmallest(count, rows, key=lambda row: _rank(row, blamed))


def _rank(row: Row, blamed: Container[str | None]) -> tuple[bool, int, int, float, int]:
    wrong = failures(row)
    first = sum(each.name in blamed for each in wrong)
    known = [good for each in row.evaluations.values() if (good := goodness(each)) is not None]
    mean = sum(known) / len(known) if known else 1.0
    return row.error is None, -first, -len(wrong), mean, row.number


class MetricLine(NamedTuple):
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

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row in a table, in the order of the fields up to ``why``."""
        return (
            f"{self.path} ({STOOD_IN})" if self.stood_in else self.path,
            shown(self.value),
            f"{self.rated:,}",
            f"{self.failed:,}",
            f"{self.not_applicable:,}",
            self.why,
        )


STOOD_IN = "by a stand-in, no model"


def stood_in(report: ReportContents) -> list[str]:
    """Return the evaluators whose ratings, or some of them, are those of a stand-in by rules."""
    return [name for name, tally in report.aggregate.tallies.items() if tally.stood_in]


def lines(report: ReportContents) -> list[MetricLine]:
    """Return a line for each metric, in the order of the evaluators."""
    metric_lines = []
    for name, tally in report.aggregate.tallies.items():
        reasons = [f"{reason} ({times:,})" for reason, times in tally.reasons.most_common(3)]
        counts = (tally.rated, tally.failed, tally.not_applicable)
        about = (*counts, "; ".join(reasons), name, bool(tally.stood_in))
        means = tally.means()
        paths = sorted(means, key=lambda path: (-means[path], path))
        metric_lines += [MetricLine(path, means[path], *about) for path in paths]
        if not paths:
            metric_lines.append(MetricLine(name, None, *about))
    rows = report.aggregate.answerable
    metric_lines += [
        MetricLine(path, share.mean, rows, 0, 0, "", path.partition("/")[0])
        for path, share in report.aggregate.answer_shares().items()
    ]
    return metric_lines


def headline(report: ReportContents) -> str:
    """Say how many rows there are, what went wrong, and what it cost."""
    parts = [plural(len(report.rows), "row")]
    rules = stood_in(report)
    if rules:
        parts.append(f"{', '.join(rules)} rated {STOOD_IN}")
    if report.errors:
        kinds = ", ".join(f"{kind} {times:,}" for kind, times in report.errors.items())
        parts.append(f"the model raised on {sum(report.errors.values()):,} ({kinds})")
    if report.aggregate.answer_shares():
        answers = report.aggregate.answers
        lost, abstained = plural(answers["lost"], "row"), plural(answers["abstained"], "row")
        parts += [f"no answer on {lost}"] if answers["lost"] else []
        parts += [f"the app abstained on {abstained}"] if answers["abstained"] else []
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
    return "; ".join(parts)


def shown(value: float | None) -> str:
    """Return a metric's value as people read it."""
    return "-" if value is None else f"{value:.3f}" if abs(value) <= 1 else number(value)


IN_HTML = '<meta name="generator" content="llmeval report">'
IN_TEXT = "<!-- llmeval report -->"
"""In Markdown and XML."""
MARKS = {"html": IN_HTML, "markdown": IN_TEXT, "junit": IN_TEXT}
_BEGINNING = 400
"""Bytes of a file within which the mark stands."""


def check_overwritable(form: str, path: Path) -> None:
    """Refuse to write over a file that is no report of this form; an empty one will do.

    Raises:
        ConfigurationError: it holds something else, or cannot be read.
    """
    if not path.is_file():  # none yet, or a terminal or pipe
        return
    try:
        with path.open("rb") as file:
            begins = file.read(_BEGINNING)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if begins and MARKS[form].encode() not in begins:
        raise ConfigurationError(
            f"--{form} {path}: this file is not such a report of llmeval and is not overwritten: "
            "name another one, or remove it"
        )
