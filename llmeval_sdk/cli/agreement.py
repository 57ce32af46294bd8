"""``llmeval agreement``: how far a judge or heuristic agrees with people."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llmeval_sdk._terminal import printable
from llmeval_sdk.cli._labelled import LabelledRecords, add_source, labelled
from llmeval_sdk.cli._options import Help, add_json
from llmeval_sdk.cli._output import heading, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Usage


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline.agreement import Agreement, AgreementFigure

_EPILOG = """\
FILE has one JSON object per line (- reads standard input). Each object has the `label`
that a person gave: yes or no, true or false, pass or fail, 1 or 0, or a category. It also
has the evaluator's `rating` or `score`; or it has the columns that the evaluator needs
(request, response, retrieved_context ...), and --evaluator runs it on them:

  {"request_id": "7", "label": "no", "score": 0.81, "response": "It opens at nine."}

Without FILE, the store is read: people's feedback (llmeval.submit_feedback) is compared
with the scores that --evaluator gave to the same spans. The latest of each counts.

examples:
  llmeval agreement labels.jsonl --evaluator groundedness --model gpt-4o
  llmeval agreement labels.jsonl --evaluator groundedness,correctness --sample 200
  llmeval agreement --evaluator groundedness --feedback thumbs

With --evaluator and FILE, the command also shows what the judgements cost. Nobody knows
how good a built-in judge is with your model on your data until you have run this.

Intervals hold 95 % of a paired bootstrap. Kappa is 0 for agreement by chance and 1 for
full agreement.
"""

_ORDER = ("accuracy", "kappa", "precision", "recall", "f1", "auroc")


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "agreement",
        help="compare a judge or heuristic with human labels",
        description="Compare the scores of a judge or heuristic with the labels of people. The "
        "command shows Cohen's kappa, precision, recall, F1 and AUROC with their intervals, and "
        "the records on which the two differ.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_source(parser)
    parser.add_argument(
        "--evaluator",
        metavar="NAME",
        help="the evaluator to compare with the labels; several are separated by commas",
    )
    parser.add_argument(
        "--feedback", metavar="NAME", help="the name of the feedback, if the store has several"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="the judge model (default: LLMEVAL_JUDGE_MODEL)"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="use only N rows of FILE, drawn at random but the same each time",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="a score of at least this is a yes (default: 0.5)",
    )
    parser.add_argument(
        "--label-threshold",
        type=float,
        default=0.5,
        metavar="NUMBER",
        help="a numeric label of at least this is a yes (default: 0.5)",
    )
    parser.add_argument(
        "--risk",
        action="store_true",
        help="the score is a risk, so a score of at least --threshold is a no",
    )
    parser.add_argument(
        "--positive",
        choices=("yes", "no"),
        default="yes",
        help="the rating whose precision and recall are shown (default: yes)",
    )
    parser.add_argument(
        "--catch",
        type=float,
        default=0.9,
        metavar="SHARE",
        help="propose the threshold that catches this share of the failures (default: 0.9)",
    )
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="list N disagreements (default: 10)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison, one after the other where several evaluators are named."""
    from llmeval_sdk.offline.agreement import agreement

    if args.sample is not None and args.sample < 1:
        raise ConfigurationError("--sample must be a number of rows, at least 1")
    if not 0 < args.catch <= 1:
        raise ConfigurationError("--catch must be a share of the failures, above 0 and at most 1")
    names = [name.strip() for name in (args.evaluator or "").split(",") if name.strip()]
    told = {}
    for name in names or [None]:
        collected = labelled(args, name)
        found = agreement(collected.pairs, positive=args.positive)
        if args.json:
            told[name or ""] = _plain(found, collected, args)
        else:
            _print(name, found, collected, args)
    if args.json:
        say_json(told if len(names) > 1 else next(iter(told.values())))
    return 0


def _plain(
    found: Agreement, collected: LabelledRecords, args: argparse.Namespace
) -> dict[str, Any]:
    from llmeval_sdk.offline.probabilities import probabilities

    believed = probabilities(collected.pairs, args.catch)
    return {
        **asdict(found),
        "left_out": dict(collected.left_out),
        "model": args.model,
        "stand_in": collected.by_stand_in,
        "cached": collected.cached,
        "usage": None if collected.usage is None else asdict(collected.usage),
        "probabilities": None if believed is None else asdict(believed),
    }


def _print(
    name: str | None, agreed: Agreement, collected: LabelledRecords, args: argparse.Namespace
) -> None:
    what = name or "the evaluator"
    say_wrapped(f"{agreed.count:,} labelled records, {what} against people")
    if collected.by_stand_in:
        say_wrapped(
            f"NO MODEL: rules on shared words (the stand-in) scored this; it says nothing of {what}"
        )
    for reason, count in collected.left_out.items():
        say_wrapped(f"{count:,} left out: {reason}")
    if collected.cached:
        say_wrapped(
            f"{collected.cached:,} verdicts are those of an earlier run and cost nothing now"
        )
    if collected.usage is not None:
        judged = agreed.count + collected.left_out.total() - collected.cached
        say_wrapped(_cost(collected.usage, judged))
    if agreed.doubt:
        say_wrapped(agreed.doubt)
    heading("Agreement")
    table(
        ("figure", "value", "95 % interval", ""),
        [_figure(name, agreed.estimates[name], args.positive) for name in _ORDER],
        numbers="value",
    )
    heading("Confusion (rows: people, columns: the evaluator)")
    rows = [
        (category, *(f"{count:,}" for count in counts))
        for category, counts in zip(agreed.categories, agreed.confusion, strict=True)
    ]
    table(("", *agreed.categories), rows, numbers=" ".join(agreed.categories))
    _print_probabilities(collected, args)
    if agreed.disagreements and args.show > 0:
        heading(f"Disagreements ({len(agreed.disagreements):,}, worst first)")
        shown = [
            (
                pair.id,
                pair.label,
                pair.rating if pair.score is None else f"{pair.rating} ({pair.score:.2f})",
                printable(pair.text, 60),
                printable(pair.explanation, 80),
            )
            for pair in agreed.disagreements[: args.show]
        ]
        table(("id", "people", "evaluator", "text", "why"), shown)


def _print_probabilities(collected: LabelledRecords, args: argparse.Namespace) -> None:
    from llmeval_sdk.offline.probabilities import probabilities

    believed = probabilities(collected.pairs, args.catch)
    if believed is None:
        return
    reliability = believed.reliability
    heading("As probabilities of a yes")
    say_wrapped(
        f"Brier score {reliability.brier:.3f}; expected calibration error"
        f" {reliability.calibration_error:.3f}, where a perfect judge would show"
        f" {reliability.floor:.3f} with so many labels"
    )
    rows = [
        (
            f"{row.low:.1f} .. {row.high:.1f}", f"{row.count:,}", f"{row.probability:.2f}",
            f"{row.good:.2f}", f"{row.interval[0]:.2f} .. {row.interval[1]:.2f}",
        )
        for row in reliability.bins
    ]  # fmt: skip
    columns = ("score", "records", "mean score", "people say yes", "95 % interval")
    table(columns, rows, numbers="records mean_score people_say_yes")
    if not believed.caught:
        say_wrapped("no record was called bad by people, so nothing says what a threshold catches")
        return
    heading("Failures caught below a threshold")
    thresholds = [
        (
            f"{row.threshold:.2f}", f"{row.recall:.0%}",
            f"{row.interval[0]:.0%} .. {row.interval[1]:.0%}", f"{row.flagged:.0%}",
        )
        for row in believed.caught
    ]  # fmt: skip
    table(("threshold", "failures caught", "95 % interval", "of all flagged"), thresholds)
    best = believed.proposed
    say_wrapped(
        f"no threshold catches {believed.wanted:.0%} of the failures"
        if best is None
        else f"a threshold of {best.threshold:.2f} catches {best.recall:.0%} of the failures"
        f" ({best.interval[0]:.0%} to {best.interval[1]:.0%}) and flags {best.flagged:.0%} of all"
    )


def _cost(usage: Usage, records: int) -> str:
    if usage.cost_usd is None:
        return f"cost: {usage.total_tokens:,} tokens, price unknown (LLMEVAL_PRICES sets one)"
    per_record = usage.cost_usd / max(records, 1)
    return f"cost: {usage.total_tokens:,} tokens, ${usage.cost_usd:.4f}, ${per_record:.6f} a record"


def _figure(name: str, found: AgreementFigure, positive: str) -> tuple[str, str, str, str]:
    shown = f"{name} of {positive}" if name in ("precision", "recall", "f1") else name
    if found.value is None:
        return shown, "-", "", found.why
    if found.low is None or found.high is None:
        return shown, f"{found.value:.3f}", "", found.why
    return shown, f"{found.value:.3f}", f"{found.low:.3f} .. {found.high:.3f}", found.why
