"""Alerts: plain bounds on the traffic of a window, and bounds on means over all traffic.

Plain bounds, such as ``latency_seconds.p95>2``, are no statistics: what was measured in the window
is compared with the bound, and nothing else. A window of three requests therefore raises an alarm
as easily as one of a million. A bound on the scores of an evaluator, such as ``groundedness<0.9``,
is followed hour by hour (see `alert_state`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.model import DAY_NS, DAY_SECONDS
from llmeval_sdk.store.alert_state import ALPHA, AlertState, Bound, Event
from llmeval_sdk.store.labels import UserFeedback, extent_of, user_feedback
from llmeval_sdk.store.reader import StoreReader, names_in
from llmeval_sdk.store.traffic import Pricing, TrafficGroup, TrafficScope, overall, unanswered
from llmeval_sdk.store.verdicts_by_hour import (
    Wanted,
    arrived,
    first_ns,
    hours,
    late,
    went_on,
)
from llmeval_sdk.text.terminal import plural


_Read = Callable[[TrafficGroup, float], float | None]


def _percentile(field: str, name: str) -> _Read:
    def read(group: TrafficGroup, _: float) -> float | None:
        percentiles = getattr(group, field)
        return None if percentiles is None else float(getattr(percentiles, name))

    return read


def _cost(per: Callable[[TrafficGroup, float], float]) -> _Read:
    def read(group: TrafficGroup, window: float) -> float | None:
        if not group.count:
            return None  # nothing is known of a window without requests, so no alarm is over
        usd = group.cost_usd if group.calls or group.unpriced_calls else 0.0
        return None if usd is None else usd / per(group, window)

    return read


_READ: dict[str, _Read] = {
    **{
        f"{field}.{name}": _percentile(field, name)
        for field in ("latency_seconds", "time_to_first_token_seconds", "tokens_per_second")
        for name in ("p50", "p95", "p99")
    },
    "error_rate": lambda group, _: group.error_rate if group.count else None,
    "cost_usd.total": _cost(lambda *_: 1.0),
    "cost_usd.per_day": _cost(lambda _, window: window / DAY_SECONDS),
    "cost_usd.per_request": _cost(lambda group, _: max(group.count, 1)),
    "requests.per_minute": lambda group, window: group.count / (window / 60),
}
NO_ANSWER = "no_answer"
"""The share of the requests that did not fail and whose answer got lost."""
METRICS = (*_READ, NO_ANSWER)
"""The names that a plain bound can have."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How one plain bound stands."""

    alert: str
    holds: bool | None
    """Whether the alarm is in force; ``None`` where nothing was measured."""
    value: float | None
    count: int
    """How many requests began in the window, or how many gave this feedback."""
    since_ns: int
    until_ns: int
    detail: str = ""


def split_bounds(
    connection: sqlite3.Connection, bounds: Iterable[Bound]
) -> tuple[list[Bound], list[Bound]]:
    """Return the plain bounds, and those on the scores of evaluators.

    Plain are those on the traffic, and those on what users of the app say, such as ``thumbs<0.9``:
    on feedback under a name that no evaluator has.
    """
    plain: list[Bound] = []
    scored: list[Bound] = []
    for bound in bounds:
        name = (bound.evaluator,)
        is_feedback = (
            bool(connection.execute(_IS_FEEDBACK, name * 2).fetchone()[0])
            or bound.evaluator in THUMBS
        )
        (plain if bound.evaluator in METRICS or is_feedback else scored).append(bound)
    return plain, scored


THUMBS = ("thumbs",)
"""Names that mean feedback even before anybody gave any."""
_IS_FEEDBACK = """
SELECT EXISTS (SELECT 1 FROM feedback WHERE name = ?)
  AND NOT EXISTS (SELECT 1 FROM evaluations WHERE name = ?)
"""


def measure_bounds(
    connection: sqlite3.Connection,
    bounds: list[Bound],
    window: tuple[int, int],
    *,
    span_name: str | None = None,
    pricing: Pricing,
) -> list[Measured]:
    """Compare what happened in a window, in nanoseconds since the epoch, with plain bounds."""
    if not bounds:
        return []
    group = overall(connection, TrafficScope(*window, span_name), pricing)
    seconds = max((window[1] - window[0]) / 1e9, 1e-9)
    is_said = any(bound.evaluator not in METRICS for bound in bounds)
    users = user_feedback(connection, set(), window[0]) if is_said else []
    by_name = {feedback.name: feedback for feedback in users}
    results = []
    for bound in bounds:
        if bound.evaluator == NO_ANSWER:
            results.append(_of_answers(connection, bound, window, span_name))
            continue
        if bound.evaluator not in _READ:
            known = None if span_name is not None else by_name.get(bound.evaluator)
            why = "nobody gave such feedback" if span_name is None else _OF_ALL_SPANS
            results.append(_of_feedback(bound, known, window, why))
            continue
        value = _READ[bound.evaluator](group, seconds)
        detail = ""
        if bound.evaluator.startswith("cost_usd") and group.unpriced_calls:
            detail = _lacking(pricing)
        holds = None if value is None else _is_beyond(bound, value)
        if detail and holds is not True:
            holds = None  # what is not priced may cost anything
        results.append(Measured(str(bound), holds, value, group.count, *window, detail))
    return results


def _of_answers(
    connection: sqlite3.Connection, bound: Bound, window: tuple[int, int], span_name: str | None
) -> Measured:
    """Compare the share of requests whose answer got lost with a bound."""
    names = unanswered(connection, *window, span_name)
    requests, lost = sum(each.requests for each in names), sum(each.lost for each in names)
    if not requests:
        return Measured(str(bound), None, None, 0, *window, "no request with content is known")
    share = lost / requests
    detail = f"{plural(lost, 'request')} without an answer"
    return Measured(str(bound), _is_beyond(bound, share), share, requests, *window, detail)


_OF_ALL_SPANS = "feedback is about whole traces: leave the name of a span out"


def _lacking(pricing: Pricing) -> str:
    """Count the calls of unknown cost, apart by what is missing: their price or their usage."""
    unknown = {"price": pricing.unpriced, "usage": pricing.silent}
    return " and ".join(
        f"{plural(calls.total(), 'call')} of unknown {what} ({', '.join(calls)})"
        for what, calls in unknown.items()
        if calls
    )


def _of_feedback(
    bound: Bound, feedback: UserFeedback | None, window: tuple[int, int], why: str
) -> Measured:
    """Compare the mean of what users said with a bound; it corrects nothing, as they choose."""
    if feedback is None:
        return Measured(str(bound), None, None, 0, *window, why)
    detail = f"feedback on {extent_of(feedback)}"
    if feedback.mean is None:
        why = f"{detail}, in words, which have no mean"
        return Measured(str(bound), None, None, feedback.count, *window, why)
    holds = _is_beyond(bound, feedback.mean)
    return Measured(str(bound), holds, feedback.mean, feedback.count, *window, detail)


def _is_beyond(bound: Bound, value: float) -> bool:
    """Return whether a value is what a bound warns of."""
    return value < bound.value if bound.sign == "<" else value > bound.value


FIRST_LOOK_NS = 30 * DAY_NS
"""How far back the first look at a store goes."""


def read_bound(text: str) -> Bound:
    """Read one bound, such as ``groundedness<0.9``; raises `ConfigurationError` for other text."""
    parts = re.fullmatch(r"\s*([^<>\s]+)\s*([<>])\s*(-?\d*\.?\d+)\s*", text)
    if parts is None:
        raise ConfigurationError(f"{text!r} is not an alert: expected 'groundedness<0.9'")
    field, dot, _ = parts[1].partition(".")
    if dot and parts[1] not in METRICS and any(name.startswith(f"{field}.") for name in METRICS):
        raise ConfigurationError(f"{parts[1]!r} is not measured: {nearest(parts[1], METRICS)}")
    return Bound(parts[1], parts[2], float(parts[3]))


def bounds_from(path: str) -> list[Bound]:
    """Read a file with one alert per line; what follows ``#`` is a comment.

    Raises `ConfigurationError`, which names the line, if a line is not an alert.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    bounds = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        try:
            bounds += [read_bound(text)] if text else []
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, line {number}: {error}") from None
    return bounds


def level_of(alerts: int) -> float:
    """Return the evidence that raises an alarm, so that at most 5 % of months hold a false one.

    The 5 % are divided by the number of alerts (Bonferroni), which holds however they depend on
    each other.
    """
    return max(alerts, 1) / ALPHA


def begin_alert(reader: StoreReader, bound: Bound, since_ns: int | None, now_ns: int) -> AlertState:
    """Begin to follow an alert: from ``since_ns``, or the first record of the last 30 days."""
    if since_ns is None:
        first = reader.read(lambda connection: first_ns(connection, bound.evaluator))
        since_ns = max(first or 0, now_ns - FIRST_LOOK_NS)
    return AlertState.begun(bound, since_ns)


def follow_alert(
    reader: StoreReader,
    alert: AlertState,
    until_ns: int,
    level: float,
    *,
    span_name: str | None = None,
    predictor: str | None = None,
) -> list[Event]:
    """Bring an alert up to a moment; return what there is to tell."""
    evaluator = alert.bound.evaluator
    wanted = Wanted(evaluator, predictor or registry.predictor_of(evaluator), span_name)

    def read(connection: sqlite3.Connection) -> list[Event]:
        events: list[Event] = []
        now = arrived(connection)
        if alert.arrived is not None:
            before = late(
                connection,
                wanted,
                alert.cursor_ns,
                alert.arrived,
                set(alert.left_out),
            )
            events += alert.follow_late(*before, level)
        for hour in hours(connection, wanted, alert.cursor_ns, until_ns):
            events += alert.follow(hour, level)
        alert.arrived = now
        last = alert.silence.last_verdict_ns
        alert.silence.went_on = bool(
            last and until_ns - last > DAY_NS and went_on(connection, wanted, last)
        )
        return events

    return reader.read(read)


def followed_alerts(
    reader: StoreReader,
    bounds: Iterable[Bound],
    since_ns: int | None,
    now_ns: int,
    *,
    span_name: str | None = None,
    predictor: str | None = None,
) -> list[AlertState]:
    """Follow alerts from the beginning. That is for a single look, such as ``llmeval report``."""
    followed = [begin_alert(reader, bound, since_ns or 0, now_ns) for bound in bounds]
    for alert in followed:
        follow_alert(
            reader, alert, now_ns, level_of(len(followed)),
            span_name=span_name, predictor=predictor,
        )  # fmt: skip
        if not alert.judged:
            name = alert.bound.evaluator
            alert.problem = alert.problem or reader.read(partial(unknown_name, name))
    return followed


def unknown_name(name: str, connection: sqlite3.Connection) -> str:
    """Say that no evaluator has this name; empty if one in the store or of this SDK has it.

    It is empty for a store without evaluations too, whose app may have an evaluator of its own.
    """
    stored = {*names_in(connection, "evaluations", "name")}
    stored.update(names_in(connection, "not_run", "evaluator"))
    if not stored or name in stored or registry.known(name) is not None:
        return ""
    hint = nearest(name, {*METRICS, *stored, *registry.judges()})
    return f"nothing in the store is named {name!r}: {hint}"
