"""How ``llmeval report`` shows what judges say about all traffic."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk._terminal import number, printable
from llmeval_sdk.cli._alerts import Alert
from llmeval_sdk.cli._options import moment
from llmeval_sdk.cli._output import heading, say, table
from llmeval_sdk.store.populations import Population


STEPS = ("eligible", "selected", "budgeted", "run", "scored")


def show_judged(found: Sequence[Population]) -> None:
    """Print the funnel and the estimate of each judge and span name.

    A judge for which nothing was eligible has no funnel; why it did not run is told elsewhere.
    """
    found = [each for each in found if each.funnel.eligible or each.cost_usd]
    if not found:
        return
    heading("Judges, from eligible records to scores")
    rows = [
        (
            each.judge,
            each.span_name or "-",
            *(f"{getattr(each.funnel, step):,}" for step in STEPS),
            _mean(each),
            _estimate(each),
            _cost(each),
        )
        for each in found
    ]
    titles = ("judge", "span", *STEPS, "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers=f"{' '.join(STEPS)} mean cost")
    for each in found:
        if each.note:
            say(f"{printable(each.judge)} on {printable(each.span_name or '-')}: {each.note}.")


def show_trend(found: Sequence[Population], period: str) -> None:
    """Print the estimates period by period."""
    heading(f"Trend by {period} (UTC)")
    rows = [
        (
            each.judge,
            each.span_name or "-",
            moment(each.period_ns or 0)[: 10 if period == "day" else 16],
            f"{each.funnel.eligible:,}",
            f"{each.funnel.scored:,}",
            _mean(each),
            _estimate(each) if each.estimate or not each.note else f"- ({each.note.split(':')[0]})",
            _cost(each),
        )
        for each in found
    ]
    titles = ("judge", "span", period, "eligible", "scored", "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers="eligible scored mean cost")


def show_alert(alert: Alert, found: Population) -> None:
    """Print what became of one alert."""
    if found.estimate is None:
        said = f"cannot be decided ({found.note})"
    else:
        verdict = "ALERT" if alert.holds(found.estimate) else "no alert"
        said = f"{verdict}, {_estimate(found)}"
    say(f"\n{printable(str(alert))}: {said}")


def _mean(each: Population) -> str:
    return "-" if each.mean is None else number(each.mean)


def _estimate(each: Population) -> str:
    found = each.estimate
    if found is None:
        return "-"
    mark = " *" if found.method == "model-assisted" else ""
    return f"{found.mean:.3g} [{found.low:.3g}, {found.high:.3g}]{mark}"


def _cost(each: Population) -> str:
    return "-" if each.cost_usd is None else f"${each.cost_usd:.4f}"
