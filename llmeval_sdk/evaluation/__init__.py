"""Running evaluators over one Record: heuristics at once, judges with a timeout.

Used online by the pipeline and offline by ``evaluate()``: one evaluator, one way to run it.
"""

from llmeval_sdk.evaluation._heuristics import Heuristics, is_built_in, raised, run_heuristic
from llmeval_sdk.evaluation._judges import NoModel, run_judge
from llmeval_sdk.evaluation._outcome import failed, outcome
from llmeval_sdk.evaluation._own import own_copy


__all__ = [
    "Heuristics",
    "NoModel",
    "failed",
    "is_built_in",
    "outcome",
    "own_copy",
    "raised",
    "run_heuristic",
    "run_judge",
]
