"""`turn_count` and `session_seconds`: how long a conversation was."""

from __future__ import annotations

from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.conversation import conversation_steps
from llmeval_sdk.plugins.sessions.heuristics import COUNTED, of_a_session


def _turns(record: Record) -> Evaluation | None:
    """Return how often the user spoke."""
    counted = record.attributes.get(COUNTED)
    spoken = sum(step.role == "user" for step in conversation_steps(record))
    count = max(spoken, counted) if isinstance(counted, int) else spoken
    return Evaluation("turn_count", float(count)) if count else None


turn_count = of_a_session(_turns, "turn_count", output="count")


def _seconds(record: Record) -> Evaluation | None:
    """Return the seconds from the first request to the last answer, with the pauses between."""
    steps = conversation_steps(record)
    begun = [step.start_ns for step in steps if step.start_ns is not None]
    ended = [step.end_ns for step in steps if step.end_ns is not None]
    if not begun or not ended:
        return None
    return Evaluation("session_seconds", max(0.0, (max(ended) - min(begun)) / 1e9))


session_seconds = of_a_session(_seconds, "session_seconds", output="score")
