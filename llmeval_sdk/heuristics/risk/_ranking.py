"""The features of a hybrid retrieval: do its methods agree, and does the best chunk stand out?

A score is only compared with others of the same method, so their scales do not matter. The features
need scores of both methods; without them there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.heuristics._reading import DENSE, LEXICAL, key, number, side
from llmeval_sdk.heuristics.risk._query import spread
from llmeval_sdk.model import Chunk


NAMES = ("overlap", "lexical_spread", "lexical_gap", "dense_spread", "dense_gap")
_DEPTH = 20
_PERSISTENCE = 0.8
"""How much a rank weighs beside the rank above it. The first five ranks decide."""


def measure(chunks: Sequence[Chunk]) -> dict[str, float]:
    """Compute the features. There are none if a method has fewer than three positive scores."""
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
    """Return the rank-biased overlap, 0..1, of two rankings, down to the end of the shorter one."""
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
