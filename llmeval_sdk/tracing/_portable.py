"""Writes a finished span as plain builtins and reads it again, for the spool and for redaction.

There are two parts. ``known`` holds what the SDK made itself: ids, times, names, numbers, scores.
``content`` holds what came from the app's values. A span without content can still be exported and
counted.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Prompt, Step, Usage
from llmeval_sdk.model.records import (
    ANSWERED,
    PROMPTED,
    Conversation,
    Retrieved,
    Spent,
    with_chunks,
)
from llmeval_sdk.model.span_fields import SPAN_FIELDS, Part
from llmeval_sdk.tracing._capture import new_room
from llmeval_sdk.tracing._span import Span, Spec


_FIRST_KNOWN = (
    "name", "trace_number", "span_number", "parent_number", "flags", "start_ns", "end_ns",
    "_metrics",
)  # fmt: skip
_FIRST_CONTENT = (
    "session_id", "_tags", "_arguments", "_request", "_response", "_value", "_confidence",
    "_field_config", "_retrieval", "_attributes",
)  # fmt: skip
"""The slots that the first release wrote, in its order. Those declared since then follow them."""


def _slots(part: Part, first: tuple[str, ...]) -> tuple[str, ...]:
    declared = (field.slot for field in SPAN_FIELDS if field.part is part)
    return (*first, *(slot for slot in declared if slot not in first))


_KNOWN = _slots(Part.KNOWN, _FIRST_KNOWN)
_CONTENT = _slots(Part.CONTENT, _FIRST_CONTENT)
_known = attrgetter(*_KNOWN)
_content = attrgetter(*_CONTENT)
_chunk = attrgetter(
    "content", "doc_uri", "chunk_id", "score", "page", "retrieval_method", "metadata"
)
_extraction = attrgetter("value", "chunk_number", "confidence", "evidence")
_step = attrgetter(*(row.name for row in fields(Step)))
_usage = attrgetter("input_tokens", "output_tokens", "total_tokens", "cost_usd")
_scored = attrgetter(
    "name", "value", "label", "evaluator_kind", "evaluator_version", "duration",
    "inclusion_probability", "probability",
)  # fmt: skip
_texts_of = attrgetter("explanation", "metadata")
_prompt_keys = attrgetter("rag_context_variables", "rag_query_variables")
_prompt_texts = attrgetter("id", "version", "template", "chat_template", "variables", "tags")
_USAGE, _RETRIEVED, _EXTRACTIONS, _ANSWERED, _NOTES, _STEP, _CONVERSATION = range(7)

Plain = tuple[tuple[Any, ...], "tuple[Any, ...] | None"]
"""``(known, content)``."""


def to_plain(span: Span, *, content: bool = True) -> Plain:
    """Write a finished span as builtins, sharing the values that it captured."""
    spec = span.spec
    evaluations = span.scored
    prompt = span._prompt
    known = (
        _known(span),
        (spec.kind, spec.name, _names(spec.evaluators) if spec.evaluators else (), spec.model_name,
         spec.model_provider),
        None if span._usage is None else _usage(span._usage),
        () if not evaluations else [(_scored(score), _failed(score)) for score in evaluations],
        None if span._error is None else span._error.type,
        None if prompt is None else _prompt_keys(prompt),
    )  # fmt: skip
    if not content:
        return known, None
    retrieved, extractions, expected = span._retrieved, span._extractions, span._expected
    return known, (
        _content(span),
        None if retrieved is None else [_chunk(chunk) for chunk in retrieved],
        None if extractions is None else [_extraction(extraction) for extraction in extractions],
        None if expected is None else _expected(expected),
        None if span._error is None else span._error.message,
        None if prompt is None else _prompt_texts(prompt),
        () if not span.gathered else [_collected(item) for item in span.gathered],
        () if not evaluations else [_evaluation_texts(score) for score in evaluations],
    )


def from_plain(plain: Plain) -> Span:
    """Read a span that `to_plain` wrote, with its evaluations."""
    known, content = plain
    (kind, name, evaluators, model, provider) = known[1]
    span: Span = object.__new__(Span)
    for slot in Span.__slots__:
        setattr(span, slot, None)
    _fill(span, _KNOWN, known[0], len(_FIRST_KNOWN))
    span._usage = Usage(*known[2]) if known[2] else None
    span.links, span._perf_ns, span.room = (), 0, new_room()
    _, retrieved, extractions, expected, message, prompt, collected, texts = content or _NO_CONTENT
    if content:
        _fill(span, _CONTENT, content[0], len(_FIRST_CONTENT))
    span._retrieved = _chunks(retrieved)
    span._extractions = _extractions(extractions)
    span._expected = expected and _of_expected(expected)
    span._error = None if known[4] is None else Failure(known[4], message)
    span._prompt = _prompt(known[5], prompt)
    span.gathered = [_item(item) for item in collected] or None
    span.scored = [
        _evaluation(scored, texts[index] if texts else None)
        for index, scored in enumerate(known[3])
    ] or None
    span.spec = Spec(kind, name, tuple(evaluators), span.session_id, span._tags, model, provider)
    return span


def _fill(span: Span, slots: tuple[str, ...], values: tuple[Any, ...], fewest: int) -> None:
    """Set the slots that were written, maybe by a release that knows fewer of them, or more."""
    if len(values) < fewest:
        raise ValueError("is no span")
    for slot, value in zip(slots, values, strict=False):
        setattr(span, slot, value)


_OF_CHUNKS = ("expected_retrieved_context", "retrieved_context", PROMPTED)
_NO_CONTENT: tuple[Any, ...] = (None, None, None, None, "", None, (), ())


def _names(evaluators: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(
        evaluator if type(evaluator) is str else str(getattr(evaluator, "name", ""))
        for evaluator in evaluators
    )


def _failed(evaluation: Evaluation) -> str | None:
    return None if evaluation.error is None else evaluation.error.type


def _evaluation_texts(evaluation: Evaluation) -> tuple[Any, ...]:
    error = evaluation.error
    return (*_texts_of(evaluation), None if error is None else error.message)


def _evaluation(scored: Any, texts: Any) -> Evaluation:
    (name, value, label, kind, version, duration, *probabilities), failed = scored
    explanation, metadata, message = texts or (None, {}, "")
    return Evaluation(
        name,
        value,
        label,
        explanation,
        None if failed is None else Failure(failed, message or ""),
        metadata,
        kind,
        version,
        duration,
        None,
        *probabilities,  # the first release wrote only one of the two
    )


def _expected(expected: dict[str, Any]) -> dict[str, Any]:
    """Write a mapping of annotated fields; the values of two of them are chunks."""
    return {
        key: [_chunk(chunk) for chunk in value]
        if key in _OF_CHUNKS and value is not None
        else value
        for key, value in expected.items()
    }


def _of_expected(expected: dict[str, Any]) -> dict[str, Any]:
    return {key: _chunks(value) if key in _OF_CHUNKS else value for key, value in expected.items()}


def _collected(item: Any) -> tuple[Any, ...]:  # noqa: PLR0911
    if type(item) is Spent:
        return (_USAGE, _usage(item.usage), item.model, dict(item.metrics))
    if type(item) is Retrieved:
        return (_RETRIEVED, item.start_ns, [_chunk(chunk) for chunk in item.chunks])
    if type(item) is Step:
        return (_STEP, _step(item))
    if type(item) is Conversation:
        return (_CONVERSATION, tuple(item))
    if item is ANSWERED:
        return (_ANSWERED,)
    if type(item) is dict:
        return (_NOTES, _expected(with_chunks(item)))
    return (_EXTRACTIONS, [_extraction(extraction) for extraction in item])


def _item(item: tuple[Any, ...]) -> Any:  # noqa: PLR0911
    if item[0] == _USAGE:
        return Spent(Usage(*item[1]), *item[2:])
    if item[0] == _RETRIEVED:
        return Retrieved(item[1], _chunks(item[2]) or (), ())
    if item[0] == _STEP:
        return Step(*item[1])
    if item[0] == _CONVERSATION:
        return Conversation(*item[1])
    if item[0] == _ANSWERED:
        return ANSWERED
    if item[0] == _NOTES:
        return _of_expected(item[1])
    return _extractions(item[1])


def _chunks(rows: Any) -> tuple[Chunk, ...] | None:
    return None if rows is None else tuple(Chunk(*row) for row in rows)


def _extractions(rows: Any) -> tuple[Extraction, ...] | None:
    return None if rows is None else tuple(Extraction(*row) for row in rows)


def _prompt(keys: Any, texts: Any) -> Prompt | None:
    if keys is None or texts is None:
        return None
    name, version, template, chat, variables, tags = texts
    return Prompt(name, version, template, chat, variables, keys[0], keys[1], tags)
