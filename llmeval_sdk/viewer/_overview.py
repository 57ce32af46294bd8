"""The first look at the app: how much, how fast, how dear, how good, and what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.findings import Finding, findings_of
from llmeval_sdk.store.labels import FeedbackInPeriod, PeriodFeedback, feedback_of_period
from llmeval_sdk.store.losses import Completeness
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import RecentEvaluations
from llmeval_sdk.store.traffic import (
    Hours,
    TrafficGroup,
    TrafficScope,
    TrafficSums,
    by_hour,
    completeness_of,
)
from llmeval_sdk.text.terminal import seconds
from llmeval_sdk.viewer import _charts
from llmeval_sdk.viewer._charts import Point, means_by_period, period_of
from llmeval_sdk.viewer._render import money, page
from llmeval_sdk.viewer._site import read_aside, state_of


RANGES = {"24h": 24, "7d": 7 * 24, "30d": 30 * 24}
MAX_ROWS = 12
MAX_SCORES = 2_000
NOTABLE = 0.1
"""From which relative change on a figure counts as changed."""


NOTHING = "–"
"""Stands for a figure that there is none of."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the period, beside that of the period before."""

    name: str
    value: str
    before: str
    change: float | None
    """Relative to the period before; ``None`` where that had nothing to compare with."""
    is_good: bool | None
    """Whether the change is for the better; ``None`` where it is neither."""


class Signs(NamedTuple):
    """What stands before the totals of a period and of the one before; see `Completeness.sign`."""

    now: str
    before: str

    def put(self, figure: Figure) -> Figure:
        """Put them before a total; a part of a period is compared with nothing."""
        value, before = f"{self.now}{figure.value}", figure.before
        if before != NOTHING:
            before = f"{self.before}{before}"
        if "≥ " in self:
            return replace(figure, value=value, before=before, change=None, is_good=None)
        return replace(figure, value=value, before=before)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a period and the one before it hold."""

    since_ns: int
    requests: Hours
    calls: Hours
    scores: Sequence[tuple[str, float]]
    feedback: PeriodFeedback
    completeness: tuple[Completeness | None, Completeness | None]
    """Of the period, and of the one before."""
    findings: Sequence[Finding]


def show(request: Request) -> Response:
    """Answer with the figures of a period, by the hour."""
    wanted = request.query_params.get("range", "24h")
    name = wanted if wanted in RANGES else "24h"
    length = RANGES[name] * HOUR_NS
    found = read_aside(request, "Overview", lambda reader: _read(reader, length), "spans")
    if isinstance(found, Response):
        return found
    with request.app.state.site.readers.lend() as reader:
        state = reader.read(state_of)
    since = found.since_ns
    requests, calls = (_by_name(of, since) for of in (found.requests, found.calls))
    asked, paid = _sum(requests.values()), _sum(calls.values())
    asked_before, paid_before = (
        _sum(_by_name(of, since - length, since).values()) for of in (found.requests, found.calls)
    )
    whole, whole_before = found.completeness
    signs = Signs(whole.sign if whole else "", whole_before.sign if whole_before else "")
    figures = _figures(asked, paid, asked_before, paid_before, signs)
    changed = [each for each in figures if each.change and abs(each.change) >= NOTABLE]
    hourly, spent = (
        {hour: _sum(names.values()) for hour, names in sorted(of.items()) if hour >= since}
        for of in (found.requests, found.calls)
    )
    charts = {
        "Requests": _chart(hourly, lambda hour: hour.count, whole=True),
        "Failures": _chart(hourly, lambda hour: hour.failed, whole=True),
        "Latency p95, seconds": _chart(hourly, lambda hour: _percentile(hour, "p95")),
        "Cost, US dollars": _chart(spent, lambda hour: hour.cost_usd or 0.0),
    }
    named = sorted(found.feedback.by_name, key=lambda each: (-each.count, each.name))
    return page(
        request, "overview.html", figures=figures, changed=changed,
        is_compared=any(each.before != NOTHING for each in figures), charts=charts,
        requests=_rows(requests), calls=_rows(calls), scores=found.scores,
        feedback=found.feedback, feedback_charts=[_with_chart(each) for each in named[:MAX_ROWS]],
        unshown=max(len(named) - MAX_ROWS, 0),
        asked=asked.count, completeness=whole, ranges=tuple(RANGES), range=name,
        findings=found.findings, state=state,
    )  # fmt: skip


def _read(reader: StoreReader, length: int) -> _Reading:
    now = time.time_ns()
    until = now - now % HOUR_NS + HOUR_NS
    since = until - length
    requests, calls = reader.read(lambda store: by_hour(store, since - length, until))
    return _Reading(
        since,
        requests,
        calls,
        reader.read(lambda store: store.execute(_SCORES, {"most": MAX_SCORES}).fetchall()),
        reader.read(lambda store: feedback_of_period(store, since, until)),
        (
            _completeness(reader, TrafficScope(since, until)),
            _completeness(reader, TrafficScope(since - length, since)),
        ),
        findings_of(reader, runtime.settings().store_max_bytes, now),
    )


def _completeness(reader: StoreReader, scope: TrafficScope) -> Completeness | None:
    """Say how much of a period is stored; of selected requests nobody knows how many were lost."""
    whole = reader.read(lambda store: completeness_of(store, scope))
    if whole is None or reader.selection is None:
        return whole
    return Completeness(replace(whole.missing, traces=0), whole.stored, is_weighted=False)


def _by_name(hours: Hours, since: int, until: int | None = None) -> dict[str, TrafficSums]:
    summed: dict[str, TrafficSums] = {}
    for hour, names in hours.items():
        if since <= hour and (until is None or hour < until):
            for name, part in names.items():
                summed.setdefault(name, TrafficSums()).merge(part)
    return summed


def _sum(parts: Iterable[TrafficSums]) -> TrafficGroup:
    whole = TrafficSums()
    for part in parts:
        whole.merge(part)
    return whole.group(None, "")


def _tokens(of: TrafficGroup) -> int:
    return of.input_tokens + of.output_tokens


def _percentile(of: TrafficGroup, name: str) -> float | None:
    return None if of.latency_seconds is None else float(getattr(of.latency_seconds, name))


def _figures(
    requests: TrafficGroup,
    calls: TrafficGroup,
    before: TrafficGroup,
    paid: TrafficGroup,
    signs: Signs,
) -> list[Figure]:
    def rate(of: TrafficGroup) -> float | None:
        return of.failed / of.count if of.count else None

    figures = [
        _total("requests", requests.count, before.count, signs),
        _figure("failed", rate(requests), rate(before), "{:.2%}".format, -1),
        *(
            _figure(
                f"latency {name}", _percentile(requests, name), _percentile(before, name),
                seconds, -1,
            )
            for name in ("p50", "p95", "p99")
        ),
    ]  # fmt: skip
    if calls.count or paid.count:
        figures += [
            _total("model calls", calls.count, paid.count, signs),
            _total("tokens", _tokens(calls), _tokens(paid), signs),
            _cost(calls, paid, signs),
        ]
    return [each for each in figures if (each.value, each.before) != (NOTHING, NOTHING)]


def _total(name: str, value: float, before: float, signs: Signs) -> Figure:
    return signs.put(_figure(name, value, before or None, "{:,.0f}".format, None))


def _cost(calls: TrafficGroup, before: TrafficGroup, signs: Signs) -> Figure:
    """Show what is known of the cost; where a call has none, nothing is compared with it."""
    texts = []
    for of in (calls, before):
        known = f"{'≥ ' if of.unpriced_calls else ''}{money(of.cost_usd or 0.0)}"
        texts.append(known if of.cost_usd or not of.unpriced_calls else "unknown")
    whole = _figure("cost", calls.cost_usd or 0.0, before.cost_usd or None, money, -1)
    if calls.unpriced_calls or before.unpriced_calls:
        return Figure("cost", texts[0], texts[1] if before.count else NOTHING, None, None)
    return signs.put(whole)


def _figure(
    name: str, value: float | None, before: float | None, shown: Callable[[float], str],
    good: int | None,
) -> Figure:  # fmt: skip
    change = None if value is None or not before else value / before - 1
    is_good = None if change is None or good is None else change * good > 0
    texts = [NOTHING if each is None else shown(each) for each in (value, before)]
    return Figure(name, texts[0], texts[1], change, is_good)


def _chart(
    hours: Mapping[int, TrafficGroup],
    read: Callable[[TrafficGroup], float | None],
    *,
    whole: bool = False,
) -> Markup | None:
    points = [
        Point(hour, float(value), count=round(part.count))
        for hour, part in hours.items()
        if (value := read(part)) is not None
    ]
    if not points:
        return None
    draw = _charts.over_time(points, HOUR_NS, counted="requests", amount=True, whole=whole)
    return _charts.drawn(draw, "By the hour")


def _with_chart(feedback: FeedbackInPeriod) -> tuple[FeedbackInPeriod, Markup | None]:
    """Return what was said under a name with a chart of its mean, where it has one."""
    recent = RecentEvaluations(feedback.times, feedback.values, 0, capped=False)
    period = max(period_of(feedback.times), HOUR_NS)
    points = [Point(at, mean, count=count) for at, mean, count in means_by_period(recent, period)]
    if len(points) < 2:
        return feedback, None
    draw = _charts.over_time(points, period, counted="said")
    return feedback, _charts.drawn(draw, f"Mean over time: {feedback.name}")


def _rows(parts: Mapping[str, TrafficSums]) -> list[tuple[str, TrafficGroup, str]]:
    groups = [part.group(name, "") for name, part in parts.items()]
    groups.sort(key=lambda group: (-(group.cost_usd or 0.0), -group.count))
    rows = []
    for group in groups[:MAX_ROWS]:
        p95 = _percentile(group, "p95")
        rows.append((group.key or "", group, NOTHING if p95 is None else seconds(p95)))
    return rows


_SCORES = """
WITH RECURSIVE names(name) AS (
  SELECT min(name) FROM evaluations
  UNION ALL
  SELECT (SELECT min(name) FROM evaluations WHERE name > names.name) FROM names
  WHERE names.name IS NOT NULL LIMIT 40
)
SELECT name, (
  SELECT avg(value) FROM (
    SELECT value FROM evaluations e WHERE e.name = names.name ORDER BY time_ns DESC LIMIT :most
  ) WHERE typeof(value) IN ('real', 'integer')
) AS mean FROM names WHERE name IS NOT NULL AND mean IS NOT NULL ORDER BY name
"""
