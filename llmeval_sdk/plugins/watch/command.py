"""``llmeval watch``: looks at a store again and again, and raises an alarm when quality drops."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import (
    Help,
    add_json,
    add_store,
    checked,
    open_store,
    pricing,
    seconds,
    since,
)
from llmeval_sdk.cli.output import say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import DAY_NS, HOUR_NS, values
from llmeval_sdk.plugins.watch.delivery import AlertMessage, Telemetry, Webhook
from llmeval_sdk.plugins.watch.settings import WatchSettings
from llmeval_sdk.store.alert_state import AlertState, Bound, Event
from llmeval_sdk.store.alerts import (
    Measured,
    begin_alert,
    bounds_from,
    follow_alert,
    level_of,
    measure_bounds,
    read_bound,
    split_bounds,
    unknown_name,
)
from llmeval_sdk.store.files import Unusable, path_of
from llmeval_sdk.store.latest import is_latest, is_newest
from llmeval_sdk.store.populations import Population, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import SharedText, StateFile, state_path
from llmeval_sdk.text.terminal import moment, number, plural, printable


# What the command remembers: one text in the file of state.

VERSION = 1
MAX_TRIES = 20
"""How often a look begins anew where another process looked at the same store meanwhile."""
LEASE_NS = 600_000_000_000
"""How long a message belongs to the process that took it: after that, another one may send it."""
KEPT_NS = 7 * DAY_NS
"""How long delivery of a message is tried, counted from when it was put into the outbox."""

T = TypeVar("T")


@dataclass(slots=True)
class PlainAlarm:
    """How a plain bound on the traffic stood at the last look."""

    since_ns: int = 0
    """When the look was that raised the alarm; 0 while none is in force."""
    silenced_until_ns: int = 0


@dataclass(slots=True)
class WatchState:
    """Alerts and alarms by name, and the messages that are still to be delivered."""

    alerts: dict[str, AlertState] = field(default_factory=dict)
    outbox: list[AlertMessage] = field(default_factory=list)
    plain: dict[str, PlainAlarm] = field(default_factory=dict)
    """Plain bounds on the traffic, by alert."""

    def expire(self, now_ns: int) -> list[AlertMessage]:
        """Take out of the outbox, and return, what could not be told for seven days."""
        expired = [m for m in self.outbox if now_ns - m.put_ns >= KEPT_NS]
        self.outbox = [message for message in self.outbox if message not in expired]
        return expired

    def dump(self) -> str:
        """Write it as JSON."""
        alerts = {name: alert.as_plain() for name, alert in self.alerts.items()}
        outbox = [
            {name: getattr(message, name) for name in AlertMessage.__slots__}
            for message in self.outbox
        ]
        plain = {name: asdict(alarm) for name, alarm in self.plain.items()}
        state = {"version": VERSION, "alerts": alerts, "outbox": outbox, "plain": plain}
        return json.dumps(state)

    @classmethod
    def load(cls, text: str, bounds: Sequence[Bound]) -> WatchState:
        """Read what `dump` wrote; the state of alerts not in ``bounds`` is kept as it is.

        What cannot be read is said and begun anew. Raises `ConfigurationError` for what a newer
        release wrote.
        """
        if not text:
            return cls()
        try:
            plain = json.loads(text)
            if (version := int(plain["version"])) <= VERSION:
                return cls._from_plain(plain, {str(bound): bound for bound in bounds})
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            problem = f"what was counted so far cannot be read ({type(error).__name__})"
            _warn(f"{problem}: the counts begin anew")
            return cls()
        raise ConfigurationError(
            "what `llmeval watch` has counted was written by a newer release (version"
            f" {version}, this one knows {VERSION}): upgrade llmeval-inprocess"
        )

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any], known: Mapping[str, Bound]) -> WatchState:
        return cls(
            {
                name: AlertState.from_plain(known.get(name) or _bound_of(name), alert)
                for name, alert in plain["alerts"].items()
            },
            [AlertMessage(**message) for message in plain["outbox"]],
            {name: PlainAlarm(**alarm) for name, alarm in plain["plain"].items()},
        )


def _bound_of(name: str) -> Bound:
    """Read an alert that was written by `Bound.__str__`."""
    evaluator, sign, value = name.partition("<") if "<" in name else name.partition(">")
    return Bound(evaluator, sign, float(value))


class WatchStateText:
    """The state of ``llmeval watch`` in the file beside a store, which all processes share."""

    def __init__(self, store: Path) -> None:
        self._path = state_path(store)
        self._text = SharedText(StateFile(self._path, timeout=10.0), "alerts")

    def change(self, bounds: Sequence[Bound], work: Callable[[WatchState], T]) -> T:
        """Let ``work`` change the state; return what it returns.

        A look at a store takes seconds, in which the file is not held. Where another process has
        changed the state meanwhile, ``work`` begins anew with what that left.

        Raises `ConfigurationError` if the file cannot be written or read.
        """
        try:
            for _ in range(MAX_TRIES):
                text, version = self._text.read()
                state = WatchState.load(text, bounds)
                result = work(state)
                if self._text.replace(state.dump(), version):
                    return result
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be used ({error.strerror}), and without it every look would"
                " report the same alarms again"
            ) from None
        except (sqlite3.Error, Unusable) as error:
            raise ConfigurationError(f"{self._path} cannot be used: {error}") from None
        raise ConfigurationError(f"other processes change {self._path} all the time")

    def close(self) -> None:
        """Close the file."""
        self._text.close()


# Plain bounds on the traffic, for ``llmeval watch``: an alarm is told once, and so is its end.


def _look_at_traffic(
    reader: StoreReader, state: WatchState, bounds: Sequence[Bound], now_ns: int, window_ns: int
) -> list[tuple[Measured, PlainAlarm]]:
    """Compare the window's traffic with bounds; put alarms that began or ended into the outbox."""
    period = now_ns - window_ns, now_ns
    measured = reader.read(
        lambda store: measure_bounds(store, list(bounds), period, pricing=pricing())
    )
    standings = []
    for result in measured:
        alarm = state.plain.setdefault(result.alert, PlainAlarm())
        if result.holds and not alarm.since_ns:
            alarm.since_ns = now_ns
            _put_plainly(state, result, "raised", now_ns)
        elif result.holds is False and alarm.since_ns:
            alarm.since_ns = 0
            _put_plainly(state, result, "over", now_ns)
        standings.append((result, alarm))
    return standings


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
        "requests": result.count, "since": moment(result.since_ns),
    }  # fmt: skip
    identity = f"{result.alert}-{kind}-{now_ns}"
    state.outbox.append(AlertMessage(identity, result.alert, kind, now_ns, text, facts, now_ns))


# One look of ``llmeval watch``: bring the alerts up to now, and say how they stand.

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
    plain, bounds = reader.read(lambda store: split_bounds(store, bounds))
    silenced = _change_sort(state, plain, bounds, now_ns)
    standings = [
        _plain_standing(*found, now_ns)
        for found in _look_at_traffic(reader, state, plain, now_ns, window_ns)
    ]
    level = level_of(len(bounds))
    until = (now_ns - SETTLE_NS) // HOUR_NS * HOUR_NS
    for bound in bounds:
        name = str(bound)
        alert = state.alerts.get(name)
        if alert is None:
            if unknown := reader.read(partial(unknown_name, bound.evaluator)):
                raise ConfigurationError(f"{name}: {unknown}")
            alert = state.alerts[name] = begin_alert(reader, bound, since_ns, now_ns)
            alert.silenced_until_ns = silenced.get(name, 0)
        for event in follow_alert(reader, alert, until, level):
            raised = event.kind == "raised"
            facts = about(reader, alert, level, viewer) if raised else {}
            _put(state, alert, event, facts, now_ns)
        standings.append(_standing(reader, alert, level, now_ns))
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
        alert = state.alerts.pop(str(bound), None)
        if alert is not None:
            state.plain[str(bound)] = PlainAlarm(silenced_until_ns=alert.silenced_until_ns)
            _close(state, str(bound), "feedback", now_ns, is_alarm=alert.is_alarm)
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
    facts = {"alert": name, "at": moment(event.at_ns), **facts}
    text = _text(name, alert.bound.value, event, facts)
    identity = f"{name}-{event.kind}-{event.at_ns}"
    state.outbox.append(AlertMessage(identity, name, event.kind, event.at_ns, text, facts, now_ns))


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


def _standing(reader: StoreReader, alert: AlertState, level: float, now_ns: int) -> Standing:
    lacking = alert.lacking()
    mean, needed, judged, waiting = (
        alert.mean(),
        alert.needed(level),
        alert.judged,
        False,
    )
    if alert.is_alarm:
        part = _since_alarm(reader, alert)
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
        waiting,
    )  # fmt: skip


_WORST = f"""
SELECT value, trace_id, span_id, span_name FROM evaluations e
WHERE name = :name AND time_ns >= :since AND time_ns < :until AND error_type IS NULL
  AND {is_latest("e")} AND {is_newest("e", ":name")}
ORDER BY time_ns DESC LIMIT 2000
"""  # noqa: S608 - constants


_EPILOG = """\
example:
  llmeval watch --once --alert 'groundedness<0.9'       from cron, hourly
  llmeval watch --alerts alerts.txt       a process of its own, until it is ended
  llmeval watch --alert 'groundedness<0.9' --silence 24h --once
  llmeval watch --once --alert 'latency_seconds.p95>2' --window 30m

You may look as often as you like: as long as no mean leaves its bound, at most 5 % of
months hold a false alarm of any alert. An alarm is reported once, and again when it is
over. The counts are kept in a file beside the store, which processes share.

Alerts on the app's own traffic compare what happened within --window before now with the
bound: latency_seconds.p95, time_to_first_token_seconds.p95, tokens_per_second.p50,
error_rate, no_answer, cost_usd.per_day, cost_usd.per_request or requests.per_minute.

An alert is `undecided` while its mean is beyond the bound and too little was judged to be
sure, which more traffic mends: no alarm. An alert cannot be decided while the judge gives no
verdicts, because nobody knows then whether quality has dropped. Without --once that is
reported when it begins and when it ends.

LLMEVAL_ALERT_WEBHOOK (and LLMEVAL_ALERT_TOKEN, LLMEVAL_ALERT_FORMAT=slack) sends
alarms to a web address. A message that is not accepted is sent again at the next look,
for seven days.

Exit codes: 0 no alarm; 1 an alarm is in force and not silenced; 2 the command could not
run, a message could not be delivered, or an alert cannot be decided.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "watch",
        help="raise an alarm when the mean of a score leaves its bound",
        description="Watch a store and raise an alarm when the mean of a score over all traffic "
        "leaves its bound. The evidence is valid however often you look.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--alert", type=checked(read_bound), action="append", default=[], metavar="BOUND",
        help="raise an alarm when this becomes true, such as 'groundedness<0.9'; may be repeated",
    )  # fmt: skip
    parser.add_argument("--alerts", metavar="FILE", help="a file with one alert per line")
    parser.add_argument("--once", action="store_true", help="look once and exit")
    parser.add_argument(
        "--every",
        type=seconds,
        default=300.0,
        metavar="TIME",
        help="the time between two looks (default: 5m)",
    )
    parser.add_argument(
        "--since", type=since, metavar="TIME",
        help="where the first look begins (default: the first record of the last 30 days)",
    )  # fmt: skip
    parser.add_argument(
        "--window", type=seconds, default=3_600.0, metavar="TIME",
        help="the time before now that plain alerts on the traffic are about (default: 1h)",
    )  # fmt: skip
    parser.add_argument(
        "--silence",
        type=seconds,
        metavar="TIME",
        help="report nothing about these alerts for this long, such as 24h",
    )
    parser.add_argument(
        "--resolve",
        action="store_true",
        help="end the alarms of these alerts and begin again to gather evidence",
    )
    add_json(parser, "one object per look")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look once, or until the process is ended."""
    bounds = [*args.alert, *(bounds_from(args.alerts) if args.alerts else ())]
    bounds = list({str(bound): bound for bound in bounds}.values())
    if not bounds:
        raise ConfigurationError("nothing to watch: give --alert 'groundedness<0.9' or --alerts")
    settings = config.from_environment(problems=[])
    watching = settings.of(WatchSettings)
    hook = Webhook(watching) if watching.alert_webhook else None
    file = WatchStateText(path_of(args.store or settings.store))
    rounds = _Rounds(args, bounds, file, hook, watching.viewer_url)
    try:
        while True:
            code = rounds.look()
            if args.once:
                return code
            args.silence, args.resolve = None, False
            time.sleep(args.every)
    finally:
        file.close()


class _Rounds:
    """The looks of one process, and what it remembers from one look to the next."""

    def __init__(
        self,
        args: argparse.Namespace,
        bounds: list[Bound],
        file: WatchStateText,
        hook: Webhook | None,
        viewer: str,
    ) -> None:
        self._args = args
        self._bounds = bounds
        self._file = file
        self._hook = hook
        self._viewer = viewer
        self._telemetry = Telemetry()
        self._undecided: set[str] = set()
        """The alerts that could not be decided at the last look."""

    def look(self) -> int:
        """Take one look and tell what changed; return the exit code."""
        with open_store(self._args.store) as reader:
            standings, messages, expired = self._file.change(
                self._bounds, lambda state: self._bring_up(reader, state)
            )
        untold = self._deliver(messages)
        for standing in standings:
            state = "waiting" if standing.waiting else standing.state
            self._telemetry.gauges(standing.alert, state, standing.evidence)
        self._telemetry.flush()
        self._show(standings, messages, untold, expired)
        for message in messages:
            if message.id in untold:
                _warn(f"{message.id} was not told, and is kept: {untold[message.id]}")
        for message in expired:
            _warn(f"{message.id} could not be told for seven days, and is given up: {message.text}")
        if any(standing.state == "alarm" for standing in standings):
            return 1
        return 2 if untold or expired or any(map(_is_broken, standings)) else 0

    def _bring_up(
        self, reader: StoreReader, state: WatchState
    ) -> tuple[list[Standing], list[AlertMessage], list[AlertMessage]]:
        """Return how the alerts stand, the messages to tell, and those that are given up."""
        args, now = self._args, time.time_ns()
        standings = self._look(reader, state, now)
        if args.resolve or args.silence is not None:
            for bound in self._bounds:
                alert = state.alerts.get(str(bound)) or state.plain[str(bound)]
                if args.resolve and isinstance(alert, AlertState):
                    alert.resolve()
                elif args.resolve:
                    state.plain[str(bound)] = alert = PlainAlarm()
                if args.silence is not None:
                    alert.silenced_until_ns = now + int(args.silence * 1e9)
            standings = self._look(reader, state, now)
        expired = state.expire(now)
        messages = [m for m in ready(state, now) if now - m.taken_ns > LEASE_NS]
        for message in messages:
            message.taken_ns = now
        return standings, messages, expired

    def _look(self, reader: StoreReader, state: WatchState, now: int) -> list[Standing]:
        return look(
            reader, state, self._bounds, now,
            window_ns=int(self._args.window * 1e9), since_ns=self._args.since, viewer=self._viewer,
        )  # fmt: skip

    def _deliver(self, messages: list[AlertMessage]) -> dict[str, str]:
        """Send messages; return for those that nobody took, by id, why. They stay in the outbox.

        Messages that were not sent are given back for the next look, also if something fails that
        is not the receiver's doing.
        """
        if not messages:
            return {}
        sent: set[str] = set()
        unsent: dict[str, str] = {}
        try:
            for message in messages:
                try:
                    if self._hook is not None:
                        self._hook.tell(message.as_plain())
                    self._telemetry.event(message)
                    sent.add(message.id)
                except ExportError as error:
                    unsent[message.id] = str(error)
        finally:
            taken = {message.id for message in messages}

            def settle(state: WatchState) -> None:
                state.outbox = [m for m in state.outbox if m.id not in sent]
                for message in state.outbox:
                    if message.id in taken:
                        message.taken_ns = 0

            self._file.change(self._bounds, settle)
        return unsent

    def _show(
        self,
        standings: list[Standing],
        messages: list[AlertMessage],
        untold: dict[str, str],
        expired: list[AlertMessage],
    ) -> None:
        if self._args.json:
            shown = {
                "alerts": [asdict(standing) for standing in standings],
                "told": [m.as_plain() for m in messages if m.id not in untold],
                "untold": [
                    {**m.as_plain(), "why": untold[m.id]} for m in messages if m.id in untold
                ],
                "expired": [m.as_plain() for m in expired],
            }
            say_json(shown)
        else:
            if self._args.once:
                _show_standings(standings)
            else:
                self._show_undecided(standings)
            for message in messages:
                say(f"\n{moment(message.at_ns)}")
                for line in message.text.split("\n"):
                    say_wrapped(printable(line, 1_000))
        sys.stdout.flush()

    def _show_undecided(self, standings: list[Standing]) -> None:
        """Say which alerts can no longer be decided, or can be again, since the last look."""
        now = moment(time.time_ns())
        for standing in standings:
            was, is_now = standing.alert in self._undecided, _is_broken(standing)
            if was is not is_now:
                what = f"cannot be decided: {standing.detail}" if is_now else "can be decided again"
                say_wrapped(printable(f"{now} {standing.alert}: {what}", 1_000))
        self._undecided = {standing.alert for standing in standings if _is_broken(standing)}


def _is_broken(standing: Standing) -> bool:
    """Say whether an alert cannot be decided for another reason than that more must be judged."""
    return standing.state == "undecided" and not standing.waiting


def _show_standings(standings: list[Standing]) -> None:
    rows = [
        (
            standing.alert,
            standing.state,
            "-" if standing.mean is None else number(standing.mean),
            f"{standing.judged:,}",
            "-" if standing.plain else f"{standing.evidence:.2g}",
            standing.detail,
        )
        for standing in standings
    ]
    table(("alert", "state", "value", "counted", "evidence", ""), rows, numbers="value counted")
    for standing in standings:
        for note in standing.notes:
            say_wrapped(printable(f"{standing.alert}: {note}.", 1_000))


def _warn(text: str) -> None:
    sys.stderr.write(f"llmeval watch: {printable(text, 1_000)}\n")
