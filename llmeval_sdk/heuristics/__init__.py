"""Free evaluators: one small file each, and the decorator that makes one from a function."""

from llmeval_sdk.heuristics._function import FunctionHeuristic, heuristic


__all__ = ["FunctionHeuristic", "heuristic"]
