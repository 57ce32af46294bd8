"""`context_relevance`: how relevant the retrieved chunks look, judged by their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.heuristics._reading import (
    DENSE,
    INFINITY,
    LEXICAL,
    METHODS,
    key,
    number,
    side,
    text_of,
)
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


def _context_relevance(record: Record) -> Evaluation | None:  # noqa: C901, PLR0912
    """Return how relevant the retrieved chunks look by their ids, scores and pages.

    The score lies between 0 and 1 and is 0.4 I + 0.5 S + 0.1 D. I is the share of chunk ids that
    both the lexical and the dense side of a hybrid retrieval found. S is the mean of the scores
    that are not zero. D is the number of different pages divided by 5, at most 1.

    Scores are expected between 0 and 1. Beyond that range S is clamped, and the metadata says
    ``unnormalized_scores``.

    Chunks of which none has a score are not applicable, unless both sides found some: the value
    would be near 0 whatever was retrieved.

    If only one side has scores and none of them lies between 0 and 1, I is 0 and S is 1 whatever
    was retrieved. The metadata then says ``near_constant``.

    If both sides score on scales of their own, ``annotate(retrieval={"scores": "ranks"})`` uses
    ranks instead of scores. Each side then gives its best of n chunks 1 and its last 1/n, and 0 to
    a chunk that it did not find; S is the mean over all chunks and both sides. The metadata says
    ``scores: "ranks"``.
    """
    chunks = record.retrieved_context
    if chunks is None:
        return None
    retrieval = record.retrieval
    by_rank = (
        type(retrieval) is dict
        and type(retrieval.get("scores")) is str
        and retrieval["scores"] == "ranks"
    )
    lexical: set[object] = set()
    dense: set[object] = set()
    pages: set[Any] = set()
    total, count, unnormalized, is_scored = 0.0, 0, False, not chunks
    for chunk in chunks:
        score: Any = chunk.score
        if type(score) is not float or not 0.0 <= score <= 1.0:
            score = number(score)
            if score is not None and not 0.0 <= score <= 1.0:
                unnormalized = True
        if score is not None:
            is_scored = True
        if score:
            total += score
            count += 1
        page: Any = chunk.page
        if page is not None and (page := page if type(page) is int else key(page)):
            pages.add(page)
        chunk_id: object = chunk.chunk_id
        if chunk_id is not None and (
            chunk_id := chunk_id if type(chunk_id) is str else text_of(chunk_id)
        ):
            method: object = chunk.retrieval_method
            found_by = METHODS.get(method) if type(method) is str else None
            found_by = found_by or side(method)
            if found_by == LEXICAL:
                lexical.add(chunk_id)
            elif found_by == DENSE:
                dense.add(chunk_id)
    if not is_scored and not (lexical and dense):
        return None
    agreement = len(lexical & dense) / (len(lexical | dense) or 1)
    score = total / count if count else 0.0
    if by_rank:
        score = _by_rank(chunks)
    elif not 0.0 <= score <= 1.0:
        score = min(max(score, 0.0), 1.0)
    value = 0.4 * agreement + 0.5 * score + 0.1 * min(len(pages) / 5, 1.0)
    metadata: dict[str, Any] = {
        "method_agreement": agreement,
        "mean_score": score,
        "distinct_pages": len(pages),
    }
    if by_rank:
        metadata["scores"] = "ranks"
    elif unnormalized:
        metadata["unnormalized_scores"] = True
    if (unnormalized or by_rank) and not (lexical and dense):
        metadata["near_constant"] = True
    label = "good" if value > 0.7 else "investigate" if value < 0.4 else "acceptable"
    return Evaluation("context_relevance", value, label, None, None, metadata)


def _by_rank(chunks: Sequence[Chunk]) -> float:
    """Return the mean of the normalised ranks of the distinct chunks on both sides."""
    ranked: dict[str, list[tuple[float, int, object]]] = {LEXICAL: [], DENSE: []}
    for at, chunk in enumerate(chunks):
        found_by = side(chunk.retrieval_method)
        if found_by in ranked:
            name = at if chunk.chunk_id is None else text_of(chunk.chunk_id)
            score = number(chunk.score)
            ranked[found_by].append((-INFINITY if score is None else score, -at, name))
    total = 0.0
    names: set[Any] = set()
    for hits in ranked.values():
        hits.sort(reverse=True)
        best = {name: rank for rank, (_, _, name) in reversed(list(enumerate(hits)))}
        names |= best.keys()
        total += sum(1 - rank / len(hits) for rank in best.values())
    return total / (2 * len(names)) if names else 0.0


context_relevance = FunctionHeuristic(
    _context_relevance, "context_relevance", needs=("retrieved_context",), inline=True
)
