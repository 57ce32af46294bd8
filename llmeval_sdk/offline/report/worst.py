"""Which rows a person should look at first."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable

from llmeval_sdk import _values
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.results.row import Row


def goodness(evaluation: Evaluation) -> float | None:
    """Return 0 for bad to 1 for good; ``None`` for what is neither, such as a token count."""
    return _values.goodness_of(evaluation)


def standing(evaluation: Evaluation) -> _values.Standing:
    """Return whether an evaluation without an error is good, fair, bad or neutral."""
    return _values.standing_of(evaluation)


def direction(name: str, path: str) -> int:
    """Say whether more of a metric is better (1), or less (-1), or neither (0)."""
    if path.startswith(f"{name}/") and path.endswith("/percentage"):
        good = _values.goodness(name, path[len(name) + 1 : -len("/percentage")])
        return 0 if good is None else (good > 0.5) - (good < 0.5)
    return -1 if _values.high_is_bad(name) else 1


def failures(row: Row) -> list[Evaluation]:
    """Return what plainly went wrong on a row: a no, a fail, or an evaluator's error."""
    return [
        each
        for each in row.evaluations.values()
        if each.error is not None
        or each.value is False
        or (isinstance(each.value, str) and _values.number(each.value) == 0)
    ]


def low(row: Row) -> list[Evaluation]:
    """Return the scores of a row that are bad rather than good."""
    return [each for each in row.evaluations.values() if standing(each) == "bad"]


def worst(
    rows: Iterable[Row], count: int, blamed: Container[str | None] = frozenset()
) -> list[Row]:
    """Return the worst rows, worst first: those that raised, then by failures, then by scores.

    Failures of evaluators that are blamed for a gate come before those of others.
    """
    return heapq.nsmallest(count, rows, key=lambda row: _rank(row, blamed))


def _rank(row: Row, blamed: Container[str | None]) -> tuple[bool, int, int, float, int]:
    wrong = failures(row)
    first = sum(each.name in blamed for each in wrong)
    known = [good for each in row.evaluations.values() if (good := goodness(each)) is not None]
    mean = sum(known) / len(known) if known else 1.0
    return row.error is None, -first, -len(wrong), mean, row.number
