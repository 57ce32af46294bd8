"""`token_f1`: how many words the answer and the expected one have in common."""

from __future__ import annotations

from collections import Counter

from llmeval_sdk.heuristics.expected._ground_truth import Texts, comparing, normalised


def _compare(texts: Texts) -> float:
    """Return the harmonic mean of precision and recall of the words, from 0 to 1.

    Words are compared after the normalisation of `exact_match`, each as often as it stands there,
    in any order. It is 1 where neither text has a word, and 0 where only one has. So does the F1 of
    the SQuAD evaluation (Rajpurkar et al., 2016).
    """
    answer = Counter(normalised(texts.answer).split())
    expected = Counter(normalised(texts.expected).split())
    total = answer.total() + expected.total()
    return 2 * (answer & expected).total() / total if total else 1.0


token_f1 = comparing("token_f1", _compare, output="score")
