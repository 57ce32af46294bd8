"""``llmeval agreement``: how far a judge or heuristic agrees with people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk._terminal import printable
from llmeval_sdk.cli._options import add_store, open_store
from llmeval_sdk.cli._output import heading, say, table
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Evaluation


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline.agreement import Agreement, Estimate, Pair

_EPILOG = """\
FILE has one JSON object a line (- reads standard input). Each has a `label`, what a
person said (yes or no, true or false, pass or fail, 1 or 0, or a category), and either
what the evaluator said, as `rating` or `score`, or the columns it needs (request,
response, retrieved_context ...), with --evaluator to run it on them:

  {"request_id": "7", "label": "no", "score": 0.81, "response": "It opens at nine."}

Without FILE the store is read: the feedback of people (llmeval.submit_feedback) is set
against what --evaluator said of the same spans; the latest of each counts.

examples:
  llmeval agreement labels.jsonl --evaluator groundedness --model gpt-4o
  llmeval agreement --evaluator groundedness --feedback thumbs

Intervals hold 95 % of a paired bootstrap. Kappa: 0 is chance, 1 is full agreement.
"""

_COLUMNS = ("label", "rating", "score", "explanation")
_ORDER = ("accuracy", "kappa", "precision", "recall", "f1", "auroc")


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "agreement",
        help="compare a judge or heuristic with human labels",
        description="Compare what a judge or heuristic says with what people said: Cohen's kappa, "
        "precision, recall, F1 and AUROC with their intervals, and where the two differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="labelled rows; else the store")
    add_store(parser)
    parser.add_argument("--evaluator", metavar="NAME", help="what to compare with the labels")
    parser.add_argument(
        "--feedback", metavar="NAME", help="the feedback's label, where the store has several"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="judge model to ask (default: LLMEVAL_JUDGE_MODEL)"
    )
    parser.add_argument(
        "--threshold", type=float, default=0.5, help="a score from here on is a yes (default: 0.5)"
    )
    parser.add_argument(
        "--label-threshold",
        type=float,
        default=0.5,
        metavar="NUMBER",
        help="a label that is a number is a yes from here on (default: 0.5)",
    )
    parser.add_argument(
        "--risk", action="store_true", help="the score is a risk: from --threshold on it is a no"
    )
    parser.add_argument(
        "--positive",
        choices=("yes", "no"),
        default="yes",
        help="whose precision and recall to give (default: yes)",
    )
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="list N disagreements (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    from llmeval_sdk.offline.agreement import agreement

    left_out: dict[str, int] = {}
    pairs = list((_from_file if args.file else _from_store)(args, left_out))
    if not pairs and left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise DataError(f"no row can be compared: {reasons}")
    found = agreement(pairs, positive=args.positive)
    if args.json:
        say(json.dumps({**asdict(found), "left_out": left_out}, allow_nan=False))
        return 0
    _print(found, left_out, args)
    return 0


def _from_file(args: argparse.Namespace, left_out: dict[str, int]) -> Iterator[Pair]:
    rows = list(_rows(args.file))
    if args.evaluator is None:
        for number, row in rows:
            said = row.get("score") if row.get("score") is not None else row.get("rating")
            if said is None:
                raise DataError(
                    f"row {number} has neither rating nor score: add one, or run --evaluator NAME"
                )
            yield _pair(args, _name(row, number), row["label"], said, row, row.get("explanation"))
        return
    from llmeval_sdk.offline import evaluate

    records = [{key: row[key] for key in row if key not in _COLUMNS} for _, row in rows]
    report = evaluate(records, evaluators=[args.evaluator], llm=args.model)
    for (number, row), done in zip(rows, report.rows, strict=True):
        verdict = next(iter(done.evaluations.values()))
        if _is_rated(verdict, left_out):
            name = _name(row, number)
            yield _pair(args, name, row["label"], verdict.value, row, verdict.explanation)


def _from_store(args: argparse.Namespace, left_out: dict[str, int]) -> Iterator[Pair]:
    if args.evaluator is None:
        raise ConfigurationError("name the evaluator to compare: --evaluator NAME")
    with open_store(args.store) as reader:
        feedback = reader.feedback(args.feedback)
        names = sorted({each.evaluation.name for each in feedback})
        if len(names) > 1:
            raise ConfigurationError(f"choose the feedback: --feedback {' | '.join(names)}")
        if not feedback:
            raise DataError(
                f"{reader.location} has no such feedback: submit some with llmeval.submit_feedback"
            )
        for target, human in {each.target: each.evaluation for each in feedback}.items():
            said = [
                event.evaluation
                for event in reader.evaluations_of(target.span_id or "")
                if event.evaluation.name == args.evaluator
            ]
            if not said:
                left_out["not evaluated"] = left_out.get("not evaluated", 0) + 1
            elif _is_rated(said[-1], left_out):
                span = reader.span(target.span_id or "", target.trace_id)
                shown = {"response": span.response if span is not None else ""}
                name, verdict = target.span_id or "", said[-1]
                yield _pair(args, name, human.value, verdict.value, shown, verdict.explanation)


def _is_rated(verdict: Evaluation, left_out: dict[str, int]) -> bool:
    if verdict.value is not None:
        return True
    reason = verdict.error.type if verdict.error else "not applicable"
    left_out[reason] = left_out.get(reason, 0) + 1
    return False


def _pair(  # noqa: PLR0917 - three sources, one way to read them
    args: argparse.Namespace, name: str, label: Any, said: Any, row: Mapping[str, Any], why: Any
) -> Pair:
    from llmeval_sdk.offline.agreement import Pair, side

    try:
        is_score = isinstance(said, (int, float)) and not isinstance(said, bool)
        rating, score = side(said, args.threshold), float(said) if is_score else None
        if args.risk and score is not None:
            rating, score = ("no" if rating == "yes" else "yes"), 1 - score
        text = str(row.get("response") or row.get("value") or row.get("request") or "")
        return Pair(name, side(label, args.label_threshold), rating, score, text, str(why or ""))
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _rows(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    from llmeval_sdk.offline.data.parsing import read_json

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except ValueError as error:
            raise DataError(f"line {number} of {file} {error}") from None
        if not isinstance(row, dict) or row.get("label") is None:
            raise DataError(f"line {number} of {file} has no label")
        yield number, row


def _name(row: Mapping[str, Any], number: int) -> str:
    return str(row.get("request_id") or f"row {number}")


def _print(found: Agreement, left_out: Mapping[str, int], args: argparse.Namespace) -> None:
    what = args.evaluator or "the evaluator"
    say(f"{found.count:,} labelled records, {what} against people")
    for reason, count in left_out.items():
        say(f"{count:,} left out: {reason}")
    heading("Agreement")
    table(
        ("figure", "value", "95 % interval", ""),
        [_figure(name, found.estimates[name], args.positive) for name in _ORDER],
        numbers="value",
    )
    heading("Confusion (rows: people, columns: the evaluator)")
    rows = [
        (category, *(f"{count:,}" for count in counts))
        for category, counts in zip(found.categories, found.confusion, strict=True)
    ]
    table(("", *found.categories), rows, numbers=" ".join(found.categories))
    if found.disagreements and args.show > 0:
        heading(f"Disagreements ({len(found.disagreements):,}, worst first)")
        shown = [
            (
                pair.id,
                pair.label,
                pair.rating if pair.score is None else f"{pair.rating} ({pair.score:.2f})",
                printable(pair.text, 60),
                printable(pair.explanation, 80),
            )
            for pair in found.disagreements[: args.show]
        ]
        table(("id", "people", "evaluator", "text", "why"), shown)


def _figure(name: str, found: Estimate, positive: str) -> tuple[str, str, str, str]:
    shown = f"{name} of {positive}" if name in ("precision", "recall", "f1") else name
    if found.value is None:
        return shown, "-", "", found.why
    if found.low is None or found.high is None:
        return shown, f"{found.value:.3f}", "", found.why
    return shown, f"{found.value:.3f}", f"{found.low:.3f} .. {found.high:.3f}", found.why
