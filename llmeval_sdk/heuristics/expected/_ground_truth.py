"""The comparisons of these scores: rankings of documents, and texts with expected ones."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Failure, Record


_RANKING_NEEDS = ("retrieved_context", "expected_retrieved_context")
MAX_RANKS = 1_000
"""The greatest ``k``."""


class Ranking(NamedTuple):
    """How relevant what was retrieved is, by rank, and all there was to find."""

    gains: Sequence[float]
    """The grade of each retrieved passage, the first first; 0 for one that is not relevant."""
    ideal: Sequence[float]
    """The grades of all relevant passages, the greatest first."""


def _ranking_of(record: Record) -> Ranking | str | None:
    """Compare what was retrieved with what should have been.

    Passages are the same if their ``chunk_id`` is, else their ``doc_uri``, else their text: what
    the first expected passage has decides. A passage that was retrieved twice counts at its first
    rank. The ``score`` of an expected passage is its grade: greater is more relevant, 0 is not
    relevant; without one it is 1.

    Returns:
        The ranking; ``None`` if nothing was retrieved or nothing is expected; or the field by which
        the retrieved passages cannot be told apart.
    """
    retrieved, expected = record.retrieved_context, record.expected_retrieved_context
    if retrieved is None or not expected:
        return None
    field = next((name for name in ("chunk_id", "doc_uri") if _key(expected[0], name)), "content")
    grades: dict[str, float] = {}
    for chunk in expected:
        if (key := _key(chunk, field)) is not None:
            grades[key] = max(grades.get(key, 0.0), _grade(chunk))
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    if not ideal:
        return None
    keys = [_key(chunk, field) for chunk in retrieved]
    if keys and not any(keys):
        return f"retrieved_context[].{field}"
    distinct = dict.fromkeys(key or rank for rank, key in enumerate(keys))
    gains = [grades.get(key, 0.0) if isinstance(key, str) else 0.0 for key in distinct]
    return Ranking(gains, ideal)


def ranked(name: str, measure: Callable[[Ranking], float]) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that measures a ranking."""

    def evaluate(record: Record) -> Evaluation | None:
        ranking = _ranking_of(record)
        if isinstance(ranking, str):
            why = f"not applicable: no retrieved chunk has a {ranking.rpartition('.')[2]}"
            return Evaluation(name, explanation=why, metadata={"missing_inputs": ranking})
        return None if ranking is None else Evaluation(name, measure(ranking))

    return FunctionHeuristic(evaluate, name, needs=_RANKING_NEEDS, automatic=False, output="score")


def rank_in(name: str, text: str) -> int:
    """Read the ``k`` of ``NAME:k``; raises `ConfigurationError` where it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MAX_RANKS):
        raise ConfigurationError(
            f"{name} needs a number of ranks from 1 to {MAX_RANKS:,}, such as {name}:5"
        )
    return int(text)


def _key(chunk: Chunk, field: str) -> str | None:
    value = getattr(chunk, field)
    if not isinstance(value, str) or not value:
        return None
    return " ".join(value.split()) if field == "content" else value


def _grade(chunk: Chunk) -> float:
    score = chunk.score
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    if not is_number or score is None or not isfinite(score):
        return 1.0
    return max(0.0, float(score))


# What the scores of a text compare: the answer and the expected one, as text and as words.


_TEXT_NEEDS = ("response|value", "expected_response")
MAX_LETTERS = 20_000
"""Longer texts are not compared where the time grows with the product of two lengths."""

MAX_ANSWER = 100_000
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
    """Make a heuristic that checks the form of an answer of at most `MAX_ANSWER` characters.

    Args:
        name: What it is called.
        check: Returns the evaluation of an answer.
        what: What is not done with a longer answer, such as ``not searched``.
    """

    def evaluate(record: Record) -> Evaluation | None:
        answer = answer_of(record)
        if answer is None:
            return None
        if len(answer) > MAX_ANSWER:
            return too_long(name, f"{what}: the answer", MAX_ANSWER)
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
    version: str = "1",
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that compares the answer with the expected one.

    Args:
        name: What it is called.
        compare: Returns the value.
        output: ``score`` where that is a number.
        most_letters: The longest text that is compared; a longer one is an error, so that a gate
            does not pass without it.
        version: Rises whenever the values change.
    """

    def evaluate(record: Record) -> Evaluation | None:
        texts = _texts_of(record)
        if texts is None:
            return None
        if most_letters is not None and max(map(len, texts)) > most_letters:
            return too_long(name, "not compared: a text", most_letters)
        return Evaluation(name, compare(texts))

    return FunctionHeuristic(
        evaluate, name, version=version, needs=_TEXT_NEEDS, automatic=False, output=output
    )


# Regular expressions that are given up where a text makes them slow.


SECONDS = 0.1
"""How long one search may take. A pattern of the developer's meets texts of strangers, and some
pairs take longer than the universe has time."""


def compiled(pattern: str, *, who: str) -> object:
    """Compile a pattern of the package ``regex``, which can be given a deadline.

    Raises:
        ConfigurationError: the package is not installed, or the pattern is none.
    """
    try:
        import regex
    except ImportError as error:
        raise ConfigurationError(
            f"{who} needs the package regex: pip install 'llmeval-inprocess[schemas]'"
        ) from error
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ConfigurationError(f"{who}: {pattern!r} is no pattern: {error}") from error


def searched(pattern: Any, text: str) -> Any | None:
    """Search a text; raises `TimeoutError` after `SECONDS`. Other threads run meanwhile."""
    return pattern.search(text, timeout=SECONDS, concurrent=True)
