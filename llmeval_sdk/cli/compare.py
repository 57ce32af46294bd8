"""``llmeval compare``: compares versions of an app over its judged traffic."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_filter, add_json, add_store, open_selected
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table
from llmeval_sdk.store.versions import (
    NO_ANSWER,
    VersionComparison,
    VersionDifference,
    compare,
    dimension,
)
from llmeval_sdk.text.terminal import moment, number, printable


_EPILOG = """\
example:
  llmeval compare --by tag:prompt_version
  llmeval compare --by release --since 2026-01-31 --evaluator groundedness
  llmeval compare --by model --baseline gpt-4o-mini --json

Each version is compared with the oldest one, or with --baseline, on the same mix of span
names and languages; the part of a difference that comes from the mix is shown beside it.
A tag is read from the judged span, else from the root of its trace. The release is the tag
`release`, else `version`. The model and the prompt are those of the trace's llm spans.

You may look as often as you like: if the versions are equal, the chance that a command
ever shows a difference is at most 5 %, however long you wait. That holds for a period that
begins at a fixed time, so give a date: with --since 7d the beginning moves.

Exit codes: 0 no version is shown to be worse; 1 a version is worse, nothing can be compared,
or a version since the baseline has traffic and no verdict; 2 the command could not run.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare versions of the app by what judges say",
        description="Compare versions of the app by what judges say of their traffic. The "
        "intervals are valid however often you look.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    add_filter(parser)
    parser.add_argument(
        "--by", required=True, metavar="WHAT", help="tag:NAME, release, model or prompt"
    )
    parser.add_argument("--evaluator", metavar="NAME", help="only this judge (default: all judges)")
    parser.add_argument(
        "--baseline",
        metavar="VERSION",
        help="the version to compare the others with (default: the oldest)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    by = dimension(args.by)
    with open_selected(args) as reader:
        comparison = compare(
            reader, by, since_ns=args.since or 0, until_ns=time.time_ns() + 1,
            evaluator=args.evaluator, baseline=args.baseline,
        )  # fmt: skip
        location = reader.location
    if args.json:
        say_json({"store": location, **asdict(comparison)})
    else:
        say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
        _show(comparison)
    outcomes = {each.outcome for each in comparison.compared}
    if "worse" in outcomes:
        return 1
    unjudged = any(not each.version_judged for each in comparison.compared)
    judged = {
        each.outcome
        for each in comparison.compared
        if each.evaluator != NO_ANSWER or args.evaluator == NO_ANSWER
    }
    return int(unjudged or not judged - {"undecided"})


def _show(comparison: VersionComparison) -> None:
    if comparison.compared:
        heading(f"Versions by {printable(comparison.by)}, over all traffic")
        titles = (
            "judge", "version", "judged", "mean", "against", "its mean", "difference (any time)",
            "due to mix", "",
        )  # fmt: skip
        table(titles, [_row(each) for each in comparison.compared], numbers="judged mean")
        _say_once(note for each in comparison.compared for note in _explained(each))
    elif not comparison.problems:
        say_wrapped(
            "No judge has run or been refused in this store, so there is nothing to compare."
        )
    _say_once(
        (judge, f"cannot be compared: {printable(problem)}")
        for judge, problem in comparison.problems.items()
    )
    _say_once((who, what) for who, _, what in (note.partition(": ") for note in comparison.notes))


def _say_once(notes: Iterable[tuple[str, str]]) -> None:
    """Print each note once, after the names of all that it is about."""
    about: dict[str, list[str]] = {}
    for who, note in notes:
        about.setdefault(note, []).append(printable(who))
    for note, names in about.items():
        say_wrapped(f"{'; '.join(dict.fromkeys(names))}: {printable(note, 400)}.")


def _row(version: VersionDifference) -> tuple[str, ...]:
    estimate = version.estimate
    difference, due_to_mix = "-", "-"
    if estimate is not None:
        interval = estimate.difference
        difference = f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
        due_to_mix = f"{estimate.due_to_mix:+.3f}"
    return (
        version.evaluator,
        version.version,
        f"{version.version_judged:,}",
        "-" if version.version_mean is None else number(version.version_mean),
        version.baseline,
        "-" if version.baseline_mean is None else number(version.baseline_mean),
        difference,
        due_to_mix,
        version.outcome,
    )


def _explained(version: VersionDifference) -> Iterator[tuple[str, str]]:
    """Yield what there is to know about a comparison, after the name that it has in notes."""
    where = f"{version.evaluator}, {version.version}"
    if version.needed is not None:
        yield (
            where,
            (
                f"about {version.needed:,} judged requests, those of both versions added up,"
                " would show a difference of five points"
            ),
        )
    for shift in version.shifts:
        yield (
            where,
            (
                f"the mix differs: {shift.kind} {printable(shift.name)} is"
                f" {shift.version_share:.0%} of its requests, and {shift.baseline_share:.0%} of"
                f" {printable(version.baseline)}'s; the difference shown is for the same mix"
            ),
        )
    for note in version.notes:
        yield where, note
