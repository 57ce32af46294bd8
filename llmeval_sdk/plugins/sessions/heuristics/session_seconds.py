"""`session_seconds`: how long a conversation took."""

from __future__ import annotations

from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.conversation import conversation_steps
from llmeval_sdk.plugins.sessions.heuristics._of_session import of_a_session


def _evaluate(record: Record) -> Evaluation | None:
    """Return the seconds from the first request to the last answer, with the pauses between."""
    steps = conversation_steps(record)
    begun = [step.start_ns for step in steps if step.start_ns is not None]
    ended = [step.end_ns for step in steps if step.end_ns is not None]
    if not begun or not ended:
        return None
    return Evaluation("session_seconds", max(0.0, (max(ended) - min(begun)) / 1e9))


session_seconds = of_a_session(_evaluate, "session_seconds", output="score")
