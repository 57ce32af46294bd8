"""``recall_at_k:5``: the share of what is relevant that stands in the first ranks."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Ranking, rank_in, ranked
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation


def by_rank(text: str) -> FunctionHeuristic[Evaluation | None]:
    """Make the heuristic ``recall_at_5`` of the text ``5``.

    The value is the number of relevant passages among the first ``k``, divided by the number of
    all relevant ones: trec_eval's ``recall_5``.
    """
    k = rank_in("recall_at_k", text)

    def measure(ranking: Ranking) -> float:
        return sum(gain > 0 for gain in ranking.gains[:k]) / len(ranking.ideal)

    return ranked(f"recall_at_{k}", measure)
