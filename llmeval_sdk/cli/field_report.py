"""``llmeval report --by field``: what is known of each field of the app's answers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from llmeval_sdk.cli.options import open_selected
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model.values import DOUBTFUL_ABOVE
from llmeval_sdk.store.fields import FieldSummary, field_summaries
from llmeval_sdk.store.state import state_path
from llmeval_sdk.text.terminal import moment, plural


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.calibrations import FittedCalibration


BY = "field"
_MAX_ROWS = 50
"""How many fields the table shows; ``--json`` has all of them."""


def report_fields(args: argparse.Namespace) -> int:
    """Print the report, and return the exit code."""
    for option in ("evaluator", "alert", "labels"):
        if getattr(args, option):
            raise ConfigurationError(
                f"--by {BY} is about the values of extraction_risk: it has no --{option}"
            )
    from llmeval_sdk.evaluation.calibrations import of_chances

    with open_selected(args) as reader:
        location = reader.location
        fitted = of_chances(state_path(location))
        calibration = None if fitted is None else fitted.calibration
        summaries = reader.read(
            lambda store: field_summaries(store, args.since or 0, args.span_name, calibration)
        )
    if args.json:
        say_json({
            "store": location, "since_ns": args.since, "fields": summaries,
            "chances_moved_ns": None if fitted is None else fitted.fitted_ns,
        })  # fmt: skip
        return 0
    say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
    if not summaries:
        say("No answer with fields was scored by extraction_risk.")
        return 0
    heading("Fields of answers")
    titles = (
        "span", "field", "values", "not checked", "doubtful", "expected wrong", "judged wrong",
        "labelled wrong",
    )  # fmt: skip
    shown = summaries[:_MAX_ROWS]
    table(titles, [_row(each) for each in shown], numbers="values doubtful")
    if len(summaries) > len(shown):
        say(f"{len(summaries) - len(shown):,} more fields with fewer wrong values are left out.")
    say_wrapped(
        f"Doubtful is a value with a chance of an error above {DOUBTFUL_ABOVE:g}. The number that"
        f" is expected to be wrong is the sum of the chances, which are {_stated(fitted)}. What"
        " the judge and people called wrong is no share of the traffic: they look at doubtful"
        " values first. Answers that have no passages are not counted."
    )
    return 0


def _row(each: FieldSummary) -> tuple[str, ...]:
    return (
        each.span_name or "-",
        each.field,
        f"{each.count:,}",
        f"{each.not_checked:,}",
        f"{each.doubtful:,}",
        f"{each.expected_wrong:.1f}",
        _of(each.judged_wrong, each.judged),
        _of(each.wrong, each.labelled),
    )


def _of(part: int, count: int) -> str:
    return f"{part:,} of {count:,}" if count else "-"


def _stated(fitted: FittedCalibration | None) -> str:
    """Say which rate of errors the chances are stated for."""
    if fitted is None:
        return "stated for traffic with one wrong value in ten"
    labels = plural(fitted.calibration.labels, "label")
    return f"moved to this app's own rate of errors, by {labels}, {moment(fitted.fitted_ns)}"
