"""How sure the aggregation of the extractions is of its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import number
from llmeval_sdk.model import Evaluation, Record


WORDS = {"HIGH": 0.90, "MEDIUM": 0.75, "LOW": 0.50}
OTHERWISE = 0.70
WRONG_FORMAT = 0.50
NAMED = ("date", "number", "money")


def _aggregated_confidence(record: Record) -> Evaluation:
    """Read the aggregation's own confidence, or that of the only extraction.

    HIGH is 0.90, MEDIUM 0.75, LOW 0.50, anything else or none 0.70; exactly one extraction whose
    own confidence is truthy gives that number, clamped to 0..1. Capped at 0.50, with
    ``format_valid: false`` in the metadata, where the value does not match its field's format.
    """
    value = None
    if record.extractions is not None and len(record.extractions) == 1:
        value = _single(record.extractions[0].confidence)
    if value is None:
        value = _word(record.confidence)
    metadata: dict[str, Any] = {}
    config = record.field_config
    form = config.get("format") if isinstance(config, Mapping) else None
    if form is not None and record.value is not None:
        from llmeval_sdk.heuristics.formats import matches

        valid = matches(record.value, form)
        if valid is not None:
            metadata["format_valid"] = valid
        if valid is False:
            value = min(value, WRONG_FORMAT)
    return Evaluation("aggregated_confidence", value, None, None, None, metadata)


def _word(confidence: Any) -> float:
    """Map a word, case aside; whatever is no known word is 0.70."""
    if not isinstance(confidence, str):
        return OTHERWISE
    found = WORDS.get(confidence)
    return WORDS.get(confidence.strip().upper(), OTHERWISE) if found is None else found


def _single(confidence: Any) -> float | None:
    """Read the only extraction's confidence; a falsy one is ``None``."""
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
    """Say whether the field's format is a function or expression of the app's own."""
    config = record.field_config
    form = config.get("format") if isinstance(config, Mapping) else None
    return form is not None and not (isinstance(form, str) and form.strip().lower() in NAMED)


aggregated_confidence = FunctionHeuristic(
    _aggregated_confidence,
    "aggregated_confidence",
    needs=("confidence|extractions",),
    inline=True,
    postponed=runs_code,
)
