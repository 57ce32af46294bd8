"""``llmeval accept``: which values of a field need no look, and what is promised of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import ceil

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store, checked, open_store, since
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.statistics.acceptance import (
    MOST_LABELS,
    Promise,
    average_acceptance,
    fewest_labels,
    sure_acceptance,
)
from llmeval_sdk.statistics.labels import FEWEST
from llmeval_sdk.store.fields import FieldTraffic, field_traffic, unknown_field
from llmeval_sdk.text.terminal import plural, printable


_EPILOG = """\
example:
  llmeval label --for accept --field total --labels 300
  llmeval accept --field total --error 2%

Only labels of values drawn at random count, and each promise is about one field and
traffic like that of its labels.

Exit codes: 0 there is a threshold with 95 % confidence; 1 there is none; 2 the command
could not run.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "accept",
        help="say which values of a field need no look, and what that promises",
        description="Find below which chance of an error values need no look, by people's labels.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument("--field", required=True, metavar="FIELD", help="the field, such as total")
    parser.add_argument(
        "--error", type=checked(_share), default=0.02, metavar="SHARE",
        help="the share of wrong values that is acceptable: 2%% or 0.02 (default: 2%%)",
    )  # fmt: skip
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.add_argument(
        "--since", type=since, metavar="TIME",
        help="only values that were scored from this time on: 24h, 7d or an ISO date",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print both promises, and return the exit code."""
    with open_store(args.store) as reader:
        traffic = reader.read(
            lambda store: field_traffic(store, args.field, args.since or 0, args.span_name)
        )
        if not traffic.scores:
            raise ConfigurationError(reader.read(lambda store: unknown_field(store, args.field)))
    sure = sure_acceptance(traffic.scores, traffic.labels, args.error)
    average = average_acceptance(traffic.scores, traffic.labels, args.error)
    if args.json:
        say_json({
            "field": args.field, "error": args.error, "values": len(traffic.scores),
            "labels": len(traffic.labels), "unlabelled": traffic.unlabelled,
            "span_names": traffic.span_names,
            "sure": sure, "average": average,
        })  # fmt: skip
    else:
        _show(args.field, args.error, traffic, sure, average)
    return 0 if sure.threshold is not None else 1


def _show(field: str, error: float, traffic: FieldTraffic, sure: Promise, average: Promise) -> None:
    unchecked = sum(score is None for score in traffic.scores)
    say(
        f"{printable(field)} of {', '.join(printable(name) or '-' for name in traffic.span_names)}:"
        f" {plural(len(traffic.scores), 'value')}, {unchecked:,} not checked,"
        f" {plural(len(traffic.labels), 'label')} of values drawn at random"
    )
    for caution in _cautions(traffic):
        say_wrapped(caution)
    heading(f"With 95 % confidence, at most {error:.2%} of the accepted values is wrong")
    if sure.threshold is None:
        _refuse(sure, field, len(traffic.labels), fewest_labels(error))
    else:
        say_wrapped(
            f"Accept values with a chance of an error up to {sure.threshold:.4f}: {sure.share:.0%}"
            f" of the traffic. Of the {sure.labels:,} labels there, {sure.wrong:,} say wrong, so at"
            f" most {sure.of_accepted or 0:.2%} of the accepted values is."
        )
    heading(f"On average, at most {error:.2%} of all values is both wrong and unseen")
    if average.threshold is None:
        _refuse(average, field, len(traffic.labels), ceil(1 / error))
    else:
        say_wrapped(
            f"Accept values with a chance of an error up to {average.threshold:.4f}:"
            f" {average.share:.0%} of the traffic. Of the accepted values alone this means"
            f" {average.of_accepted or 0:.2%} on average. It is a mean over many draws of labels:"
            " a single one, such as this, may exceed it, and nearly half of them do."
        )


def _cautions(traffic: FieldTraffic) -> Iterator[str]:
    """Yield what may make the promises below claim too much."""
    yield "Answers that have no passages are not counted."
    if traffic.unlabelled:
        yield (
            f"{plural(traffic.unlabelled, 'value')} that were shown have no label. If people skip"
            " the hard ones, more is wrong than the labels say."
        )
    if traffic.in_lists:
        yield (
            "Values of one answer are counted as independent. If they are wrong together, less is"
            " certain than stands below."
        )


def _refuse(promise: Promise, field: str, labels: int, fewest: int) -> None:
    """Say why nothing is promised, and how many labels may change that.

    ``fewest`` is the number below which no labels can, however good the values are.
    """
    say_wrapped(f"Nothing can be promised. {promise.reason}")
    if promise.missing:
        needed = min(max(labels + promise.missing, fewest), MOST_LABELS)
        said = (
            f"At least {needed:,} labels are needed"
            if labels < FEWEST
            else f"{plural(needed - labels, 'more label')} would do if they are like those so far"
        )
        command = f"llmeval label --for accept --field {printable(field)} --labels {needed}"
        say_wrapped(f"{said}: {command}")


def _share(text: str) -> float:
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise ConfigurationError(f"{text!r} is no share between 0 and 1, such as 2% or 0.02")
    return share
