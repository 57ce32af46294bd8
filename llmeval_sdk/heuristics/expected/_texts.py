"""What the scores of a text compare: the answer and the expected one, as text and as words."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Literal, NamedTuple

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Failure, Record


NEEDS = ("response|value", "expected_response")
MOST_LETTERS = 20_000
"""Longer texts are not compared where the time grows with the product of two lengths."""

LONGEST_ANSWER = 100_000
"""The most characters of an answer whose form is checked."""

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


def of_answer(
    name: str, check: Callable[[str], Evaluation], what: str
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that checks the form of an answer of at most `LONGEST_ANSWER` characters.

    Args:
        name: What it is called.
        check: Returns the evaluation of an answer.
        what: What is not done with a longer answer, such as ``not searched``.
    """

    def evaluate(record: Record) -> Evaluation | None:
        answer = answer_of(record)
        if answer is None:
            return None
        if len(answer) > LONGEST_ANSWER:
            return too_long(name, f"{what}: the answer", LONGEST_ANSWER)
        return check(answer)

    return FunctionHeuristic(evaluate, name, needs=("response|value",), automatic=False)


def too_long(name: str, what: str, most_letters: int) -> Evaluation:
    """Return the evaluation of a text that is too long to be looked at."""
    return unrated(name, "too_long", f"{what} is longer than {most_letters:,} characters")


def unrated(name: str, error_type: str, why: str) -> Evaluation:
    """Return an evaluation with an error in the place of a value that nobody knows."""
    return Evaluation(name, explanation=why, error=Failure(error_type, why))


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
        most_letters: The longest text that is compared; a longer one is an error, so that a gate
            does not pass without it.
    """

    def evaluate(record: Record) -> Evaluation | None:
        texts = _texts_of(record)
        if texts is None:
            return None
        if most_letters is not None and max(map(len, texts)) > most_letters:
            return too_long(name, "not compared: a text", most_letters)
        return Evaluation(name, compare(texts))

    return FunctionHeuristic(evaluate, name, needs=NEEDS, automatic=False, output=output)
