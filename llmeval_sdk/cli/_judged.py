"""How ``llmeval report`` shows what judges say about all traffic."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.cli.output import heading, say, say_wrapped, table
from llmeval_sdk.statistics.correction import FEWEST, Correction
from llmeval_sdk.statistics.funnels import STEPS
from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.store.alert_state import AlertCourse
from llmeval_sdk.store.opinions import Opinions, described, extent
from llmeval_sdk.store.populations import Population
from llmeval_sdk.store.words import moment, percent
from llmeval_sdk.text.terminal import number, printable


def show_judged(measured: Sequence[Population]) -> None:
    """Print the funnel and the estimate of each judge and span name.

    A judge for which nothing was eligible has no funnel; why it did not run is told elsewhere.
    """
    measured = [
        population for population in measured if population.funnel.eligible or population.cost_usd
    ]
    if not measured:
        return
    heading("Judges, from eligible records to scores")
    rows = [
        (
            population.judge,
            population.span_name or "-",
            *(f"{getattr(population.funnel, step):,}" for step in STEPS),
            _mean(population),
            _estimate(population),
            _cost(population),
        )
        for population in measured
    ]
    titles = ("judge", "span", *STEPS, "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers=f"{' '.join(STEPS)} mean cost")
    for population in measured:
        if population.note:
            where = f"{printable(population.judge)} on {printable(population.span_name or '-')}"
            say_wrapped(f"{where}: {population.note}.")


def show_people(measured: Sequence[Population], feedback: Sequence[Opinions]) -> None:
    """Print what people would say of all traffic, beside what the judge says."""
    for each in measured:
        where = f"{printable(each.judge)} on {printable(each.span_name or '-')}"
        if each.correction is not None and each.estimate is not None:
            say_wrapped(f"{where}: {_people(each.correction, each.estimate)}")
        elif each.labels:
            say_wrapped(
                f"{where}: {each.labels} labels so far; from {FEWEST} on they correct its mean."
            )
        if each.doubt:
            say_wrapped(f"{where}: {each.doubt}")
    for said in feedback:
        opinion = described(said)
        say_wrapped(
            f"{printable(said.name)}: feedback on {extent(said)}{opinion and f': {opinion}'}."
        )
    if feedback:
        say_wrapped("Feedback corrects no mean, because users choose what they speak of.")


def _people(correction: Correction, judge: Estimate) -> str:
    corrected = correction.estimate
    interval = f"[{corrected.low:.3g}, {corrected.high:.3g}]"
    people = f"people would say {corrected.mean:.3g} {interval}"
    parts = [f"{people} ({correction.labels} labels), the judge {judge.mean:.3g}"]
    if correction.passed_wrongly is not None:
        parts.append(f"of what it passes, people fail {percent(correction.passed_wrongly)}")
    if correction.failed_wrongly is not None:
        parts.append(f"of what it fails, people pass {percent(correction.failed_wrongly)}")
    return "; ".join(parts) + "."


def show_trend(periods: Sequence[Population], period: str) -> None:
    """Print the estimates period by period, if there are any."""
    if not periods:
        return
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
        for each in periods
    ]
    titles = ("judge", "span", period, "eligible", "scored", "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers="eligible scored mean cost")


def lacking(course: AlertCourse, population: Population) -> str:
    """Say why an alert cannot be decided; empty where it can."""
    return course.lacking() or (population.note if population.estimate is None else "")


def show_alert(course: AlertCourse, population: Population, level: float) -> None:
    """Print how one alert stands; ``level`` is the evidence that raises an alarm."""
    needed = course.needed(level)
    why = lacking(course, population)
    if course.is_alarm:
        standing = f"ALERT, since about {moment(course.since_ns or 0)}, {_estimate(population)}"
        if why:
            standing += f"; {why}"
    elif why:
        standing = f"cannot be decided ({why}"
        if needed and not (course.judged or course.problem):
            standing += f"; about {needed:,} judged requests would show a drop of five points"
        standing += ")"
    elif needed is None:
        standing = f"no alert, {_estimate(population)}"
    else:
        standing = (
            f"undecided, {_estimate(population)}: lately the mean is beyond its bound, and too"
            f" little was judged to be sure; about {needed:,} more judged requests would decide it"
            " if the mean stays there"
        )
    say()
    say_wrapped(f"{printable(str(course.bound))}: {standing}")
    for note in course.notes():
        say_wrapped(f"{printable(str(course.bound))}: {note}.")


def _mean(each: Population) -> str:
    return "-" if each.mean is None else number(each.mean)


def _estimate(each: Population) -> str:
    estimate = each.estimate
    if estimate is None:
        return "-"
    mark = " *" if estimate.method == "model-assisted" else ""
    return f"{estimate.mean:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]{mark}"


def _cost(each: Population) -> str:
    return "-" if each.cost_usd is None else f"${each.cost_usd:.4f}"
