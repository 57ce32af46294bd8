"""`rouge_l`: how long the longest sequence of words is that both texts have in the same order."""

from __future__ import annotations

import re

from llmeval_sdk.heuristics.expected._ground_truth import MAX_LETTERS, Texts, comparing
from llmeval_sdk.process.loading import loading


_WORD = re.compile(r"[^\W_]+")


def _compare(texts: Texts) -> float:
    """Return the F-measure of the longest common subsequence of words, from 0 to 1.

    The definition is that of sentence-level ROUGE-L (Lin, 2004, "ROUGE: A Package for Automatic
    Evaluation of Summaries") with precision and recall weighing the same, as in the package
    ``rouge-score`` without stemming. Words are letters and figures of any script, in lower case.
    It is 0 where a text has no word.
    """
    with loading:
        from rapidfuzz.distance import LCSseq

    numbers: dict[str, int] = {}
    answer, expected = (
        [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.lower())]
        for text in texts
    )
    if not answer or not expected:
        return 0.0
    return 2 * LCSseq.similarity(answer, expected) / (len(answer) + len(expected))


rouge_l = comparing("rouge_l", _compare, output="score", most_letters=MAX_LETTERS)
