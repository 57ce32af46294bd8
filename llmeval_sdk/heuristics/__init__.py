"""Free evaluators: one small file each, and the decorator that makes one from a function."""

from llmeval_sdk.heuristics.function import FunctionHeuristic, heuristic
from llmeval_sdk.text.budget import TooLargeError, limit_processor_time


__all__ = ["FunctionHeuristic", "TooLargeError", "heuristic", "limit_processor_time"]
