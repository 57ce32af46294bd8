"""`ndcg` and ``ndcg_at_k:10``: whether the most relevant passages stand first."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from llmeval_sdk.heuristics.expected._ground_truth import Ranking, rank_in, ranked
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation


def _measure(ranking: Ranking, k: int | None = None) -> float:
    """Return the discounted cumulative gain, divided by that of the best ranking there could be.

    Each passage gains its grade, divided by the binary logarithm of its rank plus 1 (Järvelin and
    Kekäläinen, 2002). Gains are the grades themselves, as in trec_eval, not powers of two.
    """
    return _gain(ranking.gains[:k]) / _gain(ranking.ideal[:k])


def _gain(grades: Sequence[float]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))


def by_rank(text: str) -> FunctionHeuristic[Evaluation | None]:
    """Make the heuristic ``ndcg_at_10`` of the text ``10``: only the first ranks count."""
    k = rank_in("ndcg_at_k", text)
    return ranked(f"ndcg_at_{k}", lambda ranking: _measure(ranking, k))


ndcg = ranked("ndcg", _measure)
