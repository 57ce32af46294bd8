"""``llmeval evaluate``: the evaluators that run online, over a file; a gate for CI."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.cli._options import Help, add_store, open_store, since
from llmeval_sdk.cli._output import say
from llmeval_sdk.config import prices
from llmeval_sdk.errors import ConfigurationError, DataError, LlmevalError
from llmeval_sdk.store.files import make_folder, path_of


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline import Report

_EPILOG = """\
FILE is .jsonl, .csv, .tsv, .json or .parquet, with a row for each request: `request`
(a text, an OpenAI chat request or {"query", "history"}), `response`,
`retrieved_context`, `expected_response` or `expected_facts`,
`expected_retrieved_context`, `extractions`, `trace` (MLflow, OTLP), `request_id` ...
In CSV, cells with lists and objects hold JSON.

examples:
  llmeval evaluate golden.jsonl
  llmeval evaluate golden.jsonl --evaluators correctness,document_recall \\
      --model-judge gpt-4o-mini \\
      --fail-under response/llm_judged/correctness/rating/percentage=0.9 \\
      --compare main.jsonl --html report.html --junit report.xml
  llmeval evaluate golden.csv --model my_app:answer --evaluators checks:polite,groundedness
  llmeval evaluate --from-store --since 24h --evaluators groundedness --model-judge gpt-4o

Without --evaluators every free one runs whose inputs a row has; with a judge model
also relevance_to_query, safety, groundedness, chunk_relevance and, where ground truth
is there, correctness and context_sufficiency.

All rows are read and checked before a judge or the model is asked. Every row is saved
as soon as it is done: after Ctrl-C, --resume goes on. Verdicts are kept for 30 days,
so that the same judge on the same row is not paid for twice.

Exit codes:
  0    all is well
  1    a --fail-under bound was missed, or its evaluator failed on more rows than
       --min-rated lets pass; --model raised on a row; the budget was used up; or against
       --compare a metric got worse (by 0.01 at least, with 95 % confidence over all
       metrics together; tokens and seconds do not count), or a judge rates no row any more
  2    could not be done as asked: a row or file that cannot be read, an option, evaluator
       or metric that is not there, no judge model ...
  3    an error of llmeval itself, with its traceback; no gate was decided
  130  interrupted; what was done is saved
"""
BROKEN = 3


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "evaluate",
        help="run evaluators over a file or the store; a gate for CI",
        description="Run evaluators over the rows of a file, and say what they found.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the rows; else --from-store")
    _add_what(parser)
    _add_output(parser)
    _add_limits(parser)
    store = parser.add_argument_group("requests of the local store, in place of FILE")
    store.add_argument("--from-store", action="store_true", help="evaluate live requests again")
    store.add_argument(
        "--since", type=since, metavar="TIME", help="from then on: 90m, 24h, 7d or an ISO date"
    )
    store.add_argument("--span-name", metavar="NAME", help="only spans of this name")
    add_store(store)
    parser.set_defaults(run=run)


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--evaluators",
        action="append",
        metavar="A,B",
        help="names, or module:attribute for your own; may be repeated",
    )
    parser.add_argument(
        "--model-judge", metavar="NAME", help="judge model (default: LLMEVAL_JUDGE_MODEL)"
    )
    parser.add_argument(
        "--model",
        metavar="MODULE:FUNCTION",
        help="your app: it gets each row's request as it is",
    )
    parser.add_argument("--experiment", metavar="NAME", help="what the run is called")
    parser.add_argument(
        "--exporters",
        metavar="A,B",
        help="send spans and scores there too: local, otlp, mlflow ...",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out rows that cannot be read, and count them"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    gate = parser.add_argument_group("a gate for CI")
    gate.add_argument(
        "--fail-under",
        action="append",
        type=bound,
        default=[],
        metavar="PATH=NUMBER",
        help="exit with 1 when this metric is lower; may be repeated",
    )
    gate.add_argument(
        "--min-rated",
        type=_share,
        default=0.9,
        metavar="SHARE",
        help="exit with 1 when an evaluator with a bound rates less than this share of the rows "
        "that have its inputs (default: 0.9)",
    )
    gate.add_argument(
        "--compare", metavar="FILE", help="exit with 1 when a metric got worse than in this report"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", type=Path, help="write one page with charts")
    output.add_argument("--markdown", metavar="FILE", type=Path, help="write tables")
    output.add_argument("--junit", metavar="FILE", type=Path, help="write JUnit XML")
    output.add_argument("--json", action="store_true", help="print JSON instead")
    output.add_argument(
        "--save",
        metavar="FILE",
        type=Path,
        help="keep the report, for --resume and --compare "
        "(default: .llmeval/reports/EXPERIMENT.jsonl)",
    )
    output.add_argument("--no-progress", action="store_true", help="show no progress bar")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("time and money")
    limits.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="judgements at a time (default: 8)"
    )
    limits.add_argument(
        "--max-usd",
        type=float,
        metavar="USD",
        help="what judges may cost; the gate fails where it is not enough",
    )
    limits.add_argument(
        "--price",
        action="append",
        type=_price,
        default=[],
        metavar="MODEL=IN,OUT",
        help="price of a judge model in USD per million input and output tokens; may be repeated "
        "(default: LLMEVAL_PRICES, then a list of well-known models)",
    )
    limits.add_argument(
        "--calls-per-minute", type=float, metavar="N", help="judge calls in any minute; then wait"
    )
    limits.add_argument(
        "--resume",
        action="store_true",
        help="do only what the saved report lacks, or what failed; a saved row counts only where "
        "the key of this machine, or LLMEVAL_VERDICT_KEY, signed it",
    )
    limits.add_argument("--no-cache", action="store_true", help="ask the judges anew")


def bound(text: str) -> tuple[str, float]:
    """Read ``path=0.9``."""
    path, _, number = text.rpartition("=")
    try:
        least = float(number)
        if not path.strip() or least != least:  # noqa: PLR0124 - NaN is no bound
            raise ValueError  # noqa: TRY301
        return path.strip().rstrip(">").strip(), least
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no bound: expected PATH=NUMBER, such as context_relevance/average=0.6"
        ) from None


def _price(text: str) -> tuple[str, tuple[float, float]]:
    try:
        (found,) = prices(text).items()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no price: expected MODEL=INPUT,OUTPUT, such as my-model=0.5,1.5"
        ) from None
    return found


def _share(text: str) -> float:
    try:
        share = float(text)
        if not 0 <= share <= 1:
            raise ValueError  # noqa: TRY301
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: expected 0 to 1") from None
    return share


def run(args: argparse.Namespace) -> int:
    """Evaluate, print and write what was found, and decide the gate."""
    try:
        return _run(args)
    except (LlmevalError, BrokenPipeError):
        raise
    except OSError as error:  # a full disk, a file that went away
        raise ConfigurationError(str(error)) from None
    except Exception:  # Python's own exit status for it would be that of a failed gate
        traceback.print_exc()
        sys.stderr.write("llmeval evaluate: this is an error of llmeval; no gate was decided\n")
        return BROKEN


def _run(args: argparse.Namespace) -> int:
    from llmeval_sdk.cli._evaluated import Outcome, publish
    from llmeval_sdk.offline import Interrupted, Report

    _check(args)
    baseline = Report.load(args.compare) if args.compare else None
    save = args.save or _default_save(args)
    try:
        report = _evaluate(args, save)
    except Interrupted as stop:
        publish(Outcome(stop.report, args, save, None))
        if not args.json:
            say("Interrupted: these rows are done. Run the same command with --resume to go on.")
        return 130
    if not report.rows:
        where = "the store for this time and span name" if args.from_store else args.file
        raise DataError(f"there are no rows in {where}: nothing was evaluated")
    compared = None if baseline is None else report.compare(baseline)
    return publish(Outcome(report, args, save, compared))


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is paid for."""
    from llmeval_sdk.cli._evaluated import check_targets
    from llmeval_sdk.offline import check_bounds

    check_targets(args)
    if (args.file is None) is not args.from_store:
        raise ConfigurationError("name the FILE to evaluate, or pass --from-store (not both)")
    if args.concurrency < 1:
        raise ConfigurationError("--concurrency must be at least 1")
    problems: list[str] = []
    config.from_environment(problems=problems)
    for problem in problems:
        sys.stderr.write(f"llmeval evaluate: {problem}\n")
    paths = [path for path, _ in args.fail_under]
    check_bounds(paths, evaluators=_names(args.evaluators) or None, llm=args.model_judge)


def _evaluate(args: argparse.Namespace, save: Path) -> Report:
    from contextlib import ExitStack

    from llmeval_sdk.offline import evaluate
    from llmeval_sdk.offline.data.spans import stored
    from llmeval_sdk.policy.budget import Budget

    budget = None
    if args.max_usd is not None or args.calls_per_minute is not None:
        budget = Budget(
            calls_per_minute=args.calls_per_minute,
            usd_per_day=args.max_usd,
            concurrency=args.concurrency,
        )
    with ExitStack() as stack:
        data: Any = args.file
        if args.from_store:
            reader = stack.enter_context(open_store(args.store))
            settings = config.from_environment(problems=[])
            data = stored(
                reader,
                since=args.since,
                span_name=args.span_name,
                retrieved=settings.retrieved_context,
                limits=settings.retrieval_limits,
            )
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
        )


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for each in given or () for name in each.split(",") if name.strip()]


def _experiment(args: argparse.Namespace) -> str:
    return str(args.experiment or f"offline-{Path(args.file).stem if args.file else 'store'}")


def _default_save(args: argparse.Namespace) -> Path:
    from llmeval_sdk.offline.run.experiment import slug

    store = path_of(config.from_environment(problems=[]).store)
    try:
        make_folder(store.parent)
    except OSError as error:
        raise ConfigurationError(f"{store.parent} cannot be made: {error.strerror}") from None
    return store.with_name("reports") / f"{slug(_experiment(args))}.jsonl"
