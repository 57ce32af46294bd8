"""Ratings of single steps as events of their own, for backends that take a score on any span."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk.model import Evaluation, EvaluationEvent, Target
from llmeval_sdk.process.shield import caught, shield


_MOST_RATINGS = 100
"""Ratings of one evaluation that become events."""
_MOST_TEXT = 8_000
"""Characters of a rating or of its rationale."""


def count_refused(refused: Mapping[str, int]) -> None:
    """Count the ratings that a backend does not take; those that it takes are in no account."""
    for reason, times in refused.items():
        caught.add(f"ratings of steps: {reason}", times)


def step_events(events: Iterable[EvaluationEvent]) -> list[EvaluationEvent]:
    """Return an event for each rating of a step with a span; they are additions, never counted."""
    steps: list[EvaluationEvent] = []
    for event in events:
        if "rated_spans" in event.evaluation.metadata:
            with shield("ratings of steps"):
                steps.extend(_events_of(event))
    return steps


def _events_of(event: EvaluationEvent) -> Iterator[EvaluationEvent]:
    """Make an event of each rating of a tool call, about the span of that call.

    The events are called ``<name>.step``, so that no backend counts them as further verdicts on the
    run, and have no usage, because the event of the run has it. A call that could not be rated, or
    that has no span, has no event.
    """
    run = event.evaluation
    about = run.metadata
    columns = [_column(about.get(key)) for key in ("rated_spans", "rated_steps", "ratings")]
    rationales = _column(about.get("rationales"))
    shared = {key: about[key] for key in ("model", "why", "cached") if key in about}
    for place, (span_id, number, rating) in enumerate(zip(*columns, strict=False)):
        if not _is_span_id(span_id) or not isinstance(rating, (bool, int, float, str)):
            continue
        reason = rationales[place] if place < len(rationales) else None
        evaluation = Evaluation(
            f"{run.name}.step",
            rating[:_MOST_TEXT] if isinstance(rating, str) else rating,
            explanation=reason[:_MOST_TEXT] if isinstance(reason, str) else None,
            metadata={**shared, "step": number, "run_span_id": event.target.span_id},
            evaluator_kind=run.evaluator_kind,
            evaluator_version=run.evaluator_version,
            inclusion_probability=run.inclusion_probability,
        )
        target = Target(event.target.trace_id, span_id, None, "tool")
        yield replace(event, id=f"{event.id}-{span_id}", target=target, evaluation=evaluation)


def _column(values: Any) -> Sequence[Any]:
    return values[:_MOST_RATINGS] if isinstance(values, (list, tuple)) else ()


def _is_span_id(value: Any) -> bool:
    """Say whether a value is the id of a span of W3C; redaction may have changed it."""
    if not isinstance(value, str) or len(value) != 16:
        return False
    return set(value) <= set("0123456789abcdef") and value.strip("0") != ""
