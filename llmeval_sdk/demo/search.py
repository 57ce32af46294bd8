"""Hybrid retrieval: both sides of the index, filtered and merged into one ranked list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.demo.fields import Field
from llmeval_sdk.demo.index import Hit, Index


KEEP = 0.6
"""A hit stays if it scores at least this share of the best hit of its side."""
RANK_OFFSET = 60
"""Reciprocal rank fusion: one place at rank r adds 1 / (60 + r)."""


@dataclass(frozen=True, slots=True)
class Results:
    """What a search found."""

    chunks: list[dict[str, Any]]
    """In rank order; a passage that both sides found stands twice, with one ``chunk_id``."""
    total_before_filter: int
    """Hits of both sides, within their limits, before the weak ones were left out."""


def search(index: Index, field: Field, package: str, limits: Mapping[str, int]) -> Results:
    """Find the passages of one document that may answer a field."""
    question = field.search.format(package=package)
    hits = {
        "bm25": index.bm25(question, package)[: limits["bm25"]],
        "knn": index.knn(question, package)[: limits["knn"]],
    }
    kept = {method: _strong(found, field) for method, found in hits.items()}
    standing: dict[str, float] = defaultdict(float)
    for found in kept.values():
        for rank, (passage, _) in enumerate(found):
            standing[passage.chunk_id] += 1 / (RANK_OFFSET + rank)
    merged = [(method, *hit) for method, found in kept.items() for hit in found]
    merged.sort(key=lambda entry: (-standing[entry[1].chunk_id], entry[1].chunk_id))
    chunks = [
        {
            "content": passage.text,
            "doc_uri": passage.doc_uri,
            "chunk_id": passage.chunk_id,
            "page": passage.page,
            "score": round(score, 3),
            "retrieval_method": method,
        }
        for method, passage, score in merged
    ]
    return Results(chunks, sum(len(found) for found in hits.values()))


def _strong(hits: list[Hit], field: Field) -> list[Hit]:
    least = KEEP * hits[0][1] if hits else 0.0
    return [hit for hit in hits if hit[1] >= least and field.holds.search(hit[0].text)]
