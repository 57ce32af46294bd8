"""`groundedness_risk` with weights that were learned from an app's own outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import _response, groundedness
from llmeval_sdk.learning.background import Score
from llmeval_sdk.model import Evaluation, Record


Weigh = Callable[..., tuple[float, dict[str, Any]]]


def taught(
    heuristic: FunctionHeuristic[Evaluation | None], weigh: Weigh
) -> tuple[FunctionHeuristic[Evaluation | None], Score]:
    """Return the heuristic with ``weigh`` in it, and what `learning.background` knows it by."""
    made_of = crc32(f"{heuristic.version} {' '.join(_response.NAMES)}".encode())
    score = Score(heuristic.name, f"{made_of:08x}", _response.NAMES)

    def evaluate(record: Record) -> Evaluation | None:
        return groundedness.evaluated(
            record,
            lambda language, value, features: weigh(score, language, record, value, features),
        )

    return replace(heuristic, evaluate=evaluate), score
