"""Fitting `retrieval_risk` on questions whose paragraph was, or was not, in the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from risk_index import Asked, asked
from risk_stumps import stumps

from llmeval_sdk.heuristics.risk import retrieval
from llmeval_sdk.heuristics.risk._words import Additive


PARTS = {
    "text": retrieval.QUERY_NAMES,
    "hybrid": (*retrieval.QUERY_NAMES, *retrieval.RANKING_NAMES),
}
DRAWS = ((0.5, 11), (0.5, 12), (0.4, 13), (0.7, 14))
"""Share of the paragraphs kept and seed, of each index that training questions are asked."""


def training(folder: Path) -> list[Asked]:
    return [row for kept, seed in DRAWS for row in asked(folder, kept=kept, seed=seed)]


def measured(rows: Sequence[Asked], table: Mapping[str, float]) -> list[dict[str, float]]:
    found = (retrieval.features(row.record, table=table) for row in rows)
    return [features[0] for features in found if not isinstance(features, str)]


def fit(part: str, vectors: Sequence[Mapping[str, float]], rows: Sequence[Asked]) -> Additive:
    """Fit on the rows that have all features of the part."""
    names = PARTS[part]
    kept = [i for i, vector in enumerate(vectors) if vector.keys() >= set(names)]
    labels = [rows[i].label for i in kept]
    return stumps(names, [vectors[i] for i in kept], labels, rounds=400, rate=0.08, least=100, l2=5)
