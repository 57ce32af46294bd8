"""Free evaluators: one small file each, and the decorator that makes one from a function."""

from llmeval_sdk.heuristics._budget import TooLargeError, limit_processor_time
from llmeval_sdk.heuristics._function import FunctionHeuristic, heuristic


__all__ = ["FunctionHeuristic", "TooLargeError", "heuristic", "limit_processor_time"]
