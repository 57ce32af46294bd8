"""From a finished span to its exporters, in the background: the only room with threads."""

from llmeval_sdk.pipeline._judging import event
from llmeval_sdk.pipeline._metered import MeteredLLM, Turnstile
from llmeval_sdk.pipeline._pipeline import Pipeline
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.pipeline._saying import say_if_nothing_was_judged
from llmeval_sdk.pipeline._stats import ExporterStats, Stats


__all__ = [
    "ExporterStats",
    "MeteredLLM",
    "Pipeline",
    "Plan",
    "Stats",
    "Turnstile",
    "event",
    "say_if_nothing_was_judged",
]
