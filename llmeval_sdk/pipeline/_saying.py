"""One line for what keeps every judge from judging: who asked for scores wants to know why not."""

from __future__ import annotations

import sys

from llmeval_sdk._process.shield import tell
from llmeval_sdk._stats import Stats
from llmeval_sdk.model import NotRun
from llmeval_sdk.pipeline._plan import Plan


LOUD = frozenset((
    "no_judge_model", "over_budget", "circuit_open", "no_worker", "not_installed", "worker_lost",
))  # fmt: skip
"""Reasons that somebody has to do something about; their details are our own words."""
_CLIENTS = ("openai", "anthropic", "litellm", "google.genai", "langchain_core", "boto3")


class Saying:
    """Says each reason once for one pipeline."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._said: set[str] = set()

    def not_run(self, item: NotRun) -> None:
        """Leave a line for the log if this reason is a loud one and new."""
        reason = item.reason
        if reason not in LOUD or reason in self._said:
            return
        if reason == "no_judge_model" and not self._plan.has_model:
            return  # nobody asked for judges; the default escalation just has none to ask
        self._said.add(reason)
        from llmeval_sdk.store.reasons import explain

        detail = item.detail or explain(reason).meaning
        advice = explain(reason).advice
        tell(
            f"judges, {reason}",
            f"{item.evaluator} did not run: {detail.rstrip('.')}. {advice} "
            "(this is said once; stats() counts)",
        )


def say_if_nothing_was_judged(plan: Plan, stats: Stats) -> None:
    """Leave a line where judges of LLM calls were asked for, and no LLM call was ever seen."""
    judges = [each.name for each in plan.judges if "llm" in getattr(each, "span_kinds", ())]
    if not judges or any(name in stats.judged or name in stats.not_run for name in judges):
        return
    client = next((name for name in _CLIENTS if name in sys.modules), None)
    if client is None:
        return
    tell(
        "judges",
        f"{', '.join(judges)} had nothing to judge: no llm span with a prompt was seen, although "
        f"{client} is loaded. Let LLMObs.enable() or ddtrace-run instrument it, or use "
        "@llmeval.llm, and say the prompt with annotation_context(prompt=...)",
    )
