"""The pages of scores: all evaluators side by side, and the charts of one of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.stats import ExporterStats
from llmeval_sdk.statistics.reasons import STEPS, Reason, explain
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.labels import recent_feedback
from llmeval_sdk.store.losses import losses, missing
from llmeval_sdk.store.populations import Population, ScopeFields, over_time, overall
from llmeval_sdk.store.reader import KnownNames, StoreReader, judged_by_stand_in, known_names
from llmeval_sdk.store.scores import RecentEvaluations, effort_of, recent_evaluations, summed_since
from llmeval_sdk.store.splits import by_period
from llmeval_sdk.text.terminal import plural
from llmeval_sdk.viewer import _charts
from llmeval_sdk.viewer._charts import (
    Figures,
    Point,
    figures,
    means_by_period,
    period_of,
    points_of,
    quantile,
    words_by_period,
)
from llmeval_sdk.viewer._render import cell_of, page
from llmeval_sdk.viewer._site import read_aside, state_of
from llmeval_sdk.viewer._traces import RANGES


AGREEMENT = "agreement_pattern"
MIN_PERIOD_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class JudgeFigures:
    """The work and the cost of one judge."""

    figures: Figures
    recent: RecentEvaluations
    """The scores that the figures are of."""
    since: int | None
    """The time of the earliest record counted here, in nanoseconds since the epoch."""
    capped: bool
    """Whether older records were left out."""
    population: Population
    reasons: tuple[tuple[str, int, Reason], ...]
    """Why it did not run, most frequent first."""
    median: float | None
    """Seconds a judgement takes."""
    slow: float | None
    """Seconds below which 95 % of the judgements stay."""
    total_tokens: int
    cost_usd: float | None
    stand_in: bool
    """Whether its latest verdicts came from rules that stand in for a model."""
    probabilities: tuple[float, ...]
    """The probability of a good outcome, where decision models answered."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and its description in words."""

    title: str
    svg: Markup
    note: str = ""


def overview(request: Request) -> Response:
    """Answer with every evaluator's figures."""
    since = _since(request)
    read = read_aside(request, "Scores", lambda reader: _of_all(reader, since), "scores")
    if isinstance(read, Response):
        return read
    agreement = next((h for h in read["heuristics"] if h.name == AGREEMENT and h.count), None)
    return page(
        request, "scores.html",
        agreement=agreement and _charts.drawn(
            _charts.categories(agreement.categories), "How far extractions agree"
        ),
        agreement_figures=agreement, steps=STEPS, accounts=_accounts(request),
        ranges=RANGES, range=request.query_params.get("range", ""), **read,
    )  # fmt: skip


def _of_all(reader: StoreReader, since: int | None) -> dict[str, Any]:
    """Read what the page of all evaluators shows."""
    known = reader.read(known_names)
    judges = [_judge(reader, name, since) for name in known.judges]
    heuristics = [_figures(reader, name, since, judge=False)[0] for name in known.heuristics]
    return {
        "judges": judges,
        "heuristics": [h for h in heuristics if h.count + h.failed],
        "people": _label_counts(reader, known),
        "lost": reader.read(lambda store: losses(store, since)),
        "missing": reader.read(lambda store: missing(store, since)),
        "state": reader.read(state_of),
    }


def _accounts(request: Request) -> Mapping[str, ExporterStats]:
    """Return the account of each exporter if this process writes the store that is shown."""
    own = path_of(runtime.settings().store) == request.app.state.site.readers.path
    return runtime.stats().exporters if own else {}


def detail(request: Request) -> Response:
    """Answer with one evaluator's charts."""
    name, since = request.path_params["evaluator"], _since(request)
    read = read_aside(request, name, lambda reader: _of_one(reader, name, since), "scores")
    if isinstance(read, Response):
        return read
    return page(
        request, "evaluator.html",
        steps=STEPS, ranges=RANGES, range=request.query_params.get("range", ""), **read,
    )  # fmt: skip


def _of_one(reader: StoreReader, name: str, since: int | None) -> dict[str, Any]:
    """Read what the page of one evaluator shows; raises `HTTPException` if there is none."""
    known = reader.read(known_names)
    feedback = (
        reader.read(lambda c: recent_feedback(c, name, since)) if name in known.labels else None
    )
    if name not in known.evaluators:
        if feedback is None:
            raise HTTPException(404, "No such evaluator has scored anything in this store.")
        return _of_feedback(name, feedback, reader.read(state_of))
    judge = _judge(reader, name, since) if name in known.judges else None
    if judge is None:
        summary, recent = _figures(reader, name, since, judge=False)
    else:
        summary, recent = judge.figures, judge.recent
    period = period_of(recent.times)
    if judge is None:
        points = [
            Point(at, mean, count=count) for at, mean, count in means_by_period(recent, period)
        ]
        judged: list[Point] = []
    else:
        period = max(period, MIN_PERIOD_NS)
        window = (judge.since, None, None, None)
        points, judged = points_of(_periods(reader, window, judge, period))
    return {
        "figures": summary, "judge": judge, "points": points, "judged": judged, "period": period,
        "charts": [
            *_drawn(summary, recent, period, points, judged), *_probable(name, judge),
            *_feedback_charts(name, feedback),
        ],
        "people": False, "selection": _is_selection(judge), "state": reader.read(state_of),
        "missing": reader.read(lambda store: missing(store, judge.since if judge else since)),
    }  # fmt: skip


def _periods(
    reader: StoreReader, window: ScopeFields, judge: JudgeFigures, period: int
) -> list[Population]:
    """Return estimates by period, or none of them if all periods together cannot be estimated."""
    populations = over_time(reader, window, None, judge.figures.name, by_period(period))
    if judge.population.estimate is None:
        return [replace(population, estimate=None) for population in populations]
    return populations


def _is_selection(judge: JudgeFigures | None) -> bool:
    """Return whether a judge scored only part of what it could have scored."""
    return judge is not None and judge.population.funnel.scored < judge.population.funnel.eligible


def _since(request: Request) -> int | None:
    seconds = RANGES.get(request.query_params.get("range", ""))
    return time.time_ns() - seconds * 1_000_000_000 if seconds else None


def _figures(
    reader: StoreReader, name: str, since: int | None, *, judge: bool
) -> tuple[Figures, RecentEvaluations]:
    recent = reader.read(lambda c: recent_evaluations(c, name, since, judge=judge))
    return figures(name, recent, judge=judge), recent


def _judge(reader: StoreReader, name: str, since: int | None) -> JudgeFigures:
    begin = reader.read(lambda c: summed_since(c, name, since))
    summary, recent = _figures(reader, name, begin, judge=True)
    population = overall(reader, (begin, None, None, None), None, name)
    effort = reader.read(lambda c: effort_of(c, name, begin))
    reasons = sorted(population.funnel.reasons.items(), key=lambda item: -item[1])
    return JudgeFigures(
        summary,
        recent,
        begin,
        begin != since,
        population,
        tuple((reason, times, explain(reason)) for reason, times in reasons),
        quantile(effort.durations, 0.5),
        quantile(effort.durations, 0.95),
        effort.total_tokens,
        effort.cost_usd,
        bool(reader.read(lambda c: judged_by_stand_in(c, [name]))),
        effort.probabilities,
    )


def _drawn(
    summary: Figures,
    recent: RecentEvaluations,
    period: int,
    points: Sequence[Point],
    judged: Sequence[Point],
) -> list[Chart]:
    drawings: list[tuple[str, Callable[[float, str], Markup], str]] = []
    if summary.judge and points:
        note = "Solid: all traffic, with its 95 % interval. Dashed: plain mean of what was judged."
        drawings.append(("Mean over time", _charts.over_time(points, period, judged), note))
    elif judged:
        title, note = "Mean of the judged over time", "Of what was judged only, not of all traffic."
        drawings.append((title, _charts.over_time(judged, period), note))
    elif points:
        drawings.append(("Mean over time", _charts.over_time(points, period), ""))
    if summary.histogram:
        drawings.append(("Distribution", _charts.distribution(summary), ""))
    if summary.categories:
        drawings.append(("Categories", _charts.categories(summary.categories), ""))
        if not points and not judged:
            rows = words_by_period(recent, period)
            drawings.append(("Categories over time", _charts.words_over_time(rows, period), ""))
    return [
        Chart(title, _charts.drawn(draw, f"{title}: {summary.name}"), note)
        for title, draw, note in drawings
    ]


def _of_feedback(name: str, feedback: RecentEvaluations, state: str) -> dict[str, Any]:
    """Return what the page of a name shows under which people spoke, and no evaluator."""
    period = period_of(feedback.times)
    points = [Point(at, mean, count=count) for at, mean, count in means_by_period(feedback, period)]
    summary = figures(name, feedback, judge=False)
    return {
        "figures": summary, "judge": None, "points": points, "judged": [], "period": period,
        "charts": _drawn(summary, feedback, period, points, []), "people": True,
        "selection": False, "state": state, "missing": None,
    }  # fmt: skip


def _feedback_charts(name: str, feedback: RecentEvaluations | None) -> list[Chart]:
    """Draw what people said under the name of an evaluator."""
    if feedback is None or not feedback.values:
        return []
    period = period_of(feedback.times)
    points = [Point(at, mean, count=count) for at, mean, count in means_by_period(feedback, period)]
    charts = _drawn(figures(name, feedback, judge=False), feedback, period, points, [])
    note = f"What people said of {plural(len(feedback.values), 'record')}."
    return [
        replace(chart, title=f"People: {chart.title[0].lower()}{chart.title[1:]}", note=note)
        for chart in charts
    ]


def _probable(name: str, judge: JudgeFigures | None) -> list[Chart]:
    """Draw how sure decision models were, where they answered."""
    if judge is None or not judge.probabilities:
        return []
    recent = RecentEvaluations((), judge.probabilities, 0, capped=False)
    title = "Probability of a good outcome"
    draw = _charts.distribution(figures(name, recent, judge=True))
    note = f"By decision models, on {plural(len(judge.probabilities), 'record')}."
    return [Chart(title, _charts.drawn(draw, f"{title}: {name}"), note)]


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """How often people said what under one name."""

    name: str
    counts: Mapping[str, int]
    """How often each answer was given, most frequent first; only the latest of a span counts."""
    evaluator: bool
    """Whether an evaluator has this name too, so that the two can be compared."""


def _label_counts(reader: StoreReader, known: KnownNames) -> list[LabelCounts]:
    """Count what people said, by the name of the label."""
    labels = []
    for name in known.labels:
        latest = {event.target: event.evaluation for event in reader.feedback(name)}
        counts = Counter(cell_of(evaluation).text for evaluation in latest.values())
        is_evaluator = name in known.evaluators
        labels.append(LabelCounts(name, dict(counts.most_common()), is_evaluator))
    return labels
