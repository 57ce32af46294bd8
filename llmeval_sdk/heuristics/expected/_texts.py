"""What the scores of a text compare: the answer and the expected one, as text and as words."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Literal, NamedTuple

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record


NEEDS = ("response|value", "expected_response")
MOST_LETTERS = 20_000
"""Longer texts are not compared where the time grows with the product of two lengths."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation))


class Texts(NamedTuple):
    """What the app answered, and what it should have answered."""

    answer: str
    expected: str


def _texts_of(record: Record) -> Texts | None:
    """Return both texts of a Record; ``None`` where one is missing or no text."""
    answer, expected = answer_of(record), record.expected_response
    if answer is None or not isinstance(expected, str):
        return None
    return Texts(answer, expected)


def answer_of(record: Record) -> str | None:
    """Return the response, else the extracted value as text."""
    answer = record.response
    if answer is None and isinstance(record.value, (str, int, float)):
        answer = str(record.value)
    return answer if isinstance(answer, str) else None


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation, English articles and doubled spaces.

    This is the normalisation of the SQuAD evaluation (Rajpurkar et al., 2016, arXiv:1606.05250).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def comparing(
    name: str,
    compare: Callable[[Texts], float | bool],
    *,
    output: Literal["score"] | None = None,
    most_letters: int | None = None,
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that compares the answer with the expected one.

    Args:
        name: What it is called.
        compare: Returns the value.
        output: ``score`` where that is a number.
        most_letters: The longest text that is compared; for a longer one there is no value, and the
            explanation says so.
    """

    def evaluate(record: Record) -> Evaluation | None:
        texts = _texts_of(record)
        if texts is None:
            return None
        if most_letters is not None and max(map(len, texts)) > most_letters:
            why = f"not compared: a text is longer than {most_letters:,} characters"
            return Evaluation(name, explanation=why)
        return Evaluation(name, compare(texts))

    return FunctionHeuristic(evaluate, name, needs=NEEDS, automatic=False, output=output)
