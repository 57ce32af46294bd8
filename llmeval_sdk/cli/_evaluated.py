"""What ``llmeval evaluate`` prints and writes, and how it decides."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk._terminal import changed_by, plural, printable, score
from llmeval_sdk.cli._output import heading, say, say_json, table
from llmeval_sdk.errors import ConfigurationError


if TYPE_CHECKING:
    from llmeval_sdk.offline import Report
    from llmeval_sdk.offline.report.compare import Comparison

MOST_WORST = 5


@dataclass(frozen=True, slots=True)
class EvaluateRun:
    """A report and what was asked of it."""

    report: Report
    args: argparse.Namespace
    saved: Path
    compared: Comparison | None


def publish(outcome: EvaluateRun) -> int:
    """Print and write everything; return the exit status."""
    from llmeval_sdk.offline.report.gate import ReportGate, checks

    report, args = outcome.report, outcome.args
    demands: dict[str, Any] = {
        "at_least": dict(sorted(args.fail_under)),  # of two bounds on a metric the higher
        "at_most": dict(sorted(args.fail_over, reverse=True)),  # and of these the lower
        "compared": outcome.compared,
        "min_rated": args.min_rated,
    }
    gate = checks(report, ReportGate(**demands))
    if args.json:
        missed = report.below(demands["at_least"], min_rated=args.min_rated)
        missed |= report.above(demands["at_most"], min_rated=args.min_rated)
        result = _json(outcome, missed)
        result["gate"] = [{"passed": check.passed, "said": check.said} for check in gate]
        say_json(result)
    else:
        _print(outcome)
    for name, path, make in (
        ("html", args.html, lambda: report.to_html(**demands)),
        ("markdown", args.markdown, lambda: report.to_markdown(**demands)),
        ("junit", args.junit, lambda: report.to_junit(**demands)),
    ):
        if path is not None:
            _write(name, path, make, quiet=args.json)
    if not args.json:
        for check in gate:
            say(f"{check.word:<6} {check.said}")
    return 0 if all(check.passed for check in gate) else 1


def check_targets(args: argparse.Namespace) -> None:
    """Refuse to write over what is no report of ours, before anything is paid for.

    Raises:
        ConfigurationError: naming the option and the file.
    """
    from llmeval_sdk.offline.report.summary import MARKS, spare

    paths = {name: getattr(args, name) for name in MARKS if getattr(args, name) is not None}
    for name, path in paths.items():
        if path == args.save or any(path == other for each, other in paths.items() if each != name):
            raise ConfigurationError(f"--{name} {path}: another output has this name already")
        spare(name, path)


def _write(name: str, path: Path, make: Callable[[], str], *, quiet: bool) -> None:
    from llmeval_sdk.offline.report.summary import spare

    spare(name, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), "utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    if not quiet:
        say(f"wrote {path}")


def _print(outcome: EvaluateRun) -> None:
    from llmeval_sdk.offline.report.summary import headline, lines

    report = outcome.report
    say(f"{report.experiment}: {headline(report)}")
    for problem in report.problems[:3]:
        say(f"  skipped: {printable(problem, 300)}")
    heading("Metrics")
    rows = [line.cells() for line in lines(report)]
    if rows:
        table(("metric", "value", "rated", "failed", "n/a", "why"), rows, numbers=_NUMBERS)
    else:
        say("No evaluator applied to any row.")
    _print_worst(report)
    if outcome.compared is not None:
        _print_comparison(outcome.compared)
    for name, account in report.delivery.items():
        lost = "".join(f", {times:,} dropped ({why})" for why, times in account.dropped.items())
        waiting = f", {account.undelivered:,} not delivered" if account.undelivered else ""
        records = plural(account.created, "record")
        say(f"{name}: {account.delivered:,} of {records} delivered{lost}{waiting}")
    say(f"\nsaved to {outcome.saved}")


_NUMBERS = "value rated failed n/a before now difference rows"


def _print_worst(report: Report) -> None:
    from llmeval_sdk.offline.report.markdown import wrongs
    from llmeval_sdk.offline.report.row import texts
    from llmeval_sdk.offline.report.summary import worst

    rows = [
        (row.id, printable(dict(texts(row)).get("request", ""), 60), "; ".join(wrong))
        for row in worst(report.rows, MOST_WORST)
        if (wrong := wrongs(row))
    ]
    if rows:
        heading("Worst rows")
        table(("row", "request", "what is wrong"), rows)


def _print_comparison(compared: Comparison) -> None:
    from llmeval_sdk.offline.report.summary import shown

    heading(f"Against the baseline ({plural(compared.pairs, 'row')} in both)")
    rows = [
        (
            change.path,
            shown(change.before),
            shown(change.after),
            changed_by(change.difference),
            "-" if change.low == change.high else f"{change.low:+.3g} .. {change.high:+.3g}",
            f"{change.pairs:,}",
            change.verdict,
        )
        for change in compared.changes
    ]
    if rows:
        table(
            ("metric", "before", "now", "difference", "95 % interval", "rows", ""),
            rows,
            numbers=_NUMBERS,
        )
    for name, count in compared.unrated.items():
        say(f"{printable(name)}: {plural(count, 'row')} rated before, and not now")
    for name, count in compared.gone.items():
        say(f"{printable(name)}: {plural(count, 'row')} rated before, and not in the data now")
    if compared.regressions:
        heading(f"{plural(compared.regressed, 'row')} got worse")
        table(
            ("row", "evaluator", "before", "now"),
            [
                (
                    each.row.id,
                    each.evaluator,
                    score(each.before.value),
                    "raised" if each.after is None else score(each.after.value),
                )
                for each in compared.regressions[:10]
            ],
        )


def _json(outcome: EvaluateRun, missed: dict[str, float | None]) -> dict[str, Any]:
    report = outcome.report
    compared = outcome.compared
    result: dict[str, Any] = {
        "experiment": report.experiment,
        "rows": len(report.rows),
        "metrics": report.metrics,
        "counts": report.counts,
        "reasons": report.reasons,
        "errors": report.errors,
        "skipped": report.skipped,
        "problems": report.problems,
        "judge_usage": asdict(report.judge_usage),
        "missed": missed,
        "saved": str(outcome.saved),
        "delivery": {name: asdict(account) for name, account in report.delivery.items()},
    }
    if compared is not None:
        result["comparison"] = {
            "pairs": compared.pairs,
            "regressed": compared.regressed,
            "worse": [change.path for change in compared.worse],
            "lost": compared.lost,
            "unrated": compared.unrated,
            "gone": compared.gone,
            "changes": [
                {**asdict(each), "difference": each.difference, "verdict": each.verdict}
                for each in compared.changes
            ],
            "regressions": [
                {"row": each.row.id, "evaluator": each.evaluator} for each in compared.regressions
            ],
        }
    return result
