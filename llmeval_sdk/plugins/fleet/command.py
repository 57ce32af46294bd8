"""``llmeval fleet``: a worker that makes the judgements that apps hand over."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from socket import gethostname
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json
from llmeval_sdk.cli.output import say, say_json
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.fleet.settings import FleetSettings, answer_here, check


_EPILOG = """\
example:
  export LLMEVAL_JUDGE_QUEUE=redis://localhost:6379/0 LLMEVAL_FLEET_KEY=…
  LLMEVAL_JUDGE_MODEL=gpt-4o OPENAI_API_KEY=… llmeval fleet --app my_judges:configure

The environment of this process, or the function of --app, sets the judges, the model, the
exporters and the limits. Messages only name judges. SIGTERM lets it finish what it has begun.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "fleet",
        help="make the judgements that apps with LLMEVAL_JUDGE_QUEUE hand over",
        description="Run a worker of the judge fleet: Celery's own, on the Redis of "
        "LLMEVAL_JUDGE_QUEUE.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument(
        "--app",
        metavar="MODULE:FUNCTION",
        help="called when the worker starts: it calls llmeval.configure(…) with the app's own "
        "judges, model and exporters (default: the environment alone)",
    )
    parser.add_argument(
        "--pool",
        choices=("threads", "prefork"),
        default="threads",
        help="threads: one process; prefork: one process for each message at a time "
        "(default: threads)",
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        default=2,
        metavar="N",
        help="messages at a time (default: 2). Each process makes up to LLMEVAL_JUDGE_CONCURRENCY "
        "judgements at a time",
    )
    parser.add_argument("--name", help="the worker's name (default: the host and the process)")
    add_json(parser, "the description of the worker")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Configure this process as a worker and serve until a signal ends it."""
    from llmeval_sdk.pipeline import runtime
    from llmeval_sdk.plugins.fleet import findings, serving

    if args.concurrency < 1:
        raise ConfigurationError("--concurrency: at least 1")
    asked = config.from_environment()
    check(asked)
    # All workers share one budget; a variable, because --app calls configure() by itself.
    os.environ.setdefault("LLMEVAL_SHARED", asked.of(FleetSettings).judge_queue.reveal())  # type: ignore[union-attr]  # noqa: TID251
    answer_here()
    _configure(args.app)
    pipeline = runtime.pipeline()
    if pipeline is None:
        raise ConfigurationError("there is nothing to do because LLMEVAL_ENABLED is off")
    settings = runtime.settings()
    check(settings)
    name = args.name or f"{gethostname()}-{os.getpid()}"
    described = findings.described(
        settings, pipeline.plan, name=name, pool=args.pool, slots=args.concurrency
    )
    if args.json:
        say_json(described)
    else:
        _show(described)
    sys.stdout.flush()
    return serving.serve(settings, described, current=runtime.pipeline)


def _show(described: Mapping[str, Any]) -> None:
    say(
        f"worker {described['name']}: {described['pool']}, {described['slots']} messages at a time,"
        f" judge model {described['model'] or 'none'};"
        f" exporters: {', '.join(described['exporters'])}"
    )
    for problem in described["problems"]:
        say(f"problem: {problem}")


def _configure(place: str | None) -> None:
    """Configure this process by a function of the app, or by the environment."""
    from llmeval_sdk.pipeline import runtime

    if place is None:
        runtime.configure()
        return
    module, _, function = place.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    try:
        call = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"--app {place}: {error}") from error
    if not callable(call):
        raise ConfigurationError(f"--app {place}: expected MODULE:FUNCTION")
    call()
