"""Which evaluators run, running them, and the models and verdicts of judges.

The pipeline and ``evaluate()`` both use this room, so an evaluator means the same, fails the same
and costs the same online and offline.
"""

from llmeval_sdk.evaluation.models import BudgetedLLM, Models, NoModel, configured_model
from llmeval_sdk.evaluation.running import (
    Heuristics,
    Judgement,
    WorkerPool,
    addressed,
    failed,
    is_built_in,
    judge_record,
    not_applicable,
    outcome,
    own_copy,
    raised,
    run_heuristic,
    run_judge,
    run_requested,
)


__all__ = [
    "BudgetedLLM",
    "Heuristics",
    "Judgement",
    "Models",
    "NoModel",
    "WorkerPool",
    "addressed",
    "configured_model",
    "failed",
    "is_built_in",
    "judge_record",
    "not_applicable",
    "outcome",
    "own_copy",
    "raised",
    "run_heuristic",
    "run_judge",
    "run_requested",
]  # fmt: skip
