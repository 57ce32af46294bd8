"""`groundedness_risk` with weights that were learned from an app's own outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import groundedness, response
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.plugins.learning._weights import Score


LEARNS = "groundedness_risk"
"""The score that can learn."""
Weigh = Callable[..., tuple[float, dict[str, Any]]]


def taught(
    heuristic: FunctionHeuristic[Evaluation | None], weigh: Weigh
) -> tuple[FunctionHeuristic[Evaluation | None], Score]:
    """Return the heuristic with ``weigh`` in it, and what `learning.background` knows it by."""
    made_of = crc32(f"{heuristic.version} {' '.join(response.NAMES)}".encode())
    score = Score(heuristic.name, f"{made_of:08x}", response.NAMES)

    def evaluate(record: Record) -> Evaluation | None:
        return groundedness.evaluated(
            record,
            lambda language, value, features: weigh(score, language, record, value, features),
        )

    return replace(heuristic, evaluate=evaluate), score
