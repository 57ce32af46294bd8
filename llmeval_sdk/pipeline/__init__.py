"""Takes finished spans, evaluates them in the background and delivers them to the exporters.

It has a worker thread, one thread for judges and one for each exporter. Heuristics of the app run
on threads beside the worker.
"""

from llmeval_sdk._stats import ExporterStats, Stats
from llmeval_sdk.pipeline._destinations import default_exporters
from llmeval_sdk.pipeline._evaluating import Case, Evaluating, Subject
from llmeval_sdk.pipeline._judges_loop import JudgesLoop
from llmeval_sdk.pipeline._judging import MAX_WAITING, Judging
from llmeval_sdk.pipeline._outlet import Outlet, say_if_nothing_was_judged
from llmeval_sdk.pipeline._pipeline import Pipeline
from llmeval_sdk.pipeline._plan import Plan, make_plan, recording_plan
from llmeval_sdk.pipeline._turns import Job, Turn, not_run


__all__ = [
    "MAX_WAITING", "Case", "Evaluating", "ExporterStats", "Job", "JudgesLoop", "Judging", "Outlet",
    "Pipeline", "Plan", "Stats", "Subject", "Turn", "default_exporters", "make_plan", "not_run",
    "recording_plan", "say_if_nothing_was_judged",
]  # fmt: skip
