"""A live span that has ended: its contributions to the span above, and the forms that it takes.

`SpanData` is for exporters. Plain values go into the spool and through redaction, and can be read
as a span again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeVar

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Prompt, SpanData, Step, Usage
from llmeval_sdk.model.fields import note_kinds, to_chunks, to_details, to_usage
from llmeval_sdk.model.placeholders import NOT_READ, plain_text
from llmeval_sdk.model.records import (
    ANSWERED,
    OWNERS,
    PROMPTED,
    Contribution,
    Conversation,
    Retrieved,
    Spent,
    chunks_of_arguments,
    contributions_of,
    request_of,
    steps_above,
    with_chunks,
)
from llmeval_sdk.model.span_fields import DATA_FIELDS, SPAN_FIELDS, Form, Part
from llmeval_sdk.tracing._capture import capture, new_room
from llmeval_sdk.tracing._span import Link, Span, Spec, hide_ids, note_not_read


MAX_HELD = 16_777_216
"""Bytes of tool calls that an open run holds: what a longer one does then is no step of it."""


def settle(span: Span) -> None:
    """Complete a span that has ended with the documents and the usage that it returned."""
    kind = span.spec.kind
    if kind == "retrieval":
        if span._retrieved is None:
            span._retrieved = to_chunks(span._response)
    elif kind in ("llm", "embedding") and span._usage is None and type(span._response) is dict:
        used = span._response.get("usage")
        span._usage = to_usage(used)
        span._metrics = {**to_details(used), **(span._metrics or {})} or None
        note_kinds(used)
    if span.room[2]:
        note_not_read(span)


def roll_up(span: Span, *, ended: bool = False) -> None:
    """Contribute to the evaluated span above: documents, usage, annotations.

    A span that has ended takes nothing more, unless ``ended`` says that it is yet to be read.
    """
    owner, kind = span.owner, span.spec.kind
    if owner is None or (owner.end_ns and not ended):
        return
    if kind in OWNERS:
        _roll_up_steps(span, owner)
        return
    has_notes = (
        span.gathered
        or NOT_READ in (span._attributes or ())
        or span._extractions is not None
        or span._value is not None
        or span._confidence is not None
        or span._field_config is not None
        or span._retrieval is not None
        or span._expected
    )
    if not has_notes and kind not in ("llm", "tool"):  # as `contributions_of`, without calling it
        if kind == "retrieval" and span._retrieved is not None:
            owner.collect(Retrieved(span.start_ns, span._retrieved))
        if kind == "retrieval" or span._retrieved is None:
            return
    for item in contributions_of(span, span.gathered, keeps=span.is_evaluated):
        _contribute(item, span, owner)


def _roll_up_steps(span: Span, owner: Span) -> None:
    """Contribute the steps of an agent to the agent above it; all else of it is its own."""
    above: Span | None = owner
    while above is not None and above.spec.kind != "agent":
        above = above.owner
    if above is not None and not above.end_ns and _has_room(above, span, span.held):
        for step in steps_above(span, span.gathered):
            above.collect(step)


def _contribute(item: Contribution, span: Span, owner: Span) -> None:
    """Give a contribution to the span that it belongs to, which mostly is the owner."""
    if item is ANSWERED:
        above: Span | None = owner
        while above is not None:
            if ANSWERED not in (above.gathered or ()):
                above.collect(item)
            above = above.owner
    elif type(item) is Spent:
        (_call_above(span, owner) or owner).collect(item)
    elif type(item) is Conversation:
        _give_conversation(item, owner)
    elif type(item) is not Step or _has_room(owner, span, span.size):
        owner.collect(item)


def _has_room(owner: Span, span: Span, size: int) -> bool:
    """Say whether a run may hold steps of this size as well; else leave a note in their place."""
    if owner.held + size <= MAX_HELD:
        owner.held += size
        return True
    note = f"[left out: tool calls beyond the {MAX_HELD >> 20} MB that a run may hold]"
    if getattr((owner.gathered or (None,))[-1], "content", None) != note:
        owner.collect(Step("system", note, start_ns=span.start_ns))
    return False


def _give_conversation(conversation: Conversation, owner: Span) -> None:
    """Give the messages of a model call to the owner, unless it holds a longer conversation."""
    gathered = owner.gathered or ()
    place = next((place for place, item in enumerate(gathered) if type(item) is Conversation), None)
    if place is None:
        owner.collect(conversation)
    elif len(conversation.messages) >= len(gathered[place].messages):
        owner.gathered[place] = conversation  # type: ignore[index]


def _call_above(span: Span, owner: Span) -> Span | None:
    """Return the model call around a model call: its usage may include the inner one's."""
    above = span.parent
    while type(above) is Span and above is not owner:
        if above.spec.kind == "llm":
            return None if above.end_ns else above
        above = above.parent
    return None


_APART = frozenset((
    "trace_id", "span_id", "parent_id", "kind", "model_name", "model_provider", "trace_flags",
    "request", "retrieved_context", "evaluations", "error",
))  # fmt: skip
"""Fields of `SpanData` that are not simply the value of a slot of the live span."""
_AS_THEY_ARE = tuple(field for field in DATA_FIELDS if field.name not in _APART)
_WITHOUT_CONTENT = SpanData("", "", None, "", "task", 0, 0)
_BLANK = {
    field.name: getattr(_WITHOUT_CONTENT, field.name) for field in DATA_FIELDS if field.is_content
}


def span_data(span: Span, *, content: bool = True) -> SpanData:
    """Return a finished span for the exporters; without ``content`` it has no texts.

    It is written out, as a loop over the table of fields takes 1.5 times as long for each span; a
    test compares it with the table.
    """
    spec, request, config = span.spec, request_of(span), span._field_config
    data = SpanData(
        span.trace_id, span.span_id, span.parent_id, span.name, spec.kind, span.start_ns,
        span.end_ns, request, span._response, _context(span, request), span._extractions,
        span._error, span._attributes or {}, span._metrics or {}, span._tags or {}, span._prompt,
        span._usage, span.session_id, spec.model_name, spec.model_provider, span.links,
        tuple(span.scored or ()), span.flags, span._expected or {}, span.context, span._value,
        span._confidence, None if config is None else _without_code(config), span._retrieval,
        span.outside_parent, span.inclusion_probability,
    )  # fmt: skip
    if span.room[2]:
        data = _in_plain_texts(data)
    if content:
        return data
    return replace(
        data,
        retrieved_context=_without_content(data.retrieved_context),
        evaluations=tuple(map(without_content, data.evaluations)),
        error=None if data.error is None else Failure(data.error.type),
        **_BLANK,
    )


def _in_plain_texts(data: SpanData) -> SpanData:
    """Return a span's data without placeholders: exporters know the types of plain values."""
    chunks, extractions, prompt = data.retrieved_context, data.extractions, data.prompt
    return replace(
        data,
        **{
            field.name: plain_text(getattr(data, field.name))
            for field in DATA_FIELDS
            if field.form in (Form.VALUE, Form.MAPPING, Form.EXPECTED)
        },
        retrieved_context=chunks and tuple(map(_in_plain_text, chunks)),
        extractions=extractions and tuple(map(_in_plain_text, extractions)),
        prompt=prompt and replace(prompt, variables=plain_text(prompt.variables)),
    )


_Noun = TypeVar("_Noun", Chunk, Extraction)


def _in_plain_text(noun: _Noun) -> _Noun:
    return type(noun)(**{row.name: plain_text(getattr(noun, row.name)) for row in fields(noun)})


def _without_code(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return the field's configuration without a format that is code of this process."""
    form = config.get("format")
    if type(form) is re.Pattern and form.flags == re.UNICODE:
        return {**config, "format": form.pattern}
    if type(form) is re.Pattern or type(form) is FunctionType:
        return {name: item for name, item in config.items() if name != "format"}
    return config


def _context(span: Span, request: object) -> tuple[Chunk, ...] | None:
    """Return the span's chunks: its own, else those of an argument that is not in its request."""
    if span._retrieved is not None or span._arguments is None or not span.is_evaluated:
        return span._retrieved
    if span.gathered and any(type(item) is Retrieved for item in span.gathered):
        return None
    return None if request is span._arguments else chunks_of_arguments(span)


def without_content(evaluation: Evaluation) -> Evaluation:
    """Return an Evaluation without anything that may quote the app's texts."""
    error = evaluation.error
    return replace(
        evaluation,
        explanation=None,
        error=error and Failure(error.type),
        metadata={
            key: value
            for key, value in evaluation.metadata.items()
            if type(value) in (int, float, bool) or key in ("scope", "session_id")
        },
    )


def _without_content(chunks: tuple[Chunk, ...] | None) -> tuple[Chunk, ...] | None:
    return chunks and tuple(replace(chunk, content=None, metadata=None) for chunk in chunks)


def adopted(data: SpanData, *, evaluators: tuple[object, ...] = ()) -> Span:
    """Return a finished span of another library as a span of ours."""
    spec = Spec(
        data.kind, data.name, evaluators, data.session_id, None, data.model_name,
        data.model_provider,
    )  # fmt: skip
    parent = int(data.parent_id, 16) if data.parent_id else 0
    span = Span(spec, Link(int(data.trace_id, 16), parent, data.trace_flags))
    for field in _AS_THEY_ARE:
        if (value := getattr(data, field.name)) not in (None, (), {}):
            setattr(span, field.slot, value)
    span.span_number = int(data.span_id, 16)
    span._request = capture(data.request, span.room)
    span._response = capture(data.response, span.room)
    span._retrieved, span._error = data.retrieved_context, data.error
    if span.room[2]:
        note_not_read(span)
    hide_ids(span)
    return span


# A finished span as plain builtins.
#
# There are two parts. ``known`` holds ids, times, names, numbers and scores, which the SDK made
# itself. ``content`` holds the app's values. A span without content can still be exported and
# counted.


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
    span.fate = []
    _fill(span, _KNOWN, known[0], len(_FIRST_KNOWN))
    span._usage = Usage(*known[2]) if known[2] else None
    span.outside_parent = bool(span.outside_parent)  # absent in what 0.1 wrote
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


def _fill(span: Span, slots: tuple[str, ...], values: tuple[object, ...], fewest: int) -> None:
    """Set the slots that were written, maybe by a release that knows fewer of them, or more."""
    if len(values) < fewest:
        raise ValueError("is no span")
    for slot, value in zip(slots, values, strict=False):
        setattr(span, slot, value)


_OF_CHUNKS = ("expected_retrieved_context", "retrieved_context", PROMPTED)
_NO_CONTENT: tuple[Any, ...] = (None, None, None, None, "", None, (), ())


def _names(evaluators: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(
        evaluator if type(evaluator) is str else str(getattr(evaluator, "name", ""))
        for evaluator in evaluators
    )


def _failed(evaluation: Evaluation) -> str | None:
    return None if evaluation.error is None else evaluation.error.type


def _evaluation_texts(evaluation: Evaluation) -> tuple[object, ...]:
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


def _expected(expected: dict[str, Any]) -> dict[str, object]:
    """Write a mapping of annotated fields; the values of two of them are chunks."""
    return {
        key: [_chunk(chunk) for chunk in value]
        if key in _OF_CHUNKS and value is not None
        else value
        for key, value in expected.items()
    }


def _of_expected(expected: dict[str, object]) -> dict[str, object]:
    return {key: _chunks(value) if key in _OF_CHUNKS else value for key, value in expected.items()}


def _collected(item: Any) -> tuple[object, ...]:  # noqa: PLR0911
    if type(item) is Spent:
        return (_USAGE, _usage(item.usage), item.model, dict(item.metrics))
    if type(item) is Retrieved:
        return (_RETRIEVED, item.start_ns, [_chunk(chunk) for chunk in item.chunks], item.retrieval)
    if type(item) is Step:
        return (_STEP, _step(item))
    if type(item) is Conversation:
        return (_CONVERSATION, tuple(item))
    if item is ANSWERED:
        return (_ANSWERED,)
    if type(item) is dict:
        return (_NOTES, _expected(with_chunks(item)))
    return (_EXTRACTIONS, [_extraction(extraction) for extraction in item])


def _item(item: tuple[Any, ...]) -> object:  # noqa: PLR0911
    if item[0] == _USAGE:
        return Spent(Usage(*item[1]), *item[2:])
    if item[0] == _RETRIEVED:
        return Retrieved(item[1], _chunks(item[2]) or (), *item[3:])
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
