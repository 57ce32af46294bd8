"""`edit_similarity`: how few letters have to change to make the answer the expected one."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import MAX_LETTERS, Texts, comparing
from llmeval_sdk.process.loading import loading


def _compare(texts: Texts) -> float:
    """Return 1 less the edit distance divided by the length of the longer text, from 0 to 1.

    The distance counts the letters that have to be inserted, deleted or replaced (Levenshtein,
    1966). Case counts. Two empty texts are the same.
    """
    with loading:
        from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(*texts)


edit_similarity = comparing("edit_similarity", _compare, output="score", most_letters=MAX_LETTERS)
