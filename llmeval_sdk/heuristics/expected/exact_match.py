"""`exact_match`: whether the answer is the expected one."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Texts, comparing, normalised


def _compare(texts: Texts) -> bool:
    """Say whether both texts are the same but for case, punctuation, articles and spaces.

    So does the exact match of the SQuAD evaluation (Rajpurkar et al., 2016).
    """
    return normalised(texts.answer) == normalised(texts.expected)


exact_match = comparing("exact_match", _compare)
