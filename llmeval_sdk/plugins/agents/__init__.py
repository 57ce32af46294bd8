"""Scores and judges of an agent's run: its tool calls, its claims, its plan.

`llmeval_sdk.model.runs` reads a Record once for all of them. ``live`` keeps what the scores of an
open run know; ``origins`` tells values that the agent had seen from values that it made up, and
``phrases`` has the words for actions and for injected instructions.
"""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin
from llmeval_sdk.registry import Attachment


_TRAJECTORY = ("trajectory_match", "tool_call_accuracy", "tool_call_f1")
"""The scores that compare a run with the one that was expected."""


class AgentsPlugin(Plugin):
    """Scores and judges of agents' runs."""

    name = "agents"
    heuristics = {
        name: f"heuristics.{name}:{name}"
        for name in (
            "run_faults", "tool_call_errors", "tool_call_efficiency", "duplicate_tool_calls",
            "tool_call_loop", "tool_call_schema", "ungrounded_arguments", "ignored_errors",
            "unsupported_action_claims", "unmet_requests", "injected_actions", "trajectory_match",
            "tool_call_accuracy", "tool_call_f1",
        )
    }  # fmt: skip
    attachments = {
        name: Attachment(("steps", "expected_trajectory") if name in _TRAJECTORY else ("steps",))
        for name in heuristics
    }
    judges = {
        name: f"judges.{name}:{name}"
        for name in (
            "task_completion", "tool_selection", "tool_arguments", "plan_adherence", "handoff",
        )
    }  # fmt: skip
    units = {"step": "judges:StepJudge"}


plugin = AgentsPlugin()
