"""Alerts: plain bounds on the traffic of a window, and bounds on means over all traffic.

Plain bounds, such as ``latency_seconds.p95>2``, are no statistics: what was measured in the window
is compared with the bound, and nothing else. A window of three requests therefore raises an alarm
as easily as one of a million. A bound on the scores of an evaluator, such as ``groundedness<0.9``,
is followed hour by hour (see `alert_state`). Both can be about some requests alone, or about each
group of them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.model import DAY_NS, DAY_SECONDS
from llmeval_sdk.process.reading import read_file
from llmeval_sdk.store.alert_state import ALPHA, AlertState, Bound, Event
from llmeval_sdk.store.filters import read_filter
from llmeval_sdk.store.labels import (
    GroupFeedback,
    UserFeedback,
    extent_of,
    feedback_by_group,
    user_feedback,
)
from llmeval_sdk.store.losses import Completeness
from llmeval_sdk.store.reader import StoreReader, names_in
from llmeval_sdk.store.selection import NONE, OTHERS
from llmeval_sdk.store.splits import BY_SLICE, WHOLE, Part
from llmeval_sdk.store.traffic import (
    Pricing,
    TrafficGroup,
    TrafficScope,
    completeness_of,
    groups_of_selection,
    overall,
    unanswered,
)
from llmeval_sdk.store.verdicts_by_hour import (
    Arrived,
    Wanted,
    arrived,
    first_ns,
    hours,
    largest_groups,
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

    bound: Bound
    holds: bool | None
    """Whether the alarm is in force; ``None`` where nothing was measured."""
    value: float | None
    count: int
    """How many requests began in the window, or how many gave this feedback."""
    since_ns: int
    until_ns: int
    detail: str = ""

    @property
    def alert(self) -> str:
        """The name of the alert."""
        return str(self.bound)

    def as_plain(self) -> dict[str, object]:
        """Return it as types of JSON, with the name of the alert instead of its bound."""
        plain = asdict(self)
        del plain["bound"]
        return {"alert": self.alert, **plain}


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
        is_feedback = bound.evaluator in THUMBS or (
            registry.known(bound.evaluator) is None
            and bool(connection.execute(_IS_FEEDBACK, name * 2).fetchone()[0])
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
    stored = completeness_of(connection, TrafficScope(*window))
    is_said = any(bound.evaluator not in METRICS for bound in bounds)
    users = user_feedback(connection, set(), window[0]) if is_said else []
    by_name = {feedback.name: feedback for feedback in users}
    results = []
    for bound in bounds:
        if bound.evaluator == NO_ANSWER:
            results.append(_of_answers(connection, bound, window, span_name))
        elif bound.evaluator in _READ:
            results.append(_of_traffic(bound, group, window, _lacking(pricing), stored))
        else:
            known = None if span_name is not None else by_name.get(bound.evaluator)
            why = "nobody gave such feedback" if span_name is None else _OF_ALL_SPANS
            results.append(_of_feedback(bound, known, window, why))
    return results


def measure_groups(
    connection: sqlite3.Connection,
    bounds: Iterable[Bound],
    window: tuple[int, int],
    *,
    most: int,
    pricing: Pricing,
) -> tuple[list[Measured], int]:
    """Compare what happened in each group of the connection's selection with plain bounds.

    Returns:
        How the bounds stand in each of the ``most`` largest groups of the window, and how many
        further groups were not compared.
    """
    sums = groups_of_selection(connection, TrafficScope(*window), pricing)
    stored = completeness_of(connection, TrafficScope(*window))
    ranked = sorted(sums, key=lambda group: -group.count)
    feedback = {(each.name, each.group): each for each in feedback_by_group(connection, window[0])}
    results = []
    for group in ranked[:most]:
        for bound in bounds:
            mine = replace(bound, group=NONE if group.key is None else group.key)
            if bound.evaluator == NO_ANSWER:
                holds = None if group.no_answer is None else _is_beyond(bound, group.no_answer)
                measured = Measured(mine, holds, group.no_answer, group.count, *window)
            elif bound.evaluator in _READ:
                missing = f"{plural(group.unpriced_calls, 'call')} of unknown cost"
                measured = _of_traffic(mine, group, window, missing, stored)
            else:
                given = feedback.get((bound.evaluator, group.key))
                measured = _of_group_feedback(mine, given, window)
            results.append(measured)
    return results, len(ranked[most:])


def _of_traffic(
    bound: Bound,
    group: TrafficGroup,
    window: tuple[int, int],
    missing: str,
    stored: Completeness | None,
) -> Measured:
    """Compare a figure of the traffic with a bound.

    ``missing`` says which calls have no known cost, and ``stored`` what is lost of the window.
    """
    value = _READ[bound.evaluator](group, max((window[1] - window[0]) / 1e9, 1e-9))
    is_cost = bound.evaluator.startswith("cost_usd")
    detail = missing if is_cost and group.unpriced_calls else ""
    holds = None if value is None else _is_beyond(bound, value)
    if detail and holds is not True:
        holds = None  # what is not priced may cost anything
    if stored is not None:
        detail = f"{detail}{detail and '; '}{stored.sentence}"
    return Measured(bound, holds, value, group.count, *window, detail)


def _of_group_feedback(
    bound: Bound, feedback: GroupFeedback | None, window: tuple[int, int]
) -> Measured:
    if feedback is None or feedback.mean is None:
        count = feedback.count if feedback is not None else 0
        why = "feedback in words, which have no mean" if count else "nobody gave such feedback"
        return Measured(bound, None, None, count, *window, why)
    holds = _is_beyond(bound, feedback.mean)
    return Measured(bound, holds, feedback.mean, feedback.count, *window)


def _of_answers(
    connection: sqlite3.Connection, bound: Bound, window: tuple[int, int], span_name: str | None
) -> Measured:
    """Compare the share of requests whose answer got lost with a bound."""
    names = unanswered(connection, *window, span_name)
    requests, lost = sum(each.requests for each in names), sum(each.lost for each in names)
    if not requests:
        return Measured(bound, None, None, 0, *window, "no request with content is known")
    share = lost / requests
    detail = f"{plural(lost, 'request')} without an answer"
    return Measured(bound, _is_beyond(bound, share), share, requests, *window, detail)


_OF_ALL_SPANS = "feedback is about whole traces: leave the name of a span out"


def _lacking(pricing: Pricing) -> str:
    """Count the calls of unknown cost, apart by what is missing: their price or their usage."""
    unknown = {"price": pricing.unpriced, "usage": pricing.silent}
    return " and ".join(
        f"{plural(round(calls.total()), 'call')} of unknown {what} ({', '.join(calls)})"
        for what, calls in unknown.items()
        if calls
    )


def _of_feedback(
    bound: Bound, feedback: UserFeedback | None, window: tuple[int, int], why: str
) -> Measured:
    """Compare the mean of what users said with a bound; it corrects nothing, as they choose."""
    if feedback is None:
        return Measured(bound, None, None, 0, *window, why)
    detail = f"feedback on {extent_of(feedback)}"
    if feedback.mean is None:
        why = f"{detail}, in words, which have no mean"
        return Measured(bound, None, None, feedback.count, *window, why)
    holds = _is_beyond(bound, feedback.mean)
    return Measured(bound, holds, feedback.mean, feedback.count, *window, detail)


def _is_beyond(bound: Bound, value: float) -> bool:
    """Return whether a value is what a bound warns of."""
    return value < bound.value if bound.sign == "<" else value > bound.value


FIRST_LOOK_NS = 30 * DAY_NS
"""How far back the first look at a store goes."""


WHERE = " where "
"""What stands before each condition of a bound on some requests alone."""
_NUMBER = r"-?(?:\d{1,15}(?:\.\d{1,30})?|\.\d{1,30})"
_BOUND = re.compile(rf"\s*([^<>\s]+)\s*([<>])\s*({_NUMBER})\s*")


def read_bound(text: str) -> Bound:
    """Read one bound, such as ``groundedness<0.9`` or ``groundedness<0.9 where tag:tenant=acme``.

    Raises `ConfigurationError` for other text.
    """
    first, *conditions = text.split(WHERE)
    parts = _BOUND.fullmatch(first)
    if parts is None:
        raise ConfigurationError(
            f"{text!r} is not an alert: expected 'groundedness<0.9', or"
            " 'groundedness<0.9 where tag:tenant=acme'"
        )
    read_filter(conditions)
    field, dot, _ = parts[1].partition(".")
    if dot and parts[1] not in METRICS and any(name.startswith(f"{field}.") for name in METRICS):
        raise ConfigurationError(f"{parts[1]!r} is not measured: {nearest(parts[1], METRICS)}")
    where = tuple(condition.strip() for condition in conditions)
    return Bound(parts[1], parts[2], float(parts[3]), where)


def bounds_from(path: str) -> list[Bound]:
    """Read a file with one alert per line; what follows ``#`` after a space is a comment.

    Raises `ConfigurationError`, which names the line, if a line is not an alert.
    """
    try:
        lines = read_file(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    bounds = []
    for number, line in enumerate(lines, 1):
        text = re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()
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


SILENT_NS = 30 * DAY_NS
"""How long a group has no requests before it makes way for another one."""


class BoundAlerts:
    """The alerts of one bound: one, or one for each group that its requests are divided into.

    Args:
        bound: The bound.
        alerts: The alerts so far, by group; the only one of a bound without groups by ``None``.
        most: How many groups have an alert of their own; one more is about all others together.
    """

    def __init__(self, bound: Bound, alerts: Iterable[AlertState] = (), most: int = 0) -> None:
        self.bound = bound
        self.by_group: dict[Part, AlertState] = {alert.bound.group: alert for alert in alerts}
        self._most = most
        self._begins_ns = 0

    @property
    def cursor_ns(self) -> int:
        """Up to when hours have been taken in."""
        return max((alert.cursor_ns for alert in self.by_group.values()), default=self._begins_ns)

    def begin(self, reader: StoreReader, since_ns: int | None, now_ns: int) -> None:
        """Begin to follow the bound, if nothing was counted so far: from ``since_ns`` on.

        Without it that is the first record of the last 30 days. The largest groups since then get
        alerts of their own.
        """
        if self.by_group:
            return
        if since_ns is None:
            first = reader.read(lambda connection: first_ns(connection, self.bound.evaluator))
            since_ns = max(first or 0, now_ns - FIRST_LOOK_NS)
        self._begins_ns = since_ns
        groups: list[Part] = [None]
        if self.bound.by:
            wanted, period = self._wanted(), (since_ns, now_ns)
            groups = reader.read(lambda c: largest_groups(c, wanted, period, self._most))
        for group in groups:
            self.of(group)

    def of(self, part: Part) -> AlertState:
        """Return the alert that a part of the store counts to; one begins with a new group.

        Once all places are taken, further groups count to the alert about all others.
        """
        group: Part = None
        if self.bound.by:
            group = NONE if part is None else part
            if group not in self.by_group and len(self.by_group.keys() - {OTHERS}) >= self._most:
                group = OTHERS
        alert = self.by_group.get(group)
        if alert is None:
            bound = replace(self.bound, group=group if isinstance(group, str) else None)
            alert = self.by_group[group] = AlertState.begun(bound, self.cursor_ns)
        return alert

    def follow(
        self,
        reader: StoreReader,
        until_ns: int,
        level: float,
        *,
        now: Arrived | None = None,
        span_name: str | None = None,
        predictor: str | None = None,
    ) -> list[tuple[AlertState, Event]]:
        """Bring the alerts up to a moment; return what there is to tell of them.

        ``now`` is how much of the store had arrived before the reader's selection was made: the
        groups of what came later are not known yet.
        """
        wanted = self._wanted(predictor, span_name)

        def read(connection: sqlite3.Connection) -> list[tuple[AlertState, Event]]:
            events = self._give_up()
            came = now or arrived(connection)
            before = [a.arrived for a in self.by_group.values() if a.arrived is not None]
            if before:
                came_late = late(
                    connection, wanted, self.cursor_ns, max(before),
                    left_out=lambda group: self.of(group).left_out, arrived=came,
                )  # fmt: skip
                for part, (hour, left_out) in came_late.items():
                    alert = self.of(part)
                    events += [(alert, e) for e in alert.follow_late(hour, left_out, level)]
            for part, hour in hours(connection, wanted, self.cursor_ns, until_ns, came):
                alert = self.of(part)
                events += [(alert, event) for event in alert.follow(hour, level)]
            last = max((a.silence.last_verdict_ns for a in self.by_group.values()), default=0)
            is_on = bool(last and until_ns - last > DAY_NS and went_on(connection, wanted, last))
            for alert in self.by_group.values():
                alert.arrived, alert.silence.went_on = came, is_on
            return events

        return reader.read(read)

    def _wanted(self, predictor: str | None = None, span_name: str | None = None) -> Wanted:
        evaluator = self.bound.evaluator
        split = BY_SLICE if self.bound.by else WHOLE
        return Wanted(
            evaluator, predictor or registry.predictor_of(evaluator), span_name, split,
            lambda part: self.of(part).bound.group,
        )  # fmt: skip

    def _give_up(self) -> list[tuple[AlertState, Event]]:
        """Forget groups that had no requests for 30 days, so that others get their places."""
        events, now = [], self.cursor_ns
        for group, alert in list(self.by_group.items()):
            if group is not None and now - alert.cursor_ns > SILENT_NS:
                del self.by_group[group]
                if alert.is_alarm:
                    events.append((alert, Event("over", now, "there were no requests for 30 days")))
        return events


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
    bounds = list(bounds)
    followed = []
    for bound in bounds:
        alerts = BoundAlerts(bound)
        alerts.begin(reader, since_ns or 0, now_ns)
        alerts.follow(
            reader, now_ns, level_of(len(bounds)), span_name=span_name, predictor=predictor
        )
        alert = alerts.of(None)
        if not alert.judged:
            name = alert.bound.evaluator
            alert.problem = alert.problem or reader.read(partial(unknown_name, name))
        followed.append(alert)
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
