"""``llmeval watch``: looks at a store again and again, and raises an alarm when quality drops."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.cli.alerts import alert, alerts_of
from llmeval_sdk.cli.options import Help, add_json, add_store, open_store, seconds, since
from llmeval_sdk.cli.output import say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.plugins.watch._alarm_telemetry import Telemetry
from llmeval_sdk.plugins.watch._watch_state import (
    LEASE_NS,
    AlertMessage,
    PlainAlarm,
    StateFile,
    WatchState,
)
from llmeval_sdk.plugins.watch._watching import Standing, look, ready
from llmeval_sdk.plugins.watch._webhook import Webhook
from llmeval_sdk.plugins.watch.settings import WatchSettings
from llmeval_sdk.store.alert_state import AlertCourse, Bound
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.words import moment
from llmeval_sdk.text.terminal import number, printable


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


def add(subparsers: Any) -> None:
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
        "--alert", type=alert, action="append", default=[], metavar="BOUND",
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
    bounds = [*args.alert, *(alerts_of(args.alerts) if args.alerts else ())]
    bounds = list({str(bound): bound for bound in bounds}.values())
    if not bounds:
        raise ConfigurationError("nothing to watch: give --alert 'groundedness<0.9' or --alerts")
    settings = config.from_environment(problems=[])
    watching = settings.of(WatchSettings)
    hook = Webhook(watching) if watching.alert_webhook else None
    file = StateFile(path_of(args.store or settings.store))
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
        file: StateFile,
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
                course = state.courses.get(str(bound)) or state.plain[str(bound)]
                if args.resolve and isinstance(course, AlertCourse):
                    course.resolve()
                elif args.resolve:
                    state.plain[str(bound)] = course = PlainAlarm()
                if args.silence is not None:
                    course.silenced_until_ns = now + int(args.silence * 1e9)
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
