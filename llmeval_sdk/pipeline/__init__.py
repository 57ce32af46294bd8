"""From a finished span to its exporters, in the background.

Its threads: the worker, one for judges, one for each exporter, and one for the app's heuristics.
"""

from llmeval_sdk._stats import ExporterStats, Stats
from llmeval_sdk.pipeline._destinations import default_exporters
from llmeval_sdk.pipeline._outlet import say_if_nothing_was_judged
from llmeval_sdk.pipeline._pipeline import Pipeline
from llmeval_sdk.pipeline._plan import Plan, make_plan, recording_plan


__all__ = [
    "ExporterStats",
    "Pipeline",
    "Plan",
    "Stats",
    "default_exporters",
    "make_plan",
    "recording_plan",
    "say_if_nothing_was_judged",
]
