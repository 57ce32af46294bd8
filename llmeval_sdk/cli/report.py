"""``llmeval report``: what the scores of a store say."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import Any

from llmeval_sdk import _values, config
from llmeval_sdk._terminal import number, printable
from llmeval_sdk.cli._alerts import alert, courses, level_of
from llmeval_sdk.cli._judged import show_alert, show_judged, show_people, show_trend
from llmeval_sdk.cli._options import Help, add_store, moment, open_store, since
from llmeval_sdk.cli._output import bar, heading, say, table
from llmeval_sdk.cli._rules import show_rules
from llmeval_sdk.estimates.mean import Estimate
from llmeval_sdk.store import losses, rules
from llmeval_sdk.store.course import Course
from llmeval_sdk.store.labels import labels_from, thumbs
from llmeval_sdk.store.populations import PERIODS, Population, overall, populations
from llmeval_sdk.store.summary import NotRunSummary, ScoreSummary


_EPILOG = """\
example:
  llmeval report --since 24h --span-name extract_field
  llmeval report --by day --alert 'groundedness<0.9'

A mean in brackets is over all traffic, as in the table of judges: judged requests
are a selection, so each score weighs the inverse of its chance to be judged.
Where people labelled at least twenty of the judged records (submit_feedback under the
judge's name, the viewer, --labels), "people would say" is that mean corrected for the
judge's mistakes of both kinds. Thumbs of users choose themselves and correct nothing.

Bars go from 0 to 1, or over the range beside them.

Of the records that a judge could have judged (eligible), escalation and sampling
select some, the budget lets some of those through, and what ran may fail. "All
traffic" is the mean over the eligible ones with its 95 % interval; with * a free
score on all of them narrowed it. Yes and pass count 1, no and fail count 0.

An alert may be looked at any time: at the bound, all alerts of a command together
raise a false alarm in at most 5 % of months (`llmeval watch` tells alarms once).

Exit codes: 0 all is well; 1 an alarm is in force: evidence that the mean is beyond
its bound; 2 could not be done, also where an alert cannot be decided, because
nothing was judged or the judged records cannot stand for the rest.
"""


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "report",
        help="scores by evaluator and span name, and why judges did not run",
        description="Show the scores of a store by evaluator and span name: how many, their mean "
        "or shares, their distribution, failures, and why judges did not run.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--since", type=since, metavar="TIME", help="only from then on: 90m, 24h, 7d or an ISO date"
    )
    parser.add_argument("--evaluator", metavar="NAME", help="only this evaluator")
    parser.add_argument("--span-name", metavar="NAME", help="only spans of this name")
    parser.add_argument(
        "--by", choices=sorted(PERIODS), help="show a trend too, by UTC day or hour"
    )
    parser.add_argument(
        "--alert",
        type=alert,
        action="append",
        default=[],
        metavar="BOUND",
        help="exit with 1 when the mean over all traffic has gone beyond it: 'groundedness<0.9'",
    )
    parser.add_argument(
        "--predictor",
        metavar="NAME",
        help="free score that narrows the intervals; default: the built-in one for each judge",
    )
    parser.add_argument(
        "--labels",
        metavar="NAME",
        help="feedback that corrects the judges' means, or a file of labels, NAME.jsonl; default: "
        "for each judge the feedback of its own name",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    selection = (args.since, None, args.evaluator, args.span_name)
    with open_store(args.store) as reader:
        scores = reader.score_summary(*selection)
        not_run = reader.not_run_summary(*selection)
        is_file = (args.labels or "").endswith(".jsonl")
        labels = labels_from(args.labels) if is_file else args.labels
        judged = populations(reader, selection, args.predictor, labels=labels)
        clicked = reader.read(
            lambda store: thumbs(store, {args.labels, *(each.judge for each in judged)}, args.since)
        )
        trend = populations(reader, selection, args.predictor, PERIODS[args.by]) if args.by else []
        followed = courses(
            reader, args.alert, args.since, time.time_ns(),
            span_name=args.span_name, predictor=args.predictor,
        )  # fmt: skip
        alerts = [
            (each, overall(reader, selection, args.predictor, each.bound.evaluator))
            for each in followed
        ]
        lost = reader.read(losses.total)
        compared = reader.read(
            lambda store: rules.compare(
                store, config.from_environment(problems=[]).recall_threshold, args.since
            )
        )
        stood_in = reader.stood_in(dict.fromkeys(each.judge for each in judged))
        location = reader.location
    if args.json:
        summary = {
            "store": location,
            "since_ns": args.since,
            "scores": scores,
            "judged": judged,
            "trend": trend,
            "not_run": not_run,
            "lost": lost,
            "stood_in": stood_in,
            "rules": compared,
            "thumbs": clicked,
            "alerts": [
                {
                    "alert": str(each.bound),
                    "holds": _holds(each, whole),
                    "estimate": whole.estimate,
                    "evidence": each.evidence.total / level_of(len(alerts)),
                    "since_ns": each.since_ns,
                    "needed": each.needed(level_of(len(alerts))),
                }
                for each, whole in alerts
            ],
        }
        say(json.dumps(summary, default=asdict, allow_nan=False))
        return _exit_code(alerts)
    say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
    if scores:
        _scores(scores, judged)
    else:
        say("No evaluations" + (" match." if any(selection) else " yet."))
    if judged:
        show_judged(judged)
        show_people(judged, clicked)
        for name in stood_in:
            say(f"{printable(name)}: judged by the rule-based stand-in, which is no model.")
    if compared.checked:
        show_rules(compared)
    if trend:
        show_trend(trend, args.by)
    if not_run:
        _not_run(not_run)
    if lost:
        _lost(lost)
    for each, whole in alerts:
        show_alert(each, whole, level_of(len(alerts)))
    return _exit_code(alerts)


def _holds(course: Course, found: Population) -> bool | None:
    """Say whether an alarm is in force; ``None`` where that cannot be decided."""
    if course.is_alarm:
        return True
    return None if found.estimate is None or course.lacking() else False


def _exit_code(alerts: list[tuple[Course, Population]]) -> int:
    held = [_holds(each, found) for each, found in alerts]
    return 1 if True in held else 2 if None in held else 0


def _scores(scores: tuple[ScoreSummary, ...], judged: list[Population]) -> None:
    estimates = {(each.judge, each.span_name): each.estimate for each in judged}
    unrated = [each for each in scores if _values.is_unrated(each.evaluator)]
    heading("Scores")
    titles = ("evaluator", "span", "kind", "count", "mean", "distribution", "failed", "n/a", "cost")
    rows = [
        (
            each.evaluator,
            each.span_name or "-",
            each.evaluator_kind,
            f"{each.count:,}",
            _mean(each, estimates.get((each.evaluator, each.span_name))),
            _distribution(each),
            f"{each.errors:,}",
            f"{each.not_applicable:,}",
            "-" if each.cost_usd is None else f"${each.cost_usd:.4f}",
        )
        for each in scores
        if each not in unrated
    ]
    table(titles, rows, numbers="count failed n/a cost")
    if any(each.count for each in unrated):
        _abstained(unrated)


def _abstained(unrated: list[ScoreSummary]) -> None:
    heading("Abstained: no value was given, which is neither good nor bad")
    titles = ("span", "abstained", "by", "mean", "from nothing to find, to a value missed")
    rows = [
        (
            each.span_name or "-",
            f"{each.count:,}",
            each.evaluator,
            _mean(each, None),
            _distribution(each),
        )
        for each in unrated
    ]
    table(titles, rows, numbers="abstained")


def _mean(each: ScoreSummary, estimate: Estimate | None) -> str:
    if each.mean is None:
        return "-"
    mean = number(each.mean)
    if estimate is None or (corrected := number(estimate.mean)) == mean:
        return mean
    return f"{mean} [{corrected}]"


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
    say("\n`llmeval explain --last` says what a reason means and what to do about it.")


def _lost(lost: losses.Losses) -> None:
    heading("Not delivered, by all processes that wrote this store")
    rows = [
        (exporter, reason, f"{times:,}")
        for exporter, reasons in lost.items()
        for reason, times in reasons.items()
    ]
    table(("exporter", "reason", "records"), rows, numbers="records")
