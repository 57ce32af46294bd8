"""The options of ``llmeval evaluate``, their help, and how their values are read."""

from __future__ import annotations

import argparse
from pathlib import Path

from llmeval_sdk.cli._options import add_json, add_store, since
from llmeval_sdk.config import prices


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


def add_options(parser: argparse.ArgumentParser) -> None:
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
        "LLMEVAL_DECISION_THRESHOLDS, else 0.5); may be repeated",
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
        help="evaluate only the rows that the saved report lacks or that failed; a saved row "
        "counts only if the key of this machine, or LLMEVAL_VERDICT_KEY, signed it",
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
