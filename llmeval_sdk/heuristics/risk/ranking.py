"""What the ranks and scores of a hybrid retrieval say: the sides agree, and the best stands out.

Scores of one side are compared with each other only, so it doesn't matter on which scale they are.

All of it is known, or none: it takes scores from both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.heuristics._reading import DENSE, LEXICAL, key, number, side
from llmeval_sdk.heuristics.risk.query import spread
from llmeval_sdk.model import Chunk


NAMES = ("overlap", "lexical_spread", "lexical_gap", "dense_spread", "dense_gap")
_DEPTH = 20
_PERSISTENCE = 0.8
"""Weight of each rank of the overlap against the one above it: the first five decide."""


def measure(chunks: Sequence[Chunk]) -> dict[str, float]:
    """Compute the features; none where a side has fewer than three positive scores."""
    ids: dict[str, list[Any]] = {LEXICAL: [], DENSE: []}
    scores: dict[str, list[float]] = {LEXICAL: [], DENSE: []}
    for chunk in chunks:
        found_by = side(chunk.retrieval_method)
        if found_by in ids:
            ids[found_by].append(key(chunk.chunk_id) or chunk.content)
            score = number(chunk.score)
            if score is not None:
                scores[found_by].append(score)
    features = {}
    for found_by, name in ((LEXICAL, "lexical"), (DENSE, "dense")):
        ranked = sorted(scores[found_by], reverse=True)
        if len(ranked) < 3 or ranked[0] <= 0:
            return {}
        features[f"{name}_spread"] = spread(ranked)
        features[f"{name}_gap"] = (ranked[0] - ranked[1]) / ranked[0]
    features["overlap"] = _overlap(ids[LEXICAL], ids[DENSE])
    return features


def _overlap(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Rank-biased overlap, 0..1, of two rankings as far as both go."""
    seen_left: set[Any] = set()
    seen_right: set[Any] = set()
    total = weight = 0.0
    for rank in range(min(len(left), len(right), _DEPTH)):
        seen_left.add(left[rank])
        seen_right.add(right[rank])
        share = _PERSISTENCE**rank
        total += share * len(seen_left & seen_right) / (rank + 1)
        weight += share
    return total / weight
