"""What the scores of a ranking compare: what was retrieved, and what should have been."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import NamedTuple

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Chunk, Evaluation, Record


NEEDS = ("retrieved_context", "expected_retrieved_context")
MOST_RANKS = 1_000
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

    return FunctionHeuristic(evaluate, name, needs=NEEDS, automatic=False, output="score")


def rank_in(name: str, text: str) -> int:
    """Read the ``k`` of ``NAME:k``; raises `ConfigurationError` where it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST_RANKS):
        raise ConfigurationError(
            f"{name} needs a number of ranks from 1 to {MOST_RANKS:,}, such as {name}:5"
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
