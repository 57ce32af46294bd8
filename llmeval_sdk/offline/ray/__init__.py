"""Evaluates on Ray Data, on one machine or on many, with the report of the local engine."""

from llmeval_sdk.offline.ray._run import RayRun


__all__ = ["RayRun"]
