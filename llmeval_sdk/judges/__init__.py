"""LLM judges: one small file each. They know the `LLM` protocol and no client."""

from typing import TYPE_CHECKING, Any

from llmeval_sdk import registry
from llmeval_sdk.judges._base import BaseJudge
from llmeval_sdk.judges.custom import FunctionJudge, LLMJudge, judge
from llmeval_sdk.judges.prompt import Example


if TYPE_CHECKING:
    from llmeval_sdk.judges.context_recall import ContextRecall

__all__ = ["BaseJudge", "ContextRecall", "Example", "FunctionJudge", "LLMJudge", "judge"]


def __getattr__(name: str) -> Any:
    """Load a judge that compares with ground truth, which is no part of the core."""
    if name != "ContextRecall":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return registry.load("llmeval_sdk.judges.context_recall:ContextRecall")
