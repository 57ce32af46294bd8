"""What is read of an agent's run before anything is scored.

`messages` reads chat messages with tool calls, in the formats that people have, as Steps. `run`
reads a Record once for all scores of a run: which calls failed, which change something, and what
the agent had seen when it made them.
"""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


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
    judges = {
        name: f"judges.{name}:{name}"
        for name in (
            "task_completion", "tool_selection", "tool_arguments", "plan_adherence", "handoff",
        )
    }  # fmt: skip
    units = {"step": "judges.per_step:StepJudge"}


plugin = AgentsPlugin()
