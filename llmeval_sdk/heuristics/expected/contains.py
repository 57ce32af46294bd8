"""`contains`: whether the expected answer stands in the answer."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Texts, comparing, normalised


def _compare(texts: Texts) -> bool:
    """Say whether the words of the expected answer follow one another in the answer.

    Case, punctuation, articles and spaces do not count, as in `exact_match`. Whole words are
    compared, so ``1`` does not stand in ``17``. An expected answer without words stands in none.
    """
    expected = normalised(texts.expected)
    return bool(expected) and f" {expected} " in f" {normalised(texts.answer)} "


contains = comparing("contains", _compare)
