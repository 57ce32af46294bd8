"""``llmeval report``: what the scores of a store say."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict

from llmeval_sdk import config
from llmeval_sdk.cli import Commands, field_report
from llmeval_sdk.cli.group_report import estimated, scored_groups, show_groups
from llmeval_sdk.cli.options import (
    Help,
    add_filter,
    add_json,
    add_store,
    checked,
    open_selected,
    pricing,
)
from llmeval_sdk.cli.output import bar, heading, say, say_json, say_wrapped, table
from llmeval_sdk.cli.traffic_report import plain_traffic, show_traffic
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import DAY_NS, values
from llmeval_sdk.statistics.labels import FEWEST, Correction
from llmeval_sdk.statistics.mean import Estimate
from llmeval_sdk.statistics.reasons import STEPS
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.alerts import (
    Measured,
    followed_alerts,
    level_of,
    measure_bounds,
    read_bound,
    split_bounds,
)
from llmeval_sdk.store.findings import Finding, findings_of
from llmeval_sdk.store.labels import (
    FEWEST_CHECKED,
    FEWEST_WRONG,
    RuleComparison,
    UserFeedback,
    compare_rules,
    describe_feedback,
    extent_of,
    feedback_by_group,
    labels_from,
    percents,
    user_feedback,
)
from llmeval_sdk.store.lasting import Lasting, lasting
from llmeval_sdk.store.losses import Completeness, Losses, losses
from llmeval_sdk.store.populations import (
    NO_PREDICTOR,
    PERIODS,
    LabelSource,
    Population,
    SharedReadings,
    by_group,
    overall,
    populations,
)
from llmeval_sdk.store.reader import StoreReader, judged_by_stand_in
from llmeval_sdk.store.scores import (
    EvaluationScope,
    NotRunSummary,
    ScoreSummary,
    Tiers,
    not_run_summary,
    tiers,
)
from llmeval_sdk.store.splits import by_period
from llmeval_sdk.store.traffic import (
    BY_SELECTION,
    GROUPINGS,
    Traffic,
    TrafficScope,
    Unanswered,
    check,
    from_the_future,
    traffic,
    unanswered,
)
from llmeval_sdk.text.terminal import moment, number, percent, plural, printable


# How ``llmeval report`` shows what judges say about all traffic.


def _show_judged(measured: Sequence[Population]) -> None:
    """Print the funnel and the estimate of each judge and span name.

    A judge for which nothing was eligible has no funnel; why it did not run is told elsewhere.
    """
    measured = [
        population for population in measured if population.funnel.eligible or population.cost_usd
    ]
    if not measured:
        return
    heading("Judges, from eligible records to scores")
    rows = [
        (
            population.judge,
            population.span_name or "-",
            *(f"{getattr(population.funnel, step):,}" for step in STEPS),
            _mean(population),
            _estimate(population),
            _cost(population),
        )
        for population in measured
    ]
    titles = ("judge", "span", *STEPS, "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers=f"{' '.join(STEPS)} mean cost")
    for population in measured:
        if population.note:
            where = f"{printable(population.judge)} on {printable(population.span_name or '-')}"
            say_wrapped(f"{where}: {population.note}.")


def _show_people(measured: Sequence[Population], feedback: Sequence[UserFeedback]) -> None:
    """Print what people would say of all traffic, beside what the judge says."""
    for each in measured:
        where = f"{printable(each.judge)} on {printable(each.span_name or '-')}"
        if each.correction is not None and each.estimate is not None:
            say_wrapped(f"{where}: {_people(each.correction, each.estimate)}")
        elif each.labels:
            say_wrapped(
                f"{where}: {each.labels} labels so far; from {FEWEST} on they correct its mean."
            )
        for sentence in filter(None, (each.left_out.sentence, each.doubt)):
            say_wrapped(f"{where}: {sentence}")
    for named in feedback:
        opinion = describe_feedback(named)
        say_wrapped(
            f"{printable(named.name)}: feedback on {extent_of(named)}{opinion and f': {opinion}'}."
        )
    if feedback:
        say_wrapped("Feedback corrects no mean, because users choose what they speak of.")


def _people(correction: Correction, judge: Estimate) -> str:
    corrected = correction.estimate
    interval = f"[{corrected.low:.3g}, {corrected.high:.3g}]"
    people = f"people would say {corrected.mean:.3g} {interval}"
    parts = [f"{people} ({correction.labels} labels), the judge {judge.mean:.3g}"]
    if correction.passed_wrongly is not None:
        parts.append(f"of what it passes, people fail {percent(correction.passed_wrongly)}")
    if correction.failed_wrongly is not None:
        parts.append(f"of what it fails, people pass {percent(correction.failed_wrongly)}")
    return "; ".join(parts) + "."


def _show_trend(periods: Sequence[Population], period: str) -> None:
    """Print the estimates period by period, if there are any."""
    if not periods:
        return
    heading(f"Trend by {period} (UTC)")
    rows = [
        (
            each.judge,
            each.span_name or "-",
            moment(each.period_ns or 0)[: 10 if period == "day" else 16],
            f"{each.funnel.eligible:,}",
            f"{each.funnel.scored:,}",
            _mean(each),
            _estimate(each) if each.estimate or not each.note else f"- ({each.note.split(':')[0]})",
            _cost(each),
        )
        for each in periods
    ]
    titles = ("judge", "span", period, "eligible", "scored", "mean", "all traffic (95 %)", "cost")
    table(titles, rows, numbers="eligible scored mean cost")


def lacking(alert: AlertState, population: Population) -> str:
    """Say why an alert cannot be decided; empty where it can."""
    return alert.lacking() or (population.note if population.estimate is None else "")


def _show_alert(alert: AlertState, population: Population, level: float) -> None:
    """Print how one alert stands; ``level`` is the evidence that raises an alarm."""
    needed = alert.needed(level)
    why = lacking(alert, population)
    if alert.is_alarm:
        standing = f"ALERT, since about {moment(alert.since_ns or 0)}, {_estimate(population)}"
        if why:
            standing += f"; {why}"
    elif why:
        standing = f"cannot be decided ({why}"
        if needed and not (alert.judged or alert.problem):
            standing += f"; about {needed:,} judged requests would show a drop of five points"
        standing += ")"
    elif needed is None:
        standing = f"no alert, {_estimate(population)}"
    else:
        standing = (
            f"undecided, {_estimate(population)}: lately the mean is beyond its bound, and too"
            f" little was judged to be sure; about {needed:,} more judged requests would decide it"
            " if the mean stays there"
        )
    say()
    say_wrapped(f"{printable(str(alert.bound))}: {standing}")
    for note in alert.notes():
        say_wrapped(f"{printable(str(alert.bound))}: {note}.")


def _mean(each: Population) -> str:
    return "-" if each.mean is None else number(each.mean)


def _estimate(each: Population) -> str:
    return estimated(each.estimate)


def _cost(each: Population) -> str:
    return "-" if each.cost_usd is None else f"${each.cost_usd:.4f}"


# How ``llmeval report`` shows scores: their number, mean, distribution and failures.


def _show_scores(scores: tuple[ScoreSummary, ...], judged: list[Population]) -> None:
    """Print the table of scores, with a row for each evaluator and span name."""
    estimates = {(each.judge, each.span_name): each.estimate for each in judged}
    unrated = [each for each in scores if each.evaluator == values.ABSTENTION]
    heading("Scores")
    titles = ("evaluator", "span", "kind", "count", "mean", "distribution", "failed", "n/a", "cost")
    rows = [
        (
            each.evaluator,
            each.span_name or "-",
            each.evaluator_kind,
            f"{each.count:,}",
            _mean_of_scores(each, estimates.get((each.evaluator, each.span_name))),
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
    titles = ("span", "abstained", "by", "mean", "distribution")
    rows = [
        (
            each.span_name or "-",
            f"{each.count:,}",
            each.evaluator,
            _mean_of_scores(each, None),
            _distribution(each),
        )
        for each in unrated
    ]
    table(titles, rows, numbers="abstained")
    say_wrapped("0: there was nothing to find; 1: there was a value, and the app missed it.")


def _mean_of_scores(each: ScoreSummary, estimate: Estimate | None) -> str:
    mean = "-" if each.mean is None else number(each.mean)
    if each.mean_probability is not None:
        return f"{mean}, probability {number(each.mean_probability)}"
    whole = each.weighted_mean if estimate is None else estimate.mean
    if whole is None or mean in ("-", corrected := number(whole)):
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


# How ``llmeval report`` shows the tiers of judges that a decision model was asked for.


def _show_tiers(tiers: Sequence[Tiers], judged: Sequence[Population]) -> None:
    """Print each tier's share, mean and cost, and what the judge model changed."""
    if not tiers:
        return
    heading("Tiers: decisions, and the judge model where it was asked")
    titles = ("judge", "span", "tier", "records", "share", "mean", "all traffic (95 %)", "cost")
    estimates = {(tier.judge, tier.span_name): tier for tier in judged}
    rows = []
    for tier in tiers:
        share, judged_share = tier.shares
        whole = estimates.get((tier.judge, tier.span_name))
        estimate = None if whole is None else whole.estimate
        over_all = "-"
        if estimate is not None:
            over_all = f"{number(estimate.mean)} [{estimate.low:.3f}, {estimate.high:.3f}]"
        decision = (
            tier.judge, tier.span_name or "-", "decision", f"{tier.decided:,}", f"{share:.1%}",
            _number(tier.decision_mean), "-", _cost_of_tier(tier.decision_cost_usd),
        )  # fmt: skip
        rows.append(decision)
        if whole is None and not tier.judged and not tier.unanswered:
            continue  # no judge model was ever considered
        judge = (
            "", "", "judge", f"{tier.judged:,}", f"{judged_share:.1%}",
            _number(None if whole is None else whole.mean), over_all,
            _cost_of_tier(tier.judge_cost_usd),
        )  # fmt: skip
        rows.append(judge)
    table(titles, rows, numbers="records share mean cost")
    for tier in tiers:
        if tier.both or tier.unanswered:
            say_wrapped(_changed(tier))
        if tier.left_out:
            where = f"{printable(tier.judge)} on {printable(tier.span_name or '-')}"
            say_wrapped(
                f"{where}: {tier.left_out:,} records were decided without the images or files of"
                " their request: a decision model reads text only."
            )


def _changed(tier: Tiers) -> str:
    where = f"{printable(tier.judge)} on {printable(tier.span_name or '-')}"
    part = tier.changed / max(tier.both, 1)
    text = (
        f"{where}: the judge model changed {tier.changed:,} of the {tier.both:,} answers that both"
        f" gave ({part:.0%}), {tier.to_good:,} of them to good."
    )
    if tier.unanswered:
        text += f" It failed on {tier.unanswered:,}, where the decision stands."
    return text


def _number(mean: float | None) -> str:
    return "-" if mean is None else number(mean)


def _cost_of_tier(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:.4f}"


# How ``llmeval report`` shows which wrong extractions each escalation rule would find.

_SWITCH = (
    "To judge a fifth, the riskiest first: LLMEVAL_JUDGE_SHARE=0.2, or in code"
    " Escalation('extraction_correctness', share=0.2)."
)


def _show_rules(rules: RuleComparison) -> None:
    """Print the comparison as a table, or what is missing for one."""
    heading("Which rule finds wrong extractions")
    if not rules.is_known:
        say_wrapped(
            f"Extractions checked: {rules.checked}; of them wrong: {rules.wrong}. The rules are"
            f" compared from {FEWEST_CHECKED} checked and {FEWEST_WRONG} wrong ones on. Label some"
            " in the viewer, or let `extraction_correctness` judge a share."
        )
        return
    people = f"{rules.labelled} by people, the rest by extraction_correctness"
    say_wrapped(
        f"{rules.checked:,} extractions were checked ({people}); {rules.wrong:,} are wrong."
    )
    plain, risk, share = rules.plain_interval, rules.risk_interval, rules.share_interval
    rows = [
        ("recall below its bound, or a hit limit", rules.plain_share, rules.plain_caught, plain),
        ("extraction_risk, as many records", rules.plain_share, rules.risk_caught, risk),
        (
            f"extraction_risk, the riskiest {rules.share:.0%}",
            rules.share,
            rules.share_caught,
            share,
        ),
        ("at random", rules.share, rules.share, None),
    ]
    shown = [
        (rule, f"{judged or 0:.0%}", f"{caught or 0:.0%}", percents(interval) if interval else "-")
        for rule, judged, caught, interval in rows
    ]
    table(("rule", "records judged", "wrong ones caught", "95 % interval"), shown)
    say_wrapped(_SWITCH)


# How ``llmeval report`` shows the app's own traffic, and how plain alerts stand.


def _print_groups(args: argparse.Namespace, slices: Sequence[str]) -> int:
    """Print the scores and the traffic of groups of requests.

    Without groups, only the traffic by span name is printed, as the plain report has the scores.
    """
    selection = EvaluationScope(args.since, None, args.evaluator, args.span_name)
    by = BY_SELECTION if len(slices) > 1 else next(iter(slices), "name")
    with (
        open_selected(args, slices) as reader,
        _no_collector(),
        ThreadPoolExecutor(1) as beside,
    ):
        if scored := reader.read(lambda store: split_bounds(store, args.alert))[1]:
            raise ConfigurationError(f"--by has no alert on scores, such as {scored[0]}")
        reading = None if args.evaluator else beside.submit(_read_traffic, reader, args, by)
        labels = _labels(args)
        groups, feedback = [], []
        if slices:
            known = SharedReadings(reader, args.predictor or NO_PREDICTOR, labels)
            measured = by_group(reader, selection, known)
            _check_labels(reader, args.labels, labels, measured)
            groups = scored_groups(measured, len(slices))
            feedback = reader.read(lambda store: feedback_by_group(store, args.since))
        summed = reading.result() if reading is not None else None
        alerts = _plain_alerts(reader, args)
        future = reader.read(lambda store: from_the_future(store, time.time_ns()))
        location = reader.location
    if args.json:
        plain: dict[str, object] = {"store": location, "since_ns": args.since}
        plain |= {"traffic": plain_traffic(summed, slices), "from_the_future": future}
        plain |= {"alerts": [alert.as_plain() for alert in alerts]}
        plain |= {"by": slices, "groups": groups, "feedback": feedback} if slices else {}
        say_json(plain)
    else:
        say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
        if slices:
            show_groups(groups, feedback, slices)
        if summed is not None:
            show_traffic(summed, future, slices)
        _show_plain_alerts(alerts)
    return _exit_code_of_alerts(alerts)


def _read_traffic(reader: StoreReader, args: argparse.Namespace, by: str) -> Traffic:
    """Sum up the spans that ``--since`` and ``--span-name`` select, in groups.

    Its connection is its own, so that a thread may do it beside other readings.
    """
    scope = TrafficScope(args.since, None, args.span_name)
    return reader.read_apart(lambda store: traffic(store, scope, by, pricing(args.prices)))


def _plain_alerts(reader: StoreReader, args: argparse.Namespace) -> list[Measured]:
    """Compare the traffic since ``--since``, or of the last day, with the plain bounds."""
    if not args.alert:
        return []
    end = args.until or time.time_ns()
    window = args.since or end - DAY_NS, end
    return reader.read(
        lambda store: measure_bounds(
            store,
            split_bounds(store, args.alert)[0],
            window,
            span_name=args.span_name,
            pricing=pricing(args.prices),
        )
    )


def _show_traffic_below(summed: Traffic, alerts: Sequence[Measured]) -> None:
    """Print the traffic if there is any, and then the plain alerts."""
    if summed.groups:
        show_traffic(summed)
    _show_plain_alerts(alerts)


def _show_plain_alerts(alerts: Sequence[Measured]) -> None:
    """Print how plain bounds stand."""
    for measured in alerts:
        window = f"from {moment(measured.since_ns)} to {moment(measured.until_ns)}"
        value = "nothing was measured" if measured.value is None else f"it is {measured.value:.4g}"
        state = {True: "ALERT", False: "no alert", None: "cannot be decided"}[measured.holds]
        detail = f"; {measured.detail}" if measured.detail else ""
        say_wrapped(
            printable(
                f"{measured.alert}: {state}, {value} {window} ({_of(measured)}){detail}",
                1_000,
            )
        )


def _of(alert: Measured) -> str:
    return plural(alert.count, "request") if "feedback" not in alert.detail else "what users said"


def _exit_code_of_alerts(alerts: Sequence[Measured]) -> int:
    """Return 1 if an alarm is in force, 2 if one cannot be decided, else 0."""
    held = [alert.holds for alert in alerts]
    return 1 if True in held else 2 if None in held else 0


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch off the collector of reference cycles: it looks at each of a million rows in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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


def add(subparsers: Commands) -> None:
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
    add_filter(parser)
    parser.add_argument("--evaluator", metavar="NAME", help="only this evaluator")
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.add_argument(
        "--by",
        type=checked(_grouping),
        action="append",
        default=[],
        metavar="WHAT",
        help="day or hour: also show the trend of the judges. field: show what is known of each"
        " field of the answers. name: show the app's own traffic alone. request, model, user,"
        " session or tag:KEY: show scores and traffic in these groups; may be given twice",
    )
    parser.add_argument(
        "--prices",
        type=checked(config.prices),
        metavar="PRICES",
        help="price calls of these models anew, in USD per million tokens: 'mine=0.5,1.5'"
        " (further prices: LLMEVAL_PRICES)",
    )
    parser.add_argument(
        "--alert",
        type=checked(_read_alert),
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
        return text if text in (*PERIODS, field_report.BY) else check(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}, or field, day or hour") from None


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    alone = next((by for by in args.by if by in (*PERIODS, field_report.BY, "name")), None)
    if alone is None and args.by:
        return _print_groups(args, args.by)
    if len(args.by) > 1:
        raise ConfigurationError(
            f"--by {alone} stands alone: two groupings are of {', '.join(GROUPINGS[1:])}"
        )
    if alone == field_report.BY:
        return field_report.report_fields(args)
    if alone == "name":
        if args.evaluator:
            raise ConfigurationError("--by name is about the app's traffic: it has no --evaluator")
        return _print_groups(args, ())
    with open_selected(args) as reader:
        return _report(args, reader, alone)


def _report(args: argparse.Namespace, reader: StoreReader, trend_by: str | None) -> int:
    selection = EvaluationScope(args.since, None, args.evaluator, args.span_name)
    settings = config.from_environment(problems=[])
    found = findings_of(reader, settings.store_max_bytes, time.time_ns())
    with ThreadPoolExecutor(2) as beside:
        traffic = beside.submit(_read_traffic, reader, args, "name")
        not_run = reader.read(lambda c: not_run_summary(c, selection))
        labels = _labels(args)
        known = SharedReadings(reader, args.predictor, labels)
        predictors = beside.submit(known.read_ahead, not_run, selection)
        groups = known.groups(selection, with_digits=True)
        summaries = beside.submit(known.summaries, selection)
        predictors.result()
        judged = populations(reader, selection, known)
        _check_labels(reader, args.labels, labels, judged)
        judges = dict.fromkeys(population.judge for population in judged)
        users = reader.read(lambda store: user_feedback(store, {args.labels, *judges}, args.since))
        plain = _plain_alerts(reader, args)
        trend = []
        if trend_by is not None:
            trend = populations(reader, selection, known, by_period(PERIODS[trend_by]))
        alerts = _followed(reader, args, selection, known)
        lost = reader.read(lambda store: losses(store, args.since, args.until))
        answers = reader.read(lambda store: unanswered(store, args.since, span_name=args.span_name))
        compared = reader.read(
            lambda store: compare_rules(store, settings.recall_threshold, args.since)
        )
        stood_in = reader.read(lambda store: judged_by_stand_in(store, judges))
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
            "findings": [finding._asdict() for finding in found],
            "lost": lost,
            "answers": [{**asdict(each), "no_answer": each.no_answer} for each in answers],
            "stood_in": stood_in,
            "rules": compared,
            "tiers": tiered,
            "feedback": users,
            "traffic": plain_traffic(summed, ()),
            "alerts": _alerts(alerts, plain),
        }
        say_json(summary)
        return _exit_code(alerts, plain)
    say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
    _show_findings(
        found,
        summed.completeness,
        reader.read(lambda store: lasting(store, settings.store_max_bytes, time.time_ns())),
    )
    if scores:
        _show_scores(scores, judged)
    else:
        say("No evaluations" + (" match." if any(selection) else " yet."))
    if judged:
        _show_judged(judged)
        for name in stood_in:
            say_wrapped(f"{printable(name)}: judged by the rule-based stand-in, which is no model.")
    _answers(answers)
    _show_people(judged, users)
    _show_tiers(tiered, judged)
    if compared.checked:
        _show_rules(compared)
    _show_trend(trend, trend_by or "")
    _not_run(not_run)
    _lost(lost)
    _show_traffic_below(summed, plain)
    for each, whole in alerts:
        _show_alert(each, whole, level_of(len(alerts)))
    return _exit_code(alerts, plain)


def _read_alert(text: str) -> Bound:
    """Read a bound on the requests of the report; raises `ConfigurationError` for another one."""
    bound = read_bound(text)
    if bound.where:
        raise ConfigurationError("the alerts of a report follow its filter: pass --where apart")
    return bound


def _labels(args: argparse.Namespace) -> LabelSource:
    """Return the labels that correct the judges: a name of feedback, or those of a file."""
    name: str | None = args.labels
    return labels_from(name) if name and name.endswith(".jsonl") else name


def _followed(
    reader: StoreReader,
    args: argparse.Namespace,
    selection: EvaluationScope,
    known: SharedReadings,
) -> list[tuple[AlertState, Population]]:
    """Follow the bounds on scores up to now; each comes with the estimate that it is about."""
    if not args.alert:
        return []
    bounds = reader.read(lambda store: split_bounds(store, args.alert))[1]
    followed = followed_alerts(
        reader, bounds, args.since, args.until or time.time_ns(),
        span_name=args.span_name, predictor=args.predictor,
    )  # fmt: skip
    return [
        (each, overall(reader, _about(each, selection), known, each.bound.evaluator))
        for each in followed
    ]


def _check_labels(
    reader: StoreReader, option: str | None, labels: LabelSource, judged: list[Population]
) -> None:
    """Raise `ConfigurationError` where ``--labels`` matches nothing, with what there is instead."""
    if option is None or any(each.labels or each.left_out for each in judged):
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


def _about(alert: AlertState, selection: EvaluationScope) -> EvaluationScope:
    """Return what an alert is about: of an alarm, what was judged since its change began."""
    return selection._replace(since=alert.since_ns) if alert.is_alarm else selection


def _holds(alert: AlertState, population: Population) -> bool | None:
    """Say whether an alarm is in force; ``None`` where that cannot be decided."""
    if alert.is_alarm:
        return True
    return None if lacking(alert, population) else False


def _alerts(
    alerts: list[tuple[AlertState, Population]], plain: list[Measured]
) -> list[dict[str, object]]:
    level = level_of(len(alerts))
    estimated: list[dict[str, object]] = [
        {
            "alert": str(alert.bound),
            "holds": _holds(alert, whole),
            "estimate": whole.estimate,
            "evidence": alert.evidence.total / level,
            "undecided": "" if alert.is_alarm else lacking(alert, whole),
            "since_ns": alert.since_ns,
            "needed": alert.needed(level),
        }
        for alert, whole in alerts
    ]
    return [*(alert.as_plain() for alert in plain), *estimated]


def _exit_code(alerts: list[tuple[AlertState, Population]], plain: list[Measured]) -> int:
    held = [_holds(alert, population) for alert, population in alerts]
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


def _show_findings(
    found: Sequence[Finding], stored: Completeness | None, lasts: Lasting | None
) -> None:
    for finding in found:
        mark = "PROBLEM" if finding.is_problem else "note"
        say_wrapped(printable(f"{mark}: {finding}", 1_000))
    if stored is not None:
        say_wrapped(printable(f"In this period: {stored.sentence}", 1_000))
    if lasts is not None:
        say_wrapped(f"The store's limit of {lasts.sentence}.")


def _not_run(not_run: Sequence[NotRunSummary]) -> None:
    if not not_run:
        return
    heading("Judges that did not run")
    rows = [(each.evaluator, each.reason, f"{each.count:,}", each.detail) for each in not_run]
    table(("judge", "reason", "count", "latest detail"), rows, numbers="count")
    say()
    say_wrapped("`llmeval explain --last` says what a reason means and what to do about it.")


def _lost(lost: Losses) -> None:
    if not lost:
        return
    heading("Not delivered, by all processes that wrote this store")
    rows = [
        (exporter, reason, f"{times:,}")
        for exporter, reasons in lost.items()
        for reason, times in reasons.items()
    ]
    table(("exporter", "reason", "records"), rows, numbers="records")
