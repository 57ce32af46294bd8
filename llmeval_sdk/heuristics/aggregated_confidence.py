"""`aggregated_confidence`: how sure the aggregation of the extractions is of its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.heuristics._reading import number
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.process.loading import loading


WORDS = {"HIGH": 0.90, "MEDIUM": 0.75, "LOW": 0.50}
OTHERWISE = 0.70
WRONG_FORMAT = 0.50
NAMED = ("date", "number", "money")


def _aggregated_confidence(record: Record) -> Evaluation:
    """Return the confidence of the aggregation, or of the extraction if there is only one.

    The score lies between 0 and 1. ``Record.confidence`` gives 0.90 for HIGH, 0.75 for MEDIUM and
    0.50 for LOW, in capital letters or not, a number clamped to 0..1, and 0.70 for anything else or
    nothing. If there is exactly one extraction and its confidence is truthy, that is used instead.
    A value that does not match the format of its field (``field_config["format"]``) scores 0.50 at
    most.

    Metadata: ``format_valid``, if the field has a format that could be checked.
    """
    value = None
    if record.extractions is not None and len(record.extractions) == 1:
        value = _single(record.extractions[0].confidence)
    if value is None:
        own = number(record.confidence)
        value = _word(record.confidence) if own is None else min(max(own, 0.0), 1.0)
    metadata: dict[str, Any] = {}
    form = _format(record)
    if form is not None and record.value is not None:
        with loading:
            from llmeval_sdk.heuristics._reading import matches

        valid = matches(record.value, form)
        if valid is not None:
            metadata["format_valid"] = valid
        if valid is False:
            value = min(value, WRONG_FORMAT)
    return Evaluation("aggregated_confidence", value, None, None, None, metadata)


def _format(record: Record) -> Any:
    config = record.field_config
    if config is None or not isinstance(config, Mapping):
        return None
    return config.get("format")


def _word(confidence: object) -> float:
    """Return the number for a word in any case; 0.70 for anything else."""
    if not isinstance(confidence, str):
        return OTHERWISE
    exact = WORDS.get(confidence)
    return WORDS.get(confidence.strip().upper(), OTHERWISE) if exact is None else exact


def _single(confidence: object) -> float | None:
    """Return the confidence of the only extraction, or ``None`` if it is falsy."""
    known = number(confidence)
    if known is not None:
        return min(max(known, 0.0), 1.0) if known else None
    absent = (
        confidence is None
        or confidence is False
        or (isinstance(confidence, str) and not confidence)
    )
    return None if absent else _word(confidence)


def runs_code(record: Record) -> bool:
    """Return whether the field's format is a function or an expression that the app wrote."""
    form = _format(record)
    return form is not None and not (isinstance(form, str) and form.strip().lower() in NAMED)


aggregated_confidence = FunctionHeuristic(
    _aggregated_confidence,
    "aggregated_confidence",
    needs=("confidence|extractions",),
    inline=True,
    postponed=runs_code,
)
