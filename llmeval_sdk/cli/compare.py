"""``llmeval compare``: compares two groups of requests, such as two versions of the app."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_filter, add_json, add_store, open_selected
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table
from llmeval_sdk.store.comparison import NO_ANSWER, Comparison, GroupDifference, compare
from llmeval_sdk.store.selection import SLICES
from llmeval_sdk.text.terminal import moment, number, printable


_EPILOG = """\
example:
  llmeval compare --by tag:prompt_version
  llmeval compare --by release --since 2026-01-31 --evaluator groundedness
  llmeval compare --by model --baseline gpt-4o-mini --version gpt-4o --json

By default the newest group is compared with the oldest that was judged. The model and the
prompt are those of the request's steps; the release is the tag `release`, else `version`.

The interval has 95 % for one look. Who looks daily until there is a difference finds one
too often: choose beforehand when to look. Requests of other kinds in the one group than
in the other make a difference, too: --where 'name=answer' compares those of one kind.

Exit codes: 0 the version is not shown to be worse; 1 it is worse, nothing can be compared, or
it has traffic and no verdict; 2 the command could not run.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two versions of the app by what judges say",
        description="Compare two groups of requests, such as two versions of the app, by what "
        "judges say of their traffic: the difference of the means, its interval, and how many "
        "requests were judged.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    add_filter(parser)
    parser.add_argument(
        "--by", required=True, metavar="WHAT", help=f"what tells them apart: {', '.join(SLICES)}"
    )
    parser.add_argument("--evaluator", metavar="NAME", help="only this judge (default: all judges)")
    parser.add_argument(
        "--baseline",
        metavar="GROUP",
        help="the group to compare with (default: the oldest that was judged)",
    )
    parser.add_argument(
        "--version", metavar="GROUP", help="the group that is compared (default: the newest)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    with open_selected(args, (args.by,)) as reader:
        comparison = compare(
            reader, since_ns=args.since or 0, evaluator=args.evaluator, baseline=args.baseline,
            version=args.version,
        )  # fmt: skip
        location = reader.location
    if args.json:
        say_json({"store": location, **asdict(comparison)})
    else:
        say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
        _show(comparison)
    judged = [
        each
        for each in comparison.compared
        if each.evaluator != NO_ANSWER or args.evaluator == NO_ANSWER
    ]
    is_decided = any(each.outcome != "undecided" for each in judged)
    is_judged = all(each.version_judged for each in judged)
    is_worse = any(each.outcome == "worse" for each in comparison.compared)
    return int(is_worse or not is_decided or not is_judged)


def _show(comparison: Comparison) -> None:
    if comparison.compared:
        version, baseline = (
            printable(comparison.version or ""),
            printable(comparison.baseline or ""),
        )
        heading(f"By {printable(comparison.by)}, over all traffic")
        say_wrapped(f"{version} beside {baseline}")
        titles = ("judge", baseline, "judged", version, "judged", "difference (95 %)", "")
        table(titles, [_row(each) for each in comparison.compared], numbers="judged")
    elif comparison.version is not None:
        say_wrapped(
            "No judge has run or been refused in this store, so there is nothing to compare."
        )
    for each in comparison.compared:
        for note in each.notes:
            say_wrapped(f"{each.evaluator}: {printable(note, 400)}.")
    for note in comparison.notes:
        say_wrapped(f"{printable(note, 400)}.")
    if comparison.others:
        names = ", ".join(map(printable, comparison.others))
        say_wrapped(f"Not compared, as --version and --baseline can be: {names}.")


def _row(each: GroupDifference) -> tuple[str, ...]:
    change = each.difference
    return (
        each.evaluator,
        "-" if each.baseline_mean is None else number(each.baseline_mean),
        f"{each.baseline_judged:,}",
        "-" if each.version_mean is None else number(each.version_mean),
        f"{each.version_judged:,}",
        "-" if change is None else f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]",
        each.outcome,
    )
