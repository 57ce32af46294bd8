"""Whether the extractions from several sources say the same."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import key
from llmeval_sdk.model import Evaluation, Extraction, Record


def _multi_source_agreement(record: Record) -> Evaluation | None:
    """Share of the most common truthy value, to 3 decimals; 1.0 when there is at most one."""
    if record.extractions is None:
        return None
    share, unique = _agreement(record.extractions)
    value, metadata = round(share, 3), {"unique_values": unique}
    return Evaluation("multi_source_agreement", value, None, None, None, metadata)


def _agreement_pattern(record: Record) -> Evaluation | None:
    """Put the unrounded share into a word."""
    if record.extractions is None:
        return None
    share, _ = _agreement(record.extractions)
    if share > 0.95:
        pattern = "unanimous"
    elif share > 0.7:
        pattern = "majority"
    elif share > 0.4:
        pattern = "mixed"
    else:
        pattern = "conflicting"
    return Evaluation("agreement_pattern", pattern)


_last: tuple[Any, tuple[float, int]] = ((), (1.0, 0))
"""The extractions that were counted last: both scores of a record count the same ones."""


def _agreement(extractions: tuple[Extraction, ...]) -> tuple[float, int]:
    """Count the truthy values: the share of the most common one, and how many differ."""
    global _last  # noqa: PLW0603
    last, counted = _last
    if last is not extractions or type(extractions) is not tuple:  # which nobody can change
        counted = _counted(extractions)
        _last = extractions, counted
    return counted


def _counted(extractions: tuple[Extraction, ...]) -> tuple[float, int]:
    counts: dict[Any, int] = {}
    total = 0
    for extraction in extractions:
        value = extraction.value
        if type(value) is not str:
            value = key(value)
        if value:
            total += 1
            counts[value] = counts.get(value, 0) + 1
    return (max(counts.values()) / total if total > 1 else 1.0), len(counts)


def _several(record: Record) -> bool:
    return record.extractions is not None and len(record.extractions) > 1


multi_source_agreement = FunctionHeuristic(
    _multi_source_agreement,
    "multi_source_agreement",
    needs=("extractions",),
    inline=True,
    applies=_several,
)

agreement_pattern = FunctionHeuristic(
    _agreement_pattern,
    "agreement_pattern",
    needs=("extractions",),
    inline=True,
    applies=_several,
    output=("unanimous", "majority", "mixed", "conflicting"),
)
