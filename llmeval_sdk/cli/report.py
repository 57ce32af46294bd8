"""``llmeval report``: what the scores of a store say."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from llmeval_sdk._terminal import number, printable
from llmeval_sdk.cli._options import add_store, moment, open_store, since
from llmeval_sdk.cli._output import bar, heading, say, table
from llmeval_sdk.store.summary import NotRunSummary, ScoreSummary


_EPILOG = """\
example:
  llmeval report --since 24h --span-name extract_field

A mean in brackets is over all traffic: judged requests are a selection, so each
score weighs the inverse of its chance to be judged. Bars go from 0 to 1, or over
the range beside them.
"""


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "report",
        help="scores by evaluator and span name, and why judges did not run",
        description="Show the scores of a store by evaluator and span name: how many, their mean "
        "or shares, their distribution, failures, and why judges did not run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_store(parser)
    parser.add_argument(
        "--since", type=since, metavar="TIME", help="only from then on: 90m, 24h, 7d or an ISO date"
    )
    parser.add_argument("--evaluator", metavar="NAME", help="only this evaluator")
    parser.add_argument("--span-name", metavar="NAME", help="only spans of this name")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    given = (args.since, None, args.evaluator, args.span_name)
    with open_store(args.store) as reader:
        scores = reader.score_summary(*given)
        not_run = reader.not_run_summary(*given)
        location = reader.location
    if args.json:
        found = {"store": location, "since_ns": args.since, "scores": scores, "not_run": not_run}
        say(json.dumps(found, default=asdict, allow_nan=False))
        return 0
    say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
    if scores:
        _scores(scores)
    else:
        say("No evaluations" + (" match." if any(given) else " yet."))
    if not_run:
        _not_run(not_run)
    return 0


def _scores(scores: tuple[ScoreSummary, ...]) -> None:
    heading("Scores")
    titles = ("evaluator", "span", "kind", "count", "mean", "distribution", "failed", "n/a", "cost")
    rows = [
        (
            each.evaluator,
            each.span_name or "-",
            each.evaluator_kind,
            f"{each.count:,}",
            _mean(each),
            _distribution(each),
            f"{each.errors:,}",
            f"{each.not_applicable:,}",
            "-" if each.cost_usd is None else f"${each.cost_usd:.4f}",
        )
        for each in scores
    ]
    table(titles, rows, numbers="count failed n/a cost")


def _mean(each: ScoreSummary) -> str:
    if each.mean is None or each.corrected_mean is None:
        return "-"
    mean, corrected = number(each.mean), number(each.corrected_mean)
    return mean if mean == corrected else f"{mean} [{corrected}]"


def _distribution(each: ScoreSummary) -> str:
    parts = []
    if each.histogram:
        ends = f" {number(each.low or 0.0)}..{number(each.high or 0.0)}"
        parts.append(bar(each.histogram) + ("" if (each.low, each.high) == (0.0, 1.0) else ends))
    if each.categories:
        words = list(each.categories.items())
        parts += [f"{printable(word, 40)} {times / each.count:.0%}" for word, times in words[:6]]
        if len(words) > 6:
            parts.append(f"{len(words) - 6} others")
    return ", ".join(parts) or "-"


def _not_run(not_run: tuple[NotRunSummary, ...]) -> None:
    heading("Judges that did not run")
    rows = [(each.evaluator, each.reason, f"{each.count:,}", each.detail) for each in not_run]
    table(("judge", "reason", "count", "latest detail"), rows, numbers="count")
    say("\n`llmeval explain SPAN_ID` says what a reason means and what to do about it.")
