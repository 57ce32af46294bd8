"""How relevant the retrieved chunks look: both methods agree, scores are high, pages differ."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import DENSE, LEXICAL, key, number, side, text_of
from llmeval_sdk.model import Evaluation, Record


def _context_relevance(record: Record) -> Evaluation | None:
    """Score 0.4 I + 0.5 S + 0.1 D.

    I is the share of chunk ids that both the lexical and the dense side found, S the mean of the
    non-zero scores, D the distinct pages over 5, at most 1. Scores are expected in 0..1; outside it
    S is clamped and the metadata says ``unnormalized_scores``.
    """
    chunks = record.retrieved_context
    if chunks is None:
        return None
    lexical: set[Any] = set()
    dense: set[Any] = set()
    pages: set[Any] = set()
    total, count, unnormalized = 0.0, 0, False
    for chunk in chunks:
        score: Any = chunk.score
        if type(score) is not float or not 0.0 <= score <= 1.0:
            score = number(score)
            if score is not None and not 0.0 <= score <= 1.0:
                unnormalized = True
        if score:
            total += score
            count += 1
        page: Any = chunk.page
        if page is not None and (page := page if type(page) is int else key(page)):
            pages.add(page)
        chunk_id: Any = chunk.chunk_id
        if chunk_id is not None and (
            chunk_id := chunk_id if type(chunk_id) is str else text_of(chunk_id)
        ):
            found_by = side(chunk.retrieval_method)
            if found_by == LEXICAL:
                lexical.add(chunk_id)
            elif found_by == DENSE:
                dense.add(chunk_id)
    agreement = len(lexical & dense) / (len(lexical | dense) or 1)
    score = total / count if count else 0.0
    score = min(max(score, 0.0), 1.0)
    value = 0.4 * agreement + 0.5 * score + 0.1 * min(len(pages) / 5, 1.0)
    metadata: dict[str, Any] = {
        "method_agreement": agreement,
        "mean_score": score,
        "distinct_pages": len(pages),
    }
    if unnormalized:
        metadata["unnormalized_scores"] = True
    label = "good" if value > 0.7 else "investigate" if value < 0.4 else "acceptable"
    return Evaluation("context_relevance", value, label, None, None, metadata)


context_relevance = FunctionHeuristic(
    _context_relevance, "context_relevance", needs=("retrieved_context",), inline=True
)
