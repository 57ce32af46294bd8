"""What a new process knows of the scores that earlier ones gave."""

from __future__ import annotations

from llmeval_sdk._process.shield import swallow
from llmeval_sdk.pipeline._plan import Plan


def warm(plan: Plan) -> None:
    """Give escalation by share the scores of earlier processes; without them it warms up."""
    gate, recent = plan.gate, plan.recent
    if recent is None or not gate.shares:
        return
    try:
        for judge, by in gate.shares:
            past: dict[str | None, list[float]] = {}
            for span_name, score in recent(by):
                past.setdefault(span_name, []).append(score)
            for span_name, scores in past.items():
                gate.warm(judge, span_name, by, scores)
    except Exception as error:
        if not swallow("warm start", error):
            raise
