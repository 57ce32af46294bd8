"""Scores by the app's own code and by its users: ``submit_evaluation``, ``submit_feedback``."""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import Any, Literal

from llmeval_sdk.model import Evaluation, EvaluationEvent, EvaluatorKind, Target, values
from llmeval_sdk.model.placeholders import plain_text
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.queue import SMALL
from llmeval_sdk.process.shield import caught, swallow
from llmeval_sdk.tracing import Span, current_span
from llmeval_sdk.tracing.internals import (
    Room,
    capture,
    new_room,
    new_span_id,
    read_ids,
    state,
    used,
)


def submit_evaluation(
    *,
    label: str,
    value: Any,
    metric_type: str | None = None,
    span: Span | Mapping[str, str] | None = None,
    reasoning: str | None = None,
    assessment: str | None = None,
    tags: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    timestamp_ms: int | None = None,
    span_with_tag_value: Mapping[str, str] | None = None,
    eval_scope: str | None = None,
    ml_app: str | None = None,
) -> None:
    """Submit an evaluation that your own code made.

    It never raises. An evaluation that cannot be used is counted.

    Args:
        label: The evaluation's name.
        value: A number (score), a string (category) or a bool (pass or fail).
        metric_type: ``score``, ``categorical`` or ``boolean``, as Datadog names them. It is only
            needed where the type of ``value`` would say something else.
        span: A span, or what ``export_span()`` returned; the active span by default. Outside any
            span, the evaluation is exported without a target.
        reasoning: Why the value is what it is.
        assessment: A word for the value, such as ``pass`` or ``fail``.
        tags: Labels to filter by.
        metadata: Anything else worth keeping.
        timestamp_ms: When it was made, in milliseconds since the epoch; now by default.
            A number that can be no such time, such as nanoseconds, counts as now.
        span_with_tag_value: In Datadog, instead of a span: a mapping of ``tag_key`` and
            ``tag_value`` that picks the span with this tag.
        eval_scope: In Datadog: ``span``, or ``trace`` together with the root span.
        ml_app: In Datadog: the app that it belongs to, if that is another one.

    Examples:
        >>> with llmeval.workflow("answer") as span:
        ...     span.response = "Slate."
        ...     llmeval.submit_evaluation(label="cites_a_page", value=False)
        >>> llmeval.submit_evaluation(label="context_relevance", value=0.85, span=span)
    """
    about: dict[str, Any] = {"eval_scope": eval_scope, "ml_app": ml_app}
    join_on: dict[str, Any] = {}
    if type(span_with_tag_value) is dict:
        tag = {key: span_with_tag_value.get(f"tag_{key}") for key in ("key", "value")}
        join_on["tag"] = tag
    _submit(
        "heuristic", label, value, metric_type, span, reasoning, assessment, tags, metadata,
        timestamp_ms, about, join_on,
    )  # fmt: skip


def submit_feedback(
    *,
    label: str,
    value: Any,
    metric_type: str | None = None,
    span: Span | Mapping[str, str] | None = None,
    reasoning: str | None = None,
    assessment: str | None = None,
    submitter: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    timestamp_ms: int | None = None,
    span_id: str | None = None,
    trace_id: str | None = None,
    session_id: str | None = None,
    feedback_join_key: str | None = None,
    ml_app: str | None = None,
    field: str | None = None,
    source: Literal["user", "review"] = "user",
) -> None:
    """Submit what a person thinks of an answer.

    Labels by people are kept apart from those by evaluators. It never raises. Feedback that cannot
    be used is counted.

    Args:
        label: The name of the question that the person answered, such as ``helpful``; with
            ``source="review"`` also that of the evaluator whose answer the person gave, too.
        value: A number (score), a string (category) or a bool (thumbs up or down).
        metric_type: ``score``, ``categorical`` or ``boolean``; see `submit_evaluation`.
        span: A span, or what ``export_span()`` returned; the active span by default.
        reasoning: Why, in the person's words.
        assessment: A word for the value, such as ``pass`` or ``fail``.
        submitter: Who the person is, such as ``{"id": "42"}``.
        tags: Labels to filter by.
        metadata: Anything else worth keeping.
        timestamp_ms: When it was given, in milliseconds since the epoch; now by default.
            A number that can be no such time, such as nanoseconds, counts as now.
        span_id: Instead of a span: its id.
        trace_id: Instead of a span, in Datadog: the trace that the feedback is about.
        session_id: Instead of a span, in Datadog: the session that the feedback is about.
        feedback_join_key: Instead of a span, in Datadog: a key that the app gave to the span.
        ml_app: In Datadog: the app that it belongs to, if that is another one.
        field: The path of the one field of a structured answer that it is about, such as
            ``total`` or ``lines[2].amount``; the whole answer by default.
        source: Who says it. A ``user`` of the app chooses what to rate, and maybe sends the label
            itself: reports show that, and it never stands for a judge's verdict or corrects one,
            whatever the label is. A ``review`` is by somebody who checked the answer for you:
            under the name of a judge, it is a label that the judge is measured and calibrated by.
            The metadata of the feedback say so as ``source``.

    Examples:
        >>> with llmeval.workflow("answer") as span:
        ...     span.response = "Slate."
        >>> llmeval.submit_feedback(label="helpful", value=True, span=span, submitter={"id": "42"})
    """
    about: dict[str, Any] = {
        "submitter": submitter, "ml_app": ml_app, values.FIELD: field,
        values.SOURCE: values.REVIEW if _is_review(source) else values.USER,
    }  # fmt: skip
    ids = {
        "span_id": span_id, "trace_id": trace_id, "session_id": session_id,
        "feedback_join_key": feedback_join_key,
    }  # fmt: skip
    _submit(
        "human", label, value, metric_type, span, reasoning, assessment, tags, metadata,
        timestamp_ms, about, ids,
    )  # fmt: skip


def _submit(  # noqa: PLR0917 - the two public functions name them all
    kind: EvaluatorKind,
    label: Any,
    value: Any,
    metric_type: Any,
    span: Any,
    reasoning: Any,
    assessment: Any,
    tags: Any,
    metadata: Any,
    timestamp_ms: Any,
    about: dict[str, Any],
    join_on: dict[str, Any],
) -> None:
    try:
        room = new_room()
        score = _value(capture(value, room), capture(metric_type, room))
        if type(label) is not str or not label or score is None:
            caught.add("submit_evaluation: label or value cannot be used")
            return
        pipeline = runtime.pipeline()
        if pipeline is None:
            return
        joined = _captured(join_on, room)
        if span is None and "span_id" in joined:
            span = joined
        elif span is None and joined:
            about["join_on"] = joined
        details = {**_mapping("metadata", metadata, room), **_captured(about, room)}
        if labels := _mapping("tags", tags, room):
            details["tags"] = labels
        if details and state.identities is not None:
            details = state.identities.without(details)
        target = Target() if "join_on" in about else _target(span)
        evaluation = Evaluation(
            label[:200],
            score,
            _plain(assessment, room) if type(assessment) is str else None,
            _plain(reasoning, room) if type(reasoning) is str else None,
            metadata=details,
            evaluator_kind=kind,
        )
        is_time = type(timestamp_ms) is int and 0 <= timestamp_ms < 1 << 43  # 63 bits of ns
        at = timestamp_ms * 1_000_000 if is_time else time_ns()
        serial = f"{target.span_id or 'none'}-{evaluation.name}-{new_span_id():016x}"
        pipeline.submit(EvaluationEvent(serial, target, evaluation, at), SMALL + used(room))
    except Exception as error:
        if not swallow("submit_evaluation", error):
            raise


def _is_review(source: object) -> bool:
    return type(source) is str and source == values.REVIEW


def _plain(value: Any, room: Room) -> Any:
    """Capture a value; what stands for one that was not read is a text like any other here."""
    return plain_text(capture(value, room))


def _captured(values: Mapping[str, Any], room: Room) -> dict[str, Any]:
    """Capture what there is of several arguments, whose own code must not run."""
    captured = {key: _plain(item, room) for key, item in values.items() if item is not None}
    return {key: item for key, item in captured.items() if item}


def _mapping(name: str, value: Any, room: Room) -> dict[str, Any]:
    """Capture a mapping; anything else is counted and left out."""
    captured = None if value is None else _plain(value, room)
    if type(captured) is dict:
        return captured
    if captured is not None:
        caught.add(f"submit_evaluation: {name} is no mapping")
    return {}


def _value(value: Any, metric_type: Any) -> float | bool | str | None:
    """Read a value as the metric type says, else as its own type; ``None`` if it cannot be."""
    if metric_type == "boolean" and type(value) in (bool, int):
        return bool(value)
    if metric_type == "categorical" and value is not None:
        return str(value)
    if metric_type == "score" and type(value) is bool:
        return float(value)
    if type(value) in (bool, str):
        return None if metric_type == "score" else value
    number = float(value) if type(value) in (int, float) else None
    return number if number is not None and abs(number) < float("inf") else None


def _target(span: object) -> Target:
    span = span if span is not None else current_span()
    if type(span) is Span:
        return Target(span.trace_id, span.span_id, span.name, span.kind)
    ids = capture(span)
    if type(ids) is dict and ids.get("span_id"):
        return Target(*read_ids(ids))
    caught.add("submit_evaluation outside a span")
    return Target()
