"""Scores over time: all evaluators side by side, and one by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk import runtime
from llmeval_sdk.pipeline import ExporterStats
from llmeval_sdk.store import losses, names, trends
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.populations import Population, over_time, overall
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.reasons import Reason, explain
from llmeval_sdk.viewer import _charts, _live, _people
from llmeval_sdk.viewer._charts import Point, points_of
from llmeval_sdk.viewer._figures import (
    Figures,
    figures,
    means_by_period,
    period_of,
    quantile,
    words_by_period,
)
from llmeval_sdk.viewer._filters import RANGES
from llmeval_sdk.viewer._render import page


STEPS = ("eligible", "selected", "budgeted", "run", "scored")
AGREEMENT = "agreement_pattern"
LEAST_PERIOD_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Judge:
    """What one judge did and what it cost."""

    figures: Figures
    since: int | None
    """When the records begin that are summed up here, in nanoseconds since the epoch."""
    capped: bool
    """There are older ones."""
    population: Population
    reasons: tuple[tuple[str, int, Reason], ...]
    """Why it did not run, most frequent first."""
    median: float | None
    """Seconds a judgement takes."""
    slow: float | None
    """Seconds that 95 % stay below."""
    total_tokens: int
    cost_usd: float | None
    stand_in: bool
    """Rules gave its latest verdicts that stand in for a model."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart and what it shows in words."""

    title: str
    svg: Markup
    note: str = ""


def overview(request: Request) -> Response:
    """Answer with every evaluator's figures."""
    since = _since(request)
    with request.app.state.site.readers.lend() as reader:
        known = reader.read(names.known)
        judges = [_judge(reader, name, since) for name in known.judges]
        heuristics = [_figures(reader, name, since, judge=False)[0] for name in known.heuristics]
        people = _people.said(reader, known)
        lost = reader.read(losses.total)
        state = reader.read(_live.state)
    agreement = next((each for each in heuristics if each.name == AGREEMENT and each.count), None)
    return page(
        request, "scores.html",
        judges=judges,
        heuristics=[each for each in heuristics if each.count + each.failed],
        agreement=agreement and _charts.drawn(
            _charts.categories(agreement.categories), "How far extractions agree"
        ),
        agreement_figures=agreement, people=people, steps=STEPS, state=state,
        accounts=_accounts(request), lost=lost,
        ranges=RANGES, range=request.query_params.get("range", ""),
    )  # fmt: skip


def _accounts(request: Request) -> Mapping[str, ExporterStats]:
    """Return the account of each exporter of this process, if this is the store it writes."""
    own = path_of(runtime.settings().store) == request.app.state.site.readers.path
    return runtime.stats().exporters if own else {}


def detail(request: Request) -> Response:
    """Answer with one evaluator's charts."""
    name, since = request.path_params["evaluator"], _since(request)
    with request.app.state.site.readers.lend() as reader:
        known = reader.read(names.known)
        if name not in known.evaluators:
            raise HTTPException(404, "No such evaluator has scored anything in this store.")
        judge = _judge(reader, name, since) if name in known.judges else None
        begin = judge.since if judge else since
        found, recent = _figures(reader, name, begin, judge=judge is not None)
        period = period_of(recent.times)
        if judge is None:
            points = [
                Point(at, mean, count=count) for at, mean, count in means_by_period(recent, period)
            ]
            judged: list[Point] = []
        else:
            period = max(period, LEAST_PERIOD_NS)
            given = (judge.since, None, None, None)
            points, judged = points_of(_periods(reader, given, judge, period))
        state = reader.read(_live.state)
    return page(
        request, "evaluator.html",
        found=found, judge=judge, points=points, judged=judged, period=period, steps=STEPS,
        charts=_drawn(found, recent, period, points, judged), selection=_is_selection(judge),
        state=state, ranges=RANGES, range=request.query_params.get("range", ""),
    )  # fmt: skip


def _periods(
    reader: StoreReader, given: tuple[Any, ...], judge: Judge, period: int
) -> list[Population]:
    """Estimate by period; where the whole cannot be estimated, no part of it is."""
    found = over_time(reader, given, judge.figures.name, period)
    if judge.population.estimate is None:
        return [replace(each, estimate=None) for each in found]
    return found


def _is_selection(judge: Judge | None) -> bool:
    """Say whether a judge saw only part of what it could have judged."""
    return judge is not None and judge.population.funnel.scored < judge.population.funnel.eligible


def _since(request: Request) -> int | None:
    seconds = RANGES.get(request.query_params.get("range", ""))
    return time.time_ns() - seconds * 1_000_000_000 if seconds else None


def _figures(
    reader: StoreReader, name: str, since: int | None, *, judge: bool
) -> tuple[Figures, trends.Recent]:
    recent = reader.read(lambda c: trends.recent(c, name, since))
    return figures(name, recent, judge=judge), recent


def _judge(reader: StoreReader, name: str, since: int | None) -> Judge:
    begin = reader.read(lambda c: trends.window(c, name, since))
    found, _ = _figures(reader, name, begin, judge=True)
    population = overall(reader, (begin, None, None, None), None, name)
    effort = reader.read(lambda c: trends.effort(c, name, begin))
    reasons = sorted(population.funnel.reasons.items(), key=lambda item: -item[1])
    return Judge(
        found,
        begin,
        begin != since,
        population,
        tuple((reason, times, explain(reason)) for reason, times in reasons),
        quantile(effort.durations, 0.5),
        quantile(effort.durations, 0.95),
        effort.total_tokens,
        effort.cost_usd,
        bool(reader.stood_in([name])),
    )


def _drawn(
    found: Figures,
    recent: trends.Recent,
    period: int,
    points: Sequence[Point],
    judged: Sequence[Point],
) -> list[Chart]:
    drawings: list[tuple[str, Callable[[float, str], Markup], str]] = []
    if found.judge and points:
        note = "Solid: all traffic, with its 95 % interval. Dashed: plain mean of what was judged."
        drawings.append(("Mean over time", _charts.over_time(points, period, judged), note))
    elif judged:
        title, note = "Mean of the judged over time", "Of what was judged only, not of all traffic."
        drawings.append((title, _charts.over_time(judged, period), note))
    elif points:
        drawings.append(("Mean over time", _charts.over_time(points, period), ""))
    if found.histogram:
        drawings.append(("Distribution", _charts.distribution(found), ""))
    if found.categories:
        drawings.append(("Categories", _charts.categories(found.categories), ""))
        if not points and not judged:
            rows = words_by_period(recent, period)
            drawings.append(("Categories over time", _charts.words_over_time(rows, period), ""))
    return [
        Chart(title, _charts.drawn(draw, f"{title}: {found.name}"), note)
        for title, draw, note in drawings
    ]
