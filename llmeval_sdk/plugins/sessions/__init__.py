"""Conversations: the turns of a session are kept on disk, and judged when it has been idle.

The turns lie in the file of state beside the store, so all processes of a host share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin
from llmeval_sdk.registry import Attachment, own_evaluators


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.pipeline.plan import Plan, Planning


class SessionsPlugin(Plugin):
    """Scores and judges of whole sessions."""

    name = "sessions"
    requires = ("agents",)
    settings = {"Conversations": "settings:SessionSettings"}
    heuristics = {
        "repetition": "heuristics.repetition:repetition",
        "unanswered_questions": "heuristics.unanswered_questions:unanswered_questions",
        "turn_count": "heuristics.length:turn_count",
        "session_seconds": "heuristics.length:session_seconds",
    }
    attachments = {name: Attachment(("steps|request",), per="session") for name in heuristics}
    judges = {
        name: f"judges.{name}:{name}"
        for name in (
            "conversation_completeness", "user_frustration", "goal_reached", "knowledge_retention",
        )
    }  # fmt: skip
    units = {"session": "judges:SessionFunction"}
    findings = {"Sessions": "turn_store:findings"}
    state = {"turns": "turn_store:TABLES"}

    def complete(self, plan: Plan, settings: Settings, planning: Planning) -> Plan:
        """Take the evaluators of sessions out of the plan, and put in what runs them.

        Nothing is kept of any session where no evaluator of sessions was asked for, or registered
        by the app.
        """
        wanted = (*plan.judges, *planning.requested, *own_evaluators())
        if not any(getattr(evaluator, "per", "answer") == "session" for evaluator in wanted):
            return plan
        from llmeval_sdk.plugins.sessions.idle_sessions import make

        return make(plan, settings, planning.requested)


plugin = SessionsPlugin()
