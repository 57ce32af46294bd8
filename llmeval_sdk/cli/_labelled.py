"""Where ``llmeval agreement`` gets its pairs: labelled rows of a file, or feedback in the store."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk.cli._options import add_store, open_store
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Evaluation, Usage, is_stand_in
from llmeval_sdk.store.effective import effective


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline.agreement import Pair

COLUMNS = (
    "label", "rating", "score", "probability", "explanation", "inclusion_probability", "model",
    "evaluator_version",
)  # fmt: skip


@dataclass(slots=True)
class LabelledRecords:
    """What people and one evaluator said about the same records."""

    pairs: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Labelled records that the evaluator gave no value for, by reason."""
    usage: Usage | None = None
    """What its judgements used; ``None`` where it made no call."""
    cached: int = 0
    """Verdicts of an earlier run, which cost nothing in this one."""
    by_stand_in: bool = False
    """Whether a rule-based stand-in answered in place of a model."""

    def add(
        self, args: argparse.Namespace, name: str, label: Any, row: Any, verdict: Evaluation
    ) -> None:
        """Add a record that both have a value for."""
        self.by_stand_in = self.by_stand_in or is_stand_in(verdict)
        self.pairs.append(_pair(args, name, label, row, verdict))

    def rated(self, verdict: Evaluation) -> bool:
        """Say whether a verdict has a value; count why not."""
        if verdict.value is not None:
            return True
        self.left_out[verdict.error.type if verdict.error else "not applicable"] += 1
        return False


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add ``FILE`` and ``--store``, from either of which labels are read."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="labelled rows; without it the store is read"
    )
    add_store(parser)


def labelled(
    args: argparse.Namespace, evaluator: str | None, *, decisions: bool = False
) -> LabelledRecords:
    """Collect what people and an evaluator said; raise an error if there is nothing to compare.

    Of several evaluations of a record in the store, the one that counts is taken. With
    ``decisions`` it is what a decision model said before it was calibrated, and clicks of the app's
    users are left out.
    """
    collected = LabelledRecords()
    if args.file:
        _from_file(args, evaluator, collected)
    else:
        rule = _decision if decisions else effective
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
        if verdict.usage is not None:
            collected.usage = (
                verdict.usage if collected.usage is None else collected.usage + verdict.usage
            )
        if collected.rated(verdict):
            name = _name(row, number)
            collected.add(args, name, row["label"], row, verdict)


def _decision(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the latest that has a probability, with the model's own one; else what counts."""
    for evaluation in reversed(evaluations):
        if evaluation.probability is not None:
            raw = evaluation.metadata.get("raw_probability", evaluation.probability)
            return replace(evaluation, probability=raw)
    return effective(evaluations)


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
    with open_store(args.store) as reader:
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
        for target, human in {each.target: each.evaluation for each in feedback}.items():
            verdicts = [
                event.evaluation
                for event in reader.evaluations_of(target.span_id or "")
                if event.evaluation.name == evaluator
            ]
            verdict = chosen(verdicts)
            if people_only and human.metadata.get("source") == "user":
                collected.left_out["a user's click, and users choose what they rate"] += 1
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
