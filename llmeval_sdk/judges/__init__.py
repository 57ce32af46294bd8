"""LLM judges: one small file each. They know the `LLM` protocol and no client."""

from llmeval_sdk.judges._base import BaseJudge
from llmeval_sdk.judges.custom import FunctionJudge, LLMJudge, judge
from llmeval_sdk.judges.prompt import Example


__all__ = ["BaseJudge", "Example", "FunctionJudge", "LLMJudge", "judge"]
