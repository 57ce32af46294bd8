"""Conversations: the turns of a session are kept on disk, and judged when it has been idle.

The state lies in a SQLite file beside the budget's ledger, so all processes of a host share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.pipeline.plan import Plan, Planning


class SessionsPlugin(Plugin):
    """Scores and judges of whole sessions."""

    name = "sessions"
    requires = ("agents", "shared")
    settings = {"Conversations": "settings:SessionSettings"}
    heuristics = {
        name: f"heuristics.{name}:{name}"
        for name in ("repetition", "unanswered_questions", "turn_count", "session_seconds")
    }
    judges = {
        name: f"judges.{name}:{name}"
        for name in (
            "conversation_completeness", "user_frustration", "goal_reached", "knowledge_retention",
        )
    }  # fmt: skip
    units = {"session": "judges.function:SessionFunction"}
    findings = {"Sessions": "findings:findings"}
    belongings = {"turns": "forgetting:forget"}

    def complete(self, plan: Plan, settings: Settings, planning: Planning) -> Plan:
        """Take the evaluators of sessions out of the plan, and put in what runs them."""
        from llmeval_sdk.plugins.sessions.start import make

        return make(plan, settings, planning.requested)


plugin = SessionsPlugin()
