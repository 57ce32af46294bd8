"""How ``llmeval report`` shows scores: their number, mean, distribution and failures."""

from __future__ import annotations

from llmeval_sdk.cli.output import bar, heading, say_wrapped, table
from llmeval_sdk.model import values
from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.store.populations import Population
from llmeval_sdk.store.summary import ScoreSummary
from llmeval_sdk.text.terminal import number, printable


def show_scores(scores: tuple[ScoreSummary, ...], judged: list[Population]) -> None:
    """Print the table of scores, with a row for each evaluator and span name."""
    estimates = {(each.judge, each.span_name): each.estimate for each in judged}
    unrated = [each for each in scores if each.evaluator == values.ABSTENTION]
    heading("Scores")
    titles = ("evaluator", "span", "kind", "count", "mean", "distribution", "failed", "n/a", "cost")
    rows = [
        (
            each.evaluator,
            each.span_name or "-",
            each.evaluator_kind,
            f"{each.count:,}",
            _mean(each, estimates.get((each.evaluator, each.span_name))),
            _distribution(each),
            f"{each.errors:,}",
            f"{each.not_applicable:,}",
            "-" if each.cost_usd is None else f"${each.cost_usd:.4f}",
        )
        for each in scores
        if each not in unrated
    ]
    table(titles, rows, numbers="count failed n/a cost")
    if any(each.count for each in unrated):
        _abstained(unrated)


def _abstained(unrated: list[ScoreSummary]) -> None:
    heading("Abstained: no value was given, which is neither good nor bad")
    titles = ("span", "abstained", "by", "mean", "distribution")
    rows = [
        (
            each.span_name or "-",
            f"{each.count:,}",
            each.evaluator,
            _mean(each, None),
            _distribution(each),
        )
        for each in unrated
    ]
    table(titles, rows, numbers="abstained")
    say_wrapped("0: there was nothing to find; 1: there was a value, and the app missed it.")


def _mean(each: ScoreSummary, estimate: Estimate | None) -> str:
    mean = "-" if each.mean is None else number(each.mean)
    if each.mean_probability is not None:
        return f"{mean}, probability {number(each.mean_probability)}"
    if estimate is None or mean in ("-", corrected := number(estimate.mean)):
        return mean
    return f"{mean} [{corrected}]"


def _distribution(each: ScoreSummary) -> str:
    parts = []
    if each.histogram:
        ends = f" {number(each.low or 0.0)}..{number(each.high or 0.0)}"
        parts.append(bar(each.histogram) + ("" if (each.low, each.high) == (0.0, 1.0) else ends))
    if each.categories:
        words = list(each.categories.items())
        parts += [f"{printable(word, 40)} {times / each.count:.0%}" for word, times in words[:6]]
        if len(words) > 6:
            parts.append(f"{len(words) - 6} others")
    return ", ".join(parts) or "-"
