"""Scores of single fields of answers, and the figures that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.quality.structured_answers import Answer, Given
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk
from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.heuristics.semantic_validation import semantic_validation
from llmeval_sdk.model import Evaluation, Record


@dataclass(frozen=True)
class Scored:
    """One value of an answer, and what the score says about it."""

    locale: str
    answer: Answer
    given: Given
    chance: float | None
    reason: str
    is_found: bool | None
    """Whether the score says that the value stands in a passage; ``None`` where it does not say."""

    @property
    def risk(self) -> float:
        """What the value is ranked by. What is not checked is looked at last."""
        return -1.0 if self.chance is None else self.chance


def score(locale: str, answers: Iterable[Answer], *, alone: bool = False) -> list[Scored]:
    """Score whole answers, as the pipeline does.

    ``alone`` says that each answer is one value, whose record is of its field only.
    """
    scorer = ExtractionRisk()
    made = []
    for answer in answers:
        if alone:
            record = answer.single(answer.given[0])
            entry = _entry(scorer.evaluate(record))
            made.append(_scored(locale, answer, answer.given[0], entry))
            continue
        record = answer.record()
        entries = _entries(scorer.evaluate(record))
        for one in answer.given:
            entry = entries.get(one.path)
            if entry is None and not entries:
                entry = _entry(scorer.evaluate(answer.single(one)))
            made.append(_scored(locale, answer, one, entry or {}))
    return made


def _entries(evaluation: Evaluation) -> dict[str, Mapping[str, Any]]:
    fields = (evaluation.metadata or {}).get("fields") or ()
    return {entry["path"]: entry for entry in fields}


def _entry(evaluation: Evaluation) -> Mapping[str, Any]:
    """Return the only field of an evaluation, also of one that names no fields."""
    entries = _entries(evaluation)
    if entries:
        return next(iter(entries.values()))
    reasons = (evaluation.metadata or {}).get("reasons") or ()
    return {
        "chance": evaluation.value,
        "reason": evaluation.explanation,
        "is_found": "absent" not in reasons,
    }


def _scored(locale: str, answer: Answer, one: Given, entry: Mapping[str, Any]) -> Scored:
    chance = entry.get("chance")
    is_found = entry.get("is_found", entry.get("start") is not None if entry else None)
    return Scored(
        locale, answer, one, chance, str(entry.get("reason") or ""),
        None if chance is None else is_found,
    )  # fmt: skip


def chance_of(scorer: ExtractionRisk, record: Record) -> float | None:
    """Return the chance of error of a record that has one field."""
    chance = _entry(scorer.evaluate(record)).get("chance")
    return None if chance is None else float(chance)


def verdicts(record: Record, *, is_found: bool | None) -> dict[str, bool]:
    """Return which scores find a record's value in its passages; those that do not say are left out.

    ``is_found`` is what `extraction_risk` said of it. The value is taken for the response, as where
    a function returns it.
    """
    said = {} if is_found is None else {"extraction_risk": is_found}
    supported = semantic_validation(record).value
    if supported in ("pass", "fail"):
        said["semantic_validation"] = supported == "pass"
    answered = replace(record, response=record.value)
    grounded = groundedness_risk(answered) if groundedness_risk.applies(answered) else None
    if grounded is not None and grounded.value is not None:
        about = grounded.metadata or {}
        said["groundedness_risk"] = not (
            about.get("unsupported_spans") or about.get("numbers_absent")
        )
    return said


def is_found_of(scorer: ExtractionRisk, record: Record) -> bool | None:
    """Say whether the score of a record with one field finds its value in a passage."""
    entry = _entry(scorer.evaluate(record))
    if not entry or entry.get("chance") is None:
        return None
    return bool(entry.get("is_found", entry.get("start") is not None))


def ranked(rows: Sequence[Scored], kind: str | None = None) -> float:
    """Return the AUROC of errors, or of those of one kind, among the values that were given."""
    given = [row for row in rows if row.given.has_value]
    kept = [row for row in given if kind is None or row.given.kind in (kind, "right")]
    return auroc([row.given.is_wrong for row in kept], [row.risk for row in kept])


def auroc(labels: Sequence[bool], scores: Sequence[float]) -> float:
    """Return the AUROC; not a number where all labels are alike."""
    return float(roc_auc_score(labels, scores)) if len(set(labels)) == 2 else float("nan")


def calibration_error(labels: np.ndarray, chances: np.ndarray, bins: int = 10) -> float:
    """Return the mean distance of chance and share of errors, over bins of as many values."""
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    away = [len(part) * abs(labels[part].mean() - chances[part].mean()) for part in parts]
    return float(sum(away) / len(labels))
