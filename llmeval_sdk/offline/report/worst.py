"""Which rows a person should look at first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.results.row import Row


_BAD_WORDS = frozenset(("no", "fail", "HIT_RETRIEVAL_LIMIT", "HIGH_THRESHOLD_FILTERING"))
_GOOD_WORDS = frozenset(("yes", "pass"))
RISKS = frozenset(("groundedness_risk", "retrieval_risk"))
"""Heuristics whose high values are bad."""
LESS_IS_BETTER = RISKS | {
    "latency_seconds",
    "total_token_count",
    "total_input_token_count",
    "total_output_token_count",
}


def goodness(evaluation: Evaluation) -> float | None:
    """Return 0 for bad to 1 for good; ``None`` for what is neither, such as a token count."""
    value = evaluation.value
    if isinstance(value, str):
        return 1.0 if value in _GOOD_WORDS else 0.0 if value in _BAD_WORDS else None
    if isinstance(value, bool):
        return float(value)
    if value is None or evaluation.name in LESS_IS_BETTER - RISKS or not 0 <= value <= 1:
        return None
    return 1 - value if evaluation.name in RISKS else value


def direction(name: str, path: str) -> int:
    """Say whether more of a metric is better (1), or less (-1), or neither (0)."""
    if path.startswith(f"{name}/") and path.endswith("/percentage"):
        word = path[len(name) + 1 : -len("/percentage")]
        return (word in _GOOD_WORDS) - (word in _BAD_WORDS)
    return -1 if name in LESS_IS_BETTER else 1


def failures(row: Row) -> list[Evaluation]:
    """Return what plainly went wrong on a row: a no, a fail, or an evaluator's error."""
    return [
        each
        for each in row.evaluations.values()
        if each.error is not None
        or each.value is False
        or (isinstance(each.value, str) and each.value in ("no", "fail"))
    ]


def low(row: Row) -> list[Evaluation]:
    """Return the scores of a row that are bad rather than good."""
    return [
        each
        for each in row.evaluations.values()
        if (good := goodness(each)) is not None and good < 0.5
    ]


def worst(rows: Iterable[Row], count: int) -> list[Row]:
    """Return the worst rows, worst first: those that raised, then by failures, then by scores."""
    return heapq.nsmallest(count, rows, key=_rank)


def _rank(row: Row) -> tuple[bool, int, float, int]:
    known = [good for each in row.evaluations.values() if (good := goodness(each)) is not None]
    mean = sum(known) / len(known) if known else 1.0
    return row.error is None, -len(failures(row)), mean, row.number
