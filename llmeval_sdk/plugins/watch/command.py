"""``llmeval watch``: looks at a store again and again, and raises an alarm when quality drops."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from functools import partial

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import (
    Help,
    add_json,
    add_store,
    add_where,
    checked,
    open_store,
    seconds,
    since,
)
from llmeval_sdk.cli.output import say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, ExportError, nearest
from llmeval_sdk.plugins.watch.delivery import AlertMessage, Telemetry, Webhook
from llmeval_sdk.plugins.watch.look import Question, Standing, look, ready
from llmeval_sdk.plugins.watch.settings import WatchSettings
from llmeval_sdk.plugins.watch.state import (
    LEASE_NS,
    PlainAlarm,
    WatchState,
    WatchStateText,
    warn,
)
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.alerts import bounds_from, read_bound
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.selection import BETWEEN, SLICES, selection_of
from llmeval_sdk.text.terminal import moment, number, printable


GROUPS, MOST_GROUPS = 50, 200
"""How many groups are told apart, and how many can be."""
MOST_ROWS = 30
"""How many alerts a look shows as text."""
_ORDER = ("alarm", "silenced", "undecided", "calm")

_EPILOG = """\
example:
  llmeval watch --once --alert 'groundedness<0.9'       from cron, hourly
  llmeval watch --alerts alerts.txt       a process of its own, until it is ended
  llmeval watch --alert 'groundedness<0.9' --silence 24h --once
  llmeval watch --once --alert 'latency_seconds.p95>2' --window 30m
  llmeval watch --once --alert 'groundedness<0.85' --by tag:tenant
  llmeval watch --once --alert 'groundedness<0.85 where tag:plan=paid'

You may look as often as you like: as long as no mean leaves its bound, at most 5 % of
months hold a false alarm of any alert. An alarm is reported once, and again when it is
over. The counts are kept in a file beside the store, which processes share.

With --by each group is watched for itself, and the 5 % hold for all groups together: the
largest ones, as many as --groups says, and all others as one. The fewer groups, the sooner
a drop is found. A group that has had no requests for 30 days makes way for another one.

Alerts on the app's own traffic compare what happened within --window before now with the
bound: latency_seconds.p95, time_to_first_token_seconds.p95, tokens_per_second.p50,
error_rate, no_answer, cost_usd.per_day, cost_usd.per_request or requests.per_minute.

An alert is `undecided` while its mean is beyond the bound and too little was judged to be
sure, which more traffic mends: no alarm. An alert cannot be decided while the judge gives no
verdicts, because nobody knows then whether quality has dropped. Without --once that is
reported when it begins and when it ends.

LLMEVAL_ALERT_WEBHOOK (and LLMEVAL_ALERT_TOKEN) sends
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
        help="raise an alarm when this becomes true, such as 'groundedness<0.9' or"
        " 'groundedness<0.9 where tag:tenant=acme'; may be repeated",
    )  # fmt: skip
    parser.add_argument("--alerts", metavar="FILE", help="a file with one alert per line")
    add_where(parser)
    parser.add_argument(
        "--by", action="append", default=[], metavar="GROUP",
        help=f"watch each group for itself: {', '.join(SLICES)}; at most two",
    )  # fmt: skip
    parser.add_argument(
        "--groups", type=checked(_count), default=GROUPS, metavar="N",
        help=f"how many groups are told apart with --by, the largest (default: {GROUPS})",
    )  # fmt: skip
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
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME",
        help="with --by: the groups that --silence and --resolve are about (default: all)",
    )  # fmt: skip
    add_json(parser, "one object per look")
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_GROUPS:
        raise ValueError(f"expected 1 to {MOST_GROUPS} groups, not {number}")
    return number


def run(args: argparse.Namespace) -> int:
    """Look once, or until the process is ended."""
    bounds = [*args.alert, *(bounds_from(args.alerts) if args.alerts else ())]
    where, by = tuple(args.where), tuple(args.by)
    selection_of(where, by)  # raises for what is no condition or grouping
    bounds = [replace(bound, where=(*bound.where, *where), by=by) for bound in bounds]
    bounds = list({str(bound): bound for bound in bounds}.values())
    if not bounds:
        raise ConfigurationError("nothing to watch: give --alert 'groundedness<0.9' or --alerts")
    if args.group and (not by or (args.silence is None and not args.resolve)):
        raise ConfigurationError("--group goes with --by and --silence or --resolve")
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
        standings, messages, expired = self._file.change(self._bring_up)
        untold = self._deliver(messages)
        for standing in standings:
            state = "waiting" if standing.waiting else standing.state
            self._telemetry.gauges(standing.alert, state, standing.evidence)
        self._telemetry.flush()
        self._show(standings, messages, untold, expired)
        for message in messages:
            if message.id in untold:
                warn(f"{message.id} was not told, and is kept: {untold[message.id]}")
        for message in expired:
            warn(f"{message.id} could not be told for seven days, and is given up: {message.text}")
        if any(standing.state == "alarm" for standing in standings):
            return 1
        return 2 if untold or expired or any(map(_is_broken, standings)) else 0

    def _bring_up(
        self, state: WatchState
    ) -> tuple[list[Standing], list[AlertMessage], list[AlertMessage]]:
        """Return how the alerts stand, the messages to tell, and those that are given up."""
        args, now = self._args, time.time_ns()
        standings = self._look(state, now)
        if args.resolve or args.silence is not None:
            until_ns = None if args.silence is None else now + int(args.silence * 1e9)
            for alert in self._named(state):
                if args.resolve:
                    alert.resolve()
                if until_ns is not None:
                    alert.silenced_until_ns = until_ns
            standings = self._look(state, now)
        expired = state.expire(now)
        messages = [m for m in ready(state, now) if now - m.taken_ns > LEASE_NS]
        for message in messages:
            message.taken_ns = now
        return standings, messages, expired

    def _named(self, state: WatchState) -> list[AlertState | PlainAlarm]:
        """Return the alerts that are to be silenced or resolved.

        Raises `ConfigurationError` for a group that has none.
        """
        by_group: dict[str, list[AlertState | PlainAlarm]] = {}
        for bound in self._bounds:
            for alert in state.of_bound(bound):
                by_group.setdefault(_words(alert.bound.group), []).append(alert)
            for alarm in state.plain_of(bound).values():
                by_group.setdefault(_words(alarm.group), []).append(alarm)
        for group in self._args.group:
            if group not in by_group:
                raise ConfigurationError(
                    f"no alert is about the group {group!r}: {nearest(group, by_group)}"
                )
        chosen = self._args.group or by_group
        return [alert for group in chosen for alert in by_group[group]]

    def _look(self, state: WatchState, now: int) -> list[Standing]:
        args = self._args
        question = Question(
            tuple(self._bounds), now, int(args.window * 1e9), args.since, args.groups, self._viewer
        )
        return look(partial(open_store, args.store), state, question)

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

            self._file.change(settle)
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


def _words(group: str | None) -> str:
    """Return a group as people write it: of two groupings, the values with a comma."""
    return "" if group is None else group.replace(BETWEEN, ", ")


def _show_standings(standings: list[Standing]) -> None:
    """Print how the alerts stand; of many groups, those that are calm are counted."""
    shown = sorted(standings, key=lambda standing: _ORDER.index(standing.state))
    if any(standing.group for standing in standings):
        shown.sort(key=lambda standing: (_ORDER.index(standing.state), -standing.evidence))
    rows = [
        (
            standing.alert,
            standing.state,
            "-" if standing.mean is None else number(standing.mean),
            f"{standing.judged:,}",
            "-" if standing.plain else f"{standing.evidence:.2g}",
            standing.detail,
        )
        for standing in shown[:MOST_ROWS]
    ]
    table(("alert", "state", "value", "counted", "evidence", ""), rows, numbers="value counted")
    if further := shown[MOST_ROWS:]:
        states = Counter(standing.state for standing in further)
        counted = ", ".join(f"{count:,} {state}" for state, count in states.items())
        say_wrapped(f"and {len(further):,} more alerts, with less evidence: {counted}")
    for standing in shown[:MOST_ROWS]:
        for note in standing.notes:
            say_wrapped(printable(f"{standing.alert}: {note}.", 1_000))
