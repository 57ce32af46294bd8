"""One look of ``llmeval watch``: bring the alerts up to now, and say how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llmeval_sdk.cli.alerts import begin, follow, level_of, unknown_name
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import values
from llmeval_sdk.plugins.watch._plain_alarms import look_at_traffic
from llmeval_sdk.plugins.watch._watch_state import AlertMessage, PlainAlarm, WatchState
from llmeval_sdk.store.alert_state import AlertCourse, Bound, Event
from llmeval_sdk.store.effective import COUNTS, IS_NEWEST
from llmeval_sdk.store.hours import HOUR_NS
from llmeval_sdk.store.populations import Population, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.thresholds import Measured, split
from llmeval_sdk.store.words import moment
from llmeval_sdk.text.terminal import number, printable


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


def look(
    reader: StoreReader,
    state: WatchState,
    bounds: Sequence[Bound],
    now_ns: int,
    *,
    window_ns: int,
    since_ns: int | None = None,
    viewer: str = "",
) -> list[Standing]:
    """Take in the hours that are over, and put the messages that follow into the outbox."""
    plain, bounds = reader.read(lambda store: split(store, bounds))
    silenced = _change_sort(state, plain, bounds, now_ns)
    standings = [
        _plain_standing(*found, now_ns)
        for found in look_at_traffic(reader, state, plain, now_ns, window_ns)
    ]
    level = level_of(len(bounds))
    until = (now_ns - SETTLE_NS) // HOUR_NS * HOUR_NS
    for bound in bounds:
        name = str(bound)
        course = state.courses.get(name)
        if course is None:
            if unknown := reader.read(partial(unknown_name, bound.evaluator)):
                raise ConfigurationError(f"{name}: {unknown}")
            course = state.courses[name] = begin(reader, bound, since_ns, now_ns)
            course.silenced_until_ns = silenced.get(name, 0)
        for event in follow(reader, course, until, level):
            raised = event.kind == "raised"
            facts = about(reader, course, level, viewer) if raised else {}
            _put(state, course, event, facts, now_ns)
        standings.append(_standing(reader, course, level, now_ns))
    return standings


def _change_sort(
    state: WatchState, plain: Sequence[Bound], scored: Sequence[Bound], now_ns: int
) -> dict[str, int]:
    """Forget what alerts of a changed sort have gathered, but not until when they are silenced.

    Plain alerts get that time here; that of alerts on scores is returned by name.

    The sort of a bound follows from who says what is under its name: feedback under a new name
    makes it plain, and the first verdict of an evaluator with this name makes it one on a score.
    """
    silenced: dict[str, int] = {}
    for bound in plain:
        course = state.courses.pop(str(bound), None)
        if course is not None:
            state.plain[str(bound)] = PlainAlarm(silenced_until_ns=course.silenced_until_ns)
            _close(state, str(bound), "feedback", now_ns, is_alarm=course.is_alarm)
    for bound in scored:
        alarm = state.plain.pop(str(bound), None)
        if alarm is not None:
            silenced[str(bound)] = alarm.silenced_until_ns
            _close(state, str(bound), "scores", now_ns, is_alarm=bool(alarm.since_ns))
    return silenced


def _close(state: WatchState, name: str, about: str, now_ns: int, *, is_alarm: bool) -> None:
    """Announce that an alarm is over because its bound now compares something else: ``about``."""
    if is_alarm:
        text = f"{name}: the alarm is over; the bound is on {about} from now on"
        facts = {"alert": name, "at": moment(now_ns)}
        identity = f"{name}-over-{now_ns}"
        message = AlertMessage(identity, name, "over", now_ns, text, facts, put_ns=now_ns)
        state.outbox.append(message)


def ready(state: WatchState, now_ns: int) -> list[AlertMessage]:
    """Return the messages that may be told now: a silenced alert waits."""
    alerts: list[tuple[str, AlertCourse | PlainAlarm]] = [
        *state.courses.items(), *state.plain.items(),
    ]  # fmt: skip
    silent = {name for name, alert in alerts if alert.silenced_until_ns > now_ns}
    return [message for message in state.outbox if message.alert not in silent]


def _put(
    state: WatchState, course: AlertCourse, event: Event, facts: dict[str, Any], now_ns: int
) -> None:
    """Put an event into the outbox."""
    name = str(course.bound)
    if event.kind == "over":
        unheard = [
            message
            for message in state.outbox
            if message.alert == name and message.kind == "raised" and not message.taken_ns
        ]
        if unheard:  # nobody heard of the alarm, and it is over
            state.outbox = [message for message in state.outbox if message not in unheard]
            return
    facts = {"alert": name, "at": moment(event.at_ns), **facts}
    text = _text(name, course.bound.value, event, facts)
    identity = f"{name}-{event.kind}-{event.at_ns}"
    state.outbox.append(
        AlertMessage(identity, name, event.kind, event.at_ns, text, facts, put_ns=now_ns)
    )


def about(reader: StoreReader, course: AlertCourse, level: float, viewer: str) -> dict[str, Any]:
    """Return what is known about an alarm: since when, how sure, which spans, the worst records."""
    since = course.since_ns or course.cursor_ns
    selection = (since, course.cursor_ns, None, None)
    whole = _since_alarm(reader, course).estimate
    spans: list[dict[str, Any]] = [
        {"span": each.span_name, "mean": each.estimate.mean if each.estimate else each.mean,
         "scored": each.funnel.scored}
        for each in populations(reader, (*selection[:2], course.bound.evaluator, None), None)
        if each.mean is not None
    ]  # fmt: skip
    spans.sort(key=lambda each: each["mean"], reverse=course.bound.sign == ">")
    false_alarms = min(1.0, level * 0.05 / max(course.evidence.total, 1e-9))
    return {
        "since": moment(since),
        "mean": whole and whole.mean,
        "low": whole and whole.low,
        "high": whole and whole.high,
        "chance_of_a_false_alarm": false_alarms,
        "spans": spans[:SPANS],
        "worst": _worst(reader, course, since, viewer),
    }


def _since_alarm(reader: StoreReader, course: AlertCourse) -> Population:
    """Estimate over what was judged since an alarm's change began, as far as it was counted."""
    period = course.since_ns or course.cursor_ns, course.cursor_ns, None, None
    return overall(reader, period, None, course.bound.evaluator)


def _worst(
    reader: StoreReader, course: AlertCourse, since: int, viewer: str
) -> list[dict[str, Any]]:
    which = {"name": course.bound.evaluator, "since": since, "until": course.cursor_ns}
    rows = reader.read(lambda c: c.execute(_WORST, which).fetchall())
    scored = [(value, *row[1:]) for row in rows if (value := values.number(row[0])) is not None]
    scored.sort(key=lambda row: row[0], reverse=course.bound.sign == ">")
    base = viewer.rstrip("/")
    return [
        {"value": value, "span": span_name, "trace_id": trace_id, "span_id": span_id,
         "link": f"{base}/traces/{trace_id}?span={span_id}"}
        for value, trace_id, span_id, span_name in scored[:EXAMPLES]
    ]  # fmt: skip


def _text(name: str, bound: float, event: Event, facts: dict[str, Any]) -> str:
    if event.kind == "over":
        return f"{name}: the alarm is over; the mean is back on the right side of its bound"
    if event.kind == "judge_changed":
        return f"{name}: the judge changed ({event.detail}); evidence is gathered from nothing"
    mean = ""
    if facts["mean"] is not None:
        mean = (
            f"the mean over all traffic is {facts['mean']:.3f}"
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


def _plain_standing(measured: Measured, alarm: PlainAlarm, now_ns: int) -> Standing:
    state = {True: "alarm", False: "calm", None: "undecided"}[measured.holds]
    if alarm.since_ns and measured.holds is not False:
        state = "alarm"
    window = f"from {moment(measured.since_ns)} to {moment(measured.until_ns)}"
    detail = "nothing was measured" if measured.value is None else f"{measured.value:.4g}"
    detail = "; ".join(filter(None, (f"{detail} {window}", measured.detail)))
    if state == "alarm" and alarm.silenced_until_ns > now_ns:
        state, detail = "silenced", f"{detail}, silenced until {moment(alarm.silenced_until_ns)}"
    return Standing(
        measured.alert, state, float(state in ("alarm", "silenced")), measured.value,
        measured.count, alarm.since_ns or None, detail, plain=True,
    )  # fmt: skip


def _standing(reader: StoreReader, course: AlertCourse, level: float, now_ns: int) -> Standing:
    lacking = course.lacking()
    mean, needed, judged, waiting = course.mean(), course.needed(level), course.judged, False
    if course.is_alarm:
        part = _since_alarm(reader, course)
        mean = None if part.estimate is None else part.estimate.mean
        judged = part.funnel.scored
        silent = course.silenced_until_ns > now_ns
        state = "silenced" if silent else "alarm"
        detail = f"since about {moment(course.since_ns or 0)}"
        if silent:
            detail += f", silenced until {moment(course.silenced_until_ns)}"
        if lacking:
            detail += f"; {lacking}"
        needed = None
    elif course.cursor_ns > now_ns + HOUR_NS:
        state, needed = "undecided", None
        detail = f"the clock is behind what was counted, up to {moment(course.cursor_ns)}"
    elif lacking:
        state, detail = "undecided", lacking
        if not course.judged:
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
        str(course.bound), state, course.evidence.total / level, mean, judged,
        course.since_ns, detail, needed, course.silence.last_verdict_ns, tuple(course.notes()),
        waiting,
    )  # fmt: skip


_WORST = f"""
SELECT value, trace_id, span_id, span_name FROM evaluations e
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND error_type IS NULL
  AND {COUNTS.format(table="e")} AND {IS_NEWEST.format(table="e", name=":name")}
ORDER BY time_ns DESC LIMIT 2000
"""  # noqa: S608 - constants
