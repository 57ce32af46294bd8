"""Ratings of single steps on their way to backends that take a score on any span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmeval_sdk import registry
from llmeval_sdk._process.shield import caught, shield
from llmeval_sdk.model import EvaluationEvent


def count_refused(refused: Mapping[str, int]) -> None:
    """Count the ratings that a backend does not take; those that it takes are in no account."""
    for reason, times in refused.items():
        caught.add(f"ratings of steps: {reason}", times)


def step_events(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return an event for each rating of a step with a span; they are additions, never counted."""
    steps: list[EvaluationEvent] = []
    for event in events:
        is_rated = "rated_spans" in event.evaluation.metadata
        if is_rated and (make := registry.part(registry.STEP_EVENTS)) is not None:
            with shield("ratings of steps"):
                steps.extend(make(event))
    return steps
