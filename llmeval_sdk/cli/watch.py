"""``llmeval watch``: looks at a store again and again, and raises an alarm when quality drops."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import Any

from llmeval_sdk import config
from llmeval_sdk._terminal import number, printable
from llmeval_sdk.cli._alarm_telemetry import Telemetry
from llmeval_sdk.cli._alerts import alert, alerts_of
from llmeval_sdk.cli._options import Help, add_store, moment, open_store, seconds, since
from llmeval_sdk.cli._output import say, say_wrapped, table
from llmeval_sdk.cli._watch_state import LEASE_NS, AlertMessage, StateFile, WatchState
from llmeval_sdk.cli._watching import Look, look, ready
from llmeval_sdk.cli._webhook import Webhook
from llmeval_sdk.config.watching import WatchSettings
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.store.course import Bound
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.reader import StoreReader


_EPILOG = """\
example:
  llmeval watch --once --alert 'groundedness<0.9'       from cron, hourly
  llmeval watch --alerts alerts.txt       a process of its own, until it is ended
  llmeval watch --alert 'groundedness<0.9' --silence 24h --once

You may look as often as you like: while every mean stays at its bound, all alerts
together raise a false alarm in at most 5 % of months. An alarm is reported once, and
again when it is over; only new evidence can raise it another time. The counts are kept
in a file beside the store, which processes share. An hour is counted five minutes after
it has ended.

LLMEVAL_ALERT_WEBHOOK (and LLMEVAL_ALERT_TOKEN, LLMEVAL_ALERT_FORMAT=slack) sends
alarms to a web address; a message that is not accepted is sent again at the next look.

Exit codes: 0 no alarm; 1 an alarm is in force and not silenced; 2 the command could not
run, or an alert cannot be decided.
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
        "--silence",
        type=seconds,
        metavar="TIME",
        help="report nothing about these alerts for this long, such as 24h",
    )
    parser.add_argument(
        "--resolve",
        action="store_true",
        help="end the alarms of these alerts and start to gather evidence again",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object per look")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look once, or until the process is ended."""
    bounds = [*args.alert, *(alerts_of(args.alerts) if args.alerts else ())]
    bounds = list({str(bound): bound for bound in bounds}.values())
    if not bounds:
        raise ConfigurationError("nothing to watch: give --alert 'groundedness<0.9' or --alerts")
    settings = config.from_environment(problems=[])
    watching = settings.of(WatchSettings)
    if watching.alert_webhook:
        Webhook(watching)  # a mistake in it is told before anything is looked at
    file = StateFile(path_of(args.store or settings.store))
    try:
        while True:
            code = _round(args, bounds, watching, file)
            if args.once:
                return code
            args.silence, args.resolve = None, False
            time.sleep(args.every)
    finally:
        file.close()


def _round(
    args: argparse.Namespace, bounds: list[Bound], watching: WatchSettings, file: StateFile
) -> int:
    """Take one look and tell what changed."""
    hook = Webhook(watching) if watching.alert_webhook else None
    telemetry = Telemetry()
    with open_store(args.store) as reader:
        work = _looking(args, reader, bounds, watching.viewer_url)
        looks, messages = file.change(bounds, work)
    untold = _deliver(file, bounds, messages, hook, telemetry)
    for each in looks:
        telemetry.gauges(each.alert, active=each.state == "alarm", evidence=each.evidence)
    telemetry.flush()
    _show(args, looks, messages)
    for message, why in untold:
        sys.stderr.write(f"llmeval watch: {message.id} was not told, and is kept: {why}\n")
    states = {each.state for each in looks}
    return 1 if "alarm" in states else 2 if "undecided" in states or untold else 0


def _looking(
    args: argparse.Namespace, reader: StoreReader, bounds: list[Bound], viewer: str
) -> Any:
    def work(state: WatchState) -> tuple[list[Look], list[AlertMessage]]:
        now = time.time_ns()
        looks = look(reader, state, bounds, now, since_ns=args.since, viewer=viewer)
        if args.resolve or args.silence is not None:
            for bound in bounds:
                course = state.courses[str(bound)]
                if args.resolve:
                    course.resolve()
                if args.silence is not None:
                    course.silenced_until_ns = now + int(args.silence * 1e9)
            looks = look(reader, state, bounds, now, since_ns=args.since, viewer=viewer)
        messages = [each for each in ready(state, now) if now - each.taken_ns > LEASE_NS]
        for each in messages:
            each.taken_ns = now
        return looks, messages

    return work


def _deliver(
    file: StateFile,
    bounds: list[Bound],
    messages: list[AlertMessage],
    hook: Webhook | None,
    telemetry: Telemetry,
) -> list[tuple[AlertMessage, str]]:
    """Tell what this process took; what nobody took stays in the outbox."""
    untold = []
    for message in messages:
        try:
            if hook is not None:
                plain = {"id": message.id, "kind": message.kind, "text": message.text}
                hook.tell({**plain, **message.facts})
            telemetry.event(message)
        except ExportError as error:
            untold.append((message, str(error)))
    if messages:
        failed = {message.id for message, _ in untold}
        taken = {message.id for message in messages}

        def settle(state: WatchState) -> None:
            state.outbox = [m for m in state.outbox if m.id not in taken or m.id in failed]
            for each in state.outbox:
                if each.id in failed:
                    each.taken_ns = 0

        file.change(bounds, settle)
    return untold


def _show(args: argparse.Namespace, looks: list[Look], messages: list[AlertMessage]) -> None:
    if args.json:
        told = [{"id": m.id, "kind": m.kind, "text": m.text, **m.facts} for m in messages]
        say(json.dumps({"alerts": [asdict(each) for each in looks], "told": told}))
    elif args.once:
        rows = [
            (
                each.alert,
                each.state,
                "-" if each.mean is None else number(each.mean),
                f"{each.judged:,}",
                f"{each.evidence:.2g}",
                each.detail,
            )
            for each in looks
        ]
        table(("alert", "state", "mean", "judged", "evidence", ""), rows, numbers="mean judged")
    if not args.json:
        for message in messages:
            say(f"\n{moment(message.at_ns)}")
            for line in message.text.split("\n"):
                say_wrapped(printable(line, 1_000))
    sys.stdout.flush()
