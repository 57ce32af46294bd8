"""Which evaluators run, running them, and the models and verdicts of judges.

The pipeline and ``evaluate()`` both use this room, so an evaluator means the same, fails the same
and costs the same online and offline.
"""

from llmeval_sdk.evaluation._budgeted_llm import BudgetedLLM
from llmeval_sdk.evaluation._heuristics import Heuristics
from llmeval_sdk.evaluation._judging import Judgement, WorkerPool, judge_record
from llmeval_sdk.evaluation._models import Models, NoModel, configured_model
from llmeval_sdk.evaluation._running import (
    addressed,
    failed,
    is_built_in,
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
