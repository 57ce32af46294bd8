"""``llmeval report``: what the scores of a store say."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from llmeval_sdk import config
from llmeval_sdk.cli._judged import lacking, show_alert, show_judged, show_people, show_trend
from llmeval_sdk.cli._rules import show_rules
from llmeval_sdk.cli._scored import show_scores
from llmeval_sdk.cli._tiers import show_tiers
from llmeval_sdk.cli._traffic import (
    plain_alerts,
    read_traffic,
    report_traffic,
    show_traffic_below,
)
from llmeval_sdk.cli.alerts import alert, courses, level_of
from llmeval_sdk.cli.options import Help, add_json, add_store, open_store, since
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store import losses, rules, views
from llmeval_sdk.store.alert_state import AlertCourse
from llmeval_sdk.store.groups import EvaluationScope
from llmeval_sdk.store.labels import labels_from
from llmeval_sdk.store.opinions import opinions
from llmeval_sdk.store.populations import PERIODS, Population, overall, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import LabelSource, Scores
from llmeval_sdk.store.summary import NotRunSummary, not_run_summary
from llmeval_sdk.store.thresholds import Measured, split
from llmeval_sdk.store.tiers import tiers
from llmeval_sdk.store.traffic import check
from llmeval_sdk.store.unanswered import Unanswered, unanswered
from llmeval_sdk.store.words import moment
from llmeval_sdk.text.terminal import printable


_EPILOG = """\
example:
  llmeval report --since 24h --span-name extract_field
  llmeval report --by day --alert 'groundedness<0.9'

A mean in brackets, and "all traffic", is the mean over all records that the judge could have
judged, with its 95 % interval: judged requests are a selection, so each score is weighted by
the inverse of its chance to be judged. A * says that a free score narrowed the interval. If
people labelled at least twenty of the judged records, "people would say" is that mean
corrected for the judge's mistakes. Yes and pass count as 1, no and fail as 0.

Alerts on the app's own traffic ('latency_seconds.p95>2', 'no_answer>0.1') and on feedback
('thumbs<0.9') compare what happened since --since, or in the last day, with the bound;
`llmeval watch --help` names them all.

You may look at an alert at any time: as long as no mean leaves its bound, at most 5 % of
months hold a false alarm of any alert of a command. `llmeval watch` reports each alarm
only once.

Exit codes: 0 no alarm; 1 an alarm is in force, because there is evidence that the mean
is beyond its bound; 2 the command could not run, --labels matches nothing, or an alert
cannot be decided, because nothing was judged, the judge no longer gives verdicts, or the
judged records cannot stand for the rest.
"""


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "report",
        help="show scores by evaluator and span name, and why judges did not run",
        description="Show the scores of a store by evaluator and span name: their number, mean or "
        "shares, distribution and failures, and why judges did not run.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="only requests from this time on: 90m, 24h, 7d or an ISO date",
    )
    parser.add_argument("--evaluator", metavar="NAME", help="only this evaluator")
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.add_argument(
        "--by",
        type=_grouping,
        metavar="WHAT",
        help="day or hour: also show the trend of the judges. name, request, model, user, session"
        " or tag:KEY: show the app's own traffic alone, in these groups",
    )
    parser.add_argument(
        "--prices",
        type=_prices,
        metavar="PRICES",
        help="price calls of these models anew, in USD per million tokens: 'mine=0.5,1.5'"
        " (further prices: LLMEVAL_PRICES)",
    )
    parser.add_argument(
        "--alert",
        type=alert,
        action="append",
        default=[],
        metavar="BOUND",
        help="exit with 1 when this is true of the mean over all traffic, such as "
        "'groundedness<0.9'; may be repeated",
    )
    parser.add_argument(
        "--predictor",
        metavar="NAME",
        help="the free score that narrows the intervals (default: the built-in one of each judge)",
    )
    parser.add_argument(
        "--labels",
        metavar="NAME",
        help="the feedback that corrects the means of the judges, or a file of labels, NAME.jsonl "
        "(default: for each judge the feedback with its own name)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def _grouping(text: str) -> str:
    try:
        return text if text in PERIODS else check(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(f"{error}, or day or hour") from None


def _prices(text: str) -> Mapping[str, tuple[float, ...]]:
    try:
        return config.prices(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    if args.by not in (None, *PERIODS):
        return report_traffic(args)
    with open_store(args.store) as reader:
        return _report(args, reader)


def _report(args: argparse.Namespace, reader: StoreReader) -> int:
    selection = EvaluationScope(args.since, None, args.evaluator, args.span_name)
    with ThreadPoolExecutor(2) as beside:
        traffic = beside.submit(read_traffic, reader, args)
        not_run = reader.read(lambda c: not_run_summary(c, selection))
        is_file = (args.labels or "").endswith(".jsonl")
        labels = labels_from(args.labels) if is_file else args.labels
        known = Scores(reader, args.predictor, labels)
        predictors = beside.submit(known.read_ahead, not_run, selection)
        groups = known.groups(selection, with_digits=True)
        summaries = beside.submit(known.summaries, selection)
        predictors.result()
        judged = populations(reader, selection, known)
        _check_labels(reader, args.labels, labels, judged)
        judges = dict.fromkeys(population.judge for population in judged)
        users = reader.read(lambda store: opinions(store, {args.labels, *judges}, args.since))
        plain = plain_alerts(reader, args)
        period = PERIODS.get(args.by)
        trend = populations(reader, selection, known, period) if period else []
        followed = courses(
            reader, reader.read(lambda c: split(c, args.alert))[1], args.since, time.time_ns(),
            span_name=args.span_name, predictor=args.predictor,
        )  # fmt: skip
        alerts = [
            (each, overall(reader, _about(each, selection), known, each.bound.evaluator))
            for each in followed
        ]
        lost = reader.read(losses.total)
        answers = reader.read(lambda store: unanswered(store, args.since, span_name=args.span_name))
        compared = reader.read(
            lambda store: rules.compare(
                store, config.from_environment(problems=[]).recall_threshold, args.since
            )
        )
        stood_in = reader.read(lambda store: views.stood_in(store, judges))
        tiered = reader.read(lambda store: tiers(store, selection, groups))
        scores, summed = tuple(summaries.result()), traffic.result()
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
            "answers": [{**asdict(each), "no_answer": each.no_answer} for each in answers],
            "stood_in": stood_in,
            "rules": compared,
            "tiers": tiered,
            "feedback": users,
            "traffic": summed,
            "alerts": _alerts(alerts, plain),
        }
        say_json(summary)
        return _exit_code(alerts, plain)
    say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
    if scores:
        show_scores(scores, judged)
    else:
        say("No evaluations" + (" match." if any(selection) else " yet."))
    if judged:
        show_judged(judged)
        for name in stood_in:
            say_wrapped(f"{printable(name)}: judged by the rule-based stand-in, which is no model.")
    _answers(answers)
    show_people(judged, users)
    show_tiers(tiered, judged)
    if compared.checked:
        show_rules(compared)
    show_trend(trend, args.by)
    if not_run:
        _not_run(not_run)
    if lost:
        _lost(lost)
    show_traffic_below(summed, plain)
    for each, whole in alerts:
        show_alert(each, whole, level_of(len(alerts)))
    return _exit_code(alerts, plain)


def _check_labels(
    reader: StoreReader, option: str | None, labels: LabelSource, judged: list[Population]
) -> None:
    """Raise `ConfigurationError` where ``--labels`` matches nothing, with what there is instead."""
    if option is None or any(population.labels for population in judged):
        return
    if isinstance(labels, Mapping):
        raise ConfigurationError(
            f"none of the {len(labels):,} labels of {option} is about a judged record of this"
            " report: each needs the span_id of one, as `llmeval label --list` prints it"
        )
    names = reader.read(lambda store: [name for (name,) in store.execute(_FEEDBACK_NAMES)])
    known = f"there is {', '.join(names)}" if names else "there is no feedback at all"
    raise ConfigurationError(
        f"no judged record of this report has feedback named {option!r}: {known}"
    )


_FEEDBACK_NAMES = "SELECT DISTINCT name FROM feedback ORDER BY name LIMIT 20"


def _about(course: AlertCourse, selection: EvaluationScope) -> EvaluationScope:
    """Return what an alert is about: of an alarm, what was judged since its change began."""
    return selection._replace(since=course.since_ns) if course.is_alarm else selection


def _holds(course: AlertCourse, population: Population) -> bool | None:
    """Say whether an alarm is in force; ``None`` where that cannot be decided."""
    if course.is_alarm:
        return True
    return None if lacking(course, population) else False


def _alerts(
    alerts: list[tuple[AlertCourse, Population]], plain: list[Measured]
) -> list[dict[str, Any]]:
    level = level_of(len(alerts))
    estimated = [
        {
            "alert": str(course.bound),
            "holds": _holds(course, whole),
            "estimate": whole.estimate,
            "evidence": course.evidence.total / level,
            "undecided": "" if course.is_alarm else lacking(course, whole),
            "since_ns": course.since_ns,
            "needed": course.needed(level),
        }
        for course, whole in alerts
    ]
    return [*map(asdict, plain), *estimated]


def _exit_code(alerts: list[tuple[AlertCourse, Population]], plain: list[Measured]) -> int:
    held = [_holds(course, population) for course, population in alerts]
    held += [alert.holds for alert in plain]
    return 1 if True in held else 2 if None in held else 0


def _answers(answers: Sequence[Unanswered]) -> None:
    rows = [
        (
            each.span_name,
            f"{each.requests:,}",
            f"{each.lost:,}",
            f"{each.no_answer:.1%}",
            f"{each.abstained:,}",
        )
        for each in answers
        if each.lost or each.abstained
    ]
    if rows:
        heading("Requests without an answer, though they did not fail")
        titles = ("span", "requests", "no answer", "share", "abstained")
        table(titles, rows, numbers="requests share abstained")


def _not_run(not_run: Sequence[NotRunSummary]) -> None:
    heading("Judges that did not run")
    rows = [(each.evaluator, each.reason, f"{each.count:,}", each.detail) for each in not_run]
    table(("judge", "reason", "count", "latest detail"), rows, numbers="count")
    say()
    say_wrapped("`llmeval explain --last` says what a reason means and what to do about it.")


def _lost(lost: losses.Losses) -> None:
    heading("Not delivered, by all processes that wrote this store")
    rows = [
        (exporter, reason, f"{times:,}")
        for exporter, reasons in lost.items()
        for reason, times in reasons.items()
    ]
    table(("exporter", "reason", "records"), rows, numbers="records")
