"""`mrr`: how early the first relevant passage stands."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Ranking, ranked


def _measure(ranking: Ranking) -> float:
    """Return 1 divided by the rank of the first relevant passage; 0 where none was retrieved.

    The mean over the rows of a data set is the mean reciprocal rank (Voorhees, 1999, TREC-8).
    """
    return next((1 / rank for rank, gain in enumerate(ranking.gains, 1) if gain > 0), 0.0)


mrr = ranked("mrr", _measure)
