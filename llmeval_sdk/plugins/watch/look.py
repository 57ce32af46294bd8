"""One look of ``llmeval watch``: bring the alerts up to now, and say how they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from sqlite3 import Connection
from typing import Any, Protocol, TypeAlias

from llmeval_sdk.cli.options import pricing
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import HOUR_NS, values
from llmeval_sdk.plugins.watch.delivery import AlertMessage
from llmeval_sdk.plugins.watch.state import PlainAlarm, WatchState
from llmeval_sdk.store.alert_state import NOTHING, AlertState, Bound, Event
from llmeval_sdk.store.alerts import (
    BoundAlerts,
    Measured,
    level_of,
    measure_bounds,
    measure_groups,
    split_bounds,
    unknown_name,
)
from llmeval_sdk.store.latest import is_latest, is_newest
from llmeval_sdk.store.populations import Population, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.selection import OTHERS
from llmeval_sdk.store.verdicts_by_hour import Arrived, arrived
from llmeval_sdk.text.terminal import moment, number, plural, printable


Conditions: TypeAlias = tuple[str, ...]
SETTLE_NS = 300_000_000_000
"""How long an hour has to be over before it is counted, so that its verdicts have arrived."""
SPANS, EXAMPLES = 5, 5
"""How many span names, and how many of the worst records, an alarm shows."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one alert stands after a look."""

    alert: str
    state: str
    """``alarm``, ``silenced``, ``calm`` or ``undecided``."""
    evidence: float
    """The evidence as a part of what raises an alarm, which 1 does."""
    mean: float | None
    """Over all traffic: of the last days, or of the part of it that an alarm is about."""
    judged: int
    since_ns: int | None
    detail: str
    needed: int | None = None
    """About how many more judged requests would raise an alarm if the mean stays as it is."""
    last_verdict_ns: int = 0
    """When the last verdict was given; 0 where there never was one."""
    notes: tuple[str, ...] = ()
    """What was recorded and is not counted."""
    waiting: bool = False
    """Whether it is undecided only because too little was judged so far, so that nothing is broken.
    """
    plain: bool = False
    """Whether the alert compares a plain figure of a window with its bound; ``mean`` holds it."""
    group: str = ""
    """The group that the alert is about, such as ``tag:tenant=acme``; empty for all requests."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a look compares, and with what."""

    bounds: tuple[Bound, ...]
    now_ns: int
    window_ns: int
    """The time before now that plain bounds are about."""
    since_ns: int | None
    """Where the first look at a bound begins; ``None`` for the first record of 30 days."""
    groups: int
    """How many groups of a bound have an alert of their own."""
    viewer: str
    """The address of the viewer, for links."""


class Lend(Protocol):
    """Lends a reader of the requests that a filter selects; see `options.open_store`."""

    def __call__(
        self,
        where: Sequence[str] = (),
        by: Sequence[str] = (),
        *,
        only: str | Collection[str] | None = None,
    ) -> AbstractContextManager[StoreReader]:
        """Open the store; the reader is closed at the end of the ``with`` block."""


def look(lend: Lend, state: WatchState, question: Question) -> list[Standing]:
    """Take in the hours that are over, and put the messages that follow into the outbox."""
    now_ns = question.now_ns
    with lend() as reader:
        plain, bounds = reader.read(lambda store: split_bounds(store, question.bounds))
        came = reader.read(arrived)
        for bound in bounds:
            if state.of_bound(bound):
                continue
            if unknown := reader.read(partial(unknown_name, bound.evaluator)):
                raise ConfigurationError(f"{bound}: {unknown}")
    silenced = _change_sort(state, plain, bounds, now_ns)
    standings = _look_at_traffic(lend, state, plain, question)
    level = level_of(sum(question.groups + 1 if bound.by else 1 for bound in bounds))
    for (where, by), same in _by_reader(bounds).items():
        with lend(where, by) as reader:
            for bound in same:
                alerts = BoundAlerts(bound, state.of_bound(bound), question.groups)
                if not alerts.by_group:
                    alerts.begin(reader, question.since_ns, now_ns)
                    for alert in alerts.by_group.values():
                        alert.silenced_until_ns = silenced.get(str(alert.bound), 0)
                standings += _followed(lend, reader, state, alerts, came, level, question)
    return standings


def _by_reader(bounds: Iterable[Bound]) -> dict[tuple[Conditions, Conditions], list[Bound]]:
    """Put bounds together that are about the same requests and groups."""
    together: dict[tuple[Conditions, Conditions], list[Bound]] = {}
    for bound in bounds:
        together.setdefault((bound.where, bound.by), []).append(bound)
    return together


def _followed(  # noqa: PLR0917 - one step of `look`
    lend: Lend,
    reader: StoreReader,
    state: WatchState,
    alerts: BoundAlerts,
    came: Arrived,
    level: float,
    question: Question,
) -> list[Standing]:
    """Bring the alerts of a bound up to now, and return how they stand."""
    now_ns = question.now_ns
    until = (now_ns - SETTLE_NS) // HOUR_NS * HOUR_NS
    for alert, event in alerts.follow(reader, until, level, now=came):
        facts: dict[str, Any] = {}
        if event.kind == "raised":
            with _of_group(lend, reader, alerts, alert) as mine:
                facts = about(mine, alert, level, question.viewer)
        _put(state, alert, event, facts, now_ns)
    current = {str(alert.bound): alert for alert in alerts.by_group.values()}
    of_others = {
        name: alert for name, alert in state.alerts.items() if alert.bound.whole != alerts.bound
    }
    state.alerts = of_others | current
    # A small group may well have no verdict yet; that no group has one is a fault of the judge's.
    may_wait = any(alert.judged for alert in current.values())
    standings = []
    if not current:
        open_hour = _open_hour(reader, alerts.bound.evaluator, until)
        standings = [_without_groups(alerts.bound, open_hour or NOTHING, waiting=bool(open_hour))]
    for alert in current.values():
        part, open_hour = None, ""
        if alert.lacking() == NOTHING:
            with _of_group(lend, reader, alerts, alert) as mine:
                open_hour = _open_hour(mine, alert.bound.evaluator, alert.cursor_ns)
        if alert.is_alarm:
            with _of_group(lend, reader, alerts, alert) as mine:
                part = _since_alarm(mine, alert)
        standings.append(
            _standing(alert, part, level, now_ns, may_wait=may_wait, open_hour=open_hour)
        )
    return standings


def _open_hour(reader: StoreReader, evaluator: str, since_ns: int) -> str:
    """Say how many verdicts wait for the end of their hour; empty where none does."""
    count, first_ns = reader.read(
        lambda store: store.execute(_VERDICTS, (evaluator, since_ns)).fetchone()
    )
    if not count:
        return ""
    counted = moment(first_ns - first_ns % HOUR_NS + HOUR_NS + SETTLE_NS)[11:16]
    first = f"the hour of the first {plural(count, 'verdict')} is not over"
    return f"{first}: they count from {counted} UTC on"


_VERDICTS = """
SELECT count(*), min(time_ns) FROM evaluations
WHERE name = ? AND time_ns >= ? AND value IS NOT NULL
"""


@contextmanager
def _of_group(
    lend: Lend, reader: StoreReader, alerts: BoundAlerts, alert: AlertState
) -> Iterator[StoreReader]:
    """Lend a reader of the requests that an alert is about."""
    group, bound = alert.bound.group, alert.bound
    if group is None:
        yield reader
        return
    named = [other for other in alerts.by_group if isinstance(other, str) and other != OTHERS]
    with lend(bound.where, bound.by, only=named if group == OTHERS else group) as mine:
        yield mine


def _change_sort(
    state: WatchState, plain: Sequence[Bound], scored: Sequence[Bound], now_ns: int
) -> dict[str, int]:
    """Forget what alerts of a changed sort have gathered, but not until when they are silenced.

    Plain alerts get that time here; that of alerts on scores is returned by their names.

    The sort of a bound follows from who says what is under its name: feedback under a new name
    makes it plain, and the first verdict of an evaluator with this name makes it one on a score.
    """
    silenced: dict[str, int] = {}
    for bound in plain:
        for alert in state.of_bound(bound):
            name = str(alert.bound)
            del state.alerts[name]
            alarm = state.plain[name] = _plain_alarm(alert.bound)
            alarm.silenced_until_ns = alert.silenced_until_ns
            _close(state, name, "feedback", now_ns, is_alarm=alert.is_alarm)
    for bound in scored:
        for name, alarm in state.plain_of(bound).items():
            del state.plain[name]
            silenced[name] = alarm.silenced_until_ns
            _close(state, name, "scores", now_ns, is_alarm=bool(alarm.since_ns))
    return silenced


def _close(state: WatchState, name: str, about: str, now_ns: int, *, is_alarm: bool) -> None:
    """Announce that an alarm is over because its bound now compares something else: ``about``."""
    if is_alarm:
        text = f"{name}: the alarm is over; the bound is on {about} from now on"
        facts = {"alert": name, "at": moment(now_ns)}
        identity = f"{name}-over-{now_ns}"
        message = AlertMessage(identity, name, "over", now_ns, text, facts, now_ns)
        state.outbox.append(message)


def ready(state: WatchState, now_ns: int) -> list[AlertMessage]:
    """Return the messages that may be told now: a silenced alert waits."""
    alerts: list[tuple[str, AlertState | PlainAlarm]] = [
        *state.alerts.items(), *state.plain.items(),
    ]  # fmt: skip
    silent = {name for name, alert in alerts if alert.silenced_until_ns > now_ns}
    return [message for message in state.outbox if message.alert not in silent]


def _put(
    state: WatchState, alert: AlertState, event: Event, facts: dict[str, Any], now_ns: int
) -> None:
    """Put an event into the outbox."""
    name = str(alert.bound)
    if event.kind == "over":
        unheard = [
            message
            for message in state.outbox
            if message.alert == name and message.kind == "raised" and not message.taken_ns
        ]
        if unheard:  # nobody heard of the alarm, and it is over
            state.outbox = [message for message in state.outbox if message not in unheard]
            return
    facts = {"alert": name, "at": moment(event.at_ns), **_group_facts(alert.bound), **facts}
    text = _text(name, alert.bound.value, event, facts)
    identity = f"{name}-{event.kind}-{event.at_ns}"
    state.outbox.append(AlertMessage(identity, name, event.kind, event.at_ns, text, facts, now_ns))


def _group_facts(bound: Bound) -> dict[str, Any]:
    """Return the group that an alert is about, for programs."""
    return {} if bound.group is None else {"group": bound.group_values}


def _without_groups(bound: Bound, why: str, *, waiting: bool = False) -> Standing:
    """Return the standing of a bound by group of which no group has any request."""
    detail = f"there is no group: {why}"
    return Standing(str(bound), "undecided", 0.0, None, 0, None, detail, waiting=waiting)


def about(reader: StoreReader, alert: AlertState, level: float, viewer: str) -> dict[str, Any]:
    """Return what is known about an alarm: since when, how sure, which spans, the worst records."""
    since = alert.since_ns or alert.cursor_ns
    selection = (since, alert.cursor_ns, None, None)
    whole = _since_alarm(reader, alert).estimate
    spans: list[dict[str, Any]] = [
        {"span": each.span_name, "mean": each.estimate.mean if each.estimate else each.mean,
         "scored": each.funnel.scored}
        for each in populations(reader, (*selection[:2], alert.bound.evaluator, None), None)
        if each.mean is not None
    ]  # fmt: skip
    spans.sort(key=lambda each: each["mean"], reverse=alert.bound.sign == ">")
    false_alarms = min(1.0, level * 0.05 / max(alert.evidence.total, 1e-9))
    return {
        "since": moment(since),
        "mean": whole and whole.mean,
        "low": whole and whole.low,
        "high": whole and whole.high,
        "chance_of_a_false_alarm": false_alarms,
        "spans": spans[:SPANS],
        "worst": _worst(reader, alert, since, viewer),
    }


def _since_alarm(reader: StoreReader, alert: AlertState) -> Population:
    """Estimate over what was judged since an alarm's change began, as far as it was counted."""
    period = alert.since_ns or alert.cursor_ns, alert.cursor_ns, None, None
    return overall(reader, period, None, alert.bound.evaluator)


def _worst(reader: StoreReader, alert: AlertState, since: int, viewer: str) -> list[dict[str, Any]]:
    which = {"name": alert.bound.evaluator, "since": since, "until": alert.cursor_ns}
    rows = reader.read(lambda c: c.execute(_WORST, which).fetchall())
    scored = [(value, *row[1:]) for row in rows if (value := values.number(row[0])) is not None]
    scored.sort(key=lambda row: row[0], reverse=alert.bound.sign == ">")
    base = viewer.rstrip("/")
    return [
        {"value": value, "span": span_name, "trace_id": trace_id, "span_id": span_id,
         "link": f"{base}/traces/{trace_id}?span={span_id}"}
        for value, trace_id, span_id, span_name in scored[:EXAMPLES]
    ]  # fmt: skip


def _text(name: str, bound: float, event: Event, facts: dict[str, Any]) -> str:
    if event.kind == "over":
        why = event.detail or "the mean is back on the right side of its bound"
        return f"{name}: the alarm is over; {why}"
    if event.kind == "judge_changed":
        return f"{name}: the judge changed ({event.detail}); evidence is gathered from nothing"
    mean = ""
    if facts["mean"] is not None:
        mean = (
            f"the mean over all {'its ' if 'group' in facts else ''}traffic is {facts['mean']:.3f}"
            f" (95 % interval {facts['low']:.3f} to {facts['high']:.3f}), "
        )
    chance = facts["chance_of_a_false_alarm"]
    sure = "under 0.1 %" if chance < 0.001 else f"at most {100 * chance:.2g} %"
    first = (
        f"ALARM {name}, since about {facts['since']}: {mean}the limit {bound:g}."
        f" The chance of a false alarm is {sure}."
    )
    lines = [first]
    spans = [f"{each['span'] or '-'} {each['mean']:.3f}" for each in facts["spans"]]
    if spans:
        lines.append("Spans: " + ", ".join(spans))
    lines += [f"{number(each['value'])} {each['link']}" for each in facts["worst"]]
    return "\n".join(printable(line, 1_000) for line in lines)


def _standing(
    alert: AlertState,
    part: Population | None,
    level: float,
    now_ns: int,
    *,
    may_wait: bool,
    open_hour: str,
) -> Standing:
    """Say how an alert stands.

    Args:
        alert: The alert.
        part: Of an alarm, what was judged since its change began.
        level: The evidence that raises an alarm.
        now_ns: The time of the look.
        may_wait: Whether a group without a verdict waits for one, as other groups have some.
        open_hour: Says that verdicts wait for the end of their hour; empty where none does.
    """
    lacking = open_hour or alert.lacking()
    mean, needed, judged, waiting = (
        alert.mean(),
        alert.needed(level),
        alert.judged,
        False,
    )
    if part is not None:
        mean = None if part.estimate is None else part.estimate.mean
        judged = part.funnel.scored
        silent = alert.silenced_until_ns > now_ns
        state = "silenced" if silent else "alarm"
        detail = f"since about {moment(alert.since_ns or 0)}"
        if silent:
            detail += f", silenced until {moment(alert.silenced_until_ns)}"
        if lacking:
            detail += f"; {lacking}"
        needed = None
    elif alert.cursor_ns > now_ns + HOUR_NS:
        state, needed = "undecided", None
        detail = f"the clock is behind what was counted, up to {moment(alert.cursor_ns)}"
    elif lacking:
        state, detail = "undecided", lacking
        waiting = bool(open_hour) or (may_wait and alert.is_new)
        if not alert.judged:
            detail += f"; about {needed:,} judged requests would show a drop of five points"
    elif needed is None:
        state, detail = "calm", "the mean is on the right side of its bound"
    elif mean is None:
        state, waiting = "undecided", True
        detail = f"about {needed:,} judged requests would show a drop of five points"
    else:
        state, waiting = "undecided", True
        detail = (
            "the mean is beyond its bound, and too little was judged to be sure: about"
            f" {needed:,} more judged requests would decide it if the mean stays there"
        )
    return Standing(
        str(alert.bound), state, alert.evidence.total / level, mean, judged,
        alert.since_ns, detail, needed, alert.silence.last_verdict_ns, tuple(alert.notes()),
        waiting, group=alert.bound.group_name,
    )  # fmt: skip


_WORST = f"""
SELECT value, trace_id, span_id, span_name FROM evaluations e
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND error_type IS NULL
  AND {is_latest("e")} AND {is_newest("e", ":name")}
ORDER BY time_ns DESC LIMIT 2000
"""  # noqa: S608 - constants


# Plain bounds on the traffic: an alarm is told once, and so is its end.


def _look_at_traffic(
    lend: Lend, state: WatchState, bounds: Sequence[Bound], question: Question
) -> list[Standing]:
    """Compare the window's traffic with bounds; put alarms that began or ended into the outbox."""
    standings = []
    period = question.now_ns - question.window_ns, question.now_ns
    for (where, by), same in _by_reader(bounds).items():
        with lend(where, by) as reader:
            results, further = reader.read(partial(_measured, same, period, question.groups))
        measured = {result.alert for result in results}
        for bound in same:
            results += [
                Measured(replace(bound, group=alarm.group), None, None, 0, *period, "no requests")
                for alert, alarm in state.plain_of(bound).items()
                if alarm.since_ns and alert not in measured
            ]
        if not results:
            standings += [_without_groups(bound, "no requests") for bound in same]
        for result in results:
            alarm = state.plain.setdefault(result.alert, _plain_alarm(result.bound))
            _compare(state, result, alarm, question.now_ns)
            standings.append(_plain_standing(result, alarm, question.now_ns, further))
            further = 0  # one note is enough
    state.plain = {
        alert: alarm
        for alert, alarm in state.plain.items()
        if not alarm.group_of or not alarm.is_idle(question.now_ns)
    }
    return standings


def _plain_alarm(bound: Bound) -> PlainAlarm:
    return PlainAlarm(group=bound.group, group_of="" if bound.group is None else str(bound.whole))


def _measured(
    bounds: list[Bound], period: tuple[int, int], most: int, connection: Connection
) -> tuple[list[Measured], int]:
    """Compare what happened, by group where the bounds are; see `measure_groups`."""
    if bounds[0].by:
        return measure_groups(connection, bounds, period, most=most, pricing=pricing())
    return measure_bounds(connection, bounds, period, pricing=pricing()), 0


def _compare(state: WatchState, result: Measured, alarm: PlainAlarm, now_ns: int) -> None:
    """Raise an alarm, or end it, where a plain bound was crossed; put that into the outbox."""
    if result.holds and not alarm.since_ns:
        alarm.since_ns = now_ns
        _put_plainly(state, result, "raised", now_ns)
    elif result.holds is False and alarm.since_ns:
        alarm.since_ns = 0
        _put_plainly(state, result, "over", now_ns)


def _put_plainly(state: WatchState, result: Measured, kind: str, now_ns: int) -> None:
    value = "nothing" if result.value is None else f"{result.value:.4g}"
    window = f"from {moment(result.since_ns)} to {moment(result.until_ns)}"
    measured = f"it was {value} {window}, over {plural(result.count, 'request')}"
    word = "ALARM" if kind == "raised" else "the alarm is over"
    text = f"{word} {result.alert}: {measured}"
    if kind == "over":
        text = f"{result.alert}: {word}; {measured}"
    facts = {
        "alert": result.alert, "at": moment(now_ns), "value": result.value,
        "requests": result.count, "since": moment(result.since_ns), **_group_facts(result.bound),
    }  # fmt: skip
    identity = f"{result.alert}-{kind}-{now_ns}"
    state.outbox.append(AlertMessage(identity, result.alert, kind, now_ns, text, facts, now_ns))


def _plain_standing(
    measured: Measured, alarm: PlainAlarm, now_ns: int, further: int = 0
) -> Standing:
    """Say how a plain bound stands; ``further`` groups were not compared with it."""
    state = {True: "alarm", False: "calm", None: "undecided"}[measured.holds]
    if alarm.since_ns and measured.holds is not False:
        state = "alarm"
    window = f"from {moment(measured.since_ns)} to {moment(measured.until_ns)}"
    detail = "nothing was measured" if measured.value is None else f"{measured.value:.4g}"
    detail = "; ".join(filter(None, (f"{detail} {window}", measured.detail)))
    if state == "alarm" and alarm.silenced_until_ns > now_ns:
        state, detail = "silenced", f"{detail}, silenced until {moment(alarm.silenced_until_ns)}"
    notes = [f"{further:,} smaller groups were not compared with it"] if further else []
    return Standing(
        measured.alert, state, float(state in ("alarm", "silenced")), measured.value,
        measured.count, alarm.since_ns or None, detail, plain=True, notes=tuple(notes),
        group=measured.bound.group_name,
    )  # fmt: skip
