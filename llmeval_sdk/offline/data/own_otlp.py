"""Spans and evaluations of ours in OTLP, read back from what `exporters.otlp.attributes` wrote.

What OTLP does not carry cannot be read back: judges that did not run, the tokens of spans that call
no model, what a completion says beside its text, and all tags and metrics beyond the thirtieth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, get_args

from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.model import (
    JUDGE_TAG,
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    Prompt,
    SpanData,
    SpanKind,
    Target,
    Usage,
    values,
)
from llmeval_sdk.model.fields import to_chance
from llmeval_sdk.model.plain import UnreadableError, built
from llmeval_sdk.tracing.foreign.files import OtlpSpan, attributes_in, id_of


_KINDS = frozenset(get_args(SpanKind))
_EXPECTED = (
    "expected_facts", "expected_response", "expected_retrieved_context", "expected_trajectory",
    "abstained",
)  # fmt: skip
_CHUNK = ("doc_uri", "score", "page", "retrieval_method")


def is_ours(attributes: Mapping[str, Any]) -> bool:
    """Say whether `attributes_of` wrote the attributes of a span."""
    return names.KIND in attributes


def own_span(span: OtlpSpan) -> SpanData:
    """Read a span of ours back, as far as OTLP carries it.

    Raises:
        UnreadableError: an attribute holds what we do not write.
    """
    about = span.attributes
    kind = about[names.KIND]
    is_judge = kind == "judge"
    if is_judge:
        kind = "task"  # the wire does not say which
    if kind not in _KINDS:
        raise UnreadableError(f"{names.KIND} is {str(kind)[:40]!r}")
    request = _content(about, names.OI_INPUT, names.OI_INPUT_TYPE)
    response = retrieved = None
    if kind == "retrieval":
        retrieved = _chunks(_json(about, names.OI_OUTPUT))
    else:
        response = _content(about, names.OI_OUTPUT, names.OI_OUTPUT_TYPE)
    tags = _below(about, names.TAG)
    if is_judge:
        tags.setdefault(JUDGE_TAG, span.name.removeprefix("evaluation "))
    extractions = _json(about, names.EXTRACTIONS)
    return SpanData(
        span.trace_id, span.id, span.parent, _name(span, kind, is_judge=is_judge), kind,
        span.start_ns, span.end_ns,
        request=request,
        response=response,
        retrieved_context=retrieved,
        extractions=None if extractions is None
        else tuple(built(Extraction, item) for item in extractions),
        error=_failure(span),
        attributes=_json(about, names.METADATA) or {},
        metrics=_metrics(about),
        tags=tags,
        prompt=_prompt(about),
        usage=_usage(about),
        session_id=about.get(names.SESSION),
        model_name=about.get(names.REQUEST_MODEL),
        model_provider=about.get(names.PROVIDER),
        links=span.links,
        trace_flags=span.flags,
        expected=_expected(about),
        outside_parent=about.get(names.OUTSIDE_PARENT) is True,
        inclusion_probability=to_chance(about.get(names.INCLUSION_PROBABILITY)),
    )  # fmt: skip


def _name(span: OtlpSpan, kind: SpanKind, *, is_judge: bool) -> str:
    own = span.attributes.get(names.SPAN_NAME) or span.attributes.get(names.NAME_OF.get(kind, ""))
    if own:
        return str(own)
    prefix = "evaluation" if is_judge else names.OPERATIONS.get(kind, "")
    return span.name.removeprefix(f"{prefix} ")


def _json(about: Mapping[str, Any], name: str) -> Any:
    text = about.get(name)
    if text is None:
        return None
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise UnreadableError(f"{name} is not JSON") from None


def _content(about: Mapping[str, Any], name: str, kind: str) -> Any:
    return _json(about, name) if about.get(kind) == names.JSON else about.get(name)


def _below(about: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in about.items() if name.startswith(prefix)}


def _chunks(pages: Any) -> tuple[Chunk, ...] | None:
    """Read what `attributes.pages` wrote."""
    if not isinstance(pages, list):
        return None
    chunks = []
    for page in pages:
        known = dict(page.get("metadata") or {})
        plain = {name: known.pop(name, None) for name in _CHUNK}
        known.pop("chunk_id", None)
        content = page.get("page_content") or (None if plain["doc_uri"] else "")
        chunks.append(Chunk(content, chunk_id=page.get("id"), metadata=known or None, **plain))
    return tuple(chunks)


def _failure(span: OtlpSpan) -> Failure | None:
    kind = span.attributes.get(names.ERROR_TYPE)
    if kind is None:
        return None
    for event in span.events:
        if event.name == names.EXCEPTION:
            return Failure(str(kind), str(event.attributes.get(names.EXCEPTION_MESSAGE) or ""))
    return Failure(str(kind))


def _prompt(about: Mapping[str, Any]) -> Prompt | None:
    text = about.get(names.OI_TEMPLATE)
    variables = _json(about, names.OI_TEMPLATE_VARIABLES)
    version = about.get(names.OI_TEMPLATE_VERSION)
    if text is None and variables is None and version is None:
        return None
    chat = None
    if str(text).startswith("[{"):
        chat = _json(about, names.OI_TEMPLATE)
    return Prompt(
        version=version,
        template=None if chat else text,
        chat_template=tuple(chat) if chat else None,
        variables=variables or {},
    )


def _metrics(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a span, those that the conventions have names for among them."""
    measured = {
        metric: about[sent] for metric, (sent, *_) in names.MEASURED.items() if sent in about
    }
    return {**_below(about, names.METRIC), **measured}


def _usage(about: Mapping[str, Any]) -> Usage | None:
    put, got, cost = (
        about.get(name) for name in (names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.COST)
    )
    if put is None and got is None and cost is None:
        return None
    return Usage(put or 0, got or 0, (put or 0) + (got or 0), cost)


def _expected(about: Mapping[str, Any]) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    for name in _EXPECTED:
        text = about.get(names.EXPECTED + name)
        if text is None:
            continue
        if name in ("expected_response", "abstained"):
            expected[name] = text
            continue
        value = _json(about, names.EXPECTED + name)
        if name == "expected_retrieved_context":
            value = _chunks(value)
        expected[name] = tuple(value) if name == "expected_facts" else value
    return expected


_EVALUATOR_KINDS = {word: kind for kind, word in names.EVALUATOR_KINDS.items()}


def own_event(record: Mapping[str, Any]) -> EvaluationEvent | None:
    """Read an evaluation of ours from a log record; ``None`` for any other record.

    The ratings of single steps and fields are no evaluations by themselves: that of the whole has
    them in its metadata. Without an id in the record, its content makes one.

    Raises:
        UnreadableError: the record holds what we do not write.
    """
    about = attributes_in(record)
    kind = _EVALUATOR_KINDS.get(str(about.get(names.EVALUATOR_KIND)))
    event = record.get("eventName", record.get("event_name", about.get("event.name")))
    if event != names.EVENT or kind is None:
        return None
    name, details = about.get(names.EVALUATION_NAME), _json(about, names.DETAILS) or {}
    if type(name) is not str or type(details) is not dict:
        raise UnreadableError("an evaluation without a name, or with strange metadata")
    if _is_part(name, details):
        return None
    target = Target(
        id_of(record.get("traceId", record.get("trace_id")) or "") or None,
        id_of(record.get("spanId", record.get("span_id")) or "") or None,
        about.get(names.TARGET),
    )
    error, explanation = None, about.get(names.EXPLANATION)
    if about.get(names.ERROR_TYPE) is not None:
        error, explanation = Failure(str(about[names.ERROR_TYPE]), str(explanation or "")), None
    value, label = _value_of(about)
    used = _usage(about)
    evaluation = Evaluation(
        name,
        value,
        label,
        explanation,
        error,
        details,
        kind,
        about.get(names.EVALUATOR_VERSION, "1"),
        about.get(names.DURATION),
        used,
        about.get(names.INCLUSION, 1.0),
        about.get(names.PROBABILITY),
    )
    at = int(record.get("timeUnixNano", record.get("time_unix_nano")) or 0)
    return EvaluationEvent(
        about.get(names.EVALUATION_ID) or _derived(record, at), target, evaluation, at
    )


def _derived(record: Mapping[str, Any], at: int) -> str:
    content = json.dumps([at, attributes_in(record)], sort_keys=True, default=str)
    return "otlp-" + blake2b(content.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _is_part(name: str, details: Mapping[str, Any]) -> bool:
    """Say whether `attributes.part_events` made an event."""
    if name.endswith(".step"):
        return "run_span_id" in details and "step" in details
    return name.endswith(".field") and "path" in details and values.FIELD in details


def _value_of(about: Mapping[str, Any]) -> tuple[float | bool | str | None, str | None]:
    """Turn a number and a word back into a value and its label."""
    number, label = about.get(names.SCORE_VALUE), about.get(names.SCORE_LABEL)
    if number is None:
        return label, None
    if number in (0, 1) and label == values.word(number):
        return bool(number), None
    return float(number), label
