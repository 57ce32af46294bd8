"""``llmeval evaluate``: the evaluators that run online, over a file; a gate for CI."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import (
    Help,
    add_json,
    add_store,
    add_where,
    open_store,
    since,
)
from llmeval_sdk.cli.output import heading, say, say_json, table
from llmeval_sdk.config import prices
from llmeval_sdk.errors import ConfigurationError, DataError, LlmevalError
from llmeval_sdk.store.files import make_folder, path_of
from llmeval_sdk.text.terminal import changed_by, plural, printable, score


if TYPE_CHECKING:
    from llmeval_sdk.offline import Report
    from llmeval_sdk.offline.cost import CostEstimate
    from llmeval_sdk.offline.report.compare import Comparison


# The options of ``llmeval evaluate``, their help, and how their values are read.

EPILOG = """\
FILE is a .jsonl, .csv, .tsv, .json or .parquet file with one row for each request. Its
columns are `request` (a text, an OpenAI chat request or {"query", "history"}), `response`,
`retrieved_context`, `expected_response` or `expected_facts`,
`expected_retrieved_context`, `extractions`, `trace` (MLflow, OTLP), `request_id` ...
A CSV cell that holds a list or an object is written as JSON.

examples:
  llmeval evaluate golden.jsonl
  llmeval evaluate golden.jsonl --evaluators correctness,document_recall \\
      --model-judge gpt-4o-mini \\
      --fail-under response/llm_judged/correctness/rating/percentage=0.9 \\
      --compare main.jsonl --html report.html --junit report.xml
  llmeval evaluate golden.csv --model my_app:answer --evaluators checks:polite,groundedness
  llmeval evaluate --from-store --since 24h --evaluators groundedness --model-judge gpt-4o

Without --evaluators, every free evaluator runs on the rows that have its inputs. If a
judge model is configured, relevance_to_query, safety, groundedness and chunk_relevance
run too, and so do correctness and context_sufficiency where a row has ground truth.

All rows are checked before the first call of a judge or of --model. Each row is saved when it
is done, for --resume. Verdicts are kept for 30 days, so none is paid for twice.

Exit codes:
  0    every check passed
  1    the gate failed: a --fail-under or --fail-over bound was missed, or its evaluator
       failed on more rows than --min-rated allows; --model raised an exception on a row;
       the budget ran out; or, compared with --compare, a metric got worse (by 0.01 or
       more, with 95 % confidence over all metrics together; tokens and seconds do not
       count), or fewer of the rows that a judge rated before are rated now than
       --min-rated allows
  2    the command could not run: a row or file cannot be read, an option, evaluator or
       metric does not exist, there is no judge model ...
  3    llmeval itself has an error, shown with its traceback; no gate was decided
  130  the command was interrupted; the rows that were done are saved
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Declare every option of the command."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the rows to evaluate, unless --dataset or --from-store is given",
    )
    parser.add_argument(
        "--map",
        action="append",
        type=_pair,
        default=[],
        metavar="THEIRS=OURS",
        help="read this column of the data as one of ours, such as question=request; may be "
        "repeated",
    )
    golden = parser.add_argument_group("a golden set (`llmeval dataset`), in place of FILE")
    golden.add_argument(
        "--dataset", metavar="NAME", help="the newest version of this set, or NAME@VERSION"
    )
    golden.add_argument(
        "--folder", metavar="DIR", help="where the sets are (default: datasets beside the store)"
    )
    _add_evaluation(parser)
    _add_output(parser)
    _add_limits(parser)
    store = parser.add_argument_group("requests of the local store, in place of FILE")
    store.add_argument(
        "--from-store", action="store_true", help="evaluate the live requests of the store again"
    )
    store.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="only requests from this time on: 90m, 24h, 7d or an ISO date",
    )
    store.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    add_where(store)
    add_store(store)


def _add_evaluation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--evaluators",
        action="append",
        metavar="A,B",
        help="names of evaluators, or module:attribute for your own; may be repeated",
    )
    parser.add_argument(
        "--model-judge", metavar="NAME", help="the judge model (default: LLMEVAL_JUDGE_MODEL)"
    )
    parser.add_argument(
        "--decision-model",
        metavar="NAME",
        help="the decision model that is asked, once for each row, in place of all judges whose "
        "questions have answers to choose from (default: LLMEVAL_DECISION_MODEL, unless "
        "--model-judge is given)",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=_threshold,
        default=[],
        metavar="JUDGE=NUMBER",
        help="the probability from which on the outcome of a decision is good (default: "
        "0.5); may be repeated",
    )
    parser.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help="your app: it is called with the request of each row, unchanged",
    )
    parser.add_argument(
        "--experiment", metavar="NAME", help="the name of this run in reports and backends"
    )
    parser.add_argument(
        "--exporters",
        metavar="A,B",
        help="send spans and scores to these exporters too: local, otlp, mlflow ...",
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="skip rows that cannot be read, and report how many there were",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    gate = parser.add_argument_group("a gate for CI")
    gate.add_argument(
        "--fail-under",
        action="append",
        type=bound,
        default=[],
        metavar="PATH=NUMBER",
        help="exit with 1 if this metric is below the number; may be repeated",
    )
    gate.add_argument(
        "--fail-over",
        action="append",
        type=bound,
        default=[],
        metavar="PATH=NUMBER",
        help="exit with 1 if this metric is above the number, such as no_answer/percentage=0.05; "
        "may be repeated",
    )
    gate.add_argument(
        "--min-rated",
        type=_share,
        default=0.9,
        metavar="SHARE",
        help="exit with 1 if an evaluator with a bound rates a smaller share of the rows that have "
        "its inputs (default: 0.9)",
    )
    gate.add_argument(
        "--compare",
        metavar="FILE",
        help="exit with 1 if a metric is worse than in this saved report",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--html", metavar="FILE", type=Path, help="write the report as one HTML page with charts"
    )
    output.add_argument(
        "--markdown", metavar="FILE", type=Path, help="write the report as Markdown tables"
    )
    output.add_argument("--junit", metavar="FILE", type=Path, help="write the report as JUnit XML")
    add_json(output)
    output.add_argument(
        "--save",
        metavar="FILE",
        type=Path,
        help="where to save the report for --resume and --compare "
        "(default: .llmeval/reports/EXPERIMENT.jsonl)",
    )
    output.add_argument("--no-progress", action="store_true", help="do not show a progress bar")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("time and money")
    limits.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray evaluates Parquet files (FILE may be a folder or a pattern such as "
        "'data/*.parquet') in many processes and on many machines, with the same report; it needs "
        "the extra ray, and saves the report in a folder",
    )
    limits.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="with --engine ray, how many processes evaluate; they share --concurrency (default: "
        "one less than Ray has processors)",
    )
    limits.add_argument(
        "--concurrency",
        type=int,
        default=8,
        metavar="N",
        help="how many judgements run at a time (default: 8)",
    )
    limits.add_argument(
        "--estimate",
        action="store_true",
        help="print how many requests, tokens and dollars the run would take, and ask nothing of "
        "anyone",
    )
    limits.add_argument(
        "--max-usd",
        type=float,
        metavar="USD",
        help="the most that judges may cost; if it does not suffice, the gate fails",
    )
    limits.add_argument(
        "--price",
        action="append",
        type=_price,
        default=[],
        metavar="MODEL=IN,OUT",
        help="the price of a judge model in USD per million input and output tokens; may be "
        "repeated (default: LLMEVAL_PRICES, then a built-in list of well-known models)",
    )
    limits.add_argument(
        "--calls-per-minute",
        type=float,
        metavar="N",
        help="the most judge calls in any minute; further calls wait",
    )
    limits.add_argument(
        "--resume",
        action="store_true",
        help="evaluate only the rows that the saved report lacks or that failed",
    )
    limits.add_argument(
        "--no-cache",
        action="store_true",
        help="ask the judges again instead of using verdicts of earlier runs",
    )


def bound(text: str) -> tuple[str, float]:
    """Read ``path=0.9``."""
    path, _, number = text.rpartition("=")
    try:
        least = float(number)
        if not path.strip() or least != least:  # noqa: PLR0124 - NaN is no bound
            raise ValueError  # noqa: TRY301
        return path.strip().rstrip("<>").strip(), least
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a bound: expected PATH=NUMBER, such as context_relevance/average=0.6"
        ) from None


def _price(text: str) -> tuple[str, tuple[float, ...]]:
    try:
        (priced,) = prices(text).items()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a price: expected MODEL=INPUT,OUTPUT, such as my-model=0.5,1.5"
        ) from None
    return priced


def _pair(text: str) -> tuple[str, str]:
    theirs, _, ours = text.rpartition("=")
    if not theirs or not ours:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no THEIRS=OURS, such as --map question=request"
        )
    return theirs, ours


def _threshold(text: str) -> tuple[str, float]:
    judge, _, number = text.rpartition("=")
    try:
        threshold = float(number)
        if not judge.strip() or not 0 <= threshold <= 1:
            raise ValueError  # noqa: TRY301
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a threshold: expected JUDGE=NUMBER with a number from 0 to 1, "
            "such as safety=0.9"
        ) from None
    return judge.strip(), threshold


def _share(text: str) -> float:
    try:
        share = float(text)
        if not 0 <= share <= 1:
            raise ValueError  # noqa: TRY301
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: expected a number from 0 to 1"
        ) from None
    return share


# How ``llmeval evaluate --estimate`` shows what a run would cost.


def show(estimate: CostEstimate, *, as_json: bool) -> int:
    """Print an estimate; return the exit code."""
    if as_json:
        say_json({**asdict(estimate), "cost_usd": estimate.cost_usd})
        return 0
    say(f"An estimate for {estimate.rows:,} rows; no model was asked.")
    if estimate.models:
        _models(estimate)
    elif not estimate.unknown:
        say("No evaluator of this run asks a model: it costs nothing.")
    for judge, rows in estimate.unknown.items():
        say(f"{judge} is code: what it asks for {rows:,} rows shows only when it runs.")
    return 0


def _models(estimate: CostEstimate) -> None:
    rows = [
        (
            model.model,
            "decisions" if model.is_decisions else "judgements",
            f"{model.requests:,}",
            f"{model.usage.input_tokens:,}",
            f"{model.usage.output_tokens:,}",
            f"{model.cached:,}",
            _dollars(model.usage.cost_usd),
        )
        for model in estimate.models
    ]
    titles = ("model", "for", "requests", "input", "output", "cached", "cost")
    table(titles, rows, numbers=" ".join(titles[2:]))
    say("\nInput and output are tokens: of the input the most, at three characters a token.")
    say(f"Altogether about {_dollars(estimate.cost_usd)}, without retries.")
    if any(model.usage.cost_usd is None for model in estimate.models):
        say("Give the price of a model with --price 'MODEL=IN,OUT'.")


def _dollars(usd: float | None) -> str:
    return "an unknown price" if usd is None else f"${usd:.4f}"


# What ``llmeval evaluate`` prints and writes, and how it decides.

MAX_WORST = 5


@dataclass(frozen=True, slots=True)
class EvaluateRun:
    """A finished run: its report, the arguments of the command, and what was saved and compared."""

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


def _check_targets(args: argparse.Namespace) -> None:
    """Refuse to write over what is no report of ours, before anything is paid for.

    Raises:
        ConfigurationError: naming the option and the file.
    """
    from llmeval_sdk.offline.report.summary import MARKS, check_overwritable

    paths = {name: getattr(args, name) for name in MARKS if getattr(args, name) is not None}
    for name, path in paths.items():
        if path == args.save or any(path == other for each, other in paths.items() if each != name):
            raise ConfigurationError(f"--{name} {path}: another output has this name already")
        check_overwritable(name, path)


def _write(name: str, path: Path, make: Callable[[], str], *, quiet: bool) -> None:
    from llmeval_sdk.offline.report.summary import check_overwritable

    check_overwritable(name, path)
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
    from llmeval_sdk.offline.report.ci import wrongs
    from llmeval_sdk.offline.report.row import texts
    from llmeval_sdk.offline.report.summary import worst

    rows = [
        (row.id, printable(dict(texts(row)).get("request", ""), 60), "; ".join(wrong))
        for row in worst(report.rows, MAX_WORST)
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


BROKEN = 3


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "evaluate",
        help="run evaluators over a file or the store, as a gate for CI",
        description="Run evaluators over the rows of a file or the store, and report the results.",
        epilog=EPILOG,
        formatter_class=Help,
    )
    _add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate, print and write what was found, and decide the gate."""
    try:
        return _run(args)
    except (LlmevalError, OSError, UnicodeEncodeError):
        raise
    except Exception:  # Python's own exit status for it would be that of a failed gate
        traceback.print_exc()
        sys.stderr.write("llmeval evaluate: this is an error of llmeval; no gate was decided\n")
        return BROKEN


def _run(args: argparse.Namespace) -> int:
    from llmeval_sdk.offline import Interrupted, Report

    _check(args)
    if args.estimate:
        return _estimate(args)
    baseline = Report.load(args.compare) if args.compare else None
    save = args.save or _default_save(args)
    try:
        report = _evaluate(args, save)
    except Interrupted as stop:
        publish(EvaluateRun(stop.report, args, save, None))
        if not args.json:
            say("Interrupted: these rows are done. Run the same command with --resume to go on.")
        return 130
    if not report.rows:
        where = "the store for this time and span name" if args.from_store else args.file
        raise DataError(f"there are no rows in {where}: nothing was evaluated")
    compared = None if baseline is None else report.compare(baseline)
    return publish(EvaluateRun(report, args, save, compared))


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is paid for."""
    from llmeval_sdk.offline import GoldenSet, check_bounds

    _check_targets(args)
    if sum((args.file is not None, args.dataset is not None, args.from_store)) != 1:
        raise ConfigurationError(
            "name the FILE to evaluate, or pass --dataset or --from-store (one of the three)"
        )
    if args.dataset is not None:
        args.file = str(GoldenSet(args.dataset, folder=args.folder).path)
    elif args.folder is not None:
        raise ConfigurationError("--folder is where the sets of --dataset are: name one")
    if args.where and not args.from_store:
        raise ConfigurationError("--where chooses requests of a store: it goes with --from-store")
    if args.engine == "ray" and (args.from_store or args.estimate):
        other = "--from-store" if args.from_store else "--estimate"
        raise ConfigurationError(
            f"{other} reads on this machine alone: use it without --engine ray"
        )
    if args.concurrency < 1:
        raise ConfigurationError("--concurrency must be at least 1")
    problems: list[str] = []
    config.from_environment(problems=problems)
    for problem in problems:
        sys.stderr.write(f"llmeval evaluate: {problem}\n")
    if args.estimate:  # which needs no key and decides no gate
        return
    paths = [path for path, _ in (*args.fail_under, *args.fail_over)]
    check_bounds(
        paths,
        evaluators=_names(args.evaluators) or None,
        llm=args.model_judge,
        decisions=args.decision_model,
    )


def _estimate(args: argparse.Namespace) -> int:
    """Print what the run would ask and cost."""
    from llmeval_sdk.offline import estimate_cost

    if args.model:
        raise ConfigurationError(
            "--estimate cannot know what --model will answer: estimate rows that have answers"
        )
    with _rows(args) as data:
        estimate = estimate_cost(
            data,
            evaluators=_names(args.evaluators) or None,
            llm=args.model_judge,
            decisions=args.decision_model,
            skip_bad=args.skip_bad or args.from_store,
            cache=not args.no_cache,
            prices=dict(args.price) or None,
            map_columns=dict(args.map) or None,
        )
    return show(estimate, as_json=args.json)


@contextmanager
def _rows(args: argparse.Namespace) -> Iterator[Any]:
    """Open what is evaluated: the file, or the requests of the store."""
    if not args.from_store:
        yield args.file
        return
    from llmeval_sdk.offline.data.spans import stored

    with open_store(args.store, args.where) as reader:
        settings = config.from_environment(problems=[])
        yield stored(
            reader,
            since=args.since,
            span_name=args.span_name,
            retrieved=settings.retrieved_context,
            limits=settings.retrieval_limits,
        )


def _evaluate(args: argparse.Namespace, save: Path) -> Report:
    from llmeval_sdk.evaluation.budget import Budget
    from llmeval_sdk.offline import evaluate

    budget = None
    if args.max_usd is not None or args.calls_per_minute is not None:
        budget = Budget(
            calls_per_minute=args.calls_per_minute,
            usd_per_day=args.max_usd,
            concurrency=args.concurrency,
        )
    with _rows(args) as data:
        return evaluate(
            data,
            model=args.model,
            evaluators=_names(args.evaluators) or None,
            llm=args.model_judge,
            concurrency=args.concurrency,
            progress=not args.no_progress,
            budget=budget,
            experiment=_experiment(args),
            exporters=_names([args.exporters] if args.exporters else None),
            save=save,
            resume=args.resume,
            skip_bad=args.skip_bad or args.from_store,
            cache=not args.no_cache,
            prices=dict(args.price) or None,
            decisions=args.decision_model,
            thresholds=dict(args.threshold) or None,
            engine=args.engine,
            workers=args.workers,
            map_columns=dict(args.map) or None,
        )


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for each in given or () for name in each.split(",") if name.strip()]


def _experiment(args: argparse.Namespace) -> str:
    from llmeval_sdk.offline.data.source import stem_of

    if args.experiment or not args.file:
        return str(args.experiment or "offline-store")
    return f"offline-{stem_of(args.file)}"


def _default_save(args: argparse.Namespace) -> Path:
    from llmeval_sdk.offline.run.work import slug

    store = path_of(config.from_environment(problems=[]).store)
    try:
        make_folder(store.parent)
    except OSError as error:
        raise ConfigurationError(f"{store.parent} cannot be created: {error.strerror}") from None
    name = slug(_experiment(args))
    return store.with_name("reports") / (name if args.engine == "ray" else f"{name}.jsonl")
