"""An evaluation -> the log event ``gen_ai.evaluation.result``."""

from __future__ import annotations

from typing import NamedTuple

from llmeval_sdk.exporters.otel import content, names
from llmeval_sdk.exporters.otel.attributes import value_and_label
from llmeval_sdk.exporters.otel.wire import Attribute
from llmeval_sdk.model import EvaluationEvent


MAX_EXPLANATION = 8_000


class Event(NamedTuple):
    """What a log record says, besides when and about which span."""

    severity: int
    severity_text: str
    body: str
    attributes: dict[str, Attribute]


def event_of(given: EvaluationEvent) -> Event:
    """Describe an evaluation; a failed one is a warning with ``error.type`` and has no score."""
    evaluation = given.evaluation
    value, label = value_and_label(evaluation)
    found: dict[str, Attribute] = {
        names.EVALUATION_NAME: evaluation.name,
        names.EVALUATOR_KIND: names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        names.EVALUATOR_ID: evaluation.name,
        names.EVALUATOR_VERSION: evaluation.evaluator_version,
    }
    if value is not None:
        found[names.SCORE_VALUE] = value
    if label is not None:
        found[names.SCORE_LABEL] = label
    explanation = explanation_of(given)
    if explanation:
        found[names.EXPLANATION] = explanation
    if given.target.span_name:
        found[names.TARGET] = given.target.span_name
    if evaluation.inclusion_probability != 1.0:
        found[names.INCLUSION] = evaluation.inclusion_probability
    if evaluation.duration is not None:
        found[names.DURATION] = evaluation.duration
    if evaluation.usage is not None:
        found[names.INPUT_TOKENS] = evaluation.usage.input_tokens
        found[names.OUTPUT_TOKENS] = evaluation.usage.output_tokens
    if evaluation.metadata:
        model = evaluation.metadata.get("model")
        if type(model) is str:
            found[names.JUDGE_MODEL] = model
        found[names.DETAILS] = content.dumps(evaluation.metadata)
    if evaluation.error is not None:
        found[names.ERROR_TYPE] = evaluation.error.type
        body = f"{evaluation.name} failed: {evaluation.error.type}"
        return Event(names.WARN, "WARN", body, found)
    return Event(names.INFO, "INFO", f"{evaluation.name}={_shown(given)}", found)


def explanation_of(given: EvaluationEvent) -> str | None:
    """Return why an evaluation came out as it did, or why it failed, bounded."""
    evaluation = given.evaluation
    text = evaluation.explanation
    if text is None and evaluation.error is not None:
        text = evaluation.error.message
    return text[:MAX_EXPLANATION] if text else None


def _shown(given: EvaluationEvent) -> str:
    value = given.evaluation.value
    return f"{value:.6g}" if type(value) is float else str(value)
