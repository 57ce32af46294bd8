"""`exact_match`: whether the answer is the expected one."""

from __future__ import annotations

from llmeval_sdk.heuristics.expected._ground_truth import Texts, comparing, normalised
from llmeval_sdk.process.loading import loading


def _compare(texts: Texts) -> bool:
    """Say whether both texts are the same but for case, punctuation, articles and spaces.

    So does the exact match of the SQuAD evaluation (Rajpurkar et al., 2016). A date, an amount or a
    code is also the same in another form: ``1 March 2026`` is ``2026-03-01``.
    """
    return normalised(texts.answer) == normalised(texts.expected) or _is_same_value(texts)


def _is_same_value(texts: Texts) -> bool:
    if max(map(len, texts)) > _LONGEST_VALUE:
        return False
    with loading:
        from llmeval_sdk.text.values import FREE_FORM, kind_of, same_value

    kinds = {kind_of(text) for text in texts}
    return kinds.isdisjoint(FREE_FORM) and same_value(texts.answer, texts.expected)


_LONGEST_VALUE = 80
"""Characters of a date, an amount or a code."""

exact_match = comparing("exact_match", _compare, version="2")
