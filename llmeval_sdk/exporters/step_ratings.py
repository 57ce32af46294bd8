"""Ratings of single steps on their way to backends that take a score on any span."""

from __future__ import annotations

from collections.abc import Iterable

from llmeval_sdk import registry
from llmeval_sdk._process.shield import shield
from llmeval_sdk.model import EvaluationEvent


def step_events(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return an event for each rating of a step with a span; they are additions, never counted."""
    rated = [event for event in events if "rated_spans" in event.evaluation.metadata]
    make = registry.part(registry.STEP_EVENTS) if rated else None
    steps: list[EvaluationEvent] = []
    if make is None:
        return steps
    for event in rated:
        with shield("ratings of steps"):
            steps.extend(make(event))
    return steps
