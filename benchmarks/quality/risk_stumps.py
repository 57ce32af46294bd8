"""Boosted stumps with the direction of each feature fixed, added up into one table per feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from llmeval_sdk.heuristics.risk._words import Additive, Table


_LOWERS = (
    "worst_bigrams", "best", "best_pair", "worst_best", "worst_best_pair", "bigrams", "copied",
    "best_sentence", "best_window", "best_passage", "all", "soft", "rare_sentence", "rare_passage",
    "overlap",
)  # fmt: skip
_RAISES = (
    "novel_", "fresh_", "numbers_", "capitals_", "split_", "worst_mass", "second_mass", "risk_",
    "uncovered", "units_", "negated", "affirmed", "citation_", "asked_", "bigrams_absent",
)  # fmt: skip


def stumps(
    names: Sequence[str],
    rows: Sequence[Mapping[str, float]],
    labels: Sequence[int],
    *,
    rounds: int,
    rate: float,
    least: int,
    l2: float,
) -> Additive:
    """Boost stumps on features that every row has."""
    signs = [1 if n.startswith(_RAISES) else -1 if n in _LOWERS else 0 for n in names]
    fitted = HistGradientBoostingClassifier(
        max_leaf_nodes=2, max_iter=rounds, learning_rate=rate, min_samples_leaf=least,
        l2_regularization=l2, monotonic_cst=signs, early_stopping=False, random_state=0,
    ).fit(np.array([[row[n] for n in names] for row in rows], float), labels)  # fmt: skip
    cuts: dict[str, list[tuple[float, float, float]]] = {}
    for (tree,) in fitted._predictors:
        root = tree.nodes[0]
        if root["is_leaf"]:
            continue
        left, right = (float(tree.nodes[root[side]]["value"]) for side in ("left", "right"))
        edge = float(f"{root['num_threshold']:.4g}")
        cuts.setdefault(names[int(root["feature_idx"])], []).append((edge, left, right))
    features = {name: _table(cuts[name]) for name in names if name in cuts}
    return Additive(round(float(fitted._baseline_prediction.ravel()[0]), 4), features)


def _table(cuts: Sequence[tuple[float, float, float]]) -> Table:
    edges = sorted({edge for edge, *_ in cuts})
    steps = [
        round(sum(right if at > edges.index(edge) else left for edge, left, right in cuts), 4)
        for at in range(len(edges) + 1)
    ]
    return Table(edges, steps)
