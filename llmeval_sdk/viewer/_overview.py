"""The first look at the app: how much, how fast, how dear, how good, and what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.findings import findings_of
from llmeval_sdk.store.hourly_traffic import HourlyTraffic, TrafficHour
from llmeval_sdk.store.labels import FeedbackInPeriod, feedback_of_period
from llmeval_sdk.store.losses import completeness, missing
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import RecentEvaluations
from llmeval_sdk.text.terminal import seconds
from llmeval_sdk.viewer import _charts
from llmeval_sdk.viewer._charts import Point, means_by_period, period_of
from llmeval_sdk.viewer._render import money, page, where_of
from llmeval_sdk.viewer._site import (
    PATIENT_SECONDS,
    WAIT_SECONDS,
    BackgroundTask,
    NoStoreError,
    StoppedError,
    counting_page,
    state_of,
)


if TYPE_CHECKING:
    from llmeval_sdk.viewer._site import Site


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


def show(request: Request) -> Response:
    """Answer with the figures of a period, by the hour."""
    wanted = request.query_params.get("range", "24h")
    name = wanted if wanted in RANGES else "24h"
    site, now = request.app.state.site, time.time_ns()
    with site.readers.lend(where_of(request)) as reader:
        traffic = _traffic(site, reader, now)
        if isinstance(traffic, BackgroundTask):
            return counting_page(request, "Overview", traffic)
        scores = reader.read(lambda store: store.execute(_SCORES, {"most": MAX_SCORES}).fetchall())
        length = RANGES[name] * HOUR_NS
        until = now - now % HOUR_NS + HOUR_NS
        since = until - length
        feedback = reader.read(lambda store: feedback_of_period(store, since, until))
        lacking = [
            reader.read(partial(missing, since_ns=begin, until_ns=begin + length))
            for begin in (since, since - length)
        ]
        if reader.selection is not None:  # of all requests, which its share is not about
            lacking = [one and replace(one, traces=0) for one in lacking]
        found = findings_of(reader, runtime.settings().store_max_bytes, now)
        state = reader.read(state_of)
    requests, calls = (traffic.total(of, since, until) for of in ("requests", "calls"))
    asked_before, paid_before = (
        _sum(traffic.total(of, since - length, since)) for of in ("requests", "calls")
    )
    asked, paid = _sum(requests), _sum(calls)
    whole, whole_before = (
        completeness(lost, of.stored, of.count, of.variance)
        for lost, of in zip(lacking, (asked, asked_before), strict=True)
    )
    signs = Signs(whole.sign if whole else "", whole_before.sign if whole_before else "")
    figures = _figures(asked, paid, asked_before, paid_before, signs)
    changed = [each for each in figures if each.change and abs(each.change) >= NOTABLE]
    by_hour = traffic.by_hour("requests", since, until)
    spent = traffic.by_hour("calls", since, until)
    charts = {
        "Requests": _chart(by_hour, lambda hour: hour.count, whole=True),
        "Failures": _chart(by_hour, lambda hour: hour.failed, whole=True),
        "Latency p95, seconds": _chart(by_hour, lambda hour: hour.percentile(0.95)),
        "Cost, US dollars": _chart(spent, lambda hour: hour.cost_usd),
    }
    named = sorted(feedback.by_name, key=lambda each: (-each.count, each.name))
    return page(
        request, "overview.html", figures=figures, changed=changed,
        is_compared=any(each.before != NOTHING for each in figures), charts=charts,
        requests=_rows(requests), calls=_rows(calls), scores=scores,
        feedback=feedback, feedback_charts=[_with_chart(each) for each in named[:MAX_ROWS]],
        unshown=max(len(named) - MAX_ROWS, 0),
        asked=asked.count, completeness=whole, ranges=tuple(RANGES), range=name, findings=found,
        state=state,
    )  # fmt: skip


def begin(site: Site) -> None:
    """Begin to count the traffic of the store, if there is one."""
    with suppress(NoStoreError, StoppedError), site.readers.lend() as reader:
        _bring_up(site, reader, time.time_ns(), wait=0.0)


def _traffic(
    site: Site, reader: StoreReader, now_ns: int
) -> HourlyTraffic | BackgroundTask[None] | BackgroundTask[HourlyTraffic]:
    """Return the traffic of the reader's requests, or the task that is still counting it.

    That of all requests is kept up to date; that of a selection is counted once for it.
    """
    selection, location = reader.selection, reader.location
    if selection is None:
        return _bring_up(site, reader, now_ns) or site.traffic

    def count(_: Callable[[int], None]) -> HourlyTraffic:
        traffic = HourlyTraffic()
        with StoreReader(location, seconds=PATIENT_SECONDS, selection=selection) as patient:
            patient.read(lambda store: traffic.look(store, now_ns, location))
        return traffic

    task = site.background.start(("traffic", selection), count)
    return task.result() if task.is_done(WAIT_SECONDS) else task


def _bring_up(
    site: Site, reader: StoreReader, now_ns: int, wait: float = WAIT_SECONDS
) -> BackgroundTask[None] | None:
    """Take in what has arrived; return the task while the whole store is still being counted."""
    location = reader.location
    if site.traffic.has_read(location):
        reader.read(lambda store: site.traffic.look(store, now_ns, location))
        return None

    def count(_: Callable[[int], None]) -> None:
        with StoreReader(location, seconds=PATIENT_SECONDS) as patient:
            patient.read(lambda store: site.traffic.look(store, now_ns, location))

    spans = reader.read(lambda store: store.execute(_SPANS).fetchone()[0])
    task = site.background.start(("traffic", location), count, total=spans, unit="spans")
    if not task.is_done(wait):
        return task
    task.result()  # raises where counting failed, which must not look like no traffic
    return None


def _sum(parts: Mapping[str, TrafficHour]) -> TrafficHour:
    whole = TrafficHour()
    for part in parts.values():
        whole.add(part)
    return whole


def _figures(
    requests: TrafficHour,
    calls: TrafficHour,
    before: TrafficHour,
    paid: TrafficHour,
    signs: Signs,
) -> list[Figure]:
    def rate(of: TrafficHour) -> float | None:
        return of.failed / of.count if of.count else None

    figures = [
        _total("requests", requests.count, before.count, signs),
        _figure("failed", rate(requests), rate(before), "{:.2%}".format, -1),
        *(
            _figure(
                f"latency p{share}", requests.percentile(share / 100),
                before.percentile(share / 100), lambda value: f"≈ {seconds(value)}", -1,
            )
            for share in (50, 95, 99)
        ),
    ]  # fmt: skip
    if calls.count or paid.count:
        figures += [
            _total("model calls", calls.count, paid.count, signs),
            _total("tokens", calls.tokens, paid.tokens, signs),
            _cost(calls, paid, signs),
        ]
    return [each for each in figures if (each.value, each.before) != (NOTHING, NOTHING)]


def _total(name: str, value: float, before: float, signs: Signs) -> Figure:
    return signs.put(_figure(name, value, before or None, "{:,.0f}".format, None))


def _cost(calls: TrafficHour, before: TrafficHour, signs: Signs) -> Figure:
    """Show what is known of the cost; where a call has none, nothing is compared with it."""
    texts = []
    for of in (calls, before):
        known = f"{'≥ ' if of.unpriced else ''}{money(of.cost_usd)}"
        texts.append(known if of.cost_usd or not of.unpriced else "unknown")
    whole = _figure("cost", calls.cost_usd, before.cost_usd or None, money, -1)
    if calls.unpriced or before.unpriced:
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
    hours: Mapping[int, TrafficHour],
    read: Callable[[TrafficHour], float | None],
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


def _rows(parts: Mapping[str, TrafficHour]) -> list[tuple[str, TrafficHour, str]]:
    ranked = sorted(parts.items(), key=lambda item: (-item[1].cost_usd, -item[1].count))
    rows = []
    for name, part in ranked[:MAX_ROWS]:
        p95 = part.percentile(0.95)
        rows.append((name, part, NOTHING if p95 is None else f"≈ {seconds(p95)}"))
    return rows


_SPANS = "SELECT ifnull(max(seq), 0) FROM spans"

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
