"""``precision_at_k:5``: the share of the first ranks that hold something relevant."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Ranking, rank_in, ranked
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation


def by_rank(text: str) -> FunctionHeuristic[Evaluation | None]:
    """Make the heuristic ``precision_at_5`` of the text ``5``.

    The value is the number of relevant passages among the first ``k``, divided by ``k``, even where
    fewer were retrieved: so does trec_eval's ``P_5``.
    """
    k = rank_in("precision_at_k", text)

    def measure(ranking: Ranking) -> float:
        return sum(gain > 0 for gain in ranking.gains[:k]) / k

    return ranked(f"precision_at_{k}", measure)
