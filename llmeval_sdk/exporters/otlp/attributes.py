"""Makes the names, kinds and attributes of spans and evaluations, whoever sends them.

Requests, responses and chunks become JSON text. OTLP allows structured values of attributes, but
Phoenix flattens them and then no longer finds the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.json_texts import ENCODER, JsonTexts
from llmeval_sdk.model import (
    JUDGE_TAG,
    Chunk,
    Evaluation,
    EvaluationEvent,
    Prompt,
    SpanData,
    Target,
)
from llmeval_sdk.model import values as _values
from llmeval_sdk.model.chat import content_of, messages_of, role_of, to_text, unwrapped
from llmeval_sdk.model.structure import general_path, scored_fields
from llmeval_sdk.process.pieces import json_text
from llmeval_sdk.process.shield import caught, shield


def dumps(value: object) -> str:
    """Write plain values as JSON."""
    return json_text(ENCODER, value)


def loads(text: str | bytes) -> Any:
    """Read JSON."""
    return json.loads(text)


def text_of(value: object, texts: JsonTexts | None = None) -> tuple[str, str]:
    """Return a value as a text and the text's MIME type."""
    if type(value) is str:
        return value, names.TEXT
    return (texts or JsonTexts()).dumps(value), names.JSON


def input_messages(request: object, texts: JsonTexts | None = None) -> tuple[str, str | None]:
    """Return the messages of a request and, separately, its system instructions, as JSON."""
    texts = texts or JsonTexts()
    if type(request) is str:
        return f"[{_message('user', request, texts)}]", None
    messages = messages_of(request) or ()
    turns = [unwrapped(message) for message in messages if isinstance(message, Mapping)]
    if not turns or len(turns) < len(messages):
        return f"[{_message('user', texts.dumps(request), texts)}]", None
    system = [turn for turn in turns if role_of(turn) in ("system", "developer")]
    others = [_turn(turn) for turn in turns if turn not in system]
    instructions = [part for turn in system for part in _parts(turn)]
    return texts.dumps(others), texts.dumps(instructions) if instructions else None


def output_messages(
    response: object, finish_reason: str | None = None, texts: JsonTexts | None = None
) -> str:
    """Return the messages of a response as JSON."""
    text = response if type(response) is str else to_text(response) or ""
    return f"[{_message('assistant', text, texts or JsonTexts(), finish_reason)}]"


def chunks(retrieved: Sequence[Chunk], texts: JsonTexts) -> str:
    """Return retrieved chunks as OpenTelemetry's retrieval documents."""
    return texts.dumps([_document(chunk, place) for place, chunk in enumerate(retrieved)])


def pages(retrieved: Sequence[Chunk], texts: JsonTexts | None = None) -> str:
    """Return retrieved chunks in the form that MLflow shows as documents."""
    return (texts or JsonTexts()).dumps(
        [
            {"page_content": chunk.content or "", "metadata": _about(chunk), "id": chunk.chunk_id}
            for chunk in retrieved
        ]
    )


def _document(chunk: Chunk, place: int) -> dict[str, Any]:
    about = _about(chunk)
    about.pop("chunk_id", None)
    return {
        "id": chunk.chunk_id or chunk.doc_uri or str(place + 1),
        "content": chunk.content or "",
        **about,
    }


def _about(chunk: Chunk) -> dict[str, Any]:
    about: dict[str, Any] = dict(chunk.metadata) if chunk.metadata else {}
    for name in ("doc_uri", "chunk_id", "score", "page", "retrieval_method"):
        value = getattr(chunk, name)
        if value is not None:
            about[name] = value
    return about


def _message(role: str, text: str, texts: JsonTexts, finish_reason: str | None = None) -> str:
    end = f',"finish_reason":{texts.quote(finish_reason)}' if finish_reason else ""
    return f'{{"role":"{role}","parts":[{{"type":"text","content":{texts.quote(text)}}}]{end}}}'


def _turn(turn: Mapping[str, object]) -> dict[str, object]:
    return {"role": role_of(turn) or "user", "parts": _parts(turn)}


def _parts(turn: Mapping[str, object]) -> list[object]:
    parts = turn.get("parts")
    if type(parts) is list:
        return parts  # as OpenTelemetry has them
    content = content_of(turn)
    if type(content) is list:
        return [_part(part) for part in content]
    read = [] if content is None else [_part(content)]
    calls = turn.get("tool_calls")
    for call in calls if type(calls) is list else ():
        function = call.get("function") if type(call) is dict else None
        if type(function) is dict:
            read.append(
                {
                    "type": "tool_call",
                    "id": call.get("id"),
                    "name": function.get("name"),
                    "arguments": function.get("arguments"),
                }
            )
    return read


def _part(part: object) -> object:
    if type(part) is dict:
        return {"type": "text", "content": part["text"]} if "text" in part else part
    return {"type": "text", "content": part if type(part) is str else dumps(part)}


Attribute = str | bool | int | float | Sequence[str]
"""The types of an attribute's value; a sequence holds strings."""
MAX_EXPLANATION = 8_000
"""How many characters a text may have."""
_MAX_MEASURED = 1e15
"""A larger number of tokens or seconds is no measurement of a model call; it is sent as a metric of
the app's own."""
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
    if span.outside_parent:
        attributes[names.OUTSIDE_PARENT] = True
    if span.inclusion_probability is not None:
        attributes[names.INCLUSION_PROBABILITY] = span.inclusion_probability
    if span.session_id:
        attributes[names.SESSION] = attributes[names.CONVERSATION] = span.session_id
    texts = JsonTexts()
    if kind == "retrieval":
        _retrieval(span, attributes, texts)
    else:
        chat = kind in ("workflow", "agent", "llm") and not judge
        _add_content(span, attributes, texts, chat=chat)
    _model(span, attributes)
    if span.error is not None:
        attributes[names.ERROR_TYPE] = span.error.type
    _own(span, attributes, texts)
    for evaluation in span.evaluations[:MAX_OWN]:
        _score(evaluation, attributes)
    return attributes


def _add_content(
    span: SpanData, attributes: dict[str, Attribute], texts: JsonTexts, *, chat: bool
) -> None:
    request, response = span.request, span.response
    if request is not None:
        text, kind = text_of(request, texts)
        attributes[names.OI_INPUT], attributes[names.OI_INPUT_TYPE] = text, kind
        if chat:
            messages, system = input_messages(request, texts)
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
    text, kind = text_of(shown, texts)
    attributes[names.OI_OUTPUT], attributes[names.OI_OUTPUT_TYPE] = text, kind
    if chat:
        attributes[names.OUTPUT_MESSAGES] = output_messages(response, reason, texts)
    elif span.kind == "tool":
        attributes[names.TOOL_RESULT] = text


def _retrieval(span: SpanData, attributes: dict[str, Attribute], texts: JsonTexts) -> None:
    request = span.request
    if request is not None:
        text, kind = text_of(request, texts)
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
        attributes[names.DOCUMENTS] = chunks(span.retrieved_context, texts)
        attributes[names.OI_OUTPUT] = pages(span.retrieved_context, texts)
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
    if span.prompt is not None:
        _prompt(span.prompt, attributes)


def _prompt(prompt: Prompt, attributes: dict[str, Attribute]) -> None:
    if prompt.id:
        attributes[names.PROMPT_NAME] = prompt.id
    if prompt.template or prompt.chat_template:
        attributes[names.OI_TEMPLATE] = prompt.template or dumps(prompt.chat_template)
    if prompt.variables:
        attributes[names.OI_TEMPLATE_VARIABLES] = dumps(prompt.variables)
    if prompt.version:
        attributes[names.PROMPT_VERSION] = attributes[names.OI_TEMPLATE_VERSION] = prompt.version


def _own(span: SpanData, attributes: dict[str, Attribute], texts: JsonTexts) -> None:
    """Add what the app annotated."""
    if span.attributes:
        attributes[names.METADATA] = texts.dumps(span.attributes)
    if span.tags:
        _some(names.TAG, span.tags, attributes)
        user = span.tags.get("user_id") or span.tags.get("user.id")
        if user:
            attributes[names.USER] = user
    if span.metrics:
        _metrics(span, attributes)
    if span.extractions is not None:
        attributes[names.EXTRACTIONS] = dumps(
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
            attributes[names.EXPECTED + name] = pages(truth or (), texts)
        else:
            attributes[names.EXPECTED + name] = text_of(truth, texts)[0]


def measured(span: SpanData) -> dict[str, float]:
    """Return those metrics of a model call that conventions have names for, within sane bounds.

    Other spans have none: they have the sums of their calls, which would count twice.
    """
    if span.kind not in ("llm", "embedding"):
        return {}
    numbers: dict[str, float] = {}
    for metric in names.MEASURED:
        number = span.metrics.get(metric, -1)
        if type(number) in (int, float) and 0 <= number < _MAX_MEASURED:
            is_time = metric == "time_to_first_token"
            numbers[metric] = float(number) if is_time else int(number)
    return numbers


def _metrics(span: SpanData, attributes: dict[str, Attribute]) -> None:
    """Add numbers, by the names of the conventions where they have some."""
    conventional = measured(span)
    for metric, number in conventional.items():
        for name in names.MEASURED[metric]:
            attributes[name] = number
    own = {name: number for name, number in span.metrics.items() if name not in conventional}
    _some(names.METRIC, own, attributes)


def _some(prefix: str, values: Mapping[str, Any], attributes: dict[str, Attribute]) -> None:
    for key, value in list(values.items())[:MAX_OWN]:
        plain = type(value) in (str, bool, int, float)
        attributes[prefix + key] = value if plain else dumps(value)


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
    attributes: dict[str, Attribute] = {
        names.EVALUATION_NAME: evaluation.name,
        names.EVALUATOR_KIND: names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        names.EVALUATOR_ID: evaluation.name,
        names.EVALUATOR_VERSION: evaluation.evaluator_version,
    }
    _add_outcome(event, attributes)
    if evaluation.inclusion_probability != 1.0:
        attributes[names.INCLUSION] = evaluation.inclusion_probability
    if evaluation.usage is not None:
        attributes[names.INPUT_TOKENS] = evaluation.usage.input_tokens
        attributes[names.OUTPUT_TOKENS] = evaluation.usage.output_tokens
    if evaluation.metadata:
        _add_metadata(event, attributes)
    if evaluation.error is not None:
        attributes[names.ERROR_TYPE] = evaluation.error.type
        body = f"{evaluation.name} failed: {evaluation.error.type}"
        return LogEvent(names.WARN, "WARN", body, attributes)
    return LogEvent(names.INFO, "INFO", f"{evaluation.name}={_shown(event)}", attributes)


def _add_outcome(event: EvaluationEvent, attributes: dict[str, Attribute]) -> None:
    evaluation = event.evaluation
    value, label = value_and_label(evaluation)
    if value is not None:
        attributes[names.SCORE_VALUE] = value
    if label:
        attributes[names.SCORE_LABEL] = label
    if explanation := explanation_of(event):
        attributes[names.EXPLANATION] = explanation
    if event.target.span_name:
        attributes[names.TARGET] = event.target.span_name
    if evaluation.probability is not None:
        attributes[names.PROBABILITY] = evaluation.probability
    if evaluation.duration is not None:
        attributes[names.DURATION] = evaluation.duration


def _add_metadata(event: EvaluationEvent, attributes: dict[str, Attribute]) -> None:
    about = event.evaluation.metadata
    if session := session_of(event):
        attributes[names.CONVERSATION] = attributes[names.SESSION] = session
    if isinstance(field := about.get(_values.FIELD), str) and field:
        attributes[names.FIELD] = field
    if type(about.get("model")) is str:
        attributes[names.JUDGE_MODEL] = about["model"]
    attributes[names.DETAILS] = dumps(about)


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


# Ratings of single steps and of single fields as events of their own, for backends that take any
# number of scores of a span.

_MAX_RATINGS = 100
"""Ratings of one evaluation that become events."""
_MAX_TEXT = 8_000
"""Characters of a rating or of its rationale."""


def count_refused(refused: Mapping[str, int]) -> None:
    """Count the ratings that a backend does not take; those that it takes are in no account."""
    for reason, times in refused.items():
        caught.add(f"ratings of parts: {reason}", times)


def part_events(events: Iterable[EvaluationEvent], *, fields: bool) -> list[EvaluationEvent]:
    """Return an event for each part that an evaluation rates: a step or, if asked for, a field.

    They are additions to the event of the whole and are not counted as deliveries.
    """
    parts: list[EvaluationEvent] = []
    for event in events:
        about = event.evaluation.metadata
        if "rated_spans" in about:
            with shield("ratings of parts"):
                parts.extend(_events_of_steps(event))
        if fields and "fields" in about:
            with shield("ratings of parts"):
                parts.extend(_events_of_fields(event))
    return parts


def _events_of_steps(event: EvaluationEvent) -> Iterator[EvaluationEvent]:
    """Make an event of each rating of a tool call, about the span of that call.

    The events are called ``<name>.step``, so that no backend counts them as further verdicts on the
    run. A call that could not be rated, or that has no span, has no event.
    """
    about = event.evaluation.metadata
    columns = [_column(about.get(key)) for key in ("rated_spans", "rated_steps", "ratings")]
    rationales = _column(about.get("rationales"))
    for place, (span_id, number, rating) in enumerate(zip(*columns, strict=False)):
        if not _is_span_id(span_id) or not isinstance(rating, (bool, int, float, str)):
            continue
        reason = rationales[place] if place < len(rationales) else None
        rated = _rated(
            event.evaluation, "step", rating, reason,
            {"step": number, "run_span_id": event.target.span_id},
        )  # fmt: skip
        target = Target(event.target.trace_id, span_id, None, "tool")
        yield replace(event, id=f"{event.id}-{span_id}", target=target, evaluation=rated)


def _events_of_fields(event: EvaluationEvent) -> Iterator[EvaluationEvent]:
    """Make an event of the chance of an error of each field, the riskiest fields first.

    The events are called ``<name>.field`` and have the field as a tag, without the places of its
    items, of which there may be any number; the path is in the metadata. A field without a chance
    was not checked and has no event.
    """
    checked = [
        (scored.chance, scored)
        for scored in scored_fields(event.evaluation)
        if scored.chance is not None
    ]
    checked.sort(key=lambda pair: -pair[0])
    for chance, scored in checked[:_MAX_RATINGS]:
        path = scored.path[:_MAX_TEXT]
        field = general_path(path)
        reason = scored.entry.get("reason") or scored.entry.get("rationale")
        about = {"path": path, _values.FIELD: field, "tags": {_values.FIELD: field}}
        rated = _rated(event.evaluation, "field", chance, reason, about)
        yield replace(event, id=f"{event.id}-{scored.place}", evaluation=rated)


def _rated(
    whole: Evaluation, part: str, rating: float | str, reason: object, about: Mapping[str, object]
) -> Evaluation:
    """Make the evaluation of a part. The tokens stay with the evaluation of the whole."""
    shared = {k: whole.metadata[k] for k in ("model", "why", "cached") if k in whole.metadata}
    return Evaluation(
        f"{whole.name}.{part}",
        rating[:_MAX_TEXT] if isinstance(rating, str) else rating,
        explanation=reason[:_MAX_TEXT] if isinstance(reason, str) else None,
        metadata={**shared, **about},
        evaluator_kind=whole.evaluator_kind,
        evaluator_version=whole.evaluator_version,
        inclusion_probability=whole.inclusion_probability,
    )


def _column(values: object) -> Sequence[Any]:
    return values[:_MAX_RATINGS] if isinstance(values, (list, tuple)) else ()


def _is_span_id(value: object) -> bool:
    """Say whether a value is the id of a span of W3C; redaction may have changed it."""
    if not isinstance(value, str) or len(value) != 16:
        return False
    return set(value) <= set("0123456789abcdef") and value.strip("0") != ""
