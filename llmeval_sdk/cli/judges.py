"""``llmeval judges``: how far judges and heuristics agree with people, and their calibration."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store, add_where, checked, open_store
from llmeval_sdk.cli.output import heading, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Evaluation, Usage, is_stand_in, total_usage, values
from llmeval_sdk.process.reading import read_file
from llmeval_sdk.store.frames import frame_in
from llmeval_sdk.store.latest import latest_of
from llmeval_sdk.store.selection import frame_of
from llmeval_sdk.text.terminal import plural, printable


if TYPE_CHECKING:
    from llmeval_sdk.offline.agreement import Agreement, AgreementFigure, Pair


MAX_LABELS = 256 << 20
"""Bytes of a file with labelled rows, which is read as a whole."""
COLUMNS = (
    "label", "rating", "score", "probability", "explanation", "inclusion_probability", "model",
    "evaluator_version",
)  # fmt: skip


@dataclass(slots=True)
class LabelledRecords:
    """What people and one evaluator said about the same records."""

    pairs: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Labelled records that cannot be compared, by reason: mostly for want of a value."""
    failed: int = 0
    """How many of them have no value because the evaluator failed."""
    usage: Usage | None = None
    """What its judgements used; ``None`` where it made no call."""
    cached: int = 0
    """Verdicts of an earlier run, which cost nothing in this one."""
    by_stand_in: bool = False
    """Whether a rule-based stand-in answered in place of a model."""

    def add(
        self, args: argparse.Namespace, name: str, label: Any, row: Any, verdict: Evaluation
    ) -> None:
        """Add a record that has a label and a verdict with a value."""
        self.by_stand_in = self.by_stand_in or is_stand_in(verdict)
        self.pairs.append(_pair(args, name, label, row, verdict))

    def rated(self, verdict: Evaluation) -> bool:
        """Say whether a verdict has a value; count why not."""
        if verdict.value is not None:
            return True
        self.failed += verdict.error is not None
        self.left_out[verdict.error.type if verdict.error else "not applicable"] += 1
        return False


def labelled(
    args: argparse.Namespace, evaluator: str | None, *, decisions: bool = False
) -> LabelledRecords:
    """Collect what people and an evaluator said; raise an error if there is nothing to compare.

    Of several evaluations of a record in the store, the one that counts is taken. With
    ``decisions`` it is what a decision model said before it was calibrated, and clicks of the app's
    users are left out.
    """
    collected = LabelledRecords()
    if args.file and args.where:
        raise ConfigurationError("--where is about the requests of a store, not about a FILE")
    if args.file:
        _from_file(args, evaluator, collected)
    else:
        rule = _decision if decisions else latest_of
        _from_store(args, evaluator, collected, rule, people_only=decisions)
    if not collected.pairs and collected.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in collected.left_out.items())
        raise DataError(f"no row can be compared: {reasons}")
    return collected


def _from_file(args: argparse.Namespace, evaluator: str | None, collected: LabelledRecords) -> None:
    rows = _sampled(list(_rows(args.file)), args.sample)
    if evaluator is None:
        for number, row in rows:
            collected.add(args, _name(row, number), row["label"], row, _rated(row, number))
        return
    from llmeval_sdk.offline import evaluate

    records = [{key: row[key] for key in row if key not in COLUMNS} for _, row in rows]
    try:
        report = evaluate(records, evaluators=[evaluator], llm=args.model)
    except ConfigurationError as error:
        if not any("rating" in row or "score" in row for _, row in rows):
            raise
        raise ConfigurationError(
            f"{error}; to compare the ratings that stand in {args.file}, leave --evaluator out"
        ) from error
    for (number, row), done in zip(rows, report.rows, strict=True):
        verdict = next(iter(done.evaluations.values()))
        collected.cached += bool(verdict.metadata.get("cached"))
        collected.usage = total_usage(collected.usage, verdict.usage)
        if collected.rated(verdict):
            name = _name(row, number)
            collected.add(args, name, row["label"], row, verdict)


def _decision(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the latest that has a probability, with the model's own one; else what counts."""
    for evaluation in reversed(evaluations):
        if evaluation.probability is not None:
            raw = evaluation.metadata.get("raw_probability", evaluation.probability)
            return replace(evaluation, probability=raw)
    return latest_of(evaluations)


def _from_store(
    args: argparse.Namespace,
    evaluator: str | None,
    collected: LabelledRecords,
    chosen: Callable[[Sequence[Evaluation]], Evaluation | None],
    *,
    people_only: bool,
) -> None:
    if evaluator is None:
        raise ConfigurationError("name the evaluator to compare: --evaluator NAME")
    with open_store(args.store, args.where) as reader:
        feedback = reader.feedback(args.feedback)
        names = sorted({each.evaluation.name for each in feedback})
        if len(names) > 1:
            raise ConfigurationError(f"choose the feedback: --feedback {' | '.join(names)}")
        if not feedback:
            named = f" named {args.feedback}" if args.feedback else ""
            raise DataError(
                f"{reader.location} has no feedback{named}: give some with "
                "llmeval.submit_feedback, `llmeval label` or the viewer"
            )
        labels = [
            each
            for each in feedback
            if not values.is_of_user(each.evaluation.metadata)
            or not (people_only or each.evaluation.name == evaluator)
        ]
        if len(labels) < len(feedback):
            why = "a user's click, and users choose what they rate"
            collected.left_out[why] += len(feedback) - len(labels)
        for target, human in {each.target: each.evaluation for each in labels}.items():
            verdicts = [
                event.evaluation
                for event in reader.evaluations_of(target.span_id or "")
                if event.evaluation.name == evaluator
            ]
            verdict = chosen(verdicts)
            drawn_from = frame_in(human.metadata)
            # The command has no period to ask for: a label of a period speaks for that.
            if not drawn_from.covers(frame_of(reader.selection, drawn_from.since_ns)):
                collected.left_out[f"drawn from {drawn_from} alone, so ask with that filter"] += 1
            elif verdict is None:
                collected.left_out["not evaluated"] += 1
            elif collected.rated(verdict):
                span = reader.span(target.span_id or "", target.trace_id)
                shown = {
                    "response": span.response if span is not None else "",
                    "inclusion_probability": human.metadata.get("inclusion_probability"),
                }
                collected.add(args, target.span_id or "", human.value, shown, verdict)


def _rated(row: Mapping[str, Any], number: int) -> Evaluation:
    """Read what the evaluator said in a row; the probability alone is enough."""
    probability = row.get("probability")
    value = next(
        (row[key] for key in ("score", "rating", "probability") if row.get(key) is not None), None
    )
    if value is None:
        raise DataError(
            f"row {number} has neither rating, score nor probability: add one, or run"
            " --evaluator NAME"
        )
    if probability is not None and not _is_chance(probability):
        raise DataError(f"row {number}: {probability!r} is not a probability from 0 to 1")
    return Evaluation(
        "",
        value,
        explanation=str(row.get("explanation") or ""),
        probability=probability,
        metadata={"model": row.get("model") or ""},
        evaluator_version=str(row.get("evaluator_version") or ""),
    )


def _is_chance(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _pair(
    args: argparse.Namespace, name: str, label: Any, row: Mapping[str, Any], verdict: Evaluation
) -> Pair:
    from llmeval_sdk.offline.agreement import Pair, side

    try:
        value = verdict.value
        rating, score = side(value, args.threshold), None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            score = float(value)
        if verdict.probability is not None:
            score = verdict.probability
        if args.risk and score is not None:
            rating, score = ("no" if rating == "yes" else "yes"), 1 - score
        text = str(row.get("response") or row.get("value") or row.get("request") or "")
        chance = row.get("inclusion_probability")
        return Pair(
            name,
            side(label, args.label_threshold),
            rating,
            score,
            text,
            verdict.explanation or "",
            chance=float(chance) if _is_chance(chance) and chance else 1.0,
            model=str(verdict.metadata.get("model") or ""),
            evaluator_version=verdict.evaluator_version,
        )
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _rows(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    from llmeval_sdk.offline.data.source import read_json

    try:
        if file == "-":
            text = sys.stdin.read(MAX_LABELS + 1)
        else:
            text = read_file(file, most=MAX_LABELS).decode()
        if len(text) > MAX_LABELS:
            raise OSError(f"it has more than {MAX_LABELS >> 20} million characters")  # noqa: TRY301
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


def _sampled(
    rows: list[tuple[int, dict[str, Any]]], count: int | None
) -> list[tuple[int, dict[str, Any]]]:
    """Draw so many rows, the same ones each time, in their order."""
    if count is None or count >= len(rows):
        return rows
    drawn = random.Random(0).sample(range(len(rows)), count)  # noqa: S311 - not for secrets
    return [rows[place] for place in sorted(drawn)]


def _name(row: Mapping[str, Any], number: int) -> str:
    return str(row.get("request_id") or f"row {number}")


_EPILOG = """\
FILE has one JSON object per line (- reads standard input). Each object has the `label`
that a person gave: yes or no, true or false, pass or fail, 1 or 0, or a category. It also
has the evaluator's `rating` or `score`; or it has the columns that the evaluator needs
(request, response, retrieved_context ...), and --evaluator runs it on them:

  {"request_id": "7", "label": "no", "score": 0.81, "response": "It opens at nine."}

Without FILE, the store is read: people's feedback (llmeval.submit_feedback) is compared
with the scores that --evaluator gave to the same spans. The latest of each counts. What
users of the app sent under the evaluator's own name does not: a label of it is given by
submit_feedback(source="review"), by `llmeval label` or in the viewer.

examples:
  llmeval judges labels.jsonl --evaluator groundedness --model gpt-4o
  llmeval judges labels.jsonl --evaluator groundedness --fail-under kappa=0.6
  llmeval judges labels.jsonl --evaluator groundedness --json > agreed.json
  llmeval judges labels.jsonl --evaluator groundedness --compare agreed.json
  llmeval judges --evaluator groundedness --calibrate

With --evaluator and FILE, the command also shows what the judgements cost. Nobody knows
how good a built-in judge is with your model on your data until you have run this.

The interval of the accuracy is Wilson's; the others hold 95 % of a paired bootstrap. Kappa
is 0 for agreement by chance and 1 for full agreement: a judge that says yes to all has a
high accuracy where most is good, and a kappa of 0.

--calibrate fits a correction to the probabilities of a decision model, so that of what gets
0.8, people call about 80 % good. FILE then has the `probability` that was given, and the
`model` that answered. The correction is written beside the store, and applied within half a
minute: to this judge, in this version, asking exactly this model. It takes 50 labels, and is
kept only if it makes the mean log loss smaller on labels that it was not fitted to. For
extraction_risk, the chances of an error are moved to the app's own rate of errors, by the
labels of `llmeval label --for accept`. `report --by field` and the page Review show the
moved chances; stored scores and thresholds stay as they are.

Exit codes: 0 the judge agrees as it should, or is calibrated; 1 a limit was missed, agreement
fell, the judge failed on a record while there was a limit, or the labels give no calibration;
2 the command could not run.
"""

_ORDER = ("accuracy", "kappa", "precision", "recall", "f1", "auroc")


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "judges",
        help="compare judges with people's labels, and calibrate them",
        description="Compare the scores of a judge or heuristic with the labels of people. The "
        "command shows Cohen's kappa, precision, recall, F1 and AUROC with their intervals, and "
        "the records on which the two differ.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="labelled rows; without it the store is read"
    )
    add_store(parser)
    add_where(parser)
    parser.add_argument(
        "--evaluator",
        metavar="NAME",
        help="the evaluator to compare with the labels; several are separated by commas",
    )
    parser.add_argument(
        "--feedback", metavar="NAME", help="the name of the feedback, if the store has several"
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="the judge model (default: LLMEVAL_JUDGE_MODEL); with "
        "--calibrate, the model whose answers are used, where several answered",
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
    gate = parser.add_argument_group("a gate for CI")
    gate.add_argument(
        "--fail-under", action="append", type=checked(_limit), default=[], metavar="FIGURE=NUMBER",
        help="exit with 1 if the lower end of this figure's interval is below the number, such as "
        "accuracy=0.8 or kappa=0.6; may be repeated",
    )  # fmt: skip
    gate.add_argument(
        "--compare", metavar="FILE",
        help="exit with 1 if the lower end of the accuracy or kappa fell since this report, which "
        "--json printed",
    )  # fmt: skip
    calibration = parser.add_argument_group("calibration")
    calibration.add_argument(
        "--calibrate", action="store_true",
        help="correct the probabilities of the judge by the labels, and write the correction",
    )  # fmt: skip
    calibration.add_argument(
        "--dry-run", action="store_true", help="with --calibrate: write nothing"
    )
    calibration.add_argument(
        "--remove", action="store_true", help="with --calibrate: remove the judge's calibration"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison, one after the other where several evaluators are named."""
    from llmeval_sdk.offline.agreement import agreement

    if args.calibrate:
        from llmeval_sdk.cli import calibrate

        return calibrate.run(args)
    if args.remove or args.dry_run:
        raise ConfigurationError("--remove and --dry-run are about a calibration: add --calibrate")
    if args.sample is not None and args.sample < 1:
        raise ConfigurationError("--sample must be a number of rows, at least 1")
    if not 0 < args.catch <= 1:
        raise ConfigurationError("--catch must be a share of the failures, above 0 and at most 1")
    names = [name.strip() for name in (args.evaluator or "").split(",") if name.strip()]
    reports = {}
    for name in names or [None]:
        before = {} if args.compare is None else _lower_ends(args.compare, name)
        collected = labelled(args, name)
        found = agreement(collected.pairs, positive=args.positive)
        missed = list(_missed(found, collected.failed, args.fail_under, before))
        reports[name or ""] = {
            "evaluator": name,
            **_plain(found, collected, args),
            "missed": missed,
        }
        if not args.json:
            _print(name, found, collected, args)
            for sentence in missed:
                say_wrapped(f"FAILED: {name or 'the evaluator'}: {sentence}")
    if args.json:
        say_json(reports if len(names) > 1 else next(iter(reports.values())))
    return int(any(report["missed"] for report in reports.values()))


def _limit(text: str) -> tuple[str, float]:
    figure, _, number = text.partition("=")
    if figure not in _ORDER:
        raise ConfigurationError(f"{text!r} names no figure: expected one of {', '.join(_ORDER)}")
    limit = float(number)
    if not -1 <= limit <= 1:
        raise ConfigurationError(f"{text!r} has no limit from -1 to 1")
    return figure, limit


AGREEMENT = ("accuracy", "kappa")
"""The figures that ``--compare`` looks at. None of them may fall."""


def _lower_ends(file: str, name: str | None) -> dict[str, float]:
    """Return the lower ends of the figures of agreement in a saved report on an evaluator."""
    from llmeval_sdk.offline.data.source import read_json

    try:
        saved = read_json(read_file(file, most=MAX_LABELS))
        report = saved if "estimates" in saved else saved[name]
        if report.get("evaluator") != name:
            raise ValueError(f"it is on {report.get('evaluator')!r:.80}")  # noqa: TRY301
        ends = {figure: report["estimates"][figure]["low"] for figure in AGREEMENT}
        known = {figure: float(low) for figure, low in ends.items() if low is not None}
        if not all(-1 <= low <= 1 for low in known.values()):
            raise ValueError("its intervals do not lie in -1..1")  # noqa: TRY301
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"{file} is no report of `llmeval judges --json` on {name or 'the evaluator'}:"
            f" {type(error).__name__}: {error}"
        ) from None
    if not known:
        raise ConfigurationError(f"{file} has no interval, so that nothing can be compared with it")
    return known


def _missed(
    found: Agreement, failed: int, limits: Sequence[tuple[str, float]], before: Mapping[str, float]
) -> Iterator[str]:
    """Say which limits are missed, what fell since a saved report, and what was never judged."""
    if failed and (limits or before):
        records = plural(failed, "labelled record")
        yield f"the judge failed on {records}, which the figures leave out"
    for limits_of, is_saved in ((limits, False), (before.items(), True)):
        for figure, limit in limits_of:
            estimate = found.estimates[figure]
            if estimate.low is None:
                yield f"{figure}: {estimate.why}, so that nothing shows that it is {limit:.3f}"
            elif estimate.low < limit and is_saved:
                yield (
                    f"{figure} fell: its interval begins at {estimate.low:.3f}, and began at"
                    f" {limit:.3f} in the saved report"
                )
            elif estimate.low < limit:
                yield (
                    f"{figure}: its interval begins at {estimate.low:.3f}, which is below {limit:g}"
                )


def _plain(
    found: Agreement, collected: LabelledRecords, args: argparse.Namespace
) -> dict[str, Any]:
    from llmeval_sdk.offline.agreement import probabilities

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
    from llmeval_sdk.offline.agreement import probabilities

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
