"""How relevant the retrieved chunks look: both methods agree, scores are high, pages differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import DENSE, INFINITY, LEXICAL, key, number, side, text_of
from llmeval_sdk.model import Chunk, Evaluation, Record


def _context_relevance(record: Record) -> Evaluation | None:  # noqa: C901
    """Score 0.4 I + 0.5 S + 0.1 D.

    I is the share of chunk ids that both the lexical and the dense side found, S the mean of the
    non-zero scores, D the distinct pages over 5, at most 1. Scores are expected in 0..1; outside it
    S is clamped and the metadata says ``unnormalized_scores``.

    With the scores of one side only and none of them in 0..1, I is 0 and S is 1 whatever was
    retrieved: the value is nearly the same for every request, and the metadata says
    ``near_constant``; so it does where chunks have neither scores, pages nor methods, and the value
    is 0. Where both sides retrieve on scales of their own,
    ``annotate(retrieval={"scores": "ranks"})`` takes ranks in place of scores: S is then the mean
    over the chunks of what the two sides give them, 1 for the best of a side down to 1/n for the
    last of n, and 0 for a chunk that a side lacks. The metadata says ``scores: "ranks"``.
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
    score = _by_rank(chunks) if by_rank else min(max(score, 0.0), 1.0)
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
    bare = bool(chunks) and not (count or pages or lexical or dense)
    if bare or ((unnormalized or by_rank) and not (lexical and dense)):
        metadata["near_constant"] = True
    label = "good" if value > 0.7 else "investigate" if value < 0.4 else "acceptable"
    return Evaluation("context_relevance", value, label, None, None, metadata)


def _by_rank(chunks: Sequence[Chunk]) -> float:
    """Return the mean over distinct chunks of their normalised ranks on both sides."""
    ranked: dict[str, list[tuple[float, int, Any]]] = {LEXICAL: [], DENSE: []}
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
