"""`turn_count`: how many turns a conversation has."""

from __future__ import annotations

from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.conversation import conversation_steps
from llmeval_sdk.plugins.sessions.heuristics._of_session import of_a_session


COUNTED = "turns"
"""Key among the attributes of a session's Record: how many turns it had, also of those cut."""


def _evaluate(record: Record) -> Evaluation | None:
    """Return how often the user spoke."""
    counted = record.attributes.get(COUNTED)
    spoken = sum(step.role == "user" for step in conversation_steps(record))
    count = max(spoken, counted) if isinstance(counted, int) else spoken
    return Evaluation("turn_count", float(count)) if count else None


turn_count = of_a_session(_evaluate, "turn_count", output="count")
