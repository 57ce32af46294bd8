"""``llmeval agent``: score, judge and export in a process of its own what apps left in a spool."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from dataclasses import asdict
from importlib import import_module
from time import monotonic

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json
from llmeval_sdk.cli.output import say, say_json
from llmeval_sdk.errors import ConfigurationError


_EPILOG = """\
example:
  LLMEVAL_SPOOL=/var/spool/myapp LLMEVAL_WORKER=off python app.py &
  llmeval agent --spool /var/spool/myapp

The environment of this process sets exporters, judges and limits. The agent takes the
records of apps that run with LLMEVAL_WORKER=off, and those that a killed app left
behind. Ctrl-C or SIGTERM ends it; records that it did not finish stay in the folder.
"""
_FINISH_SECONDS = 10.0
"""How long the end may take; what is not delivered by then stays in the spool."""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "agent",
        help="score, judge and export the records that apps leave in a spool folder",
        description="Drain a spool folder continuously, so that apps need no thread of the SDK "
        "and lose nothing when they are killed.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument("--spool", metavar="DIR", help="the spool folder (default: LLMEVAL_SPOOL)")
    parser.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        action="append",
        default=[],
        help="a module to import first, which declares the app's own evaluators; may be repeated",
    )
    parser.add_argument("--once", action="store_true", help="exit as soon as no record is waiting")
    add_json(parser, "one object at the start and one at the end")
    parser.set_defaults(run=run)


def _check_spool(path: str) -> None:
    from llmeval_sdk.pipeline.spool import Folder, SpoolError

    try:
        os.close(Folder(path).descriptor)
    except SpoolError as error:
        raise ConfigurationError(f"the spool cannot be used: {error}") from None


def run(args: argparse.Namespace) -> int:
    """Drain the folder until told to end."""
    from llmeval_sdk.pipeline import runtime

    spool = args.spool or config.from_environment(problems=[]).spool
    if not spool:
        raise ConfigurationError("no spool folder is named: pass --spool DIR or set LLMEVAL_SPOOL")
    _check_spool(spool)
    for module in args.modules:
        try:
            import_module(module)
        except ImportError as error:
            raise ConfigurationError(f"--import {module}: {error}") from error
    runtime.configure(spool=spool, worker="agent", heuristics="background")
    pipeline = runtime.pipeline()
    if pipeline is None or not pipeline.start():
        raise ConfigurationError("there is nothing to do because LLMEVAL_ENABLED is off")
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    exporters = list(pipeline.stats().exporters)
    if args.json:
        say_json({"spool": spool, "exporters": exporters})
    else:
        say(f"draining {spool}; exporters: {', '.join(exporters) or 'none'}")
    sys.stdout.flush()
    while not ending.wait(0.1):
        if args.once and pipeline.is_idle:
            break
    begun = monotonic()
    stats = runtime.shutdown(_FINISH_SECONDS)
    taken, left, took = (
        stats.spool.get("adopted", 0), stats.spool.get("left", 0), monotonic() - begun,
    )  # fmt: skip
    if args.json:
        say_json({"taken": taken, "left": left, "end_seconds": took, **asdict(stats)})
        return 0
    say(
        f"took {taken} records, delivered {stats.delivered}, left {left} in the spool;"
        f" ended in {took:.1f} s"
    )
    return 0
