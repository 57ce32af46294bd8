"""`context_recall_heuristic` and `recall_warning`: whether retrieval may have missed something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.heuristics._reading import chunk_numbers, number, side
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


HIT_LIMIT_FACTOR = 0.7
HIGH_FILTERING_FACTOR = 0.85
KEPT_SHARE = 0.5


def _context_recall_heuristic(record: Record) -> Evaluation | None:
    """Return the share of retrieved chunks that contributed, lowered if retrieval looks cut off.

    The score lies between 0 and 1, rounded to 3 decimals: the number of different chunks that
    extractions cite, divided by the number of retrieved chunks. It is multiplied by 0.7 if any
    retrieval method returned as many chunks as its limit allows, or else by 0.85 if the filter left
    fewer than half of the chunks. It is ``None`` if the record has no ``retrieved_context`` or no
    ``extractions``. The limits and the number before the filter come from ``Record.retrieval``.

    Metadata: ``contributing_count``, and ``hit_limit_warning`` and ``high_filtering_warning``,
    which do not depend on each other.
    """
    chunks, extractions = record.retrieved_context, record.extractions
    if chunks is None or extractions is None:
        return None
    contributing = len(set(chunk_numbers(extractions)))
    hit_limit, high_filtering = _warnings(chunks, record.retrieval)
    value = min(contributing / (len(chunks) or 1), 1.0)
    if hit_limit:
        value *= HIT_LIMIT_FACTOR
    elif high_filtering:
        value *= HIGH_FILTERING_FACTOR
    metadata = {
        "contributing_count": contributing,
        "hit_limit_warning": hit_limit,
        "high_filtering_warning": high_filtering,
    }
    return Evaluation("context_recall_heuristic", round(value, 3), None, None, None, metadata)


def _recall_warning(record: Record) -> Evaluation | None:
    """Return the more serious of two warnings about retrieval, or ``None`` if there is none.

    ``HIT_RETRIEVAL_LIMIT`` means that a retrieval method returned as many chunks as its limit
    allows; ``HIGH_THRESHOLD_FILTERING`` means that the filter left fewer than half of the chunks.
    """
    chunks = record.retrieved_context
    if chunks is None or record.extractions is None or record.retrieval is None:
        return None
    hit_limit, high_filtering = _warnings(chunks, record.retrieval)
    if hit_limit:
        return Evaluation("recall_warning", "HIT_RETRIEVAL_LIMIT")
    if high_filtering:
        return Evaluation("recall_warning", "HIGH_THRESHOLD_FILTERING")
    return None


def _warnings(chunks: tuple[Chunk, ...], retrieval: object) -> tuple[bool, bool]:
    """Return whether a method returned its limit, and whether most chunks were filtered out."""
    if retrieval is None or (type(retrieval) is not dict and not isinstance(retrieval, Mapping)):
        return False, False
    limits: Any = retrieval.get("limits")
    has_limits = type(limits) is dict or isinstance(limits, Mapping)
    hit_limit = has_limits and _hit_limit(chunks, limits)
    before = retrieval.get("total_before_filter")
    if before is not None:
        before = number(before)
    high_filtering = before is not None and len(chunks) / max(before, 1) < KEPT_SHARE
    return hit_limit, high_filtering


def _hit_limit(chunks: tuple[Chunk, ...], limits: Mapping[Any, Any]) -> bool:
    raw: dict[str, int] = {}
    for chunk in chunks:
        method = chunk.retrieval_method
        if isinstance(method, str):
            raw[method] = raw.get(method, 0) + 1
    counts: dict[str | None, int] = {}
    for method, count in raw.items():
        folded = side(method)
        counts[folded] = counts.get(folded, 0) + count
    for method, limit in limits.items():
        if type(limit) is not int:
            limit = number(limit)  # noqa: PLW2901
        if limit is not None and limit > 0 and counts.get(side(method), 0) >= limit:
            return True
    return False


context_recall_heuristic = FunctionHeuristic(
    _context_recall_heuristic,
    "context_recall_heuristic",
    needs=("extractions", "retrieved_context"),
    inline=True,
)

recall_warning = FunctionHeuristic(
    _recall_warning,
    "recall_warning",
    needs=("extractions", "retrieved_context"),
    inline=True,
    output=("HIT_RETRIEVAL_LIMIT", "HIGH_THRESHOLD_FILTERING"),
)
