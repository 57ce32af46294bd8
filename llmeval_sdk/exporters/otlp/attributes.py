"""Makes the names, kinds and attributes of spans and evaluations, whoever sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk.exporters.otlp import content, names
from llmeval_sdk.model import JUDGE_TAG, Evaluation, EvaluationEvent, SpanData
from llmeval_sdk.model import values as _values
from llmeval_sdk.model.coerce import to_text


Attribute = str | bool | int | float | Sequence[str]
"""The types of an attribute's value; a sequence holds strings."""
MAX_EXPLANATION = 8_000
"""How many characters a text may have."""
MAX_OWN = 30
"""How many tags, metrics and scores a span may have of each; many backends allow 128 attributes."""


def name_of(span: SpanData) -> str:
    """Return the span's name by the rules of the conventions."""
    if is_judge(span):
        return f"evaluation {span.name}"
    operation = names.OPERATIONS.get(span.kind)
    if operation is None:
        return span.name
    about = None
    if span.kind in ("llm", "embedding"):
        about = span.model_name
    elif span.kind == "retrieval":
        about = _source(span)
    return f"{operation} {about or span.name}"


def kind_of(span: SpanData) -> int:
    """Return OpenTelemetry's kind of the span."""
    return names.INTERNAL if is_judge(span) else names.WIRE_KINDS.get(span.kind, names.INTERNAL)


def is_judge(span: SpanData) -> bool:
    """Return whether a span belongs to a judge's run."""
    return bool(span.links) and JUDGE_TAG in span.tags


def attributes_of(span: SpanData) -> dict[str, Attribute]:
    """Return all attributes of a span; structured values are JSON strings."""
    kind = span.kind
    judge = is_judge(span)
    attributes: dict[str, Attribute] = {
        names.KIND: "judge" if judge else kind,
        names.OI_KIND: names.OI_EVALUATOR if judge else names.OI_KINDS[kind],
    }
    if kind in names.OPERATIONS and not judge:
        attributes[names.OPERATION] = names.OPERATIONS[kind]
    if kind in names.NAME_OF:
        attributes[names.NAME_OF[kind]] = span.name
    if span.session_id:
        attributes[names.SESSION] = attributes[names.CONVERSATION] = span.session_id
    if kind == "retrieval":
        _retrieval(span, attributes)
    else:
        _add_content(span, attributes, chat=kind in ("workflow", "agent", "llm") and not judge)
    _model(span, attributes)
    if span.error is not None:
        attributes[names.ERROR_TYPE] = span.error.type
    _own(span, attributes)
    for evaluation in span.evaluations[:MAX_OWN]:
        _score(evaluation, attributes)
    return attributes


def _add_content(span: SpanData, attributes: dict[str, Attribute], *, chat: bool) -> None:
    request, response = span.request, span.response
    if request is not None:
        text, kind = content.text_of(request)
        attributes[names.OI_INPUT], attributes[names.OI_INPUT_TYPE] = text, kind
        if chat:
            messages, system = content.input_messages(request)
            attributes[names.INPUT_MESSAGES] = messages
            if system is not None:
                attributes[names.SYSTEM_INSTRUCTIONS] = system
        elif span.kind == "tool":
            attributes[names.TOOL_ARGUMENTS] = text
    if response is None:
        return
    reason = (
        _completion(response, attributes) if span.kind == "llm" and type(response) is dict else None
    )
    shown = to_text(response) if span.kind == "llm" else response
    text, kind = content.text_of(shown)
    attributes[names.OI_OUTPUT], attributes[names.OI_OUTPUT_TYPE] = text, kind
    if chat:
        attributes[names.OUTPUT_MESSAGES] = content.output_messages(response, reason)
    elif span.kind == "tool":
        attributes[names.TOOL_RESULT] = text


def _retrieval(span: SpanData, attributes: dict[str, Attribute]) -> None:
    request = span.request
    if request is not None:
        text, kind = content.text_of(request)
        attributes[names.OI_INPUT], attributes[names.OI_INPUT_TYPE] = text, kind
        query = (
            next((request[k] for k in ("query", "question", "q") if k in request), None)
            if (type(request) is dict)
            else None
        )
        attributes[names.QUERY] = query if type(query) is str else text
    arguments = request if type(request) is dict else {}
    for name in ("top_k", "k", "limit"):
        value = span.attributes.get(name, arguments.get(name))
        if type(value) is int:
            attributes[names.TOP_K] = value
            break
    source = _source(span)
    if source:
        attributes[names.DATA_SOURCE] = source
    if span.retrieved_context is not None:
        attributes[names.DOCUMENTS] = content.chunks(span.retrieved_context)
        attributes[names.OI_OUTPUT] = content.pages(span.retrieved_context)
        attributes[names.OI_OUTPUT_TYPE] = names.JSON


def _source(span: SpanData) -> str | None:
    """Return the app's name of the place that was searched."""
    source = span.attributes.get("data_source")
    return source if type(source) is str else None


def _completion(response: dict[str, Any], attributes: dict[str, Attribute]) -> str | None:
    """Add what a chat completion says about itself, and return why it ended."""
    for name, key in ((names.RESPONSE_ID, "id"), (names.RESPONSE_MODEL, "model")):
        if type(response.get(key)) is str:
            attributes[name] = response[key]
    choices = response.get("choices")
    if type(choices) is not list:
        return None
    reasons = [str(choice["finish_reason"]) for choice in choices
               if type(choice) is dict and choice.get("finish_reason")]  # fmt: skip
    if reasons:
        attributes[names.FINISH_REASONS] = reasons
    return reasons[0] if reasons else None


def _model(span: SpanData, attributes: dict[str, Attribute]) -> None:
    if span.model_name:
        attributes[names.REQUEST_MODEL] = span.model_name
    if span.model_provider:
        attributes[names.PROVIDER] = span.model_provider
    usage = span.usage
    if usage is not None:
        if span.kind in ("llm", "embedding"):  # other spans have sums, which would count twice
            attributes[names.INPUT_TOKENS] = usage.input_tokens
            attributes[names.OUTPUT_TOKENS] = usage.output_tokens
        if usage.cost_usd is not None:
            attributes[names.COST] = usage.cost_usd
    prompt = span.prompt
    if prompt is not None:
        if prompt.template or prompt.chat_template:
            attributes[names.OI_TEMPLATE] = prompt.template or content.dumps(prompt.chat_template)
        if prompt.variables:
            attributes[names.OI_TEMPLATE_VARIABLES] = content.dumps(prompt.variables)
        if prompt.version:
            attributes[names.OI_TEMPLATE_VERSION] = prompt.version


def _own(span: SpanData, attributes: dict[str, Attribute]) -> None:
    """Add what the app annotated."""
    if span.attributes:
        attributes[names.METADATA] = content.dumps(span.attributes)
    if span.tags:
        _some(names.TAG, span.tags, attributes)
        user = span.tags.get("user_id") or span.tags.get("user.id")
        if user:
            attributes[names.USER] = user
    if span.metrics:
        _some(names.METRIC, span.metrics, attributes)
    if span.extractions is not None:
        attributes[names.EXTRACTIONS] = content.dumps(
            [
                {
                    "value": one.value,
                    "chunk_number": one.chunk_number,
                    "confidence": one.confidence,
                    "evidence": one.evidence,
                }
                for one in span.extractions
            ]
        )
    for name, truth in span.expected.items():
        if name == "expected_retrieved_context":
            attributes[names.EXPECTED + name] = content.pages(truth or ())
        else:
            attributes[names.EXPECTED + name] = content.text_of(truth)[0]


def _some(prefix: str, values: Mapping[str, Any], attributes: dict[str, Attribute]) -> None:
    for key, value in list(values.items())[:MAX_OWN]:
        plain = type(value) in (str, bool, int, float)
        attributes[prefix + key] = value if plain else content.dumps(value)


def _score(evaluation: Evaluation, attributes: dict[str, Attribute]) -> None:
    value, label = value_and_label(evaluation)
    if value is not None:
        attributes[names.SCORE + evaluation.name] = value
    if label is not None:
        attributes[names.LABEL + evaluation.name] = label


def value_and_label(evaluation: Evaluation) -> tuple[float | None, str | None]:
    """Split an outcome into a number and a word: a category has no number."""
    value, label = evaluation.value, evaluation.label
    if evaluation.error is not None or value is None:
        return None, None
    if type(value) is bool:
        return float(value), label or _values.word(value)
    if type(value) is str:
        return None, label or value
    return float(value), label


# -- evaluations ----------------------------------------------------------------------------------


class LogEvent(NamedTuple):
    """A log record without its time and its span."""

    severity: int
    severity_text: str
    body: str
    attributes: dict[str, Attribute]


def event_of(event: EvaluationEvent) -> LogEvent:
    """Describe an evaluation; a failed one is a warning with ``error.type`` and without a score."""
    evaluation = event.evaluation
    value, label = value_and_label(evaluation)
    attributes: dict[str, Attribute] = {
        names.EVALUATION_NAME: evaluation.name,
        names.EVALUATOR_KIND: names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        names.EVALUATOR_ID: evaluation.name,
        names.EVALUATOR_VERSION: evaluation.evaluator_version,
    }
    about = evaluation.metadata
    session = session_of(event)
    optional = {
        names.SCORE_VALUE: value,
        names.SCORE_LABEL: label,
        names.EXPLANATION: explanation_of(event),
        names.TARGET: event.target.span_name,
        names.PROBABILITY: evaluation.probability,
        names.DURATION: evaluation.duration,
        names.CONVERSATION: session,
        names.SESSION: session,
    }
    attributes.update({name: held for name, held in optional.items() if held not in (None, "")})
    if evaluation.inclusion_probability != 1.0:
        attributes[names.INCLUSION] = evaluation.inclusion_probability
    if evaluation.usage is not None:
        attributes[names.INPUT_TOKENS] = evaluation.usage.input_tokens
        attributes[names.OUTPUT_TOKENS] = evaluation.usage.output_tokens
    if about:
        if type(about.get("model")) is str:
            attributes[names.JUDGE_MODEL] = about["model"]
        attributes[names.DETAILS] = content.dumps(about)
    if evaluation.error is not None:
        attributes[names.ERROR_TYPE] = evaluation.error.type
        body = f"{evaluation.name} failed: {evaluation.error.type}"
        return LogEvent(names.WARN, "WARN", body, attributes)
    return LogEvent(names.INFO, "INFO", f"{evaluation.name}={_shown(event)}", attributes)


def session_of(event: EvaluationEvent) -> str | None:
    """Return the session that an evaluation is about; ``None`` for one of a span."""
    about = event.evaluation.metadata
    session_id = about.get("session_id") if about.get("scope") == "session" else None
    return session_id if isinstance(session_id, str) and session_id else None


def explanation_of(event: EvaluationEvent) -> str | None:
    """Return the explanation of an evaluation or of its failure, within bounds."""
    evaluation = event.evaluation
    text = evaluation.explanation
    if text is None and evaluation.error is not None:
        text = evaluation.error.message
    return text[:MAX_EXPLANATION] if text else None


def _shown(event: EvaluationEvent) -> str:
    value = event.evaluation.value
    return f"{value:.6g}" if type(value) is float else str(value)
